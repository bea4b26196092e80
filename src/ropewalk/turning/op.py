"""Turning torch tensors: the op `ropewalk::turn`, and the way past it where nobody records or traces."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._checks import shown
from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope
from . import kernel, torch_ops
from ._inputs import (
    check_layout,
    check_pair_of_shapes,
    check_position_shape,
    check_position_values,
    check_rope,
    check_rows,
    check_shape,
    lengths_of,
    overlap_error,
)
from .tables import check_invertible, cos_sin

DTYPES = {getattr(torch, name): code for name, code in kernel.DTYPES.items()}
POSITION_DTYPES = {getattr(torch, name): code for name, code in kernel.POSITION_DTYPES.items()}
_WHOLE = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}

Lengths = int | list[int] | None


# ------------------------------------------------------------------------------------------------- the public calls


def rotate(
    x: Tensor,
    position_ids: Any,
    rope: Rope,
    *,
    inverse: bool = False,
    length: Any = None,
    out: Tensor | None = None,
    layout: str = "bshd",
) -> Tensor:
    """Turn one tensor; see ropewalk.rotate."""
    return turn_all((("x", x, out),), position_ids, rope, length, layout, inverse)[0]


def rotate_qk(
    q: Tensor,
    k: Tensor,
    position_ids: Any,
    rope: Rope,
    *,
    inverse: bool = False,
    length: Any = None,
    out: tuple[Tensor, Tensor] | None = None,
    layout: str = "bshd",
) -> tuple[Tensor, Tensor]:
    """Turn queries and keys; see ropewalk.rotate_qk."""
    q_out, k_out = (None, None) if out is None else out
    turned = turn_all((("q", q, q_out), ("k", k, k_out)), position_ids, rope, length, layout, inverse)
    return turned[0], turned[1]


def turn_all(
    given: tuple[tuple[str, Tensor, Tensor | None], ...],
    position_ids: Any,
    rope: Rope,
    length: Any,
    layout: str,
    inverse: bool,
    inv_freq: Tensor | None = None,
) -> list[Tensor]:
    """Check everything and turn one or two tensors of the same tokens; position_ids None is 0 … seq - 1."""
    check_rope(rope)
    check_layout(layout)
    for name, x, _ in given:
        _check_tensor(name, x, given[0][1])
        check_shape(name, x.shape, rope, layout)
    if len(given) == 2:
        check_pair_of_shapes(given[0][1].shape, given[1][1].shape, layout)
    x = given[0][1]
    ids = _position_ids(position_ids, x.device)
    if ids is not None:
        check_position_shape(ids.shape, x.shape, rope, layout)
    elif rope.axes.num_axes > 1 and rope.axes.kind != "sections":
        raise RopewalkError(f"this rope has {rope.axes.num_axes} axes: pass position_ids [axes, batch, seq].")
    lengths = _lengths(rope, length)
    if isinstance(lengths, list):
        check_rows(lengths, x.shape)
    outs = [out for _, _, out in given]
    by_operations = inv_freq is not None or (ids is not None and ids.requires_grad and torch.is_grad_enabled())
    if by_operations:
        _check_values(ids)
        _check_outs(given)
        turned = [_by_operations(one, ids, rope, lengths, layout, False, inverse, inv_freq) for _, one, _ in given]
        if all(out is None for out in outs):
            return turned
        with torch.no_grad():
            return [one if out is None else out.copy_(one) for one, out in zip(turned, outs, strict=True)]
    if all(out is None for out in outs):
        if not _direct(*(one for _, one, _ in given)):
            text = text_of(rope)
            told = lengths if isinstance(lengths, list) else [] if lengths is None else [lengths]
            _check_values(ids)
            return [_op(one, ids, text, told, layout, False, inverse) for _, one, _ in given]
    _check_outs(given)
    made = [torch.empty_like(one) if out is None else out for (_, one, out) in given]
    with torch.no_grad():
        _turn_into([one for _, one, _ in given], made, ids, rope, lengths, layout, False, inverse)
    return made


# ------------------------------------------------------------------------------------------------- the op


@torch.library.custom_op("ropewalk::turn", mutates_args=())
def _op(
    x: Tensor,
    position_ids: Tensor | None,
    rope: str,
    length: Sequence[int],
    layout: str,
    transpose: bool,
    inverse: bool,
) -> Tensor:
    description = rope_of(rope)
    lengths: Lengths = list(length) if len(length) > 1 else (length[0] if length else None)
    check_shape("x", x.shape, description, layout)
    if position_ids is not None:
        check_position_shape(position_ids.shape, x.shape, description, layout)
    if isinstance(lengths, list):
        check_rows(lengths, x.shape)
    out = torch.empty_like(x)
    _turn_into([x], [out], position_ids, description, lengths, layout, transpose, inverse)
    return out


@_op.register_fake
def _(x, position_ids, rope, length, layout, transpose, inverse):
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, position_ids, ctx.rope, ctx.length, ctx.layout, ctx.transpose, ctx.inverse = inputs
    ctx.save_for_backward(position_ids)  # all that backward needs: it is the same op, turned the other way


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (position_ids,) = ctx.saved_tensors
    turned = _op(grad, position_ids, ctx.rope, ctx.length, ctx.layout, not ctx.transpose, ctx.inverse)
    return turned, None, None, None, None, None, None


_op.register_autograd(_backward, setup_context=_keep)


@_op.register_vmap
def _(info, in_dims, x, position_ids, rope, length, layout, transpose, inverse):
    size = info.batch_size
    x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x.expand(size, *x.shape)
    packed = x.ndim == 4  # each has no batch of its own: the mapped dimension becomes it
    rows = 1 if packed else x.shape[-4]
    if position_ids is not None:
        if in_dims[1] is not None:
            position_ids = position_ids.movedim(in_dims[1], 0)
        else:
            position_ids = position_ids.expand(size, *position_ids.shape)
        if position_ids.ndim == 2:
            position_ids = position_ids[:, None]
        if position_ids.ndim == 3:  # [V, 1 or B, S]
            position_ids = position_ids.expand(size, rows, -1).reshape(size * rows, -1)
        else:  # [V, A, 1 or B, S]
            position_ids = position_ids.expand(-1, -1, rows, -1).movedim(1, 0)
            position_ids = position_ids.reshape(position_ids.shape[0], size * rows, -1)
    lead = x.shape[:-3]
    flat = x.reshape(-1, *x.shape[-3:])
    if flat.shape[0] != size * rows:  # more leading dimensions than one: every one of them sees the same rows
        raise RopewalkError(f"vmap takes x of 3 or 4 dimensions inside, got {x.ndim - 1}.")
    told = list(length) * size if len(length) > 1 else length
    turned = _op(flat, position_ids, rope, told, "bshd" if layout == "thd" else layout, transpose, inverse)
    return turned.reshape(*lead, *x.shape[-3:]), 0


@torch.compiler.assume_constant_result
def text_of(rope: Rope) -> str:
    """Give the description as the text that the op carries, so that an exported graph stands for itself."""
    return _text_of(rope)


@lru_cache(maxsize=256)
def _text_of(rope: Rope) -> str:
    return json.dumps(rope.to_dict(), separators=(",", ":"))


@lru_cache(maxsize=256)
def rope_of(text: str) -> Rope:
    """Read a description from the op's text."""
    return Rope.from_dict(json.loads(text))


# ------------------------------------------------------------------------------------------------- the work


def _turn_into(
    xs: list[Tensor],
    outs: list[Tensor],
    ids: Tensor | None,
    rope: Rope,
    lengths: Lengths,
    layout: str,
    transpose: bool,
    inverse: bool,
) -> None:
    """Turn tensors into outs, all checks of shapes done; out may be x itself."""
    if xs[0].ndim > 4:
        for place in np.ndindex(tuple(xs[0].shape[:-4])):
            _turn_into([x[place] for x in xs], [o[place] for o in outs], ids, rope, lengths, layout, transpose, inverse)
        return
    if isinstance(lengths, list):
        for b, entry in enumerate(lengths):
            one_row = ids if ids is None or ids.ndim == 1 or ids.shape[-2] == 1 else ids[..., b : b + 1, :]
            rows = [x[b : b + 1] for x in xs], [out[b : b + 1] for out in outs]
            _turn_into(*rows, one_row, rope, entry, layout, transpose, inverse)
        return
    pairs = rope.pairs(lengths)
    if xs[0].device.type == "cpu" and kernel.can_turn(pairs, inverse):
        _by_kernel(xs, outs, ids, rope, pairs, layout == "bhsd", transpose, inverse)
        return
    if xs[0].device.type == "cuda" and pairs.is_rotation:
        from . import triton

        if triton.available(xs[0].device) is None:
            for x, out in zip(xs, outs, strict=True):
                _by_triton(triton, x, out, ids, rope, pairs, layout == "bhsd", transpose, inverse)
            return
    if xs[0].device.type == "cpu" and ids is not None:
        _check_values(ids)
        if inverse and not pairs.is_rotation:
            by_axis = ids.detach().to(torch.float64).numpy()
            wide = np.broadcast_to(by_axis, (rope.axes.num_axes, *by_axis.shape)) if by_axis.ndim < 3 else by_axis
            check_invertible(pairs, *cos_sin(pairs, wide))
    for x, out in zip(xs, outs, strict=True):
        out.copy_(torch_ops.turn(x, ids, rope, pairs, layout=layout, transpose=transpose, inverse=inverse))


def _by_kernel(
    xs: list[Tensor],
    outs: list[Tensor],
    ids: Tensor | None,
    rope: Rope,
    pairs: Pairs,
    heads_first: bool,
    transpose: bool,
    inverse: bool,
) -> None:
    entries, later, keep = [], [], []
    for x, out in zip(xs, outs, strict=True):
        source = x if x.stride(-1) == 1 and not x.is_neg() else x.resolve_neg().contiguous()
        target = out
        if out.stride(-1) != 1 or out.is_neg():
            target = torch.empty(out.shape, dtype=out.dtype)
            later.append((out, target))
        keep.append((source, target))
        entries.append((source.data_ptr(), target.data_ptr(), source.shape, source.stride(), target.stride()))
    positions = None
    if ids is not None:
        code = POSITION_DTYPES.get(ids.dtype)
        if code is None or ids.is_neg():
            ids = ids.to(torch.int64 if ids.dtype in _WHOLE else torch.float64).resolve_neg()
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
    )
    if status:
        _refuse(status, ids)
    for out, target in later:
        out.copy_(target)


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
    triton.turn(views[0], ids, pairs, transpose=transpose, inverse=inverse, out=views[1])
    if target is not out:
        out.copy_(target)


def _by_operations(
    x: Tensor,
    ids: Tensor | None,
    rope: Rope,
    lengths: Lengths,
    layout: str,
    transpose: bool,
    inverse: bool,
    inv_freq: Tensor | None,
) -> Tensor:
    rest = {"layout": layout, "transpose": transpose, "inverse": inverse, "inv_freq": inv_freq}
    if not isinstance(lengths, list):
        return torch_ops.turn(x, ids, rope, rope.pairs(lengths), **rest)
    rows = []
    for b, entry in enumerate(lengths):
        one_row = ids if ids is None or ids.ndim == 1 or ids.shape[-2] == 1 else ids[..., b : b + 1, :]
        rows.append(torch_ops.turn(x[..., b : b + 1, :, :, :], one_row, rope, rope.pairs(entry), **rest))
    return torch.cat(rows, dim=-4)


# ------------------------------------------------------------------------------------------------- checks


def _direct(*tensors: Tensor) -> bool:
    """Whether these tensors may go past the dispatcher: plain ones, nobody recording, tracing or transforming."""
    if torch.compiler.is_compiling() or torch_ops.watched() or torch.jit.is_tracing():
        return False
    recording = torch.is_grad_enabled()
    for x in tensors:
        if (type(x) is not Tensor and type(x) is not torch.nn.Parameter) or (recording and x.requires_grad):
            return False
        if x.layout is not torch.strided or x.is_meta:
            return False
    return True


def _check_tensor(name: str, x: object, first: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise RopewalkError(f"{name} must be a torch tensor like the other one, got {shown(type(x).__name__)}.")
    if x.dtype not in DTYPES:
        names = ", ".join(kernel.DTYPES)
        raise RopewalkError(f"{name} must be one of {names}, got {str(x.dtype).removeprefix('torch.')}.")
    if x.dtype != first.dtype or x.device != first.device:
        raise RopewalkError(
            f"q and k must have one dtype and one device, got {first.dtype} on {first.device} and {x.dtype} on "
            f"{x.device}."
        )


def _position_ids(position_ids: Any, device: torch.device) -> Tensor | None:
    if position_ids is None:
        return None
    if not isinstance(position_ids, Tensor):
        from ._inputs import numbers

        array = numbers("position_ids", position_ids)
        check_position_values(array)
        kind = np.int64 if array.dtype.kind in "iu" else np.float64
        return torch.from_numpy(np.ascontiguousarray(array.astype(kind))).to(device)
    if position_ids.device != device:
        raise RopewalkError(f"position_ids are on {position_ids.device} and the vectors on {device}: move them there.")
    if position_ids.dtype not in _WHOLE and not position_ids.is_floating_point():
        raise RopewalkError(
            f"position_ids must be integers or floats, got {str(position_ids.dtype).removeprefix('torch.')}."
        )
    return position_ids


def _check_values(ids: Tensor | None) -> None:
    """Raise for positions that cannot be turned by; only where looking at them is free."""
    if ids is None or ids.device.type != "cpu" or torch.compiler.is_compiling() or torch_ops.watched():
        return
    if type(ids) is Tensor and ids.numel():
        wide = ids.detach().to(torch.int64 if ids.dtype in _WHOLE else torch.float64)
        check_position_values(wide.numpy())


def _refuse(status: int, ids: Tensor | None) -> None:
    if status == kernel.BAD_POSITION and ids is not None:
        check_position_values(ids.detach().numpy())
    raise AssertionError(f"the kernel refused arguments that were checked: {status}")


def _lengths(rope: Rope, length: Any) -> Lengths:
    if isinstance(length, Tensor):
        length = length.tolist()
    if torch.compiler.is_compiling() and length is not None and not isinstance(length, list | tuple):
        return length  # a symbolic number: looking at it would pin it
    return lengths_of(rope, length)


def _check_outs(given: tuple[tuple[str, Tensor, Tensor | None], ...]) -> None:
    for name, x, out in given:
        if out is None:
            continue
        if not isinstance(out, Tensor) or out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
            got = f"{list(out.shape)} {out.dtype} on {out.device}" if isinstance(out, Tensor) else shown(out)
            raise RopewalkError(
                f"out for {name} must be a tensor like it, {list(x.shape)} {x.dtype} on {x.device}, got {got}."
            )
        if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
            raise RopewalkError(
                f"out= cannot be differentiated, and gradients are being recorded for {name}. Leave out away, or turn "
                "under torch.no_grad()."
            )
        same = out.data_ptr() == x.data_ptr() and out.stride() == x.stride()
        if not same and x.device.type == "cpu" and _share(x, out):
            raise overlap_error()


def _share(x: Tensor, out: Tensor) -> bool:
    """Whether two tensors of the CPU share an element."""
    if x.untyped_storage().data_ptr() != out.untyped_storage().data_ptr() or not x.numel():
        return False
    views = [one.detach().view(torch.uint8 if one.stride(-1) == 1 else one.dtype) for one in (x, out)]
    try:
        arrays = [one.numpy() for one in views]
    except TypeError:  # bfloat16 with a strided last dimension
        arrays = [one.detach().view(torch.int16).numpy() for one in (x, out)]
    return bool(np.shares_memory(*arrays))
