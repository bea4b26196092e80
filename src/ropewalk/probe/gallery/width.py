"""Faults of the rotated width, M07 to M12: which channels turn, with whom, and over which width the exponent runs."""

import numpy as np

from .exhibit import Turn, shown
from .parts import (
    Array,
    declared,
    doubled,
    ladder,
    per_head,
    proportional,
    repeated,
    rotate_every_two,
    rotate_half,
    turned,
    turning,
)

HALF_HEAD = {"head_dim": 16, "rotary_dim": 8, "rope_theta": 500_000.0}
GPT_J = {"head_dim": 256, "rotary_dim": 64, "rope_theta": 10_000.0, "options": {"heads": 4}}
THREE_QUARTERS = {"head_dim": 96, "rotary_dim": 72, "rope_theta": 300_000.0, "options": {"heads": 5}}


def partner_of_full_head(head_dim: int, rotary_dim: int, rope_theta: float) -> Turn:
    """The right angles for a partial head, laid out as if the whole head turned."""
    inv_freq = ladder(rope_theta, rotary_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = position_ids[..., None] * inv_freq
        still = np.zeros((*freqs.shape[:-1], (head_dim - rotary_dim) // 2))
        angle = doubled(np.concatenate([freqs, still], axis=-1))  # [D]: the table is padded to the head …
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        return x * cos + rotate_half(x) * sin  # … so the partner of i is i + D/2, where i + R/2 is meant

    return fn


def leading_for_tail(head_dim: int, rotary_dim: int, rope_theta: float, rotary_start: int, pairing: str) -> Turn:
    """DeepSeek-V4 and every MLA head keep the rotated channels last; this code takes the first ones."""
    inv_freq = ladder(rope_theta, rotary_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        x_rope, x_nope = x[..., :rotary_dim], x[..., rotary_dim:]  # must be x[..., rotary_start:] that turns
        return np.concatenate([turned(x_rope, position_ids[..., None] * inv_freq, pairing), x_nope], axis=-1)

    return fn


def full_for_partial(head_dim: int, rotary_dim: int, rope_theta: float, pairing: str = "half") -> Turn:
    """partial_rotary_factor unread."""
    inv_freq = ladder(rope_theta, head_dim)  # must be rotary_dim
    return turning(inv_freq, pairing)


def partial_twice(head_dim: int, rotary_dim: int, rope_theta: float, pairing: str = "half") -> Turn:
    """The reader applied partial_rotary_factor, and the layer does so again."""
    partial_rotary_factor = rotary_dim / head_dim
    width = int(rotary_dim * partial_rotary_factor)  # must be head_dim * partial_rotary_factor
    return turning(ladder(rope_theta, width), pairing)


def proportional_for_ordinary(head_dim: int, rotary_dim: int, rope_theta: float) -> Turn:
    """Gemma 4's reading of partial_rotary_factor, in a model of the ordinary kind."""
    inv_freq = np.zeros(head_dim // 2)
    inv_freq[: rotary_dim // 2] = ladder(rope_theta, head_dim)[: rotary_dim // 2]  # exponent over D, must be over R

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        return x * cos + rotate_half(x) * sin  # pairs (i, i + D/2), must be (i, i + R/2)

    return fn


def ordinary_for_proportional(head_dim: int, rope_theta: float, partial_rotary_factor: float) -> Turn:
    """The ordinary reading of partial_rotary_factor, in a Gemma 4."""
    rotary_dim = 2 * int(partial_rotary_factor * head_dim // 2)
    inv_freq = ladder(rope_theta, rotary_dim)  # must be the first entries of the ladder over the whole head

    def fn(x: Array, position_ids: Array) -> Array:
        x_rope, x_pass = x[..., :rotary_dim], x[..., rotary_dim:]
        angle = doubled(position_ids[..., None] * inv_freq)
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        return np.concatenate([x_rope * cos + rotate_half(x_rope) * sin, x_pass], axis=-1)

    return fn


def exponent_over_head(head_dim: int, rotary_dim: int, rope_theta: float) -> Turn:
    """The right channels, turned too fast: the ladder runs over the head and is cut."""
    inv_freq = ladder(rope_theta, head_dim)[: rotary_dim // 2]  # must run over rotary_dim

    def fn(x: Array, position_ids: Array) -> Array:
        x_rope, x_pass = x[..., :rotary_dim], x[..., rotary_dim:]
        angle = doubled(position_ids[..., None] * inv_freq)
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        return np.concatenate([x_rope * cos + rotate_half(x_rope) * sin, x_pass], axis=-1)

    return fn


def exponent_over_head_interleaved(head_dim: int, rotary_dim: int, rope_theta: float) -> Turn:
    """The same slip in GPT-J's code."""
    inv_freq = 1.0 / rope_theta ** (np.arange(0, rotary_dim, 2) / head_dim)  # must be / rotary_dim

    def fn(x: Array, position_ids: Array) -> Array:
        x_rope, x_pass = x[..., :rotary_dim], x[..., rotary_dim:]
        angle = repeated(position_ids[..., None] * inv_freq)
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        return np.concatenate([x_rope * cos + rotate_every_two(x_rope) * sin, x_pass], axis=-1)

    return fn


EXHIBITS = (
    *shown(
        "M07",
        "partner-of-full-head",
        "right angles, partner i + D/2 for i + R/2",
        partner_of_full_head,
        declared(),
        HALF_HEAD,
        {"head_dim": 12, "rotary_dim": 6, "rope_theta": 500.0},
        THREE_QUARTERS,
    ),
    *shown(
        "M08",
        "leading-for-tail",
        "the first channels turned, the last ones declared",
        leading_for_tail,
        declared(),
        {**HALF_HEAD, "rotary_start": 8, "pairing": "half"},
        {"head_dim": 10, "rotary_dim": 4, "rope_theta": 10_000.0, "rotary_start": 6, "pairing": "interleaved"},
        {"head_dim": 192, "rotary_dim": 64, "rope_theta": 10_000.0, "rotary_start": 128, "pairing": "interleaved"},
    ),
    *shown(
        "M09",
        "full-for-partial",
        "the whole head turned, a part declared",
        full_for_partial,
        declared(),
        HALF_HEAD,
        THREE_QUARTERS,
        {**GPT_J, "pairing": "interleaved"},
    ),
    *shown(
        "M10",
        "partial-twice",
        "the part of the part turned",
        partial_twice,
        declared(),
        HALF_HEAD,
        {"head_dim": 96, "rotary_dim": 48, "rope_theta": 300_000.0},
        {**GPT_J, "pairing": "interleaved"},
    ),
    *shown(
        "M11a",
        "proportional-for-ordinary",
        "pairs and exponent of the whole head, an ordinary part declared",
        proportional_for_ordinary,
        declared(),
        HALF_HEAD,
        {"head_dim": 160, "rotary_dim": 48, "rope_theta": 200_000.0},
    ),
    *shown(
        "M11b",
        "proportional-for-ordinary",
        "an ordinary part turned, proportional declared",
        ordinary_for_proportional,
        proportional,
        {"head_dim": 16, "rope_theta": 500_000.0, "partial_rotary_factor": 0.5},
        {"head_dim": 160, "rope_theta": 200_000.0, "partial_rotary_factor": 0.3},
        {"head_dim": 256, "rope_theta": 1_000_000.0, "partial_rotary_factor": 0.25},
    ),
    *shown(
        "M12a",
        "exponent-over-head",
        "right channels, exponent over the head",
        exponent_over_head,
        declared(),
        HALF_HEAD,
        THREE_QUARTERS,
    ),
    *shown(
        "M12b",
        "exponent-over-head",
        "right channels, exponent over the head, interleaved",
        exponent_over_head_interleaved,
        declared(pairing="interleaved"),
        HALF_HEAD,
        GPT_J,
    ),
)
