"""The conditions under which torch modules lose their frequencies, each on a copy."""

import copy
import dataclasses
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .box import Box

HALF = ("bfloat16", "float16")


def under_conditions(box: Box) -> Iterator[tuple[str, Sequence[Box]]]:
    """Give the boxes to measure under each condition: the first that answers counts."""
    import torch

    kind = torch.device(box.device or "cpu").type
    yield "autocast", [box.with_(fn=_autocast(box.fn, kind), device=box.device)]
    for dtype in HALF:
        if dtype != box.dtype:
            yield f"{dtype} input", [box.with_(dtype=dtype)]
    yield "default dtype", [box.with_(fn=_default_dtype(box.fn), device=box.device)]
    if box.module is None:
        return
    changes: dict[str, Callable[[Any], Any]] = {
        "to(bfloat16)": lambda module: module.to(torch.bfloat16),
        "half()": lambda module: module.half(),
        "meta": _emptied,
    }
    for name, change in changes.items():
        fn = _changed(box, change)
        if fn is not None:
            dtypes = [box.dtype, {"to(bfloat16)": "bfloat16", "half()": "float16"}.get(name, box.dtype)]
            yield name, [box.with_(fn=fn, dtype=dtype, device=box.device) for dtype in dict.fromkeys(dtypes)]


def _autocast(fn: Any, kind: str) -> Callable[[Any, Any], Any]:
    def inside(x: Any, ids: Any) -> Any:
        import torch

        with torch.autocast(kind, dtype=torch.bfloat16):
            return fn(x, ids)

    return inside


def _default_dtype(fn: Any) -> Callable[[Any, Any], Any]:
    def inside(x: Any, ids: Any) -> Any:
        import torch

        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            return fn(x, ids)
        finally:
            torch.set_default_dtype(before)

    return inside


def _emptied(module: Any) -> Any:
    """Take a module through the meta device: what it does not rebuild is not a number afterwards."""
    import torch

    home = next((t.device for t in (*module.parameters(), *module.buffers())), torch.device("cpu"))
    module = module.to("meta").to_empty(device=home)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.fill_(float("nan"))
    for part in module.modules():
        if callable(getattr(part, "reset_parameters", None)):
            part.reset_parameters()
    return module


def _changed(box: Box, change: Callable[[Any], Any]) -> Any:
    """Give the box's function with a changed copy of its module, or None where it cannot be copied."""
    try:
        module = change(copy.deepcopy(box.module))
        return rebound(box.fn, box.module, module)
    except Exception:
        return None


def rebound(fn: Any, old: Any, new: Any, depth: int = 0) -> Any:
    """Give fn with the module it is, is bound to, or encloses exchanged for another; fn itself where it has none.

    >>> def outer(value):
    ...     return lambda: value
    >>> rebound(outer(fn := [1]), fn, [2])()
    [2]
    """
    if fn is old:
        return new
    if depth > 4:
        return fn
    if isinstance(fn, types.MethodType):
        owner = rebound(fn.__self__, old, new, depth + 1)
        return fn if owner is fn.__self__ else types.MethodType(fn.__func__, owner)
    if isinstance(fn, functools.partial):
        parts = [rebound(part, old, new, depth + 1) for part in (fn.func, *fn.args)]
        named = {key: rebound(value, old, new, depth + 1) for key, value in fn.keywords.items()}
        return functools.partial(*parts, **named)
    if isinstance(fn, types.FunctionType):
        cells = [_cell(cell, old, new, depth) for cell in fn.__closure__ or ()]
        if cells == list(fn.__closure__ or ()):
            return fn
        twin = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells))
        twin.__kwdefaults__ = fn.__kwdefaults__
        return twin
    names = _names(fn)
    changed = {name: rebound(getattr(fn, name), old, new, depth + 1) for name in names}
    if all(changed[name] is getattr(fn, name) for name in names):
        return fn
    twin = copy.copy(fn)
    for name, value in changed.items():
        object.__setattr__(twin, name, value)
    return twin


def _names(value: Any) -> list[str]:
    """Give the attributes in which an object may keep a module: a callable's, or a dataclass's, slots or not."""
    if isinstance(value, type):
        return []
    if dataclasses.is_dataclass(value):
        return [one.name for one in dataclasses.fields(value)]
    return list(vars(value)) if hasattr(value, "__dict__") and callable(value) else []


def _cell(cell: Any, old: Any, new: Any, depth: int) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:  # a cell not filled yet
        return cell
    other = rebound(value, old, new, depth + 1)
    return cell if other is value else types.CellType(other)
