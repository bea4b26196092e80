"""Exhibits of pairing and width, M01 to M12, by numbers worked out elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from ropewalk import Rope
from ropewalk.turning import naive

from .exhibited import BY_ID, K8, X8, fault, frequencies, half_frequencies, turn_one


def test_m01_and_its_reverse_at_position_4():
    small = {"head_dim": 8, "rope_theta": 500.0}
    interleaved = [-1.0836243057, 0.2752423732, 0.2032708769, 2.4917224867]
    interleaved += [-0.7798093789, 2.9076446366, -2.0363897293, 0.9236432594]
    half = [-0.5160224343, -2.9087586332, 2.3239510581, 1.4611061733]
    half += [-0.2149903424, 1.2406140470, -1.6122194267, 1.0560155067]
    np.testing.assert_allclose(turn_one(fault("M01a", **small), X8, 4), interleaved, atol=1e-9)  # F401
    np.testing.assert_allclose(turn_one(fault("M01b", **small), X8, 4), half, atol=1e-9)


@pytest.mark.parametrize(
    ("id", "starts", "scores"),
    [
        (
            "M02a",
            [-0.5160224343, 2.9240511068, 2.8232525254, 0.2460239309],
            (-6.868342986, -2.064475363),
        ),
        ("M03a", [-1.0836243057, -0.2887769848, 1.7011858806, 1.5745680996], (0.1152817960, 2.544146424)),
    ],
)
def test_m02_and_m03_hybrids_lose_the_relative_property(id, starts, scores):
    fn = fault(id, head_dim=8, rope_theta=500.0)
    np.testing.assert_allclose(turn_one(fn, X8, 4)[: len(starts)], starts, atol=1e-9)  # F402, F403
    for (m, n), score in zip(((9, 4), (26, 21)), scores, strict=True):
        assert turn_one(fn, X8, m) @ turn_one(fn, K8, n) == pytest.approx(score, abs=1e-8)


@pytest.mark.parametrize(("id", "pairing"), [("M04a", "half"), ("M04b", "interleaved")])
def test_m04_turns_by_the_negative_angle(id, pairing):
    fn = fault(id, head_dim=8, rope_theta=500.0)
    rope = Rope(head_dim=8, rope_theta=500.0, pairing=pairing)
    np.testing.assert_allclose(turn_one(fn, X8, 4), naive.rotate(X8[None, None, None], [-4], rope)[0, 0, 0])
    if pairing == "half":
        np.testing.assert_allclose(turn_one(fn, X8, 4)[:2], [-0.1376211866, 1.5826384784], atol=1e-9)  # F405
    assert turn_one(fn, X8, 9) @ turn_one(fn, K8, 4) == pytest.approx(turn_one(fn, X8, 26) @ turn_one(fn, K8, 21))


def test_m05_takes_tables_for_angles():
    fn = fault("M05", head_dim=4, rope_theta=500.0)
    assert turn_one(fn, [1, 0, 0, 0], 2)[0] == pytest.approx(0.9146533259, abs=1e-10)  # F406
    assert turn_one(fn, [1, 0, 0, 0], 0)[0] == pytest.approx(np.cos(1))


def test_m06_exchanges_cos_and_sin():
    fn = fault("M06", head_dim=8, rope_theta=500.0)
    np.testing.assert_allclose(turn_one(fn, X8, 0), np.r_[-X8[4:], X8[:4]])
    angles, _ = half_frequencies(fn, 8, position=1)
    np.testing.assert_allclose(angles, np.pi / 2 - 500.0 ** (-np.arange(0, 8, 2) / 8))


Y = [1, -2, 3, 0.5, -1.5, 2, 0.25, -1, 4, -0.5, 1.5, -3]
PROPORTIONAL = [0.5896556047, 2.1944358263, -1.1809528705, 0.5, -1.5, 2, 0.8454621623, -0.4294780605, 4.8585337621]
ORDINARY = [0.4254089550, -0.1133373488, 2.7597191133, 1.0339377259, -2.4974296077, 2.3203341173]
INTERLEAVED = [2.0678754518, -0.8508179100, 1.5209649171, 2.6337550609, -1.7125282009, 1.8213311508]
TAIL = [0.5169688629, -1.7936158236, 4.3079995903, -0.2127044775, 0.1815000755, -2.5379400171]
HALF_HEAD = {"head_dim": 12, "rotary_dim": 6, "rope_theta": 500.0}


def test_m07_turns_pairs_of_the_full_head_by_the_angles_of_the_part():
    turned = turn_one(BY_ID["M07.2"].make(), Y, 7)
    expected = np.array(Y, dtype=float)
    for i in range(3):
        a = 7 * 500.0 ** (-2 * i / 6)
        expected[i] = Y[i] * np.cos(a) - Y[i + 6] * np.sin(a)
        expected[i + 6] = Y[i + 6] * np.cos(a) + Y[i] * np.sin(a)
    np.testing.assert_allclose(turned, expected, atol=1e-12)  # F415


def test_m08_turns_the_first_channels_where_the_last_are_declared():
    for pairing, first in (("half", ORDINARY), ("interleaved", INTERLEAVED)):
        fn = fault("M08", **HALF_HEAD, rotary_start=6, pairing=pairing)
        np.testing.assert_allclose(turn_one(fn, Y, 7), first + Y[6:], atol=1e-9)  # F416
    declared = replace(BY_ID["M08"].expect, head_dim=12, rotary_dim=6, rotary_start=6, rope_theta=500.0)
    np.testing.assert_allclose(naive.rotate([[[Y]]], [7], declared)[0, 0, 0, 6:], TAIL, atol=1e-9)


def test_m09_turns_the_whole_head_and_m10_a_part_of_the_part():
    partial = {"head_dim": 96, "rotary_dim": 48, "rope_theta": 300_000.0}
    angles, _ = half_frequencies(fault("M09", **partial), 96)
    np.testing.assert_allclose(angles[1], 0.7689415118, atol=1e-9)  # F107: θ 3e5, D 96
    x = np.ones(96)
    moved = np.flatnonzero(turn_one(fault("M10", **partial), x, 5) != x)
    assert (moved.min(), moved.max()) == (0, 23)  # F120: 24 channels where 48 are declared
    np.testing.assert_allclose(
        half_frequencies(fault("M10", **partial), 96, rotary_dim=24)[0], 300_000.0 ** (-np.arange(0, 24, 2) / 24)
    )


def test_m11_confuses_the_two_meanings_of_partial():
    proportional = turn_one(fault("M11a", **HALF_HEAD), Y, 7)
    np.testing.assert_allclose(proportional, PROPORTIONAL + Y[9:], atol=1e-9)  # F416
    ordinary = fault("M11b", head_dim=12, rope_theta=500.0, partial_rotary_factor=0.5)
    np.testing.assert_allclose(turn_one(ordinary, Y, 7), ORDINARY + Y[6:], atol=1e-9)
    gemma = {"head_dim": 160, "rope_theta": 200_000.0}
    angles, _ = half_frequencies(fault("M11b", **gemma, partial_rotary_factor=0.3), 160, rotary_dim=48)
    assert angles[1] == pytest.approx(0.6013450635, abs=1e-9)  # F121
    angles, _ = half_frequencies(fault("M11a", **gemma, rotary_dim=48), 160)
    assert (angles[1], angles[23]) == pytest.approx((0.8584937249, 0.02991946863), abs=1e-9)
    assert np.abs(angles[24:]).max() == 0


def test_m12_has_the_right_pairs_and_the_ladder_of_the_head():
    partial = {"head_dim": 96, "rotary_dim": 48, "rope_theta": 300_000.0}
    for fn, pairs in (
        (fault("M12a", **partial), (range(24), range(24, 48))),
        (fault("M12b", **partial), (range(0, 48, 2), range(1, 48, 2))),
    ):
        angles, _ = frequencies(fn, *pairs, 96)
        np.testing.assert_allclose(angles, 300_000.0 ** (-np.arange(0, 48, 2) / 96))
        assert angles[1] == pytest.approx(0.7689415118, abs=1e-9)  # F119: 0.5912710485 is right
