"""Faults of pairing and direction, M01 to M06: shapes match, and so does position 0."""

import numpy as np

from .exhibit import Turn, shown
from .parts import Array, declared, doubled, ladder, per_head, repeated, rotate_every_two, rotate_half

SMALL = {"head_dim": 16, "rope_theta": 500_000.0}
WIDE = {"head_dim": 96, "rope_theta": 30_000.0, "options": {"heads": 6, "batch": 3}}
ODD_SIZE = {"head_dim": 10, "rope_theta": 777.7, "options": {"heads": 5}}


def interleaved_for_half(head_dim: int, rope_theta: float) -> Turn:
    """Meta's own code, run on weights that were permuted for half-split code."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = repeated(position_ids[..., None] * inv_freq)
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        return x * cos + rotate_every_two(x) * sin  # neighbours (2i, 2i+1); these weights pair (i, i + D/2)

    return fn


def half_for_interleaved(head_dim: int, rope_theta: float) -> Turn:
    """The usual half-split code in [batch, heads, seq, head_dim], run on weights in Meta's own order."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        cos = np.expand_dims(np.cos(angle), -3).astype(x.dtype)
        sin = np.expand_dims(np.sin(angle), -3).astype(x.dtype)
        return x * cos + rotate_half(x) * sin  # pairs (i, i + D/2); these weights pair neighbours

    return fn


def hybrid_repeat(head_dim: int, rope_theta: float) -> Turn:
    """Half a change of convention: the table was rewritten, the rotation was not."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = np.repeat(position_ids[..., None] * inv_freq, 2, axis=-1)  # a0 a0 a1 a1; rotate_half needs a0 a1 a0 a1
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        return x * cos + rotate_half(x) * sin

    return fn


def hybrid_tile(head_dim: int, rope_theta: float) -> Turn:
    """The other half of that change: the rotation was rewritten, the table was not."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = position_ids[..., None] * inv_freq
        angle = np.concatenate([freqs, freqs], axis=-1)  # a0 a1 a0 a1; neighbours need a0 a0 a1 a1
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        return x * cos + rotate_every_two(x) * sin

    return fn


def conjugate_half(head_dim: int, rope_theta: float) -> Turn:
    """A sign in the wrong half: scores still see the distance alone, and trained weights see it backwards."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        x1, x2 = np.split(x, 2, axis=-1)
        return x * cos + np.concatenate([x2, -x1], axis=-1) * sin  # must be (-x2, x1)

    return fn


def conjugate_complex(head_dim: int, rope_theta: float) -> Turn:
    """The complex form with the inverse's exponent."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs_cis = np.exp(-1j * position_ids[..., None] * inv_freq)[..., None, :]  # must be exp(+1j …)
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * freqs_cis
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape).astype(x.dtype)

    return fn


def tables_as_angles(head_dim: int, rope_theta: float) -> Turn:
    """Finished tables handed to an apply function that takes angles."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        cos_table, sin_table = np.cos(angle), np.sin(angle)
        cos, sin = per_head(np.cos(cos_table), x), per_head(np.sin(sin_table), x)  # cos of a cosine, sin of a sine
        return x * cos + rotate_half(x) * sin

    return fn


def cos_sin_swapped(head_dim: int, rope_theta: float) -> Turn:
    """A table that returns (sin, cos), as GPT-J's does, unpacked as (cos, sin)."""
    inv_freq = ladder(rope_theta, head_dim)

    def tables(position_ids: Array) -> tuple[Array, Array]:
        angle = doubled(position_ids[..., None] * inv_freq)
        return np.sin(angle), np.cos(angle)

    def fn(x: Array, position_ids: Array) -> Array:
        cos, sin = tables(position_ids)  # the wrong way round
        return x * per_head(cos, x) + rotate_half(x) * per_head(sin, x)

    return fn


HALF, INTERLEAVED = declared(pairing="half"), declared(pairing="interleaved")

EXHIBITS = (
    *shown(
        "M01a",
        "interleaved-for-half",
        "adjacent channels turned, half-split declared",
        interleaved_for_half,
        HALF,
        SMALL,
        WIDE,
        ODD_SIZE,
    ),
    *shown(
        "M01b",
        "interleaved-for-half",
        "half-split, adjacent channels declared",
        half_for_interleaved,
        INTERLEAVED,
        SMALL,
        WIDE,
        layout="bhsd",
    ),
    *shown(
        "M02a",
        "hybrid-repeat",
        "every angle twice in a row, under a half-split rotation",
        hybrid_repeat,
        HALF,
        SMALL,
        WIDE,
        ODD_SIZE,
    ),
    *shown("M02b", "hybrid-repeat", "the same where adjacent channels are declared", hybrid_repeat, INTERLEAVED, SMALL),
    *shown("M03a", "hybrid-tile", "tiled angles under an adjacent rotation", hybrid_tile, INTERLEAVED, SMALL, WIDE),
    *shown("M03b", "hybrid-tile", "the same where half-split is declared", hybrid_tile, HALF, SMALL, ODD_SIZE),
    *shown("M04a", "conjugate", "turned by the negative angle", conjugate_half, HALF, SMALL, WIDE),
    *shown(
        "M04b",
        "conjugate",
        "the negative angle, complex form",
        conjugate_complex,
        INTERLEAVED,
        SMALL,
        ODD_SIZE,
    ),
    *shown("M05", "tables-as-angles", "cos(cos a) and sin(sin a)", tables_as_angles, HALF, SMALL, WIDE),
    *shown("M06", "cos-sin-swapped", "x sin a + rot(x) cos a", cos_sin_swapped, HALF, SMALL, WIDE),
)
