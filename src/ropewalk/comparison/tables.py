"""Two tables of pairs, subtracted: which pair differs, in what, and how far the angles drift apart."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import MAX_POSITION, items, whole
from ..errors import RopewalkError
from ..pairs import Pairs

DISTANCES = (1, 128, 4096, 32_768, 131_072)
TOLERANCE = 1e-9
MAX_DISTANCES = 64


class Turn(NamedTuple):
    """One pair of one table: channel first turns towards channel second by inv_freq radians a position."""

    pair: int
    first: int
    second: int
    axis: int
    inv_freq: float
    second_inv_freq: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDifference:
    """One pair in both tables.

    Attributes:
        pair: its number in A; in B where A has none.
        a: the pair in A, None where A has none.
        b: the pair in B, None where B has none.
        ratio: how many times as fast the pair turns in B as in A; None where one of them keeps still or is missing.
        differs: what differs: "missing", "channels", "partner", "axis", "direction", "frequency", "map" (its second
            channel turns otherwise); empty where the pair is the same.
    """

    pair: int
    a: Turn | None
    b: Turn | None
    ratio: float | None
    differs: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the pair as plain values."""
        turns = {name: None if turn is None else turn._asdict() for name, turn in (("a", self.a), ("b", self.b))}
        return {"pair": self.pair, **turns, "ratio": self.ratio, "differs": list(self.differs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AngleDifference:
    """How far the angles of B are from those of A at one distance.

    Attributes:
        distance: between two positions, tokens.
        unwrapped: [P] float64, radians, the angle in B minus the angle in A, one for each row of the pairs.
        wrapped: [P] float64, the same within -π and π: what a vector shows.
        worst: the row with the largest wrapped difference, None where there is no pair.
        room: radians, up to which the angles may be others where a side was measured; 0 for descriptions.
    """

    distance: int
    unwrapped: NDArray[np.float64]
    wrapped: NDArray[np.float64]
    worst: int | None
    room: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Give the differences as plain values."""
        return {
            "distance": self.distance,
            "unwrapped": self.unwrapped.tolist(),
            "wrapped": self.wrapped.tolist(),
            "largest_unwrapped": float(np.abs(self.unwrapped).max(initial=0.0)),
            "largest_wrapped": float(np.abs(self.wrapped).max(initial=0.0)),
            "worst": self.worst,
            "room": self.room,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Both magnitudes of both sides.

    Attributes:
        cos_sin: what multiplies cos and sin, in A and in B.
        softmax: what multiplies the softmax scale, in A and in B.
        equal: whether both agree.
        scores_equal: whether a score of a head that turns whole comes out alike: cos_sin² · softmax agree.
    """

    cos_sin: tuple[float, float]
    softmax: tuple[float, float]
    equal: bool
    scores_equal: bool

    def to_dict(self) -> dict[str, Any]:
        """Give the magnitudes as plain values."""
        return {
            "cos_sin": list(self.cos_sin),
            "softmax": list(self.softmax),
            "equal": self.equal,
            "scores_equal": self.scores_equal,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsComparison:
    """Two tables of pairs, subtracted.

    Attributes:
        equal: the two turn vectors alike.
        pairs: every pair of both, in the order of A.
        angles: at each distance.
        factors: both magnitudes.
        matched_by: "channels" or "number": how pairs of A and B were put side by side.
    """

    equal: bool
    pairs: tuple[PairDifference, ...]
    angles: tuple[AngleDifference, ...]
    factors: Factors
    matched_by: str

    @property
    def first(self) -> PairDifference | None:
        """The first pair that differs, or None."""
        return next((row for row in self.pairs if row.differs), None)

    @property
    def differing(self) -> int:
        """How many pairs differ."""
        return sum(bool(row.differs) for row in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain values."""
        return {
            "equal": self.equal,
            "matched_by": self.matched_by,
            "differing": self.differing,
            "pairs": [row.to_dict() for row in self.pairs],
            "angles": [row.to_dict() for row in self.angles],
            "factors": self.factors.to_dict(),
        }


def compare_pairs(
    a: Pairs,
    b: Pairs,
    *,
    distances: Iterable[int] = DISTANCES,
    tolerance: float = TOLERANCE,
    error: ArrayLike | None = None,
    error_b: ArrayLike | None = None,
    factor_error: float = 0.0,
) -> PairsComparison:
    """Subtract two tables of pairs, wherever they come from: descriptions, or what was recovered from a function.

    Order of rows plays no part, nor does the order of the two channels: (a, b) at θ is (b, a) at -θ. A pair that keeps
    still is the same as none, where nothing is magnified.

    Args:
        a: the reference.
        b: what is compared with it.
        distances: tokens, at which angles are subtracted.
        tolerance: relative, up to which two frequencies or magnitudes are the same.
        error: [len(a)] radians a position, how uncertain each frequency of a is besides; None for exact ones.
        error_b: [len(b)] the same of b.
        factor_error: how uncertain the factors on cos and sin are besides.

    >>> a = Pairs(first=[0, 1], second=[2, 3], axis=[0, 0], inv_freq=[1.0, 0.01])
    >>> b = Pairs(first=[3, 0], second=[1, 2], axis=[0, 0], inv_freq=[-0.02, 1.0])
    >>> seen = compare_pairs(a, b, distances=[100])
    >>> seen.equal, seen.first.pair, seen.first.ratio, seen.angles[0].wrapped.tolist()
    (False, 1, 2.0, [0.0, 1.0])
    """
    steps = checked_distances(distances)
    slack = (_slack("error", error, len(a), "a"), _slack("error_b", error_b, len(b), "b"))
    left, right = list(_turns(a)), list(_turns(b))
    matched, matched_by = _matched(left, right)
    magnified = any(not close(one.cos_sin_factor, 1, tolerance, factor_error) for one in (a, b))
    rows, rooms = [], []
    for one, other in matched:
        room = sum(float(one_slack[turn.pair]) for one_slack, turn in zip(slack, (one, other), strict=True) if turn)
        if one is None and other is not None and _keeps_still(other, room) and not magnified:
            continue
        rows.append(_pair_difference(one, other, tolerance, room, magnified=magnified))
        rooms.append(room)
    gaps = np.array([(row.b.inv_freq if row.b else 0.0) - (row.a.inv_freq if row.a else 0.0) for row in rows])
    factors = _factors(a, b, tolerance, factor_error)
    widest = max(rooms, default=0.0)
    return PairsComparison(
        equal=factors.equal and not any(row.differs for row in rows),
        pairs=tuple(rows),
        angles=tuple(_angles(step, gaps, widest) for step in steps),
        factors=factors,
        matched_by=matched_by,
    )


def _slack(name: str, error: ArrayLike | None, count: int, side: str) -> NDArray[np.float64]:
    slack = np.zeros(count) if error is None else np.abs(np.asarray(error, dtype=np.float64))
    if slack.shape != (count,):
        raise RopewalkError(
            f"{name} must hold one number for each of {count} pairs of {side}, got shape {slack.shape}."
        )
    return slack


def checked_distances(distances: Iterable[int]) -> tuple[int, ...]:
    """Give distances as whole numbers of tokens, at least one."""
    given = items("distances", list(distances), at_most=MAX_DISTANCES)
    if not given:
        raise RopewalkError("distances must hold at least one number of tokens, got none.")
    return tuple(whole("distances", step, at_least=0, at_most=MAX_POSITION) for step in given)


def _turns(pairs: Pairs) -> Iterator[Turn]:
    seconds = [None] * len(pairs) if pairs.is_rotation else pairs.second_inv_freq.tolist()  # type: ignore[union-attr]
    columns = (column.tolist() for column in (pairs.first, pairs.second, pairs.axis, pairs.inv_freq))
    for number, (first, second, axis, inv_freq) in enumerate(zip(*columns, strict=True)):
        yield Turn(number, first, second, axis, inv_freq, seconds[number])


def _matched(left: list[Turn], right: list[Turn]) -> tuple[list[tuple[Turn | None, Turn | None]], str]:
    """Put pairs side by side: by their channels where one table's all stand in the other, else by number."""
    by_channels = {frozenset((turn.first, turn.second)): turn for turn in right}
    shared = sum(frozenset((turn.first, turn.second)) in by_channels for turn in left)
    if shared and shared == min(len(left), len(right)):
        matched: list[tuple[Turn | None, Turn | None]] = []
        for turn in left:
            other = by_channels.pop(frozenset((turn.first, turn.second)), None)
            matched.append((turn, None if other is None else _turned_round(other, turn)))
        return matched + [(None, other) for other in by_channels.values()], "channels"
    longest = max(len(left), len(right))
    padded = ([*turns, *[None] * (longest - len(turns))] for turns in (left, right))
    return list(zip(*padded, strict=True)), "number"


def _turned_round(turn: Turn, like: Turn) -> Turn:
    """Write a pair with its channels in the order of another: turning a to b is turning b to a the other way."""
    if turn.first == like.first or turn.second_inv_freq is not None:
        return turn
    return turn._replace(first=turn.second, second=turn.first, inv_freq=0.0 - turn.inv_freq)


def _keeps_still(turn: Turn, room: float) -> bool:
    return abs(turn.inv_freq) <= room and abs(turn.second_inv_freq or 0.0) <= room


def _pair_difference(
    a: Turn | None, b: Turn | None, tolerance: float, room: float, *, magnified: bool
) -> PairDifference:
    if a is None or b is None:
        only = a or b
        assert only is not None
        still = _keeps_still(only, room) and not magnified
        return PairDifference(pair=only.pair, a=a, b=b, ratio=None, differs=() if still else ("missing",))
    same_speed = close(abs(a.inv_freq), abs(b.inv_freq), tolerance, room)
    same_way = close(a.inv_freq, b.inv_freq, tolerance, room) or a.inv_freq * b.inv_freq > 0
    second_a, second_b = (one.inv_freq if one.second_inv_freq is None else one.second_inv_freq for one in (a, b))
    still = max(abs(a.inv_freq), abs(b.inv_freq)) <= room
    checks = {
        "channels": a.first == b.first,
        "partner": a.first != b.first or a.second == b.second,
        "axis": a.axis == b.axis or still,
        "direction": same_way or not (a.inv_freq and b.inv_freq),
        "frequency": same_speed,
        "map": (a.second_inv_freq is None and b.second_inv_freq is None) or close(second_a, second_b, tolerance, room),
    }
    ratio = abs(b.inv_freq / a.inv_freq) if a.inv_freq and b.inv_freq else None
    return PairDifference(
        pair=a.pair, a=a, b=b, ratio=ratio, differs=tuple(name for name, same in checks.items() if not same)
    )


def close(one: float, other: float, tolerance: float = TOLERANCE, room: float = 0.0) -> bool:
    """Say whether two numbers are the same up to a relative tolerance, or within room."""
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=room)


def _angles(distance: int, gaps: NDArray[np.float64], room: float) -> AngleDifference:
    with np.errstate(over="ignore"):  # speeds near the end of float64 stay numbers
        unwrapped = np.nan_to_num(distance * gaps)
    wrapped = np.array([math.remainder(angle, 2 * math.pi) for angle in unwrapped.tolist()])
    worst = int(np.abs(wrapped).argmax()) if len(wrapped) else None
    return AngleDifference(
        distance=distance, unwrapped=unwrapped, wrapped=wrapped, worst=worst, room=min(distance * room, math.pi)
    )


def _factors(a: Pairs, b: Pairs, tolerance: float, room: float) -> Factors:
    cos_sin, softmax = (a.cos_sin_factor, b.cos_sin_factor), (a.softmax_factor, b.softmax_factor)
    score_a, score_b = (table.cos_sin_factor**2 * table.softmax_factor for table in (a, b))
    return Factors(
        cos_sin=cos_sin,
        softmax=softmax,
        equal=close(a.cos_sin_factor, b.cos_sin_factor, tolerance, room)
        and close(a.softmax_factor, b.softmax_factor, tolerance),
        scores_equal=close(score_a, score_b, tolerance, 2 * room),
    )
