"""Position interpolation, against goldens of shared/faults.md."""

import pytest

from ropewalk import RopewalkError
from ropewalk.scaling import Linear


def test_f125_global_layers_of_a_nested_config():
    assert Linear(factor=6).frequencies(8e5, 96).inv_freq[1] == pytest.approx(0.1255647419, rel=1e-9)


def test_f208_the_factor_stands_outside_the_power():
    scaled = Linear(factor=12).frequencies(250000, 80).inv_freq
    assert scaled[:2].tolist() == pytest.approx([0.08333333, 0.06107595], rel=1e-7)


def test_f225_factor_5_at_position_10_turns_pair_0_by_2():
    assert 10 * Linear(factor=5).frequencies(1e4, 96).inv_freq[0] == pytest.approx(2.0, rel=1e-15)


def test_f226_no_length_moves_the_base():
    scaling = Linear(factor=5)
    short = scaling.frequencies(1e4, 96, length=10, max_position_embeddings=4096).inv_freq
    assert (scaling.frequencies(1e4, 96, length=3 * 4096, max_position_embeddings=4096).inv_freq == short).all()


def test_a_divisor_near_zero_is_an_error_not_an_infinity():
    with pytest.raises(RopewalkError, match=r"linear: factor as small as 1e-310 .*larger one"):
        Linear(factor=1e-310).frequencies(1e4, 8)
