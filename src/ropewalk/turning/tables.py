"""Cos and sin exact at any position: float64 angles, or two small tables whose products reach a million positions."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import RopewalkError
from ..pairs import Pairs

ROWS = 1024  # of each table; a power of two, so that positions are taken apart by shifts
BITS = 10
SPLIT_LIMIT = ROWS**3  # positions below this are reached by the three tables

Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SplitTables:
    """Cos and sin of the positions 0 … 1023, of each 1024th, and of each 2^20th, without the factor g.

    A position m with a = abs(m) turns by the sum of three angles: those of ``fine`` row a & 1023, ``coarse`` row
    (a >> 10) & 1023 and ``far`` row a >> 20. Cos and sin of a sum are products of those of its parts; sin takes the
    sign of m. Two tables of 64 pairs take 2 MB and reach 1,048,576 positions, where one long table takes 1 GB.

    Attributes:
        speeds: [C] float64, radians a position: a column for each pair, or two for a map that is no rotation (first
            every ``inv_freq``, then every ``second_inv_freq``).
    """

    speeds: Float64

    @cached_property
    def fine(self) -> tuple[Float64, Float64]:
        """(cos, sin), each [1024, C] float64, of the positions 0, 1, … 1023."""
        return self._rows(1)

    @cached_property
    def coarse(self) -> tuple[Float64, Float64]:
        """(cos, sin), each [1024, C] float64, of the positions 0, 1024, … 1023·1024."""
        return self._rows(ROWS)

    @cached_property
    def far(self) -> tuple[Float64, Float64]:
        """(cos, sin), each [1024, C] float64, of the positions 0, 2^20, … 1023·2^20."""
        return self._rows(ROWS * ROWS)

    def _rows(self, step: int) -> tuple[Float64, Float64]:
        angles = (step * np.arange(ROWS, dtype=np.float64))[:, None] * self.speeds
        both = np.cos(angles), np.sin(angles)
        for table in both:
            table.setflags(write=False)
        return both


@lru_cache(maxsize=64)
def split_tables(pairs: Pairs) -> SplitTables:
    """Give the tables of these pairs; they are built when first used, and once for each set of speeds.

    >>> tables = split_tables(Pairs(first=[0], second=[1], axis=[0], inv_freq=[0.5]))
    >>> cos, sin = tables.coarse
    >>> cos.shape, bool(cos[3, 0] == np.cos(0.5 * 3 * 1024))
    ((1024, 1), True)
    """
    return _of_speeds(speeds(pairs).tobytes())


@lru_cache(maxsize=64)
def _of_speeds(content: bytes) -> SplitTables:
    return SplitTables(np.frombuffer(content))


def speeds(pairs: Pairs) -> Float64:
    """Give the speed of each column of the tables: [P], or [2P] for a map that is no rotation."""
    if pairs.is_rotation:
        return pairs.inv_freq
    assert pairs.second_inv_freq is not None
    return np.concatenate([pairs.inv_freq, pairs.second_inv_freq])


def column_axes(pairs: Pairs) -> NDArray[np.int64]:
    """Give the position axis that drives each column of the tables."""
    return pairs.axis if pairs.is_rotation else np.concatenate([pairs.axis, pairs.axis])


def angles(position_ids: Float64, axis: NDArray[np.int64], inv_freq: Float64) -> Float64:
    """Multiply positions [A, ..., S] and frequencies [C] to angles [..., S, C] in radians.

    Raises:
        RopewalkError: for an angle that leaves float64.
    """
    with np.errstate(over="ignore"):
        product = np.moveaxis(position_ids[axis], 0, -1) * inv_freq
    if not np.isfinite(product).all():
        raise _beyond_float64()
    return product


def check_reach(position_ids: NDArray[Any], pairs: Pairs) -> None:
    """Raise where the largest position times the highest speed leaves float64."""
    if not position_ids.size or not len(pairs):
        return
    with np.errstate(over="ignore"):
        reach = np.abs(position_ids.astype(np.float64)).max() * np.abs(speeds(pairs)).max()
    if not np.isfinite(reach):
        raise _beyond_float64()


def _beyond_float64() -> RopewalkError:
    return RopewalkError("a position times a frequency leaves float64: give smaller positions.")


def cos_sin(pairs: Pairs, position_ids: Float64) -> tuple[Float64, Float64]:
    """Give cos and sin of every column's angle, without g.

    Args:
        pairs: the table of pairs, P rows; C is P, or 2P for a map that is no rotation.
        position_ids: [A, ..., S] float64, finite.

    Returns:
        (cos, sin), each [..., S, C] float64; an angle is off by at most its own size times 2^-53 radians.

    >>> cos, sin = cos_sin(Pairs(first=[0], second=[1], axis=[0], inv_freq=[1.0]), np.array([[0.0, 1e6]]))
    >>> cos.round(6).tolist()
    [[1.0], [0.936752]]
    """
    angle = angles(position_ids, column_axes(pairs), speeds(pairs))
    return np.cos(angle), np.sin(angle)


class Coefficients(NamedTuple):
    """What turns the two channels (a, b) of each pair: (a·c0 - b·s0, b·c1 + a·s1); arrays of any library."""

    c0: Any
    s0: Any
    c1: Any
    s1: Any


class TurningMap(Protocol):
    """What coefficients needs to know of a pair table."""

    @property
    def is_rotation(self) -> bool: ...  # noqa: D102

    @property
    def cos_sin_factor(self) -> float: ...  # noqa: D102

    def __len__(self) -> int: ...


def coefficients(
    cos: Any, sin: Any, pairs: TurningMap, *, transpose: bool = False, inverse: bool = False
) -> Coefficients:
    """Give the coefficients of M = g·R from cos and sin [..., C], of its inverse, or of either's transpose.

    Only slices, products and sums are used, so that NumPy, torch and JAX share it. Where a map that is no rotation has
    no inverse, what comes out is not finite.
    """
    p, g = len(pairs), pairs.cos_sin_factor
    if pairs.is_rotation:
        scale = 1 / g if inverse else g
        c, s = (cos, sin) if scale == 1 else (cos * scale, sin * scale)
        if transpose != inverse:
            s = -s
        return Coefficients(c, s, c, s)
    cos_a, cos_b, sin_a, sin_b = cos[..., :p], cos[..., p:], sin[..., :p], sin[..., p:]
    if inverse:
        scale = 1 / (g * (cos_a * cos_b + sin_a * sin_b))  # the map's determinant is g² times the bracket
        c0, s0, c1, s1 = scale * cos_b, -scale * sin_a, scale * cos_a, -scale * sin_b
    else:
        c0, s0, c1, s1 = g * cos_a, g * sin_a, g * cos_b, g * sin_b
    return Coefficients(c0, -s1, c1, -s0) if transpose else Coefficients(c0, s0, c1, s1)


def check_invertible(pairs: Pairs, cos: Float64, sin: Float64) -> None:
    """Raise where a map that is no rotation has no inverse at these angles."""
    if pairs.is_rotation:
        return
    p = len(pairs)
    if np.any(np.abs(cos[..., :p] * cos[..., p:] + sin[..., :p] * sin[..., p:]) < 1e-9):
        raise RopewalkError("this map has no inverse at these positions: its two angles differ by a quarter turn.")
