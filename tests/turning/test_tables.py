"""Two small tables instead of a long one: against angles worked out in many digits, and the sizes that they take."""

from decimal import Decimal, getcontext

import numpy as np
import pytest

from ropewalk import Ladders, Pairs, Rope, RopewalkError, Sections
from ropewalk.scaling import Yarn
from ropewalk.turning.tables import (
    ROWS,
    SPLIT_LIMIT,
    check_invertible,
    coefficients,
    column_axes,
    cos_sin,
    speeds,
    split_tables,
)

getcontext().prec = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def exact(position, speed):
    """cos and sin of position·speed, the angle reduced in 60 digits first."""
    angle = (Decimal(position) * Decimal(float(speed))) % (2 * PI)
    return np.cos(float(angle)), np.sin(float(angle))


def summed(tables, m):
    """cos and sin of m by the three tables, as SplitTables says."""
    a = abs(m)
    cos, sin = np.ones_like(tables.speeds), np.zeros_like(tables.speeds)
    for row, (c, s) in zip(
        (a & 1023, (a >> 10) & 1023, a >> 20), (tables.fine, tables.coarse, tables.far), strict=True
    ):
        cos, sin = cos * c[row] - sin * s[row], sin * c[row] + cos * s[row]
    return cos, np.sign(m) * sin if m else sin


@pytest.mark.parametrize("theta", [1e4, 5e5, 1e7])
@pytest.mark.parametrize("m", [0, 1, -1, 1023, 1024, 1025, 131_071, 1_048_575, 1_048_576, -16_777_215, SPLIT_LIMIT - 1])
def test_the_tables_reach_every_position_to_float64(theta, m):
    tables = split_tables(Rope(head_dim=128, rope_theta=theta, pairing="half").pairs())
    cos, sin = summed(tables, m)
    expected = np.array([exact(m, speed) for speed in tables.speeds])
    # each table's angle is a float64 product, off by up to half an ulp of itself: 2^30 times 2^-53
    limit = 4e-16 + abs(m) * 2.0**-52
    assert np.abs(cos - expected[:, 0]).max() <= limit
    assert np.abs(sin - expected[:, 1]).max() <= limit


def test_tables_for_a_million_positions_of_64_pairs_take_two_megabytes():
    tables = split_tables(Rope(head_dim=128, rope_theta=1e4, pairing="half").pairs())
    taken = sum(table.nbytes for table in (*tables.fine, *tables.coarse))
    assert ROWS * ROWS == 1_048_576
    assert taken == 2 * 2**20  # the floor that is asked for is 8 MB


def test_tables_are_built_once_for_the_same_speeds_and_are_read_only():
    one = Rope(head_dim=16, rope_theta=300.0, pairing="half").pairs()
    other = Rope(head_dim=16, rope_theta=300.0, pairing="interleaved").pairs()
    assert split_tables(one) is split_tables(other)
    assert split_tables(one) is not split_tables(Rope(head_dim=16, rope_theta=301.0, pairing="half").pairs())
    with pytest.raises(ValueError):
        split_tables(one).fine[0][0, 0] = 2


def test_direct_angles_are_those_of_the_axis_that_drives_each_pair():
    rope = Rope(head_dim=8, rope_theta=100.0, pairing="half", axes=Sections(sections=(2, 1, 1)))
    ids = np.array([[[3.0, 4.0]], [[50.0, 60.0]], [[-7.0, 8.5]]])
    cos, sin = cos_sin(rope.pairs(), ids)
    w = [100.0 ** (-2 * i / 8) for i in range(4)]
    for token in range(2):
        angles = [ids[0, 0, token] * w[0], ids[0, 0, token] * w[1], ids[1, 0, token] * w[2], ids[2, 0, token] * w[3]]
        assert cos[0, token] == pytest.approx(np.cos(angles), abs=1e-15)
        assert sin[0, token] == pytest.approx(np.sin(angles), abs=1e-15)


def test_a_map_of_two_angles_has_two_columns_a_pair():
    pairs = Rope(head_dim=8, rope_theta=100.0, pairing="hybrid_tile").pairs()
    assert speeds(pairs).tolist() == [*pairs.inv_freq, *pairs.second_inv_freq]
    assert column_axes(pairs).tolist() == [0] * 8
    cos, _ = cos_sin(pairs, np.array([[2.0]]))
    assert cos.shape == (1, 8)


def matrix(k, i):
    """The 2×2 matrix of pair i as coefficients say it."""
    return np.array([[k.c0[i], -k.s0[i]], [k.s1[i], k.c1[i]]])


@pytest.mark.parametrize("pairing", ["half", "hybrid_tile"])
def test_inverse_and_transpose_are_those_of_the_matrix(pairing):
    scaling = Yarn(factor=4.0, original_max_position_embeddings=64)
    pairs = Rope(head_dim=8, rope_theta=100.0, pairing=pairing, scaling=scaling).pairs()
    assert pairs.cos_sin_factor > 1.1
    cos, sin = (part[0] for part in cos_sin(pairs, np.array([[11.0]])))
    forward = coefficients(cos, sin, pairs)
    for i in range(4):
        m = matrix(forward, i)
        a, b = cos[i], cos[i + 4] if pairing == "hybrid_tile" else cos[i]
        assert [m[0, 0], m[1, 1]] == pytest.approx([pairs.cos_sin_factor * a, pairs.cos_sin_factor * b], rel=1e-14)
        assert matrix(coefficients(cos, sin, pairs, transpose=True), i) == pytest.approx(m.T, rel=1e-14)
        inverse = np.linalg.inv(m)
        assert matrix(coefficients(cos, sin, pairs, inverse=True), i) == pytest.approx(inverse, rel=1e-12)
        both = matrix(coefficients(cos, sin, pairs, inverse=True, transpose=True), i)
        assert both == pytest.approx(inverse.T, rel=1e-12)


def test_a_quarter_turn_between_two_angles_has_no_inverse():
    pairs = Pairs(first=[0], second=[1], axis=[0], inv_freq=[0.0], second_inv_freq=[1.0])
    cos, sin = cos_sin(pairs, np.array([[np.pi / 2]]))
    with pytest.raises(RopewalkError, match="no inverse"):
        check_invertible(pairs, cos, sin)
    check_invertible(pairs, *cos_sin(pairs, np.array([[1.0]])))


def test_an_angle_beyond_float64_is_refused():
    pairs = Pairs(first=[0], second=[1], axis=[0], inv_freq=[1e10])
    with pytest.raises(RopewalkError, match="leaves float64"):
        cos_sin(pairs, np.array([[1e300]]))


def test_ladders_restart_in_the_columns():
    rope = Rope(head_dim=12, rope_theta=10.0, pairing="half", axes=Ladders(widths=(4, 8)))
    assert column_axes(rope.pairs()).tolist() == [0, 0, 1, 1, 1, 1]
    assert speeds(rope.pairs())[[0, 2]].tolist() == [1.0, 1.0]
