"""Scalings with a ramp between kept and slowed pairs, fitted: YaRN's over the pair number, llama3's over frequency."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import RopewalkError
from ..rope import Rope
from ..scaling import Llama3, Scaling, Yarn
from ..scaling._frequencies import magnitude
from .numbers import Array, round_length, roundest

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


def partial_share(turning: int, width: int) -> float:
    """Give the roundest p with int(p·D // 2) = turning."""
    for digits in range(1, 17):
        for share in (round(2 * turning / width, digits), round(2 * turning / width + 10**-digits, digits)):
            if 0 < share <= 1 and int(share * width // 2) == turning:
                return share
    return 2 * turning / width


def yarn_fits(
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


def llama3_fits(
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
