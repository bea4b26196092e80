"""The known scalings fitted to one ladder, with nothing declared: default, linear, proportional, llama3, yarn."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import RopewalkError
from ..rope import Rope
from ..scaling import Default, Linear, Llama3, Proportional, Scaling, Yarn
from ..scaling._frequencies import magnitude
from ._fitting import Array, Target, digits_of, round_length, roundest, solve

_BETAS = ((32.0, 1.0), (1.0, 1.0), (32.0, 2.0), (64.0, 1.0), (16.0, 1.0), (128.0, 1.0), (8.0, 1.0), (4.0, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A theta and a scaling that give the measured ladder, and which of their numbers the table leaves open.

    Attributes:
        rope_theta: θ.
        scaling: its parameters.
        open: what the table does not settle, in words.
    """

    rope_theta: float
    scaling: Scaling
    open: tuple[str, ...] = ()


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


def partial_share(turning: int, width: int) -> float:
    """Give the roundest p with int(p·D // 2) = turning."""
    for digits in range(1, 17):
        for share in (round(2 * turning / width, digits), round(2 * turning / width + 10**-digits, digits)):
            if 0 < share <= 1 and int(share * width // 2) == turning:
                return share
    return 2 * turning / width


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
            kinds = [_yarn(theta, factor, width, index, ramp, inside, tight, slack, g, lmax)]
            kinds.append(_llama3(theta, factor, width, index, ramp, inside, tight, slack, lmax))
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


def _yarn(
    theta: float,
    factor: float,
    width: int,
    index: Array,
    ramp: Array,
    inside: Array,
    tight: Array,
    slack: Array,
    g: float,
    lmax: int | None,
) -> Iterator[Fit]:
    """Fit a ramp that is a straight line over the pair number."""
    attention, note = _attention(factor, g)
    for low, high, loose in _bounds(index, ramp, inside, slack):
        for open_, scaling in _lengths(theta, factor, width, low, high, loose, lmax, attention):
            yield Fit(rope_theta=theta, scaling=scaling, open=(*open_, *note))


def _attention(factor: float, g: float) -> tuple[float | None, tuple[str, ...]]:
    if abs(g - magnitude(factor)) <= 2e-3 * g:
        return None, ()
    return roundest(g, 1e-6 * g), ("attention_factor: mscale and mscale_all_dim give the same",)


def _bounds(index: Array, ramp: Array, inside: Array, slack: Array) -> Iterator[tuple[float, float, float]]:
    """Give the ramp's bounds and how far they are known, in pairs: whole ones first."""
    rows = np.flatnonzero(inside)
    below = np.flatnonzero(ramp <= 2 * slack)
    above = np.flatnonzero(ramp >= 1 - 2 * slack)
    last_kept = float(index[below[-1]]) if len(below) else 0.0
    first_slow = float(index[above[0]]) if len(above) else float(index[-1]) + 1
    if len(rows) >= 2:
        weights = 1 / np.maximum(slack[rows], 1e-15)
        slope, intercept = np.polyfit(index[rows], ramp[rows], 1, w=weights)
        if slope <= 0:
            return
        low, high = -intercept / slope, (1 - intercept) / slope
        loose = max(float(np.max(slack[rows])) / slope * 2, 1e-9)
        whole = (round(low), round(high))
        if abs(whole[0] - low) < max(loose, 1e-6) and abs(whole[1] - high) < max(loose, 1e-6):
            yield float(whole[0]), float(whole[1]), 0.0
        yield low, high, loose
    elif len(rows) == 1:
        at, value = float(index[rows[0]]), float(ramp[rows[0]])
        for low in (last_kept, last_kept - 1):
            high = low + (at - low) / value
            if low >= 0 and abs(high - round(high)) < 1e-3 and high > at:
                yield low, float(round(high)), 0.0
        yield at, value, -32.0
    else:
        yield last_kept, first_slow, 0.0


def _lengths(
    theta: float,
    factor: float,
    width: int,
    low: float,
    high: float,
    loose: float,
    lmax: int | None,
    attention: float | None,
) -> Iterator[tuple[tuple[str, ...], Yarn]]:
    """Give original lengths and betas that put the ramp between these bounds."""
    hint = None if lmax is None else lmax / factor

    def turns(pair: float) -> float:
        return 2 * math.pi * theta ** (2 * pair / width)

    def make(length: int, fast: float, slow: float, truncate: bool) -> Yarn | None:
        try:
            return Yarn(
                factor=factor,
                original_max_position_embeddings=length,
                beta_fast=fast,
                beta_slow=slow,
                truncate=truncate,
                attention_factor=attention,
            )
        except RopewalkError:
            return None

    ratio = "original_max_position_embeddings and the betas: known only up to a common factor"
    if loose == 0:  # whole bounds: each allows an interval
        rounded = "original_max_position_embeddings and the betas: rounded bounds allow others"
        for fast, slow in _BETAS:
            first = (fast * turns(low), fast * turns(low + 1))
            second = (slow * turns(high - 1), slow * turns(high))
            if low == 0:
                first = (0.0, first[1])
            if high >= width - 1:
                second = (second[0], math.inf)
            if fast == slow:  # both bounds from one length: they are the same pair or neighbours
                second = (0.0, math.inf) if high - low <= 1 else second
            start, end = max(first[0], second[0]) * (1 + 1e-12), min(first[1], second[1]) * (1 - 1e-12)
            length = round_length(start, end, hint=hint) if start < end else None
            if length is not None:
                scaling = make(length, fast, slow, True)
                if scaling is not None:
                    yield (rounded,), scaling
        length = round_length(turns(high - 1) * (1 + 1e-12), turns(high) * (1 - 1e-12), hint=hint)
        if length is not None and high > low:
            span = (length / turns(low + 1), length / turns(low))
            fast = roundest(sum(span) / 2, (span[1] - span[0]) / 2.001)
            scaling = make(length, fast, 1.0, True) if fast >= 1 else None
            if scaling is not None:
                yield (rounded,), scaling
        return
    if loose < 0:  # one pair on the ramp: bounds are known only if the betas are the usual ones
        at, value = low, high
        span = width * math.log(-loose) / (2 * math.log(theta))
        low, high = at - value * span, at + (1 - value) * span
        loose = span * 1e-3
    reach = max(2 * loose * math.log(theta) / width * 2, 1e-12)
    base = turns(high)
    usual = round_length(base * (1 - reach), base * (1 + reach), hint=hint) if reach < 0.5 else None
    beta = turns(high) / turns(low)
    if low <= 1e-9:
        beta = max(beta, 32.0)
    fast = roundest(beta, beta * reach * 2)
    if usual is not None:
        scaling = make(usual, fast, 1.0, False)
        if scaling is not None:
            yield (ratio,), scaling
    length = 2 ** max(math.ceil(math.log2(max(base, 1.0))), 0)
    slow = length / base
    scaling = make(length, roundest(slow * beta, slow * beta * 1e-13), roundest(slow, slow * 1e-13), False)
    if scaling is not None:
        yield (ratio,), scaling


def _llama3(
    theta: float,
    factor: float,
    width: int,
    index: Array,
    ramp: Array,
    inside: Array,
    tight: Array,
    slack: Array,
    lmax: int | None,
) -> Iterator[Fit]:
    """Fit a ramp that is a straight line over the frequency; only lengths over the two factors can be known."""
    hint = None if lmax is None else lmax / factor
    plain = theta ** (-2 * index / width)
    kept = 1 - ramp
    rows = np.flatnonzero(inside)
    note = "original_max_position_embeddings, low_ and high_freq_factor: known only up to a common factor"

    def make(length: float, low: float, high: float, *open_: str) -> Iterator[Fit]:
        try:
            scaling = Llama3(
                factor=factor,
                low_freq_factor=low,
                high_freq_factor=high,
                original_max_position_embeddings=int(length),
            )
        except RopewalkError:
            return
        yield Fit(rope_theta=theta, scaling=scaling, open=(note, *open_))

    if len(rows) >= 2:
        slope, intercept = np.polyfit(plain[rows], kept[rows], 1, w=1 / np.maximum(slack[rows], 1e-15))
        if slope <= 0:
            return
        border = -intercept / slope  # the frequency that turns low times within L0
        high = (1 - intercept) / slope / border if border > 0 else math.inf
        if not (border > 0 and high > 1):
            return
        reach = max(4 * float(np.max(slack[rows])) / slope / border, 1e-12)
        length = 2 * math.pi / border
        near = round_length(length * (1 - reach), length * (1 + reach), hint=hint)
        ratio = roundest(high, high * reach)
        if near is not None:
            yield from make(near, 1.0, ratio)
        larger = 2 ** max(math.ceil(math.log2(max(length, 1.0))), 0)
        low = larger / length
        yield from make(larger, roundest(low, low * 1e-13), roundest(low * high, low * high * 1e-13))
        return
    first_slow = float(plain[ramp >= 1 - 2 * slack][0]) if (ramp >= 1 - 2 * slack).any() else 0.0
    kept_rows = plain[ramp <= 2 * slack]
    last_kept = float(kept_rows[-1]) if len(kept_rows) else math.inf
    if len(rows) == 1:
        at, value = float(plain[rows[0]]), float(kept[rows[0]])
        for low, high in ((1.0, 4.0), (1.0, 2.0), (1.0, 8.0)):
            length = 2 * math.pi * (low + value * (high - low)) / at
            reach = 2 * float(slack[rows[0]]) / value
            near = round_length(length * (1 - reach), length * (1 + reach), hint=hint)
            if near is not None:
                yield from make(near, low, high, "the ratio of high_ to low_freq_factor")
        length = 2 ** max(math.ceil(math.log2(max(4 * math.pi / at, 1.0))), 0)
        low = length * at / (2 * math.pi) / (1 + value)
        yield from make(length, low, 2 * low, "the ratio of high_ to low_freq_factor")
        return
    if first_slow > 0 and math.isfinite(last_kept):
        start, end = 2 * math.pi / last_kept, 2 * math.pi / first_slow
        near = round_length(start * (1 + 1e-9), end * (1 - 1e-9), hint=hint)
        if near is not None:
            yield from make(near, 1.0, 1.0, "the border between two pairs")


def restated(rope: Rope, declared: Scaling) -> Rope | None:
    """Give the same table in the declared scaling's own terms, its original length above all; None where not possible.

    Args:
        rope: a fitted description, whose length and betas, or low and high factors, are known only together.
        declared: the scaling whose numbers are kept where the table allows them.
    """
    fitted = rope.scaling
    try:
        if isinstance(fitted, Llama3) and isinstance(declared, Llama3):
            times = declared.original_max_position_embeddings / fitted.original_max_position_embeddings
            scaling: Scaling = replace(
                declared,
                factor=fitted.factor,
                low_freq_factor=_near(times * fitted.low_freq_factor, declared.low_freq_factor),
                high_freq_factor=_near(times * fitted.high_freq_factor, declared.high_freq_factor),
            )
        elif isinstance(fitted, Yarn) and isinstance(declared, Yarn) and fitted.truncate == declared.truncate:
            original, theta, width = declared.original_max_position_embeddings, rope.rope_theta, rope.width
            low, high = fitted.bounds(theta, width)
            if fitted.truncate:
                turns = [
                    original / (2 * math.pi * theta ** (2 * pair / width)) for pair in (low, low + 1, high - 1, high)
                ]
                fast = _within(turns[1], turns[0] if low > 0 else math.inf, declared.beta_fast)
                slow = _within(turns[3] if high < width - 1 else 0.0, turns[2], declared.beta_slow)
            else:
                times = original / fitted.original_max_position_embeddings
                fast = _near(times * fitted.beta_fast, declared.beta_fast)
                slow = _near(times * fitted.beta_slow, declared.beta_slow)
            scaling = replace(
                declared, factor=fitted.factor, beta_fast=fast, beta_slow=slow, attention_factor=fitted.attention_factor
            )
        else:
            return None
        again = rope.replace(scaling=scaling)
    except (RopewalkError, OverflowError):
        return None
    same = np.allclose(again.pairs().inv_freq, rope.pairs().inv_freq, rtol=1e-7, atol=0)
    return again if same else None


def _near(value: float, declared: float) -> float:
    return declared if abs(value - declared) <= 1e-6 * declared else roundest(value, 1e-7 * value)


def _within(low: float, high: float, declared: float) -> float:
    if low < declared <= high:
        return declared
    if not math.isfinite(high):
        return 2 * low
    return roundest((low + high) / 2, (high - low) / 2.001)
