"""The lesson's numbers, a test a table.

The road: the expected values are those of the requirements (lesson-and-simulator.md), typed in as printed there; they
were computed in float64 by other code than this package. Numbers are compared as printed, digit by digit.
"""

import math

import pytest

from ropewalk import Rope, RopewalkError, score, score_from_distance
from ropewalk.simulation import (
    DEFAULT_KEY,
    DEFAULT_QUERY,
    angle_between,
    default_rope,
    score_table,
    speed_table,
    turn_table,
    wrapped_degrees,
)

NOISE = 1e-15  # a few ulp of numbers near 1: the deviation that the lesson shows as noise


def cycled(values, width):
    """A vector of another width, as the page continues or cuts it."""
    return [values[i % len(values)] for i in range(width)]


def test_defaults_are_the_lessons():
    rope = default_rope()
    assert (rope.head_dim, rope.width, rope.rope_theta, rope.pairing) == (8, 8, 10000.0, "interleaved")
    assert DEFAULT_QUERY == (1, 0, 0.5, 0.5, 1, -1, 0.25, 0)
    assert DEFAULT_KEY == (0, 1, 1, 0, 0.5, 0.5, 0, 0.25)


def test_table_a_one_pair_one_rotation():
    expected = """
        0 | 0, 1 | 1.000000 | 7.0000 | (1.000, 0.000) | (0.754, 0.657)
        1 | 2, 3 | 0.100000 | 0.7000 | (0.500, 0.500) | (0.060, 0.705)
        2 | 4, 5 | 0.010000 | 0.0700 | (1.000, -1.000) | (1.067, -0.928)
        3 | 6, 7 | 0.001000 | 0.0070 | (0.250, 0.000) | (0.250, 0.002)
    """
    rows = [
        f"{row.pair} | {row.first}, {row.second} | {row.inv_freq:.6f} | {row.angle:.4f} | "
        f"({row.before[0]:.3f}, {row.before[1]:.3f}) | ({row.after[0]:.3f}, {row.after[1]:.3f})"
        for row in turn_table(default_rope(), DEFAULT_QUERY, 7)
    ]
    assert rows == [line.strip() for line in expected.strip().splitlines()]


def test_readings_of_section_a():
    rope = default_rope()
    query, key = turn_table(rope, DEFAULT_QUERY, 7)[0], turn_table(rope, DEFAULT_KEY, 2)[0]
    assert f"{query.inv_freq:.8f}" == "1.00000000"
    assert (f"{query.angle:.6f}", f"{query.angle_wrapped:.2f}") == ("7.000000", "41.07")
    assert f"{key.angle:.6f}" == "2.000000"
    assert tuple(f"{value:.6f}" for value in query.after) == ("0.753902", "0.656987")
    assert f"{angle_between(rope, DEFAULT_QUERY, DEFAULT_KEY, 7, 2, 0):.2f}" == "163.52"


@pytest.mark.parametrize("shift", [-1000, -1, 1, 100, 4096])
def test_angle_between_the_arrows_is_unchanged_by_any_shift(shift):
    shifted = angle_between(default_rope(), DEFAULT_QUERY, DEFAULT_KEY, 7 + shift, 2 + shift, 0)
    assert f"{shifted:.2f}" == "163.52"


def test_angle_between_is_none_where_an_arrow_has_no_length():
    query = (0.0, 0.0, *DEFAULT_QUERY[2:])
    assert angle_between(default_rope(), query, DEFAULT_KEY, 7, 2, 0) is None


@pytest.mark.parametrize("position", [-1000, 0, 7, 4096])
def test_the_tip_never_leaves_the_circle(position):
    for row in turn_table(default_rope(), DEFAULT_QUERY, position):
        assert row.radius_deviation == row.radius_after - row.radius_before  # shown as it is, not rounded away
        assert abs(row.radius_deviation) <= NOISE


def test_table_b_the_score_sees_only_the_distance():
    expected = """
        0 | 1.000000 | 5.000000 | 0.0000 | 1.0000 | -0.958924
        1 | 0.100000 | 0.500000 | 0.5000 | -0.5000 | 0.199079
        2 | 0.010000 | 0.050000 | 0.0000 | 1.0000 | 0.049979
        3 | 0.001000 | 0.005000 | 0.0000 | 0.0625 | 0.000312
    """
    reading = score_table(default_rope(), DEFAULT_QUERY, DEFAULT_KEY, 7, 2)
    rows = [
        f"{row.pair} | {row.inv_freq:.6f} | {row.angle:.6f} | {row.straight:.4f} | {row.cross:.4f} | "
        f"{row.contribution:.6f}"
        for row in reading.rows
    ]
    assert rows == [line.strip() for line in expected.strip().splitlines()]
    assert f"{reading.total:.6f}" == "-0.709554"


def test_readings_of_section_b():
    reading = score_table(default_rope(), DEFAULT_QUERY, DEFAULT_KEY, 7, 2, shift=100)
    assert f"{reading.unrotated:.9f}" == "0.500000000"
    assert f"{reading.score:.9f}" == "-0.709554095"
    assert f"{reading.shifted_score:.9f}" == "-0.709554095"
    assert reading.shift_difference == reading.shifted_score - reading.score
    assert abs(reading.shift_difference) <= 1e-15
    assert abs(reading.total - reading.score) <= NOISE
    assert [f"{length:.6f}" for length in reading.query_length] == ["1.887459", "1.887459"]
    assert [f"{length:.6f}" for length in reading.key_length] == ["1.600781", "1.600781"]
    assert reading.bound == pytest.approx(1.887459 * 1.600781, abs=1e-5)
    assert -reading.bound <= reading.score <= reading.bound
    assert reading.still == 0


@pytest.mark.parametrize(
    ("m", "n", "expected"),
    [
        (7, 2, "-0.709554095"),
        (107, 102, "-0.709554095"),
        (7, 3, "-0.450741836"),
        (2, 7, "1.587136657"),  # a negative distance is another score
        (0, 0, "0.500000000"),
    ],
)
def test_scores_printed_in_the_lesson(m, n, expected):
    rope = default_rope()
    assert f"{score_table(rope, DEFAULT_QUERY, DEFAULT_KEY, m, n).score:.9f}" == expected
    assert f"{score(DEFAULT_QUERY, DEFAULT_KEY, m, n, rope):.9f}" == expected
    assert f"{score_from_distance(DEFAULT_QUERY, DEFAULT_KEY, m - n, rope):.9f}" == expected


def test_a_score_is_bounded_by_the_lengths_and_not_by_one():
    reading = score_table(default_rope(), DEFAULT_QUERY, DEFAULT_KEY, 2, 7)
    assert 1 < reading.score <= reading.bound


def test_the_cross_part_changes_sign_with_the_distance_and_the_straight_part_does_not():
    there, back = (score_table(default_rope(), DEFAULT_QUERY, DEFAULT_KEY, m, n).rows for m, n in ((7, 2), (2, 7)))
    for one, other in zip(there, back, strict=True):
        even = (one.contribution + other.contribution) / 2
        odd = (one.contribution - other.contribution) / 2
        assert even == pytest.approx(one.straight * math.cos(one.angle), abs=NOISE)
        assert odd == pytest.approx(one.cross * math.sin(one.angle), abs=NOISE)


def test_pair_0_alone_pulls_the_default_score_below_zero():
    reading = score_table(default_rope(), DEFAULT_QUERY, DEFAULT_KEY, 7, 2)
    assert reading.score < 0 < reading.score - reading.rows[0].contribution


def test_every_position_carrying_column_of_table_b_holds_the_distance_only():
    rope = default_rope()
    assert (
        score_table(rope, DEFAULT_QUERY, DEFAULT_KEY, 7, 2).rows
        == score_table(rope, DEFAULT_QUERY, DEFAULT_KEY, 4103, 4098).rows
    )


def test_table_c_fast_pairs_and_slow_pairs():
    expected = """
        0 | 0, 1 | 1.00000000 | 6.28 | 325.9493 | 41.070
        1 | 2, 3 | 0.10000000 | 62.83 | 32.5949 | 40.107
        2 | 4, 5 | 0.01000000 | 628.32 | 3.2595 | 4.011
        3 | 6, 7 | 0.00100000 | 6283.19 | 0.3259 | 0.401
    """
    reading = speed_table(default_rope(), window=2048, position=7)
    rows = [
        f"{row.pair} | {row.first}, {row.second} | {row.inv_freq:.8f} | {row.wavelength:.2f} | {row.turns:.4f} | "
        f"{angle:.3f}"
        for row, angle in zip(reading.rows, reading.angles, strict=True)
    ]
    assert rows == [line.strip() for line in expected.strip().splitlines()]


def test_readings_of_section_c():
    reading = speed_table(default_rope(), window=2048)
    assert (f"{reading.fastest:.2f}", f"{reading.slowest:.2f}") == ("6.28", "6283.19")
    assert f"{reading.rows[-1].turns:.4f}" == "0.3259"
    assert f"{reading.ratio:.2f}" == "1000.00"
    assert (reading.slower_than_window, len(reading.rows)) == (1, 4)


def test_widening_the_window_lowers_the_count_of_slower_pairs():
    counts = [speed_table(default_rope(), window=window).slower_than_window for window in (5, 60, 600, 2048, 8192)]
    assert counts == [4, 3, 2, 1, 0]


def test_window_plays_no_part_in_sections_a_and_b():
    small, large = (default_rope().replace(max_position_embeddings=window) for window in (16, 8192))
    assert turn_table(small, DEFAULT_QUERY, 7) == turn_table(large, DEFAULT_QUERY, 7)
    assert score_table(small, DEFAULT_QUERY, DEFAULT_KEY, 7, 2) == score_table(large, DEFAULT_QUERY, DEFAULT_KEY, 7, 2)


def test_a_head_of_128_against_a_window_of_8192():
    reading = speed_table(Rope(head_dim=128, rope_theta=10000.0, pairing="interleaved"), window=8192)
    slowest = max(reading.rows, key=lambda row: row.wavelength)
    assert slowest.pair == 63
    assert f"{slowest.wavelength:.2f}" == "54410.14"
    assert f"{slowest.wavelength / reading.window:.2f}" == "6.64"
    assert (reading.slower_than_window, len(reading.rows)) == (14, 64)
    assert reading.ratio == pytest.approx(10000 ** (126 / 128), rel=1e-12)


@pytest.mark.parametrize("width", [2, 4, 8, 64, 128])
def test_ratio_is_the_base_to_the_power_of_d_minus_2_over_d(width):
    reading = speed_table(Rope(head_dim=width, rope_theta=500000.0, pairing="half"), window=2048)
    assert reading.ratio == pytest.approx(500000 ** ((width - 2) / width), rel=1e-12)


def test_base_1_collapses_the_scales_and_keeps_the_distance_property():
    rope = default_rope().replace(rope_theta=1.0)
    reading = speed_table(rope, window=2048)
    assert {row.inv_freq for row in reading.rows} == {1.0}
    assert f"{reading.ratio:.2f}" == "1.00"
    scores = score_table(rope, DEFAULT_QUERY, DEFAULT_KEY, 7, 2, shift=4096)
    assert scores.shifted_score == pytest.approx(scores.score, abs=1e-12)


@pytest.mark.parametrize("width", [3, 7, 9, 11])
@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_odd_d_copies_the_last_channel_through_and_keeps_the_distance_property(width, pairing):
    rope = Rope(head_dim=width, rope_theta=10000.0, pairing=pairing, odd="pass")
    query, key = cycled(DEFAULT_QUERY, width), cycled(DEFAULT_KEY, width)
    rows = turn_table(rope, query, 7)
    half = width // 2
    assert [(row.first, row.second) for row in rows] == [
        (i, i + half) if pairing == "half" else (2 * i, 2 * i + 1) for i in range(half)
    ]
    # exponents over d as typed
    assert [row.inv_freq for row in rows] == pytest.approx([10000 ** (-2 * i / width) for i in range(half)], rel=1e-15)
    reading = score_table(rope, query, key, 7, 2, shift=100)
    assert reading.still == query[-1] * key[-1]
    assert reading.total == pytest.approx(reading.score, abs=1e-14)
    assert reading.shifted_score == pytest.approx(reading.score, abs=1e-12)


def test_odd_d_is_refused_unless_the_last_channel_may_pass():
    with pytest.raises(RopewalkError, match="rotary_dim must be even"):
        Rope(head_dim=7, rope_theta=10000.0, pairing="interleaved")


@pytest.mark.parametrize(("width", "m"), [(8, 7), (16, -30), (128, 2047)])
def test_half_split_changes_the_dims_column_and_nothing_else_of_the_tables(width, m):
    near = Rope(head_dim=width, rope_theta=10000.0, pairing="interleaved")
    half = near.replace(pairing="half")
    one, other = (speed_table(rope, window=2048, position=m) for rope in (near, half))
    assert one.angles == other.angles
    assert (one.ratio, one.slower_than_window) == (other.ratio, other.slower_than_window)
    for row, split in zip(one.rows, other.rows, strict=True):
        assert (row.inv_freq, row.wavelength, row.turns) == (split.inv_freq, split.wavelength, split.turns)
        assert (row.first, row.second) == (2 * row.pair, 2 * row.pair + 1)
        assert (split.first, split.second) == (split.pair, split.pair + width // 2)


def test_half_split_keeps_the_distance_property():
    rope = default_rope().replace(pairing="half")
    reading = score_table(rope, DEFAULT_QUERY, DEFAULT_KEY, 7, 2, shift=-1000)
    assert reading.shifted_score == pytest.approx(reading.score, abs=1e-12)
    assert reading.total == pytest.approx(reading.score, abs=NOISE)
    assert reading.score != pytest.approx(-0.709554095, abs=1e-3)  # other channels meet: another score


def test_a_factor_on_cos_and_sin_enters_a_score_squared():
    from ropewalk.scaling import Yarn

    yarn = Yarn(factor=4.0, original_max_position_embeddings=64, attention_factor=1.5)
    rope = default_rope().replace(scaling=yarn)
    reading = score_table(rope, DEFAULT_QUERY, DEFAULT_KEY, 7, 2, shift=100)
    assert reading.total == pytest.approx(reading.score, abs=1e-14)
    assert reading.query_length[1] == pytest.approx(1.5 * reading.query_length[0])
    assert abs(reading.score) <= reading.bound
    assert reading.bound == pytest.approx(1.5**2 * reading.query_length[0] * reading.key_length[0])


def test_degrees_wrap_from_0_to_360():
    assert wrapped_degrees(-math.pi / 2) == 270
    assert wrapped_degrees(0.0) == 0
    assert 0 <= wrapped_degrees(-1e-20) < 360


@pytest.mark.parametrize("vector", [(1.0,), (1.0,) * 9, [[1.0] * 8]])
def test_a_vector_of_another_width_is_refused(vector):
    with pytest.raises(RopewalkError, match="head_dim=8"):
        turn_table(default_rope(), vector, 7)
    with pytest.raises(RopewalkError, match="head_dim=8"):
        score_table(default_rope(), DEFAULT_QUERY, vector, 7, 2)


@pytest.mark.parametrize("window", [0, -1, 0.5])
def test_a_window_below_one_token_is_refused(window):
    with pytest.raises(RopewalkError, match="window"):
        speed_table(default_rope(), window=window)


def test_a_map_that_is_no_rotation_has_no_score_table():
    rope = default_rope().replace(pairing="hybrid_tile")
    with pytest.raises(RopewalkError, match="no rotation"):
        score_table(rope, DEFAULT_QUERY, DEFAULT_KEY, 7, 2)
