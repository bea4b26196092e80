"""Faults of what a position means, M30 to M38: right in the first test, since that has one row from position 0."""

from typing import Any

import numpy as np

from .exhibit import Turn, shown
from .parts import Array, declared, doubled, ladder, per_head, rotate_half, turned

SMALL = {"head_dim": 16, "rope_theta": 500_000.0}
WIDE = {"head_dim": 128, "rope_theta": 1_000_000.0, "options": {"heads": 4, "batch": 3}}


def ids_ignored(head_dim: int, rope_theta: float) -> Turn:
    """position_ids accepted and not used: padding, packing and every decode step are wrong."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        t = np.arange(x.shape[1])  # must be position_ids
        return turned(x, t[:, None] * inv_freq)

    return fn


def stale_offset(head_dim: int, rope_theta: float) -> Turn:
    """A cache whose key does not know the positions: the second call repeats the first."""
    inv_freq = ladder(rope_theta, head_dim)
    cache: dict[Any, tuple[Array, Array]] = {}

    def fn(x: Array, position_ids: Array) -> Array:
        key = (x.shape, x.dtype)  # the positions are missing
        if key not in cache:
            angle = doubled(position_ids[..., None] * inv_freq)
            cache[key] = per_head(np.cos(angle), x), per_head(np.sin(angle), x)
        cos, sin = cache[key]
        return x * cos + rotate_half(x) * sin

    return fn


def stale_offset_last_call(head_dim: int, rope_theta: float) -> Turn:
    """A module that keeps the last table and rebuilds it when the number of tokens changes only."""

    class Rotary:
        def __init__(self) -> None:
            self.inv_freq = ladder(rope_theta, head_dim)
            self.shape: tuple[int, ...] | None = None

        def __call__(self, x: Array, position_ids: Array) -> Array:
            if x.shape != self.shape:  # must ask for other positions too
                self.shape = x.shape
                self.freqs = position_ids[..., None] * self.inv_freq
            return turned(x, self.freqs)

    return Rotary()


def stale_theta(head_dim: int, rope_theta: float, local_theta: float, warm_up: int) -> Turn:
    """One cache for all layers, keyed on the length alone: whoever comes first decides the base.

    The model has local layers of another base; they come first, and the server warmed up with a short prompt.
    """
    cache: dict[int, Array] = {}

    def table(length: int, theta: float) -> Array:
        rows = max(64, 1 << (length - 1).bit_length())
        if rows not in cache:  # theta is missing from the key
            cache[rows] = np.arange(rows)[:, None] * ladder(theta, head_dim)
        return cache[rows]

    def layer(theta: float) -> Turn:
        def fn(x: Array, position_ids: Array) -> Array:
            if position_ids.min() < 0:
                raise IndexError(f"negative position {position_ids.min()}")
            return turned(x, table(int(position_ids.max()) + 1, theta)[position_ids])

        return fn

    local_layer, global_layer = layer(local_theta), layer(rope_theta)
    local_layer(np.zeros((1, warm_up, 1, head_dim)), np.arange(warm_up))
    return global_layer


def head_axis(head_dim: int, rope_theta: float) -> Turn:
    """Code for [batch, heads, seq, head_dim], given [batch, seq, heads, head_dim]: head 1 is turned as position 1."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        seq_len = x.shape[-2]  # the heads: this x is [B, S, H, D]
        angle = doubled(np.arange(seq_len)[:, None] * inv_freq)
        cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        return x * cos + rotate_half(x) * sin

    return fn


def head_axis_bhsd(head_dim: int, rope_theta: float) -> Turn:
    """The same slip the other way round, in transformers' layout."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        seq_len = x.shape[1]  # the heads: this x is [B, H, S, D]
        angle = doubled(np.arange(seq_len)[:, None] * inv_freq)[:, None, :]
        cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        return x * cos + rotate_half(x) * sin

    return fn


def row_0_only(head_dim: int, rope_theta: float) -> Turn:
    """A decode path whose launch grid forgot the batch: only the first sequence of a batch is turned."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        rotated = turned(x, position_ids[..., None] * inv_freq)
        if x.shape[1] > 1:
            return rotated
        out = x.copy()
        out[0] = rotated[0]  # one token a row: every row must be written
        return out

    return fn


def double_rotation(head_dim: int, rope_theta: float) -> Turn:
    """Keys are turned on the way into the cache, and again on the way out of it."""
    inv_freq = ladder(rope_theta, head_dim)

    def apply_rope(x: Array, position_ids: Array) -> Array:
        return turned(x, position_ids[..., None] * inv_freq)

    def fn(x: Array, position_ids: Array) -> Array:
        cached = apply_rope(x, position_ids)
        return apply_rope(cached, position_ids)  # what comes from the cache has been turned

    return fn


def identity_dropped(head_dim: int, rope_theta: float) -> Turn:
    """The rotated array is made and dropped."""
    inv_freq = ladder(rope_theta, head_dim)

    def apply_rope(x: Array, position_ids: Array) -> Array:
        return turned(x, position_ids[..., None] * inv_freq)

    def fn(x: Array, position_ids: Array) -> Array:
        apply_rope(x, position_ids)  # the result must be assigned: x = apply_rope(…)
        return x.copy()

    return fn


def identity_prefix(head_dim: int, rope_theta: float, registers: int) -> Turn:
    """A table with rows of angle 0 for register tokens, sliced from its start in training."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        seq_len = x.shape[1]
        grid = np.arange(seq_len)[:, None] * inv_freq
        table = np.concatenate([np.zeros((registers, head_dim // 2)), grid])
        return turned(x, table[:seq_len])  # must be the rows of these tokens: table[registers + position_ids]

    return fn


def window_constant(head_dim: int, rope_theta: float) -> Turn:
    """The offset of the call broadcast to all of its tokens: right for one token at a time only."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        start = position_ids[..., :1]  # must be start + arange(S), or the ids themselves
        return turned(x, start[..., None] * inv_freq)

    return fn


def table_end_clamped(head_dim: int, rope_theta: float, rows: int) -> Turn:
    """Positions cut at the last row of a table, as XLA's gather does in silence."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        position_ids = np.minimum(position_ids, rows - 1)  # must be an error, or a longer table
        return turned(x, position_ids[..., None] * inv_freq)

    return fn


def first_head_only(head_dim: int, rope_theta: float) -> Turn:
    """A kernel without its loop over heads."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        out = x.copy()
        out[:, :, :1] = turned(x[:, :, :1], position_ids[..., None] * inv_freq)  # must be every head
        return out

    return fn


def first_head_only_bhsd(head_dim: int, rope_theta: float) -> Turn:
    """The same in transformers' layout, where x[0] of a row is its first head."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        out = x.copy()
        for b, row in enumerate(out):
            ids = position_ids if position_ids.ndim == 1 else position_ids[b % len(position_ids)]
            angle = doubled(ids[:, None] * inv_freq)
            cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
            row[0] = row[0] * cos + rotate_half(row[0]) * sin  # row[0] is the first head
        return out

    return fn


EXHIBITS = (
    *shown("M30", "ids-ignored", "positions counted, not read", ids_ignored, declared(), SMALL, WIDE),
    *shown("M31a", "stale-table", "positions missing from the cache's key", stale_offset, declared(), SMALL, WIDE),
    *shown("M31b", "stale-table", "the last call's table kept", stale_offset_last_call, declared(), SMALL, WIDE),
    *shown(
        "M31c",
        "stale-table",
        "theta missing from the cache's key",
        stale_theta,
        declared(),
        {**SMALL, "local_theta": 10_000.0, "warm_up": 50},
        {**SMALL, "head_dim": 64, "local_theta": 20_000.0, "warm_up": 1000},
        max_position=16_384,
    ),
    *shown("M32a", "head-axis", "turned by head number", head_axis, declared(), SMALL, WIDE),
    *shown(
        "M32b",
        "head-axis",
        "turned by head number, heads first",
        head_axis_bhsd,
        declared(),
        {"head_dim": 6, "rope_theta": 100.0},
        SMALL,
        layout="bhsd",
    ),
    *shown("M33", "row-0-only", "one token a row: only row 0 turned", row_0_only, declared(), SMALL, WIDE),
    *shown("M34", "double-rotation", "turned twice", double_rotation, declared(), SMALL, WIDE),
    *shown("M35a", "identity", "the rotated array dropped", identity_dropped, declared(), SMALL, WIDE),
    *shown(
        "M35b",
        "identity",
        "a prefix of angle 0 sliced",
        identity_prefix,
        declared(),
        {**SMALL, "registers": 4096},
        {**WIDE, "registers": 1025},
    ),
    *shown("M36", "window-constant", "the first id for all tokens of a call", window_constant, declared(), SMALL, WIDE),
    *shown(
        "M37",
        "table-end-clamped",
        "the last row reused past the table",
        table_end_clamped,
        declared(),
        {**SMALL, "rows": 4096},
        {**WIDE, "rows": 2048},
        {**SMALL, "rows": 131_072},
    ),
    *shown("M38a", "first-head-only", "the other heads keep still", first_head_only, declared(), SMALL, WIDE),
    *shown(
        "M38b",
        "first-head-only",
        "the other heads keep still, heads first",
        first_head_only_bhsd,
        declared(),
        SMALL,
        layout="bhsd",
    ),
)
