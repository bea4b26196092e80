"""Right variants that their description explains, V13 to V21, V27 and V28: unusual, and declared."""

import math
from typing import Any

import numpy as np

from ...axes import Ladders, Single
from ...rope import Rope
from ...scaling import Proportional, Yarn
from .exhibit import Turn, shown
from .frequencies import GPT_OSS, LLAMA3, YARN
from .parts import (
    Array,
    declared,
    doubled,
    dynamic,
    ladder,
    length_of,
    linear,
    llama3,
    longrope,
    longrope_magnitude,
    per_head,
    proportional,
    rotate_half,
    sections,
    turned,
    turning,
    yarn,
)
from .scaling_lengths import DYNAMIC, DYNAMIC_TOO, MEDIUM
from .scaling_static import DEEPSEEK, PHI, bounds, magnitude
from .several_axes import QWEN2_VL, QWEN3_VL, three_rows

SMALL = {"head_dim": 16, "rope_theta": 500_000.0}


def nanochat(head_dim: int, rope_theta: float) -> Turn:
    """Nanochat's rotate_half, (x2, -x1): trained so."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        return x * per_head(np.cos(angle), x) - rotate_half(x) * per_head(np.sin(angle), x)

    return fn


def tail(head_dim: int, rope_theta: float, rotary_dim: int, rotary_start: int, pairing: str) -> Turn:
    """Turn the last channels: MLA and DeepSeek-V4."""
    inv_freq = ladder(rope_theta, rotary_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        x_nope, x_rope = x[..., :rotary_start], x[..., rotary_start:]
        return np.concatenate([x_nope, turned(x_rope, position_ids[..., None] * inv_freq, pairing)], axis=-1)

    return fn


def gemma_4(head_dim: int, rope_theta: float, partial_rotary_factor: float, factor: float = 1.0) -> Turn:
    """Frequencies of 0 for the channels that keep still."""
    turning_pairs = int(partial_rotary_factor * head_dim // 2)
    inv_freq = ladder(rope_theta, head_dim) / factor
    inv_freq[turning_pairs:] = 0
    return turning(inv_freq)


def yarn_with_magnitude(
    head_dim: int,
    rope_theta: float,
    factor: float,
    original_max_position_embeddings: int,
    truncate: bool = True,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
) -> Turn:
    """YaRN with its magnitude on cos and sin."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    plain = ladder(rope_theta, head_dim)
    g = magnitude(factor)
    if mscale and mscale_all_dim:
        g = (0.1 * mscale * math.log(factor) + 1) / (0.1 * mscale_all_dim * math.log(factor) + 1)
    return turning(plain / factor * ramp + plain * (1 - ramp), g=g)


def longrope_with_magnitude(
    head_dim: int,
    rope_theta: float,
    original_max_position_embeddings: int,
    max_position_embeddings: int,
    short_factor: tuple[float, ...],
    long_factor: tuple[float, ...],
) -> Turn:
    """LongRoPE with both lists and its magnitude on cos and sin."""
    g = longrope_magnitude(original_max_position_embeddings, max_position_embeddings)
    plain = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        long = length_of(position_ids) > original_max_position_embeddings
        inv_freq = plain / np.array(long_factor if long else short_factor)
        return turned(x, position_ids[..., None] * inv_freq, g=g)

    return fn


def magnitude_on_softmax(
    head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int
) -> Turn:
    """YaRN as torchtitan and DeepSeek-V3 have it: cos and sin plain, the magnitude's square on the softmax scale."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    low, high = max(math.floor(low), 0), min(math.ceil(high), head_dim - 1)
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    plain = ladder(rope_theta, head_dim)
    return turning(plain / factor * ramp + plain * (1 - ramp))


def no_rope(head_dim: int) -> Turn:
    """A layer without positions: SmolLM3's every fourth, Cohere 2's global ones."""

    def fn(x: Array, position_ids: Array) -> Array:
        return x.copy()

    return fn


def mrope_text(head_dim: int, rope_theta: float, mrope_section: tuple[int, int, int]) -> Turn:
    """M-RoPE given text: three equal rows."""
    inv_freq = ladder(rope_theta, head_dim)
    axis = np.repeat([0, 1, 2], mrope_section)

    def fn(x: Array, position_ids: Array) -> Array:
        by_pair = three_rows(position_ids)[axis]
        return turned(x, np.moveaxis(by_pair, 0, -1) * inv_freq)

    return fn


def mrope_interleaved(head_dim: int, rope_theta: float, mrope_section: tuple[int, int, int]) -> Turn:
    """Qwen3-VL's layout: t, h, w in turn, t where a section is used up."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs_t, freqs_h, freqs_w = three_rows(position_ids)[..., None] * inv_freq
        freqs = freqs_t.copy()
        for axis, other in ((1, freqs_h), (2, freqs_w)):
            dealt = slice(axis, 3 * mrope_section[axis], 3)
            freqs[..., dealt] = other[..., dealt]
        return turned(x, freqs)

    return fn


def vision_tower(head_dim: int, rope_theta: float) -> Turn:
    """A ladder for the row and one for the column: Qwen2-VL's vision tower."""
    inv_freq = ladder(rope_theta, head_dim // 2)

    def fn(x: Array, position_ids: Array) -> Array:
        h, w = position_ids
        return turned(x, np.concatenate([h[..., None] * inv_freq, w[..., None] * inv_freq], axis=-1))

    return fn


def whole_hidden_width(head_dim: int, rope_theta: float, pairing: str) -> Turn:
    """One rope over all heads at once, before they are split: LTX-Video's way. head_dim is the hidden width here."""
    return turning(ladder(rope_theta, head_dim), pairing)


def dynamic_by_length(head_dim: int, rope_theta: float, factor: float, max_position_embeddings: int) -> Turn:
    """Dynamic NTK from the call's own length, with no memory."""

    def fn(x: Array, position_ids: Array) -> Array:
        length = max(length_of(position_ids), max_position_embeddings)
        ratio = factor * length / max_position_embeddings - (factor - 1)
        base = rope_theta * ratio ** (head_dim / (head_dim - 2))
        return turned(x, position_ids[..., None] * ladder(base, head_dim))

    return fn


def plain_half(head_dim: int, rope_theta: float, **unused: object) -> Turn:
    """No scaling at all."""
    return turning(ladder(rope_theta, head_dim))


def softmax_yarn(**parameters: Any) -> Rope:
    """Declare a YaRN whose magnitude is on the softmax scale."""
    names = ("factor", "original_max_position_embeddings")
    scaling = Yarn(**{name: parameters[name] for name in names}, mscale=1.0, mscale_all_dim=1.0, scale_softmax=True)
    return declared(scaling=scaling)(**parameters)


def still(head_dim: int) -> Rope:
    """Declare a rope in which no pair turns."""
    never = Proportional(partial_rotary_factor=1e-9)
    return Rope(head_dim=head_dim, rope_theta=10_000.0, pairing="half", scaling=never)


def tower(**parameters: Any) -> Rope:
    """Declare a vision tower with a ladder for each of (h, w)."""
    half = parameters["head_dim"] // 2
    return declared(axes=Ladders(widths=(half, half)))(**parameters)


def text_only(**parameters: Any) -> Rope:
    """Declare an M-RoPE that sees text alone: an ordinary rope."""
    return declared(axes=Single())(**parameters)


MROPE = {"head_dim": 40, "rope_theta": 300_000.0, "mrope_section": (10, 6, 4)}
WITHIN = {"options": {"max_position": 3071}}

EXHIBITS = (
    *shown(
        "V13",
        None,
        "the negative angle, declared",
        nanochat,
        declared(direction=-1),
        SMALL,
        {"head_dim": 128, "rope_theta": 10_000.0},
    ),
    *shown(
        "V14",
        None,
        "the last channels, declared",
        tail,
        declared(),
        {"head_dim": 10, "rope_theta": 10_000.0, "rotary_dim": 4, "rotary_start": 6, "pairing": "half"},
        {"head_dim": 192, "rope_theta": 10_000.0, "rotary_dim": 64, "rotary_start": 128, "pairing": "interleaved"},
    ),
    *shown(
        "V15",
        None,
        "proportional, with frequencies of 0",
        gemma_4,
        proportional,
        {"head_dim": 160, "rope_theta": 200_000.0, "partial_rotary_factor": 0.3},
        {"head_dim": 64, "rope_theta": 1_000_000.0, "partial_rotary_factor": 0.25, "factor": 8.0},
    ),
    *shown(
        "V16a",
        None,
        "yarn's magnitude on cos and sin",
        yarn_with_magnitude,
        yarn,
        YARN,
        {**GPT_OSS, "truncate": False},
        {**DEEPSEEK, "mscale": 1.0, "mscale_all_dim": 0.5},
    ),
    *shown("V16b", None, "longrope's magnitude on cos and sin", longrope_with_magnitude, longrope, PHI, MEDIUM),
    *shown("V17", None, "the magnitude on the softmax scale", magnitude_on_softmax, softmax_yarn, YARN, DEEPSEEK),
    *shown("V18a", None, "no rope, declared as still", no_rope, still, {"head_dim": 16}, {"head_dim": 96}),
    *shown("V18b", None, "no rope, nothing declared", no_rope, None, {"head_dim": 64}),
    *shown("V19a", None, "M-RoPE on text, declared as ordinary", mrope_text, text_only, MROPE, QWEN2_VL),
    *shown("V19b", None, "M-RoPE interleaved on text, declared as ordinary", mrope_interleaved, text_only, MROPE),
    *shown("V20a", None, "M-RoPE chunked, declared", mrope_text, sections("chunked"), MROPE, QWEN2_VL),
    *shown("V20b", None, "M-RoPE interleaved, declared", mrope_interleaved, sections("interleaved"), MROPE, QWEN3_VL),
    *shown(
        "V20c",
        None,
        "a vision tower of rows and columns",
        vision_tower,
        tower,
        SMALL,
        {"head_dim": 80, "rope_theta": 100.0},
    ),
    *shown(
        "V21",
        None,
        "the whole hidden width, declared",
        whole_hidden_width,
        declared(),
        {"head_dim": 1024, "rope_theta": 10_000.0, "pairing": "interleaved"},
        {"head_dim": 96, "rope_theta": 500_000.0, "pairing": "half"},
        heads=1,
    ),
    *shown(
        "V27a",
        None,
        "dynamic within the trained length, declared unscaled",
        dynamic_by_length,
        declared(),
        {**DYNAMIC, **WITHIN},
    ),
    *shown(
        "V27b", None, "unscaled within the trained length, declared dynamic", plain_half, dynamic, {**DYNAMIC, **WITHIN}
    ),
    *shown("V27c", None, "dynamic at every length", dynamic_by_length, dynamic, DYNAMIC, DYNAMIC_TOO),
    *shown("V27d", None, "unscaled, declared llama3 with factor 1", plain_half, llama3, {**LLAMA3, "factor": 1.0}),
    *shown("V27e", None, "unscaled, declared yarn with factor 1", plain_half, yarn, {**YARN, "factor": 1.0}),
    *shown("V27f", None, "unscaled, declared linear with factor 1", plain_half, linear, {**SMALL, "factor": 1.0}),
    *shown(
        "V28",
        None,
        "theta 1: all pairs at one speed",
        plain_half,
        declared(),
        {"head_dim": 16, "rope_theta": 1.0},
        {"head_dim": 6, "rope_theta": 1.0},
    ),
)
