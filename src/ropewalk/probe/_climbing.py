"""Growing positions: the images of three vectors from position 0 to as far as a function answers."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._asking import Asker
from ._memory import peak_memory
from ._phases import grow
from ._structure import Structure
from .box import Box, BoxFailure

ARANGE_TOKENS = 256
LEVELS = (8, 32, 128, 512, 2048, 8192, 32_768, 131_072, 524_288, 2_097_152)
SLOW_CALL = 1.0  # seconds; a function this slow at one length is not asked for a longer one
LONG = 8192  # positions from which on a growing table shows itself in memory
ROOM = 512 * 2**20  # bytes; a function is not asked for a length at which it would take more than this besides


@dataclass(slots=True)
class Climb:
    """Images of three vectors (all first channels, all second, all still) at growing positions."""

    positions: NDArray[np.int64]
    images: NDArray[np.float64]  # [A, 3, K, D]
    limit: str = ""
    length_change: tuple[int, int] | None = None


def climb(asker: Asker, structure: Structure, near: NDArray[np.int64], beyond: int) -> Climb:
    """Ask for growing positions, level by level, until something stops it; small ones come first.

    A function whose table follows the longest position seen (dynamic NTK, LongRoPE, a cache that grows) is so asked
    for its short table before its long one. One whose tables would not fit in memory is not asked for longer ones, here
    or later: the box's max_position is lowered.
    """
    box, kind = asker.box, asker.manner.kind
    vectors = np.zeros((3, box.head_dim))
    for row, channels in enumerate((structure.first, structure.second, structure.still)):
        vectors[row, channels] = 1
    if kind in ("heads", "arange"):
        places = near if kind == "heads" else np.arange(ARANGE_TOKENS)
        return Climb(places, _axes_images(asker, vectors, places))
    wanted = grow(box.max_position)
    count, start = len(wanted), near[:2] if not beyond else np.append(near[:2], beyond)
    best = Climb(near[:2], _axes_images(asker, vectors, start)[:, :, :2])
    levels = sorted({level for level in LEVELS if beyond <= level < wanted[-1]} | {int(wanted[-1])})
    k, rise = 0, 0
    while k < len(levels):
        places = wanted[wanted <= levels[k]]
        padded = places if kind == "first" else np.concatenate([places, np.repeat(places[-1:], count - len(places))])
        began, peak, before = time.perf_counter(), peak_memory(), rise
        try:
            images = _axes_images(asker, vectors, padded)[:, :, : len(places)]
        except BoxFailure as failure:
            best.limit = f"position {places[-1]}: {failure.failure.kind}, {failure.failure.message}"
            if failure.failure.kind == "hang" or levels[k] // 2 <= best.positions[-1]:
                break
            levels = [levels[k] // 2]
            k = 0
            continue
        shared = min(len(best.positions), len(places))
        moved = np.abs(images[:, :, :shared] - best.images[:, :, :shared]).max()
        if moved > 64 * box.resolution:
            best.length_change = (int(best.positions[-1]) + 1, int(places[-1]) + 1)
            if levels[k] // 2 <= best.positions[-1]:
                break
            levels, k = [levels[k] // 2], 0
            continue
        best = Climb(places, images, best.limit, best.length_change)
        k += 1
        rise = peak_memory() - peak
        if time.perf_counter() - began > SLOW_CALL:
            best.limit = f"position {places[-1]}: slow, {time.perf_counter() - began:.1f} s a call"
            if places[-1] >= LONG and rise * box.max_position > ROOM * places[-1]:
                box.max_position = int(places[-1])  # others ask further than a slow climb
            break
        # a table as long as the sequence takes more at each level; what a library loads at first or compiles does not
        grows = places[-1] >= LONG and rise > 2 * before
        if k < len(levels) and grows and rise * levels[k] > ROOM * levels[k - 1]:
            best.limit = f"position {places[-1]}: large, it takes {rise >> 20} MiB more there than before"
            box.max_position = int(places[-1])
            break
    return best


def _axes_images(asker: Asker, vectors: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give [A, 3, K, D]: images of the vectors as one axis after another moves and the others stay at 0."""
    axes, count = asker.box.axes, len(vectors)
    if axes == 1:
        return asker.images(vectors, places)[None]
    ids = np.zeros((axes, axes, count, len(places)), dtype=np.int64)
    for axis in range(axes):
        ids[axis, axis] = places
    flat = asker.images(np.tile(vectors, (axes, 1)), ids.reshape(axes, axes * count, -1))
    return flat.reshape(axes, count, len(places), -1)


def nonlinearity(box: Box) -> tuple[float, str | None]:
    """Give the noise of f(x) + f(y) - f(x + y), and words when that is more than noise."""
    rng = np.random.default_rng(2)
    shape = (box.batch, 4 if "tokens" not in box.facts else box.heads, box.heads, box.head_dim)
    ids = np.resize(np.array([2, 5, 1, 3]), shape[1])
    one, other = (rng.integers(-8, 9, size=shape) / 8.0 for _ in range(2))
    images = [box.turn(x, ids) for x in (one, other, one + other, 2 * one)]
    try:
        images.append(box.turn(np.zeros(shape), ids))
    except BoxFailure as failure:
        if failure.failure.kind != "not-finite":
            raise
        return box.resolution, "a vector of zeros gives NaN: it is normalised inside"
    scale = max(float(np.abs(images[2]).max()), 1.0)
    if np.abs(images[4]).max() > 32 * box.resolution * scale:
        return box.resolution, "a vector of zeros does not stay one: something is added to x"
    gap = max(np.abs(images[0] + images[1] - images[2]).max(), np.abs(2 * images[0] - images[3]).max()) / scale
    if gap > 0.05:
        same = np.abs(images[0] - images[3]).max() <= 0.01 * scale
        return box.resolution, "twice the vector gives the same: it is normalised inside" if same else (
            f"the sum of two vectors does not give the sum of their images (off by {gap:.2g})"
        )
    return max(box.resolution, float(gap) / 8), None
