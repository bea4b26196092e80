"""The unscaled ladder, against goldens of shared/faults.md and the formula written anew with Python's math."""

import math

import pytest

from ropewalk import RopewalkError
from ropewalk.scaling import Default


def inv_freq(theta, width):
    return Default().frequencies(theta, width).inv_freq


@pytest.mark.parametrize(
    ("fault", "theta", "width", "pair", "expected"),
    [
        ("F107", 3e5, 96, 1, 0.7689415118),
        ("F107", 1e4, 96, 1, 0.8254041853),
        ("F116", 3e5, 96, -1, 4.334963430e-6),
        ("F116", 1e4, 96, -1, 1.211527659e-4),
        ("F119", 3e5, 48, 1, 0.5912710485),
        ("F119", 3e5, 48, -1, 5.637572382e-6),
        ("F121 ordinary", 2e5, 48, 1, 0.6013450635),
        ("F125 local", 2e4, 96, 1, 0.8135705294),
        ("F147", 1e4, 48, 1, 0.6812920691),
        ("F211", 250000, 80, 1, 0.7329114386),
    ],
)
def test_ladder_equals_the_golden_value(fault, theta, width, pair, expected):
    assert inv_freq(theta, width)[pair] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("width", [2, 6, 10, 48, 96, 7])
@pytest.mark.parametrize("theta", [0.5, 1.0, 100.0, 1e4, 5e5, 1e8])
def test_every_pair_follows_the_formula_to_a_few_ulp(theta, width):
    expected = [math.exp(-2 * i / width * math.log(theta)) for i in range(width // 2)]
    assert inv_freq(theta, width).tolist() == pytest.approx(expected, rel=4e-15)
    assert inv_freq(theta, width)[0] == 1.0


def test_theta_one_gives_every_pair_the_same_speed():
    assert inv_freq(1.0, 10).tolist() == [1.0] * 5


def test_odd_width_keeps_its_width_in_the_exponent():
    assert inv_freq(1e4, 7).tolist() == pytest.approx([1.0, 10 ** (-8 / 7), 10 ** (-16 / 7)], rel=1e-14)


def test_magnitudes_are_one():
    assert Default().frequencies(1e4, 8)[1:] == (1.0, 1.0)


def test_theta_so_small_that_a_frequency_leaves_float64_is_an_error():
    with pytest.raises(RopewalkError, match=r"rope_theta=4.94066e-324 .*too large.*larger one"):
        inv_freq(5e-324, 96)
