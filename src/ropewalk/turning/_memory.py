"""Whether what is written to shares memory with what is read: turning in place twice, or in part, is a silent fault."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import RopewalkError


class Block(NamedTuple):
    """Where an array lies: its address, shape, and strides and item size in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """What NumPy asks for to see this memory as an array; nobody reads or writes it."""
        kind = f"|V{self.itemsize}"
        return {
            "version": 3,
            "shape": self.shape,
            "strides": self.strides,
            "typestr": kind,
            "data": (self.address, True),
        }


def check_outs(given: Sequence[tuple[str, Block, Block | None]]) -> None:
    """Raise unless every out is its own input or apart from all inputs and outs, each of its elements in one place.

    Args:
        given: for each array its name, where it lies, and where its out lies, if there is one.

    Raises:
        RopewalkError: naming the two that share memory.
    """
    outs = [(name, out) for name, _, out in given if out is not None]
    for name, out in outs:
        if _repeats(out):
            raise RopewalkError(
                f"out for {name} has elements that share memory (an expanded view?), so that one would be written more "
                "than once. Give a contiguous copy."
            )
        for other, x, _ in given:
            if not (other == name and _is_same(x, out)) and _share(x, out):
                what = f"out overlaps {name} in part" if other == name else f"out for {name} overlaps {other}"
                raise RopewalkError(
                    f"{what}: an out must be its own input (turned in place) or share no memory with any. Give another "
                    "out."
                )
    if len(outs) == 2 and _share(outs[0][1], outs[1][1]):
        raise RopewalkError("the outs for q and k overlap: one would overwrite the other. Give two of their own.")


def _is_same(x: Block, out: Block) -> bool:
    """Whether out is x itself; strides along a dimension of one entry do not matter."""
    strides = [(a, b) for a, b, size in zip(x.strides, out.strides, x.shape, strict=True) if size > 1]
    return x.address == out.address and all(a == b for a, b in strides)


def _share(one: Block, other: Block) -> bool:
    if 0 in one.shape or 0 in other.shape:
        return False
    return bool(np.shares_memory(_seen(one), _seen(other)))


def _seen(block: Block) -> NDArray[Any]:
    return np.asarray(block)


def _repeats(block: Block) -> bool:
    """Whether two elements lie on one another."""
    moving = sorted((abs(s), n) for s, n in zip(block.strides, block.shape, strict=True) if n > 1)
    if 0 in block.shape:
        return False
    reach = block.itemsize - 1
    for stride, size in moving:
        if stride <= reach:
            break
        reach += stride * (size - 1)
    else:
        return False
    if moving[0][0] == 0:
        return True
    places = np.zeros(1, dtype=np.int64)  # strides that cross: look at every element
    for stride, size in moving:
        places = (places[:, None] + stride * np.arange(size)).ravel()
    places.sort()
    return bool((np.diff(places) < block.itemsize).any())
