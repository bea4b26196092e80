"""The torch op `ropewalk::turn`: what autograd, torch.compile, torch.export and vmap see of turning."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..errors import RopewalkError
from ..rope import Rope
from ._inputs import check_position_shape, check_rows, check_shape
from .devices import Lengths, turn_into


@torch.library.custom_op("ropewalk::turn", mutates_args=())
def turn(
    x: Tensor,
    position_ids: Tensor | None,
    rope: str,
    length: Sequence[int],
    layout: str,
    transpose: bool,
    inverse: bool,
) -> Tensor:
    """Turn one tensor; `rope` is a description as JSON text, `length` empty, one number, or one for each row."""
    description = rope_of(rope)
    lengths: Lengths = list(length) if len(length) > 1 else (length[0] if length else None)
    check_shape("x", x.shape, description, layout)
    if position_ids is not None:
        check_position_shape(position_ids.shape, x.shape, description, layout)
    if isinstance(lengths, list):
        check_rows(lengths, x.shape)
    out = torch.empty_like(x)
    turn_into([x], [out], position_ids, description, lengths, layout, transpose, inverse, fresh=True)
    return out


@turn.register_fake
def _(x, position_ids, rope, length, layout, transpose, inverse):
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, position_ids, ctx.rope, ctx.length, ctx.layout, ctx.transpose, ctx.inverse = inputs
    ctx.save_for_backward(position_ids)  # all that backward needs: it is the same op, turned the other way


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (position_ids,) = ctx.saved_tensors
    turned = turn(grad, position_ids, ctx.rope, ctx.length, ctx.layout, not ctx.transpose, ctx.inverse)
    return turned, None, None, None, None, None, None


turn.register_autograd(_backward, setup_context=_keep)


@turn.register_vmap
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
    turned = turn(flat, position_ids, rope, told, "bshd" if layout == "thd" else layout, transpose, inverse)
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
