"""The table of pairs: which two channels turn together, driven by which position, and how fast."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._checks import MAX_HEAD_DIM, check_schema, fields_from_dict, items, real, shown
from .errors import RopewalkError

SCHEMA = "ropewalk.pairs/1"
_COLUMNS = ("first", "second", "axis", "inv_freq", "second_inv_freq")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """A RoPE resolved to numbers: a struct of P-long, read-only arrays.

    Turning by position m multiplies the two channels of pair i, ``(x[first[i]], x[second[i]])``, by
    ``cos_sin_factor`` times the rotation through ``m[axis[i]] * inv_freq[i]`` radians. Two tables are equal, and hash
    alike, when all their numbers are.

    Attributes:
        first: [P] int64, the first channel of each pair.
        second: [P] int64, the second channel of each pair.
        axis: [P] int64, the position axis that drives each pair (0 where positions have one axis).
        inv_freq: [P] float64, radians a position; 0 for a pair that keeps still, negative when the direction is -1.
        cos_sin_factor: g, multiplies cos and sin; above 0.
        softmax_factor: multiplies the softmax scale 1/sqrt(head_dim), above 0; 1 unless the architecture does that.
        second_inv_freq: [P] float64 or None; only for maps whose two channels turn by different angles: the second
            channel's.

    Raises:
        RopewalkError: for columns of unequal length, a channel in two pairs, or numbers that are not finite.

    >>> table = Pairs(first=[0, 1], second=[2, 3], axis=[0, 0], inv_freq=[1.0, 0.01])
    >>> len(table), table.wavelength.round(3).tolist(), table.is_rotation
    (2, [6.283, 628.319], True)
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
        names = _COLUMNS if self.second_inv_freq is not None else _COLUMNS[:-1]
        for name in names:
            dtype = np.float64 if name.endswith("inv_freq") else np.int64
            object.__setattr__(self, name, _frozen(name, getattr(self, name), dtype))
        for name in ("cos_sin_factor", "softmax_factor"):
            object.__setattr__(self, name, real(name, getattr(self, name), above=0))
        columns = [getattr(self, name) for name in names]
        if len({column.shape for column in columns}) != 1 or self.first.ndim != 1:
            shapes = ", ".join(str(column.shape) for column in columns)
            raise RopewalkError(f"the columns of a pair table must be one-dimensional and equally long, got {shapes}.")
        if not all(np.isfinite(column).all() for column in columns[3:]):
            raise RopewalkError("every inv_freq must be a finite number of radians a position.")
        channels = np.concatenate([self.first, self.second])
        if any(column.size and column.min() < 0 for column in (channels, self.axis)):
            raise RopewalkError("channels and axes are counted from 0: none may be negative.")
        found, counts = np.unique(channels, return_counts=True)
        if counts.size and counts.max() > 1:
            raise RopewalkError(f"every channel may stand in one pair only, got channel {found[counts > 1][0]} twice.")
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
        """How many rows of positions the pairs need: the highest axis they listen to, plus 1."""
        return int(self.axis.max()) + 1 if len(self) else 1

    @property
    def wavelength(self) -> NDArray[np.float64]:
        """[P] float64, positions for one full turn, 2π/abs(inv_freq); infinity for a pair that keeps still."""
        with np.errstate(divide="ignore", over="ignore"):
            return 2 * np.pi / np.abs(self.inv_freq)

    def to_dict(self) -> dict[str, Any]:
        """Give the table as plain lists and numbers for JSON, without loss; from_dict reads it back."""
        return {
            "schema": SCHEMA,
            "first": self.first.tolist(),
            "second": self.second.tolist(),
            "axis": self.axis.tolist(),
            "inv_freq": self.inv_freq.tolist(),
            "second_inv_freq": None if self.second_inv_freq is None else self.second_inv_freq.tolist(),
            "cos_sin_factor": self.cos_sin_factor,
            "softmax_factor": self.softmax_factor,
        }

    @classmethod
    def from_dict(cls, data: object) -> "Pairs":
        """Build a table from what to_dict gives.

        Raises:
            RopewalkError: for another schema, unknown or missing keys, or columns that are no table.
        """
        check_schema(data, SCHEMA, "a table of pairs")
        given = fields_from_dict(cls, data, "a table of pairs", ignore=("schema",))
        for name in _COLUMNS:
            if given.get(name) is not None:
                given[name] = items(name, given[name], at_most=MAX_HEAD_DIM // 2)
        return cls(**given)


def _frozen(name: str, values: object, dtype: type) -> NDArray[Any]:
    """Give a read-only copy; whole numbers are not made of text, booleans or fractions."""
    try:
        given = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        given = np.array(None)
    allowed = "iu" if dtype is np.int64 else "iuf"
    if given.dtype.kind not in allowed and given.size:
        words = "whole numbers" if dtype is np.int64 else "numbers"
        raise RopewalkError(f"{name} must be a list of {words}, got {shown(values)}.")
    array = given.astype(dtype)
    array.setflags(write=False)
    return array
