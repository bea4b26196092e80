"""Two tables of pairs, subtracted; expected values are worked out by hand."""

import math

import numpy as np
import pytest

from ropewalk import Pairs, Rope, RopewalkError
from ropewalk.comparison import compare_pairs
from ropewalk.comparison.words import pair_words
from ropewalk.scaling import Linear, Llama3, Proportional, Yarn

HALF = Rope(head_dim=96, rope_theta=3e5, pairing="half")
LLAMA3 = Llama3(factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=4096)


def table(*rows, **factors):
    """Pairs of (first, second, axis, inv_freq)."""
    first, second, axis, inv_freq = zip(*rows, strict=True)
    return Pairs(first=first, second=second, axis=axis, inv_freq=inv_freq, **factors)


def test_a_table_is_equal_to_itself():
    seen = compare_pairs(HALF.pairs(), HALF.pairs())
    assert (seen.equal, seen.first, seen.differing, seen.matched_by) == (True, None, 0, "channels")
    assert all(not row.unwrapped.any() and not row.wrapped.any() for row in seen.angles)


def test_neither_the_order_of_rows_nor_of_channels_plays_a_part():
    a = table((0, 2, 0, 1.0), (1, 3, 1, -0.25))
    b = table((3, 1, 1, 0.25), (2, 0, 0, -1.0))
    assert compare_pairs(a, b).equal


def test_a_pair_that_keeps_still_is_no_pair():
    a = table((0, 2, 0, 1.0), (1, 3, 0, 0.0))
    assert compare_pairs(a, table((0, 2, 0, 1.0))).equal
    assert compare_pairs(table((0, 2, 0, 1.0)), a).equal
    louder = {"cos_sin_factor": 1.5}
    assert not compare_pairs(
        table((0, 2, 0, 1.0), (1, 3, 0, 0.0), **louder), table((0, 2, 0, 1.0), **louder)
    ).equal  # a magnified still pair is no identity


def test_ratios_of_llama3_are_its_divisors():
    # F204: pairs 0..19 kept, 25..47 divided by 16, the band between by the divisors of the formula
    seen = compare_pairs(HALF.replace(scaling=LLAMA3).pairs(), HALF.pairs())
    band = [1.228669046, 1.760351773, 2.638197642, 4.278988540, 8.200951039]
    assert [row.ratio for row in seen.pairs] == pytest.approx([1.0] * 20 + band + [16.0] * 23, rel=1e-9)
    assert (seen.first.pair, seen.differing) == (20, 28)
    assert pair_words(seen.first, seen) == "in B, pair 20 of 48 turns 1.22867 times too fast"


def test_angles_are_subtracted_wrapped_and_not():
    # F225: factor 5 makes the angle 2 of an angle 10
    plain = Rope(head_dim=8, rope_theta=500.0, pairing="half")
    (row,) = compare_pairs(plain.pairs(), plain.replace(scaling=Linear(factor=5.0)).pairs(), distances=[10]).angles
    assert row.unwrapped[0] == pytest.approx(-8.0, rel=1e-12)
    assert row.wrapped[0] == pytest.approx(2 * math.pi - 8.0, rel=1e-12)
    # pairs 1.. move by 8·500^(-i/4) rad: 1.69179, then less; pair 0 is the worst
    assert row.unwrapped[1] == pytest.approx(-8.0 * 500 ** (-1 / 4), rel=1e-12)
    assert row.worst == 0


def test_rounded_bounds_of_yarn_show_in_the_pairs_and_the_angles():
    # F206: pair 22 at 1.035309897e-4 raw and 1.715925148e-4 rounded; at most 0.438048 rad at 2000
    yarn = Yarn(factor=12.0, original_max_position_embeddings=6144, truncate=False)
    raw = Rope(head_dim=80, rope_theta=250000.0, pairing="half", scaling=yarn)
    rounded = raw.replace(scaling=Yarn(factor=12.0, original_max_position_embeddings=6144))
    seen = compare_pairs(raw.pairs(), rounded.pairs(), distances=[2000])
    assert seen.pairs[22].a.inv_freq == pytest.approx(1.035309897e-4, rel=1e-9)
    assert seen.pairs[22].b.inv_freq == pytest.approx(1.715925148e-4, rel=1e-9)
    assert np.abs(seen.angles[0].wrapped).max() == pytest.approx(0.438048, abs=5e-7)
    assert seen.factors.equal and seen.factors.cos_sin[0] == pytest.approx(1.248490665, rel=1e-9)


def test_a_range_from_the_wrong_length_is_off_by_8_at_pair_23():
    # F132: L0 read as Lmax
    right = Rope(
        head_dim=80,
        rope_theta=250000.0,
        pairing="half",
        scaling=Yarn(factor=12.0, original_max_position_embeddings=6144),
    )
    wrong = right.replace(scaling=Yarn(factor=12.0, original_max_position_embeddings=73728))
    assert compare_pairs(right.pairs(), wrong.pairs()).pairs[23].ratio == pytest.approx(8.333333, rel=1e-6)


def test_another_pairing_is_matched_by_number():
    seen = compare_pairs(HALF.pairs(), HALF.replace(pairing="interleaved").pairs())
    assert seen.matched_by == "number"
    assert seen.pairs[0].differs == ("partner",)  # (0, 48) and (0, 1)
    assert seen.pairs[5].differs == ("channels",)  # (5, 53) and (10, 11)
    assert seen.first.pair == 0 and seen.differing == 48
    assert [row.ratio for row in seen.pairs] == [1.0] * 48


def test_a_partner_of_the_full_head_is_named_with_width_and_speed_right():
    # F415: D = 12, R = 6: pairs (i, i + 6) turned with the angles of R = 6
    right = Rope(head_dim=12, rotary_dim=6, rope_theta=500.0, pairing="half").pairs()
    wrong = table(*((i, i + 6, 0, speed) for i, speed in enumerate(right.inv_freq.tolist())))
    seen = compare_pairs(right, wrong)
    assert {row.differs for row in seen.pairs} == {("partner",)}
    assert pair_words(seen.first, seen) == "in B, pair 0 of 3 joins channels 0 and 6, not 0 and 3"


def test_a_turned_direction_is_named():
    seen = compare_pairs(HALF.pairs(), HALF.replace(direction=-1).pairs(), distances=[1])
    assert {row.differs for row in seen.pairs} == {("direction",)}
    assert seen.angles[0].unwrapped[0] == -2.0


def test_a_narrower_head_leaves_pairs_over():
    whole = Rope(head_dim=8, rope_theta=500.0, pairing="interleaved").pairs()
    part = Rope(head_dim=8, rotary_dim=4, rope_theta=500.0, pairing="interleaved").pairs()
    seen = compare_pairs(whole, part)
    assert [row.differs for row in seen.pairs] == [(), ("frequency",), ("missing",), ("missing",)]
    assert [row.differs for row in compare_pairs(part, whole).pairs] == [(), ("frequency",), ("missing",), ("missing",)]
    assert "stands in no pair of B" in pair_words(seen.pairs[2], seen)
    # what only one side turns is off by its whole angle
    assert seen.angles[0].unwrapped[2] == -(500.0 ** (-2 / 4))


def test_two_meanings_of_a_partial_factor_are_told_apart():
    # F121: D = 160, 0.3: proportional pair 1 at 0.8584937249 with (1, 81), ordinary at 0.6013450635 with (1, 25)
    proportional = Rope(
        head_dim=160, rope_theta=2e5, pairing="half", scaling=Proportional(partial_rotary_factor=0.3)
    ).pairs()
    ordinary = Rope(head_dim=160, rotary_dim=48, rope_theta=2e5, pairing="half").pairs()
    row = compare_pairs(proportional, ordinary).pairs[1]
    assert (row.a.second, row.b.second, row.differs) == (81, 25, ("partner", "frequency"))
    assert row.ratio == pytest.approx(0.6013450635 / 0.8584937249, rel=1e-9)


def test_axes_are_compared_and_a_still_pair_listens_to_none():
    a, b = table((0, 1, 0, 1.0), (2, 3, 1, 0.0)), table((0, 1, 1, 1.0), (2, 3, 2, 0.0))
    assert [row.differs for row in compare_pairs(a, b).pairs] == [("axis",), ()]


def test_a_map_of_two_angles_differs_from_a_rotation():
    tiled = Rope(head_dim=8, rope_theta=500.0, pairing="hybrid_tile").pairs()
    assert compare_pairs(tiled, tiled).equal
    plain = Rope(head_dim=8, rope_theta=500.0, pairing="interleaved").pairs()
    seen = compare_pairs(plain, tiled)
    assert seen.pairs[0].differs == ("map",)
    assert seen.pairs[0].b.second_inv_freq == pytest.approx(500 ** (-1 / 4))


def test_magnitudes_are_two_numbers_and_equal_scores_are_said():
    # F213's pair of numbers: g on cos and sin, or g² on the softmax scale
    on_tables = table((0, 1, 0, 1.0), cos_sin_factor=1.25)
    on_softmax = table((0, 1, 0, 1.0), softmax_factor=1.5625)
    factors = compare_pairs(on_tables, on_softmax).factors
    assert (factors.cos_sin, factors.softmax) == ((1.25, 1.0), (1.0, 1.5625))
    assert (factors.equal, factors.scores_equal) == (False, True)
    assert not compare_pairs(on_tables, on_softmax).equal


def test_a_tolerance_and_an_uncertainty_let_small_differences_pass():
    a, b = table((0, 1, 0, 0.5)), table((0, 1, 0, 0.5 * (1 + 1e-7)))
    assert not compare_pairs(a, b).equal
    assert compare_pairs(a, b, tolerance=1e-6).equal
    assert compare_pairs(a, b, error=[1e-7]).equal
    with pytest.raises(RopewalkError, match="1 pairs of a"):
        compare_pairs(a, b, error=[1e-7, 1e-7])


def test_an_exponent_without_its_2_is_another_theta_to_rounding():
    # theta^(-i/R) is (sqrt theta)^(-2i/R)
    rope = Rope(head_dim=16, rope_theta=math.sqrt(5e5), pairing="half").pairs()
    mutant = table(*((i, i + 8, 0, 5e5 ** (-i / 16)) for i in range(8)))
    assert rope != mutant
    assert compare_pairs(rope, mutant).equal


def test_speeds_at_the_end_of_float64_stay_numbers():
    a, b = table((0, 1, 0, 1e300)), table((0, 1, 0, -1e300))
    (row,) = compare_pairs(a, b, distances=[2**53]).angles
    assert np.isfinite(row.unwrapped).all() and abs(row.wrapped[0]) <= math.pi


def test_tables_without_pairs_can_be_compared():
    none = Pairs(first=[], second=[], axis=[], inv_freq=[])
    seen = compare_pairs(none, none)
    assert seen.equal and seen.angles[0].worst is None
    assert not compare_pairs(none, table((0, 1, 0, 1.0))).equal


@pytest.mark.parametrize("distances", [[], [-1], [1.5], ["x"], range(1000)])
def test_distances_that_are_none_are_refused(distances):
    with pytest.raises(RopewalkError, match="distances"):
        compare_pairs(HALF.pairs(), HALF.pairs(), distances=distances)


def test_both_sides_may_be_uncertain():
    a, b = table((0, 2, 0, 1.0), (1, 3, 0, 0.5)), table((1, 3, 0, 0.5002), (0, 2, 0, 1.0))
    assert compare_pairs(a, b, error=[0, 1e-4]).first.pair == 1
    assert compare_pairs(a, b, error_b=[1e-4, 0]).first.pair == 1
    seen = compare_pairs(a, b, error=[0, 1.5e-4], error_b=[1e-4, 0], distances=[100, 1_000_000])
    assert seen.equal
    assert [row.room for row in seen.angles] == pytest.approx([0.025, math.pi])
    with pytest.raises(RopewalkError, match="error_b must hold one number for each of 2 pairs of b"):
        compare_pairs(a, b, error_b=[1e-4])


def test_a_pair_that_hardly_turns_is_none_within_the_error():
    a, b = table((0, 2, 0, 1.0)), table((0, 2, 0, 1.0), (1, 3, 0, 1e-9))
    assert not compare_pairs(a, b).equal
    assert compare_pairs(a, b, error_b=[0, 2e-9]).equal
    assert compare_pairs(b, a, error=[0, 2e-9]).equal


def test_a_factor_may_be_uncertain():
    a, b = table((0, 2, 0, 1.0)), table((0, 2, 0, 1.0), cos_sin_factor=1.001)
    assert not compare_pairs(a, b).equal
    assert compare_pairs(a, b, factor_error=2e-3).equal
