"""Turning NumPy arrays: by the kernel where it is there, else by NumPy operations."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import shown
from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope
from . import kernel
from ._inputs import (
    Length,
    check_layout,
    check_out_pair,
    check_pair_of_shapes,
    check_position_shape,
    check_rope,
    check_rows,
    check_shape,
    lengths_of,
    numbers,
    position_array,
)
from ._memory import Block, check_outs
from .tables import check_invertible, check_reach, coefficients, cos_sin

Array = NDArray[Any]


def rotate(
    x: ArrayLike,
    position_ids: ArrayLike,
    rope: Rope,
    *,
    inverse: bool = False,
    length: Length = None,
    out: Array | None = None,
    layout: str = "bshd",
) -> Array:
    """Turn one array; see ropewalk.rotate."""
    return _turn_all([("x", x, out)], position_ids, rope, inverse, length, layout)[0]


def rotate_qk(
    q: ArrayLike,
    k: ArrayLike,
    position_ids: ArrayLike,
    rope: Rope,
    *,
    inverse: bool = False,
    length: Length = None,
    out: tuple[Array, Array] | None = None,
    layout: str = "bshd",
) -> tuple[Array, Array]:
    """Turn queries and keys; see ropewalk.rotate_qk."""
    q_out, k_out = check_out_pair(out)
    turned = _turn_all([("q", q, q_out), ("k", k, k_out)], position_ids, rope, inverse, length, layout)
    return turned[0], turned[1]


def _turn_all(
    given: list[tuple[str, ArrayLike, Array | None]],
    position_ids: ArrayLike,
    rope: Rope,
    inverse: bool,
    length: Length,
    layout: str,
) -> list[Array]:
    check_rope(rope)
    check_layout(layout)
    arrays = [(name, _vectors(name, x), out) for name, x, out in given]
    for name, x, _ in arrays:
        check_shape(name, x.shape, rope, layout)
    if len(arrays) == 2:
        check_pair_of_shapes(arrays[0][1].shape, arrays[1][1].shape, layout)
    ids = _position_ids(position_ids)
    check_position_shape(ids.shape, arrays[0][1].shape, rope, layout)
    lengths = lengths_of(rope, length)
    if isinstance(lengths, list):
        check_rows(lengths, arrays[0][1].shape)
    outs = [_result(name, x, out) for name, x, out in arrays]
    check_outs([(name, _block(x), None if out is None else _block(out)) for name, x, out in arrays])
    xs = [x for _, x, _ in arrays]
    heads_first = layout == "bhsd"
    lead = xs[0].ndim - 4
    for place in np.ndindex(xs[0].shape[:lead]) if lead > 0 else [()]:
        rows = [(x[place], out[place]) for x, out in zip(xs, outs, strict=True)]
        if not isinstance(lengths, list):
            _turn(rows, ids, rope, rope.pairs(lengths), heads_first, inverse)
            continue
        for b, entry in enumerate(lengths):
            one_row = ids if ids.ndim == 1 or ids.shape[-2] == 1 else ids[..., b : b + 1, :]
            here = [(x[b : b + 1], out[b : b + 1]) for x, out in rows]
            _turn(here, one_row, rope, rope.pairs(entry), heads_first, inverse)
    return outs


def _turn(
    rows: list[tuple[Array, Array]], ids: Array, rope: Rope, pairs: Pairs, heads_first: bool, inverse: bool
) -> None:
    """Turn arrays of 3 or 4 dimensions into their results, all checks done but that of the angles' reach."""
    rows = [(x, out) for x, out in rows if x.size]  # NumPy gives empty arrays strides of 0
    if not rows:
        return
    if kernel.can_turn(pairs, inverse):
        rows_in = [_for_kernel(x) for x, _ in rows]
        rows_out = [out if _unit(out) and out.flags.aligned else np.empty(out.shape, out.dtype) for _, out in rows]
        status = kernel.turn(
            tuple(
                (_address(x), _address(out), x.shape, _strides(x), _strides(out))
                for x, out in zip(rows_in, rows_out, strict=True)
            ),
            (_address(ids), kernel.POSITION_DTYPES[ids.dtype.name], ids.shape, _strides(ids)),
            rope,
            pairs,
            kernel.DTYPES[rows[0][0].dtype.name],
            heads_first=heads_first,
            transpose=False,
            inverse=inverse,
            fresh=False,
        )
        if status == kernel.BAD_POSITION:
            check_reach(ids, pairs)
        assert status == kernel.OK, f"the kernel refused arguments that were checked: {status}"
        for (_, out), turned in zip(rows, rows_out, strict=True):
            if turned is not out:
                out[...] = turned
        return
    by_axis = ids.astype(np.float64)
    if by_axis.ndim < 3:
        by_axis = np.broadcast_to(by_axis, (rope.axes.num_axes, *by_axis.shape))
    cos, sin = cos_sin(pairs, by_axis)
    if inverse:
        check_invertible(pairs, cos, sin)
    real = np.float64 if rows[0][0].dtype == np.float64 else np.float32
    parts = coefficients(cos, sin, pairs, inverse=inverse)
    c0, s0, c1, s1 = (part.astype(real)[..., None, :] for part in parts)
    for x, out in rows:
        x, target = (x.swapaxes(-3, -2), out.swapaxes(-3, -2)) if heads_first else (x, out)
        a, b = x[..., pairs.first].astype(real), x[..., pairs.second].astype(real)
        if x is not target and not np.shares_memory(x, target):
            target[...] = x
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite stays in its own pair
            target[..., pairs.first] = (a * c0 - b * s0).astype(x.dtype)
            target[..., pairs.second] = (b * c1 + a * s1).astype(x.dtype)


def _vectors(name: str, x: ArrayLike) -> Array:
    array = x if isinstance(x, np.ndarray) else numbers(name, x)
    if array.dtype.name not in kernel.DTYPES:
        raise RopewalkError(
            f"{name} must be float32, float64, float16 or bfloat16, got {array.dtype.name}. Convert it first."
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _position_ids(position_ids: ArrayLike) -> Array:
    """Give positions in a type that the kernel reads, checked."""
    ids = position_array(position_ids)
    if ids.dtype.name in kernel.POSITION_DTYPES and ids.dtype.isnative:
        return _for_kernel(ids)
    return ids.astype(np.int64 if ids.dtype.kind in "iu" else np.float64)


def _result(name: str, x: Array, out: Array | None) -> Array:
    """Give the array to write to: out, checked, or a new one."""
    if out is None:
        return np.empty(x.shape, x.dtype)
    what = f"out for {name}"
    if not isinstance(out, np.ndarray) or out.shape != x.shape or out.dtype != x.dtype:
        got = f"{list(out.shape)} {out.dtype.name}" if isinstance(out, np.ndarray) else shown(out)
        raise RopewalkError(f"{what} must be an array like it, {list(x.shape)} {x.dtype.name}, got {got}.")
    if not out.flags.writeable:
        raise RopewalkError(f"{what} must be writeable. Give an array that may be changed.")
    return out


def _block(array: Array) -> Block:
    return Block(_address(array), array.shape, array.strides, array.itemsize)


def _for_kernel(array: Array) -> Array:
    """Give array, or a copy where its strides are no whole number of elements or its last one is not 1."""
    whole = all(stride % array.itemsize == 0 for stride in array.strides)
    unit = array.ndim < 3 or _unit(array)
    return array if whole and unit and array.flags.aligned else np.array(array, order="C")


def _unit(array: Array) -> bool:
    return array.strides[-1] == array.itemsize and all(stride % array.itemsize == 0 for stride in array.strides)


def _address(array: Array) -> int:
    return array.__array_interface__["data"][0]


def _strides(array: Array) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)
