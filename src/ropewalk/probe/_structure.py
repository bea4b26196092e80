"""Which channels turn together, read from the images of the unit vectors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The shape of a linear map that turns pairs of channels, or that it has none.

    Attributes:
        first: [P] the lower channel of each pair.
        second: [P] the higher one.
        still: channels in no pair.
        order: [D] or None: output channel j holds what channel order[j] would.
        signs: [D] of the images at position 0, in the order of the input's channels.
        at_zero: [D, D] image of each unit vector at position 0, in the output's own order.
        crowded: channels that mix with more than one other; not empty: no pairs.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    still: NDArray[np.int64]
    order: NDArray[np.int64] | None
    signs: NDArray[np.float64]
    at_zero: NDArray[np.float64]
    crowded: tuple[int, ...]


def structure_of(images: NDArray[np.float64], noise: float) -> Structure:
    """Read pairs from [D, K, D] images of the unit vectors at K positions, the first of which is 0."""
    at_zero = images[:, 0]
    order, signs = _order(at_zero, noise)
    seen = images if order is None else in_order(images, order)
    # a zero times anything is zero: what is not, couples, however slow the pair
    for threshold in (1e-12, 16 * noise):
        coupled = np.abs(seen).max(axis=1) > threshold
        np.fill_diagonal(coupled, False)
        coupled |= coupled.T
        crowded = np.flatnonzero(coupled.sum(axis=1) > 1)
        if not crowded.size:
            break
    paired = np.flatnonzero(coupled.any(axis=1))
    partner = coupled.argmax(axis=1)
    first = np.array([c for c in paired if c < partner[c]], dtype=np.int64)
    return Structure(
        first=first,
        second=partner[first].astype(np.int64),
        still=np.setdiff1d(np.arange(len(images)), paired),
        order=order,
        signs=signs,
        at_zero=at_zero,
        crowded=tuple(int(c) for c in crowded),
    )


def in_order(images: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give images whose output channels stand where the input's do."""
    out = np.empty_like(images)
    out[..., order] = images
    return out


def _order(at_zero: NDArray[np.float64], noise: float) -> tuple[NDArray[np.int64] | None, NDArray[np.float64]]:
    """Give the output's order where position 0 only moves channels, and their signs."""
    size = np.abs(at_zero)
    holder = size.argmax(axis=0)  # [D]: which input channel each output channel holds
    top = size[holder, np.arange(len(holder))]
    rest = size.copy()
    rest[holder, np.arange(len(holder))] = 0
    moved = len(set(holder.tolist())) == len(holder) and bool((top > 0.25).all()) and rest.max() <= 64 * noise
    if not moved:
        return None, np.ones(len(holder))
    signs = np.sign(at_zero[holder, np.arange(len(holder))])
    in_place = np.empty_like(signs)
    in_place[holder] = signs
    swapped_pairs = _swaps(holder, signs)
    if np.array_equal(holder, np.arange(len(holder))) or swapped_pairs:
        return None, in_place
    return holder.astype(np.int64), in_place


def _swaps(holder: NDArray[np.int64], signs: NDArray[np.float64]) -> bool:
    """Whether channels only change places two by two, one of each two negated: a quarter turn, no order of its own."""
    moved = np.flatnonzero(holder != np.arange(len(holder)))
    if not moved.size or not np.array_equal(holder[holder], np.arange(len(holder))):
        return False
    return bool((signs[moved] * signs[holder[moved]] < 0).all())
