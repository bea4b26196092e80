"""Positions of patches: faults F606, F607 and F704, and the orders of vision towers."""

import numpy as np
import pytest

from ropewalk import Ladders, Rope, RopewalkError
from ropewalk.positions import grid2d, patch_grid
from ropewalk.turning.dispatch import rotate
from ropewalk.turning.naive import rotate as truth


def blocks(t, h, w, merge):
    """Frames of an image's patches, block by block, in four plain loops."""
    steps = [
        (block_h * merge + inside_h, block_w * merge + inside_w)
        for block_h in range(h // merge)
        for block_w in range(w // merge)
        for inside_h in range(merge)
        for inside_w in range(merge)
    ]
    return [(frame, *step) for frame in range(t) for step in steps]


def test_f606_patches_are_numbered_row_by_row_h_before_w():
    grid = grid2d(3, 7)
    assert grid.shape == (2, 1, 21)
    assert grid.dtype == np.int64
    assert grid[:, 0, 18].tolist() == [2, 4]
    assert grid[:, 0].T.tolist() == [[h, w] for h in range(3) for w in range(7)]


def test_f607_a_vision_tower_turns_each_patch_by_its_row_and_column():
    rope = Rope(head_dim=16, rope_theta=10000.0, pairing="half", axes=Ladders(widths=(8, 8)))
    x = np.random.default_rng(1).standard_normal((1, 24, 3, 16))
    found = rotate(x, grid2d(4, 6), rope)
    for h, w in ((0, 0), (1, 4), (3, 5), (2, 1)):
        patch = 6 * h + w
        expected = truth(x[:, patch : patch + 1], [[[h]], [[w]]], rope)
        assert np.allclose(found[:, patch : patch + 1], expected, rtol=0, atol=1e-12)
    slips = {
        "axes swapped": grid2d(4, 6)[::-1],
        "merged order": patch_grid([[1, 4, 6]], merge_size=2),
        "column by column": np.indices((6, 4))[::-1].reshape(2, 1, 24),
        "one off": grid2d(4, 6) + 1,
    }
    for slip, ids in slips.items():
        assert not np.allclose(found, rotate(x, ids, rope), atol=1e-3), slip


def test_centred_and_unit_coordinates_are_symmetric_about_the_middle():
    centred, unit = grid2d(3, 4, coordinates="centred"), grid2d(3, 4, coordinates="unit")
    assert centred[:, 0, 0].tolist() == [-1.0, -1.5]
    assert unit[:, 0, 0].tolist() == [-2 / 3, -0.75]
    for grid in (centred, unit):
        assert grid.dtype == np.float64
        assert np.array_equal(grid, -grid[..., ::-1])
    assert np.array_equal(unit, centred * 2 / np.array([3, 4])[:, None, None])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((2.5, 3), "height must be a whole number"),
        ((2, -1), "width must be a whole number"),
        ((2, 3, "middle"), "coordinates must be one of"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(arguments, words):
    with pytest.raises(RopewalkError, match=words):
        grid2d(*arguments[:2], coordinates=arguments[2] if len(arguments) > 2 else "index")


@pytest.mark.parametrize("merge", [1, 2])
def test_f704_packed_patches_stand_in_blocks(merge):
    grids = [(1, 4, 6), (1, 2, 2), (3, 2, 8)]
    expected = [patch for grid in grids for patch in blocks(*grid, merge)]
    assert patch_grid(grids, merge_size=merge, with_time=True)[:, 0].T.tolist() == [list(one) for one in expected]
    found = patch_grid(np.array(grids, dtype=np.int32), merge_size=merge, total=24 + 4 + 48)
    assert found.dtype == np.int64
    assert found[:, 0].T.tolist() == [[h, w] for _, h, w in expected]


def test_blocks_of_three_and_no_images():
    assert patch_grid([(2, 6, 3)], merge_size=3)[:, 0].T.tolist() == [list(one[1:]) for one in blocks(2, 6, 3, 3)]
    assert patch_grid(np.zeros((0, 3), dtype=int)).shape == (2, 1, 0)
    assert patch_grid(np.zeros((0, 3), dtype=int), with_time=True).shape == (3, 1, 0)


@pytest.mark.parametrize(
    ("grids", "rest", "words"),
    [
        ([[1, 4, 5]], {"merge_size": 2}, r"divisible by 2 .*got \[1, 4, 5\]"),
        ([[1, 4, 6], [1, 0, 2]], {}, r"at least 1.*got \[1, 0, 2\]"),
        ([[4, 6]], {}, r"frames, rows, columns; got shape \[1, 2\]"),
        ([1, 4, 6], {}, r"got int64 of shape \[3\]"),
        ([[1, 4, 6]], {"total": 23}, "total=23, grids of 24"),
    ],
)
def test_grids_that_cannot_be_are_refused(grids, rest, words):
    with pytest.raises(RopewalkError, match=words):
        patch_grid(grids, **rest)
