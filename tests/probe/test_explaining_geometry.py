"""explain(): channels paired, directed, placed and dealt to axes otherwise than declared."""

import numpy as np
import pytest

from ropewalk import Rope, Sections
from ropewalk.probe.explaining import explain
from ropewalk.scaling import Proportional

from .made_tables import ALL, REFERENCE, adjacent, check_named, half, ladder, table


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
