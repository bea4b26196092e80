"""Positions of patches: rows and columns of images, packed images and videos, coordinates between -1 and 1."""

import numpy as np

from .._checks import choice, whole
from ..errors import RopewalkError
from ._arrays import Array, arange, as_like, integers, library, readable, size


def grid2d(height: int, width: int, *, coordinates: str = "index", like: Array = None) -> Array:
    """Give the rows and columns of one image's patches, row by row.

    Args:
        height: patches from top to bottom.
        width: patches from left to right.
        coordinates: ``"index"``: whole numbers from 0 (int64); ``"centred"``: patches counted from the middle of the
            image, -(height - 1)/2 … (height - 1)/2; ``"unit"``: centres of the patches, with the image's edges at -1
            and 1 on both axes (DINOv3). The last two are float64.
        like: a tensor decides kind and device; None gives NumPy.

    Returns:
        position_ids [2, 1, height * width], the rows (h) first, then the columns (w).

    Raises:
        RopewalkError: for sizes that are no whole numbers, or unknown coordinates.

    Source: transformers 5.24, `get_patches_center_coordinates` of DINOv3 (``"unit"``).

    >>> grid2d(3, 7)[:, 0, 18].tolist()
    [2, 4]
    >>> grid2d(1, 4, coordinates="unit")[1, 0].tolist()
    [-0.75, -0.25, 0.25, 0.75]
    """
    sizes = whole("height", height), whole("width", width)
    choice("coordinates", coordinates, ("index", "centred", "unit"))
    ids = np.indices(sizes, dtype=np.int64).reshape(2, 1, -1)
    if coordinates == "index":
        return as_like(ids, like)
    size = np.array(sizes, dtype=np.float64)[:, None, None]
    middle = 2 * ids + 1 - size  # twice the distance from the middle: whole, hence exact
    return as_like(middle / 2 if coordinates == "centred" else middle / size, like)


def patch_grid(grid_thw: Array, *, merge_size: int = 1, with_time: bool = False, total: int | None = None) -> Array:
    """Give the rows and columns of packed images' and videos' patches, in the order a vision tower takes them.

    Every frame restarts at 0. It is built without a loop over images, so that torch can trace it.

    Args:
        grid_thw: [N, 3] integers: frames, and patches down and across, of each image or video.
        merge_size: patches stand in blocks of merge_size * merge_size (Qwen2-VL and its kin merge 2); 1: row by row.
        with_time: put the number of the frame before the two.
        total: all patches, T, where it is known; otherwise it is read from grid_thw, which on a device waits.

    Returns:
        position_ids [2, 1, T] int64 (h, w), or [3, 1, T] (t, h, w).

    Raises:
        RopewalkError: for another shape, sizes that merge_size does not divide, or a total that is not T (sizes are
            looked at on the CPU only, and not while torch traces).

    Source: transformers 5.24, `vision_utils.get_vision_position_ids`.

    >>> patch_grid([[1, 2, 4]], merge_size=2)[:, 0].tolist()
    [[0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 2, 3, 2, 3]]
    """
    grids, merge = integers("grid_thw", grid_thw, "[images, 3]"), whole("merge_size", merge_size, at_least=1)
    check_grids("grid_thw", grids, merge)
    xp = library(grids)
    ends = xp.cumsum(grids[:, 0] * grids[:, 1] * grids[:, 2], 0)
    held = grids.prod(-1).sum()
    rows = arange(held.item() if total is None else size("total", total), grids)
    if readable(grids) and rows.shape[0] != int(held):
        raise RopewalkError(f"total must be the patches of all grids, got total={total}, grids of {int(held)}.")
    if grids.shape[0] == 0:
        return xp.stack([rows, rows, rows] if with_time else [rows, rows])[:, None]
    image = xp.searchsorted(ends, rows, side="right").clip(0, grids.shape[0] - 1)
    _, height, width = (grids[image, axis] for axis in range(3))
    before = ends - grids[:, 0] * grids[:, 1] * grids[:, 2]
    within = rows - before[image]
    frame, patch = within // (height * width), within % (height * width)
    block, inside = patch // merge**2, patch % merge**2
    across = width // merge
    h = block // across * merge + inside // merge
    w = block % across * merge + inside % merge
    return xp.stack([frame, h, w] if with_time else [h, w])[:, None]


def check_grids(name: str, grids: Array, merge: int = 1, temporal_merge: int = 1) -> None:
    """Raise unless grids are [N, 3], at least 1 each way, and divided by what patches are merged by."""
    if grids.shape[-1] != 3:
        raise RopewalkError(f"{name} must be [images, 3]: frames, rows, columns; got shape {list(grids.shape)}.")
    if not readable(grids):
        return
    for grid in grids.tolist():
        t, h, w = grid
        if min(grid) < 1 or h % merge or w % merge or t % temporal_merge:
            raise RopewalkError(
                f"{name} must hold frames, rows and columns of at least 1, rows and columns divisible by {merge} and "
                f"frames by {temporal_merge}, got {grid}."
            )
