"""Proportional RoPE, against goldens of shared/faults.md (F121: D=160, 0.3, theta 2e5)."""

import pytest

from ropewalk import RopewalkError
from ropewalk.scaling import Proportional


def inv_freq(width=160, part=0.3, factor=1.0):
    return Proportional(partial_rotary_factor=part, factor=factor).frequencies(2e5, width).inv_freq


def test_f121_exponents_over_the_head_and_a_still_rest():
    found = inv_freq()
    assert len(found) == 80
    assert (found != 0).sum() == 24
    assert found[[1, 23]].tolist() == pytest.approx([0.8584937249, 0.02991946863], rel=1e-9)
    assert not found[24:].any()


def test_f230_the_factor_divides_what_turns():
    found = inv_freq(factor=4)
    assert found[[0, 1, 23]].tolist() == pytest.approx([0.25, 0.8584937249 / 4, 0.02991946863 / 4], rel=1e-9)
    assert not found[24:].any()


@pytest.mark.parametrize(
    ("width", "part", "turning"),
    [(512, 0.25, 64), (6, 0.5, 1), (10, 0.75, 3), (48, 0.3, 7), (96, 1.0, 48), (10, 0.1, 0)],
)
def test_how_many_pairs_turn(width, part, turning):
    assert (inv_freq(width, part) != 0).sum() == turning


@pytest.mark.parametrize("part", [0, -0.5, 1.5, float("nan"), True, "0.5"])
def test_a_part_that_is_none_is_an_error(part):
    with pytest.raises(RopewalkError, match="partial_rotary_factor"):
        Proportional(partial_rotary_factor=part)


def test_a_factor_near_zero_is_an_error():
    with pytest.raises(RopewalkError, match="proportional: factor as small as 1e-310"):
        inv_freq(factor=1e-310)
