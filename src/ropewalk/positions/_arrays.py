"""What positions need of arrays: NumPy or torch in, the same out; torch is used when a tensor came, never imported."""

import sys
from typing import Any

import numpy as np

from .._checks import MAX_POSITION, shown, whole
from ..errors import RopewalkError

Array = Any  # a NumPy array (or what np.asarray takes), or a torch tensor


def library(*values: Array) -> Any:
    """Give torch when one of values is a tensor, else NumPy."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return torch if tensor is not None and any(isinstance(value, tensor) for value in values) else np


def readable(*arrays: Array) -> bool:
    """Whether Python may look at the numbers: not while torch traces, and not where it would wait for a device."""
    torch = library(*arrays)
    if torch is np:
        return True
    if torch.compiler.is_compiling():
        return False
    return all(type(one) in (torch.Tensor, torch.nn.Parameter) and one.device.type == "cpu" for one in arrays)


def integers(name: str, value: Array, shape: str, *, like: Array = None, flags: bool = False) -> Array:
    """Give value as int64, of the kind and on the device of like.

    Args:
        name: for the error.
        value: what was given.
        shape: the shape in words, such as ``"[batch, seq]"``; as many axes are expected as it has words.
        like: an array that decides kind and device; None: value itself.
        flags: whether booleans are taken too.
    """
    array = _array(name, value, like)
    if not _is_whole(array, flags) or array.ndim != shape.count(",") + 1:
        raise RopewalkError(f"{name} must be whole numbers of shape {shape}, got {described(array)}.")
    return array.astype(np.int64) if library(array) is np else array.to(library(array).int64).contiguous()


def positions(name: str, value: Array, like: Array) -> Array:
    """Give positions as int64, or as float64 where they are real numbers, of the kind and on the device of like."""
    array = _array(name, value, like)
    xp = library(array)
    if _is_whole(array):
        return array.astype(np.int64) if xp is np else array.to(xp.int64)
    if xp is np:
        if array.dtype.kind != "f":
            raise RopewalkError(f"{name} must be integers or floats, got {described(array)}.")
        return array.astype(np.float64)
    if not array.is_floating_point():
        raise RopewalkError(f"{name} must be integers or floats, got {described(array)}.")
    return array.to(xp.float32 if array.device.type == "mps" else xp.float64)  # MPS has no float64


def size(name: str, value: Any) -> Any:
    """Give a number of rows as an int, or as torch's stand-in for one while it traces."""
    return value if type(value).__name__ == "SymInt" else whole(name, value)


def arange(stop: int, like: Array) -> Array:
    """Give 0 … stop - 1 as int64, of the kind and on the device of like."""
    xp = library(like)
    return np.arange(stop, dtype=np.int64) if xp is np else xp.arange(stop, dtype=xp.int64, device=like.device)


def as_like(array: np.ndarray, like: Array) -> Array:
    """Give a NumPy array as what like is."""
    torch = library(like)
    if torch is np:
        return array
    tensor = torch.from_numpy(array)
    if tensor.is_floating_point() and like.device.type == "mps":
        tensor = tensor.float()
    return tensor.to(like.device)


def described(array: Array) -> str:
    """Say dtype and shape, for an error."""
    return f"{array.dtype} of shape {list(array.shape)}"


def _array(name: str, value: Array, like: Array) -> Array:
    xp = library(value, like)
    try:
        if xp is np:
            return np.asarray(value)
        tensor = xp.as_tensor(value)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise RopewalkError(f"{name} must be an array of numbers, got {shown(value)}.") from error
    return tensor if library(like) is np else tensor.to(like.device)


def _is_whole(array: Array, flags: bool = False) -> bool:
    torch = library(array)
    if torch is not np:
        flag = array.dtype == torch.bool
        return flags if flag else not (array.is_floating_point() or array.is_complex())
    if array.size == 0 and array.ndim == 1:
        return True  # an empty list is float64 to NumPy
    if array.dtype.kind == "u" and array.max(initial=0) > MAX_POSITION:
        raise RopewalkError(f"positions must lie within ±2^53 = {MAX_POSITION}, got {array.max()}.")
    return array.dtype.kind in ("biu" if flags else "iu")
