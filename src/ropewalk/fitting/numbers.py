"""Numbers out of measurements: the roundest value that a measurement allows, and fits in the logarithm."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Model = Callable[..., Array]

FLOAT32 = 2.0**-24
_STARTS = 2  # the nearest, from which a fit is tried
_DIGITS = 3  # a number this round is believed before one that fits a little better


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Measured frequencies of one ladder or several, in the order of a geometry.

    Attributes:
        freq: [N] float64, radians a position, the sign of the direction taken off; 0 for what keeps still.
        error: [N] float64, absolute uncertainty of the measurement.
        index: [N] int64, i, the entry of its ladder.
        width: [N] int64, R, the width of its ladder in channels.
        seen: [N] bool, whether the row was measured (false: inferred to keep still).
    """

    freq: Array
    error: Array
    index: NDArray[np.int64]
    width: NDArray[np.int64]
    seen: NDArray[np.bool_]

    @property
    def room(self) -> Array:
        """[N] by how much a right table may differ: the measurement, and float32 with a running product."""
        size = np.abs(self.freq)
        with np.errstate(divide="ignore"):
            depth = np.where(size > 0, np.abs(np.log(size)), 0.0)
        return 4 * self.error + size * FLOAT32 * (8 + depth + 1.5 * self.index)

    @property
    def turning(self) -> NDArray[np.bool_]:
        """[N] which rows surely turn."""
        return self.freq > 10 * self.room

    def agrees(self, model: Array) -> bool:
        """Whether a table is the measured one, within room."""
        return bool(np.isfinite(model).all() and (np.abs(self.freq - model) <= self.room).all())

    def residual(self, model: Array) -> float:
        """Give the largest relative deviation of the measured rows from a table; infinity where it has no value."""
        if not np.isfinite(model).all():
            return math.inf
        at = self.seen & ((np.abs(model) > 4 * self.error) | (self.freq > 4 * self.error))
        if not at.any():
            return 0.0
        size = np.maximum(np.abs(model[at]), np.where(model[at] == 0, self.freq[at], 0.0))
        return float(np.max(np.abs(self.freq[at] - model[at]) / size))


def roundest(value: float, room: float) -> float:
    """Give the number with the fewest decimal digits within room (absolute) of value.

    >>> roundest(499999.998, 0.01), roundest(15.9999997, 1e-6), roundest(1086796.667, 1e-3)
    (500000.0, 16.0, 1086796.667)
    """
    if not math.isfinite(value) or value == 0:
        return value
    for digits in range(17):
        near = float(f"{value:.{digits}e}")
        if abs(near - value) <= room:
            return near
    return value


def round_length(low: float, high: float, *, hint: float | None = None) -> int | None:
    """Give a likely number of tokens in [low, high]: the hint, a power of two, a multiple of 1024, the roundest."""
    if hint is not None and float(hint).is_integer() and low <= hint <= high:
        return int(hint)
    if not (math.isfinite(low) and math.isfinite(high)) or high < 1:
        return None
    power = 2 ** math.floor(math.log2(high))
    if power >= low:
        return power
    if math.floor(high / 1024) * 1024 >= max(low, 1):
        first = math.ceil(low / 1024)
        return first * 1024
    near = roundest((low + high) / 2, (high - low) / 2)
    if near >= 1 and near.is_integer():
        return int(near)
    return math.floor(high) if math.floor(high) >= max(low, 1) else None


def solve(model: Model, starts: Sequence[tuple[float, ...]], target: Target) -> tuple[float, ...] | None:
    """Fit positive parameters to the turning rows and give them rounded; None where no start leads to the table.

    The parameters are rounded one after another, each while the later ones are fitted anew, so that the first should
    be the one that is known best by itself.
    """
    best: tuple[float, tuple[float, ...]] | None = None
    rows = target.turning
    usable = [start for start in starts if all(math.isfinite(value) and value > 0 for value in start)]
    logs = np.log(np.where(rows, target.freq, 1.0))

    def distance(start: tuple[float, ...]) -> float:
        with np.errstate(all="ignore"):
            off = float(np.sum(np.abs(logs - np.log(model(*start)))[rows]))
        return off if math.isfinite(off) else math.inf

    for start in sorted(dict.fromkeys(usable), key=distance)[:_STARTS]:
        found = _descend(model, start, (), target)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
        if best is not None and best[0] < 1e-3:
            break
    if best is None or best[0] > 1.0:
        return None
    exact = best[1]
    fixed: tuple[float, ...] = ()
    while len(fixed) < len(exact):
        chosen = None
        for rounded in _rounded(model, fixed, exact, target):
            again = _descend(model, exact[len(fixed) + 1 :], (*fixed, rounded), target)
            if again is not None and again[0] <= 1.0:
                chosen = (rounded, again[1])
                break
        if chosen is None:
            return exact if target.agrees(model(*exact)) else None
        fixed = (*fixed, chosen[0])
        exact = chosen[1]
    return fixed if target.agrees(model(*fixed)) else None


def _rounded(model: Model, fixed: tuple[float, ...], exact: tuple[float, ...], target: Target) -> list[float]:
    """Give values of the first parameter that is not fixed: the roundest allowed, the roundest likely, the fitted."""
    at = len(fixed)
    value = exact[at]
    rows = target.turning
    freq = target.freq[rows]
    here = model(*exact)[rows]
    step = 1e-6
    there = model(*exact[:at], value * (1 + step), *exact[at + 1 :])[rows]
    with np.errstate(all="ignore"):
        slope = np.abs(np.log(there / here)) / step
        off = np.abs(np.log(freq / here))
    slope = np.where(np.isfinite(slope) & (slope > 1e-12), slope, 1e-12)
    noise = max(4 * float(np.sqrt(np.mean(off**2))), 1e-15)
    likely = np.min(np.maximum(2 * target.error[rows] / freq, noise) / slope)
    allowed = np.min(target.room[rows] / freq / slope)
    wide = roundest(value, value * float(allowed))
    results = [roundest(value, value * float(likely)), value]
    return [wide, *results] if digits_of(wide) <= _DIGITS else results


def _descend(
    model: Model, start: tuple[float, ...], fixed: tuple[float, ...], target: Target
) -> tuple[float, tuple[float, ...]] | None:
    """Fit the parameters after the fixed ones by Gauss and Newton; give the largest deviation in units of room."""
    rows = target.turning
    if not rows.any():
        return None
    logs, relative = np.log(target.freq[rows]), target.room[rows] / target.freq[rows]

    def off(values: Array) -> Array | None:
        with np.errstate(all="ignore"):
            made = model(*fixed, *np.exp(values).tolist())[rows]
            result = (logs - np.log(made)) / relative
        return result if np.isfinite(result).all() else None

    values = np.log(np.array(start, dtype=np.float64))
    now = off(values)
    if now is None:
        return None
    for turn in range(12 if start else 0):
        if turn == 4 and np.max(np.abs(now)) > 1e5:  # in units of room: this way leads elsewhere
            break
        columns = []
        for k in range(len(values)):
            moved = values.copy()
            moved[k] += 1e-7
            then = off(moved)
            columns.append(np.zeros_like(now) if then is None else (now - then) / 1e-7)
        step = np.linalg.lstsq(np.stack(columns, axis=1), now, rcond=None)[0]
        size = 1.0
        better, gain = None, 0.0
        while size > 1e-3:
            trial = values + np.clip(size * step, -1, 1)
            then = off(trial)
            if then is not None and np.sum(then**2) < np.sum(now**2):
                better, gain = (trial, then), float(np.sum(now**2) - np.sum(then**2))
                break
            size /= 4
        if better is None:
            break
        values, now = better
        if gain <= 1e-12 * float(np.sum(now**2)) or np.max(np.abs(step)) < 1e-15:
            break
    return float(np.max(np.abs(now))), (*fixed, *np.exp(values).tolist())


def digits_of(value: float) -> int:
    """Count the decimal digits that a number is written with.

    >>> digits_of(500000.0), digits_of(1086796.667), digits_of(0.25)
    (1, 10, 2)
    """
    return len(f"{value:.15e}".partition("e")[0].replace(".", "").strip("-0"))
