"""A side of a comparison that was measured, not described: a function asked from outside."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..findings import Finding
from ..pairs import Pairs
from ..rope import Rope

ROUGH = 1e-4  # relative: a frequency known no better than this is told as a warning


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurement:
    """The table of pairs that a function turned out to have.

    Attributes:
        pairs: the table; what multiplies the softmax scale cannot be seen, and is 1 in it.
        room: [P] radians a position, up to which each frequency may be another.
        factor_room: up to which the factor on cos and sin may be another.
        until: the largest position that the frequencies rest on.
        calls: of the function, so far.
        beyond: tokens, from which on the function has another table; None where none was met.
        deviation: how far the function was from these pairs on other vectors, over the largest number given.
        faults: what it does besides turning these pairs, as findings.
    """

    pairs: Pairs
    room: NDArray[np.float64]
    factor_room: float
    until: int
    calls: int
    beyond: int | None = None
    deviation: float = 0.0
    faults: tuple[Finding, ...] = ()

    @property
    def relative(self) -> float:
        """The largest room, relative to its frequency, of the pairs that turn more than their room."""
        speeds = np.abs(self.pairs.inv_freq)
        turning = speeds > self.room
        return float(np.max(self.room[turning] / speeds[turning], initial=0.0))

    def to_dict(self) -> dict[str, Any]:
        """Give how exactly was measured, as plain values."""
        return {
            "room": self.room.tolist(),
            "factor_room": self.factor_room,
            "until": self.until,
            "calls": self.calls,
            "beyond": self.beyond,
            "deviation": self.deviation,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """A function that `compare` takes in place of a description; the probe, which stands above, makes it.

    Attributes:
        name: what it is, in words.
        head_dim: D.
        longest: tokens, the longest sequence that it is asked with.
        measure: given a length (None: short ones first) and a number of axes, gives the table.
        explain: given a measurement, the other side's rope (None where it has none) and the length, gives the nearest
            description, and what it does otherwise, in words by kind.
    """

    name: str
    head_dim: int
    longest: int
    measure: Callable[[int | None, int], Measurement]
    explain: Callable[[Measurement, Rope | None, int | None], tuple[Rope | None, Mapping[str, str]]]


def rough(one: Measurement) -> bool:
    """Say whether the frequencies are known so poorly that equality says little."""
    return one.relative > ROUGH
