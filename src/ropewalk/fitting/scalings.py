"""The known scalings fitted to one ladder, with nothing declared: default, linear, proportional, llama3, yarn."""

import math
from collections.abc import Iterator

import numpy as np

from ..scaling import Default, Linear, Proportional
from .bands import Fit, llama3_fits, partial_share, yarn_fits
from .numbers import Array, Target, digits_of, roundest, solve


def fits(
    target: Target,
    head_dim: int,
    factor: float,
    turning: int | None,
    max_position_embeddings: int | None,
    hint: float | None = None,
) -> Iterator[Fit]:
    """Give known descriptions of a ladder, the simplest first; whether one agrees is for the caller to check.

    Args:
        target: what was measured.
        head_dim: D.
        factor: g, the measured factor on cos and sin.
        turning: pairs of the ladder that turn, where the others keep still; else None.
        max_position_embeddings: Lmax, where known; settles lengths that the table leaves open.
        hint: a factor to try where the table leaves it open.
    """
    plain = (2 * target.index) / target.width
    scale = _scale_of_first(target)
    scale = scale if scale is not None and math.isfinite(scale) else None  # a pair as slow as 1e-309 has none
    theta_open = not (target.turning & (target.index > 0)).any()
    note = ("rope_theta: a single frequency does not tell it",) if theta_open else ()
    if theta_open:
        if target.agrees(np.where(target.freq > 0, 1.0, 0.0)):
            yield Fit(rope_theta=10_000.0, scaling=Default(), open=note)
        if scale is not None:
            yield Fit(rope_theta=10_000.0, scaling=Linear(factor=scale), open=note)
        return
    still = turning is not None
    mask = np.ones(len(plain)) if not still else (target.index < turning).astype(float)

    def unscaled(theta: float) -> Array:
        return mask * theta**-plain

    guess = [(theta,) for theta in slopes(target)]
    theta = solve(unscaled, guess, target)
    if theta is not None:
        yield from _plain(theta[0], 1.0, head_dim, target, turning)
    if scale is not None:
        theta = solve(lambda theta: unscaled(theta) / scale, guess, target)
        if theta is not None:
            yield from _plain(theta[0], scale, head_dim, target, turning)
    if len(set(target.width.tolist())) == 1 and not still:
        yield from _banded(target, factor, max_position_embeddings, hint)


def _plain(theta: float, scale: float, head_dim: int, target: Target, turning: int | None) -> Iterator[Fit]:
    yield Fit(rope_theta=theta, scaling=Default() if scale == 1 else Linear(factor=scale))
    width = int(target.width[0])
    if turning is not None:
        share = partial_share(turning, width)
        yield Fit(rope_theta=theta, scaling=Proportional(partial_rotary_factor=share, factor=scale))


def _scale_of_first(target: Target) -> float | None:
    """Give the factor that slows the fastest pair, rounded; None where that pair keeps still."""
    rows = np.flatnonzero((target.index == 0) & target.turning)
    if not len(rows):
        return None
    value = 1 / float(np.median(target.freq[rows]))
    room = float(np.min(np.maximum(2 * target.error[rows], 4e-16) / target.freq[rows]))
    wide = float(np.min(target.room[rows] / target.freq[rows]))
    near = roundest(value, value * wide)
    return near if digits_of(near) <= 3 else roundest(value, value * room)


def slopes(target: Target) -> list[float]:
    """Guess theta from neighbours: the fastest, the slowest, all, and the most frequent between."""
    rows = np.flatnonzero(target.turning)
    exponent = (2 * target.index / target.width)[rows]
    logs = np.log(target.freq[rows])
    order = np.lexsort((rows, exponent))
    exponent, logs = exponent[order], logs[order]
    results: list[float] = []
    with np.errstate(all="ignore"):
        steps = -np.diff(logs) / np.diff(exponent)
        steps = steps[np.isfinite(steps)]
        if len(steps):
            results += [steps[0], steps[-1], float(np.median(steps))]
        if exponent[-1] > exponent[0]:
            results.append(-float(np.polyfit(exponent, logs, 1)[0]))
    kept = []
    for slope in results:
        if abs(slope) < 300 and all(abs(slope - other) > 1e-6 for other in kept):
            kept.append(slope)
    return [math.exp(slope) for slope in kept]


def _banded(target: Target, g: float, lmax: int | None, hint: float | None) -> Iterator[Fit]:
    """Fit scalings that keep fast pairs and slow slow ones, with a ramp between."""
    width = int(target.width[0])
    order = np.unique(target.index, return_index=True)[1]  # a hybrid has each entry twice
    order = order[target.turning[order]]
    index = target.index[order]
    freq, room = target.freq[order], (target.room / np.maximum(target.freq, 1e-300))[order]
    exact = _exactness(target, order)
    for theta in _thetas(target, order):
        share = freq * theta ** (2 * index / width)  # 1 where kept, 1/s where slowed
        for factor, factor_note in _factors(share, room, exact, index, g, hint):
            ramp = (1 - share) / (1 - 1 / factor)
            slack = room / (1 - 1 / factor) * share
            if (ramp < -slack).any() or (ramp > 1 + slack).any():
                continue
            inside = (ramp > 2 * slack) & (ramp < 1 - 2 * slack)
            tight = exact / (1 - 1 / factor) * share
            kinds = [yarn_fits(theta, factor, width, index, ramp, inside, tight, slack, g, lmax)]
            kinds.append(llama3_fits(theta, factor, width, index, ramp, inside, tight, slack, lmax))
            if g == 1:
                kinds.reverse()
            for kind in kinds:
                for fit in kind:
                    yield Fit(rope_theta=fit.rope_theta, scaling=fit.scaling, open=(*fit.open, *factor_note))


def _exactness(target: Target, order: Array) -> Array:
    """Give the relative noise to take for rounding: what was declared, at least float64's."""
    return np.maximum(2 * target.error[order] / target.freq[order], 1e-14)


def _thetas(target: Target, order: Array) -> Iterator[float]:
    """Give theta as the kept pairs tell it, then as the slowed ones do."""
    width = int(target.width[0])
    index, freq = target.index[order], target.freq[order]
    room = (target.room / np.maximum(target.freq, 1e-300))[order]
    exponent = 2 * index / width
    given: list[float] = []
    moving = np.flatnonzero(index > 0)
    if len(moving) and abs(math.log(freq[0])) <= room[0]:
        slope = -np.log(freq[moving]) / exponent[moving]
        reach = room[moving] / exponent[moving]
        low, high, kept = -math.inf, math.inf, 0
        for k in range(len(moving)):
            low, high = max(low, slope[k] - reach[k]), min(high, slope[k] + reach[k])
            if low > high:
                break
            kept = k + 1
        given.append(_theta_of(target, order[moving[:kept]], math.exp(slope[kept - 1]), 1.0))
    if len(index) > 2:
        end = len(index)
        slope = -np.diff(np.log(freq)) / np.diff(exponent)
        run = 1
        while run < end - 1 and abs(slope[-run - 1] - slope[-1]) <= (room[-run] + room[-run - 1]) * width:
            run += 1
        rows = order[end - run - 1 :]
        theta = math.exp(min(max(float(slope[-1]), -300), 300))
        if theta > 1:
            scale = theta ** -exponent[-1] / freq[-1]
            given.append(_theta_of(target, rows, theta, scale))
    for number, theta in enumerate(given):
        if theta > 1 and theta not in given[:number]:
            yield theta


def _theta_of(target: Target, rows: Array, start: float, scale: float) -> float:
    part = Target(
        freq=target.freq[rows],
        error=target.error[rows],
        index=target.index[rows],
        width=target.width[rows],
        seen=target.seen[rows],
    )
    exponent = 2 * part.index / part.width
    if scale == 1:
        found = solve(lambda theta: theta**-exponent, [(start,)], part)
    else:
        found = solve(lambda theta, scale: theta**-exponent / scale, [(start, scale)], part)
    return start if found is None else found[0]


def _factors(
    share: Array, room: Array, exact: Array, index: Array, g: float, hint: float | None
) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Give the factor as the slowest pairs tell it, then as the magnitude does, then as whole bounds do."""
    last = float(share[-1])
    if not 0 < last < 1 - 4 * room[-1]:
        return
    flat = np.abs(share - last) <= 2 * room * share
    run = 0
    while run < len(flat) and flat[-run - 1]:
        run += 1
    if run == 1 and hint is not None and hint > 1:
        yield hint, ("factor: the slowest pairs are still on the ramp",)
    near = 1 / float(np.median(share[-run:]))
    wide = float(np.min(room[-run:]))
    yield _round_in(near, wide, float(np.min(exact[-run:]))), ()
    if run > 1:
        return
    if g > 1.0001:
        yield roundest(math.exp((g - 1) * 10), math.exp((g - 1) * 10) * 1e-4), ("factor: taken from the magnitude",)
    inner = np.flatnonzero((share < 1 - 4 * room) & (index > 0))
    if len(inner) >= 2:
        slope, intercept = np.polyfit(index[inner], share[inner], 1)
        low = (1 - intercept) / slope
        for high in range(int(index[-1]) + 1, 2 * int(index[-1]) + 3):
            last = 1 + slope * (high - round(low))
            if last > 0:
                factor = 1 / last
                rounded = roundest(factor, factor * 1e-4)
                if digits_of(rounded) <= 2:
                    yield rounded, ("factor: the slowest pairs are still on the ramp",)


def _round_in(value: float, wide: float, tight: float) -> float:
    near = roundest(value, value * wide)
    return near if digits_of(near) <= 3 else roundest(value, value * tight)
