"""The truth over several axes, and V-JEPA 2's map, which is no rotation."""

import math

import numpy as np
import pytest

from ropewalk import Ladders, RopewalkError, Sections, score_from_distance, tables
from ropewalk.turning.naive import rotate

from ._naive import ladder, one, random, rope, turned_by_hand

# -- several axes


def test_f605_tables_take_each_pairs_axis():
    axes = Sections(sections=(10, 6, 4), arrangement="interleaved")
    ids = np.array([3, 11, 6]).reshape(3, 1, 1)
    cos, sin = tables(rope(40, 3e5, axes=axes), ids)
    angles = [5.855131084, 1.699961653, 0.01029003117, 3.028753086e-3, 4.567680112e-4]
    assert sin[0, 0, [1, 2, 9, 13, 16]].tolist() == pytest.approx(list(map(math.sin, angles)), rel=3e-9)
    assert cos[0, 0, [1, 2]].tolist() == pytest.approx(list(map(math.cos, angles[:2])), rel=3e-9)


def test_f604_channels_past_the_rotated_width_stay():
    x = random(2, 5, 3, 160)
    ids = np.stack([np.arange(10).reshape(2, 5), np.arange(10).reshape(2, 5) * 3, np.arange(10).reshape(2, 5) * 7])
    found = rotate(x, ids, rope(160, 1e4, rotary_dim=40, axes=Sections(sections=(10, 6, 4))))
    assert (found[..., 40:] == x[..., 40:]).all()
    assert not (found[0, 1:, :, :40] == x[0, 1:, :, :40]).any()


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_mrope_turns_each_pair_by_its_own_axis(pairing):
    axes = Sections(sections=(4, 3, 1), arrangement="interleaved")
    rows = ["thw".index(letter) for letter in "thwthtth"]
    x, ids = random(2, 3, 4, 16), np.random.default_rng(1).integers(-50, 9000, (3, 2, 3))
    found = rotate(x, ids, rope(16, 1e4, pairing, axes=axes))
    pairs = [(i, i + 8) for i in range(8)] if pairing == "half" else [(2 * i, 2 * i + 1) for i in range(8)]
    for b, s, h in np.ndindex(2, 3, 4):
        expected = x[b, s, h].tolist()
        for pair, w, axis in zip(pairs, ladder(1e4, 16), rows, strict=True):
            expected = turned_by_hand(expected, int(ids[axis, b, s]), [pair], [w])
        assert found[b, s, h].tolist() == pytest.approx(expected, abs=1e-11)


def test_v19_mrope_with_equal_rows_is_the_text_rope():
    x, ids = random(2, 3, 5, 40), np.array([[0, 7, 9], [3, 4, 5000]])
    many = rope(40, 3e5, axes=Sections(sections=(10, 6, 4), arrangement="interleaved"))
    plain = rotate(x, ids, rope(40, 3e5))
    assert (rotate(x, np.stack([ids] * 3), many) == plain).all()
    assert (rotate(x, ids, many) == plain).all()  # text: one position on every axis
    assert (rotate(x[0], ids[0], many) == plain[0]).all()


def test_f147_f611_two_halves_with_positions_of_their_own():
    axes = Ladders(widths=(48, 48), pairing_within="axis", names=("position", "block"))
    x, ids = random(1, 4, 2, 96), np.array([[[0, 1, 2, 3]], [[0, 0, 1, 2]]])
    found = rotate(x, ids, rope(96, 1e4, axes=axes))
    for part, row in ((slice(0, 48), 0), (slice(48, 96), 1)):
        assert found[..., part] == pytest.approx(rotate(x[..., part], ids[row], rope(48, 1e4)), abs=1e-15)


def test_ladders_take_float_coordinates():
    axes = Ladders(widths=(8, 8))
    ids = np.array([[[-1.0, 0.25, 2 / 3]], [[1.0, -0.5, 1e-3]]])
    cos, _ = tables(rope(16, 100, axes=axes), ids)
    assert cos[0, 2].tolist() == pytest.approx(
        [math.cos(p * w) for p in (2 / 3, 1e-3) for w in ladder(100, 8)], rel=1e-14
    )


# -- V-JEPA 2: the map that is no rotation


def rotate_queries_or_keys(x, pos):
    """transformers 5.24, models/vjepa2/modeling_vjepa2.py, in NumPy: x [..., N, D], pos [N]."""
    omega = np.arange(x.shape[-1] // 2) / (x.shape[-1] / 2.0)
    freq = pos[..., None] * (1.0 / 10000**omega)
    sin, cos = np.tile(np.sin(freq), 2), np.tile(np.cos(freq), 2)
    y = x.reshape(*x.shape[:-1], -1, 2)
    y = np.stack([-y[..., 1], y[..., 0]], axis=-1).reshape(x.shape)
    return x * cos + y * sin


def test_hybrid_tile_is_vjepa2s_map_over_three_axes_and_a_still_rest():
    head, width = 64, 20  # 2 * ((64 // 3) // 2), three times; channels 60.. stay
    axes = Ladders(widths=(width,) * 3, pairing_within="axis", names=("t", "h", "w"))
    tile = rope(head, 1e4, "hybrid_tile", rotary_dim=3 * width, axes=axes)
    ids = np.arange(2 * 3 * 5)
    positions = np.stack([ids // 15, ids % 15 // 5, ids % 5])  # 2 frames of 3 x 5
    x = random(2, 30, 4, head)  # B, S, H, D
    by_head = x.transpose(0, 2, 1, 3)
    parts = [rotate_queries_or_keys(by_head[..., a * width : (a + 1) * width], positions[a]) for a in range(3)]
    expected = np.concatenate([*parts, by_head[..., 60:]], axis=-1).transpose(0, 2, 1, 3)
    found = rotate(x, positions[:, None], tile)
    assert found == pytest.approx(expected, abs=1e-13)
    assert abs(np.linalg.norm(found, axis=-1) / np.linalg.norm(x, axis=-1) - 1).max() > 0.05
    assert rotate(found, positions[:, None], tile, inverse=True) == pytest.approx(x, abs=1e-10)


@pytest.mark.parametrize("width", [6, 10, 48])
def test_hybrid_tile_of_one_axis_and_its_inverse(width):
    x, ids = random(4, 3, width), np.array([0, 1, -7, 1234])
    tile = rope(width, 1e4, "hybrid_tile")
    found = rotate(x, ids, tile)
    assert found == pytest.approx(rotate_queries_or_keys(x.transpose(1, 0, 2), ids).transpose(1, 0, 2), abs=2e-12)
    assert rotate(found, ids, tile, inverse=True) == pytest.approx(x, abs=1e-9)


def test_hybrid_tile_has_no_cos_sin_no_second_road_and_sometimes_no_inverse():
    tile = rope(4, 1.0, "hybrid_tile")
    assert tile.pairs().is_rotation  # theta 1: both angles are one
    tile = rope(4, 100.0, "hybrid_tile")
    with pytest.raises(RopewalkError, match="no single cos and sin"):
        tables(tile, [1])
    with pytest.raises(RopewalkError, match="no rotation"):
        score_from_distance([1] * 4, [1] * 4, 1, tile)
    quarter = math.pi / 2 / (1 - 0.1)  # the angles m and 0.1 m are a quarter turn apart
    with pytest.raises(RopewalkError, match="no inverse at these positions"):
        one([1, 2, 3, 4], quarter, tile, inverse=True)
