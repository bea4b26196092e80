"""A table of pairs brought into order."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..fitting.numbers import Array
from ..pairs import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A table of pairs with first below second, sorted by first.

    Attributes:
        first: [P] int64.
        second: [P] int64.
        axis: [P] int64.
        freq: [P] float64, signed: positive when first turns towards second.
        second_freq: [P] float64 or None, the second channel's.
        error: [P] float64.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    axis: NDArray[np.int64]
    freq: Array
    second_freq: Array | None
    error: Array

    @classmethod
    def of(cls, pairs: Pairs, error: NDArray[np.float64] | None) -> "Measured":
        """Bring a table into order."""
        noise = np.zeros(len(pairs)) if error is None else np.broadcast_to(np.asarray(error, float), (len(pairs),))
        swapped = pairs.first > pairs.second
        other = pairs.inv_freq if pairs.second_inv_freq is None else pairs.second_inv_freq
        freq = np.where(swapped, -other, pairs.inv_freq)
        second = np.where(swapped, -pairs.inv_freq, other)
        low, high = np.minimum(pairs.first, pairs.second), np.maximum(pairs.first, pairs.second)
        order = np.argsort(low, kind="stable")
        two = pairs.second_inv_freq is not None and bool(
            (np.abs(freq - second) > 8 * noise + 1e-6 * np.maximum(np.abs(freq), np.abs(second))).any()
        )
        return cls(
            first=low[order],
            second=high[order],
            axis=pairs.axis[order],
            freq=freq[order],
            second_freq=second[order] if two else None,
            error=np.abs(noise[order]),
        )

    @property
    def angles(self) -> Array:
        """All frequencies, the first channels' and then the second's where they differ."""
        return self.freq if self.second_freq is None else np.concatenate([self.freq, self.second_freq])

    @property
    def direction(self) -> int | None:
        """+1 or -1 where every pair turns that way; None where they disagree."""
        turning = self.angles[np.abs(self.angles) > 4 * np.tile(self.error, len(self.angles) // max(len(self.freq), 1))]
        if (turning >= 0).all():
            return 1
        return -1 if (turning <= 0).all() else None
