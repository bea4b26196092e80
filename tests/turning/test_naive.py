"""The truth: goldens of shared/faults.md, rotation written anew with Python's math, and the laws of turning."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ropewalk import Ladders, Rope, RopewalkError, Sections, Strided, score, score_from_distance, tables
from ropewalk.scaling import Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Yarn
from ropewalk.turning.naive import rotate

X8 = [0.5, -1, 2, 1.5, -0.25, 3, -2, 1]
K8 = [1, 0.5, -1, 2, 0.75, -0.5, 1.5, 0.25]
Y12 = [1, -2, 3, 0.5, -1.5, 2, 0.25, -1, 4, -0.5, 1.5, -3]


def rope(head_dim=8, rope_theta=500, pairing="half", **rest):
    return Rope(head_dim=head_dim, rope_theta=rope_theta, pairing=pairing, **rest)


def one(x, position, description, **rest):
    """Turn one vector by one position."""
    return rotate(np.array(x, dtype=float)[None, None], [position], description, **rest)[0, 0].tolist()


def turned_by_hand(x, position, pairs, inv_freq, g=1.0):
    """Turn each (a, b) of pairs by position·inv_freq radians, in Python's math."""
    out = list(map(float, x))
    for (a, b), w in zip(pairs, inv_freq, strict=True):
        cos, sin = g * math.cos(position * w), g * math.sin(position * w)
        out[a], out[b] = x[a] * cos - x[b] * sin, x[a] * sin + x[b] * cos
    return out


def ladder(theta, width):
    return [theta ** (-2 * i / width) for i in range(width // 2)]


def close(values):
    """Ten printed decimals, or 1e-9 relative."""
    return pytest.approx(values, rel=1e-9, abs=6e-11)


def random(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape)


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


# -- positions


getcontext().prec = 80
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")


def exact_cos(position, w):
    """Give cos of the exact product of two float64 numbers, reduced with 80 digits of π."""
    product = Fraction(position) * Fraction(float(w))
    turns = Decimal(product.numerator) / Decimal(product.denominator) / (2 * PI)
    return math.cos(float((turns - turns.to_integral_value()) * 2 * PI))


@pytest.mark.parametrize("position", [-3, 50000, 131072, 1000003, -1000003, 2**31, 2**40 + 1, 2**53, 0.1, -1234.5678])
def test_f025_angles_of_any_size_and_sign(position):
    cos, _ = tables(rope(96, 3e4), [position])
    for pair in (0, 1, 20, 47):
        w = rope(96, 3e4).pairs().inv_freq[pair]
        rounded = abs(position) * w * 2**-53
        assert cos[0, pair] == pytest.approx(exact_cos(position, w), abs=rounded + 1e-15)


def test_integers_and_floats_of_one_value_are_one_position():
    for dtype in (np.int8, np.int32, np.uint16, np.float32, np.float64):
        assert (tables(rope(), np.array([3, 100], dtype))[0] == tables(rope(), [3, 100])[0]).all()


@pytest.mark.parametrize(
    ("shape", "ids_shape"),
    [
        ((5, 3, 8), (5,)),  # packed [tokens, heads, head_dim]
        ((2, 5, 3, 8), (5,)),
        ((2, 5, 3, 8), (1, 5)),
        ((2, 5, 3, 8), (2, 5)),
        ((2, 5, 3, 8), (1, 2, 5)),  # one axis, written out
        ((4, 2, 5, 3, 8), (2, 5)),
        ((2, 1, 3, 8), (2, 1)),  # decode: one token a row
        ((0, 5, 3, 8), (5,)),
        ((2, 0, 3, 8), (0,)),
    ],
)
def test_position_shapes_that_are_taken(shape, ids_shape):
    x = random(*shape)
    ids = np.random.default_rng(2).integers(-9, 9000, ids_shape)
    found = rotate(x, ids, rope())
    assert found.shape == shape
    spread = np.broadcast_to(ids.reshape(ids.shape[-2:]) if ids.ndim == 3 else ids, shape[:-2])
    for place in np.ndindex(*shape[:-1]):
        expected = turned_by_hand(x[place], int(spread[place[:-1]]), [(i, i + 4) for i in range(4)], ladder(500, 8))
        assert found[place].tolist() == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(
    ("axes", "ids_shape", "table_shape"),
    [
        (None, (5,), (5, 4)),
        (None, (2, 5), (2, 5, 4)),
        (None, (1, 2, 5), (2, 5, 4)),
        (Sections(sections=(2, 1, 1)), (5,), (5, 4)),
        (Sections(sections=(2, 1, 1)), (2, 5), (2, 5, 4)),
        (Sections(sections=(2, 1, 1)), (3, 2, 5), (2, 5, 4)),
        (Strided(), (2, 7, 5), (7, 5, 4)),
        (Ladders(widths=(4, 4)), (2, 1, 5), (1, 5, 4)),
    ],
)
def test_shapes_of_tables(axes, ids_shape, table_shape):
    description = rope() if axes is None else rope(axes=axes)
    cos, sin = tables(description, np.zeros(ids_shape, int))
    assert cos.shape == sin.shape == table_shape
    assert (cos == 1).all()
    assert (sin == 0).all()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (5, r"\[seq\] or \[batch, seq\] .*, got shape \[\]"),
        ([[[[1]]]], r"got shape \[1, 1, 1, 1\]"),
        (np.zeros((3, 2, 5)), r"got shape \[3, 2, 5\]"),
        ([1.0, float("nan")], "finite, got nan"),
        ([1.0, float("inf")], "finite, got inf"),
        ([True, False], "array of integers or floats"),
        (["1", "2"], r"array of integers or floats, got \['1', '2'\]"),
        ([[1, 2], [3]], "array of integers or floats"),
        (None, "array of integers or floats, got None"),
        ([1 + 2j], "array of integers or floats"),
        ([2**70], "array of integers or floats"),
        ([2**53 + 1], r"within ±2\^53 = 9007199254740992, .*got 9007199254740993"),
        ([-(2**53) - 1, 0], "got -9007199254740993 to 0"),
    ],
)
def test_positions_that_are_refused(ids, message):
    with pytest.raises(RopewalkError, match=message):
        tables(rope(), ids)
    with pytest.raises(RopewalkError):
        rotate(random(2, 5, 3, 8), ids, rope())


@pytest.mark.parametrize("axes", [Ladders(widths=(4, 4)), Strided()], ids=repr)
@pytest.mark.parametrize("ids_shape", [(5,), (2, 5), (3, 2, 5), (1, 2, 5)])
def test_several_independent_axes_need_a_row_each(axes, ids_shape):
    with pytest.raises(RopewalkError, match=r"\[axes=2, batch, seq\] for this rope, got shape"):
        rotate(random(2, 5, 3, 8), np.zeros(ids_shape, int), rope(axes=axes))


@pytest.mark.parametrize(
    ("shape", "ids_shape"),
    [((2, 5, 3, 8), (4,)), ((2, 5, 3, 8), (3, 5)), ((2, 5, 3, 8), (2, 3)), ((5, 3, 8), (2, 5)), ((2, 3, 5, 8), (5,))],
)
def test_positions_that_do_not_fit_x_show_both_shapes(shape, ids_shape):
    with pytest.raises(RopewalkError) as caught:
        rotate(random(*shape), np.zeros(ids_shape, int), rope())
    assert str(list(shape)) in str(caught.value)
    assert str(list(ids_shape)) in str(caught.value)
    assert f"[seq={shape[-3]}]" in str(caught.value)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((5, 8)), r"head_dim=8\], got shape \[5, 8\]"),
        (np.zeros((2, 5, 3, 9)), r"got shape \[2, 5, 3, 9\]"),
        (0.5, r"got shape \[\]"),
        ([["a"]], "x must be an array of integers or floats"),
        (None, "x must be an array"),
        ([[1, 2], [3]], "x must be an array"),
        (np.zeros((5, 3, 8), complex), "x must be an array"),
        (np.zeros((5, 3, 8), bool), "x must be an array"),
    ],
)
def test_x_that_is_refused(x, message):
    with pytest.raises(RopewalkError, match=message):
        rotate(x, [0, 1, 2, 3, 4], rope())


def test_the_input_is_left_alone_and_the_output_is_float64():
    for dtype in (np.float16, np.float32, np.float64, np.int64):
        x = (random(4, 3, 8) * 9).astype(dtype)
        kept = x.copy()
        found = rotate(x, [1, 2, 3, 4], rope())
        assert (x == kept).all()
        assert found.dtype == np.float64
        assert not np.shares_memory(found, x)


def test_an_angle_beyond_float64_is_an_error():
    with pytest.raises(RopewalkError, match="leaves float64"):
        tables(rope(8, 1e-100), [1e300])
    with pytest.raises(RopewalkError, match="leaves float64"):
        rotate(random(1, 2, 8), [1e300], rope(8, 1e-100))


def test_axes_by_seq_is_never_a_shape_of_positions():
    many = rope(16, 1e4, axes=Sections(sections=(4, 3, 1)))
    with pytest.raises(RopewalkError, match=r"position_ids \[3, 5\] do not fit x \[5, 2, 16\]"):
        rotate(random(5, 2, 16), np.zeros((3, 5), int), many)


class Unseen:
    """Like a torch tensor that NumPy cannot take: one that needs a gradient, is bfloat16, or lies on a GPU."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("requires grad"), TypeError("bfloat16")])
def test_tensors_that_numpy_cannot_take_say_what_to_do(error):
    for x, ids in ((Unseen(error), [1, 2]), (random(2, 3, 8), Unseen(error))):
        with pytest.raises(RopewalkError, match="detached, on the CPU and not bfloat16"):
            rotate(x, ids, rope())


# -- length


GROWING = rope(96, 5e4, scaling=Dynamic(factor=3), max_position_embeddings=3072)


@pytest.mark.parametrize(
    "call",
    [
        lambda **rest: tables(GROWING, [1], **rest),
        lambda **rest: rotate(random(1, 2, 96), [1], GROWING, **rest),
        lambda **rest: score(random(96), random(96), 1, 2, GROWING, **rest),
        lambda **rest: score_from_distance(random(96), random(96), 1, GROWING, **rest),
    ],
)
def test_a_length_dependent_rope_needs_a_length(call):
    with pytest.raises(RopewalkError, match="dynamic scaling depends on the length of the sequence: pass length="):
        call()
    call(length=10)
    call(length=np.int64(10))
    call(length=np.array(10))
    for bad in (-1, 2.5, True, "10", [[1], [2]], [], float("nan"), [1, [2]]):
        with pytest.raises(RopewalkError, match="length must be"):
            call(length=bad)


def test_lengths_must_be_one_a_row():
    x = random(3, 4, 2, 96)
    for lengths in ([10], [10, 20], [10, 20, 30, 40]):
        with pytest.raises(RopewalkError, match=rf"got {len(lengths)} lengths for x \[3, 4, 2, 96\]"):
            rotate(x, [1, 2, 3, 4], GROWING, length=lengths)
    with pytest.raises(RopewalkError, match="one a row"):
        rotate(x[0], [1, 2, 3, 4], GROWING, length=[10])
    with pytest.raises(RopewalkError, match="got 2 for 3 rows"):
        tables(GROWING, np.zeros((3, 4)), length=[10, 20])
    with pytest.raises(RopewalkError, match="one whole number"):
        score_from_distance(random(96), random(96), 1, GROWING, length=[10])


def test_a_list_of_one_length_keeps_the_batch():
    ids = np.arange(4)[None]
    assert tables(GROWING, ids, length=[7000])[0].shape == (1, 4, 48)
    x = random(1, 4, 2, 96)
    found = rotate(x, ids, GROWING, length=[7000])
    assert (found == rotate(x, ids, GROWING, length=7000)).all()


def test_a_length_changes_nothing_elsewhere():
    x = random(2, 4, 3, 8)
    assert (rotate(x, [0, 1, 2, 3], rope(), length=[5, 10**6]) == rotate(x, [0, 1, 2, 3], rope())).all()


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
