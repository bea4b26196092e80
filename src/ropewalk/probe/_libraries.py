"""The three array libraries that a box may speak: numbers in, numbers out, by dtype name."""

import functools
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RopewalkError

# unit roundoff: half the distance from 1 to the next number
RESOLUTIONS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


class NumpyLibrary:
    """Arrays of NumPy; bfloat16 needs ml_dtypes."""

    name = "numpy"

    def give(self, values: NDArray[Any], dtype: str | None, device: Any) -> Any:
        """Give a fresh array of that dtype; None keeps the values' own."""
        copy = np.array(values, order="C")
        return copy if dtype is None else copy.astype(_numpy_dtype(dtype))

    def takes(self, value: Any) -> bool:
        """Whether value is an array of this library."""
        return isinstance(value, np.ndarray)

    def strange(self, value: Any) -> str:
        """Say in words what keeps an array of this library from being plain floating numbers; "" where nothing does."""
        name = self.dtype_of(value)
        return "" if name in RESOLUTIONS or name.startswith("float") else f"{name} numbers"

    def read(self, value: Any) -> NDArray[np.float64]:
        """Give the numbers of an array as float64."""
        return np.array(value, dtype=np.float64)

    def dtype_of(self, value: Any) -> str:
        """Give the name of an array's dtype."""
        return value.dtype.name

    def device_of(self, value: Any) -> str:
        """Give the name of the device that an array is on."""
        return "cpu"

    def run(self, fn: Callable[[Any, Any], Any], x: Any, ids: Any) -> Any:
        """Call fn; what overflows is seen in the answer."""
        with np.errstate(all="ignore"):
            return fn(x, ids)


class TorchLibrary(NumpyLibrary):
    """Tensors of torch."""

    name = "torch"

    def give(self, values: NDArray[Any], dtype: str | None, device: Any) -> Any:
        """Give a fresh tensor of that dtype on that device; None keeps the values' own dtype."""
        import torch

        tensor = torch.from_numpy(np.array(values, order="C"))
        return tensor.to(device=device or "cpu", dtype=getattr(torch, dtype) if dtype else None)

    def takes(self, value: Any) -> bool:
        """Whether value is an array of this library."""
        import torch

        return isinstance(value, torch.Tensor)

    def strange(self, value: Any) -> str:
        """Say in words what keeps a tensor from being plain floating numbers; "" where nothing does."""
        import torch

        if value.is_nested or value.layout != torch.strided:
            return f"a {'nested' if value.is_nested else str(value.layout).removeprefix('torch.')} tensor"
        return super().strange(value)

    def read(self, value: Any) -> NDArray[np.float64]:
        """Give the numbers of a tensor as float64."""
        import torch

        return value.detach().to(device="cpu").to(torch.float64).numpy().copy()

    def dtype_of(self, value: Any) -> str:
        """Give the name of a tensor's dtype."""
        return str(value.dtype).removeprefix("torch.")

    def device_of(self, value: Any) -> str:
        """Give the name of the device that a tensor is on."""
        return str(value.device)

    def run(self, fn: Callable[[Any, Any], Any], x: Any, ids: Any) -> Any:
        """Call fn without recording gradients."""
        import torch

        with torch.no_grad():
            return fn(x, ids)


class JaxLibrary(NumpyLibrary):
    """Arrays of JAX."""

    name = "jax"

    def give(self, values: NDArray[Any], dtype: str | None, device: Any) -> Any:
        """Give a fresh array; where 64 bits are off, whole numbers become int32 and floats float32."""
        import jax
        import jax.numpy as jnp

        narrow = {"int64": "int32", "float64": "float32"} if not jax.config.jax_enable_x64 else {}  # type: ignore[attr-defined]
        name = dtype or values.dtype.name
        return jnp.asarray(values, dtype=narrow.get(name, name))

    def takes(self, value: Any) -> bool:
        """Whether value is an array of this library."""
        import jax

        return isinstance(value, jax.Array)


LIBRARIES: dict[str, NumpyLibrary] = {lib.name: lib for lib in (NumpyLibrary(), TorchLibrary(), JaxLibrary())}


def libraries_for(fn: object) -> tuple[str, ...]:
    """Give the libraries that fn may take, the likeliest first; only those already imported, and NumPy."""
    loaded = [name for name in ("numpy", "torch", "jax") if name == "numpy" or name in sys.modules]
    if module_of(fn) is not None:
        return ("torch",)
    names = {name for code in _codes(fn) for name in code.co_names}
    hints = [("torch", {"torch"}), ("jax", {"jax", "jnp", "lax"}), ("numpy", {"np", "numpy"})]
    ordered = [name for name, words in hints if words & names and name in loaded]
    return tuple(dict.fromkeys([*ordered, *loaded]))


def module_of(fn: object) -> Any:
    """Give the torch.nn.Module behind fn, or None: fn itself, what it is bound to, or what it encloses."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return None
    return next((part for part in _parts(fn) if isinstance(part, torch.nn.Module)), None)


def _parts(fn: object, depth: int = 0) -> Iterator[object]:
    yield fn
    if depth > 3:
        return
    inner: list[object] = [getattr(fn, "__self__", None), getattr(fn, "__wrapped__", None)]
    if isinstance(fn, functools.partial):
        inner += [fn.func, *fn.args, *fn.keywords.values()]
    for cell in getattr(fn, "__closure__", None) or ():
        try:
            inner.append(cell.cell_contents)
        except ValueError:  # a cell not filled yet
            continue
    if not callable(getattr(fn, "__code__", None)) and hasattr(fn, "__dict__") and not isinstance(fn, type):
        inner += list(vars(fn).values())
    for part in inner:
        if part is not None and callable(part) and not isinstance(part, type):
            yield from _parts(part, depth + 1)


def _codes(fn: object) -> Iterator[Any]:
    for part in _parts(fn):
        for function in (part, vars(type(part)).get("__call__"), getattr(type(part), "forward", None)):
            code = getattr(function, "__code__", None)
            if code is not None:
                yield from _nested(code)


def _nested(code: Any) -> Iterator[Any]:
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _nested(constant)


def _numpy_dtype(name: str) -> Any:
    if name != "bfloat16":
        return np.dtype(name)
    try:
        return np.dtype(import_module("ml_dtypes").bfloat16)
    except ImportError as error:
        raise RopewalkError("bfloat16 in NumPy needs the package ml_dtypes: pip install ml_dtypes.") from error
