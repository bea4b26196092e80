"""What every way of turning asks of its arguments, in one wording."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import MAX_POSITION, choice, shown, whole
from ..errors import RopewalkError
from ..rope import Rope

Length = int | Sequence[int] | NDArray[np.int64] | None
LAYOUTS = ("bshd", "bhsd", "thd")
AXES_OF = {
    "bshd": "[..., seq, heads, head_dim]",
    "bhsd": "[..., heads, seq, head_dim]",
    "thd": "[tokens, heads, head_dim]",
}


def numbers(what: str, values: ArrayLike) -> NDArray[Any]:
    """Give values as an array of real numbers; text, booleans, complex numbers and ragged lists are refused."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise RopewalkError(
            f"{what} must be an array of integers or floats, got {shown(values)}. Make it rectangular; a torch tensor "
            "must be detached, on the CPU and not bfloat16."
        ) from error
    if array.dtype.kind not in "iuf" and "float" not in array.dtype.name:  # bfloat16 is of kind V
        kind = "" if array.dtype.kind == "O" else f", {array.dtype.name}"
        raise RopewalkError(f"{what} must be an array of integers or floats, got {shown(values)}{kind}.")
    return array


def position_array(position_ids: ArrayLike) -> NDArray[Any]:
    """Give positions as an array, checked; whole numbers of a list are not made floats on the way."""
    ids = numbers("position_ids", position_ids)
    if ids.dtype.kind == "f" and isinstance(position_ids, list | tuple):
        listed = np.asarray(position_ids, dtype=object).ravel().tolist()
        beyond = [one for one in listed if isinstance(one, int) and abs(one) > MAX_POSITION]
        if beyond:
            raise _too_far(beyond[0], beyond[0])
    check_position_values(ids)
    return ids


def _too_far(lowest: object, highest: object) -> RopewalkError:
    return RopewalkError(
        f"integer position_ids must lie within ±2^53 = {MAX_POSITION}, beyond which float64 skips integers, got "
        f"{shown(lowest)} to {shown(highest)}."
    )


def check_rope(rope: object) -> Rope:
    """Return rope when it is a description, or raise saying how to get one."""
    if isinstance(rope, Rope):
        return rope
    raise RopewalkError(f"rope must be a Rope, got {shown(rope)}. Give Rope(…), or ropewalk.read(model).rope.")


def check_layout(layout: object) -> str:
    """Return layout when it is known, or raise."""
    return choice("layout", layout, LAYOUTS)


def check_shape(name: str, shape: Sequence[int], rope: Rope, layout: str) -> None:
    """Raise unless shape is that of vectors in this layout."""
    dims = len(shape)
    if dims < 3 or (layout == "thd" and dims != 3) or shape[-1] != rope.head_dim:
        raise RopewalkError(
            f"{name} must be {AXES_OF[layout]} with head_dim={rope.head_dim} for layout {layout!r}, got shape "
            f"{list(shape)}."
        )


def token_axes(shape: Sequence[int], layout: str) -> tuple[int, int]:
    """Give (batch, seq) of a checked shape; batch is 1 where there is none."""
    seq = shape[-2] if layout == "bhsd" else shape[-3]
    return (shape[-4] if len(shape) > 3 else 1), seq


def check_pair_of_shapes(q: Sequence[int], k: Sequence[int], layout: str) -> None:
    """Raise unless q and k differ in their heads alone."""
    heads = -3 if layout == "bhsd" else -2
    without = [[size for place, size in enumerate(shape, -len(shape)) if place != heads] for shape in (q, k)]
    if without[0] != without[1]:
        raise RopewalkError(
            f"q and k may differ in their number of heads alone, got {list(q)} and {list(k)} for layout {layout!r}."
        )


def check_position_shape(ids: Sequence[int], x: Sequence[int], rope: Rope, layout: str) -> None:
    """Raise unless positions of shape ids fit vectors of shape x."""
    axes, dims = rope.axes.num_axes, len(ids)
    batch, seq = token_axes(x, layout)
    allowed = dims == 3 and ids[0] == axes
    if 1 <= dims <= 2:
        allowed = axes == 1 or rope.axes.kind == "sections"
    if not allowed:
        expected = "[seq] or [batch, seq]" if axes == 1 else f"[axes={axes}, batch, seq]"
        raise RopewalkError(f"position_ids must be {expected} for this rope, got shape {list(ids)}.")
    if ids[-1] != seq or (dims > 1 and ids[-2] not in (1, batch)):
        rows = f" or [batch={batch}, seq={seq}]" if len(x) > 3 else ""
        raise RopewalkError(
            f"position_ids {list(ids)} do not fit x {list(x)}: expected [seq={seq}]{rows}"
            f"{', with a leading axis for a rope with several axes' if axes > 1 else ''} (layout {layout!r})."
        )


def check_position_values(ids: NDArray[Any]) -> None:
    """Raise for integers beyond 2^53 and for floats that are not finite."""
    if ids.dtype.kind in "iu":
        if ids.size and (ids.max() > MAX_POSITION or ids.min() < -MAX_POSITION):
            raise _too_far(ids.min().item(), ids.max().item())
        return
    with np.errstate(over="ignore"):
        as_double = ids.astype(np.float64)
    if not np.isfinite(as_double).all():
        raise RopewalkError(f"position_ids must be finite, got {shown(as_double[~np.isfinite(as_double)][0].item())}.")


def positions_by_axis(rope: Rope, position_ids: ArrayLike) -> NDArray[np.float64]:
    """Give positions as [A, ..., S] float64."""
    ids = position_array(position_ids).astype(np.float64)
    axes = rope.axes.num_axes
    if axes == 1 and 1 <= ids.ndim <= 2:
        return ids[None]
    if ids.ndim == 3 and ids.shape[0] == axes:
        return ids
    if axes > 1 and 1 <= ids.ndim <= 2 and rope.axes.kind == "sections":
        return np.broadcast_to(ids, (axes, *ids.shape))  # text tokens: one position on every axis
    expected = "[seq] or [batch, seq]" if axes == 1 else f"[axes={axes}, batch, seq]"
    raise RopewalkError(f"position_ids must be {expected} for this rope, got shape {list(ids.shape)}.")


def by_row(ids: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Give positions [A, S] or [A, B, S] as [A, count, S]."""
    rows = ids if ids.ndim == 3 else ids[:, None]
    if rows.shape[1] not in (1, count):
        raise RopewalkError(f"length must be one int or one a row, got {count} for {rows.shape[1]} rows.")
    return np.broadcast_to(rows, (rows.shape[0], count, rows.shape[2]))


def lengths_of(rope: Rope, length: Length) -> int | list[int] | None:
    """Check length: None, one whole number, or a list of one for each row."""
    if length is None:
        if rope.length_dependent:
            raise RopewalkError(
                f"{rope.scaling.rope_type} scaling depends on the length of the sequence: pass length=, the number of "
                "tokens (one int, or one a row)."
            )
        return None
    if isinstance(length, int) and not isinstance(length, bool):
        return whole("length", length)
    given = numbers("length", length)
    if given.ndim > 1 or given.size == 0:
        raise RopewalkError(f"length must be one whole number or a list of one a row, got {shown(length)}.")
    if given.ndim == 0:
        return whole("length", given.item())
    return [whole("length", entry) for entry in given.tolist()]


def check_rows(lengths: Sequence[int], x: Sequence[int]) -> None:
    """Raise unless there is one length for each row of x."""
    if len(x) < 4 or x[-4] != len(lengths):
        raise RopewalkError(f"length must be one int or one a row of x, got {len(lengths)} lengths for x {list(x)}.")


def check_out_pair(out: object) -> tuple[Any, Any]:
    """Give out as (for q, for k), or raise."""
    if out is None:
        return None, None
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise RopewalkError(f"out must be a pair, one for q and one for k, got {shown(out)}.")
    return out[0], out[1]
