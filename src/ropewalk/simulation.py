"""The tables and readings of the lesson's three sections, as plain data: one rotation, one score, all speeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._checks import whole
from .errors import RopewalkError
from .inspection import PairRow, view_rope
from .rope import Rope
from .turning.naive import rotate

DEFAULT_QUERY = (1.0, 0.0, 0.5, 0.5, 1.0, -1.0, 0.25, 0.0)
DEFAULT_KEY = (0.0, 1.0, 1.0, 0.0, 0.5, 0.5, 0.0, 0.25)


def default_rope() -> Rope:
    """Give the rope that the lesson starts with: 8 channels, base 10000, neighbours paired."""
    return Rope(head_dim=8, rope_theta=10000.0, pairing="interleaved")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """Section A, one pair of one vector.

    Attributes:
        pair: i.
        first: its first channel.
        second: its second channel.
        inv_freq: θ_i, radians a position.
        angle: m·θ_i, radians.
        before: the two channels as given.
        after: the two channels turned.
        radius_before: their length.
        radius_after: their length after turning.
        factor: what multiplies cos and sin, and so the length.
    """

    pair: int
    first: int
    second: int
    inv_freq: float
    angle: float
    before: tuple[float, float]
    after: tuple[float, float]
    radius_before: float
    radius_after: float
    factor: float = 1.0

    @property
    def angle_wrapped(self) -> float:
        """The angle in degrees from 0 to 360."""
        return wrapped_degrees(self.angle)

    @property
    def radius_deviation(self) -> float:
        """How much the length differs from the factor times what it was: float noise."""
        return self.radius_after - self.factor * self.radius_before


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """Section B, one pair's part of a score.

    Attributes:
        pair: i.
        inv_freq: θ_i, radians a position.
        angle: (m - n)·θ_i, radians.
        straight: q_a·k_a + q_b·k_b.
        cross: q_a·k_b - q_b·k_a.
        contribution: straight·cos(angle) + cross·sin(angle), times the factor on cos and sin squared.
    """

    pair: int
    inv_freq: float
    angle: float
    straight: float
    cross: float
    contribution: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreReading:
    """Section B, the readings over the table.

    Attributes:
        rows: one for each pair.
        still: what channels that never turn contribute.
        unrotated: q·k.
        score: at (m, n), turning both vectors.
        shifted_score: at (m + s, n + s).
        query_length: |q|, before and after turning.
        key_length: |k|, before and after turning.
    """

    rows: tuple[ScoreRow, ...]
    still: float
    unrotated: float
    score: float
    shifted_score: float
    query_length: tuple[float, float]
    key_length: tuple[float, float]

    @property
    def total(self) -> float:
        """The sum of the table, which must equal the score."""
        return sum(row.contribution for row in self.rows) + self.still

    @property
    def shift_difference(self) -> float:
        """How much the score changed when both positions moved: float noise."""
        return self.shifted_score - self.score

    @property
    def bound(self) -> float:
        """|q||k| after turning, which has any factor on cos and sin in it: the score lies within plus and minus it."""
        return self.query_length[1] * self.key_length[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedReading:
    """Section C, the readings over the table.

    Attributes:
        rows: one for each pair.
        angles: at position m, degrees from 0 to 360, one for each pair.
        window: tokens.
        slower_than_window: how many pairs have a wavelength longer than the window.
        fastest: the shortest wavelength, tokens.
        slowest: the longest wavelength, tokens.
    """

    rows: tuple[PairRow, ...]
    angles: tuple[float, ...]
    window: int
    slower_than_window: int
    fastest: float
    slowest: float

    @property
    def ratio(self) -> float:
        """Slowest over fastest, θ^((d-2)/d) where nothing is scaled."""
        return self.slowest / self.fastest


def turn_table(
    rope: Rope, vector: Sequence[float], position: float, *, length: int | None = None
) -> tuple[TurnRow, ...]:
    """Give table A: every pair of one vector before and after turning by its position.

    Here and below length is the number of tokens for ropes that depend on it, None meaning the trained length or
    less; a rope with several position axes has the position on each of them.

    Raises:
        RopewalkError: for a vector of another width.

    >>> row = turn_table(default_rope(), DEFAULT_QUERY, 7)[0]
    >>> row.angle, round(row.angle_wrapped, 2), [round(value, 3) for value in row.after]
    (7.0, 41.07, [0.754, 0.657])
    """
    given = _vector(vector, rope)
    before, after = given.tolist(), _turned(given, position, rope, length).tolist()
    pairs = rope.pairs(length)
    rows = []
    columns = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.inv_freq.tolist(), strict=True)
    for i, (a, b, inv_freq) in enumerate(columns):
        rows.append(
            TurnRow(
                pair=i,
                first=a,
                second=b,
                inv_freq=inv_freq,
                angle=position * inv_freq,
                before=(before[a], before[b]),
                after=(after[a], after[b]),
                radius_before=math.hypot(before[a], before[b]),
                radius_after=math.hypot(after[a], after[b]),
                factor=pairs.cos_sin_factor,
            )
        )
    return tuple(rows)


def angle_between(
    rope: Rope,
    query: Sequence[float],
    key: Sequence[float],
    m: float,
    n: float,
    pair: int,
    *,
    length: int | None = None,
) -> float | None:
    """Give the angle in degrees between one pair of the turned query and of the turned key, 0 to 180.

    None where one of the two arrows has no length.

    >>> round(angle_between(default_rope(), DEFAULT_QUERY, DEFAULT_KEY, 7, 2, 0), 2)
    163.52
    """
    return angle_between_arrows(
        *(turn_table(rope, vector, position, length=length)[pair].after for vector, position in ((query, m), (key, n)))
    )


def angle_between_arrows(one: tuple[float, float], other: tuple[float, float]) -> float | None:
    """Give the angle in degrees between two arrows, 0 to 180; None where one of them has no length."""
    (a, b), (c, d) = one, other
    lengths = math.hypot(a, b) * math.hypot(c, d)
    if lengths == 0:
        return None
    return math.degrees(math.atan2(abs(a * d - b * c), a * c + b * d))


def score_table(
    rope: Rope,
    query: Sequence[float],
    key: Sequence[float],
    m: int,
    n: int,
    *,
    shift: int = 0,
    length: int | None = None,
) -> ScoreReading:
    """Give table B and its readings: the score of a query at m with a key at n, pair by pair.

    Raises:
        RopewalkError: for vectors of another width, or a map that is no rotation.

    >>> reading = score_table(default_rope(), DEFAULT_QUERY, DEFAULT_KEY, 7, 2, shift=100)
    >>> round(reading.score, 9), round(reading.total, 9), round(reading.unrotated, 9)
    (-0.709554095, -0.709554095, 0.5)
    """
    q, k = _vector(query, rope), _vector(key, rope)
    pairs = rope.pairs(length)
    if not pairs.is_rotation:
        raise RopewalkError("this map is no rotation: its scores do not depend on the distance alone.")
    rows = []
    columns = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.inv_freq.tolist(), strict=True)
    one, other, g = q.tolist(), k.tolist(), pairs.cos_sin_factor**2
    for i, (a, b, inv_freq) in enumerate(columns):
        angle = (m - n) * inv_freq
        straight = one[a] * other[a] + one[b] * other[b]
        cross = one[a] * other[b] - one[b] * other[a]
        part = g * (straight * math.cos(angle) + cross * math.sin(angle))
        rows.append(ScoreRow(pair=i, inv_freq=inv_freq, angle=angle, straight=straight, cross=cross, contribution=part))
    still = np.ones(rope.head_dim, dtype=bool)
    still[pairs.first] = still[pairs.second] = False
    turned = {at: (_turned(q, m + at, rope, length), _turned(k, n + at, rope, length)) for at in (0, shift)}
    lengths = [
        (float(np.linalg.norm(before)), float(np.linalg.norm(after)))
        for before, after in zip((q, k), turned[0], strict=True)
    ]
    return ScoreReading(
        rows=tuple(rows),
        still=float((q[still] * k[still]).sum()),
        unrotated=float(q @ k),
        score=float(turned[0][0] @ turned[0][1]),
        shifted_score=float(turned[shift][0] @ turned[shift][1]),
        query_length=lengths[0],
        key_length=lengths[1],
    )


def speed_table(rope: Rope, *, window: int, position: float = 0, length: int | None = None) -> SpeedReading:
    """Give table C and its readings: the speed of every pair against a window.

    >>> reading = speed_table(default_rope(), window=2048, position=7)
    >>> reading.slower_than_window, round(reading.ratio, 2), round(reading.angles[1], 3)
    (1, 1000.0, 40.107)
    """
    view = view_rope(rope, window=whole("window", window, at_least=1), length=length)
    wavelengths = [row.wavelength for row in view.rows if row.wavelength is not None]
    if not wavelengths:
        raise RopewalkError("no pair of this rope turns: there is no fastest and no slowest.")
    return SpeedReading(
        rows=view.rows,
        angles=tuple(wrapped_degrees(position * row.inv_freq) for row in view.rows),
        window=window,
        slower_than_window=view.slower_than_window or 0,
        fastest=min(wavelengths),
        slowest=max(wavelengths),
    )


def wrapped_degrees(angle: float) -> float:
    """Turn radians into degrees from 0 to 360."""
    return math.degrees(angle) % 360 % 360  # twice: a tiny negative angle comes out of the first as 360.0


def _turned(vector: np.ndarray, position: float, rope: Rope, length: int | None) -> np.ndarray:
    """Turn one vector [D] by one position, the same on every axis."""
    axes = rope.axes.num_axes
    ids = np.full((axes, 1, 1) if axes > 1 else (1, 1), position)
    tokens = (length or 1) if rope.length_dependent else None
    return rotate(vector[None, None, None], ids, rope, length=tokens)[0, 0, 0]


def _vector(values: Sequence[float], rope: Rope) -> np.ndarray:
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (rope.head_dim,):
        raise RopewalkError(f"a vector must have head_dim={rope.head_dim} numbers, got shape {list(vector.shape)}.")
    return vector
