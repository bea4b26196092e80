"""The compiled kernel: loaded where it is there, with one OpenMP runtime shared with torch, and never needed."""

import ctypes
import os
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ..pairs import Pairs
from ..rope import Rope
from .tables import column_axes, speeds, split_tables

DTYPES = {"float32": 0, "float64": 1, "bfloat16": 2, "float16": 3}
POSITION_DTYPES = {"int64": 1, "int32": 2, "float64": 3, "float32": 4}
OK, MISFIT, BAD_POSITION = range(3)  # what the kernel answers
CHECKED, NEW, IN_PLACE = range(3)  # what it is told of the memory it writes to


def _load() -> tuple[ModuleType | None, str]:
    """Give the extension and why it is there or not, in words for `ropewalk doctor`."""
    if os.environ.get("ROPEWALK_NO_KERNEL") == "1":
        return None, "switched off by ROPEWALK_NO_KERNEL=1; NumPy and torch operations do the work"
    _share_openmp()
    try:
        from . import _kernel  # pyright: ignore[reportMissingModuleSource]
    except ImportError as error:
        missing = getattr(error, "name", None) == f"{__package__}._kernel" or "_kernel" in str(error)
        why = "it was not built (no compiler when ropewalk was installed?)" if missing else f"it does not load: {error}"
        return None, f"{why}; NumPy and torch operations do the work"
    threads = "OpenMP" if _kernel.openmp else "one thread, built without OpenMP"
    return _kernel, f"compiled, {_kernel.active_variant()}, {threads}"


def _share_openmp() -> None:
    """Load the OpenMP runtime that a torch wheel carries before our own would be: two pools of threads fight."""
    if sys.platform != "linux" or "torch" in sys.modules:
        return
    try:
        found = find_spec("torch")
        folder = Path(found.origin).parent / "lib" if found and found.origin else None
        if folder and (carried := folder / "libgomp.so.1").is_file():
            ctypes.CDLL(str(carried), mode=ctypes.RTLD_GLOBAL)
    except (OSError, ValueError, ImportError):
        pass  # then the system's own is used


module, why = _load()


def plan_of(rope: Rope, pairs: Pairs) -> Any:
    """Give the kernel's own form of a pair table of rope.

    Dynamic NTK has another table at each length, so that cos and sin are worked out angle by angle; all others share
    their two small tables.
    """
    return _plan(pairs, rope.head_dim, rope.axes.num_axes, rope.scaling.rope_type != "dynamic")


@lru_cache(maxsize=32)
def _plan(pairs: Pairs, head_dim: int, axes: int, tabled: bool) -> Any:
    assert module is not None
    plan = module.Plan(head_dim, axes, pairs.first, pairs.second, column_axes(pairs), speeds(pairs))
    if tabled:
        tables = split_tables(pairs)
        plan.set_tables(*tables.fine, *tables.coarse)
    return plan


def can_turn(pairs: Pairs, inverse: bool) -> bool:
    """Whether the kernel is there and says this map: all but the inverse of a map that is no rotation."""
    return module is not None and (pairs.is_rotation or not inverse)


def turn(
    tensors: tuple[Any, ...],
    positions: tuple[Any, ...] | None,
    rope: Rope,
    pairs: Pairs,
    dtype: int,
    *,
    heads_first: bool,
    transpose: bool,
    inverse: bool,
    fresh: bool,
) -> int:
    """Turn one or two tensors of the same tokens.

    Args:
        tensors: for each (address, address of the result, shape, strides, strides of the result), strides in elements.
        positions: (address, type, shape, strides), or None for 0 … seq - 1.
        rope: the description.
        pairs: its pairs at this length.
        dtype: a value of DTYPES.
        heads_first: whether heads stand before seq.
        transpose: apply the transposed map.
        inverse: apply the inverse map.
        fresh: the results are new, contiguous memory.

    Returns:
        OK, MISFIT or BAD_POSITION; nothing was written unless it is OK.
    """
    assert module is not None
    plan = plan_of(rope, pairs)
    g = pairs.cos_sin_factor
    scale, transposed = (1 / g if inverse else g), transpose != inverse
    for_all = rope.axes.kind == "sections"
    return module.turn(
        plan, tensors, positions, dtype, heads_first, for_all, scale, transposed, NEW if fresh else CHECKED
    )
