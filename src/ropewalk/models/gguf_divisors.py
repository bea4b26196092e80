"""Divisors of frequencies, as GGUF stores them, taken back to the parameters that made them."""

import math

import numpy as np
from numpy.typing import NDArray

from ..scaling import Default, Linear, Llama3, LongRope, Proportional, Scaling
from ..scaling._frequencies import ladder

STILL = 1e20  # a divisor that stops a pair: converters write 1e30
RTOL = 5e-6  # converters compute in float32, and a ramp magnifies the rounding of a frequency
_KNOWN = ((1.0, 4.0, 8192), (1.0, 4.0, 4096), (1.0, 4.0, 2048), (1.0, 1.0, 8192))


def scaling_of(
    divisors: NDArray[np.float64], rope_theta: float, *, length: int | None, original: int | None
) -> tuple[Scaling, str]:
    """Find the scaling whose frequencies are the ladder over these divisors.

    Args:
        divisors: [P], above 0; 1e30 for a pair that keeps still.
        rope_theta: θ.
        length: the model's context, tokens, or None.
        original: the length trained before stretching, where the file states it.

    Returns:
        The scaling and how it was found: default, linear, llama3 or proportional where one reproduces every divisor
        to float32, else the table itself as a longrope whose two lists are equal.

    >>> import numpy as np
    >>> scaling_of(np.array([1.0, 1.0, 1e30, 1e30]), 10000.0, length=None, original=None)[0]
    Proportional(partial_rotary_factor=0.5, factor=1.0)
    """
    turning = int(np.count_nonzero(divisors < STILL))
    if turning and (divisors[:turning] < STILL).all() and _equal(divisors[:turning], divisors[0]):
        factor = nice(float(divisors[0]))
        if turning < len(divisors):
            return Proportional(partial_rotary_factor=turning / len(divisors), factor=factor), "fitted, proportional"
        return (Default(), "all 1") if factor == 1 else (Linear(factor=factor), "fitted, linear")
    if turning == len(divisors):
        found = _llama3(divisors, rope_theta, original)
        if found is not None:
            return found, "fitted, llama3"
    return table(divisors, original or length), "kept as a table"


def table(divisors: NDArray[np.float64], original: int | None, attention_factor: float = 1.0) -> LongRope:
    """Give divisors as a scaling of their own, the same at every length."""
    values = tuple(divisors.tolist())
    return LongRope(
        short_factor=values,
        long_factor=values,
        original_max_position_embeddings=max(original or 2, 2),
        attention_factor=attention_factor,
    )


def nice(value: float) -> float:
    """Give the short decimal that a float32 was written from, where there is one, else the value as it is.

    >>> nice(float(np.float32(0.1))), nice(999999.4375)
    (0.1, 999999.4375)
    """
    if not math.isfinite(value):
        return value
    short = float(f"{value:.6g}")
    return short if np.float32(short) == np.float32(value) else value


def _equal(seen: NDArray[np.float64], right: NDArray[np.float64] | float) -> bool:
    return bool(np.allclose(seen, right, rtol=RTOL, atol=0))


def _llama3(divisors: NDArray[np.float64], rope_theta: float, original: int | None) -> Llama3 | None:
    """Fit factor, low, high and L0; only L0/low and L0/high can be told apart, so L0 or low is taken as usual."""
    factor = nice(float(divisors[-1]))
    if factor <= 1 or not _equal(divisors[0], 1.0):
        return None
    width = 2 * len(divisors)
    plain = ladder(rope_theta, width)
    candidates = [(low, high, length) for low, high, length in _KNOWN if original in (None, length)]
    candidates += _from_ramp(divisors, plain, factor, original)
    for low, high, length in candidates:
        if not (0 < low <= high < math.inf and 1 <= length <= 2**40):
            continue
        scaling = Llama3(
            factor=factor, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=length
        )
        if _equal(divisors, plain / scaling.frequencies(rope_theta, width).inv_freq):
            return scaling
    return None


def _from_ramp(
    divisors: NDArray[np.float64], plain: NDArray[np.float64], factor: float, original: int | None
) -> list[tuple[float, float, int]]:
    """Read the line t = (L0·w/2π - low)/(high - low) off the pairs between kept and divided."""
    kept = (1 / divisors - 1 / factor) / (1 - 1 / factor)
    ramp = np.flatnonzero((kept > 1e-4) & (kept < 1 - 1e-4))
    turns = plain[ramp] / (2 * math.pi)
    if len(ramp) == 0:  # a step, as Llama 4's: any L0 between the wavelengths beside it
        edge = int(np.count_nonzero(kept > 0.5))
        shortest, longest = (2 * math.pi / plain[place] for place in (edge - 1, edge))
        lengths = [2**power for power in range(6, 31) if shortest < 2**power < longest]
        return [(1.0, 1.0, length) for length in ([original] if original else lengths)]
    if len(ramp) == 1:  # one pair tells high, where the file tells L0
        if original is None:
            return []
        high = 1 + (original * turns[0] - 1) / kept[ramp[0]]
        return [(1.0, float(f"{high:.3g}"), original), (1.0, float(high), original)]
    slope, offset = np.polyfit(turns, kept[ramp], 1, w=1 / np.maximum(kept[ramp], 1e-3))
    if not (slope > 0 > offset):
        return []
    # low = 1 as every published model has it, or the low that the stated L0 asks for
    low = 1.0 if original is None else -offset / slope * original
    high = low * (1 - 1 / offset)
    length = low * slope / -offset
    return [(float(f"{low:.3g}"), float(f"{high:.3g}"), round(length)), (low, high, round(length))]
