"""Rope: a description resolved to its table, its JSON, and what it refuses."""

import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import Ladders, Rope, RopewalkError, Sections, Single, Strided
from ropewalk.scaling import Default, Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Yarn


def rope(head_dim=8, rope_theta=1e4, pairing="half", **rest):
    return Rope(head_dim=head_dim, rope_theta=rope_theta, pairing=pairing, **rest)


SWITCH = LongRope(short_factor=(1,) * 4, long_factor=(2,) * 4, original_max_position_embeddings=100)


@st.composite
def ropes(draw):
    """Any valid rope: every scaling, every rule of axes, partial, tail, odd, turned backward."""
    kind = draw(st.sampled_from(["single", "odd", "sections", "ladders", "strided"]))
    axes, width = Single(), 2 * draw(st.integers(2, 24))
    if kind == "odd":
        width += 1
    elif kind == "sections":
        sections = tuple(draw(st.lists(st.integers(1, 8), min_size=3, max_size=3)))
        arrangement = draw(st.sampled_from(["chunked", "interleaved"]))
        axes, width = Sections(sections=sections, arrangement=arrangement), 2 * sum(sections)
    elif kind == "ladders":
        widths = tuple(2 * n for n in draw(st.lists(st.integers(2, 8), min_size=2, max_size=2)))
        order = draw(st.sampled_from([None, (1, 0)]))
        axes, width = Ladders(widths=widths, pairing_within=draw(st.sampled_from(["head", "axis"])), order=order), 0
        width = sum(widths)
    elif kind == "strided":
        axes, width = Strided(), 4 * draw(st.integers(1, 8))
    factor = draw(st.floats(1, 100))
    divisors = st.lists(st.floats(0.5, 50), min_size=width // 2, max_size=width // 2).map(tuple)
    scalings = [
        Default(),
        Linear(factor=factor),
        Ntk(factor=factor, method=draw(st.sampled_from(["aware", "vllm", "base"]))),
        Dynamic(factor=factor),
        Llama3(factor=factor, low_freq_factor=1.5, high_freq_factor=7, original_max_position_embeddings=4096),
        Yarn(factor=factor, original_max_position_embeddings=4096, truncate=draw(st.booleans())),
        Proportional(partial_rotary_factor=draw(st.floats(0.01, 1)), factor=factor),
    ]
    if kind != "ladders":
        scalings.append(
            LongRope(
                short_factor=draw(divisors), long_factor=draw(divisors), original_max_position_embeddings=512,
                long_mscale=draw(st.one_of(st.none(), st.floats(0.5, 2))),
            )
        )  # fmt: skip
    start = draw(st.integers(0, 5))
    pairing = draw(st.sampled_from(["half", "interleaved"] + ["hybrid_tile"] * (kind in ("single", "odd"))))
    return Rope(
        head_dim=start + width + draw(st.integers(0, 5)), rotary_dim=width, rotary_start=start, pairing=pairing,
        rope_theta=draw(st.floats(50, 1e8)), direction=draw(st.sampled_from([1, -1])), odd="pass", axes=axes,
        scaling=draw(st.sampled_from(scalings)), max_position_embeddings=draw(st.integers(1024, 2**30)),
    )  # fmt: skip


@given(ropes())
@settings(max_examples=100)
def test_json_round_trip_loses_nothing(one):
    again = Rope.from_dict(json.loads(json.dumps(one.to_dict(), allow_nan=False)))
    assert again == one
    assert hash(again) == hash(one)
    for length in (None, 100, 100000):
        assert again.pairs(length) == one.pairs(length)


@given(ropes())
@settings(max_examples=60)
def test_pairs_of_any_rope_stay_inside_the_rotated_channels(one):
    table = one.pairs()
    channels = np.concatenate([table.first, table.second])
    assert len(table) == one.num_pairs == one.width // 2
    assert channels.min() == one.rotary_start
    assert channels.max() == one.rotary_start + 2 * len(table) - 1
    assert table.num_axes <= one.axes.num_axes
    assert (np.sign(table.inv_freq) * one.direction >= 0).all()
    assert not np.signbit(table.inv_freq[table.inv_freq == 0]).any()


@pytest.mark.parametrize(
    ("pairing", "first", "second"),
    [("half", [0, 1, 2], [3, 4, 5]), ("interleaved", [0, 2, 4], [1, 3, 5]), ("hybrid_tile", [0, 2, 4], [1, 3, 5])],
)
def test_pairings(pairing, first, second):
    table = rope(6, pairing=pairing).pairs()
    assert (table.first.tolist(), table.second.tolist()) == (first, second)


@pytest.mark.parametrize("head_dim", [6, 10, 48, 96])
def test_half_and_interleaved_pair_the_same_frequencies_with_other_channels(head_dim):
    half, interleaved = rope(head_dim).pairs(), rope(head_dim, pairing="interleaved").pairs()
    assert half.inv_freq.tobytes() == interleaved.inv_freq.tobytes()
    assert sorted([*half.first, *half.second]) == sorted([*interleaved.first, *interleaved.second])


def test_tiled_table_gives_the_two_channels_of_a_pair_two_frequencies():
    table = rope(6, rope_theta=1000.0, pairing="hybrid_tile").pairs()  # the tiled table is 1, .1, .01, 1, .1, .01
    assert table.inv_freq.tolist() == pytest.approx([1, 0.01, 0.1])
    assert table.second_inv_freq.tolist() == pytest.approx([0.1, 1, 0.01])
    assert not table.is_rotation


def test_f106_direction_and_tail_are_fields():
    backward = rope(16, direction=-1).pairs()
    assert backward.inv_freq.tolist() == (-rope(16).pairs().inv_freq).tolist()
    assert backward.first.tolist() == rope(16).pairs().first.tolist()
    tail = rope(512, rotary_dim=64, rotary_start=448, pairing="interleaved").pairs()
    assert sorted([*tail.first, *tail.second]) == list(range(448, 512))
    assert tail.inv_freq[1] == pytest.approx(1e4 ** (-2 / 64), rel=1e-14)


def test_f121_two_meanings_of_the_partial_factor():
    proportional = rope(160, rope_theta=2e5, scaling=Proportional(partial_rotary_factor=0.3)).pairs()
    assert proportional.second.tolist() == list(range(80, 160))
    assert (proportional.inv_freq != 0).sum() == 24
    assert proportional.inv_freq[[1, 23]].tolist() == pytest.approx([0.8584937249, 0.02991946863], rel=1e-9)
    ordinary = rope(160, rope_theta=2e5, rotary_dim=48).pairs()
    assert ordinary.second.tolist() == list(range(24, 48))
    assert ordinary.inv_freq[1] == pytest.approx(0.6013450635, rel=1e-9)


def test_f415_partner_in_a_partial_head():
    table = rope(12, rotary_dim=6, rope_theta=500).pairs()
    assert table.second.tolist() == [3, 4, 5]
    assert table.inv_freq.tolist() == pytest.approx([500 ** (-2 * i / 6) for i in range(3)], rel=1e-14)


@pytest.mark.parametrize(
    ("head_dim", "fraction", "width"), [(10, 0.8, 8), (48, 0.75, 36), (96, 0.5, 48), (80, 0.3, 24)]
)
def test_partial_heads_take_their_exponent_from_the_rotated_width(head_dim, fraction, width):
    table = rope(head_dim, rotary_dim=int(head_dim * fraction)).pairs()
    assert table.inv_freq.tolist() == pytest.approx([1e4 ** (-2 * i / width) for i in range(width // 2)], rel=1e-13)


@pytest.mark.parametrize(
    ("pairing", "second"), [("half", [4, 5, 6, 7]), ("interleaved", [1, 3, 5, 7]), ("hybrid_tile", [1, 3, 5, 7])]
)
def test_an_odd_width_passes_its_last_channel_and_keeps_its_exponent(pairing, second):
    table = rope(9, odd="pass", pairing=pairing).pairs()
    assert table.second.tolist() == second
    ladder = [1e4 ** (-2 * i / 9) for i in range(4)]
    if pairing == "hybrid_tile":  # tiled: ladder, ladder over channels 0..7
        assert table.inv_freq.tolist() == pytest.approx([ladder[0], ladder[2]] * 2, rel=1e-13)
        assert table.second_inv_freq.tolist() == pytest.approx([ladder[1], ladder[3]] * 2, rel=1e-13)
    else:
        assert table.inv_freq.tolist() == pytest.approx(ladder, rel=1e-13)


@pytest.mark.parametrize(
    ("scaling", "lengths", "same"),
    [
        (Dynamic(factor=3), (None, 10, 3072), True),
        (Dynamic(factor=3), (3072, 3073), False),
        (SWITCH, (None, 100), True),
        (SWITCH, (100, 101), False),
        (Linear(factor=3), (None, 10, 10**6), True),
    ],
)
def test_the_length_matters_to_dynamic_and_longrope_only(scaling, lengths, same):
    one = rope(scaling=scaling, max_position_embeddings=3072)
    tables = [one.pairs(length) for length in lengths]
    assert all((table == tables[0]) == same for table in tables[1:])


def test_the_magnitudes_reach_the_table():
    scaling = Yarn(factor=20, original_max_position_embeddings=4096, mscale=1.0, mscale_all_dim=0.5, scale_softmax=True)
    table = rope(64, scaling=scaling).pairs()
    assert table.cos_sin_factor == pytest.approx(1.130273402, rel=1e-9)
    assert table.softmax_factor == pytest.approx(1.322009257, rel=1e-9)


def test_ropes_are_values():
    assert rope() == rope(rotary_dim=8, rotary_start=0, scaling=Default(), axes=Single())
    assert len({rope(), rope(rope_theta=10000), rope(rope_theta=5e5)}) == 2
    assert rope().replace(rope_theta=7) == rope(rope_theta=7.0)
    with pytest.raises(AttributeError):
        rope().head_dim = 9


def test_numpy_scalars_become_plain_numbers():
    one = rope(np.int64(8), np.float32(1e4), rotary_start=np.int8(2), direction=np.int64(-1))
    assert json.loads(json.dumps(one.to_dict())) == one.to_dict()
    assert type(one.direction) is int


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head_dim": 65537}, "head_dim must be a whole number from 2 to 65536, got 65537"),
        ({"head_dim": 1}, "from 2 to 65536, got 1"),
        ({"head_dim": 8.5}, "head_dim must be a whole number"),
        ({"head_dim": "8"}, "head_dim must be a finite number, got '8'"),
        ({"head_dim": True}, "got True"),
        ({"head_dim": None}, "got None"),
        ({"head_dim": 10**400}, "from 2 to 65536"),
        ({"head_dim": float("inf")}, "head_dim must be a finite number, got inf"),
        ({"head_dim": 57}, "rotary_dim=57, rotary_start=0, head_dim=57"),  # F118
        ({"rotary_dim": 7}, "rotary_dim=7, rotary_start=0, head_dim=8.*odd='pass'"),  # F118
        ({"rotary_dim": 10}, "rotary_dim=10, rotary_start=0, head_dim=8"),
        ({"rotary_dim": 8, "rotary_start": 2}, "rotary_dim=8, rotary_start=2, head_dim=8"),
        ({"rotary_dim": 0}, "rotary_dim must be a whole number from 2"),
        ({"rotary_start": 7}, "rotary_start must be a whole number from 0 to 6, got 7"),
        ({"rotary_start": -2}, "from 0 to 6, got -2"),
        ({"rope_theta": 0}, "rope_theta must be a finite number above 0, got 0"),
        ({"rope_theta": -1e4}, "above 0, got -10000.0"),
        ({"rope_theta": float("nan")}, "above 0, got nan"),
        ({"rope_theta": 10**400}, "rope_theta must be a finite number above 0, got "),
        ({"rope_theta": "10000"}, "got '10000'"),
        ({"rope_theta": b"10000"}, "got b'10000'"),
        ({"rope_theta": np.bool_(True)}, "rope_theta must be"),
        ({"rope_theta": 1j}, "rope_theta must be"),
        ({"pairing": "adjacent"}, "'half', 'interleaved', 'hybrid_tile', got 'adjacent'"),
        ({"pairing": ["half"]}, r"got \['half'\]"),
        ({"direction": 0}, "direction must be one of 1, -1, got 0"),
        ({"direction": True}, "got True"),
        ({"odd": "drop"}, "odd must be one of 'refuse', 'pass', got 'drop'"),
        ({"max_position_embeddings": 0}, "max_position_embeddings must be a whole number from 1 to"),
        ({"max_position_embeddings": 2**53 + 1}, "got 9007199254740993"),
        ({"scaling": {"rope_type": "linear"}}, "scaling must be one of Default, Linear, .*, got {'rope_type'"),
        ({"scaling": None}, "scaling must be one of"),
        ({"axes": "single"}, "axes must be one of Single, Sections, Ladders, Strided, got 'single'"),
        ({"head_dim": 9, "odd": "pass", "axes": Ladders(widths=(4, 4))}, "single axis only, got 9"),
        ({"scaling": Dynamic(factor=2)}, "max_position_embeddings"),
        ({"head_dim": 2, "scaling": Dynamic(factor=2), "max_position_embeddings": 9}, "rotary_dim=2"),
        ({"head_dim": 12, "pairing": "hybrid_tile", "axes": Ladders(widths=(6, 6))}, "pairing_within='axis'"),
    ],
)
def test_what_is_no_rope_is_refused_with_the_numbers(change, message):
    with pytest.raises(RopewalkError, match=message):
        Rope(**{"head_dim": 8, "rope_theta": 1e4, "pairing": "half", **change})


@pytest.mark.parametrize("length", [-1, 1.5, "10", True, float("nan"), 2**54, [3]])
def test_a_length_that_is_none_is_refused(length):
    with pytest.raises(RopewalkError, match="length must be a"):
        rope().pairs(length)


def test_sizes_are_capped_before_anything_is_allocated():
    tracemalloc.start()
    for make in (
        lambda: rope(65537),
        lambda: rope(2**40),
        lambda: rope(8, rotary_dim=2**40),
        lambda: rope(8, axes=Sections(sections=(2**40, 1, 1))),
        lambda: rope(8, axes=Ladders(widths=(65536, 65536))),
    ):
        with pytest.raises(RopewalkError):
            make()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


def test_the_largest_head_is_admitted():
    assert len(rope(65536).pairs()) == 32768


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": None}, "schema 'ropewalk.rope/1', got None"),
        ({"schema": "ropewalk.rope/2", "novelty": 1}, "got 'ropewalk.rope/2'"),
        ({"schema": ["ropewalk.rope/1"]}, "schema"),
        ({"theta": 1e4}, "unknown keys 'theta'; known are head_dim, rope_theta, pairing"),
        ({"scaling": "linear"}, "rope_type must be one of .*, got 'linear'"),
        ({"scaling": {"rope_type": "linear"}}, "linear scaling lacks factor"),
        ({"scaling": {"rope_type": "linear", "factor": "2"}}, "linear: factor must be"),
        ({"axes": {"kind": "sections", "sections": 3}}, "sections must be a list, got 3"),
        ({"axes": None}, "kind of axes"),
    ],
)
def test_what_is_no_description_is_refused(change, message):
    with pytest.raises(RopewalkError, match=message):
        Rope.from_dict({**rope().to_dict(), **change})


@pytest.mark.parametrize("data", [None, [], "rope", 3, {}, {"schema": "ropewalk.rope/1"}])
def test_what_is_no_object_or_lacks_keys_is_refused(data):
    with pytest.raises(RopewalkError):
        Rope.from_dict(data)


def test_many_unknown_keys_make_a_short_message():
    junk = {f"key{i}": 1 for i in range(10000)}
    with pytest.raises(RopewalkError) as caught:
        Rope.from_dict({**rope().to_dict(), **junk, 10**5000: 1})
    assert len(str(caught.value)) < 500


JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=4) | st.integers(-(2**70), 2**70) | st.floats() | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(one=ropes(), data=st.data())
@settings(max_examples=200)
def test_a_mutated_description_is_a_rope_or_a_ropewalk_error(one, data):
    description = one.to_dict()
    part = data.draw(st.sampled_from(["", "scaling", "axes"]))
    place = description[part] if part else description
    for key in data.draw(st.sets(st.sampled_from(list(place)), min_size=1, max_size=3)):
        if data.draw(st.booleans()):
            place[key] = data.draw(JSON)
        else:
            del place[key]
    try:
        again = Rope.from_dict(description)
    except RopewalkError as error:
        assert len(str(error)) < 700
        return
    assert np.isfinite(again.pairs().inv_freq).all()
    assert math.isfinite(again.pairs().cos_sin_factor)
