"""Exhibits of frequencies and scaling, M13 to M29, by numbers worked out elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from ropewalk import Rope
from ropewalk.scaling import Llama3, Yarn
from ropewalk.turning import naive

from .exhibited import BY_ID, MUTANTS, base_of, call, fault, half_frequencies, named, some_ids, truth, turn_one, vectors


@named([one for one in MUTANTS if one.entry in {"M13", "M14", "M15"}])
def test_m13_to_m15_are_plain_ropes_of_another_base(one):
    theta = one.expect.rope_theta
    used = {"M13": theta**0.5, "M14": one.parameters.get("used"), "M15": theta}[one.entry]
    plain = Rope(head_dim=one.expect.head_dim, rope_theta=used, pairing=one.expect.pairing)
    x, ids = vectors(one), some_ids(one, 5000)
    np.testing.assert_allclose(call(one, x, ids), naive.rotate(x, ids, plain), atol=1e-9)


@named([one for one in MUTANTS if one.entry == "M16"])
def test_m16_is_the_declared_rope_with_factor_8(one):
    pinned = replace(one.expect, scaling=replace(one.expect.scaling, factor=8.0))
    x, ids = vectors(one), some_ids(one, 5000)
    np.testing.assert_allclose(call(one, x, ids), naive.rotate(x, ids, pinned), atol=1e-9)
    assert one.expect.scaling.factor != 8


def test_f204_declares_the_golden_llama3_ladder():
    assert isinstance(BY_ID["M17"].expect.scaling, Llama3)
    inv_freq = BY_ID["M17"].expect.pairs().inv_freq
    assert (inv_freq[20], inv_freq[24]) == pytest.approx((4.250413936e-3, 2.226256259e-4), rel=1e-9)


@pytest.mark.parametrize(
    ("id", "divisors"),
    [
        ("M17", [81.39846658, 35.26698378, 24.49405411, 19.75719483, 17.14645773]),  # F202
        ("M18", [15.12532599, 13.36005090, 11.06433002, 8.078770192, 4.196082394]),  # F203
    ],
)
def test_m17_and_m18_bend_the_middle_band_of_llama3(id, divisors):
    angles, _ = half_frequencies(BY_ID[id].make(), 96)
    found = 300_000.0 ** (-np.arange(0, 96, 2) / 96) / angles
    np.testing.assert_allclose(found[20:25], divisors, rtol=1e-8)
    np.testing.assert_allclose(found[[0, 19, 25, 47]], [1, 1, 16, 16])


def test_f206_declares_the_golden_yarn_ladder():
    rounded = BY_ID["M21"].expect
    assert isinstance(rounded.scaling, Yarn) and rounded.pairs().cos_sin_factor == pytest.approx(1.248490665, abs=1e-9)
    assert rounded.pairs().inv_freq[22] == pytest.approx(1.715925148e-4, rel=1e-9)
    assert BY_ID["M19a"].expect.pairs().inv_freq[22] == pytest.approx(1.035309897e-4, rel=1e-9)


def test_m19_rounds_where_it_must_not_and_the_reverse():
    rounded, g = half_frequencies(BY_ID["M19a"].make(), 80)
    assert rounded[22] == pytest.approx(1.715925148e-4, rel=1e-8)
    np.testing.assert_allclose(g, 1.248490665, atol=1e-9)
    assert half_frequencies(BY_ID["M19b"].make(), 80)[0][22] == pytest.approx(1.035309897e-4, rel=1e-8)
    gap = 2000 * np.abs(rounded - BY_ID["M19a"].expect.pairs().inv_freq).max()
    assert gap == pytest.approx(0.438048, abs=1e-6)


def test_m20_holds_the_upper_bound_within_the_pairs():
    plain = 5000.0 ** (-np.arange(0, 48, 2) / 48)
    right, wrong = BY_ID["M20"].expect.pairs().inv_freq, half_frequencies(BY_ID["M20"].make(), 48)[0]
    np.testing.assert_allclose(wrong[:17], plain[:17])
    np.testing.assert_allclose(wrong[23], plain[23] / 6)
    assert right[23] / wrong[23] - 1 > 0.6 and 1 - wrong[23] / right[23] == pytest.approx(0.645, abs=0.001)  # F207


def test_m21_divides_fast_pairs_and_keeps_slow_ones():
    divisors = 250_000.0 ** (-np.arange(0, 80, 2) / 80) / half_frequencies(BY_ID["M21"].make(), 80)[0]
    expected = [12, 12, 2.571428571, 1.297297297, 1, 1]
    np.testing.assert_allclose(divisors[[0, 10, 15, 20, 25, 39]], expected, rtol=1e-8)  # F212


def test_m22_has_the_factor_inside_the_power():
    angles = half_frequencies(BY_ID["M22"].make(), 80)[0]
    np.testing.assert_allclose(angles[23:], (12 * 250_000.0) ** (-np.arange(46, 80, 2) / 80))  # fully interpolated
    np.testing.assert_allclose(angles[:12], 250_000.0 ** (-np.arange(0, 24, 2) / 80))
    # F208: the interpolated branch alone, made visible by an original length at which every pair is interpolated
    everywhere = half_frequencies(
        fault("M22", head_dim=80, rope_theta=250_000.0, factor=12.0, original_max_position_embeddings=7), 80
    )[0]
    assert everywhere[1] == pytest.approx(0.6887664, abs=1e-7)


def test_m23_stretches_the_base_of_pairs_that_are_kept():
    angles = half_frequencies(BY_ID["M23"].make(), 80)[0]
    assert angles[1] == pytest.approx(0.6876701700, abs=1e-9)  # F211: 0.7329114386 is right
    np.testing.assert_allclose(angles[23:], 250_000.0 ** (-np.arange(46, 80, 2) / 80) / 12)


def test_m24_and_m25_carry_the_magnitude_never_or_twice():
    angles, g = half_frequencies(BY_ID["M24a"].make(), 80)
    np.testing.assert_allclose(angles, BY_ID["M24a"].expect.pairs().inv_freq, rtol=1e-9)
    np.testing.assert_allclose(g, 1)
    np.testing.assert_allclose(half_frequencies(BY_ID["M24b"].make(), 80)[1], 1)
    assert BY_ID["M24b"].expect.pairs(10).cos_sin_factor == pytest.approx(1.159859982, abs=1e-9)  # F223
    angles, g = half_frequencies(BY_ID["M25a"].make(), 80)
    np.testing.assert_allclose(angles, BY_ID["M25a"].expect.pairs().inv_freq, rtol=1e-9)
    np.testing.assert_allclose(g, 1.248490665**2, atol=1e-8)


def test_m25_reaches_channels_that_do_not_turn():
    turned = turn_one(BY_ID["M25b"].make(), np.ones(96), 0)
    np.testing.assert_allclose(turned, 1.248490665, atol=1e-9)  # F215: channels 48 … must stay 1
    declared = naive.rotate(np.ones((1, 1, 1, 96)), [0], BY_ID["M25b"].expect)[0, 0, 0]
    np.testing.assert_allclose(declared[48:], 1)


F218 = {3073: 50049.86754, 4500: 121971.6882, 7000: 250042.6554, 15_000: 667504.9284}


@pytest.mark.parametrize("length", F218)
def test_f218_declares_the_golden_bases(length):
    assert BY_ID["M26"].expect.pairs(length).inv_freq[1] ** (-48) == pytest.approx(F218[length], rel=1e-8)
    assert base_of(BY_ID["V27c"].make(), 96, length) == pytest.approx(F218[length], rel=1e-8)


def test_m26_has_the_longest_base_at_every_length():
    for length in (10, 3072, 7000):
        assert base_of(BY_ID["M26"].make(), 96, length) == pytest.approx(364794.9803, rel=1e-8)  # F219


def test_m27_keeps_the_base_of_the_longest_call():
    fn = BY_ID["M27"].make()
    assert base_of(fn, 96, 10) == pytest.approx(50_000, rel=1e-8)
    assert base_of(fn, 96, 7000) == pytest.approx(250042.6554, rel=1e-8)
    assert base_of(fn, 96, 10) == pytest.approx(250042.6554, rel=1e-8)  # F321
    assert base_of(BY_ID["M27"].make(), 96, 10) == pytest.approx(50_000, rel=1e-8)


def first_angle(fn, ids):
    """Give the angle and factor of pair 0 for the last id of a call."""
    x = np.zeros((1, len(ids), 1, 80))
    x[..., 0] = 1
    turned = fn(x, np.array(ids))[0, -1, 0]
    return np.arctan2(turned[40], turned[0]), np.hypot(turned[0], turned[40])


def test_m28_uses_the_long_list_always_and_m29_one_token_early():
    for id, length, expected in (
        ("V16b", 10, 1.0),
        ("V16b", 3072, 1.0),
        ("V16b", 3073, 0.4),
        ("M28", 10, 0.4),  # F224
        ("M28", 3073, 0.4),
        ("M29a", 3071, 1.0),
        ("M29a", 3072, 0.4),  # F223
        ("M29a", 3073, 0.4),
    ):
        angle, g = first_angle(BY_ID[id].make(), [length - 1, 1])
        assert (angle, g) == pytest.approx((expected, 1.159859982), abs=1e-9)


def test_m29_reads_row_0_of_the_long_table_at_the_switch():
    fn = BY_ID["M29b"].make()
    x = np.ones((1, 1, 1, 80))
    right = {m: naive.rotate(x, [m], BY_ID["M29b"].expect, length=m + 1) for m in (3071, 3072, 3073)}
    np.testing.assert_allclose(fn(x, np.array([3071])), right[3071], atol=1e-9)
    np.testing.assert_allclose(fn(x, np.array([3072])), 1.159859982 * x, atol=1e-9)  # angle 0
    np.testing.assert_allclose(fn(x, np.array([3073])), right[3073], atol=1e-9)


@named([one for one in MUTANTS if one.entry in {"M27", "M28", "M29"}])
def test_m27_to_m29_deviate_in_the_calls_that_show_them_and_in_no_others(one):
    scaling = one.expect.scaling
    switch = getattr(scaling, "original_max_position_embeddings", one.expect.max_position_embeddings)
    # highest ids of calls made one after another, and whether each is right
    told = {
        "M27": [(9, True), (2 * switch, True), (9, False), (2 * switch + 9, True)],
        "M28": [(9, False), (switch - 1, False), (switch, True), (2 * switch, True)],
        "M29a": [(9, True), (switch - 2, True), (switch - 1, False), (switch, True)],
        "M29b": [(9, True), (switch - 1, True), (switch, False), (switch + 1, True)],
    }[one.id.split(".")[0]]
    fn = one.make()
    for last, right in told:
        x, ids = vectors(one), np.array([[1, 0, 3, 2, last], [4, last, 5, 1, 8]])
        assert np.allclose(call(one, x, ids, fn=fn), truth(one, x, ids), atol=1e-8) is right
