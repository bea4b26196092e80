"""Turning on a CUDA device by one Triton kernel: cos and sin once for each token, shared by all its heads."""

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import RopewalkError
from ..pairs import Pairs
from .tables import split_tables

if TYPE_CHECKING:
    import torch

OLDEST = (7, 5)  # compute capability; what it compiles for is tested from here on
_RUNS, _ADJACENT, _LISTED = range(3)  # as in _triton_kernels
_COUNTED, _ONE_AXIS, _AXES = range(3)
_WARPS = 4
_TILE = 1024  # pairs that a program turns at a time: 8 for each of its threads
_WIDEST = 256  # pairs of a head at a time
_ROWS = 64  # heads of tokens at a time
_PROGRAMS = 1024  # wanted at least, so that every multiprocessor has several to change between


def available(device: "torch.device | str") -> str | None:
    """Say why the kernel cannot turn tensors of this device, or None when it can.

    With ``TRITON_INTERPRET=1`` in the environment, Triton's interpreter runs the kernel on CPU tensors.

    >>> available("mps")
    'it turns tensors of CUDA devices, and this one is mps'
    """
    kind = str(device).partition(":")[0]
    interpreted = kind == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    if kind != "cuda" and not interpreted:
        return f"it turns tensors of CUDA devices, and this one is {kind}"
    return _missing(str(device))


@lru_cache(maxsize=64)
def _missing(device: str) -> str | None:
    for package in ("torch", "triton"):
        if find_spec(package) is None:
            return f"{package} is not installed"
    if device == "cpu":
        return None
    import torch

    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    if (capability := torch.cuda.get_device_capability(device)) < OLDEST:
        return "it needs compute capability {}.{}, and this device has {}.{}".format(*OLDEST, *capability)
    return None


def turn(
    x: "torch.Tensor",
    position_ids: "torch.Tensor | None",
    pairs: Pairs,
    *,
    transpose: bool = False,
    inverse: bool = False,
    out: "torch.Tensor | None" = None,
    direct: bool = False,
) -> "torch.Tensor":
    """Turn the vectors of x by their positions: multiply each pair by g·R.

    Arithmetic is float32 (float64 for float64) and rounds once, at the end; cos and sin come from float64. It runs on
    the current stream and nothing waits for it, so that positions are not looked at: they must be finite.

    Args:
        x: [B, S, H, D] float32, float64, bfloat16 or float16; any strides, the last one 1.
        position_ids: [A, B or 1, S] int64 or float64 on x's device, within ±2^53, any strides; A may be 1 where all
            axes share one position. None: 0 … S-1.
        pairs: a table of rotations.
        transpose: multiply by the transpose instead.
        inverse: multiply by the inverse instead, Rᵀ/g (with transpose: R/g).
        out: where to put the result, [B, S, H, D] of x's dtype; x itself turns in place, an overlap in part is not
            seen. None: a new tensor.
        direct: multiply out every angle instead of using tables; for pairs used once or twice, which tables are not
            worth building for (dynamic NTK in decode).

    Returns:
        out. Channels in no pair, and pairs that keep still under a factor of 1, are bit-equal to x's.

    Raises:
        RopewalkError: for a map that is no rotation; shapes, strides, dtypes or devices that do not fit.

    Source: Su et al. 2021, RoFormer, equation 34.
    """
    import torch

    if out is None:
        out = torch.empty_like(x)
        if out.stride()[-1:] != (1,):
            out = torch.empty_like(x, memory_format=torch.contiguous_format)
    _check(x, position_ids, pairs, out)
    if x.numel() == 0:
        return out
    plan = _plan(pairs, x.shape[3], x.device)
    in_place = out is x or (out.data_ptr() == x.data_ptr() and out.stride() == x.stride())
    if not len(plan.pairs):
        return out if in_place else out.copy_(x)
    options = {"COPY": not in_place, "BACKWARDS": transpose != inverse, "DIVIDED": int(inverse)}
    if x.device.type == "cpu":
        _launch(plan, x, position_ids, out, direct, options)
    else:
        with torch.cuda.device(x.device):
            _launch(plan, x, position_ids, out, direct, options)
    return out


def _launch(
    plan: "_Plan",
    x: "torch.Tensor",
    position_ids: "torch.Tensor | None",
    out: "torch.Tensor",
    direct: bool,
    options: dict[str, int],
) -> None:
    from . import _triton_kernels

    kernel: Any = _triton_kernels.turn_kernel
    batch, seq, heads, width = x.shape
    if position_ids is None:
        positions, ids, id_strides = _COUNTED, plan.lists, [0, 0, 0]
    else:
        several = plan.axis is None and position_ids.shape[0] > 1
        ids = position_ids if several or position_ids.shape[0] == 1 else position_ids[plan.axis :]
        positions, id_strides = (_AXES if several else _ONE_AXIS), _strides(ids)
        direct = direct or ids.dtype.is_floating_point
    blocks = _Blocks.of(len(plan.pairs), plan.rest, heads)
    tokens = batch * seq
    token_blocks, head_blocks = -(-tokens // blocks.tokens), -(-heads // blocks.heads)
    chunks = min(head_blocks, -(-_PROGRAMS // token_blocks))
    heads_each = -(-head_blocks // chunks) * blocks.heads
    chunks = -(-heads // heads_each)
    strides = [*_strides(x), *_strides(out)]
    unit = gcd(16, *strides)
    kernel[(token_blocks * chunks,)](
        x,
        out,
        ids,
        plan.speeds if direct else plan.tables,
        plan.speeds,
        plan.lists,
        tokens,
        seq,
        heads,
        heads_each,
        chunks,
        *(stride // unit for stride in strides),
        *id_strides,
        D=width,
        P=len(plan.pairs),
        N=plan.rest,
        KIND=plan.kind,
        FIRST=plan.first,
        SECOND=plan.second,
        POSITIONS=positions,
        DIRECT=direct,
        UNIT=unit,
        BT=blocks.tokens,
        BH=blocks.heads,
        BP=blocks.pairs,
        BN=blocks.rest,
        num_warps=_WARPS,
        enable_fp_fusion=True,  # said, since Triton is about to turn its default
        **options,
    )


@dataclass(frozen=True, eq=False)
class _Plan:
    """What the kernel needs to know of a table of pairs, on the device; pairs holds those that move."""

    pairs: Pairs
    device: "torch.device"
    kind: int
    first: int
    second: int
    rest: int  # channels in no pair
    axis: int | None  # the one that drives every pair, where it is one
    lists: "torch.Tensor"
    speeds: "torch.Tensor"

    @cached_property
    def tables(self) -> "torch.Tensor":
        """[3, 1024, 2, P] float64: of the fine, coarse and far positions, cos and sin."""
        import torch

        tables = split_tables(self.pairs)
        levels = [np.stack(level, axis=1) for level in (tables.fine, tables.coarse, tables.far)]
        return torch.from_numpy(np.stack(levels)).to(self.device)


@lru_cache(maxsize=64)
def _plan(pairs: Pairs, width: int, device: "torch.device") -> _Plan:
    """Read a table of pairs; once for each whole table, width and device."""
    import torch

    channels = np.concatenate([pairs.first, pairs.second])
    if len(pairs) and channels.max() >= width:
        raise RopewalkError(f"x has {width} channels a head, and the pairs reach channel {channels.max()}.")
    g = pairs.cos_sin_factor
    if g == 1:  # pairs that keep still are copied with the channels in no pair
        moving = pairs.inv_freq != 0
        pairs = Pairs(**{name: getattr(pairs, name)[moving] for name in ("first", "second", "axis", "inv_freq")})
    rest = np.setdiff1d(np.arange(width), np.concatenate([pairs.first, pairs.second]))
    lists = np.concatenate([pairs.first, pairs.second, pairs.axis, rest]).astype(np.int32)
    axes = np.unique(pairs.axis).tolist()
    kind, first, second = _channels(pairs)
    return _Plan(
        pairs=pairs,
        device=device,
        kind=kind,
        first=first,
        second=second,
        rest=len(rest),
        axis=axes[0] if len(axes) == 1 else None,
        lists=torch.from_numpy(lists).to(device),
        speeds=torch.from_numpy(np.concatenate([pairs.inv_freq, [g, 1 / g]])).to(device),
    )


def _channels(pairs: Pairs) -> tuple[int, int, int]:
    """Give how the kernel finds the channels of a pair, and those of pair 0."""
    if not len(pairs):
        return _LISTED, 0, 0
    steps = np.arange(len(pairs))
    first, second = int(pairs.first[0]), int(pairs.second[0])
    if np.array_equal(pairs.first, first + 2 * steps) and np.array_equal(pairs.second, pairs.first + 1):
        return _ADJACENT, first, second
    runs = np.array_equal(pairs.first, first + steps) and np.array_equal(pairs.second, second + steps)
    if runs and first + len(pairs) <= second:
        return _RUNS, first, second
    return _LISTED, 0, 0


@dataclass(frozen=True, slots=True)
class _Blocks:
    """How much one program turns at a time; powers of two, as Triton wants them."""

    tokens: int
    heads: int
    pairs: int
    rest: int

    @classmethod
    def of(cls, pairs: int, rest: int, heads: int) -> "_Blocks":
        """Choose by the width and by 1, 2 or more heads, never by the length, so that growth compiles nothing anew."""
        pairs = min(_power_of_two(pairs), _WIDEST)
        rows = min(_TILE // pairs, _ROWS)
        by_heads = min(_power_of_two(heads), 4)
        return cls(rows // by_heads, by_heads, pairs, min(_power_of_two(max(rest, 1)), max(2 * pairs, 64)))


def _power_of_two(number: int) -> int:
    """Give the least power of two that is not below number."""
    return 1 << (number - 1).bit_length()


def _strides(tensor: "torch.Tensor") -> list[int]:
    """Give the strides of the leading three dimensions, 0 for one of a single entry, which is never stepped along."""
    return [step if size > 1 else 0 for size, step in zip(tensor.shape[:3], tensor.stride()[:3], strict=True)]


def _check(x: "torch.Tensor", ids: "torch.Tensor | None", pairs: Pairs, out: "torch.Tensor") -> None:
    import torch

    if (reason := available(x.device)) is not None:
        raise RopewalkError(f"the Triton kernel cannot be used: {reason}. Use torch operations.")
    if not pairs.is_rotation:
        raise RopewalkError("the Triton kernel turns rotations only, and this map is none. Use torch operations.")
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        raise RopewalkError(f"x must be float32, float64, bfloat16 or float16, got {x.dtype}. Cast it.")
    if x.ndim != 4 or x.stride(3) != 1:
        raise RopewalkError(
            f"x must be [batch, seq, heads, head_dim] with a last stride of 1, got shape {list(x.shape)} and strides "
            f"{list(x.stride())}. Make it contiguous."
        )
    if (out.shape, out.dtype, out.device, out.stride()[-1:]) != (x.shape, x.dtype, x.device, (1,)):
        raise RopewalkError(
            f"out must be like x, {list(x.shape)} {x.dtype} on {x.device} with a last stride of 1, got "
            f"{list(out.shape)} {out.dtype} on {out.device} with strides {list(out.stride())}."
        )
    if ids is None:
        return
    if ids.dtype not in (torch.int64, torch.float64) or ids.device != x.device:
        raise RopewalkError(
            f"position_ids must be int64 or float64 on {x.device}, got {ids.dtype} on {ids.device}. Convert them."
        )
    batch, seq = x.shape[:2]
    fits = ids.ndim == 3 and ids.shape[2] == seq and ids.shape[1] in (1, batch)
    if not fits or ids.shape[0] not in (1, *range(pairs.num_axes, ids.shape[0] + 1)):
        raise RopewalkError(
            f"position_ids must be [axes={pairs.num_axes} or 1, batch={batch} or 1, seq={seq}], got {list(ids.shape)}."
        )
