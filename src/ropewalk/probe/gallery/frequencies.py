"""Faults of plain frequencies and of unread or pinned scaling, M13 to M16."""

import math

import numpy as np

from .exhibit import Turn, shown
from .parts import declared, ladder, linear, llama3, turning, yarn

# The cases that faults of scaling are shown with, here and in scaling_*.py.
LLAMA3 = {
    "head_dim": 96,
    "rope_theta": 300_000.0,
    "factor": 16.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 4096,
}
LLAMA31 = {**LLAMA3, "head_dim": 128, "rope_theta": 500_000.0, "factor": 32.0, "original_max_position_embeddings": 8192}
LLAMA_ODD = {**LLAMA3, "head_dim": 64, "rope_theta": 90_000.0, "factor": 5.0, "low_freq_factor": 1.5}
YARN = {
    "head_dim": 80,
    "rope_theta": 250_000.0,
    "factor": 12.0,
    "original_max_position_embeddings": 6144,
}
GPT_OSS = {
    "head_dim": 64,
    "rope_theta": 150_000.0,
    "factor": 32.0,
    "original_max_position_embeddings": 4096,
    "options": {"heads": 8},
}


def exponent_without_2(head_dim: int, rope_theta: float, pairing: str = "half") -> Turn:
    """arange(half) for arange(0, dim, 2): the ladder reaches half as far down, as with a base of sqrt(θ)."""
    inv_freq = rope_theta ** (-np.arange(head_dim // 2) / head_dim)  # must be -2i / D
    return turning(inv_freq, pairing)


def wrong_theta(head_dim: int, rope_theta: float, used: float, pairing: str = "half") -> Turn:
    """The library's default where the config's rope_theta was meant."""
    return turning(ladder(used, head_dim), pairing)  # must be rope_theta


def unscaled(head_dim: int, rope_theta: float, **rope_scaling: object) -> Turn:
    """rope_scaling stands in the file, and nothing reads it."""
    inv_freq = ladder(rope_theta, head_dim)  # rope_scaling unused
    return turning(inv_freq)


def factor_pinned_llama3(
    head_dim: int,
    rope_theta: float,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> Turn:
    """Llama 3.1's own apply_scaling, which has its factor 8 as a constant."""
    scale_factor = 8  # must be factor
    inv_freq = ladder(rope_theta, head_dim)
    scaled = []
    for freq in inv_freq:
        wavelength = 2 * math.pi / freq
        if wavelength < original_max_position_embeddings / high_freq_factor:
            scaled.append(freq)
        elif wavelength > original_max_position_embeddings / low_freq_factor:
            scaled.append(freq / scale_factor)
        else:
            smooth = original_max_position_embeddings / wavelength - low_freq_factor
            smooth /= high_freq_factor - low_freq_factor
            scaled.append((1 - smooth) * freq / scale_factor + smooth * freq)
    return turning(np.array(scaled))


def factor_pinned_linear(head_dim: int, rope_theta: float, factor: float) -> Turn:
    """Position interpolation with somebody's constant."""
    return turning(ladder(rope_theta, head_dim) / 8.0)  # must be / factor


def factor_pinned_yarn(head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int) -> Turn:
    """YaRN with the factor of the model that it was written for, on frequencies and magnitude alike."""
    s = 8.0  # must be factor

    def pair_that_turns(turns: float) -> float:
        per_radian = original_max_position_embeddings / (turns * 2 * math.pi)
        return head_dim * math.log(per_radian) / (2 * math.log(rope_theta))

    low, high = math.floor(pair_that_turns(32)), math.ceil(pair_that_turns(1))
    low, high = max(low, 0), min(high, head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    plain = ladder(rope_theta, head_dim)
    return turning(plain / s * ramp + plain * (1 - ramp), g=0.1 * math.log(s) + 1)


LINEAR = {"head_dim": 16, "rope_theta": 500_000.0, "factor": 4.0}
LINEAR_TOO = {**LINEAR, "head_dim": 48, "factor": 2.5}

EXHIBITS = (
    *shown(
        "M13",
        "exponent-without-2",
        "θ^(-i/D) for θ^(-2i/D)",
        exponent_without_2,
        declared(),
        {"head_dim": 16, "rope_theta": 500_000.0},
        {"head_dim": 128, "rope_theta": 10_000.0, "pairing": "interleaved"},
        {"head_dim": 64, "rope_theta": 1_000_000.0},
    ),
    *shown(
        "M14",
        "wrong-theta",
        "another base than declared",
        wrong_theta,
        declared(),
        {"head_dim": 16, "rope_theta": 500_000.0, "used": 10_000.0},
        {"head_dim": 64, "rope_theta": 10_000.0, "used": 1_000_000.0, "pairing": "interleaved"},
        {"head_dim": 128, "rope_theta": 1_000_000.0, "used": 500_000.0},
        {"head_dim": 96, "rope_theta": 300_000.0, "used": 250_000.0},
    ),
    *shown("M15a", "unscaled", "llama3 declared and ignored", unscaled, llama3, LLAMA3, LLAMA31, LLAMA_ODD),
    *shown("M15b", "unscaled", "yarn declared and ignored", unscaled, yarn, YARN, {**GPT_OSS, "truncate": False}),
    *shown("M15c", "unscaled", "linear declared and ignored", unscaled, linear, LINEAR, LINEAR_TOO),
    *shown("M16a", "factor-pinned", "llama3 with 8 for its own factor", factor_pinned_llama3, llama3, LLAMA3, LLAMA31),
    *shown(
        "M16b",
        "factor-pinned",
        "linear with 8 for its own factor",
        factor_pinned_linear,
        linear,
        LINEAR,
        LINEAR_TOO,
    ),
    *shown("M16c", "factor-pinned", "yarn with 8 for its own factor", factor_pinned_yarn, yarn, YARN, GPT_OSS),
)
