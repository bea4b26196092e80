"""Where torch tensors are turned: by the kernel on the CPU, by Triton on CUDA, else by torch operations."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..pairs import Pairs
from ..rope import Rope
from . import kernel, torch_ops
from ._inputs import check_position_values
from .tables import check_invertible, check_reach, cos_sin

DTYPES = {getattr(torch, name): code for name, code in kernel.DTYPES.items()}
POSITION_DTYPES = {getattr(torch, name): code for name, code in kernel.POSITION_DTYPES.items()}
WHOLE = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}

Lengths = int | list[int] | None


def turn_into(
    xs: list[Tensor],
    outs: list[Tensor],
    ids: Tensor | None,
    rope: Rope,
    lengths: Lengths,
    layout: str,
    transpose: bool,
    inverse: bool,
    *,
    fresh: bool,
) -> None:
    """Turn tensors into outs, all checks of shapes done; out may be x itself, or fresh: new and not written to."""
    if xs[0].ndim > 4:
        for place in np.ndindex(tuple(xs[0].shape[:-4])):
            rows = [x[place] for x in xs], [out[place] for out in outs]
            turn_into(*rows, ids, rope, lengths, layout, transpose, inverse, fresh=False)
        return
    if isinstance(lengths, list):
        for b, entry in enumerate(lengths):
            one_row = ids if ids is None or ids.ndim == 1 or ids.shape[-2] == 1 else ids[..., b : b + 1, :]
            rows = [x[b : b + 1] for x in xs], [out[b : b + 1] for out in outs]
            turn_into(*rows, one_row, rope, entry, layout, transpose, inverse, fresh=False)
        return
    pairs = rope.pairs(lengths)
    if xs[0].device.type == "cpu" and kernel.can_turn(pairs, inverse):
        _by_kernel(xs, outs, ids, rope, pairs, layout == "bhsd", transpose, inverse, fresh)
        return
    if xs[0].device.type == "cuda" and pairs.is_rotation:
        from . import triton

        if triton.available(xs[0].device) is None:
            for x, out in zip(xs, outs, strict=True):
                _by_triton(triton, x, out, ids, rope, pairs, layout == "bhsd", transpose, inverse)
            return
    if xs[0].device.type == "cpu" and ids is not None:
        check_values(ids, pairs)
        if inverse and not pairs.is_rotation:
            by_axis = ids.detach().to(torch.float64).numpy()
            wide = np.broadcast_to(by_axis, (rope.axes.num_axes, *by_axis.shape)) if by_axis.ndim < 3 else by_axis
            check_invertible(pairs, *cos_sin(pairs, wide))
    for x, out in zip(xs, outs, strict=True):
        recipe = torch_ops.recipe_of(rope, lengths)
        out.copy_(torch_ops.turn(x, ids, recipe, layout=layout, transpose=transpose, inverse=inverse))


def _by_kernel(
    xs: list[Tensor],
    outs: list[Tensor],
    ids: Tensor | None,
    rope: Rope,
    pairs: Pairs,
    heads_first: bool,
    transpose: bool,
    inverse: bool,
    fresh: bool,
) -> None:
    entries, later, keep = [], [], []
    for x, out in zip(xs, outs, strict=True):
        if not x.numel():
            continue
        source, target = x, out
        if not _readable(x):
            source = x.resolve_neg().clone(memory_format=torch.contiguous_format)
        if not _readable(out):
            target = torch.empty(out.shape, dtype=out.dtype)
            later.append((out, target))
        keep.append((source, target))
        entries.append((source.data_ptr(), target.data_ptr(), source.shape, source.stride(), target.stride()))
    if not entries:
        return
    positions = None
    if ids is not None:
        code = POSITION_DTYPES.get(ids.dtype)
        if code is None or ids.is_neg() or ids.data_ptr() % ids.itemsize:
            ids = ids.to(torch.int64 if ids.dtype in WHOLE else torch.float64).resolve_neg().clone()
            code = POSITION_DTYPES[ids.dtype]
        positions = (ids.data_ptr(), code, ids.shape, ids.stride())
    status = kernel.turn(
        tuple(entries),
        positions,
        rope,
        pairs,
        DTYPES[xs[0].dtype],
        heads_first=heads_first,
        transpose=transpose,
        inverse=inverse,
        fresh=fresh,
    )
    if status:
        _refuse(status, ids, pairs)
    for out, target in later:
        out.copy_(target)


def _readable(x: Tensor) -> bool:
    """Whether the kernel can walk this memory as it is: unit last stride, no pending negation, aligned."""
    return x.stride(-1) == 1 and not x.is_neg() and x.data_ptr() % x.itemsize == 0


def _by_triton(
    triton: Any,
    x: Tensor,
    out: Tensor,
    ids: Tensor | None,
    rope: Rope,
    pairs: Pairs,
    heads_first: bool,
    transpose: bool,
    inverse: bool,
) -> None:
    source = x if x.stride(-1) == 1 else x.contiguous()
    target = out if out.stride(-1) == 1 else torch.empty_like(source)
    views = [one.transpose(-3, -2) if heads_first else one for one in (source, target)]
    views = [one.unsqueeze(0) if one.ndim == 3 else one for one in views]
    if ids is not None:
        ids = ids.to(torch.float64 if ids.is_floating_point() else torch.int64)
        ids = ids.unsqueeze(0) if ids.ndim == 1 else ids  # [1 or B, S]
        ids = ids.expand(rope.axes.num_axes, *ids.shape) if ids.ndim == 2 else ids
    direct = rope.scaling.rope_type == "dynamic"  # another table at each length
    triton.turn(views[0], ids, pairs, transpose=transpose, inverse=inverse, out=views[1], direct=direct)
    if target is not out:
        out.copy_(target)


def check_values(ids: Tensor | None, pairs: Pairs | None = None) -> None:
    """Raise for positions that cannot be turned by; only where looking at them is free."""
    if ids is None or ids.device.type != "cpu" or torch.compiler.is_compiling() or torch_ops.watched():
        return
    if type(ids) is Tensor and ids.numel():
        wide = ids.detach().to(torch.int64 if ids.dtype in WHOLE else torch.float64)
        check_position_values(wide.numpy())
        if pairs is not None:
            check_reach(wide.numpy(), pairs)


def _refuse(status: int, ids: Tensor | None, pairs: Pairs) -> None:
    if status == kernel.BAD_POSITION and ids is not None:
        check_position_values(ids.detach().numpy())
        check_reach(ids.detach().numpy(), pairs)
    raise AssertionError(f"the kernel refused arguments that were checked: {status}")
