"""Turning torch tensors by plain torch operations: any device, learnable speeds, gradients of positions, vmap."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope
from .tables import (
    BITS,
    ROWS,
    SPLIT_LIMIT,
    Coefficients,
    coefficients,
    column_axes,
    speeds,
    split_tables,
)

WITHOUT_FLOAT64 = ("mps", "xla", "vulkan", "privateuseone")


def turn(
    x: Tensor,
    position_ids: Tensor | None,
    rope: Rope,
    pairs: Pairs,
    *,
    layout: str = "bshd",
    transpose: bool = False,
    inverse: bool = False,
    inv_freq: Tensor | None = None,
) -> Tensor:
    """Turn x by torch operations that autograd, vmap and every device understand.

    Args:
        x: [..., S, H, D], or [..., H, S, D] with layout "bhsd"; floating.
        position_ids: [S], [B, S] or [A, B, S] on x's device; integers or floats, which may need gradients; None is
            0 … S - 1.
        rope: the description.
        pairs: its pairs at this length.
        layout: "bshd", "bhsd" or "thd".
        transpose: apply the transposed map.
        inverse: apply the inverse map.
        inv_freq: [C] speeds to use instead of those of pairs; they may need gradients.

    Returns:
        A tensor of x's shape and dtype.
    """
    heads_first = layout == "bhsd"
    if position_ids is None:
        position_ids = torch.arange(x.shape[-2 if heads_first else -3], device=x.device)
    cos, sin = cos_sin(position_ids, rope, pairs, inv_freq)
    real = torch.float64 if x.dtype == torch.float64 and cos.dtype == torch.float64 else torch.float32
    parts = coefficients(cos, sin, pairs, transpose=transpose, inverse=inverse)
    heads = -3 if heads_first else -2
    k = Coefficients(*(part.to(real).unsqueeze(heads) for part in parts))
    return _apply(x, pairs, k, real)


def cos_sin(position_ids: Tensor, rope: Rope, pairs: Pairs, inv_freq: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Give cos and sin [..., S, C] of every column's angle, without g, in float64 where the device has it.

    On a device without float64, integer positions below 2^30 go through three float32 tables (an entry is off by about
    2e-7 whatever the position), larger ones give NaN; floats are worked out on the CPU.
    """
    ids = position_ids
    if ids.ndim < 3:
        ids = ids.expand(rope.axes.num_axes, *ids.shape)
    axis = _constant(column_axes(pairs).tobytes(), "int64", ids.device)
    if ids.device.type in WITHOUT_FLOAT64 and inv_freq is None:
        if not ids.is_floating_point():
            return _split(ids, pairs, axis)
        cos, sin = cos_sin(ids.cpu(), rope, pairs)
        return cos.to(torch.float32).to(ids.device), sin.to(torch.float32).to(ids.device)
    wide = torch.float32 if ids.device.type in WITHOUT_FLOAT64 else torch.float64
    speed = _constant(speeds(pairs).tobytes(), "float64", ids.device) if inv_freq is None else inv_freq.to(wide)
    angle = _by_column(ids.to(wide), axis, rope.axes.num_axes) * speed
    return torch.cos(angle), torch.sin(angle)


def _by_column(ids: Tensor, axis: Tensor, axes: int) -> Tensor:
    """Give positions [A, ..., S] as [..., S, 1], or as [..., S, C] where there are several axes."""
    if axes == 1:
        return ids[0].unsqueeze(-1)
    return ids.index_select(0, axis).movedim(0, -1)


def _split(ids: Tensor, pairs: Pairs, axis: Tensor) -> tuple[Tensor, Tensor]:
    """Give float32 cos and sin of integer positions by three small tables."""
    tables = split_tables(pairs)
    size = ids.abs()
    places = (size & (ROWS - 1), (size >> BITS) & (ROWS - 1), (size >> (2 * BITS)) & (ROWS - 1))
    cos = sin = None
    for place, table in zip(places, (tables.fine, tables.coarse, tables.far), strict=True):
        rows = [_constant(half.tobytes(), "float64", torch.device("cpu")).view(ROWS, -1) for half in table]
        on_device = [half.to(torch.float32).to(ids.device) for half in rows]
        c, s = (_rows(half, place, axis) for half in on_device)
        cos, sin = (c, s) if cos is None or sin is None else (cos * c - sin * s, sin * c + cos * s)
    assert cos is not None and sin is not None
    m = ids.index_select(0, axis).movedim(0, -1)
    far = m.abs() >= SPLIT_LIMIT
    nowhere = torch.full_like(cos, float("nan"))
    return torch.where(far, nowhere, cos), torch.where(far, nowhere, torch.where(m < 0, -sin, sin))


def _rows(table: Tensor, place: Tensor, axis: Tensor) -> Tensor:
    """Give the entries [..., S, C] of a table [1024, C] at places [A, ..., S], each column at its own axis's place."""
    by_column = place.index_select(0, axis).movedim(0, -1)  # [..., S, C]
    flat = by_column.reshape(-1, by_column.shape[-1])
    return table.gather(0, flat).reshape(by_column.shape)


def _apply(x: Tensor, pairs: Pairs, k: Coefficients, real: torch.dtype) -> Tensor:
    plan = _plan(pairs, x.shape[-1])
    if plan.kind == "half":
        a, b = x[..., plan.start : plan.middle], x[..., plan.middle : plan.end]
    elif plan.kind == "interleaved":
        a, b = x[..., plan.start : plan.end : 2], x[..., plan.start + 1 : plan.end : 2]
    else:
        a = x.index_select(-1, _constant(pairs.first.tobytes(), "int64", x.device))
        b = x.index_select(-1, _constant(pairs.second.tobytes(), "int64", x.device))
    a, b = a.to(real), b.to(real)
    turned_a, turned_b = (a * k.c0 - b * k.s0).to(x.dtype), (b * k.c1 + a * k.s1).to(x.dtype)
    if plan.kind == "interleaved":
        pieces = [torch.stack((turned_a, turned_b), dim=-1).flatten(-2)]
    else:
        pieces = [turned_a, turned_b]
    if plan.kind != "any":
        before = [x[..., : plan.start]] if plan.start else []
        behind = [x[..., plan.end :]] if plan.end < x.shape[-1] else []
        return torch.cat([*before, *pieces, *behind], dim=-1)
    still = _constant(plan.still, "int64", x.device)
    joined = torch.cat([*pieces, x.index_select(-1, still)], dim=-1)
    return joined.index_select(-1, _constant(plan.order, "int64", x.device))


class _Plan:
    """How a pair table is taken out of a row: two slices, a stride of two, or index by index."""

    def __init__(self, pairs: Pairs, width: int) -> None:
        first, second, count = pairs.first, pairs.second, len(pairs)
        steps = np.arange(count)
        self.kind, self.start = "any", int(first[0])
        self.end, self.middle = self.start + 2 * count, self.start + count
        if np.array_equal(first, self.start + steps) and np.array_equal(second, self.middle + steps):
            self.kind = "half"
        elif np.array_equal(first, self.start + 2 * steps) and np.array_equal(second, first + 1):
            self.kind = "interleaved"
        still = np.setdiff1d(np.arange(width), np.concatenate([first, second]))
        self.still = still.tobytes()
        self.order = np.argsort(np.concatenate([first, second, still])).astype(np.int64).tobytes()


@lru_cache(maxsize=64)
def _plan(pairs: Pairs, width: int) -> _Plan:
    if not len(pairs):
        raise RopewalkError("this table has no pairs: nothing would turn.")
    return _Plan(pairs, width)


def _constant(content: bytes, dtype: str, device: torch.device) -> Tensor:
    """Give numbers as a tensor on device, kept for the next call unless a mode or a trace is watching."""
    if torch.compiler.is_compiling() or watched():
        return _made(content, dtype, device)
    return _kept(content, dtype, device)


@lru_cache(maxsize=256)
def _kept(content: bytes, dtype: str, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # an inference tensor would be refused by a later backward
        return _made(content, dtype, device)


def _made(content: bytes, dtype: str, device: torch.device) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, dtype=dtype).copy()).to(device)


def watched() -> bool:
    """Whether a dispatch mode (fake tensors, a trace) or a functorch transform sees every operation."""
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._functorch.peek_interpreter_stack() is not None
