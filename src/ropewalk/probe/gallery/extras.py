"""Faults beyond the list, X01 to X15: two at once, and some that engines have really had."""

import numpy as np

from ...rope import Rope
from .exhibit import Turn, shown
from .frequencies import YARN
from .parts import (
    Array,
    declared,
    doubled,
    dynamic,
    ladder,
    length_of,
    per_head,
    proportional,
    repeated,
    rotate_every_two,
    sections,
    turned,
    turning,
    yarn,
)
from .scaling_lengths import DYNAMIC
from .scaling_static import bounds, magnitude
from .several_axes import SMALL as MROPE

SMALL = {"head_dim": 16, "rope_theta": 500_000.0}


def pairing_and_theta(head_dim: int, rope_theta: float, used: float) -> Turn:
    """Two defaults at once: the library's pairing and the library's base."""
    inv_freq = ladder(used, head_dim)  # must be rope_theta

    def fn(x: Array, position_ids: Array) -> Array:
        angle = repeated(position_ids[..., None] * inv_freq)
        return x * per_head(np.cos(angle), x) + rotate_every_two(x) * per_head(np.sin(angle), x)  # must be halves

    return fn


def conjugate_and_interleaved(head_dim: int, rope_theta: float) -> Turn:
    """The complex form with the inverse's exponent, where halves are meant."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, -position_ids[..., None] * inv_freq, "interleaved")  # must be + and "half"

    return fn


def unscaled_with_magnitude(
    head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int
) -> Turn:
    """YaRN's magnitude kept while the frequencies are those of the unscaled model."""
    return turning(ladder(rope_theta, head_dim), g=magnitude(factor))  # the frequencies must be blended


def packed_runs_on(head_dim: int, rope_theta: float) -> Turn:
    """The first id read and the rest counted: a packed row does not restart."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        t = position_ids[..., :1] + np.arange(x.shape[1])  # must be position_ids
        return turned(x, t[..., None] * inv_freq)

    return fn


def row_0_ids_for_all(head_dim: int, rope_theta: float) -> Turn:
    """The ids of the first row used for the whole batch: left-padded rows are wrong."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        t = position_ids[0] if position_ids.ndim == 2 else position_ids  # must be every row's own
        return turned(x, t[..., None] * inv_freq)

    return fn


def decode_one_ahead(head_dim: int, rope_theta: float) -> Turn:
    """The cache's length read after the new token joined it: decode steps are one ahead of the prefill."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        one_token = x.shape[1] == 1
        t = position_ids + 1 if one_token else position_ids  # must be position_ids
        return turned(x, t[..., None] * inv_freq)

    return fn


def dynamic_never(head_dim: int, rope_theta: float, factor: float, max_position_embeddings: int) -> Turn:
    """Dynamic NTK computed at the trained length, where it changes nothing."""
    length = max_position_embeddings  # must be the sequence's
    ratio = factor * length / max_position_embeddings - (factor - 1)
    return turning(ladder(rope_theta * ratio ** (head_dim / (head_dim - 2)), head_dim))


def dynamic_divides(head_dim: int, rope_theta: float, factor: float, max_position_embeddings: int) -> Turn:
    """The stretch of the base put on the frequencies: all pairs are slowed alike."""
    plain = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        length = max(length_of(position_ids), max_position_embeddings)
        ratio = factor * length / max_position_embeddings - (factor - 1)
        inv_freq = plain / ratio ** (head_dim / (head_dim - 2))  # must stretch rope_theta
        return turned(x, position_ids[..., None] * inv_freq)

    return fn


def dynamic_by_call(head_dim: int, rope_theta: float, factor: float, max_position_embeddings: int) -> Turn:
    """Dynamic NTK counting the tokens of the call: a decode step has one, and is never stretched."""

    def fn(x: Array, position_ids: Array) -> Array:
        length = max(x.shape[1], max_position_embeddings)  # must be the highest position plus 1
        ratio = factor * length / max_position_embeddings - (factor - 1)
        base = rope_theta * ratio ** (head_dim / (head_dim - 2))
        return turned(x, position_ids[..., None] * ladder(base, head_dim))

    return fn


def yarn_positions_clipped(
    head_dim: int, rope_theta: float, factor: float, original_max_position_embeddings: int
) -> Turn:
    """YaRN with positions cut at the original length: what it was made for does not happen."""
    low, high = bounds(rope_theta, head_dim, original_max_position_embeddings)
    ramp = np.clip((np.arange(head_dim // 2) - np.floor(low)) / (np.ceil(high) - np.floor(low)), 0, 1)
    plain = ladder(rope_theta, head_dim)
    rotate = turning(plain / factor * ramp + plain * (1 - ramp), g=magnitude(factor))

    def fn(x: Array, position_ids: Array) -> Array:
        return rotate(x, np.minimum(position_ids, original_max_position_embeddings - 1))  # must not be cut

    return fn


def proportional_factor_ignored(head_dim: int, rope_theta: float, partial_rotary_factor: float, factor: float) -> Turn:
    """Proportional pairs, and their factor unread."""
    inv_freq = ladder(rope_theta, head_dim)  # must be divided by factor
    inv_freq[int(partial_rotary_factor * head_dim // 2) :] = 0
    return turning(inv_freq)


def reflection(head_dim: int, rope_theta: float) -> Turn:
    """One sign, in one half only: a mirror in place of a rotation, and not even the norm shows it."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = position_ids[..., None] * inv_freq
        cos, sin = per_head(np.cos(freqs), x), per_head(np.sin(freqs), x)
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate([x1 * cos + x2 * sin, x1 * sin - x2 * cos], axis=-1)  # must be x1 c - x2 s, x1 s + x2 c

    return fn


def one_row_of_three(head_dim: int, rope_theta: float, mrope_section: tuple[int, int, int]) -> Turn:
    """Three rows of ids computed, and one of them passed on: pictures become text."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        t = position_ids[0] if position_ids.ndim == 3 else position_ids  # h and w are dropped
        return turned(x, t[..., None] * inv_freq)

    return fn


def frequencies_reversed(head_dim: int, rope_theta: float) -> Turn:
    """The ladder upside down: the first pair the slowest."""
    inv_freq = ladder(rope_theta, head_dim)[::-1]  # must fall with the pair's number
    return turning(inv_freq)


def degrees(head_dim: int, rope_theta: float) -> Turn:
    """Angles taken for degrees: every pair turns 57 times too slowly."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(np.deg2rad(position_ids[..., None] * inv_freq))  # the product is in radians already
        x1, x2 = np.split(x, 2, axis=-1)
        turned_x = np.concatenate([-x2, x1], axis=-1)
        return x * per_head(np.cos(angle), x) + turned_x * per_head(np.sin(angle), x)

    return fn


GEMMA_4 = {"head_dim": 160, "rope_theta": 200_000.0, "partial_rotary_factor": 0.3, "factor": 4.0}


def half(head_dim: int, rope_theta: float, **unused: object) -> Rope:
    """Declare an ordinary half-split rope."""
    return Rope(head_dim=head_dim, rope_theta=rope_theta, pairing="half")


EXHIBITS = (
    *shown(
        "X01",
        "interleaved-for-half",
        "another pairing and another base",
        pairing_and_theta,
        half,
        {**SMALL, "used": 10_000.0},
        {"head_dim": 128, "rope_theta": 1_000_000.0, "used": 500_000.0},
        also=("wrong-theta",),
    ),
    *shown(
        "X02",
        "interleaved-for-half",
        "another pairing, and the negative angle",
        conjugate_and_interleaved,
        half,
        SMALL,
        also=("conjugate",),
    ),
    *shown("X03", "unscaled", "frequencies unscaled, magnitude kept", unscaled_with_magnitude, yarn, YARN),
    *shown("X04", "ids-ignored", "first id read, the rest counted", packed_runs_on, half, SMALL),
    *shown("X05", "ids-ignored", "row 0's ids for all rows", row_0_ids_for_all, half, SMALL),
    *shown("X06", "any", "single tokens one position ahead", decode_one_ahead, half, SMALL),
    *shown("X07", "unscaled", "dynamic that never changes", dynamic_never, dynamic, DYNAMIC),
    *shown("X08", "any", "dynamic that divides the frequencies", dynamic_divides, dynamic, DYNAMIC),
    *shown("X09", "any", "dynamic by the tokens of the call", dynamic_by_call, dynamic, DYNAMIC),
    *shown("X10", "table-end-clamped", "yarn, positions cut at L0", yarn_positions_clipped, yarn, YARN),
    *shown("X11", "unscaled", "proportional without its factor", proportional_factor_ignored, proportional, GEMMA_4),
    *shown("X12", "any", "a mirror in place of a rotation", reflection, half, SMALL),
    *shown("X13", "any", "one row of ids for three axes", one_row_of_three, sections("interleaved"), MROPE),
    *shown("X14", "any", "the ladder upside down", frequencies_reversed, half, SMALL),
    *shown("X15", "any", "radians taken for degrees", degrees, declared(), SMALL),
)
