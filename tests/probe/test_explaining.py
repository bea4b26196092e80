"""A table of pairs explained: the known descriptions, and every mistake that one table shows.

The tables of mistakes are made here from the formulas in NumPy, not by the code under test.
"""

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import Ladders, Pairs, Rope, Sections, Strided, preset_names, read
from ropewalk.probe.explaining import explain
from ropewalk.scaling import Default, Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Yarn

NOISES = (0.0, 1e-9, 1e-7, 1e-6)


def ladder(theta, width, count=None):
    return theta ** (-2 * np.arange(width // 2 if count is None else count) / width)


def half(count, *, gap=None, start=0):
    return start + np.arange(count), start + np.arange(count) + (gap or count)


def adjacent(count, *, start=0):
    return start + 2 * np.arange(count), start + 2 * np.arange(count) + 1


def llama3(theta, width, s, low=1.0, high=4.0, original=4096, middle="right"):
    """Meta's bands, pair by pair; the middle band by the right formula or by a mistake."""
    result = []
    for w in ladder(theta, width):
        wavelength = 2 * math.pi / w
        if wavelength < original / high:
            result.append(w)
        elif wavelength > original / low:
            result.append(w / s)
        else:
            t = (original / wavelength - low) / (high - low)
            u = (wavelength - original / high) / (original / low - original / high)
            if middle == "right":
                result.append((1 - t) * w / s + t * w)
            elif middle == "precedence":
                result.append(w / (1 / (1 - t) * s + t))
            else:
                result.append(w / (s * (1 - u) + u))
    return np.array(result)


def yarn(theta, width, s, original, *, fast=32.0, slow=1.0, truncate=True, clamp=None, way="right"):
    """YaRN's blend, pair by pair; right or by a mistake."""
    low, high = (width * math.log(original / (2 * math.pi * beta)) / (2 * math.log(theta)) for beta in (fast, slow))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1 if clamp is None else clamp)
    result = []
    for i, w in enumerate(ladder(theta, width)):
        ramp = min(max((i - low) / ((high - low) or 0.001), 0), 1)
        if way == "inverted":
            ramp = 1 - ramp
        slowed = (s * theta) ** (-2 * i / width) if way == "power" else w / s
        kept = (theta * s ** (width / (width - 2))) ** (-2 * i / width) if way == "ntk" else w
        result.append(slowed * ramp + kept * (1 - ramp))
    return np.array(result)


def g(s, m=1.0):
    return 0.1 * m * math.log(s) + 1


def table(channels, inv_freq, *, factor=1.0, axis=None, second=None):
    first, other = channels
    return Pairs(
        first=first,
        second=other,
        axis=np.zeros(len(first), dtype=int) if axis is None else axis,
        inv_freq=inv_freq,
        cos_sin_factor=factor,
        second_inv_freq=second,
    )


def measured(pairs, noise, seed=0):
    """The table as a measurement gives it: noisy, the still pairs not seen; and the uncertainty."""
    rng = np.random.default_rng(seed)
    seen = pairs.inv_freq != 0
    if pairs.second_inv_freq is not None:
        seen |= pairs.second_inv_freq != 0

    def noisy(column):
        return None if column is None else (column * (1 + noise * rng.uniform(-1, 1, len(column))))[seen]

    again = Pairs(
        first=pairs.first[seen],
        second=pairs.second[seen],
        axis=pairs.axis[seen],
        inv_freq=noisy(pairs.inv_freq),
        second_inv_freq=noisy(pairs.second_inv_freq),
        cos_sin_factor=pairs.cos_sin_factor,
    )
    return again, np.abs(pairs.inv_freq[seen]) * noise if noise else None


def explained(pairs, head_dim, noise=0.0, **options):
    again, error = measured(pairs, noise)
    return explain(again, head_dim, error=error, **options)


def check_named(pairs, head_dim, expect, slugs, **options):
    """Explain a table at several levels of noise; give the last explanation."""
    for noise in NOISES:
        seen = explained(pairs, head_dim, noise, expect=expect, **options)
        assert [deviation.slug for deviation in seen.deviations] == list(slugs), seen.recipe
        assert seen.slug == next((slug for slug in slugs if slug), None)
        assert seen.residual < 1e-5
        json.dumps(seen.to_dict())
        if seen.rope is not None:
            np.testing.assert_allclose(seen.rope.pairs().inv_freq[: len(pairs)], pairs.inv_freq, rtol=1e-5)
    return seen


REFERENCE = Rope(head_dim=16, rope_theta=5e5, pairing="half")
ALL = ladder(5e5, 16)


# -- nothing declared -------------------------------------------------------------------------------------------------


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


# -- geometry against what was declared -------------------------------------------------------------------------------


def test_pairing_deviations_are_named():
    i = np.arange(8)
    near = REFERENCE.replace(pairing="interleaved")
    repeat = table(half(8), ALL[i // 2], second=ALL[(i + 8) // 2])
    tile = table(adjacent(8), ALL[(2 * i) % 8], second=ALL[(2 * i + 1) % 8])
    check_named(table(adjacent(8), ALL), 16, REFERENCE, ["interleaved-for-half"])
    check_named(table(half(8), ALL), 16, near, ["interleaved-for-half"])
    for rope in (REFERENCE, near):
        check_named(repeat, 16, rope, ["hybrid-repeat"])
        check_named(tile, 16, rope, ["hybrid-tile"])
    check_named(table(half(8), -ALL), 16, REFERENCE, ["conjugate"])
    check_named(table(half(8), ALL), 16, REFERENCE.replace(direction=-1), ["conjugate"])


@pytest.mark.parametrize(("head_dim", "width"), [(16, 8), (12, 6), (80, 32), (128, 96), (96, 72), (10, 4)])
def test_width_start_and_partner_deviations_are_named(head_dim, width):
    count, full = width // 2, head_dim // 2
    rope = Rope(head_dim=head_dim, rope_theta=5e5, pairing="half", rotary_dim=width)
    near = rope.replace(pairing="interleaved")
    tail = rope.replace(rotary_start=head_dim - width)
    own, whole = ladder(5e5, width), ladder(5e5, head_dim)
    proportional = Rope(
        head_dim=head_dim,
        rope_theta=5e5,
        pairing="half",
        scaling=Proportional(partial_rotary_factor=(width + 1e-9) / head_dim),
    )
    check_named(table(half(count), own), head_dim, tail, ["leading-for-tail"])
    check_named(table(half(count, start=head_dim - width), own), head_dim, rope, ["leading-for-tail"])
    check_named(table(half(count, gap=full), own), head_dim, rope, ["partner-of-full-head"])
    check_named(table(half(count, gap=full), whole[:count]), head_dim, rope, ["proportional-for-ordinary"])
    check_named(table(half(count), own), head_dim, proportional, ["proportional-for-ordinary"])
    check_named(table(half(count), whole[:count]), head_dim, rope, ["exponent-over-head"])
    check_named(table(half(full), whole), head_dim, rope, ["full-for-partial"])
    check_named(table(adjacent(full), whole), head_dim, near, ["full-for-partial"])
    check_named(
        table(adjacent(full), whole), head_dim, near.replace(rotary_start=head_dim - width), ["full-for-partial"]
    )
    if width % 4 == 0 and width > 4:
        for frequencies in (ladder(5e5, width // 2), own[: count // 2]):
            check_named(table(half(count // 2), frequencies), head_dim, rope, ["partial-twice"])
            check_named(table(adjacent(count // 2), frequencies), head_dim, near, ["partial-twice"])


def test_partner_of_full_head_lists_the_proportional_rope_that_it_equals():
    rope = Rope(head_dim=12, rope_theta=500.0, pairing="half", rotary_dim=6)
    found = explain(table(half(3, gap=6), ladder(500.0, 6)), 12, expect=rope)
    equal = found.rope
    assert equal.scaling == Proportional(partial_rotary_factor=0.5) and equal.rope_theta == pytest.approx(250000)


def test_axes_deviations_are_named():
    frequencies = ladder(3e5, 40)
    plans = {name: Sections(sections=(10, 6, 4), arrangement=name) for name in ("chunked", "interleaved")}
    for name, axes in plans.items():
        rope = Rope(head_dim=40, rope_theta=3e5, pairing="half", axes=axes)
        other = plans["interleaved" if name == "chunked" else "chunked"]
        check_named(table(half(20), frequencies, axis=other.plan(40).axis), 40, rope, ["mrope-chunked"])
        axis = axes.plan(40).axis
        swapped = check_named(table(half(20), frequencies, axis=np.array([0, 2, 1])[axis]), 40, rope, ["axes-swapped"])
        assert swapped.recipe == "axes exchanged: w for h, h for w"
        for silent in range(3):
            zeroed = np.where(axis == silent, 0.0, frequencies)
            seen = check_named(table(half(20), zeroed, axis=axis), 40, rope, ["axes-swapped"])
            assert f"axis {'thw'[silent]} turns nothing" in seen.recipe
        one = check_named(table(half(20), frequencies), 40, rope, [None])
        assert one.deviations[0].kind == "axes" and "axis t drives every pair" in one.recipe
    restarted = np.concatenate([ladder(3e5, 20), ladder(3e5, 12), ladder(3e5, 8)])
    chunked = Rope(head_dim=40, rope_theta=3e5, pairing="half", axes=plans["chunked"])
    seen = check_named(table(half(20), restarted, axis=chunked.pairs().axis), 40, chunked, [None])
    assert seen.recipe == "the ladder restarts on each axis"


# -- frequencies against what was declared ----------------------------------------------------------------------------


def test_plain_frequency_deviations_are_named():
    seen = check_named(table(half(8), ladder(1e4, 16)), 16, REFERENCE, ["wrong-theta"])
    assert seen.recipe == "theta 10000 for 500000"
    assert (seen.deviations[0].seen, seen.deviations[0].declared) == (1e4, 5e5)
    seen = check_named(table(half(8), 5e5 ** (-np.arange(8) / 16)), 16, REFERENCE, ["exponent-without-2"])
    assert seen.rope.rope_theta == pytest.approx(math.sqrt(5e5)) and "equals theta 707.107" in seen.recipe
    check_named(table(half(8), 2 * ALL, factor=1.0), 16, REFERENCE, ["double-rotation"])
    check_named(table((np.array([], int), np.array([], int)), np.array([])), 16, REFERENCE, ["identity"])


def test_rounded_frequencies_are_named():
    torch = pytest.importorskip("torch")
    for dtype, slug in ((torch.bfloat16, "bf16-frequencies"), (torch.half, "fp16-frequencies")):
        for theta, width in ((3e4, 96), (1e4, 128), (1e4, 16)):
            rope = Rope(head_dim=width, rope_theta=theta, pairing="half")
            rounded = torch.from_numpy(ladder(theta, width)).to(dtype).double().numpy()
            check_named(table(half(width // 2), rounded), width, rope, [slug])


@pytest.mark.parametrize(
    ("width", "theta", "s", "original"), [(96, 3e5, 16.0, 4096), (128, 5e5, 8.0, 8192), (64, 5e5, 32.0, 8192)]
)
def test_llama3_deviations_are_named(width, theta, s, original):
    def seen(**changes):
        given_ = {"theta": theta, "s": s, "original": original, **changes}
        return table(half(width // 2), llama3(width=width, **given_))

    rope = Rope(
        head_dim=width,
        rope_theta=theta,
        pairing="half",
        scaling=Llama3(factor=s, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=original),
        max_position_embeddings=131072,
    )
    check_named(seen(), width, rope, [])
    check_named(table(half(width // 2), ladder(theta, width)), width, rope, ["unscaled"])
    for pinned in (4.0, 5.0, 24.0, 20.5):
        found = check_named(seen(s=pinned), width, rope, ["factor-pinned"])
        assert found.parameters["factor"] == pinned and found.recipe == f"factor {pinned:g} for {s:g}"
    check_named(seen(middle="precedence"), width, rope, ["llama3-precedence"])
    check_named(seen(middle="wavelength"), width, rope, ["llama3-ramp-in-wavelength"])
    check_named(seen(theta=1e4), width, rope, ["wrong-theta"])
    check_named(table(half(width // 2), ladder(1e4, width)), width, rope, ["unscaled", "wrong-theta"])
    check_named(seen(theta=math.sqrt(theta)), width, rope, ["exponent-without-2"])
    assert check_named(seen(original=131072), width, rope, [None]).recipe == "the bands of an original length of 131072"
    assert check_named(seen(high=8.0), width, rope, [None]).recipe == "high_freq_factor 8 for 4"


def test_llama3_mistakes_have_the_golden_divisors():
    w = ladder(3e5, 96)[20:25]
    golden = {
        "right": [1.228669046, 1.760351773, 2.638197642, 4.278988540, 8.200951039],
        "precedence": [81.39846658, 35.26698378, 24.49405411, 19.75719483, 17.14645773],
        "wavelength": [15.12532599, 13.36005090, 11.06433002, 8.078770192, 4.196082394],
    }
    scaling = Llama3(factor=16, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=4096)
    rope = Rope(head_dim=96, rope_theta=3e5, pairing="half", scaling=scaling)
    slugs = {"right": None, "precedence": "llama3-precedence", "wavelength": "llama3-ramp-in-wavelength"}
    for middle, divisors in golden.items():
        frequencies = llama3(3e5, 96, 16.0)
        frequencies[20:25] = w / divisors
        assert explain(table(half(48), frequencies), 96, expect=rope).slug == slugs[middle]
    step = rope.replace(
        scaling=Llama3(factor=16, low_freq_factor=1, high_freq_factor=1, original_max_position_embeddings=4096)
    )
    frequencies = ladder(3e5, 96) / np.where(np.arange(48) < 25, 1, 16)
    assert explain(table(half(48), frequencies), 96, expect=step).recipe == "as declared"
    assert explain(table(half(48), frequencies), 96).rope is not None


@pytest.mark.parametrize(
    ("width", "theta", "s", "original", "truncate"),
    [
        (80, 250000.0, 12.0, 6144, True),
        (80, 250000.0, 12.0, 6144, False),
        (64, 150000.0, 32.0, 4096, False),
        (48, 5000.0, 6.0, 65536, True),
        (64, 10000.0, 40.0, 4096, True),
    ],
)
def test_yarn_deviations_are_named(width, theta, s, original, truncate):
    def seen(*, factor=None, **changes):
        given_ = {"theta": theta, "s": s, "original": original, "truncate": truncate, **changes}
        return table(half(width // 2), yarn(width=width, **given_), factor=g(s) if factor is None else factor)

    rope = Rope(
        head_dim=width,
        rope_theta=theta,
        pairing="half",
        scaling=Yarn(factor=s, original_max_position_embeddings=original, truncate=truncate),
        max_position_embeddings=int(original * s),
    )
    check_named(seen(), width, rope, [])
    for factor in (1.0, g(s)):
        check_named(table(half(width // 2), ladder(theta, width), factor=factor), width, rope, ["unscaled"])
        found = check_named(seen(s=8.0, factor=g(8.0) if factor == 1 else factor), width, rope, ["factor-pinned"])
        assert found.parameters["factor"] == 8
    check_named(seen(truncate=not truncate), width, rope, ["yarn-rounded"])
    changed = original == 65536  # elsewhere the upper bound is below R/2 - 1 in any case
    check_named(seen(clamp=width // 2 - 1), width, rope, ["yarn-clamp-half"] if changed else [])
    check_named(seen(way="inverted"), width, rope, ["yarn-ramp-inverted"])
    check_named(seen(fast=1.0, slow=32.0), width, rope, ["yarn-ramp-inverted"])
    check_named(seen(way="power"), width, rope, ["yarn-factor-in-power"])
    check_named(seen(way="ntk"), width, rope, ["yarn-ntk-base"])
    check_named(seen(factor=1.0), width, rope, ["magnitude-missing"])
    check_named(seen(factor=g(s) ** 2), width, rope, ["magnitude-twice"])
    check_named(seen(theta=1e6), width, rope, ["wrong-theta"])
    longer = check_named(seen(original=int(original * s)), width, rope, [None])
    assert longer.recipe == f"the bands of an original length of {original * s:.0f}"
    assert check_named(seen(fast=20.0), width, rope, [None]).recipe == "beta_fast 20 for 32"


def test_yarn_mistakes_have_the_golden_numbers():
    rope = Rope(
        head_dim=80, rope_theta=250000.0, pairing="half", scaling=Yarn(factor=12, original_max_position_embeddings=6144)
    )
    plain = ladder(250000.0, 80)
    assert yarn(250000.0, 80, 12.0, 6144, truncate=False)[22] == pytest.approx(1.035309897e-4)
    assert yarn(250000.0, 80, 12.0, 6144)[22] == pytest.approx(1.715925148e-4)
    assert yarn(250000.0, 80, 12.0, 6144, way="ntk")[1] == pytest.approx(0.6876701700)
    inverted = plain / yarn(250000.0, 80, 12.0, 6144, way="inverted")
    assert inverted[[0, 10, 15, 20, 25, 39]] == pytest.approx([12, 12, 2.571428571, 1.297297297, 1, 1])
    assert explain(table(half(40), plain / inverted, factor=1.248490665), 80, expect=rope).slug == "yarn-ramp-inverted"


@pytest.mark.parametrize("s", [3.0, 6.0, 8.0])
def test_linear_deviations_are_named(s):
    rope = Rope(head_dim=96, rope_theta=3e5, pairing="half", scaling=Linear(factor=s))
    plain = ladder(3e5, 96)
    check_named(table(half(48), plain), 96, rope, ["unscaled"])
    assert check_named(table(half(48), plain / 5), 96, rope, ["factor-pinned"]).recipe == f"factor 5 for {s:g}"
    multiplied = check_named(table(half(48), plain * s), 96, rope, ["factor-pinned"])
    assert "multiplied by the factor instead of divided" in multiplied.recipe
    halved = check_named(table(half(48), 2 * plain / s), 96, rope, ["factor-pinned"])
    assert "equals every angle doubled" in halved.recipe
    check_named(table(half(48), ladder(1e4, 96) / s), 96, rope, ["wrong-theta"])


def test_dynamic_deviations_are_named():
    rope = Rope(head_dim=96, rope_theta=5e4, pairing="half", scaling=Dynamic(factor=3.0), max_position_embeddings=3072)

    def seen(theta, **options):
        return check_named(table(half(48), ladder(theta, 96)), 96, rope, **options)

    seen(5e4, slugs=[])
    seen(250042.6554, slugs=[], length=7000)
    seen(667504.9284, slugs=[], length=15000)
    assert seen(364794.9803, slugs=["dynamic-frozen"]).recipe.startswith("the base of a sequence of 9216 tokens")
    assert seen(250042.6554, slugs=["dynamic-frozen"]).parameters["length"] == 7000
    seen(364794.9803, slugs=["dynamic-frozen"], length=7000)
    stuck = seen(250042.6554, slugs=["dynamic-frozen"], length=15000)
    assert stuck.parameters["length"] == 7000 and "(250042.6" in stuck.recipe
    seen(5e4, slugs=["unscaled"], length=7000)
    seen(1e4, slugs=["wrong-theta"])
    seen(5e5, slugs=["wrong-theta"])
    slowed = table(half(48), ladder(5e4, 96) / 3 ** (96 / 94))
    assert slowed.inv_freq[0] == pytest.approx(0.3256321)
    assert "divided by s^(R/(R-2))" in check_named(slowed, 96, rope, [None], length=7000).recipe
    check_named(table(half(48), 2 * ladder(5e4, 96)), 96, rope, ["double-rotation"])


def test_longrope_deviations_are_named():
    rng = np.random.default_rng(5)
    for long in (np.full(40, 2.5), 1 + np.sort(rng.uniform(0, 30, 40))):
        scaling = LongRope(short_factor=(1.0,) * 40, long_factor=tuple(long), original_max_position_embeddings=3072)
        rope = Rope(head_dim=80, rope_theta=5e5, pairing="half", scaling=scaling, max_position_embeddings=49152)
        plain = ladder(5e5, 80)
        short, stretched = (table(half(40), plain / by, factor=1.159859982) for by in (1.0, long))
        check_named(short, 80, rope, [])
        check_named(stretched, 80, rope, ["longrope-long-always"])
        check_named(stretched, 80, rope, [], length=3073)
        check_named(short, 80, rope, [None], length=3073)
        missing = table(half(40), plain)
        check_named(missing, 80, rope, ["magnitude-missing"])


def test_ntk_deviations_are_named():
    rope = Rope(head_dim=96, rope_theta=5e4, pairing="half", scaling=Ntk(factor=5.0))
    aware = ladder(5e4 * 5 ** (96 / 94), 96)
    vllm = ladder(5e4 * 5, 96) / 5 ** (2 / 96)
    assert vllm[0] / aware[0] == pytest.approx(0.9670259421)
    check_named(table(half(48), aware), 96, rope, [])
    assert "'vllm'" in check_named(table(half(48), vllm), 96, rope, [None]).recipe
    assert "'base'" in check_named(table(half(48), ladder(25e4, 96)), 96, rope, [None]).recipe
    check_named(table(half(48), ladder(5e4, 96)), 96, rope, ["unscaled"])
    check_named(table(half(48), ladder(5e4 * 8 ** (96 / 94), 96)), 96, rope, ["factor-pinned"])
    hunyuan = Rope(head_dim=96, rope_theta=2e4, pairing="half", scaling=Ntk(factor=50.0))
    check_named(table(half(48), ladder(1086796.667, 96)), 96, hunyuan, [])


def test_proportional_deviations_are_named():
    scaling = Proportional(partial_rotary_factor=0.3, factor=4.0)
    rope = Rope(head_dim=160, rope_theta=2e5, pairing="half", scaling=scaling)
    pairs = half(24, gap=80)
    check_named(table(pairs, ladder(2e5, 160, 24) / 4), 160, rope, [])
    check_named(table(pairs, ladder(2e5, 160, 24)), 160, rope, ["unscaled"])
    check_named(table(half(80), ladder(2e5, 160) / 4), 160, rope, ["full-for-partial"])
    check_named(table(pairs, ladder(1e4, 160, 24) / 4), 160, rope, ["wrong-theta"])


def test_mla_magnitudes_are_named():
    scaling = Yarn(
        factor=25.0, original_max_position_embeddings=4096, mscale=0.8, mscale_all_dim=0.8, scale_softmax=True
    )
    rope = Rope(head_dim=64, rope_theta=1e4, pairing="interleaved", scaling=scaling)
    frequencies = yarn(1e4, 64, 25.0, 4096)
    for factor, words in ((1.581331566, "softmax"), (g(25.0), "g(s, 1)"), (g(25.0, 0.8), "root")):
        found = check_named(table(adjacent(32), frequencies, factor=factor), 64, rope, [None])
        assert words in found.recipe and found.deviations[0].kind == "magnitude"


def test_two_mistakes_are_both_named():
    near = REFERENCE.replace(pairing="interleaved")
    check_named(table(half(8), ladder(1e4, 16)), 16, near, ["interleaved-for-half", "wrong-theta"])
    check_named(table(half(8), -ladder(1e4, 16)), 16, REFERENCE, ["conjugate", "wrong-theta"])


def test_one_explanation_takes_under_three_tenths_of_a_second():
    scaling = Yarn(factor=12, original_max_position_embeddings=6144)
    rope = Rope(head_dim=256, rope_theta=250000.0, pairing="half", scaling=scaling, max_position_embeddings=73728)
    own = table(half(128), ladder(3e5, 256) / np.linspace(1, 7, 128) ** 1.3)
    explain(own, 256, expect=rope)
    took = []
    for _ in range(3):
        began = time.perf_counter()
        assert not explain(own, 256, expect=rope).known
        took.append(time.perf_counter() - began)
    assert min(took) < 0.3


# -- any rope ---------------------------------------------------------------------------------------------------------

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
