"""What an answer must be: an array like x, of finite numbers; what else comes back is a failure with its words."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._libraries import NumpyLibrary

KINDS = ("raised", "hang", "shape", "type", "device", "not-finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One call that gave nothing to measure.

    Attributes:
        kind: "raised", "hang", "shape", "type", "device" or "not-finite".
        message: what happened, in words.
        where: the call: shape of x, positions.
    """

    kind: str
    message: str
    where: str


class BoxFailure(Exception):
    """A call to the function under test failed; failure says how."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind}: {failure.message} ({failure.where})")
        self.failure = failure


def expect_like(library: NumpyLibrary, out: Any, given: Any, where: str) -> None:
    """Insist on an array of the library, of floating numbers, of the shape and on the device of what was given.

    Raises:
        BoxFailure: "type", "shape" or "device".
    """
    if not library.takes(out):
        got = f"{type(out).__module__}.{type(out).__name__}"
        raise BoxFailure(Failure(kind="type", message=f"gave a {got} for a {library.name} array", where=where))
    if strange := library.strange(out):
        words = f"gave {strange} for {library.dtype_of(given)} numbers"
        raise BoxFailure(Failure(kind="type", message=words, where=where))
    if tuple(out.shape) != tuple(given.shape):
        words = f"gave the shape {list(out.shape)} for {list(given.shape)}"
        raise BoxFailure(Failure(kind="shape", message=words, where=where))
    if library.device_of(out) != library.device_of(given):
        words = f"gave a result on {library.device_of(out)} for x on {library.device_of(given)}"
        raise BoxFailure(Failure(kind="device", message=words, where=where))


def expect_finite(numbers: NDArray[np.float64], where: str) -> None:
    """Insist on finite numbers.

    Raises:
        BoxFailure: "not-finite".
    """
    if not np.isfinite(numbers).all():
        count = int(np.size(numbers) - np.isfinite(numbers).sum())
        words = f"{count} of {np.size(numbers)} numbers are NaN or infinite"
        raise BoxFailure(Failure(kind="not-finite", message=words, where=where))


def differing(ask: Callable[[], NDArray[np.float64]], times: int, resolution: float) -> tuple[str, float] | None:
    """Say by how much equal calls differ: ("state", gap) where a counter moves on evenly, ("random", gap) where not."""
    outs = [ask() for _ in range(times)]
    scale = max(float(np.abs(outs[0]).max()), 1e-30)
    gap = max(float(np.abs(outs[0] - out).max()) for out in outs)
    if gap <= 16 * resolution * scale:
        return None
    outs += [ask() for _ in range(3)]
    steps = np.array([np.sum(one * other) for one, other in pairwise(outs)])
    even = np.ptp(steps) <= 1e-3 * np.abs(steps).max()
    return ("state" if even else "random"), gap


def where_of(x: NDArray[Any], ids: NDArray[Any]) -> str:
    """Give the words for a call: the shapes of x and of the positions, and the positions' span."""
    few = np.unique(ids)
    span = f"{few[0]:g}" if few.size == 1 else f"{few[0]:g} to {few[-1]:g}"
    return f"x {list(x.shape)} as [B, S, H, D], positions {list(ids.shape)} from {span}"
