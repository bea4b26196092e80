"""Turning torch tensors by plain torch operations: any device, learnable speeds, gradients of positions, vmap."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

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

modes = torch._C._len_torch_dispatch_stack
_functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
transforms = _functorch.peek_interpreter_stack

WITHOUT_FLOAT64 = ("mps", "xla", "vulkan", "privateuseone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A pair table as plain numbers, which torch.compile takes as constants, and how it is taken out of a row.

    Attributes:
        pairs: the table itself.
        kind: "half": two slices [start, middle) and [middle, end); "interleaved": strides of two over [start, end);
            "any": index by index.
        start: the first channel that turns, for the first two kinds.
        middle: where the second half begins.
        end: behind the last channel that turns.
        first: the first channel of each pair.
        second: the second.
        still: channels in no pair.
        order: where each channel stands once first, second and still are joined.
        axis: the position axis of each column.
        axes: how many there are.
        speeds: radians a position of each column.
        is_rotation: whether both channels of a pair turn by one angle.
        cos_sin_factor: g.
    """

    pairs: Pairs
    kind: str
    start: int
    middle: int
    end: int
    first: tuple[int, ...]
    second: tuple[int, ...]
    still: tuple[int, ...]
    order: tuple[int, ...]
    axis: tuple[int, ...]
    axes: int
    speeds: tuple[float, ...]
    is_rotation: bool
    cos_sin_factor: float

    def __len__(self) -> int:
        return len(self.first)


def recipe_of(rope: Rope, length: int | None = None) -> Recipe:
    """Give the recipe of a description at a length; made once for each table."""
    return _untraced_recipe(rope, length)


def _recipe_at(rope: Rope, length: int | None) -> Recipe:
    return _recipe(rope.pairs(length), rope.head_dim, rope.axes.num_axes)


_untraced_recipe: Any = torch.compiler.disable(_recipe_at)


@lru_cache(maxsize=64)
def _recipe(pairs: Pairs, width: int, axes: int) -> Recipe:
    first, second, count = pairs.first, pairs.second, len(pairs)
    steps, kind, start = np.arange(count), "any", int(first.min()) if count else 0
    if np.array_equal(first, start + steps) and np.array_equal(second, start + count + steps):
        kind = "half"
    elif np.array_equal(first, start + 2 * steps) and np.array_equal(second, first + 1):
        kind = "interleaved"
    still = np.setdiff1d(np.arange(width), np.concatenate([first, second]))
    return Recipe(
        pairs=pairs,
        kind=kind,
        start=start,
        middle=start + count,
        end=start + 2 * count,
        first=tuple(first.tolist()),
        second=tuple(second.tolist()),
        still=tuple(still.tolist()),
        order=tuple(np.argsort(np.concatenate([first, second, still])).tolist()),
        axis=tuple(column_axes(pairs).tolist()),
        axes=axes,
        speeds=tuple(speeds(pairs).tolist()),
        is_rotation=pairs.is_rotation,
        cos_sin_factor=pairs.cos_sin_factor,
    )


def turn(
    x: Tensor,
    position_ids: Tensor | None,
    recipe: Recipe,
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
        recipe: the pairs at this length.
        layout: "bshd", "bhsd" or "thd".
        transpose: apply the transposed map.
        inverse: apply the inverse map.
        inv_freq: [C] speeds to use instead of those of the recipe; they may need gradients.

    Returns:
        A tensor of x's shape and dtype.
    """
    heads_first = layout == "bhsd"
    if position_ids is None:
        position_ids = torch.arange(x.shape[-2 if heads_first else -3], device=x.device)
    with torch.autocast(x.device.type, enabled=False):
        cos, sin = cos_sin(position_ids, recipe, inv_freq)
        real = torch.float64 if x.dtype == torch.float64 and cos.dtype == torch.float64 else torch.float32
        parts = coefficients(cos, sin, recipe, transpose=transpose, inverse=inverse)
        if x.ndim == 3 and cos.ndim == 3:  # packed tokens with positions [A, 1, T]
            parts = [part.squeeze(0) for part in parts]
        heads = -3 if heads_first else -2
        k = Coefficients(*(part.to(real).unsqueeze(heads) for part in parts))
        return _apply(x, recipe, k, real)


def cos_sin(position_ids: Tensor, recipe: Recipe, inv_freq: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Give cos and sin [..., S, C] of every column's angle, without g, in float64 where the device has it.

    On a device without float64, integer positions below 2^30 go through three float32 tables (an entry is off by about
    2e-7 whatever the position), larger ones give NaN; floats are worked out on the CPU.
    """
    ids = position_ids
    if ids.ndim < 3:
        ids = ids.expand(recipe.axes, *ids.shape)
    if ids.device.type in WITHOUT_FLOAT64 and inv_freq is None:
        if not ids.is_floating_point():
            return _split(ids, recipe)
        cos, sin = cos_sin(ids.cpu(), recipe)
        return cos.to(torch.float32).to(ids.device), sin.to(torch.float32).to(ids.device)
    wide = torch.float32 if ids.device.type in WITHOUT_FLOAT64 else torch.float64
    speed = _constant(recipe.speeds, torch.float64, ids.device) if inv_freq is None else inv_freq.to(wide)
    angle = _by_column(ids.to(wide), recipe) * speed
    return torch.cos(angle), torch.sin(angle)


def _by_column(ids: Tensor, recipe: Recipe) -> Tensor:
    """Give positions [A, ..., S] as [..., S, 1], or as [..., S, C] where there are several axes."""
    if recipe.axes == 1:
        return ids[0].unsqueeze(-1)
    return ids.index_select(0, _constant(recipe.axis, torch.int64, ids.device)).movedim(0, -1)


def _split(ids: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Give float32 cos and sin of integer positions by three small tables."""
    tables, m = split_tables(recipe.pairs), _by_column(ids, recipe).expand(*ids.shape[1:], len(recipe.speeds))
    size = m.abs()
    places = (size & (ROWS - 1), (size >> BITS) & (ROWS - 1), (size >> (2 * BITS)) & (ROWS - 1))
    cos, sin = torch.ones_like(m, dtype=torch.float32), torch.zeros_like(m, dtype=torch.float32)
    for place, table in zip(places, (tables.fine, tables.coarse, tables.far), strict=True):
        c, s = (_rows(torch.from_numpy(half.astype(np.float32)).to(ids.device), place) for half in table)
        cos, sin = cos * c - sin * s, sin * c + cos * s
    far, nowhere = size >= SPLIT_LIMIT, torch.full_like(cos, float("nan"))
    return torch.where(far, nowhere, cos), torch.where(far, nowhere, torch.where(m < 0, -sin, sin))


def _rows(table: Tensor, place: Tensor) -> Tensor:
    """Give the entries [..., S, C] of a table [1024, C] at places [..., S, C], each column at its own place."""
    return table.gather(0, place.reshape(-1, place.shape[-1])).reshape(place.shape)


def _apply(x: Tensor, recipe: Recipe, k: Coefficients, real: torch.dtype) -> Tensor:
    if recipe.kind == "half":
        a, b = x[..., recipe.start : recipe.middle], x[..., recipe.middle : recipe.end]
    elif recipe.kind == "interleaved":
        a, b = x[..., recipe.start : recipe.end : 2], x[..., recipe.start + 1 : recipe.end : 2]
    else:
        a, b = (
            x.index_select(-1, _constant(channels, torch.int64, x.device)) for channels in (recipe.first, recipe.second)
        )
    a, b = a.to(real), b.to(real)
    turned_a, turned_b = (a * k.c0 - b * k.s0).to(x.dtype), (b * k.c1 + a * k.s1).to(x.dtype)
    if recipe.kind == "any":
        still = x.index_select(-1, _constant(recipe.still, torch.int64, x.device))
        joined = torch.cat([turned_a, turned_b, still], dim=-1)
        return joined.index_select(-1, _constant(recipe.order, torch.int64, x.device))
    if recipe.kind == "interleaved":
        pieces = [torch.stack((turned_a, turned_b), dim=-1).flatten(-2)]
    else:
        pieces = [turned_a, turned_b]
    before = [x[..., : recipe.start]] if recipe.start else []
    behind = [x[..., recipe.end :]] if recipe.end < x.shape[-1] else []
    return torch.cat([*before, *pieces, *behind], dim=-1)


def _constant(values: tuple[Any, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Give numbers as a tensor on device, kept for the next call unless a mode or a trace is watching."""
    if torch.compiler.is_compiling() or watched():
        return torch.tensor(values, dtype=dtype, device=device)
    return _kept(values, dtype, device)


@lru_cache(maxsize=256)
def _kept(values: tuple[Any, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # an inference tensor would be refused by a later backward
        return torch.tensor(values, dtype=dtype, device=device)


def watched() -> bool:
    """Whether a dispatch mode (fake tensors, a trace) or a functorch transform sees every operation."""
    return modes() > 0 or transforms() is not None


def differentiated() -> bool:
    """Whether a functorch transform other than vmap is at work, which the op's own backward does not know."""
    if torch.compiler.is_compiling() or transforms() is None:
        return False
    return any(level.key() != _functorch.TransformType.Vmap for level in _functorch.get_interpreter_stack())
