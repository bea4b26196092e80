"""rotate, rotate_qk and the module's call on torch tensors: checks, and the shortest way to the work."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._checks import shown
from ..errors import RopewalkError
from ..rope import Rope
from . import kernel, op, torch_ops
from ._inputs import (
    check_layout,
    check_out_pair,
    check_pair_of_shapes,
    check_position_shape,
    check_rope,
    check_rows,
    check_shape,
    lengths_of,
    position_array,
)
from ._memory import Block, check_outs
from .devices import DTYPES, POSITION_DTYPES, WHOLE, Lengths, check_values, turn_into


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
    _check_given(position_ids)
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
    _check_given(position_ids)
    q_out, k_out = check_out_pair(out)
    turned = turn_all((("q", q, q_out), ("k", k, k_out)), position_ids, rope, length, layout, inverse)
    return turned[0], turned[1]


def turn_all(
    given: tuple[tuple[str, Tensor, Tensor | None], ...],
    position_ids: Any,
    rope: Rope,
    length: Any,
    layout: str,
    inverse: bool,
    learned: tuple[Tensor, torch_ops.Recipe] | None = None,
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
    by_operations = learned is not None or (ids is not None and ids.requires_grad and torch.is_grad_enabled())
    by_operations = by_operations or torch_ops.differentiated()
    if by_operations:
        if not torch.compiler.is_compiling():
            check_values(ids, rope.pairs(lengths[0] if isinstance(lengths, list) else lengths))
        _check_outs(given)
        turned = [_by_operations(one, ids, rope, lengths, layout, inverse, learned) for _, one, _ in given]
        if all(out is None for out in outs):
            return turned
        with torch.no_grad():
            return [one if out is None else out.copy_(one) for one, out in zip(turned, outs, strict=True)]
    if all(out is None for out in outs):
        if not _direct(*(one for _, one, _ in given)):
            text = op.text_of(rope)
            told = lengths if isinstance(lengths, list) else [] if lengths is None else [lengths]
            check_values(ids)
            return [op.turn(one, ids, text, told, layout, False, inverse) for _, one, _ in given]
    _check_outs(given)
    made = [torch.empty_like(one) if out is None else out for (_, one, out) in given]
    fresh = all(out is None for out in outs)
    with torch.no_grad():
        turn_into([one for _, one, _ in given], made, ids, rope, lengths, layout, False, inverse, fresh=fresh)
    torch.autograd.graph.increment_version([out for out in outs if out is not None])
    return made


class Quick:
    """Everything that turning by one rope needs, looked up once: for decoding, where each microsecond counts."""

    def __init__(self, rope: Rope, layout: str) -> None:
        self.rope, self.heads_first = rope, layout == "bhsd"
        self.dims = 3 if layout == "thd" else 4
        self.one_for_all = rope.axes.kind == "sections"
        self.layout = layout
        self.pairs = None if rope.length_dependent else rope.pairs()
        self.ready: tuple[Any, Any] | None = None  # the kernel's short way and the plan, where there is but one

    def __reduce__(self) -> tuple[Any, ...]:
        return Quick, (self.rope, self.layout)

    def __call__(
        self, q: Tensor, k: Tensor, position_ids: Any, length: Any, in_place: bool
    ) -> tuple[Tensor, Tensor] | None:
        """Turn plain tensors of the CPU past the dispatcher; None where the long way has to look closer."""
        if kernel.module is None or q is None or k is None:
            return None
        pairs, ready = self.pairs, self.ready
        if pairs is None:
            if type(length) is not int:
                return None
            pairs = self.rope.pairs(length)
            ready = None
        if ready is None:
            ready = self.ready = _quick(kernel.module), kernel.plan_of(self.rope, pairs)
        turned = ready[0](
            ready[1],
            q,
            k,
            position_ids,
            self.heads_first,
            self.one_for_all,
            self.dims,
            pairs.cos_sin_factor,
            in_place,
        )
        if in_place and turned is not None:
            torch.autograd.graph.increment_version(turned)  # what autograd keeps of them is stale now
        return turned


@lru_cache(maxsize=2)
def _quick(module: Any) -> Any:
    return module.Quick(
        Tensor,
        torch.empty_like,
        torch.is_grad_enabled,
        tuple(DTYPES),
        tuple(POSITION_DTYPES),
        (torch_ops.modes, torch_ops.transforms, torch._C._get_tracing_state),
    )


def _by_operations(
    x: Tensor,
    ids: Tensor | None,
    rope: Rope,
    lengths: Lengths,
    layout: str,
    inverse: bool,
    learned: tuple[Tensor, torch_ops.Recipe] | None,
) -> Tensor:
    if learned is not None:
        return torch_ops.turn(x, ids, learned[1], layout=layout, inverse=inverse, inv_freq=learned[0])
    if not isinstance(lengths, list):
        return torch_ops.turn(x, ids, torch_ops.recipe_of(rope, lengths), layout=layout, inverse=inverse)
    rows = []
    for b, entry in enumerate(lengths):
        one_row = ids if ids is None or ids.ndim == 1 or ids.shape[-2] == 1 else ids[..., b : b + 1, :]
        recipe = torch_ops.recipe_of(rope, entry)
        rows.append(torch_ops.turn(x[..., b : b + 1, :, :, :], one_row, recipe, layout=layout, inverse=inverse))
    return torch.cat(rows, dim=-4)


def _direct(*tensors: Tensor) -> bool:
    """Whether these tensors may go past the dispatcher: plain ones, nobody recording, tracing or transforming."""
    if torch.compiler.is_compiling() or torch_ops.watched() or torch._C._get_tracing_state() is not None:
        return False
    recording = torch.is_grad_enabled()
    for x in tensors:
        if (type(x) is not Tensor and type(x) is not torch.nn.Parameter) or (recording and x.requires_grad):
            return False
        if x.is_meta:
            return False
    return True


def _check_given(position_ids: object) -> None:
    if position_ids is None:
        raise RopewalkError("position_ids must be given, got None. Only Rotary counts 0, 1, 2 … by itself.")


def _check_tensor(name: str, x: object, first: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise RopewalkError(f"{name} must be a torch tensor like the other one, got {shown(type(x).__name__)}.")
    if x.dtype not in DTYPES:
        names = ", ".join(kernel.DTYPES)
        raise RopewalkError(f"{name} must be one of {names}, got {str(x.dtype).removeprefix('torch.')}.")
    if x.layout is not torch.strided:
        raise RopewalkError(f"{name} must be a dense tensor, got {x.layout}. Convert it first, with to_dense().")
    if x.dtype != first.dtype or x.device != first.device:
        raise RopewalkError(
            f"q and k must have one dtype and one device, got {first.dtype} on {first.device} and {x.dtype} on "
            f"{x.device}."
        )


def _position_ids(position_ids: Any, device: torch.device) -> Tensor | None:
    if position_ids is None:
        return None
    if not isinstance(position_ids, Tensor):
        array = position_array(position_ids)
        kind = np.int64 if array.dtype.kind in "iu" else np.float64
        return torch.from_numpy(np.ascontiguousarray(array.astype(kind))).to(device)
    if position_ids.device != device:
        raise RopewalkError(f"position_ids are on {position_ids.device} and the vectors on {device}: move them there.")
    if position_ids.dtype not in WHOLE and not position_ids.is_floating_point():
        raise RopewalkError(
            f"position_ids must be integers or floats, got {str(position_ids.dtype).removeprefix('torch.')}."
        )
    return position_ids


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
    if given[0][1].device.type == "cpu" and any(out is not None for _, _, out in given):
        check_outs([(name, _block(x), None if out is None else _block(out)) for name, x, out in given])


def _block(x: Tensor) -> Block:
    return Block(x.data_ptr(), tuple(x.shape), tuple(stride * x.itemsize for stride in x.stride()), x.itemsize)
