"""LongRoPE, against goldens of shared/faults.md (F223: L0 3072, Lmax 49152, D=80, short all 1, long all 2.5)."""

import math

import pytest

from ropewalk import Rope, RopewalkError
from ropewalk.scaling import LongRope

F223 = {"short_factor": [1.0] * 40, "long_factor": [2.5] * 40, "original_max_position_embeddings": 3072}


def frequencies(length=None, **changes):
    return LongRope(**{**F223, **changes}).frequencies(1e4, 80, length=length, max_position_embeddings=49152)


@pytest.mark.parametrize(
    ("length", "first"), [(None, 1.0), (1, 1.0), (10, 1.0), (3071, 1.0), (3072, 1.0), (3073, 0.4), (49152, 0.4)]
)
def test_f223_f224_the_long_list_starts_one_past_the_original_length(length, first):
    assert frequencies(length).inv_freq[0] == first
    assert frequencies(length).cos_sin_factor == pytest.approx(1.159859982, rel=1e-9)


def test_each_pair_has_a_divisor_of_its_own():
    short, long = [1 + 0.01 * i for i in range(40)], [2 + 0.5 * i for i in range(40)]
    for length, divisors in ((3072, short), (3073, long)):
        found = frequencies(length, short_factor=short, long_factor=long).inv_freq.tolist()
        expected = [1 / (divisor * 1e4 ** (2 * i / 80)) for i, divisor in enumerate(divisors)]
        assert found == pytest.approx(expected, rel=1e-13)


def test_f232_order_of_the_keys_of_the_magnitude():
    assert frequencies(factor=8).cos_sin_factor == pytest.approx(1.122032256, rel=1e-9)
    assert frequencies(factor=8, attention_factor=1.0).cos_sin_factor == 1.0
    own = {"factor": 8, "attention_factor": 1.0, "short_mscale": 1.25, "long_mscale": 1.5}
    assert [frequencies(n, **own).cos_sin_factor for n in (3072, 3073)] == [1.25, 1.5]
    assert [frequencies(n, long_mscale=1.5, attention_factor=1.1).cos_sin_factor for n in (1, 4000)] == [1.1, 1.5]


@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_no_stretch_no_magnitude(factor):
    assert frequencies(factor=factor).cos_sin_factor == 1.0


def test_magnitude_follows_the_formula():
    assert frequencies(factor=3.7).cos_sin_factor == pytest.approx(math.sqrt(1 + math.log(3.7, 3072)), rel=1e-14)


@pytest.mark.parametrize("name", ["short_factor", "long_factor"])
@pytest.mark.parametrize("count", [0, 1, 39, 41, 64])
def test_f122_a_list_of_another_length_names_both_numbers(name, count):
    with pytest.raises(RopewalkError, match=rf"{name} must have rotary_dim/2 = 40 entries, got {count}\."):
        frequencies(**{name: [1.0] * count})


@pytest.mark.parametrize("original", [1, 0, -5, 2.5, None, True])
def test_original_length_must_have_a_logarithm_above_0(original):
    with pytest.raises(RopewalkError, match="original_max_position_embeddings must be a"):
        frequencies(original_max_position_embeddings=original)


@pytest.mark.parametrize("entry", [0, -1.0, float("nan"), float("inf"), "1.0", True, None, [1.0], 1e400])
def test_a_bad_divisor_is_named_by_its_place(entry):
    with pytest.raises(RopewalkError, match=r"longrope: long_factor\[2\] must be a finite number above 0"):
        frequencies(long_factor=[1.0, 1.0, entry, *[1.0] * 37])


def test_no_factor_and_no_trained_length_says_what_to_give():
    with pytest.raises(RopewalkError, match="give one of factor, attention_factor"):
        LongRope(**F223).frequencies(1e4, 80)


def test_a_divisor_near_zero_is_an_error():
    with pytest.raises(RopewalkError, match="longrope: short_factor as small as 1e-310"):
        frequencies(short_factor=[1e-310, *[1.0] * 39])


@pytest.mark.parametrize(
    ("changes", "depends"),
    [
        ({}, True),
        ({"long_factor": [1.0] * 40}, False),  # MiniCPM4 has one list twice
        ({"long_factor": [1.0] * 40, "short_mscale": 1.1, "long_mscale": 1.1}, False),
        ({"long_factor": [1.0] * 40, "long_mscale": 1.1}, True),
    ],
)
def test_only_lists_or_magnitudes_that_differ_depend_on_the_length(changes, depends):
    scaling = LongRope(**{**F223, **changes})
    assert scaling.length_dependent is depends
    assert (
        Rope(
            head_dim=80, rope_theta=1e4, pairing="half", scaling=scaling, max_position_embeddings=49152
        ).length_dependent
        is depends
    )
