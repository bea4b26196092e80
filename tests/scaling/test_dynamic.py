"""Dynamic NTK, against goldens of shared/faults.md (F218: D=96, theta 5e4, factor 3, Lmax 3072)."""

import pytest

from ropewalk import RopewalkError
from ropewalk.scaling import Default, Dynamic


def inv_freq(length, factor=3, width=96):
    return Dynamic(factor=factor).frequencies(5e4, width, length=length, max_position_embeddings=3072).inv_freq


@pytest.mark.parametrize(
    ("length", "base"),
    [
        (10, 50000),
        (3072, 50000),
        (3073, 50049.86754),
        (4500, 121971.6882),
        (7000, 250042.6554),
        (9216, 364794.9803),  # F219
        (15000, 667504.9284),
    ],
)
def test_f218_the_base_grows_with_the_length(length, base):
    assert inv_freq(length)[1] ** -48 == pytest.approx(base, rel=1e-9)
    assert inv_freq(length)[47] ** (-48 / 47) == pytest.approx(base, rel=1e-9)


@pytest.mark.parametrize("length", [None, 0, 1, 10, 3071, 3072])
def test_f219_f321_at_and_below_the_trained_length_nothing_changes_to_the_last_bit(length):
    inv_freq(7000)  # a long sequence before leaves no trace
    assert (inv_freq(length) == Default().frequencies(5e4, 96).inv_freq).all()


def test_f220_the_base_changes_and_not_every_frequency():
    ours, divided_by = inv_freq(7000), 3 ** (96 / 94)
    assert ours[0] == 1
    assert 1 / divided_by == pytest.approx(0.3256321, rel=1e-7)
    assert 5e4 ** (-94 / 96) / divided_by / ours[47] == pytest.approx(1.574736553, rel=1e-9)


def test_f221_a_short_sequence_keeps_position_scale_1():
    assert 7 * inv_freq(10, factor=6)[0] == 7


def test_f320_how_far_a_cached_key_is_off_when_the_base_moves():
    cached, read = inv_freq(3073), inv_freq(9216)
    assert abs(1800 * (cached[10] - read[10])) == pytest.approx(64.01365812, rel=1e-9)
    assert abs(1800 * (cached[24] - read[24])) == pytest.approx(5.065615152, rel=1e-9)


def test_factor_1_still_grows_beyond_the_trained_length():
    assert inv_freq(6144, factor=1)[1] ** -48 == pytest.approx(5e4 * 2 ** (96 / 94), rel=1e-9)


@pytest.mark.parametrize("length", [None, 10, 4000])
def test_rotary_dim_2_has_no_exponent(length):
    with pytest.raises(RopewalkError, match="above 2, got rotary_dim=2"):
        inv_freq(length, width=2)


def test_rotary_dim_4_is_the_smallest():
    assert inv_freq(6144, width=4)[1] == pytest.approx((5e4 * 4**2) ** -0.5, rel=1e-14)


def test_an_unknown_trained_length_is_an_error_that_says_what_to_set():
    with pytest.raises(RopewalkError, match=r"set the rope's max_position_embeddings"):
        Dynamic(factor=2).frequencies(1e4, 8)


def test_a_base_out_of_float64_is_an_error():
    with pytest.raises(RopewalkError, match="out of float64"):
        inv_freq(2**53, factor=1e308)
