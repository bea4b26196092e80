"""How a function is asked: position ids in a shape that it takes, and its answer in the order of the table of pairs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pairs
from .box import Box

Floats = NDArray[np.float64]


class Caller:
    """Asks a box by ids [A, B, S], and puts its answers into the order of the table of pairs.

    Attributes:
        box: what is asked.
        heads: how many heads it is given.
        batch: how many rows it is given.
        axes: how many rows of positions drive it.
    """

    def __init__(self, box: Box, output_order: Sequence[int] | None = None) -> None:
        self.box = box
        self.heads, self.batch, self.axes = box.heads, box.batch, box.axes
        self._order = None if output_order is None else np.asarray(output_order)

    @property
    def per_row(self) -> bool:
        """Whether rows may have positions of their own."""
        return self.batch > 1 and self.box.takes_rows

    def turn(self, x: Floats, ids: NDArray) -> Floats:
        """Give fn(x, ids) for x [B, S, H, D] and ids [A, B, S], its channels in the order of the table.

        Raises:
            BoxFailure: as the box does.
        """
        return self.ordered(self.box.turn(x, self.shape(ids)))

    def shape(self, ids: NDArray) -> NDArray:
        """Give ids [A, B, S] in the shape that the box takes."""
        return ids if self.axes > 1 else ids[0]

    def ordered(self, out: Floats) -> Floats:
        """Undo the order of the output's channels, where it has one of its own."""
        if self._order is None:
            return out
        result = np.empty_like(out)
        result[..., self._order] = out
        return result

    def given_order(self, grad: Floats) -> Floats:
        """Put a gradient of the output into the order of the function's own output."""
        return grad if self._order is None else grad[..., self._order]


def vectors(shape: Sequence[int], seed: int = 5) -> Floats:
    """Give vectors of eighths between 0.5 and 1 in size, of either sign: exact in every dtype, none hidden by a 0."""
    rng = np.random.default_rng(seed)
    return rng.integers(4, 9, shape) / 8 * rng.choice([-1.0, 1.0], shape)


def turned(x: Floats, pairs: Pairs, positions: Floats) -> Floats:
    """Turn x [B, S, H, D] in float64, each head of each token by a position of its own: positions [A, B, S, H]."""
    angle = np.moveaxis(positions[pairs.axis % len(positions)], 0, -1) * pairs.inv_freq
    second = angle
    if pairs.second_inv_freq is not None:
        second = np.moveaxis(positions[pairs.axis % len(positions)], 0, -1) * pairs.second_inv_freq
    a, b, g = x[..., pairs.first], x[..., pairs.second], pairs.cos_sin_factor
    out = np.array(np.broadcast_to(x, positions.shape[1:] + x.shape[-1:]))
    out[..., pairs.first] = g * (a * np.cos(angle) - b * np.sin(angle))
    out[..., pairs.second] = g * (b * np.cos(second) + a * np.sin(second))
    return out


def transposed(grad: Floats, pairs: Pairs, positions: Floats) -> Floats:
    """Give the transpose of turned applied to grad: what a gradient must be."""
    angle = np.moveaxis(positions[pairs.axis % len(positions)], 0, -1) * pairs.inv_freq
    second = angle
    if pairs.second_inv_freq is not None:
        second = np.moveaxis(positions[pairs.axis % len(positions)], 0, -1) * pairs.second_inv_freq
    a, b, g = grad[..., pairs.first], grad[..., pairs.second], pairs.cos_sin_factor
    out = grad.copy()
    out[..., pairs.first] = g * (a * np.cos(angle) + b * np.sin(second))
    out[..., pairs.second] = g * (b * np.cos(second) - a * np.sin(angle))
    return out


def by_head(ids: NDArray, heads: int) -> Floats:
    """Spread positions [A, B, S] over heads: [A, B, S, H]."""
    return np.repeat(np.asarray(ids, np.float64)[..., None], heads, axis=-1)


def gap(a: Floats, b: Floats) -> float:
    """Give the largest difference between two answers."""
    return float(np.max(np.abs(a - b))) if a.size else 0.0
