"""Turns in whole numbers: against angles reduced exactly, with 1/2π and π written down from elsewhere."""

import math
from fractions import Fraction

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from ropewalk import Pairs  # noqa: E402
from ropewalk.turning import jax_angles  # noqa: E402

enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else pytest.importorskip("jax.experimental").enable_x64

TWO_PI = Fraction("6.28318530717958647692528676655900576839433879875021164194988918461563281257241799725606965")
# 2/π in groups of 24 bits, from fdlibm's e_rem_pio2.c (Sun Microsystems); 1/2π is a quarter of it
TWO_OVER_PI = (0xA2F983, 0x6E4E44, 0x1529FC, 0x2757D1, 0xF534DD, 0xC0DB62, 0x95993C, 0x439041, 0xFE5163, 0xABDEBB)
SPEEDS = [1.0, 0.8254041852680184, 1e4 ** (-62 / 64), 1e-7, -0.5, -math.pi, 0.0, 3.7, 97.25, 1e9, 2.5e-310, 1e30]
LAST_BIT = 2.0**-23  # 1.2e-7, two units in the last place of a float32 just below one


def exact(position, speed):
    """Cos and sin of position·speed, reduced as fractions and only then rounded."""
    angle = Fraction(position) * Fraction(speed)
    rest = float(angle - TWO_PI * (angle / TWO_PI).__round__())
    return math.cos(rest), math.sin(rest)


def found(positions, speeds=SPEEDS, wide=False):
    table = Pairs(
        first=np.arange(len(speeds)),
        second=len(speeds) + np.arange(len(speeds)),
        axis=[0] * len(speeds),
        inv_freq=speeds,
    )
    digits = jax_angles.digits(max(map(abs, speeds))) if np.asarray(positions).dtype.kind == "f" else 0
    constants = jax_angles.constants(table, None if wide else digits)
    cos, sin = jax.jit(jax_angles.cos_sin)(jnp.asarray(positions)[:, None], constants)
    return np.stack([cos, sin], axis=-1)


def error(positions, speeds=SPEEDS, wide=False):
    turned = found(positions, speeds, wide)
    assert turned.dtype == (np.float64 if wide else np.float32)
    expected = np.array([[exact(position.item(), speed) for speed in speeds] for position in np.asarray(positions)])
    return np.abs(turned - expected).max()


def test_a_speed_of_one_is_the_known_digits_of_one_over_two_pi():
    bits = "".join(f"{group:024b}" for group in TWO_OVER_PI)
    inverse = int("00" + bits[:-2], 2)  # of 240 bits
    one = jax_angles.constants(Pairs(first=[0], second=[1], axis=[0], inv_freq=[1.0]), 4)
    for k, (high, low) in enumerate(zip(one.high, one.low, strict=True)):
        assert int(high[0]) << 32 | int(low[0]) == (inverse >> (240 - 64 + 24 * k)) % 2**64


def test_whole_positions_are_exact_up_to_the_ends_of_int32():
    edges = [0, 1, 2, 3, 1023, 1024, 16_777_215, 16_777_217, 2**30 - 1, 2**30, 2**31 - 1]
    random = np.random.default_rng(3).integers(0, 2**31, 60).tolist()
    positions = np.array(edges + random, dtype=np.int32)
    assert error(positions) < LAST_BIT
    assert error(-positions) < LAST_BIT
    assert error(np.array([-(2**31)], dtype=np.int32)) < LAST_BIT


def test_the_error_does_not_grow_with_the_position():
    ladder = (5e5 ** (-np.arange(64) / 64)).tolist()
    random = np.random.default_rng(4)
    for low in (0, 10**6, 2**30):
        assert error(random.integers(low, low + 4000, 20).astype(np.int32), ladder) < LAST_BIT


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32"])
def test_every_kind_of_small_integer(dtype):
    bounds = np.iinfo(dtype)
    positions = np.array([bounds.min, bounds.min + 1, bounds.max // 2 + 1, bounds.max], dtype=dtype)
    assert error(positions) < LAST_BIT


def test_position_0_and_a_still_pair_give_one_and_zero_to_the_bit():
    for positions in (np.array([0]), np.array([0.0, -0.0])):
        assert (found(positions)[:, :, 0] == 1).all()
        assert (found(positions)[:, :, 1] == 0).all()
    still = found(np.array([2**31 - 1, -5, 77]), [0.0])
    assert still.tolist() == [[[1, 0]]] * 3


def test_a_negative_position_turns_back_by_the_same_bits():
    positions = np.array([1, 999, 70_001, 2**31 - 1], dtype=np.int32)
    assert (found(-positions) == found(positions) * [1, -1]).all()
    floats = positions[:3].astype(np.float32) + np.float32(1 / 3)
    assert (found(-floats) == found(floats) * [1, -1]).all()


def test_fractional_positions_are_exact_below_2_to_the_31():
    random = np.random.default_rng(5)
    sizes = 2.0 ** random.uniform(-30, 31, 100)
    positions = np.concatenate([sizes, [0.5, 1 / 3, 2 / 3, 1e-3, 4095.75, 16_777_215, 2.0**31 - 128]]).astype(
        np.float32
    )
    slow = [speed for speed in SPEEDS if abs(speed) < 1e9]
    assert error(positions, slow) < LAST_BIT
    assert error(-positions, slow) < LAST_BIT
    assert error(positions) < LAST_BIT  # with speeds that need more digits behind the point
    assert (found(positions.astype(np.float32)[:3], slow) != found(np.floor(positions[:3]), slow)).any()


def test_more_digits_are_taken_for_faster_speeds():
    assert [jax_angles.digits(speed) for speed in (0.0, 1e-9, 1.0, 4e5, 1e9, 1e30)] == [1, 1, 1, 1, 2, 5]


def test_float_positions_equal_whole_ones():
    positions = np.array([0, 1, 77, 16_777_215], dtype=np.int32)
    assert (found(positions) == found(positions.astype(np.float32))).all()


def test_float_positions_out_of_reach_are_nan():
    turned = found(np.array([2.0**31, -(2.0**31), 1e30, np.inf, -np.inf, np.nan, 5.0], dtype=np.float32))
    assert np.isnan(turned[:-1]).all()
    assert np.isfinite(turned[-1]).all()


def test_float64_where_jax_has_it():
    slow = [speed for speed in SPEEDS if abs(speed) <= 1]
    with enable_x64(True):
        integers = np.array([0, 1, -77, 16_777_215, -(2**31), 2**40])
        floats = np.array([0.1, -1 / 3, 1e9 + 0.25])
        for positions in (integers, floats):
            turned = found(positions, slow, wide=True)
            expected = [[exact(position.item(), speed) for speed in slow] for position in positions]
            rounding = np.maximum(np.abs(positions)[:, None, None] * 2.0**-53, 4e-16)  # of the float64 product
            assert (np.abs(turned - expected) <= rounding).all()
        beyond = found(np.array([2**53, 2**53 + 1, -(2**53) - 2]), slow, wide=True)
        assert np.isfinite(beyond[0]).all()
        assert np.isnan(beyond[2]).all()
        assert np.isnan(found(np.array([np.inf, np.nan]), slow, wide=True)).all()


def test_the_derivative_of_an_angle_is_its_speed():
    table = Pairs(first=[0, 1, 2], second=[3, 4, 5], axis=[0, 0, 0], inv_freq=[1.0, -0.03, 1e-4])
    constants = jax_angles.constants(table, 1)
    speeds = np.array([1.0, -0.03, 1e-4])

    def cos_sin(m):
        return jnp.stack(jax_angles.cos_sin(m[None], constants))

    forward, backward = jax.jit(jax.jacfwd(cos_sin)), jax.jit(jax.jacrev(cos_sin))
    second = jax.jit(jax.jacfwd(jax.jacrev(cos_sin)))
    for m in (0.0, -0.625, 3.25, 70_001.125):
        cos, sin = np.array([exact(m, speed) for speed in speeds]).T
        slope, bend = np.stack([-sin, cos]) * speeds, -np.stack([cos, sin]) * speeds**2
        assert np.asarray(forward(m)) == pytest.approx(slope, abs=2e-7)
        assert np.asarray(backward(m)) == pytest.approx(slope, abs=2e-7)
        assert np.asarray(second(m)) == pytest.approx(bend, abs=2e-7)
