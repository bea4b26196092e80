"""rotate over values: NaN and infinity stay in their pair, and small and large numbers of each type survive."""

import numpy as np
import pytest

from ropewalk import rotate

from ._cases import DTYPES, ROPES, length_of, positions, random, rope

SPECIAL = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ROPES)
def test_nan_and_infinity_stay_in_their_own_pair(road, kind, dtype):
    description, length = ROPES[kind], length_of(ROPES[kind])
    values, ids = random(1, 5, 3, description.head_dim), positions(description, 1, 5)
    clean = rotate(road.give(values, dtype), road.ids(ids), description, length=length)
    pairs = description.pairs(length)
    for i in {0, len(pairs) // 2, len(pairs) - 1}:
        for channel, special in zip((pairs.first[i], pairs.second[i]), SPECIAL, strict=False):
            spoilt = values.copy()
            spoilt[0, 2, 1, channel] = special
            found = rotate(road.give(spoilt, dtype), road.ids(ids), description, length=length)
            taken, expected = road.take(found), road.take(clean).copy()
            both = [pairs.first[i], pairs.second[i]]
            assert not np.isfinite(taken[0, 2, 1, both]).any() or kind.startswith(("hybrid", "proportional"))
            assert not np.isfinite(taken[0, 2, 1, channel])
            taken[0, 2, 1, both] = expected[0, 2, 1, both] = 0
            assert (taken == expected).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "kind", ["leading-half", "tail-half", "tail-interleaved", "middle-odd-start-interleaved", "odd-pass", "yarn"]
)
def test_channels_in_no_pair_keep_every_bit(road, kind, dtype):
    description = rope(96, rotary_dim=48, scaling=ROPES["yarn"].scaling) if kind == "yarn" else ROPES[kind]
    pairs = description.pairs()
    still = np.setdiff1d(np.arange(description.head_dim), np.concatenate([pairs.first, pairs.second]))
    values = random(2, 3, 2, description.head_dim)
    tiny = {"float32": 1e-42, "float64": 5e-324, "bfloat16": 1e-39, "float16": 6e-8}[dtype]
    values[..., still] = np.resize([np.nan, -np.inf, -0.0, tiny, -tiny, 60_000.0, 0.1], (2, 3, 2, len(still)))
    x = road.give(values, dtype)
    found = rotate(x, road.ids([1, 70_000, 5]), description)
    for channel in still:
        assert road.bits(found[..., channel : channel + 1]) == road.bits(x[..., channel : channel + 1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_still_pairs_keep_their_values(road, dtype):
    description = ROPES["proportional"]
    x = road.give(random(2, 3, 2, 160), dtype)
    found = rotate(x, road.ids([3, 70_000, -9]), description)
    for part in (slice(24, 80), slice(104, 160)):
        assert road.bits(found[..., part]) == road.bits(x[..., part])


@pytest.mark.parametrize(("dtype", "largest"), [("float16", 65_504.0), ("bfloat16", 3.3895313892515355e38)])
def test_what_leaves_a_16_bit_type_becomes_infinite_and_its_largest_numbers_survive(road, dtype, largest):
    # θ 1, pair (0, 1) at position m: a = b = largest becomes largest·(cos m ∓ sin m)
    description = rope(2, theta=1)
    x = road.give(np.full((4, 1, 2), largest), dtype)
    found = road.take(rotate(x, road.ids([0, 1, 2, 4]), description))[:, 0]
    assert found[0].tolist() == [largest, largest]
    # cos 1 - sin 1 = -0.301, cos 1 + sin 1 = 1.382; cos 2 - sin 2 = -1.325, 0.493; cos 4 - sin 4 = 0.103, -1.410
    assert found[1, 1] == np.inf and found[2, 0] == -np.inf and found[3, 1] == -np.inf
    kept = found[[1, 2, 3], [0, 1, 0]] / largest
    assert kept == pytest.approx([np.cos(1) - np.sin(1), np.cos(2) + np.sin(2), np.cos(4) - np.sin(4)], rel=2**-7)


def test_float16_subnormals_turn_exactly(road):
    smallest = 2.0**-24
    values = np.array([[1, 1], [3, 5], [700, -1000], [1023, 1023], [-1, 0]]) * smallest
    x = road.give(values[:, None], "float16")
    ids = np.array([0, 1, 2, 3, 4])
    found = road.take(rotate(x, road.ids(ids), rope(2, theta=1)))[:, 0]
    cos, sin = np.cos(ids), np.sin(ids)
    expected = np.stack([values[:, 0] * cos - values[:, 1] * sin, values[:, 1] * cos + values[:, 0] * sin], axis=-1)
    assert (abs(found - expected) <= 0.5001 * smallest).all()


@pytest.mark.parametrize(("dtype", "tiny"), [("float32", 1e-41), ("bfloat16", 9e-40), ("float64", 4e-320)])
def test_subnormals_are_not_flushed_to_zero(road, dtype, tiny):
    x = road.give(np.full((3, 2, 8), tiny), dtype)
    given = road.take(x)
    assert (given > 0).all()
    description = rope(8, theta=1)
    found = road.take(rotate(x, road.ids([0, 1, -2]), description))
    step = {"float32": 2.0**-149, "bfloat16": 2.0**-133, "float64": 5e-324}[dtype]
    for s, m in enumerate((0, 1, -2)):
        assert found[s, :, :4] == pytest.approx(given[s, :, :4] * (np.cos(m) - np.sin(m)), abs=2 * step, rel=0)
        assert found[s, :, 4:] == pytest.approx(given[s, :, :4] * (np.cos(m) + np.sin(m)), abs=2 * step, rel=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_of_both_signs_stay_zeros(road, dtype):
    for description in (rope(8), rope(8, "interleaved")):
        for zero in (0.0, -0.0):
            found = road.take(rotate(road.give(np.full((3, 2, 8), zero), dtype), road.ids([0, 5, -5]), description))
            assert (found == 0).all()
        kept = rotate(road.give(np.full((1, 2, 8), -0.0), dtype), road.ids([0]), rope(8, rotary_dim=4))
        assert np.signbit(road.take(kept)[..., 4:]).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_ties_go_to_even(road, dtype):
    # a quarter turn swaps the channels exactly where the factor is a power of two; position 0 with g = 1.5 makes ties
    from ropewalk.scaling import Yarn

    scaling = Yarn(factor=2, original_max_position_embeddings=64, attention_factor=1.5)
    one_and = 1 + (2.0**-7 if dtype == "bfloat16" else 2.0**-10)  # 1.5 times it lies half way between two numbers
    x = road.give(np.full((1, 1, 4), one_and), dtype)
    found = rotate(x, road.ids([0]), rope(4, scaling=scaling))
    assert road.bits(found) == road.bits(road.give(np.full((1, 1, 4), 1.5 * one_and), dtype))
    assert road.take(found)[0, 0, 0] != 1.5 * one_and
