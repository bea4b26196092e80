"""Rounding to narrow number formats, for exhibits that compute in them: NumPy has no bfloat16 and no TF32."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _cut(values: ArrayLike, bits: int) -> NDArray[np.float32]:
    """Round float32 to nearest even, its lowest bits dropped."""
    raw = np.asarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    odd = (raw >> bits) & 1
    rounded = (raw + (1 << (bits - 1)) - 1 + odd) >> bits << bits
    return rounded.astype(np.uint32).view(np.float32)


def bfloat16(values: ArrayLike) -> NDArray[np.float32]:
    """Give the values as bfloat16 holds them (8 significant bits), in float32.

    >>> bfloat16([20011.0, 1.0]).tolist()
    [19968.0, 1.0]
    """
    return _cut(values, 16)


def tf32(values: ArrayLike) -> NDArray[np.float32]:
    """Give the values as a TF32 matmul reads them (11 significant bits), in float32.

    >>> tf32([10007.0]).tolist()
    [10008.0]
    """
    return _cut(values, 13)


def float16(values: Any) -> NDArray[np.float16]:
    """Give the values as float16, past 65504 as infinity, in silence as on an accelerator."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16)
