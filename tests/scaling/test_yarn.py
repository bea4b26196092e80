"""YaRN, against goldens of shared/faults.md (F206: D=80, theta 250000, factor 12, L0 6144) and formulas.md 2.5."""

import math

import numpy as np
import pytest

from ropewalk import RopewalkError
from ropewalk.scaling import Default, Yarn

F206 = {"factor": 12, "original_max_position_embeddings": 6144}


def by_hand(theta, width, s, original, fast=32.0, slow=1.0, truncate=True):
    """formulas.md 2.5 in Python's math: (low, high, inv_freq)."""
    low, high = (width * math.log(original / (2 * math.pi * r)) / (2 * math.log(theta)) for r in (fast, slow))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    out = []
    for i in range(width // 2):
        ramp = min(max((i - low) / ((high - low) or 0.001), 0), 1)
        w = theta ** (-2 * i / width)
        out.append(w / s * ramp + w * (1 - ramp))
    return low, high, out


def divisors(**changes):
    plain = np.array([250000 ** (-2 * i / 80) for i in range(40)])
    return plain / Yarn(**{**F206, **changes}).frequencies(250000, 80).inv_freq


def test_f206_bounds_raw_and_rounded():
    raw = Yarn(**F206, truncate=False)
    assert raw.bounds(250000, 80) == pytest.approx((11.00509719, 22.15861113), rel=1e-9)
    assert Yarn(**F206).bounds(250000, 80) == (11, 23)


def test_f206_frequencies_raw_and_rounded():
    raw = Yarn(**F206, truncate=False).frequencies(250000, 80)
    rounded = Yarn(**F206).frequencies(250000, 80)
    assert raw.inv_freq[22] == pytest.approx(1.035309897e-4, rel=1e-9)
    assert rounded.inv_freq[22] == pytest.approx(1.715925148e-4, rel=1e-9)
    assert 2000 * abs(raw.inv_freq - rounded.inv_freq).max() == pytest.approx(0.438048, abs=5e-7)
    assert raw.cos_sin_factor == rounded.cos_sin_factor == pytest.approx(1.248490665, rel=1e-9)


def test_f132_the_range_comes_from_the_original_length():
    assert Yarn(factor=12, original_max_position_embeddings=73728).bounds(250000, 80) == (19, 31)
    wrong = Yarn(factor=12, original_max_position_embeddings=73728).frequencies(250000, 80).inv_freq
    assert wrong[23] / Yarn(**F206).frequencies(250000, 80).inv_freq[23] == pytest.approx(8.333333, rel=1e-6)


def test_f207_high_is_clamped_to_the_width_not_to_the_pairs():
    scaling = Yarn(factor=6, original_max_position_embeddings=65536)
    raw = Yarn(factor=6, original_max_position_embeddings=65536, truncate=False)
    assert raw.bounds(5000, 48) == pytest.approx((16.30605, 26.07191), abs=5e-6)
    assert scaling.bounds(5000, 48) == (16, 27)
    fault = 5000 ** (-46 / 48) / 6  # with high 23 the last pair is wholly interpolated
    assert 1 - fault / scaling.frequencies(5000, 48).inv_freq[23] == pytest.approx(0.645, abs=5e-4)


def test_high_past_the_width_is_clamped_to_the_width_minus_1():
    assert Yarn(factor=6, original_max_position_embeddings=2**30, beta_fast=2**20).bounds(5000, 48) == (14, 47)


def test_f209_swapped_betas_are_an_error_with_both():
    with pytest.raises(RopewalkError, match=r"beta_fast=1, beta_slow=32\. They look swapped"):
        Yarn(**F206, beta_fast=1, beta_slow=32)


def test_f210_a_low_below_0_becomes_0():
    scaling = {"factor": 4, "original_max_position_embeddings": 200}
    assert Yarn(**scaling).bounds(20000, 48) == (0, 9)
    low, high = (24 * math.log(200 / (2 * math.pi * r)) / math.log(20000) for r in (32, 1))
    assert low == pytest.approx(-0.01283, abs=5e-6)
    assert Yarn(**scaling, truncate=False).bounds(20000, 48) == pytest.approx((0, high), rel=1e-14)


def test_f210_equal_betas_make_a_step():
    kimi = Yarn(factor=32, original_max_position_embeddings=4096, beta_fast=1, beta_slow=1)
    plain = np.array([5e4 ** (-2 * i / 64) for i in range(32)])
    found = plain / kimi.frequencies(5e4, 64).inv_freq
    assert found.tolist() == pytest.approx([1] * 20 + [32] * 12, rel=1e-12)


def test_equal_bounds_make_a_step():
    # betas a hair apart, unrounded: one number for both bounds
    scaling = Yarn(factor=8, original_max_position_embeddings=4096, beta_fast=2, beta_slow=2, truncate=False)
    low, high = scaling.bounds(1e4, 48)
    assert low == high
    found = scaling.frequencies(1e4, 48).inv_freq
    plain = [1e4 ** (-2 * i / 48) for i in range(24)]
    assert found.tolist() == pytest.approx([w if i <= low else w / 8 for i, w in enumerate(plain)], rel=1e-12)


def test_both_bounds_zero_keep_pair_0_only():
    scaling = Yarn(factor=8, original_max_position_embeddings=6)  # even pair 0 turns less than once: high is -0.02
    assert scaling.bounds(1e4, 10) == (0, 0)
    found = scaling.frequencies(1e4, 10).inv_freq
    assert found[0] == 1
    assert found[1:].tolist() == pytest.approx([1e4 ** (-2 * i / 10) / 8 for i in range(1, 5)], rel=1e-14)


@pytest.mark.parametrize(
    ("theta", "original"),
    [(1e4, 2), (10.0, 2**40)],  # no pair turns beta_slow times; every pair turns more than beta_fast times
)
def test_a_range_that_does_not_exist_is_an_error_with_the_numbers(theta, original):
    with pytest.raises(RopewalkError, match=rf"original_max_position_embeddings={original}; check"):
        Yarn(factor=8, original_max_position_embeddings=original).frequencies(theta, 48)


@pytest.mark.parametrize("theta", [1.0, 0.5])
def test_theta_not_above_1_is_an_error(theta):
    with pytest.raises(RopewalkError, match=rf"rope_theta above 1 .*got {theta:g}"):
        Yarn(**F206).frequencies(theta, 80)
    assert (Yarn(**{**F206, "factor": 1}).frequencies(theta, 80).inv_freq == Default().frequencies(theta, 80)[0]).all()


def test_theta_just_above_1_is_an_error_not_a_crash():
    with pytest.raises(RopewalkError):
        Yarn(**F206).frequencies(1 + 2**-52, 80)


def test_f211_f212_fast_pairs_keep_the_plain_frequency_and_slow_ones_are_divided():
    assert Yarn(**F206).frequencies(250000, 80).inv_freq[1] == pytest.approx(0.7329114386, rel=1e-9)
    assert divisors()[[0, 10, 15, 20, 25, 39]].tolist() == pytest.approx([1, 1, 1.44, 3.2, 12, 12], rel=1e-9)


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("theta", "width", "s", "original", "fast", "slow"),
    [
        (1e4, 64, 40, 4096, 32, 1),
        (1.5e5, 64, 32, 4096, 32, 1),
        (2e5, 96, 5.5, 3000, 27.5, 1.7),
        (7e5, 10, 3, 5000, 9, 2),
        (1e4, 6, 2, 77, 3, 0.5),
    ],
)
def test_every_pair_follows_the_formula(theta, width, s, original, fast, slow, truncate):
    scaling = Yarn(
        factor=s, original_max_position_embeddings=original, beta_fast=fast, beta_slow=slow, truncate=truncate
    )
    low, high, expected = by_hand(theta, width, s, original, fast, slow, truncate)
    assert scaling.bounds(theta, width) == pytest.approx((low, high), rel=1e-13)
    assert scaling.frequencies(theta, width).inv_freq.tolist() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(
    ("fault", "given", "cos_sin", "softmax"),
    [
        ("F206", {"factor": 12}, 1.248490665, 1.0),
        ("F134 apply_scale false", {"factor": 18, "attention_factor": 1.0}, 1.0, 1.0),
        ("F134 apply_scale true", {"factor": 18}, 1.289037176, 1.0),
        ("F135", {"factor": 6}, 1.179175947, 1.0),
        ("F213", {"factor": 20, "mscale": 1.0, "mscale_all_dim": 0.5, "scale_softmax": True}, 1.130273402, 1.322009257),
        ("F213 outside MLA", {"factor": 20, "mscale": 1.0, "mscale_all_dim": 0.5}, 1.130273402, 1.0),
        ("F214", {"factor": 25, "mscale": 0.8, "mscale_all_dim": 0.8, "scale_softmax": True}, 1.0, 1.581331566),
        ("F216 equal pair", {"factor": 12, "mscale": 1.0, "mscale_all_dim": 1.0}, 1.0, 1.0),
        ("F216 lone mscale", {"factor": 12, "mscale": 0.8}, 1.248490665, 1.0),
        ("F216 zero", {"factor": 12, "mscale": 0.8, "mscale_all_dim": 0, "scale_softmax": True}, 1.248490665, 1.0),
        ("F217 derived", {"factor": 50}, 1.391202301, 1.0),
        ("F217 verbatim", {"factor": 50, "attention_factor": 1.0}, 1.0, 1.0),
        ("at most 1", {"factor": 0.5, "mscale": 2.0, "mscale_all_dim": 3.0, "scale_softmax": True}, 1.0, 1.0),
    ],
)
def test_both_magnitudes(fault, given, cos_sin, softmax):
    found = Yarn(original_max_position_embeddings=4096, **given).frequencies(1e4, 64)
    assert found.cos_sin_factor == pytest.approx(cos_sin, rel=1e-9)
    assert found.softmax_factor == pytest.approx(softmax, rel=1e-9)


def test_f134_softmax_scale_of_mla():
    full = Yarn(
        factor=18, original_max_position_embeddings=8192, mscale=1.0, mscale_all_dim=1.0, scale_softmax=True
    ).softmax_factor
    assert 96**-0.5 * full == pytest.approx(0.1695880586, rel=1e-9)
    off = Yarn(factor=18, original_max_position_embeddings=8192, attention_factor=1.0).softmax_factor
    assert 96**-0.5 * off == pytest.approx(0.1020620726, rel=1e-9)


@pytest.mark.parametrize(
    "given",
    [
        {"factor": 1e-310},
        {"beta_fast": 1e308},
        {"beta_slow": 5e-324},
        {"mscale": 1e308, "mscale_all_dim": 1e308, "factor": 1e300},
        {"mscale_all_dim": 1e200, "scale_softmax": True},
        {"attention_factor": 0},
        {"mscale": -1},
        {"truncate": 1},
        {"truncate": "false"},
        {"scale_softmax": None},
        {"beta_fast": True},
    ],
)
def test_numbers_out_of_range_are_ropewalk_errors(given):
    with pytest.raises(RopewalkError):
        Yarn(**{**F206, **given}).frequencies(1e4, 80)
