"""Position interpolation: every pair slowed by one factor."""

from dataclasses import dataclass
from typing import ClassVar

from .._checks import real
from ._frequencies import Frequencies, Steady, ladder, slowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Steady):
    """Every frequency divided by the factor: w_i / s.

    Source: Chen et al. 2023, Extending Context Window via Positional Interpolation, equation 4: f'(x, m) = f(x, mL/L').

    >>> Linear(factor=4.0).frequencies(10000.0, 4).inv_freq.tolist()
    [0.25, 0.0025]
    """

    factor: float

    rope_type: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", real("linear: factor", self.factor, above=0))

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the ladder divided by the factor; length and max_position_embeddings play no part."""
        return Frequencies(slowed(ladder(rope_theta, rotary_dim), self.factor, "linear: factor"))
