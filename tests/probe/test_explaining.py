"""explain(): the best known description of a table, where nothing is declared; and of any rope at all."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import Ladders, Pairs, Rope, Sections, Strided, preset_names, read
from ropewalk.probe.explaining import explain
from ropewalk.scaling import Default, Linear, Llama3, LongRope, Proportional, Yarn

from .made_tables import (
    ALL,
    NOISES,
    REFERENCE,
    adjacent,
    explained,
    g,
    half,
    ladder,
    llama3,
    table,
    yarn,
)


def ropes_of_presets():
    found = {rope: name for name in preset_names() for rope in read(name).ropes}
    return [pytest.param(rope, id=f"{name}-{number}") for number, (rope, name) in enumerate(found.items())]


@pytest.mark.parametrize("rope", ropes_of_presets())
def test_a_preset_is_found_again_from_its_table(rope):
    for noise in NOISES:
        pairs = rope.pairs()
        seen = explained(pairs, rope.head_dim, noise, max_position_embeddings=rope.max_position_embeddings)
        if isinstance(rope.scaling, LongRope):
            assert seen.rope is None and not seen.known and seen.parameters["inv_freq"]
        else:
            again = seen.rope.pairs()
            np.testing.assert_allclose(again.inv_freq, pairs.inv_freq, rtol=1e-9)
            assert np.array_equal(again.first, pairs.first) and np.array_equal(again.axis, pairs.axis)
            assert np.array_equal(again.second, pairs.second)
            assert again.cos_sin_factor == pytest.approx(pairs.cos_sin_factor, rel=1e-9)
        declared = explained(pairs, rope.head_dim, noise, expect=rope)
        assert declared.rope == rope and not declared.deviations and declared.recipe == "as declared"


@pytest.mark.parametrize(
    ("theta", "seen"), [(499999.998, 500000.0), (1e4, 1e4), (1086796.667, 1086796.667), (1.0, 1.0), (12e6, 12e6)]
)
def test_theta_is_given_as_round_as_the_measurement_allows(theta, seen):
    found = explained(table(half(48), ladder(theta, 96)), 96, 1e-9)
    assert found.rope.rope_theta == pytest.approx(seen, rel=1e-9)
    assert found.rope.scaling == Default()


def test_float32_tables_and_running_products_are_the_plain_ladder():
    straight = ladder(500000.0, 128).astype(np.float32).astype(np.float64)
    step = np.float32(500000.0 ** (-2 / 128))
    running = np.cumprod(np.concatenate([[np.float32(1)], np.full(63, step)]), dtype=np.float32).astype(np.float64)
    rope = Rope(head_dim=128, rope_theta=500000.0, pairing="half")
    for column in (straight, running):
        assert explain(table(half(64), column), 128).rope == rope
        assert explain(table(half(64), column), 128, expect=rope).recipe == "as declared"


def test_linear_is_found_with_its_factor():
    found = explained(table(half(48), ladder(3e5, 96) / 6), 96, 1e-7)
    assert (found.rope.rope_theta, found.rope.scaling) == (3e5, Linear(factor=6.0))


def test_llama3_is_found_up_to_the_common_factor_of_its_lengths():
    for noise in NOISES:
        found = explained(table(half(48), llama3(3e5, 96, 16.0)), 96, noise)
        scaling = found.rope.scaling
        assert scaling == Llama3(
            factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=4096
        )
        assert "common factor" in found.open[0]


@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_is_found_with_its_bounds_and_magnitude(truncate):
    frequencies = yarn(250000.0, 80, 12.0, 6144, truncate=truncate)
    for noise in NOISES:
        pairs = table(half(40), frequencies, factor=g(12))
        found = explained(pairs, 80, noise, max_position_embeddings=73728)
        expected = Yarn(factor=12.0, original_max_position_embeddings=6144, truncate=truncate)
        assert (found.rope.rope_theta, found.rope.scaling) == (250000.0, expected)


def test_proportional_is_told_from_ordinary_partial_by_its_partner():
    seen = table(half(24, gap=80), ladder(2e5, 160, 24))
    found = explained(seen, 160, 1e-7)
    assert found.rope.scaling == Proportional(partial_rotary_factor=0.3) and found.rope.width == 160
    assert found.rope.pairs().inv_freq[[1, 23]] == pytest.approx([0.8584937249, 0.02991946863], rel=1e-9)
    ordinary = explained(table(half(24), ladder(2e5, 48)), 160, 1e-7)
    assert (ordinary.rope.width, ordinary.rope.rope_theta) == (48, 2e5)
    assert ordinary.rope.pairs().inv_freq[1] == pytest.approx(0.6013450635, rel=1e-9)


def test_slow_pairs_below_the_resolution_are_not_taken_for_still_ones():
    full = ladder(1e12, 128)
    seen = full > 1e-9
    found = explain(
        table((np.arange(64)[seen], np.arange(64)[seen] + 64), full[seen]), 128, error=np.full(seen.sum(), 1e-9)
    )
    assert (found.rope.rope_theta, found.rope.scaling) == (1e12, Default())


def test_pairs_too_slow_to_be_seen_are_as_declared():
    for scaling in (Default(), Linear(factor=4.0), Proportional(partial_rotary_factor=0.75)):
        rope = Rope(head_dim=128, rope_theta=1e12, pairing="half", scaling=scaling)
        full = rope.pairs()
        seen = full.inv_freq > 4e-9
        part = table((full.first[seen], full.second[seen]), full.inv_freq[seen])
        found = explain(part, 128, error=np.full(len(part), 2e-9), expect=rope)
        assert found.recipe == "as declared"
        other = explain(part, 128, error=np.full(len(part), 2e-9), expect=rope.replace(rope_theta=1e6))
        assert other.slug == "wrong-theta"


def test_coarse_slow_pairs_do_not_spoil_the_fit():
    rng = np.random.default_rng(3)
    error = np.full(64, 3e-8)
    for s, frequencies in ((1.0, ladder(5e5, 128)), (8.0, llama3(5e5, 128, 8.0, original=8192))):
        found = explain(table(half(64), frequencies + 1e-8 * rng.uniform(-1, 1, 64)), 128, error=error)
        assert found.rope.rope_theta == 5e5
        assert getattr(found.rope.scaling, "factor", 1.0) == s


@pytest.mark.parametrize(
    "axes",
    [
        Sections(sections=(10, 6, 4)),
        Sections(sections=(8, 6, 6), arrangement="interleaved"),
        Sections(sections=(4, 8, 8), arrangement="alternating"),
        Ladders(widths=(8, 12, 20), names=("t", "h", "w")),
        Ladders(widths=(20, 20)),
        Ladders(widths=(20, 20), order=(1, 0)),
        Ladders(widths=(20, 20), arrangement="alternate"),
        Ladders(widths=(20, 20), pairing_within="axis"),
        Ladders(widths=(16, 24), pairing_within="axis"),
        Strided(),
    ],
)
def test_the_rule_of_the_axes_is_found(axes):
    rope = Rope(head_dim=40, rope_theta=3e5, pairing="half", axes=axes)
    for noise in NOISES:
        found = explained(rope.pairs(), 40, noise)
        assert found.rope.rope_theta == 3e5
        again, right = found.rope.pairs(), rope.pairs()
        for column in ("first", "second", "axis"):
            assert np.array_equal(getattr(again, column), getattr(right, column))
        np.testing.assert_allclose(again.inv_freq, right.inv_freq, rtol=1e-12)
        assert explained(rope.pairs(), 40, noise, expect=rope).recipe == "as declared"


def test_golden_angles_of_mrope_are_explained_as_declared():
    ids = np.array([3, 11, 6])
    for arrangement, pairs, angles in (
        ("interleaved", [1, 2, 9, 13, 16], [5.855131084, 1.699961653, 0.01029003117, 3.028753086e-3, 4.567680112e-4]),
        ("chunked", [10, 15, 16, 19], [0.02008316044, 8.581273504e-4, 2.491461879e-4, 3.757388124e-5]),
    ):
        axes = Sections(sections=(10, 6, 4), arrangement=arrangement)
        rope = Rope(head_dim=40, rope_theta=3e5, pairing="half", axes=axes)
        axis = rope.pairs().axis
        found = explained(table(half(20), ladder(3e5, 40), axis=axis), 40, 1e-7, expect=rope)
        again = found.rope.pairs()
        assert ids[again.axis][pairs] * again.inv_freq[pairs] == pytest.approx(angles, rel=1e-9)


def test_direction_and_tail_are_found():
    pairs = table(adjacent(8, start=20), -ladder(1e4, 16))
    found = explained(pairs, 36, 1e-7)
    assert (found.rope.direction, found.rope.rotary_start, found.rope.pairing) == (-1, 20, "interleaved")


def test_a_pair_written_the_other_way_round_turns_the_other_way():
    first, second = half(8)
    assert explain(table((second, first), -ALL), 16).rope == REFERENCE


def test_hybrid_tile_is_found_as_declared_and_alone():
    rope = Rope(head_dim=16, rope_theta=5e5, pairing="hybrid_tile")
    i = np.arange(8)
    pairs = table(adjacent(8), ALL[(2 * i) % 8], second=ALL[(2 * i + 1) % 8])
    assert explained(pairs, 16, 1e-7).rope == rope
    assert explained(pairs, 16, 1e-7, expect=rope).recipe == "as declared"


@pytest.mark.parametrize(
    "pairs",
    [
        table(half(8), ALL * np.linspace(1, 3, 8)),
        table((np.array([0, 1, 2]), np.array([5, 3, 4])), ladder(1e4, 6)),
        table(half(8), ALL * np.where(np.arange(8) == 3, -1, 1)),
        table((np.array([], int), np.array([], int)), np.array([])),
    ],
)
def test_a_table_of_its_own_has_no_rope(pairs):
    found = explain(pairs, 16)
    assert found.rope is None and not found.known and found.parameters["inv_freq"] == pairs.inv_freq.tolist()
    assert explain(pairs, 16, expect=REFERENCE).deviations
    json.dumps(found.to_dict())


def test_a_magnitude_without_a_scaling_is_kept():
    found = explain(table(half(8), ALL, factor=1.25), 16)
    assert found.rope.pairs().cos_sin_factor == 1.25 and "1.25" in found.recipe


widths = st.integers(4, 64).map(lambda half_width: 2 * half_width)
thetas = st.sampled_from([100.0, 500.0, 1e4, 5e4, 150000.0, 5e5, 1e6, 12e6])
scalings = st.one_of(
    st.just(Default()),
    st.builds(Linear, factor=st.sampled_from([2.0, 4.0, 8.0, 2.5])),
    st.builds(
        Llama3,
        factor=st.sampled_from([4.0, 8.0, 32.0]),
        low_freq_factor=st.sampled_from([1.0, 2.0]),
        high_freq_factor=st.sampled_from([4.0, 6.0]),
        original_max_position_embeddings=st.sampled_from([2048, 8192, 6144]),
    ),
    st.builds(
        Yarn,
        factor=st.sampled_from([4.0, 12.0, 40.0]),
        original_max_position_embeddings=st.sampled_from([2048, 4096, 32768]),
        truncate=st.booleans(),
        beta_fast=st.sampled_from([32.0, 16.0]),
    ),
)


@st.composite
def ropes(draw):
    width = draw(widths)
    start = draw(st.sampled_from([0, 0, 6]))
    scaling = draw(scalings)
    theta = draw(thetas)
    if isinstance(scaling, Yarn | Llama3):
        width, theta = max(width, 64), max(theta, 1e4)
    return Rope(
        head_dim=width + start + draw(st.sampled_from([0, 0, 10])),
        rope_theta=theta,
        pairing=draw(st.sampled_from(["half", "interleaved"])),
        rotary_dim=width,
        rotary_start=start,
        direction=draw(st.sampled_from([1, 1, -1])),
        scaling=scaling,
    )


@settings(max_examples=150, deadline=None)
@given(ropes(), st.sampled_from(NOISES))
def test_any_rope_is_found_from_its_table(rope, noise):
    found = explained(rope.pairs(), rope.head_dim, noise)
    assert found.rope is not None, found.recipe
    np.testing.assert_allclose(found.rope.pairs().inv_freq, rope.pairs().inv_freq, rtol=2e-5)
    declared = explained(rope.pairs(), rope.head_dim, noise, expect=rope)
    assert declared.recipe == "as declared"


columns = st.lists(st.integers(0, 40), min_size=2, max_size=24, unique=True).filter(lambda one: len(one) % 2 == 0)
numbers = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, 1e-300, -1e-12, 1e300])


@settings(max_examples=300, deadline=None)
@given(columns, st.data())
def test_any_table_whatever_is_explained_without_an_error(channels, data):
    count = len(channels) // 2
    axis = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    some = st.lists(numbers, min_size=count, max_size=count)
    pairs = Pairs(
        first=channels[:count],
        second=channels[count:],
        axis=axis if data.draw(st.booleans()) else [0] * count,
        inv_freq=data.draw(some),
        second_inv_freq=data.draw(some | st.none()),
        cos_sin_factor=data.draw(st.sampled_from([1.0, 1.3, 0.2])),
    )
    error = data.draw(st.sampled_from([None, np.full(count, 1e-6), np.full(count, 0.0), np.full(count, np.inf)]))
    expect = data.draw(ropes().filter(lambda rope: rope.head_dim >= 41) | st.none())
    found = explain(pairs, 64 if expect is None else expect.head_dim, expect=expect, error=error)
    json.dumps(found.to_dict(), allow_nan=False)


@settings(max_examples=30, deadline=None)
@given(ropes(), ropes(), st.sampled_from(NOISES))
def test_another_rope_is_never_taken_for_the_declared_one(rope, other, noise):
    expect = other.replace(head_dim=128 + 16)
    seen = explained(rope.pairs(), 128 + 16, noise, expect=expect)
    mine, theirs = rope.pairs(), expect.pairs()
    same = (
        np.array_equal(mine.first, theirs.first)
        and np.array_equal(mine.second, theirs.second)
        and np.allclose(mine.inv_freq, theirs.inv_freq, rtol=2e-5)
        and mine.cos_sin_factor == pytest.approx(theirs.cos_sin_factor, rel=3e-3)
    )
    assert bool(seen.deviations) != same, seen.recipe
