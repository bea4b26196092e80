"""Faults inside llama3 and YaRN, M17 to M25: right in short prompts, or nearly so."""

import math

import numpy as np

from .exhibit import Turn, shown
from .frequencies import GPT_OSS, LLAMA3, LLAMA31, LLAMA_ODD, YARN
from .parts import Array, ladder, length_of, llama3, longrope, turned, turning, yarn


def llama3_precedence(
    head_dim: int,
    rope_theta: float,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> Turn:
    """The blend written as a divisor, and a pair of parentheses short."""
    inv_freq = ladder(rope_theta, head_dim)
    wavelength = 2 * np.pi / inv_freq
    smooth = (original_max_position_embeddings / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor)
    middle = (smooth > 0) & (smooth < 1)
    divisor = np.where(smooth >= 1, 1.0, factor)
    t = smooth[middle]
    divisor[middle] = 1 / (1 - t) * factor + t  # must be 1 / ((1 - t) / factor + t)
    return turning(inv_freq / divisor)


def llama3_ramp_in_wavelength(
    head_dim: int,
    rope_theta: float,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> Turn:
    """A ramp from one bound to the other: in wavelength, where frequency is meant, and from the wrong end."""
    inv_freq = ladder(rope_theta, head_dim)
    wavelength = 2 * np.pi / inv_freq
    shortest = original_max_position_embeddings / high_freq_factor
    longest = original_max_position_embeddings / low_freq_factor
    t = (wavelength - shortest) / (longest - shortest)  # must be linear in 1 / wavelength
    ramp = (1 - t) * factor + t  # and the divisor must rise from 1 to factor
    divisor = np.where(wavelength < shortest, 1.0, np.where(wavelength > longest, factor, ramp))
    return turning(inv_freq / divisor)


def bounds(rope_theta: float, dim: int, original_max_position_embeddings: int) -> tuple[float, float]:
    """Give the pairs that turn 32 times and once within the original length, as real numbers."""
    turns_32, turn_1 = (
        dim * math.log(original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(rope_theta))
        for turns in (32, 1)
    )
    return turns_32, turn_1


def magnitude(factor: float) -> float:
    """Give YaRN's factor on cos and sin."""
    return 0.1 * math.log(factor) + 1 if factor > 1 else 1.0


def yarn_rounded(
    head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int, truncate: bool
) -> Turn:
    """The authors' YaRN, which always rounds its bounds, for a model that was trained with truncate: false."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    low, high = max(math.floor(low), 0), min(math.ceil(high), head_dim - 1)  # must stay as they are
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    plain = ladder(rope_theta, head_dim)
    return turning(plain / factor * ramp + plain * (1 - ramp), g=magnitude(factor))


def yarn_not_rounded(
    head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int, pairing: str = "half"
) -> Turn:
    """gpt-oss's YaRN, which never rounds its bounds, for a model that was trained with rounded ones."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    low, high = max(low, 0), min(high, head_dim - 1)  # must be floor(low), ceil(high)
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    plain = ladder(rope_theta, head_dim)
    return turning(plain / factor * ramp + plain * (1 - ramp), pairing, g=magnitude(factor))


def yarn_clamp_half(head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int) -> Turn:
    """The upper bound held within the pairs, which looks right and is not what YaRN's authors did."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    low, high = max(math.floor(low), 0), min(math.ceil(high), head_dim // 2 - 1)  # must be head_dim - 1
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    plain = ladder(rope_theta, head_dim)
    return turning(plain / factor * ramp + plain * (1 - ramp), g=magnitude(factor))


def yarn_ramp_inverted(head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int) -> Turn:
    """A mask that says what to extrapolate, used as one that says what to interpolate."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    low, high = max(math.floor(low), 0), min(math.ceil(high), head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    mask = 1 - ramp
    plain = ladder(rope_theta, head_dim)
    return turning(plain / factor * mask + plain * (1 - mask), g=magnitude(factor))  # mask and 1 - mask exchanged


def yarn_factor_in_power(
    head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int
) -> Turn:
    """The interpolated branch with the factor inside the power."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    low, high = max(math.floor(low), 0), min(math.ceil(high), head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    exponent = np.arange(0, head_dim, 2) / head_dim
    extrapolated = 1.0 / rope_theta**exponent
    interpolated = 1.0 / (factor * rope_theta) ** exponent  # must be 1 / (factor * rope_theta**exponent)
    return turning(interpolated * ramp + extrapolated * (1 - ramp), g=magnitude(factor))


def yarn_ntk_base(head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int) -> Turn:
    """NTK-aware and YaRN mixed: the branch that is meant to stay takes the stretched base."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    low, high = max(math.floor(low), 0), min(math.ceil(high), head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    stretched = rope_theta * factor ** (head_dim / (head_dim - 2))
    extrapolated = ladder(stretched, head_dim)  # must be ladder(rope_theta, head_dim)
    interpolated = ladder(rope_theta, head_dim) / factor
    return turning(interpolated * ramp + extrapolated * (1 - ramp), g=magnitude(factor))


def magnitude_missing(head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int) -> Turn:
    """The frequencies of YaRN without its second half: attention is a little too soft everywhere."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    low, high = max(math.floor(low), 0), min(math.ceil(high), head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    plain = ladder(rope_theta, head_dim)
    return turning(plain / factor * ramp + plain * (1 - ramp))  # cos and sin must carry 0.1 ln(factor) + 1


def magnitude_missing_longrope(
    head_dim: int,
    rope_theta: float,
    original_max_position_embeddings: int,
    max_position_embeddings: int,
    short_factor: tuple[float, ...],
    long_factor: tuple[float, ...],
) -> Turn:
    """Phi-3's two lists without its attention factor."""
    plain = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        long = length_of(position_ids) > original_max_position_embeddings
        inv_freq = plain / np.array(long_factor if long else short_factor)
        return turned(x, position_ids[..., None] * inv_freq)  # without sqrt(1 + ln(Lmax / L0) / ln(L0))

    return fn


def magnitude_twice(
    head_dim: int,
    rope_theta: float,
    factor: float,
    original_max_position_embeddings: int,
    attention_factor: float | None = None,
) -> Turn:
    """The table carries the magnitude, and so does the caller."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    low, high = max(math.floor(low), 0), min(math.ceil(high), head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    plain = ladder(rope_theta, head_dim)
    g = magnitude(factor) if attention_factor is None else attention_factor
    rotate = turning(plain / factor * ramp + plain * (1 - ramp), g=g)

    def fn(x: Array, position_ids: Array) -> Array:
        return (rotate(x, position_ids) * g).astype(x.dtype)  # g stands in cos and sin already

    return fn


def magnitude_on_all_channels(
    head_dim: int, rotary_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int
) -> Turn:
    """The magnitude multiplied onto the whole head: its channels that do not turn grow as well."""
    low, high = bounds(rope_theta, rotary_dim, original_max_position_embeddings)
    low, high = max(math.floor(low), 0), min(math.ceil(high), rotary_dim - 1)
    ramp = np.clip((np.arange(rotary_dim // 2) - low) / (high - low), 0, 1)
    plain = ladder(rope_theta, rotary_dim)
    rotate = turning(plain / factor * ramp + plain * (1 - ramp))

    def fn(x: Array, position_ids: Array) -> Array:
        return (rotate(x, position_ids) * magnitude(factor)).astype(x.dtype)  # must be on the first rotary_dim channels

    return fn


BEYOND = {"head_dim": 48, "rope_theta": 5000.0, "factor": 6.0, "original_max_position_embeddings": 65_536}
BEYOND_TOO = {
    **BEYOND,
    "head_dim": 64,
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 131_072,
}
DEEPSEEK = {"head_dim": 64, "rope_theta": 10_000.0, "factor": 40.0, "original_max_position_embeddings": 4096}
PHI = {
    "head_dim": 80,
    "rope_theta": 10_000.0,
    "original_max_position_embeddings": 3072,
    "max_position_embeddings": 49_152,
    "short_factor": (1.0,) * 40,
    "long_factor": (2.5,) * 40,
}
QUARTER = {"head_dim": 96, "rotary_dim": 48, "rope_theta": 250_000.0, "factor": 12.0}

EXHIBITS = (
    *shown(
        "M17",
        "llama3-precedence",
        "1/(1-t)·s + t for 1/((1-t)/s + t)",
        llama3_precedence,
        llama3,
        LLAMA3,
        LLAMA31,
        LLAMA_ODD,
    ),
    *shown(
        "M18",
        "llama3-ramp-in-wavelength",
        "a ramp in wavelength, and reversed",
        llama3_ramp_in_wavelength,
        llama3,
        LLAMA3,
        LLAMA31,
        LLAMA_ODD,
    ),
    *shown(
        "M19a",
        "yarn-rounded",
        "bounds rounded, truncate false declared",
        yarn_rounded,
        yarn,
        {**YARN, "truncate": False},
        {**GPT_OSS, "truncate": False},
    ),
    *shown(
        "M19b",
        "yarn-rounded",
        "bounds not rounded, rounded ones declared",
        yarn_not_rounded,
        yarn,
        YARN,
        {**DEEPSEEK, "pairing": "interleaved"},
    ),
    *shown("M20", "yarn-clamp-half", "upper bound held at R/2 - 1", yarn_clamp_half, yarn, BEYOND, BEYOND_TOO),
    *shown(
        "M21",
        "yarn-ramp-inverted",
        "fast pairs slowed, slow ones kept",
        yarn_ramp_inverted,
        yarn,
        YARN,
        DEEPSEEK,
        GPT_OSS,
    ),
    *shown(
        "M22",
        "yarn-factor-in-power",
        "(s·θ)^x for s·θ^x in the interpolated branch",
        yarn_factor_in_power,
        yarn,
        YARN,
        DEEPSEEK,
    ),
    *shown("M23", "yarn-ntk-base", "stretched base in the kept branch", yarn_ntk_base, yarn, YARN, DEEPSEEK),
    *shown("M24a", "magnitude-missing", "yarn without its magnitude", magnitude_missing, yarn, YARN, DEEPSEEK),
    *shown("M24b", "magnitude-missing", "longrope without its magnitude", magnitude_missing_longrope, longrope, PHI),
    *shown(
        "M25a",
        "magnitude-twice",
        "the magnitude in the table and by the caller",
        magnitude_twice,
        yarn,
        YARN,
        {**DEEPSEEK, "attention_factor": 1.3},
    ),
    *shown(
        "M25b",
        "magnitude-twice",
        "the magnitude on all channels of a partial head",
        magnitude_on_all_channels,
        yarn,
        {**QUARTER, "original_max_position_embeddings": 6144},
        {**QUARTER, "head_dim": 128, "factor": 4.0, "original_max_position_embeddings": 8192},
    ),
)
