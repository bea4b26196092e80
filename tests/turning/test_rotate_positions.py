"""rotate over positions: any sign, any type, past 2^24 and 2^53; and how exact each type comes out."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ropewalk import Ladders, RopewalkError, rotate, rotate_qk
from ropewalk.turning import naive

from ._cases import DTYPES, EDGES, ROPES, assert_turned, cold_and_warm, half_ulp, length_of, random, rope

ALL_EDGES = np.array([sign * edge for edge in EDGES for sign in (1, -1)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["half", "interleaved", "backward", "yarn", "dynamic", "proportional", "hybrid"])
def test_positions_at_every_edge_of_the_tables(road, kind, dtype):
    description, length = ROPES[kind], length_of(ROPES[kind])
    x = road.give(random(len(ALL_EDGES), 2, description.head_dim), dtype)
    for _ in cold_and_warm(road, description, length):
        found = rotate(x, road.ids(ALL_EDGES), description, length=length)
        assert_turned(road.take(found), road.take(x), ALL_EDGES, description, dtype, length=length)


@pytest.mark.parametrize("sign", [1, -1])
def test_positions_to_2_to_the_53_turn_exactly(road, sign):
    # speeds 1, 1/2, 1/4, 1/8: the angle is a product without rounding, and math.cos reduces it exactly
    description = rope(8, theta=16)
    ids = [2**24 + 1, 2**30 + 1, 2**31 + 1, 2**32 + 5, 2**40 + 3, 2**52 + 1, 2**53 - 1, 2**53]
    x = road.give(random(len(ids), 3, 8))
    for _ in cold_and_warm(road, description):
        found = road.take(rotate(x, road.ids(sign * np.array(ids)), description))
        given = road.take(x)
        for s, position in enumerate(ids):
            for i in range(4):
                cos, sin = math.cos(position / 2**i), sign * math.sin(position / 2**i)
                a, b = given[s, :, i], given[s, :, i + 4]
                assert_allclose(found[s, :, i], a * cos - b * sin, rtol=0, atol=1e-6)
                assert_allclose(found[s, :, i + 4], b * cos + a * sin, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["half", "interleaved", "yarn-tail-interleaved", "hybrid"])
def test_far_positions_take_the_float64_product(road, kind):
    description, ids = ROPES[kind], np.array([2**31 + 7, -(2**33) - 1, 2**45 + 11, 1 - 2**53])
    x = road.give(random(4, 2, description.head_dim), "float64")
    for _ in cold_and_warm(road, description):
        found = road.take(rotate(x, road.ids(ids), description))
        assert_allclose(found, naive.rotate(road.take(x), ids, description), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_integer_types_of_positions(road, dtype):
    low, high = np.iinfo(dtype).min, min(np.iinfo(dtype).max, 2**53)
    ids = np.array([0, 1, 100, high - 1, high, max(low, -(2**53)), max(low, -77)], dtype=dtype)
    x = road.give(random(7, 2, 8))
    description = rope(8, theta=16)  # exact products
    if road.library == "torch" and dtype in ("uint16", "uint32", "uint64"):  # torch itself can do little with these
        with pytest.raises(RopewalkError, match=dtype):
            rotate(x, road.ids(ids), description)
        return
    found = rotate(x, road.ids(ids), description)
    assert_turned(road.take(found), road.take(x), ids.astype(np.float64), description, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["half", "interleaved", "llama3", "longrope", "hybrid", "odd-pass"])
def test_fractional_positions(road, kind, dtype):
    description, length = ROPES[kind], length_of(ROPES[kind])
    ids = np.array([0.5, -0.083, 1e-7, 1 / 3, 1000.625, 65_535.5, 1e6 + 0.0625, 16_777_218, 3e9, -12_345.678], dtype)
    for x_dtype in ("float32", "float64", "bfloat16"):
        x = road.give(random(len(ids), 2, description.head_dim), x_dtype)
        found = rotate(x, road.ids(ids), description, length=length)
        assert_turned(road.take(found), road.take(x), ids.astype(np.float64), description, x_dtype, length=length)


def test_fractional_positions_of_several_axes(road):
    description = rope(32, axes=Ladders(widths=(16, 16)), theta=100)
    ids = random(2, 2, 5) * 2 - 1  # coordinates of a grid over [-1, 1]
    x = road.give(random(2, 5, 3, 32))
    assert_turned(road.take(rotate(x, road.ids(ids), description)), road.take(x), ids, description, "float32")


def test_whole_numbers_as_floats_turn_as_integers(road):
    x, description = road.give(random(6, 2, 96)), ROPES["half"]
    ids = np.array([0, 3, -9, 1024, 131_071, 2**24 + 2])
    whole = road.take(rotate(x, road.ids(ids), description))
    for dtype in (np.float32, np.float64):
        assert_allclose(road.take(rotate(x, road.ids(ids.astype(dtype)), description)), whole, rtol=0, atol=2e-6)


def test_positions_may_be_any_view(road):
    x, description = road.give(random(2, 4, 2, 96)), ROPES["half"]
    table = road.ids(np.random.default_rng(4).integers(0, 10**6, (8, 10)))
    views = [table.T[2:4, ::2], table[::4, 1:5], table[3:5, 1:9:2], table[:1, :4], table[6, 3:7]]
    if road.library == "numpy":
        views += [table[5:3:-1, 7:3:-1], np.broadcast_to(table[:, :1].T[:, 4:5], (2, 4)), table[:2, :4].astype(">i4")]
    else:
        views += [table[2:4, :1].expand(2, 4)]
    for ids in views:
        expected = np.array(ids.tolist())
        assert_turned(road.take(rotate(x, ids, description)), road.take(x), expected, description, "float32")


def test_a_leading_axis_of_one_is_allowed(road):
    x, ids = road.give(random(2, 3, 2, 96)), np.array([[0, 5, 70_000], [3, 3, -8]])
    flat = rotate(x, road.ids(ids), ROPES["half"])
    assert road.bits(rotate(x, road.ids(ids[None]), ROPES["half"])) == road.bits(flat)


def test_lists_are_positions_of_numpy_arrays():
    x, description = random(2, 3, 2, 8), rope(8)
    for ids in ([1, 5, 70_000], [[1, 5, 9], [2, 2, 0]], [0.5, 1.5, -2.25], (3, 2, 1), range(3)):
        assert_turned(rotate(x, ids, description), x, np.array(ids), description, "float64")


@pytest.mark.parametrize("kind", ["half", "interleaved", "tail-half", "odd-pass", "proportional", "chatglm", "hybrid"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_position_0_changes_no_bit(road, kind, dtype):
    description = ROPES[kind]
    x = road.give(random(3, 2, description.head_dim), dtype)
    ids = np.zeros(3, int) if description.axes.num_axes == 1 else np.zeros((2, 1, 3), int)
    x = x if description.axes.num_axes == 1 else x[None]
    assert road.bits(rotate(x, road.ids(ids), description)) == road.bits(x)


def test_ids_are_used_as_they_stand(road):
    x, description = road.give(np.tile(random(1, 2, 96), (5, 1, 1))), ROPES["half"]
    ids = np.array([0, 1, 2, 0, 1])  # F314
    found = road.take(rotate(x, road.ids(ids), description))
    assert (found[:2] == found[3:]).all()
    assert_turned(found, road.take(x), ids, description, "float32")


# -- how exact


@pytest.mark.parametrize("theta", [1e4, 5e5, 1e7])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_float32_is_within_a_millionth_to_position_16_777_216(road, pairing, theta):
    description = rope(128, pairing, theta)
    rng = np.random.default_rng(17)
    ids = np.concatenate([rng.integers(0, 2**24, 180), [2**24, 2**24 - 1, 2**20 - 1, 1_000_003, 131_072, 50_000]])
    q, k = road.give(random(len(ids), 8, 128)), road.give(random(len(ids), 2, 128, seed=6))
    for _ in cold_and_warm(road, description):
        for found, x in zip(rotate_qk(q, k, road.ids(ids), description), (q, k), strict=True):
            assert abs(road.take(found) - naive.rotate(road.take(x), ids, description)).max() <= 1e-6


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_types_are_rounded_once(road, dtype):
    for description in (rope(128, theta=5e5), rope(128, "interleaved", 5e5)):  # F003
        ids = np.array([8000, 8001, 131_071, 262_144, 262_145, 1_000_000])
        x = road.give(random(6, 4, 128), dtype)
        found, expected = road.take(rotate(x, road.ids(ids), description)), naive.rotate(road.take(x), ids, description)
        nearest = road.take(road.give(expected, dtype))
        assert (abs(found - nearest) <= 2 * half_ulp(expected, dtype) + 2e-6).all()
        assert (found == nearest).mean() > 0.98
        assert (found[3] != found[4]).any()


def test_float64_keeps_float64(road):
    for kind in ("half", "interleaved", "yarn-small-factor", "hybrid"):
        x = road.give(random(4, 2, ROPES[kind].head_dim), "float64")
        ids = np.array([3, 1023, 1024, 99_999])
        found = road.take(rotate(x, road.ids(ids), ROPES[kind]))
        assert_allclose(found, naive.rotate(road.take(x), ids, ROPES[kind]), rtol=0, atol=5e-11)
        near = road.take(rotate(x[:1], road.ids(ids[:1]), ROPES[kind]))
        assert_allclose(near, naive.rotate(road.take(x[:1]), ids[:1], ROPES[kind]), rtol=0, atol=4e-15)


def test_f004_no_phase_error_where_rounded_frequencies_have_one(road):
    description = rope(96, theta=3e4)
    unit = np.zeros((3, 1, 96))
    unit[..., :48] = 1.0
    ids = np.array([100, 300, 1000])
    found = road.take(rotate(road.give(unit), road.ids(ids), description))
    phase = np.arctan2(found[:, 0, 48:], found[:, 0, :48]) - ids[:, None] * 3e4 ** (-np.arange(48) / 48)
    assert abs((phase + np.pi) % (2 * np.pi) - np.pi).max() < 2e-7
