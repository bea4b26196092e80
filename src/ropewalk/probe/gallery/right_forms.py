"""Right variants of form, V01 to V07 and V22 to V26: many ways to write one thing."""

from typing import Any

import numpy as np

from .exhibit import Turn, shown
from .parts import (
    Array,
    declared,
    doubled,
    ladder,
    length_of,
    per_head,
    repeated,
    rotate_every_two,
    rotate_half,
    table_rows,
    turned,
)

SMALL = {"head_dim": 16, "rope_theta": 500_000.0}
WIDE = {"head_dim": 96, "rope_theta": 30_000.0, "options": {"heads": 5}}
PARTIAL = {"head_dim": 80, "rope_theta": 10_000.0, "rotary_dim": 32, "options": {"heads": 4}}


def half_by_concat(head_dim: int, rope_theta: float, rotary_dim: int | None = None) -> Turn:
    """Turn by x cos + concat(-x2, x1) sin: transformers' form."""
    inv_freq = ladder(rope_theta, rotary_dim or head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        cos, sin = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        width = angle.shape[-1]
        x_rope, x_pass = x[..., :width], x[..., width:]
        return np.concatenate([x_rope * cos + rotate_half(x_rope) * sin, x_pass], axis=-1)

    return fn


def half_by_slices(head_dim: int, rope_theta: float) -> Turn:
    """Turn the two halves apart: flash-attention's and vLLM's form."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = position_ids[..., None] * inv_freq
        cos, sin = per_head(np.cos(freqs), x), per_head(np.sin(freqs), x)
        x1, x2 = x[..., : head_dim // 2], x[..., head_dim // 2 :]
        return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)

    return fn


def interleaved_by_strides(head_dim: int, rope_theta: float, rotary_dim: int | None = None) -> Turn:
    """Write even and odd channels through strides."""
    width = rotary_dim or head_dim
    inv_freq = ladder(rope_theta, width)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = position_ids[..., None] * inv_freq
        cos, sin = per_head(np.cos(freqs), x), per_head(np.sin(freqs), x)
        even, odd = x[..., 0:width:2], x[..., 1:width:2]
        out = x.copy()
        out[..., 0:width:2] = even * cos - odd * sin
        out[..., 1:width:2] = odd * cos + even * sin
        return out

    return fn


def interleaved_complex(head_dim: int, rope_theta: float) -> Turn:
    """Turn pairs as complex numbers: Meta's form."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs_cis = np.exp(1j * position_ids[..., None] * inv_freq)[..., None, :]
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * freqs_cis
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape).astype(x.dtype)

    return fn


def interleaved_in_half_out(head_dim: int, rope_theta: float) -> Turn:
    """Take neighbours, give halves: DeepSeek's form. Vectors are permuted, and q and k alike, so scores are equal."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        x = np.concatenate([x[..., 0::2], x[..., 1::2]], axis=-1)
        angle = doubled(position_ids[..., None] * inv_freq)
        return x * per_head(np.cos(angle), x) + rotate_half(x) * per_head(np.sin(angle), x)

    return fn


def half_on_permuted_weights(head_dim: int, rope_theta: float) -> Turn:
    """Half-split, for a checkpoint whose q and k rows were permuted from Meta's order: declared as what it is."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, position_ids[..., None] * inv_freq, "half")

    return fn


def permuted_on_the_fly(head_dim: int, rope_theta: float) -> Turn:
    """The same for the original checkpoint: permute, turn as halves, permute back."""
    inv_freq = ladder(rope_theta, head_dim)
    order = np.concatenate([np.arange(0, head_dim, 2), np.arange(1, head_dim, 2)])
    back = np.argsort(order)

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x[..., order], position_ids[..., None] * inv_freq, "half")[..., back]

    return fn


def table_doubled(head_dim: int, rope_theta: float, rows: int) -> Turn:
    """A table of width R, made once and gathered by id."""
    angle = doubled(np.arange(rows)[:, None] * ladder(rope_theta, head_dim))
    cos_table, sin_table = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def fn(x: Array, position_ids: Array) -> Array:
        cos, sin = table_rows(cos_table, position_ids), table_rows(sin_table, position_ids)
        return x * per_head(cos, x) + rotate_half(x) * per_head(sin, x)

    return fn


def table_half_width(head_dim: int, rope_theta: float) -> Turn:
    """A table of width R/2 that grows by use."""

    class Rotary:
        def __init__(self) -> None:
            self.inv_freq = ladder(rope_theta, head_dim)
            self.freqs: Array = np.zeros((0, head_dim // 2))

        def __call__(self, x: Array, position_ids: Array) -> Array:
            needed = length_of(position_ids)
            if needed > len(self.freqs):
                self.freqs = np.arange(2 * needed)[:, None] * self.inv_freq
            freqs = table_rows(self.freqs, position_ids)
            cos, sin = per_head(np.cos(freqs), x), per_head(np.sin(freqs), x)
            x1, x2 = np.split(x, 2, axis=-1)
            return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)

    return Rotary()


def table_per_call(head_dim: int, rope_theta: float) -> Turn:
    """Tables of the call's own positions, computed in every call, for neighbours."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = repeated(position_ids[..., None] * inv_freq)
        return x * per_head(np.cos(angle), x) + rotate_every_two(x) * per_head(np.sin(angle), x)

    return fn


def hybrid_tile(head_dim: int, rope_theta: float) -> Turn:
    """V-JEPA 2's map on one axis: tiled angles under an adjacent rotation, as it was trained."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = np.tile(position_ids[..., None] * inv_freq, 2)
        return x * per_head(np.cos(angle), x) + rotate_every_two(x) * per_head(np.sin(angle), x)

    return fn


def moved_by_a_constant(head_dim: int, rope_theta: float, start: int, pairing: str = "half") -> Turn:
    """Positions counted from another number, as behind a BOS or in fairseq: scores see distances alone."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, (position_ids + start)[..., None] * inv_freq, pairing)

    return fn


def heads_first(head_dim: int, rope_theta: float) -> Turn:
    """[B, H, S, D], transformers' layout."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        cos = np.expand_dims(np.cos(angle), -3).astype(x.dtype)  # unsqueeze_dim=1
        sin = np.expand_dims(np.sin(angle), -3).astype(x.dtype)
        return x * cos + rotate_half(x) * sin

    return fn


def packed(head_dim: int, rope_theta: float) -> Turn:
    """[T, H, D]: sequences one after another, each with positions of its own."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        out = np.empty_like(x)
        for token, m in enumerate(np.reshape(position_ids, -1)):
            cos, sin = np.cos(m * inv_freq).astype(x.dtype), np.sin(m * inv_freq).astype(x.dtype)
            x1, x2 = np.split(x[token], 2, axis=-1)
            out[token] = np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)
        return out

    return fn


def row_by_row(head_dim: int, rope_theta: float) -> Turn:
    """Every row of the batch by its own ids, as a decode step with caches of unlike length needs."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        ids = np.broadcast_to(position_ids, x.shape[:2])
        return np.stack([turned(row, own[:, None] * inv_freq) for row, own in zip(x, ids, strict=True)])

    return fn


def any_ids(head_dim: int, rope_theta: float) -> Turn:
    """Two small tables, m = 1024·coarse + fine by floor division: ids of any order and sign."""
    inv_freq = ladder(rope_theta, head_dim)
    fine_angles = np.arange(1024)[:, None] * inv_freq
    fine_cos, fine_sin = np.cos(fine_angles), np.sin(fine_angles)

    def fn(x: Array, position_ids: Array) -> Array:
        coarse, fine = np.divmod(position_ids, 1024)
        coarse_angle, row = 1024 * coarse[..., None] * inv_freq, fine.astype(np.int64)
        cos_c, sin_c, cos_f, sin_f = np.cos(coarse_angle), np.sin(coarse_angle), fine_cos[row], fine_sin[row]
        cos, sin = per_head(cos_c * cos_f - sin_c * sin_f, x), per_head(sin_c * cos_f + cos_c * sin_f, x)
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)

    return fn


def apply_rotary(x: Array, cos: Array, sin: Array, *, inplace: bool = False) -> Array:
    """Turn halves, in place when asked."""
    out = x if inplace else x.copy()
    x1, x2 = np.split(x.copy(), 2, axis=-1)
    half = x.shape[-1] // 2
    out[..., :half] = x1 * cos - x2 * sin
    out[..., half:] = x2 * cos + x1 * sin
    return out


def in_place_when_asked(head_dim: int, rope_theta: float, inplace: bool) -> Turn:
    """A function with a flag; whoever asks for in place hands over an array of his own."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = position_ids[..., None] * inv_freq
        mine = x.copy() if inplace else x
        return apply_rotary(mine, per_head(np.cos(freqs), x), per_head(np.sin(freqs), x), inplace=inplace)

    return fn


HALF, INTERLEAVED = declared(pairing="half"), declared(pairing="interleaved")
ROWS: dict[str, Any] = {"options": {"max_position": 8191}}

EXHIBITS = (
    *shown("V01", None, "half-split by concat(-x2, x1)", half_by_concat, HALF, SMALL, WIDE, PARTIAL),
    *shown("V02", None, "half-split by two slices", half_by_slices, HALF, SMALL, WIDE),
    *shown("V03", None, "interleaved by strides", interleaved_by_strides, INTERLEAVED, SMALL, WIDE, PARTIAL),
    *shown("V04", None, "interleaved by complex product", interleaved_complex, INTERLEAVED, SMALL, WIDE),
    *shown("V05", None, "interleaved in, half-split out", interleaved_in_half_out, INTERLEAVED, SMALL, WIDE),
    *shown("V06a", None, "half-split on permuted weights", half_on_permuted_weights, HALF, SMALL, WIDE),
    *shown("V06b", None, "permuted, turned and permuted back", permuted_on_the_fly, INTERLEAVED, SMALL, WIDE),
    *shown(
        "V07a",
        None,
        "a doubled table gathered by id",
        table_doubled,
        HALF,
        {**SMALL, **ROWS, "rows": 8192},
        {**WIDE, **ROWS, "rows": 8193},
    ),
    *shown("V07b", None, "a table of half the width, growing", table_half_width, HALF, SMALL, max_position=131_072),
    *shown("V07c", None, "tables computed per call", table_per_call, INTERLEAVED, SMALL, WIDE),
    *shown(
        "V22",
        None,
        "tiled angles under an adjacent rotation, declared",
        hybrid_tile,
        declared(pairing="hybrid_tile"),
        SMALL,
        {"head_dim": 24, "rope_theta": 10_000.0},
    ),
    *shown(
        "V23",
        None,
        "every position moved by one constant",
        moved_by_a_constant,
        declared(),
        {**SMALL, "start": 2},
        {**WIDE, "start": -7},
        {"head_dim": 64, "rope_theta": 10_000.0, "start": 1, "pairing": "interleaved"},
    ),
    *shown("V24a", None, "heads first", heads_first, HALF, SMALL, WIDE, layout="bhsd"),
    *shown("V24b", None, "packed sequences", packed, HALF, SMALL, WIDE, layout="thd", batch=1),
    *shown("V24c", None, "an offset for each row", row_by_row, HALF, SMALL, WIDE),
    *shown("V25", None, "ids of any order and sign", any_ids, HALF, SMALL, WIDE),
    *shown(
        "V26",
        None,
        "in place when asked",
        in_place_when_asked,
        HALF,
        {**SMALL, "inplace": True},
        {**WIDE, "inplace": False},
    ),
)
