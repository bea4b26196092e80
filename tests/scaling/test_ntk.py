"""Static NTK in its three formulas, against goldens of shared/faults.md and formulas.md 2.4."""

import pytest

from ropewalk import RopewalkError
from ropewalk.scaling import Default, Ntk


def inv_freq(theta, width, factor, method="aware"):
    return Ntk(factor=factor, method=method).frequencies(theta, width).inv_freq


def test_f137_hunyuan_alpha_raises_the_base():
    assert inv_freq(2e4, 96, 50)[1] ** -48 == pytest.approx(1086796.667, rel=1e-9)


def test_f137_ignoring_alpha_would_move_frequencies_by_0_124():
    plain = [2e4 ** (-2 * i / 96) for i in range(48)]
    assert max(abs(inv_freq(2e4, 96, 50) - plain)) == pytest.approx(0.1240657, rel=1e-6)


def test_f137_two_channels_have_no_exponent():
    with pytest.raises(RopewalkError, match=r"above 2 .*rotary_dim=2"):
        inv_freq(2e4, 2, 50)


def test_aware_divides_the_slowest_pair_by_the_factor_and_keeps_the_fastest():
    plain = Default().frequencies(5e4, 96).inv_freq
    divisors = plain / inv_freq(5e4, 96, 5)
    assert divisors[0] == 1
    assert divisors[-1] == pytest.approx(5, rel=1e-12)
    assert (divisors[1:] > divisors[:-1]).all()


def test_f231_one_name_three_formulas():
    aware, vllm, base = (inv_freq(5e4, 96, 5, method) for method in ("aware", "vllm", "base"))
    assert vllm[0] / aware[0] == pytest.approx(0.9670259421, rel=1e-9)
    assert vllm[-1] / aware[-1] == pytest.approx(1.0, rel=1e-9)
    assert base.tolist() == pytest.approx([250000 ** (-2 * i / 96) for i in range(48)], rel=1e-13)
    assert vllm.tolist() == pytest.approx(
        [5e4 ** (-2 * i / 96) * 5 ** (-2 * (i + 1) / 96) for i in range(48)], rel=1e-13
    )


def test_vllm_against_aware_at_factor_8_as_formulas_states():
    assert inv_freq(1e4, 128, 8, "vllm")[0] / inv_freq(1e4, 128, 8)[0] == pytest.approx(0.968, abs=5e-4)


@pytest.mark.parametrize("method", ["aware", "vllm", "base"])
def test_f222_ratio_1_is_exactly_no_change(method):
    assert (inv_freq(1e4, 96, 1.0, method) == Default().frequencies(1e4, 96).inv_freq).all()


@pytest.mark.parametrize(("theta", "factor"), [(1e300, 1e300), (1e-200, 1e-200)])
@pytest.mark.parametrize("method", ["aware", "vllm", "base"])
def test_a_base_out_of_float64_is_an_error(theta, factor, method):
    with pytest.raises(RopewalkError):
        inv_freq(theta, 96, factor, method)


def test_an_unknown_method_lists_the_known_ones():
    with pytest.raises(RopewalkError, match=r"'aware', 'vllm', 'base', got 'yarn'"):
        Ntk(factor=2, method="yarn")
