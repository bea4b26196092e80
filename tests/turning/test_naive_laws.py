"""The laws of turning: shifts add, inverses undo, two roads to the score meet."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ropewalk import score, score_from_distance
from ropewalk.scaling import Linear, LongRope, Ntk, Proportional, Yarn
from ropewalk.turning.naive import rotate

from ._naive import one, random, rope, turned_by_hand

# -- laws


def magnified():
    return [
        rope(10, 1e4),
        rope(48, 3e5, "interleaved", rotary_dim=36, rotary_start=8, direction=-1),
        rope(96, 1e4, rotary_dim=28, scaling=Yarn(factor=12, original_max_position_embeddings=4096)),
        rope(6, 500, scaling=Linear(factor=3.7)),
        rope(11, 1e4, odd="pass", scaling=Ntk(factor=5)),
        rope(160, 2e5, scaling=Proportional(partial_rotary_factor=0.3, factor=4)),
        rope(12, 1e4, scaling=LongRope(short_factor=[1.5] * 6, long_factor=[4.0] * 6,
                                       original_max_position_embeddings=64, factor=8)),
        rope(24, 1e4, "hybrid_tile"),
    ]  # fmt: skip


LAWS = [description for description in magnified() if description.pairs().is_rotation]
LAW_IDS = [f"{one.scaling.rope_type}-{one.pairing}-{one.head_dim}" for one in LAWS]
LENGTH = 1000  # above every switch
POSITIONS = st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e4, 1e4))


def slack(*positions):
    """How far float64 products of these positions may be off, in radians, times a few."""
    return 1e-12 + 4e-16 * 4 * sum(map(abs, positions))


@pytest.mark.parametrize("description", LAWS, ids=LAW_IDS)
@given(m=POSITIONS, n=POSITIONS)
@settings(max_examples=15)
def test_turning_by_m_then_n_is_turning_by_their_sum(description, m, n):
    x, g = random(description.head_dim), description.pairs(LENGTH).cos_sin_factor
    turning = sorted({*description.pairs().first.tolist(), *description.pairs().second.tolist()})
    twice = np.array(one(one(x, m, description, length=LENGTH), n, description, length=LENGTH))
    once = np.array(one(x, m + n, description, length=LENGTH))
    once[turning] *= g  # g applies at each turning
    assert twice == pytest.approx(once, abs=20 * slack(m, n, m + n))


@pytest.mark.parametrize("description", magnified(), ids=lambda one: f"{one.scaling.rope_type}-{one.pairing}")
@given(m=POSITIONS)
@settings(max_examples=15)
def test_the_inverse_undoes_turning_also_with_a_magnitude(description, m):
    table = description.pairs(LENGTH)
    if not table.is_rotation:
        assume(np.abs(np.cos(m * (table.inv_freq - table.second_inv_freq))).min() > 1e-3)
    x = random(description.head_dim)
    back = one(one(x, m, description, length=LENGTH), m, description, length=LENGTH, inverse=True)
    assert back == pytest.approx(x, abs=1e-14 if table.is_rotation else 1e-11)


@pytest.mark.parametrize("description", LAWS, ids=LAW_IDS)
@given(m=POSITIONS, n=POSITIONS)
@settings(max_examples=15)
def test_two_roads_to_the_score_meet(description, m, n):
    q, k = random(description.head_dim), random(description.head_dim, seed=6)
    straight = score(q, k, m, n, description, length=LENGTH)
    assert score_from_distance(q, k, m - n, description, length=LENGTH) == pytest.approx(
        straight, abs=200 * slack(m, n)
    )


@pytest.mark.parametrize("description", LAWS, ids=LAW_IDS)
@given(m=POSITIONS)
@settings(max_examples=10)
def test_each_pair_keeps_its_length_up_to_the_magnitude(description, m):
    x, table = random(description.head_dim), description.pairs(LENGTH)
    found = np.array(one(x, m, description, length=LENGTH))
    before = np.hypot(x[table.first], x[table.second])
    assert np.hypot(found[table.first], found[table.second]) == pytest.approx(table.cos_sin_factor * before, rel=1e-14)


@pytest.mark.parametrize("width", [6, 10, 48, 96])
@given(m=POSITIONS)
@settings(max_examples=10)
def test_half_is_interleaved_on_permuted_channels(width, m):
    order = [*range(0, width, 2), *range(1, width, 2)]
    x = random(2, 3, 5, width)
    half = rotate(x[..., order], [m, m + 1, -m], rope(width, 1e4))
    assert (half == rotate(x, [m, m + 1, -m], rope(width, 1e4, "interleaved"))[..., order]).all()


@pytest.mark.parametrize("description", magnified(), ids=lambda one: f"{one.scaling.rope_type}-{one.pairing}")
def test_position_0_multiplies_by_the_magnitude_alone(description):
    x, table = random(description.head_dim), description.pairs(LENGTH)
    expected = x.copy()
    expected[[*table.first, *table.second]] *= table.cos_sin_factor
    assert one(x, 0, description, length=LENGTH) == expected.tolist()


def test_still_pairs_of_a_proportional_rope_keep_their_bits():
    x = random(2, 3, 160)
    found = rotate(x, [5, 70000], rope(160, 2e5, scaling=Proportional(partial_rotary_factor=0.3)))
    assert (found[..., 24:80] == x[..., 24:80]).all()
    assert (found[..., 104:] == x[..., 104:]).all()
    assert (found[..., :24] != x[..., :24]).all()


@pytest.mark.parametrize("pairing", ["half", "interleaved", "hybrid_tile"])
def test_odd_pass_copies_the_last_channel_and_keeps_the_distance_law(pairing):
    odd = rope(9, 1e4, pairing, odd="pass")
    x = random(3, 2, 9)
    assert (rotate(x, [1, 2, 70000], odd)[..., 8] == x[..., 8]).all()
    if pairing != "hybrid_tile":
        found = [score(x[0, 0], x[1, 1], m, n, odd) for m, n in ((9, 4), (26, 21), (-3, -8))]
        assert found == pytest.approx([score_from_distance(x[0, 0], x[1, 1], 5, odd)] * 3, rel=1e-12)


def test_an_odd_half_rope_pairs_across_the_rounded_half():
    x = random(9).tolist()
    ladder9 = [1e4 ** (-2 * i / 9) for i in range(4)]
    expected = turned_by_hand(x, 11, [(i, i + 4) for i in range(4)], ladder9)
    assert one(x, 11, rope(9, 1e4, odd="pass")) == pytest.approx(expected, rel=1e-12)
