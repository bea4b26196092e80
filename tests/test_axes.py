"""Axes: which pair listens to which axis, and which entry of which ladder it takes."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import Ladders, Rope, RopewalkError, Sections, Single, Strided
from ropewalk.axes import AXES, axes_from_dict, axes_to_dict

EXAMPLES = [
    Single(),
    Sections(sections=(10, 6, 4), arrangement="interleaved"),
    Sections(sections=(4, 4, 4), arrangement="alternating"),
    Sections(sections=(2, 3, 1, 4), names=("t", "h", "w", "e")),
    Ladders(widths=(16, 56, 56), pairing_within="axis", names=("t", "h", "w")),
    Ladders(widths=(8, 8), arrangement="alternate", order=(1, 0)),
    Strided(axes=3, names=("t", "h", "w")),
]


def letters(axes, width):
    return "".join(axes.names[number].upper() for number in axes.plan(width).axis)


@pytest.mark.parametrize(
    ("fault", "sections", "arrangement", "expected"),
    [
        ("F601", (10, 6, 4), "interleaved", "THWTHWTHWTHWTHTTHTTT"),
        ("F601", (10, 6, 4), "chunked", "TTTTTTTTTTHHHHHHWWWW"),
        ("F614", (4, 4, 4), "alternating", "HWHWHWHWTTTT"),
        ("Qwen3.5", (11, 11, 10), "interleaved", "THW" * 10 + "TH"),
        ("Qwen3-VL", (24, 20, 20), "interleaved", "THW" * 20 + "TTTT"),
        ("no axis", (0, 3, 2), "chunked", "HHHWW"),
    ],
)
def test_arrangements_of_sections(fault, sections, arrangement, expected):
    axes = Sections(sections=sections, arrangement=arrangement)
    assert letters(axes, 2 * sum(sections)) == expected
    assert axes.plan(2 * sum(sections)).entry.tolist() == list(range(sum(sections)))  # one ladder, not restarted


def test_f603_interleaved_sections_may_realise_otherwise_than_declared():
    assert Sections(sections=(6, 8, 6), arrangement="interleaved").realised(40) == (7, 7, 6)
    assert Sections(sections=(10, 6, 4), arrangement="interleaved").realised(40) == (10, 6, 4)
    assert Sections(sections=(6, 8, 6)).realised(40) == (6, 8, 6)


@given(sections=st.lists(st.integers(0, 12), min_size=2, max_size=4))
@settings(max_examples=60)
def test_interleaved_rule_pair_by_pair(sections):
    count, total = len(sections), sum(sections)
    axes = Sections(sections=tuple(sections), arrangement="interleaved", names=tuple("thwe")[:count])
    expected = [
        next((a for a in range(1, count) if i % count == a and i < count * sections[a]), 0) for i in range(total)
    ]
    assert axes.plan(2 * total).axis.tolist() == expected


def test_f602_axes_and_pairing_are_two_fields():
    rope = Rope(
        head_dim=40, rope_theta=3e5, pairing="half", axes=Sections(sections=(10, 6, 4), arrangement="interleaved")
    )
    assert rope.pairs().second.tolist() == list(range(20, 40))
    assert rope.replace(pairing="interleaved").pairs().second.tolist() == list(range(1, 40, 2))
    assert rope.replace(pairing="interleaved").pairs().axis.tolist() == rope.pairs().axis.tolist()


def test_f604_sections_sum_to_half_the_rotary_width_not_of_the_head():
    axes = Sections(sections=(10, 6, 4))
    rope = Rope(head_dim=160, rotary_dim=40, rope_theta=1e4, pairing="half", axes=axes)
    assert max(rope.pairs().second) == 39
    with pytest.raises(RopewalkError, match=r"rotary_dim/2 = 80, got \[10, 6, 4\] \(sum 20\), rotary_dim=160"):
        Rope(head_dim=160, rope_theta=1e4, pairing="half", axes=axes)


@pytest.mark.parametrize(
    ("arrangement", "pairs", "expected"),
    [
        ("interleaved", [1, 2, 9, 13, 16], [5.855131084, 1.699961653, 0.01029003117, 3.028753086e-3, 4.567680112e-4]),
        ("chunked", [10, 15, 16, 19], [0.02008316044, 8.581273504e-4, 2.491461879e-4, 3.757388124e-5]),
    ],
)
def test_f605_angles_by_axis(arrangement, pairs, expected):
    axes = Sections(sections=(10, 6, 4), arrangement=arrangement)
    table = Rope(head_dim=40, rope_theta=3e5, pairing="half", axes=axes).pairs()
    angles = np.array([3, 11, 6])[table.axis] * table.inv_freq
    assert angles[pairs].tolist() == pytest.approx(expected, rel=1e-9)


def test_f147_f611_chatglm_halves():
    axes = Ladders(widths=(48, 48), pairing_within="axis", names=("position", "block"))
    table = Rope(head_dim=96, rope_theta=1e4, pairing="half", axes=axes).pairs()
    ladder = [1e4 ** (-2 * i / 48) for i in range(24)]
    assert table.first.tolist() == [*range(24), *range(48, 72)]
    assert table.second.tolist() == [*range(24, 48), *range(72, 96)]
    assert table.axis.tolist() == [0] * 24 + [1] * 24
    assert table.inv_freq.tolist() == pytest.approx(ladder * 2, rel=1e-14)
    assert table.inv_freq[25] == pytest.approx(0.6812920691, rel=1e-9)


def test_f613_independent_ladders_restart():
    axes = Ladders(widths=(8, 12, 12), pairing_within="axis", names=("t", "h", "w"))
    table = Rope(head_dim=32, rope_theta=1e4, pairing="interleaved", axes=axes).pairs()
    assert table.inv_freq[[0, 4, 10]].tolist() == [1.0, 1.0, 1.0]
    assert table.inv_freq[[1, 5, 11]].tolist() == pytest.approx([0.1, 0.2154434690, 0.2154434690], rel=1e-9)
    assert table.axis.tolist() == [0] * 4 + [1] * 6 + [2] * 6


def test_ladders_of_a_vision_tower_pair_over_the_whole_head():
    # Qwen2-VL: cat(h angles, w angles), doubled, half-split over the head
    table = Rope(head_dim=16, rope_theta=1e4, pairing="half", axes=Ladders(widths=(8, 8))).pairs()
    assert table.second.tolist() == list(range(8, 16))
    assert table.axis.tolist() == [0] * 4 + [1] * 4
    assert table.inv_freq.tolist() == pytest.approx([10.0**-i for i in range(4)] * 2, rel=1e-14)


def test_alternating_ladders_take_turns_pair_by_pair():
    axes = Ladders(widths=(8, 8), arrangement="alternate")
    table = Rope(head_dim=16, rope_theta=1e4, pairing="interleaved", axes=axes).pairs()
    assert letters(axes, 16) == "HWHWHWHW"
    assert table.inv_freq.tolist() == pytest.approx([10.0 ** -(i // 2) for i in range(8)], rel=1e-14)


def test_order_exchanges_the_rows_and_nothing_else():
    plain, turned = (Ladders(widths=(4, 8), order=order).plan(12) for order in (None, (1, 0)))
    assert plain.axis.tolist() == [0, 0, 1, 1, 1, 1]
    assert turned.axis.tolist() == [1, 1, 0, 0, 0, 0]
    assert turned.entry.tolist() == plain.entry.tolist()
    three = Ladders(widths=(2, 4, 6), order=(1, 2, 0), names=("t", "h", "w"))
    assert three.plan(12).axis.tolist() == [1, 2, 2, 0, 0, 0]


def test_strided_axes_deal_one_ladder_out_like_cards():
    # Pixtral: freqs[::2] to h, freqs[1::2] to w, concatenated
    table = Rope(head_dim=12, rope_theta=1e4, pairing="half", axes=Strided()).pairs()
    ladder = [1e4 ** (-2 * i / 12) for i in range(6)]
    assert table.inv_freq.tolist() == pytest.approx(ladder[0::2] + ladder[1::2], rel=1e-14)
    assert table.axis.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("axes", EXAMPLES, ids=repr)
def test_json_round_trip_loses_nothing(axes):
    again = axes_from_dict(json.loads(json.dumps(axes_to_dict(axes))))
    assert again == axes
    assert hash(again) == hash(axes)
    with pytest.raises(RopewalkError, match="unknown keys 'note'"):
        axes_from_dict({**axes_to_dict(axes), "note": 1})


def test_the_examples_cover_every_kind():
    assert {axes.kind for axes in EXAMPLES} == set(AXES)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sections(sections=(1, 2)), r"one word for each of 2 axes, got \['t', 'h', 'w'\]"),
        (lambda: Sections(sections=(1, 2, -1)), "sections must be a whole number from 0 to 65536, got -1"),
        (lambda: Sections(sections=(1, 2, 2.5)), "got 2.5"),
        (lambda: Sections(sections=(1, 2, True)), "got True"),
        (lambda: Sections(sections=(1, 2, "3")), "got '3'"),
        (lambda: Sections(sections=(1, 2, float("nan"))), "got nan"),
        (lambda: Sections(sections=(1, 2, 2**80)), "from 0 to 65536"),
        (lambda: Sections(sections="123"), "sections must be a list, got '123'"),
        (lambda: Sections(sections=5), "sections must be a list, got 5"),
        (lambda: Sections(sections=None), "sections must be a list, got None"),
        (lambda: Sections(sections=range(65537)), "at most 65536 entries, got 65537"),
        (lambda: Sections(sections=(1, 2, 3), names=("t", "h", 3)), "one word for each of 3 axes"),
        (lambda: Sections(sections=(1, 2, 3), arrangement="zigzag"), "'chunked', 'interleaved', 'alternating', got"),
        (lambda: Sections(sections=(1, 2, 3), arrangement="alternating"), r"equally large, got \[1, 2, 3\]"),
        (lambda: Sections(sections=(2, 2), arrangement="alternating", names=("h", "w")), "three axes"),
        (lambda: Ladders(widths=(3, 4)), r"even width, got widths \[3, 4\]"),
        (lambda: Ladders(widths=(0, 4)), "widths must be a whole number from 2 to 65536, got 0"),
        (lambda: Ladders(widths=(4, 6), arrangement="alternate"), r"equal widths .* got widths \[4, 6\]"),
        (lambda: Ladders(widths=(4, 4), arrangement="alternate", pairing_within="axis"), "pairing_within='axis'"),
        (lambda: Ladders(widths=(4, 4), pairing_within="world"), "'head', 'axis', got 'world'"),
        (lambda: Ladders(widths=(4, 4), order=(0, 0)), r"each of 2 rows once, got \[0, 0\]"),
        (lambda: Ladders(widths=(4, 4), order=(0, 2)), "order must be a whole number from 0 to 1, got 2"),
        (lambda: Ladders(widths=(4, 8)).plan(16), r"rotary_dim = 16, got \[4, 8\] \(sum 12\)"),
        (lambda: Strided(axes=0, names=()), "axes must be a whole number from 1"),
        (lambda: Strided(axes=3, names=("t", "h", "w")).plan(16), "got 3 axes, 8 pairs"),
        (lambda: axes_from_dict(None), "single, sections, ladders, strided, got None"),
        (lambda: axes_from_dict({"kind": "spiral"}), "got 'spiral'"),
        (lambda: axes_from_dict({"kind": []}), r"got \[\]"),
        (lambda: axes_from_dict({"kind": "sections"}), "sections axes lacks sections. Add it"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(make, message):
    with pytest.raises(RopewalkError, match=message):
        make()
