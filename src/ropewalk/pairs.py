"""The table of pairs: which two channels turn together, driven by which position, and how fast."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import RopewalkError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """A RoPE resolved to numbers: a struct of P-long, read-only arrays.

    Turning by position m multiplies the two channels of pair i, ``(x[first[i]], x[second[i]])``, by
    ``cos_sin_factor`` times the rotation through ``m[axis[i]] * inv_freq[i]`` radians.

    Attributes:
        first: [P] int64, the first channel of each pair.
        second: [P] int64, the second channel of each pair.
        axis: [P] int64, the position axis that drives each pair (0 where positions have one axis).
        inv_freq: [P] float64, radians a position; 0 for a pair that keeps still, negative when the direction is -1.
        cos_sin_factor: g, multiplies cos and sin.
        softmax_factor: multiplies the softmax scale 1/sqrt(head_dim); 1 unless the architecture does that.
        second_inv_freq: [P] float64 or None; only for maps whose two channels turn by different angles.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    axis: NDArray[np.int64]
    inv_freq: NDArray[np.float64]
    cos_sin_factor: float = 1.0
    softmax_factor: float = 1.0
    second_inv_freq: NDArray[np.float64] | None = None
    _key: tuple[Any, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("first", "second", "axis"):
            object.__setattr__(self, name, _frozen(getattr(self, name), np.int64))
        object.__setattr__(self, "inv_freq", _frozen(self.inv_freq, np.float64))
        columns = [self.first, self.second, self.axis, self.inv_freq]
        if self.second_inv_freq is not None:
            object.__setattr__(self, "second_inv_freq", _frozen(self.second_inv_freq, np.float64))
            columns.append(self.second_inv_freq)
        if len({column.shape for column in columns}) != 1 or self.first.ndim != 1:
            shapes = ", ".join(str(column.shape) for column in columns)
            raise RopewalkError(f"the columns of a pair table must be one-dimensional and equally long, got {shapes}.")
        if not all(np.isfinite(column).all() for column in columns[3:]):
            raise RopewalkError("every inv_freq must be a finite number of radians a position.")
        channels = np.concatenate([self.first, self.second])
        if channels.size and (channels.min() < 0 or np.unique(channels).size != channels.size):
            raise RopewalkError("every channel may stand in one pair only, and none may be negative.")
        key = (*(column.tobytes() for column in columns), self.cos_sin_factor, self.softmax_factor)
        object.__setattr__(self, "_key", key)

    def __len__(self) -> int:
        return self.first.shape[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pairs) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def is_rotation(self) -> bool:
        """Whether both channels of every pair turn by one angle, so that lengths and distances are kept."""
        return self.second_inv_freq is None or bool(np.array_equal(self.inv_freq, self.second_inv_freq))

    @property
    def num_axes(self) -> int:
        """How many position axes the pairs listen to (at least 1)."""
        return int(self.axis.max()) + 1 if len(self) else 1

    @property
    def wavelength(self) -> NDArray[np.float64]:
        """[P] float64, positions for one full turn, 2π/abs(inv_freq); infinity for a pair that keeps still."""
        with np.errstate(divide="ignore"):
            return 2 * np.pi / np.abs(self.inv_freq)

    def to_dict(self) -> dict[str, Any]:
        """Give the table as plain lists and numbers, ready for JSON."""
        return {
            "first": self.first.tolist(),
            "second": self.second.tolist(),
            "axis": self.axis.tolist(),
            "inv_freq": self.inv_freq.tolist(),
            "second_inv_freq": None if self.second_inv_freq is None else self.second_inv_freq.tolist(),
            "cos_sin_factor": self.cos_sin_factor,
            "softmax_factor": self.softmax_factor,
        }


def _frozen(values: ArrayLike, dtype: type) -> NDArray[Any]:
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array
