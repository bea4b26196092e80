"""Faults of several position axes, M44 and M45: text has t = h = w and shows none of them."""

from typing import Any

import numpy as np

from ...axes import Ladders
from ...rope import Rope
from .exhibit import Turn, shown
from .parts import Array, declared, ladder, sections, turned


def three_rows(position_ids: Array) -> Array:
    """Give t, h and w of every token, [3, …, S]: text has one position for all three."""
    return position_ids if position_ids.ndim == 3 else np.stack([position_ids] * 3)


def mrope_chunked(head_dim: int, rope_theta: float, mrope_section: tuple[int, int, int]) -> Turn:
    """Qwen2-VL's layout in a Qwen3-VL."""
    inv_freq = ladder(rope_theta, head_dim)
    t, h, _ = mrope_section

    def fn(x: Array, position_ids: Array) -> Array:
        freqs_t, freqs_h, freqs_w = three_rows(position_ids)[..., None] * inv_freq
        # must deal the pairs out in turn: t h w t h w …
        freqs = np.concatenate([freqs_t[..., :t], freqs_h[..., t : t + h], freqs_w[..., t + h :]], axis=-1)
        return turned(x, freqs)

    return fn


def mrope_interleaved(head_dim: int, rope_theta: float, mrope_section: tuple[int, int, int]) -> Turn:
    """Qwen3-VL's layout in a Qwen2-VL."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs_t, freqs_h, freqs_w = three_rows(position_ids)[..., None] * inv_freq
        freqs = freqs_t.copy()
        for axis, other in ((1, freqs_h), (2, freqs_w)):  # must be one block of pairs for each axis
            dealt = slice(axis, 3 * mrope_section[axis], 3)
            freqs[..., dealt] = other[..., dealt]
        return turned(x, freqs)

    return fn


def axes_swapped(head_dim: int, rope_theta: float, mrope_section: tuple[int, int, int]) -> Turn:
    """Rows and columns exchanged: a picture is read transposed."""
    inv_freq = ladder(rope_theta, head_dim)
    axis = np.repeat([0, 1, 2], mrope_section)

    def fn(x: Array, position_ids: Array) -> Array:
        t, w, h = three_rows(position_ids)  # must be t, h, w
        by_pair = np.stack([t, h, w])[axis]
        return turned(x, np.moveaxis(by_pair, 0, -1) * inv_freq)

    return fn


def axes_swapped_interleaved(head_dim: int, rope_theta: float, mrope_section: tuple[int, int, int]) -> Turn:
    """The same in the interleaved layout."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs_t, freqs_h, freqs_w = three_rows(position_ids)[..., None] * inv_freq
        freqs = freqs_t.copy()
        for axis, other in ((1, freqs_w), (2, freqs_h)):  # must be h for 1, w for 2
            dealt = slice(axis, 3 * mrope_section[axis], 3)
            freqs[..., dealt] = other[..., dealt]
        return turned(x, freqs)

    return fn


def axes_swapped_grid(head_dim: int, rope_theta: float) -> Turn:
    """A vision tower whose patches come as (x, y), where (row, column) is meant."""
    inv_freq = ladder(rope_theta, head_dim // 2)

    def fn(x: Array, position_ids: Array) -> Array:
        w, h = position_ids  # must be h, w
        freqs = np.concatenate([h[..., None] * inv_freq, w[..., None] * inv_freq], axis=-1)
        return turned(x, freqs)

    return fn


def h_zeroed(head_dim: int, rope_theta: float, mrope_section: tuple[int, int, int]) -> Turn:
    """An index slip: h is made from the patch number modulo 1, so all rows of a picture lie on one another."""
    inv_freq = ladder(rope_theta, head_dim)
    axis = np.repeat([0, 1, 2], mrope_section)

    def fn(x: Array, position_ids: Array) -> Array:
        t, h, w = three_rows(position_ids)
        by_pair = np.stack([t, 0 * h, w])[axis]  # must be h
        return turned(x, np.moveaxis(by_pair, 0, -1) * inv_freq)

    return fn


def h_zeroed_interleaved(head_dim: int, rope_theta: float, mrope_section: tuple[int, int, int]) -> Turn:
    """Zeros allocated for the rows, and never filled, in the interleaved layout."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs_t, _, freqs_w = three_rows(position_ids)[..., None] * inv_freq
        freqs = freqs_t.copy()
        for axis, other in ((1, np.zeros_like(freqs_t)), (2, freqs_w)):  # must be freqs_h
            dealt = slice(axis, 3 * mrope_section[axis], 3)
            freqs[..., dealt] = other[..., dealt]
        return turned(x, freqs)

    return fn


def grid(**parameters: Any) -> Rope:
    """Declare a vision tower with a ladder for each of (h, w)."""
    half = parameters["head_dim"] // 2
    return declared(axes=Ladders(widths=(half, half)))(**parameters)


SMALL = {"head_dim": 40, "rope_theta": 300_000.0, "mrope_section": (10, 6, 4)}
QWEN2_VL = {"head_dim": 128, "rope_theta": 1_000_000.0, "mrope_section": (16, 24, 24), "options": {"heads": 4}}
QWEN3_VL = {"head_dim": 128, "rope_theta": 5_000_000.0, "mrope_section": (24, 20, 20), "options": {"heads": 4}}

EXHIBITS = (
    *shown(
        "M44a",
        "mrope-chunked",
        "chunked sections, interleaved ones declared",
        mrope_chunked,
        sections("interleaved"),
        SMALL,
        QWEN3_VL,
    ),
    *shown(
        "M44b",
        "mrope-chunked",
        "interleaved sections, chunked ones declared",
        mrope_interleaved,
        sections("chunked"),
        SMALL,
        QWEN2_VL,
    ),
    *shown("M45a", "axes-swapped", "h and w exchanged", axes_swapped, sections("chunked"), SMALL, QWEN2_VL),
    *shown(
        "M45b",
        "axes-swapped",
        "h and w exchanged, interleaved sections",
        axes_swapped_interleaved,
        sections("interleaved"),
        SMALL,
        QWEN3_VL,
    ),
    *shown(
        "M45c",
        "axes-swapped",
        "(w, h) for (h, w)",
        axes_swapped_grid,
        grid,
        {"head_dim": 16, "rope_theta": 10_000.0},
        {"head_dim": 80, "rope_theta": 100.0},
    ),
    *shown("M45d", "axes-swapped", "h is 0 throughout", h_zeroed, sections("chunked"), SMALL, QWEN2_VL),
    *shown(
        "M45e",
        "axes-swapped",
        "h is 0 throughout, interleaved sections",
        h_zeroed_interleaved,
        sections("interleaved"),
        SMALL,
        QWEN3_VL,
    ),
)
