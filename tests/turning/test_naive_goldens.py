"""The truth against the goldens of shared/faults.md: single vectors, scaled ropes, scores."""

import math

import numpy as np
import pytest

from ropewalk import Ladders, RopewalkError, Sections, score, score_from_distance, tables
from ropewalk.scaling import Dynamic, Llama3, LongRope, Proportional, Yarn
from ropewalk.turning.naive import rotate

from ._naive import K8, X8, Y12, close, ladder, one, random, rope, turned_by_hand

# -- goldens: one vector


@pytest.mark.parametrize(
    ("fault", "changes", "expected"),
    [
        (
            "F401 half",
            {},
            [-0.5160224343, -2.9087586332, 2.3239510581, 1.4611061733, -0.2149903424, 1.2406140470, -1.6122194267,
             1.0560155067],
        ),
        (
            "F401 interleaved",
            {"pairing": "interleaved"},
            [-1.0836243057, 0.2752423732, 0.2032708769, 2.4917224867, -0.7798093789, 2.9076446366, -2.0363897293,
             0.9236432594],
        ),
        ("F403 hybrid-tile", {"pairing": "hybrid_tile"}, [-1.0836243057, -0.2887769848, 1.7011858806, 1.5745680996]),
        ("F405 conjugate", {"direction": -1}, [-0.1376211866, 1.5826384784]),
    ],
)  # fmt: skip
def test_x8_at_position_4(fault, changes, expected):
    assert one(X8, 4, rope(**changes))[: len(expected)] == close(expected)


def test_f402_true_half_scores_keep_the_distance_and_its_hybrid_does_not():
    for m, n in ((9, 4), (26, 21)):
        assert score(X8, K8, m, n, rope()) == pytest.approx(-3.848295469, rel=1e-9)
    repeated = np.repeat(ladder(500, 8), 2)

    def hybrid_repeat(x, m):  # the table doubled in place, the half rotate
        x = np.array(x)
        return x * np.cos(m * repeated) + np.concatenate([-x[4:], x[:4]]) * np.sin(m * repeated)

    golden = [-0.5160224343, 2.9240511068, 2.8232525254, 0.2460239309, -0.1570442014, 2.7741949557, -1.9229278029,
              1.0560155067]  # fmt: skip
    assert hybrid_repeat(X8, 4).tolist() == close(golden)
    assert one(X8, 4, rope())[1] != pytest.approx(golden[1], rel=1e-3)


def test_f403_hybrid_tile_scores():
    tile = rope(pairing="hybrid_tile")
    assert score(X8, K8, 9, 4, tile) == pytest.approx(0.1152817960, rel=1e-9)
    assert score(X8, K8, 26, 21, tile) == pytest.approx(2.544146424, rel=1e-9)


def test_f405_conjugate_keeps_the_relative_property():
    backward = rope(direction=-1)
    scores = [score(X8, K8, m, n, backward) for m, n in ((9, 4), (26, 21), (-100, -105))]
    assert scores == pytest.approx([scores[0]] * 3, rel=1e-12)
    assert scores[0] == pytest.approx(score(X8, K8, 4, 9, rope()), rel=1e-12)
    assert scores[0] != pytest.approx(score(X8, K8, 9, 4, rope()), rel=1e-3)


def test_f406_position_2_turns_e0_to_cos_2():
    assert one([1, 0, 0, 0], 2, rope(4))[0] == pytest.approx(-0.4161468365, rel=1e-9)


@pytest.mark.parametrize(
    ("fault", "changes", "expected"),
    [
        (
            "proportional",
            {"scaling": Proportional(partial_rotary_factor=0.5)},
            [0.5896556047, 2.1944358263, -1.1809528705, 0.5, -1.5, 2, 0.8454621623, -0.4294780605, 4.8585337621, -0.5,
             1.5, -3],
        ),
        (
            "ordinary half",
            {"rotary_dim": 6},
            [0.4254089550, -0.1133373488, 2.7597191133, 1.0339377259, -2.4974296077, 2.3203341173, *Y12[6:]],
        ),
        (
            "ordinary interleaved",
            {"rotary_dim": 6, "pairing": "interleaved"},
            [2.0678754518, -0.8508179100, 1.5209649171, 2.6337550609, -1.7125282009, 1.8213311508, *Y12[6:]],
        ),
        (
            "tail half",
            {"rotary_dim": 6, "rotary_start": 6},
            [*Y12[:6], 0.5169688629, -1.7936158236, 4.3079995903, -0.2127044775, 0.1815000755, -2.5379400171],
        ),
    ],
)  # fmt: skip
def test_f416_kinds_of_partial_heads(fault, changes, expected):
    found = one(Y12, 7, rope(12, **changes))
    assert found == close(expected)
    still = [i for i, (before, after) in enumerate(zip(Y12, expected, strict=True)) if before == after]
    assert [found[i] for i in still] == [Y12[i] for i in still]  # to the last bit


def test_f415_the_partner_is_inside_the_rotated_width():
    expected = turned_by_hand(Y12, 7, [(0, 3), (1, 4), (2, 5)], ladder(500, 6))
    fault = turned_by_hand(Y12, 7, [(0, 6), (1, 7), (2, 8)], ladder(500, 6))
    found = one(Y12, 7, rope(12, rotary_dim=6))
    assert found == pytest.approx(expected, rel=1e-13)
    assert found != pytest.approx(fault, rel=1e-3)


def test_f106_tail_of_a_wide_head_and_its_return():
    wide = rope(512, 1e4, "interleaved", rotary_dim=64, rotary_start=448)
    x = random(512).tolist()
    found = one(x, 77, wide)
    assert found[:448] == x[:448]
    assert found == pytest.approx(
        turned_by_hand(x, 77, [(448 + 2 * i, 449 + 2 * i) for i in range(32)], ladder(1e4, 64)), rel=1e-12
    )
    assert one(found, 77, wide, inverse=True) == pytest.approx(x, abs=1e-14)


def test_f311_f318_shifts_add():
    step = rope()
    shifted = one(one(one(X8, 500, step), -200, step), -75, step)
    golden = [-0.0488640356, 2.2229925194, -2.7975607958, -1.6418989742, -0.5568772809, -2.2490674198, 0.4167176431,
              0.7444244479]  # fmt: skip
    assert shifted == close(golden)
    assert one(X8, 225, step) == close(golden)
    assert one(X8, 425, step)[0] == pytest.approx(-0.5101253802, rel=1e-9)  # the fault: the second shift alone


def test_f312_a_shift_leaves_the_rest_of_a_partial_head():
    x = random(2, 3, 80)
    found = rotate(x, [-5, -5], rope(80, 1e4, rotary_dim=32))
    assert (found[..., 32:] == x[..., 32:]).all()
    assert (found[..., :32] != x[..., :32]).all()


def test_f215_a_magnitude_stays_on_the_rotated_channels():
    scaling = Yarn(factor=12, original_max_position_embeddings=4096)
    x = random(3, 2, 96)
    found = rotate(x, [1, 5000, 70000], rope(96, 1e4, rotary_dim=48, rotary_start=48, scaling=scaling))
    assert (found[..., :48] == x[..., :48]).all()
    grown = np.linalg.norm(found[..., 48:], axis=-1) / np.linalg.norm(x[..., 48:], axis=-1)
    assert grown == pytest.approx(np.full((3, 2), 0.1 * math.log(12) + 1), rel=1e-12)


def test_f411_the_angle_is_not_rounded():
    cos, _ = tables(rope(48, 2e4), [1999])
    assert 1999 * ladder(2e4, 48)[2] == pytest.approx(875.777186, abs=5e-7)
    assert cos[0, 2] == pytest.approx(-0.7470626566, rel=1e-9)


def test_f410_tokens_turn_not_heads():
    # [B, H, S, D] = [1, 2, 3, 6], every row the same
    x = np.tile(np.array([2, 1, 3, -1, 0.5, 4]), (1, 2, 3, 1)).transpose(0, 2, 1, 3)
    found = rotate(x, [0, 1, 2], rope(6, 100)).transpose(0, 2, 1, 3)
    golden = [1.9220755965, 0.8699913521, 2.8111720343, 1.1426396637, 0.7022215086, 4.1348895746]
    assert found[0, 0, 1].tolist() == close(golden)
    assert found[0, 1, 0].tolist() == [2, 1, 3, -1, 0.5, 4]
    assert (found[0, 0] == found[0, 1]).all()


def test_f404_f518_half_on_permuted_weights_equals_interleaved():
    weights, hidden = random(24, 24), random(5, 24, seed=6)
    order = [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]
    rows = [12 * head + channel for head in range(2) for channel in order]
    positions = [1, 9, 26, 4100, 70001]
    straight = rotate((hidden @ weights.T).reshape(5, 2, 12), positions, rope(12, 500, "interleaved"))
    permuted = rotate((hidden @ weights[rows].T).reshape(5, 2, 12), positions, rope(12, 500))
    assert permuted == pytest.approx(straight[..., order], abs=1e-12)
    assert np.einsum("shd,thd->hst", permuted, permuted) == pytest.approx(
        np.einsum("shd,thd->hst", straight, straight), abs=1e-11
    )


# -- goldens: scaled and length-dependent ropes, as vectors


def test_f201_f414_declared_scaling_turns_differently():
    scaling = Llama3(factor=16, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=4096)
    cos, sin = tables(rope(96, 3e5, scaling=scaling), [4096])
    plain, _ = tables(rope(96, 3e5), [4096])
    assert cos[0, 20] == pytest.approx(math.cos(4096 * 4.250413936e-3), abs=2e-8)
    assert sin[0, 24] == pytest.approx(math.sin(4096 * 2.226256259e-4), abs=2e-9)
    assert abs(cos - plain)[0, 20:].max() > 0.5


def test_f229_positions_past_the_original_length_are_not_clipped():
    scaled = rope(80, 250000, scaling=Yarn(factor=12, original_max_position_embeddings=6144))
    cos, _ = tables(scaled, [6143, 6144, 9000])
    assert len({row.tobytes() for row in cos}) == 3


def test_f223_the_switch_is_one_past_the_original_length():
    scaling = LongRope(short_factor=[1.0] * 40, long_factor=[2.5] * 40, original_max_position_embeddings=3072)
    switching = rope(80, 1e4, scaling=scaling, max_position_embeddings=49152)
    for length, divisor in ((3072, 1.0), (3073, 2.5), (10, 1.0)):
        _, sin = tables(switching, [7], length=length)
        assert sin[0, 0] == pytest.approx(1.159859982 * math.sin(7 / divisor), rel=1e-9)


def test_f321_f323_one_length_a_row():
    growing = rope(96, 5e4, scaling=Dynamic(factor=3), max_position_embeddings=3072)
    x = random(3, 4, 2, 96)
    positions = [1, 50, 3000, 6999]
    lengths = [10, 7000, 3072]
    found = rotate(x, positions, growing, length=lengths)
    for row, length in enumerate(lengths):
        assert (found[row] == rotate(x[row], positions, growing, length=length)).all()
    assert (found[0] == rotate(x[0], positions, rope(96, 5e4))).all()
    base = 250042.6554
    by_hand = turned_by_hand(x[1, 3, 1].tolist(), 6999, [(i, i + 48) for i in range(48)], ladder(base, 96))
    assert found[1, 3, 1] == pytest.approx(by_hand, abs=2e-4)  # the base is printed to ten digits
    by_row = np.array(positions) + np.array([[0], [5], [11]])
    found = rotate(x, by_row, growing, length=lengths)
    for row, length in enumerate(lengths):
        assert (found[row] == rotate(x[row], by_row[row], growing, length=length)).all()
    cos, sin = tables(growing, positions, length=lengths)
    assert cos.shape == sin.shape == (3, 4, 48)
    assert (cos[1] == tables(growing, positions, length=7000)[0]).all()


# -- scores


def test_scores_of_the_lesson():
    lesson = rope(8, 1e4, "interleaved")
    q, k = [1, 0, 0.5, 0.5, 1, -1, 0.25, 0], [0, 1, 1, 0, 0.5, 0.5, 0, 0.25]
    for (m, n), expected in {(7, 2): -0.709554095, (107, 102): -0.709554095, (7, 3): -0.450741836, (2, 7): 1.587136657,
                             (5, 5): 0.5}.items():  # fmt: skip
        assert score(q, k, m, n, lesson) == pytest.approx(expected, rel=1e-9)
        assert score_from_distance(q, k, m - n, lesson) == pytest.approx(expected, rel=1e-9)


def test_the_magnitude_counts_twice_in_a_score_and_not_on_still_channels():
    scaled = rope(12, 1e4, rotary_dim=6, scaling=Yarn(factor=12, original_max_position_embeddings=4096))
    g, q, k = 1 + 0.1 * math.log(12), random(12), random(12, seed=6)
    at_rest = g * g * (q[:6] @ k[:6]) + q[6:] @ k[6:]
    assert score(q, k, 9, 9, scaled) == pytest.approx(at_rest, rel=1e-13)
    assert score_from_distance(q, k, 0, scaled) == pytest.approx(at_rest, rel=1e-13)


def test_f214_the_softmax_factor_is_not_in_the_score():
    scaling = Yarn(factor=25, original_max_position_embeddings=4096, mscale=0.8, mscale_all_dim=0.8, scale_softmax=True)
    scaled, q, keys = rope(64, 1e4, scaling=scaling), random(64), random(2, 64, seed=6)
    table, pairs = scaled.pairs(), [(i, i + 32) for i in range(32)]
    query = turned_by_hand(q.tolist(), 5, pairs, table.inv_freq.tolist())
    for n, key in enumerate(keys):
        turned = turned_by_hand(key.tolist(), n, pairs, table.inv_freq.tolist())
        expected = sum(a * b for a, b in zip(query, turned, strict=True))
        assert score(q, key, 5, n, scaled) == pytest.approx(expected, rel=1e-10)
    assert table.softmax_factor == pytest.approx(1.581331566, rel=1e-9)


def test_scores_over_several_axes():
    many = rope(16, 1e4, axes=Sections(sections=(4, 3, 1)))
    q, k = random(16), random(16, seed=6)
    assert score(q, k, [3, 11, 6], [1, 2, 9], many) == pytest.approx(
        score_from_distance(q, k, [2, 9, -3], many), rel=1e-12
    )
    assert score(q, k, 5, 2, many) == pytest.approx(score(q, k, 5, 2, rope(16, 1e4)), rel=1e-14)


@pytest.mark.parametrize(
    ("q", "m", "message"),
    [
        ([1, 2], 1, r"head_dim=8 numbers, got shape \[2\]"),
        (["a"] * 8, 1, "a vector must be an array"),
        (X8, [1, 2], r"one number, got \[1, 2\]"),
        (X8, "7", "a position must be an array"),
        (X8, True, "a position must be an array"),
        (X8, float("nan"), "finite, got nan"),
        (X8, None, "a position must be"),
    ],
)
def test_vectors_and_positions_that_scores_refuse(q, m, message):
    with pytest.raises(RopewalkError, match=message):
        score(q, X8, m, 1, rope())
    with pytest.raises(RopewalkError, match=message):
        score_from_distance(q, X8, m, rope())


def test_a_position_for_each_independent_axis():
    with pytest.raises(RopewalkError, match="one number for each of 2 axes, got 3"):
        score(X8, K8, 3, 1, rope(axes=Ladders(widths=(4, 4))))
