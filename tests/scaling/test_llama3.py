"""llama3 scaling, against goldens of shared/faults.md (F204: D=96, theta 3e5, factor 16, low 1, high 4, L0 4096)."""

import math

import numpy as np
import pytest

from ropewalk import RopewalkError
from ropewalk.scaling import Llama3

F204 = {"factor": 16, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 4096}


def by_hand(theta, width, factor, low, high, original):
    """Meta's apply_scaling, by wavelength, in Python's math."""
    out = []
    for i in range(width // 2):
        w = theta ** (-2 * i / width)
        wavelength = 2 * math.pi / w
        if wavelength < original / high:
            out.append(w)
        elif wavelength > original / low:
            out.append(w / factor)
        else:
            t = (original / wavelength - low) / (high - low)
            out.append((1 - t) * w / factor + t * w)
    return out


def divisors(**changes):
    plain = np.array([3e5 ** (-2 * i / 96) for i in range(48)])
    return plain / Llama3(**{**F204, **changes}).frequencies(3e5, 96).inv_freq


def test_f204_bands_and_ramp():
    found = divisors()
    assert found[:20].tolist() == pytest.approx([1] * 20, rel=1e-12)
    assert found[25:].tolist() == pytest.approx([16] * 23, rel=1e-12)
    golden = [1.228669046, 1.760351773, 2.638197642, 4.278988540, 8.200951039]
    assert found[20:25].tolist() == pytest.approx(golden, rel=1e-9)


def test_f204_frequencies():
    scaled = Llama3(**F204).frequencies(3e5, 96).inv_freq
    assert scaled[[20, 24]].tolist() == pytest.approx([4.250413936e-3, 2.226256259e-4], rel=1e-9)


def test_f202_f203_divisors_rise_within_1_and_the_factor():
    found = divisors()
    assert (found[1:] >= found[:-1] - 1e-9).all()
    assert found.min() > 1 - 1e-12
    assert found.max() < 16 + 1e-9
    precedence = [81.39846658, 35.26698378, 24.49405411, 19.75719483, 17.14645773]
    in_wavelength = [15.12532599, 13.36005090, 11.06433002, 8.078770192, 4.196082394]
    for fault in (precedence, in_wavelength):
        assert (abs(found[20:25] / fault - 1) > 0.01).all()


def test_f205_equal_low_and_high_make_a_hard_step():
    found = divisors(high_freq_factor=1)
    assert found[:25].tolist() == pytest.approx([1] * 25, rel=1e-12)
    assert found[25:].tolist() == pytest.approx([16] * 23, rel=1e-12)


def test_equal_low_and_high_with_a_pair_exactly_on_the_border_are_finite():
    # theta 1: every pair turns L0/2π times within L0; make that the border
    scaling = Llama3(factor=16, low_freq_factor=8192 / (2 * math.pi), high_freq_factor=8192 / (2 * math.pi),
                     original_max_position_embeddings=8192)  # fmt: skip
    assert scaling.frequencies(1.0, 6).inv_freq.tolist() == [1 / 16] * 3


@pytest.mark.parametrize(
    ("theta", "width", "factor", "low", "high", "original"),
    [(5e5, 128, 8, 1, 4, 8192), (5e5, 64, 32, 1, 4, 8192), (3e5, 48, 5, 0.7, 9.5, 1111), (1e4, 10, 3, 2, 2.5, 300)],
)
def test_every_pair_follows_metas_code(theta, width, factor, low, high, original):
    scaling = Llama3(
        factor=factor, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=original
    )
    expected = by_hand(theta, width, factor, low, high, original)
    assert scaling.frequencies(theta, width).inv_freq.tolist() == pytest.approx(expected, rel=1e-12)


def test_swapped_low_and_high_name_both():
    with pytest.raises(RopewalkError, match=r"low_freq_factor=4, high_freq_factor=1"):
        Llama3(**{**F204, "low_freq_factor": 4, "high_freq_factor": 1})


def test_extreme_but_legal_numbers_stay_finite():
    wild = Llama3(factor=1e300, low_freq_factor=1e-300, high_freq_factor=2e-300, original_max_position_embeddings=2**53)
    assert np.isfinite(wild.frequencies(1e-300, 6).inv_freq).all()
