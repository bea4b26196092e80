"""Modules of transformers that place their tokens themselves, asked for positions of our choice all the same.

What is put in place of the module's own is only where the tokens stand, never the angles: the coordinates of the
patches, or the cells that are read out of the table of a whole grid.
"""

import math
import sys
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from ..errors import RopewalkError

_SIDE = 64  # rows and columns of a grid whose size is free


class Placed:
    """A module that makes its own positions, called as rotary(x, position_ids), position_ids [tokens, 2].

    Attributes:
        module: the module.
        counts_from: the position of what is asked for as 0.
        note: how the positions come in.
    """

    counts_from = 0
    note = ""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.file = module, sys.modules[type(module).__module__]

    def named_buffers(self) -> Any:
        """Give those of the module, so that it is taken for one."""
        return self.module.named_buffers()

    def __call__(self, x: Tensor, position_ids: Tensor) -> Any:
        """Give the tables of these positions, one row each."""
        if position_ids.ndim != 2:
            raise RopewalkError(f"positions must be [tokens, 2], got {list(position_ids.shape)}.")
        return self.tables(x, position_ids)

    def tables(self, x: Tensor, places: Tensor) -> Any:
        """Give the tables of positions [tokens, 2]."""
        raise NotImplementedError


class PatchCentres(Placed):
    """DINOv3 and its kin: the centres of the patches, from -1 to 1; a position is 2π times one."""

    note = (
        "positions stand for 2π times the coordinates of a patch, which are put in for get_patches_center_coordinates"
    )

    def tables(self, x: Tensor, places: Tensor) -> Any:
        """Give the tables of positions [tokens, 2]."""
        centres = places.double() / (2 * math.pi)  # in float64: this division is not the module's
        with _replaced(self.file, "get_patches_center_coordinates", lambda *args, **kwargs: centres):
            return self.module(x.new_zeros(1, 3, 64, 64))


class FeatureCells(Placed):
    """EfficientLoFTR: the cells of a grid of features, counted from 1, as large as they need to be."""

    counts_from = 1
    note = "positions are rows and columns of a grid of features, which counts from 1"

    def tables(self, x: Tensor, places: Tensor) -> Any:
        """Give the tables of positions [tokens, 2]."""
        side = _side_of(places, _SIDE)
        config: Any = self.module.config
        size = (side - 1) * config.q_aggregation_stride + config.q_aggregation_kernel_size
        cos, sin = self.module(x.new_zeros(1, 1, size, size))
        return cos[0, places[:, 0], places[:, 1]], sin[0, places[:, 0], places[:, 1]]


class ImageCells(Placed):
    """Llama 4's vision tower: one complex table of a square image, counted from 1, x first."""

    counts_from = 1
    note = "positions are columns and rows of the square image of the configuration, which counts from 1"

    def tables(self, x: Tensor, places: Tensor) -> Any:
        """Give the table of positions [tokens, 2]."""
        table = self.module(x)
        side = math.isqrt(len(table) - 1)  # the last row is the class token's
        _side_of(places, side)
        return table[places[:, 1] * side + places[:, 0], 0]


def placed(module: nn.Module) -> Placed | None:
    """Give a module that makes its positions itself as one that can be asked, or None where it cannot."""
    file = sys.modules[type(module).__module__]
    if hasattr(file, "get_patches_center_coordinates"):
        return PatchCentres(module)
    if hasattr(file, "compute_embeddings") and hasattr(getattr(module, "config", None), "q_aggregation_stride"):
        return FeatureCells(module)
    return ImageCells(module) if hasattr(module, "freqs_ci") else None


def turning_attention(owner: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Give the turn of an attention that has no rotary module, V-JEPA 2's: fn(x, position_ids [A, B, S])."""
    turn = type(owner).apply_rotary_embeddings  # type: ignore[attr-defined]
    # the widths are all that it needs; its weights stay where they are
    widths = SimpleNamespace(**{name: value for name, value in vars(owner).items() if isinstance(value, int)})

    def fn(x: Tensor, position_ids: Tensor) -> Tensor:
        return turn(widths, x.transpose(1, 2), tuple(row[:, None] for row in position_ids)).transpose(1, 2)

    return fn


def _side_of(places: Tensor, most: int) -> int:
    low, high = int(places.min()), int(places.max())
    if low < 0 or high >= most:
        raise RopewalkError(f"the grid has positions 0 to {most - 1} here, got {low if low < 0 else high}.")
    return high + 1


@contextmanager
def _replaced(file: Any, name: str, function: Any) -> Any:
    before = getattr(file, name)
    setattr(file, name, function)
    try:
        yield
    finally:
        setattr(file, name, before)
