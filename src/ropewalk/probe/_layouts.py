"""How x, positions and tables are laid out for a foreign function, and what it gives back laid out again."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import RopewalkError


def plain(array: Any) -> np.ndarray:
    """Give any array's numbers as float64."""
    if hasattr(array, "detach"):
        array = array.detach().cpu().double().numpy()
    return np.asarray(array, dtype=np.float64)


def laid(x: Any, layout: str) -> Any:
    """Lay x [B, S, H, D] out as the function takes it."""
    if layout == "bhsd":
        return x.swapaxes(1, 2)
    return x.reshape(-1, *x.shape[2:]) if layout == "thd" else x


def unlaid(x: Any, like: Any, layout: str) -> Any:
    """Lay a result out as x is, [B, S, H, D]; what has another rank is left for the caller to see."""
    if layout == "bhsd" and getattr(x, "ndim", 0) == 4:
        return x.swapaxes(1, 2)
    if layout == "thd" and getattr(x, "ndim", 0) == 3 and x.shape[0] == like.shape[0] * like.shape[1]:
        return x.reshape(*like.shape[:2], *x.shape[1:])
    return x


def packed(given: Any, shape: Sequence[int]) -> Any:
    """Lay what goes with [B, S] out along the tokens; what has no batch goes with every row."""
    batch, length = shape[0], shape[1]
    if given.ndim >= 2 and given.shape[0] in (1, batch) and given.shape[1] == length:
        rows = given if given.shape[0] == batch else _again(given, batch)
        return rows.reshape(batch * length, *given.shape[2:])
    if given.ndim == 3 and given.shape[2] == length:  # positions [A, B, S]
        rows = given if given.shape[1] == batch else given.swapaxes(0, 1)[[0] * batch].swapaxes(0, 1)
        return rows.reshape(given.shape[0], batch * length)
    return _again(given[None], batch).reshape(batch * length, *given.shape[1:])


def _again(given: Any, batch: int) -> Any:
    return given[[0] * batch]


def copied(x: Any) -> Any:
    """Give a copy, so that what is done to the keys is not done to the queries."""
    return x.clone() if hasattr(x, "clone") else x.copy() if isinstance(x, np.ndarray) else x


def rows_of(table: Any, position_ids: Any) -> Any:
    """Give the rows of these positions; the table goes to the device and kind of array the positions have."""
    if hasattr(position_ids, "detach") and not hasattr(table, "detach"):
        import torch as library

        table = library.as_tensor(np.asarray(table))
    elif hasattr(position_ids, "detach"):
        table = table.to(position_ids.device)
    elif isinstance(position_ids, np.ndarray):
        table = np.asarray(table)
    return table[position_ids]


def positions_of(values: ArrayLike) -> NDArray[Any]:
    """Give position ids as int64 or float64.

    Raises:
        RopewalkError: for other than numbers [S], [B, S] or [A, B, S].
    """
    ids = np.asarray(values)
    if ids.dtype.kind not in "iuf" or ids.ndim not in (1, 2, 3):
        raise RopewalkError(
            f"position_ids must be numbers [S], [B, S] or [A, B, S], got {ids.dtype} {list(ids.shape)}."
        )
    return ids.astype(np.int64) if ids.dtype.kind in "iu" else ids.astype(np.float64)


def widened(ids: NDArray[Any], axes: int, batch: int, tokens: int) -> NDArray[Any]:
    """Give ids for every row, and for every axis where there are several."""
    return np.array(np.broadcast_to(ids, (axes, batch, tokens) if axes > 1 else (batch, tokens)))
