"""What inspect() finds out about a model, as plain data."""

import json
import math

import pytest

from ropewalk import Layer, Model, Rope, RopewalkError, inspect
from ropewalk.axes import Ladders
from ropewalk.inspection import number_words, view_rope
from ropewalk.scaling import Dynamic, Linear, Proportional


def llama(**more):
    sizes = {"model_type": "llama", "head_dim": 8, "num_hidden_layers": 4, "max_position_embeddings": 2048}
    return {**sizes, "rope_parameters": {"rope_type": "default", "rope_theta": 10000}, **more}


def with_vision():
    vision = {"model_type": "qwen2_vl", "depth": 3, "embed_dim": 64, "num_heads": 4}
    text = {"head_dim": 8, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 1e6}
    sections = {"type": "mrope", "mrope_section": [2, 1, 1]}
    return {"model_type": "qwen2_vl", **text, "rope_scaling": sections, "vision_config": vision}


def test_every_pair_is_measured_against_the_window():
    (view,) = inspect(llama(), window=1000).views
    assert view.window == 1000
    assert [(row.pair, row.first, row.second, row.axis) for row in view.rows] == [
        (0, 0, 4, "position"),
        (1, 1, 5, "position"),
        (2, 2, 6, "position"),
        (3, 3, 7, "position"),
    ]
    for i, row in enumerate(view.rows):
        assert row.inv_freq == pytest.approx(10.0**-i, rel=1e-14)
        assert row.wavelength == pytest.approx(2 * math.pi * 10.0**i, rel=1e-14)
        assert row.turns == pytest.approx(1000 / row.wavelength, rel=1e-14)
        assert row.divisor == 1
    assert view.slowest == view.rows[-1]
    assert (view.slower_than_window, view.still) == (1, 0)


def test_window_is_the_models_context_unless_given():
    assert inspect(llama()).views[0].window == 2048
    assert inspect(llama(), window=16).views[0].window == 16
    view = view_rope(Rope(head_dim=8, rope_theta=10000.0, pairing="half"))
    assert (view.window, view.slower_than_window) == (None, None)
    assert {row.turns for row in view.rows} == {None}


def test_layers_that_share_a_rope_are_one_view_with_their_places():
    plan = ["sliding_attention", "full_attention"] * 2
    block = {"rope_type": "default", "rope_theta": 10000}
    blocks = {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6}, "sliding_attention": block}
    sizes = {"head_dim": 8, "num_hidden_layers": 4, "max_position_embeddings": 2048, "layer_types": plan}
    seen = inspect({"model_type": "gemma3_text", **sizes, "rope_parameters": blocks})
    assert [(view.places, view.rope.rope_theta) for view in seen.views] == [
        (("text: layers 0, 2",), 10000),
        (("text: layers 1, 3",), 1000000),
    ]
    assert seen.plan["text"] == (
        "layers 0, 2: sliding_attention, θ=10000, default",
        "layers 1, 3: full_attention, θ=1000000, linear",
    )
    assert {row.divisor for row in seen.views[1].rows} == {8}


def test_parts_are_views_of_their_own():
    seen = inspect(with_vision())
    assert [view.places for view in seen.views] == [("text: layers 0-1",), ("vision: layers 0-2",)]
    assert {row.axis for row in seen.views[0].rows} == {"t", "h", "w"}
    assert {row.axis for row in seen.views[1].rows} == {"h", "w"}


def test_a_chosen_part_leaves_the_others_and_their_findings_out():
    whole, part = inspect(with_vision()), inspect(with_vision(), part="vision")
    assert [view.places for view in part.views] == [("vision: layers 0-2",)]
    assert {finding.where.partition(":")[0] for finding in whole.findings} == {"text", "vision"}
    assert {finding.where.partition(":")[0] for finding in part.findings} == {"vision"}


def test_a_chosen_layer_is_one_of_the_text_part_or_of_the_part_named():
    assert [view.places for view in inspect(llama(), layer=3).views] == [("text: layer 3",)]
    assert [view.places for view in inspect(with_vision(), layer=1).views] == [("text: layer 1",)]
    assert [view.places for view in inspect(with_vision(), part="vision", layer=2).views] == [("vision: layer 2",)]


def test_a_layer_without_rope_has_no_view_and_the_plan_says_so():
    seen = inspect("smollm3-3b", layer=3)
    assert seen.views == ()
    assert seen.plan["text"][1] == "layers 3, 7 … 35 (every 4): attention, no RoPE"


def test_a_second_use_of_a_layer_is_named():
    rope = Rope(head_dim=8, rope_theta=10000.0, pairing="interleaved")
    layer = Layer(ropes={"attention": rope, "indexer": rope.replace(pairing="half")})
    seen = inspect(Model(parts={"text": (layer, layer)}))
    assert [view.places for view in seen.views] == [("text: layers 0-1",), ("text: layers 0-1 (indexer)",)]
    assert seen.plan["text"] == ("layers 0-1: attention, θ=10000, default, with an indexer",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "video"}, "no part 'video'; its parts are text"),
        ({"part": ""}, "no part ''; its parts are text"),
        ({"layer": 4}, "layers 0 to 3, got layer 4"),
        ({"layer": -1}, "layers 0 to 3, got layer -1"),
        ({"window": 0}, "window must be a whole number from 1"),
        ({"window": 2.5}, "window must be a whole number from 1"),
        ({"window": True}, "window must be"),
        ({"length": 0}, "length must be a whole number from 1"),
        ({"length": 2**60}, "length must be a whole number from 1"),
    ],
)
def test_a_choice_that_the_model_lacks_says_what_it_has(options, message):
    with pytest.raises(RopewalkError, match=message):
        inspect(llama(), **options)


def test_a_layer_of_a_part_whose_layers_are_not_known_is_refused():
    with pytest.raises(RopewalkError, match="the number of layers of part text is not known"):
        inspect(Model(parts={"text": ()}), layer=0)
    with pytest.raises(RopewalkError, match="the number of layers of part text is not known"):
        inspect(Model(parts={}), layer=0)


def test_an_unreadable_rope_is_not_called_no_rope():
    seen = inspect(llama(rope_parameters={"rope_type": "default", "rope_theta": math.nan}))
    assert seen.views == ()
    assert [finding.severity for finding in seen.findings] == ["error"]
    assert seen.plan["text"] == ("layers 0-3: attention, RoPE not readable",)


def test_a_model_without_rope_says_what_positions_it_uses():
    seen = inspect({"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768})
    assert seen.views == ()
    assert seen.plan["text"] == ("12 layers without RoPE; positions: learned absolute",)


def test_divisor_says_by_how_much_scaling_slowed_each_pair():
    view = view_rope(Rope(head_dim=8, rope_theta=10000.0, pairing="half", scaling=Linear(factor=8.0)))
    assert [row.divisor for row in view.rows] == pytest.approx([8] * 4)


def test_proportional_divides_what_turns_and_its_still_pairs_have_no_wavelength():
    scaling = Proportional(partial_rotary_factor=0.5, factor=4.0)
    view = view_rope(Rope(head_dim=16, rope_theta=10000.0, pairing="half", scaling=scaling), window=64)
    assert [row.divisor for row in view.rows] == [4] * 4 + [None] * 4
    assert [row.wavelength for row in view.rows[4:]] == [None] * 4
    assert view.still == 4
    assert view.slowest == view.rows[3]
    assert view.slower_than_window == 3  # of the wavelengths 25, 79, 251, 795; still pairs are counted apart


def test_length_changes_a_rope_that_depends_on_it_and_no_other():
    dynamic = Rope(
        head_dim=8, rope_theta=10000.0, pairing="half", scaling=Dynamic(factor=2.0), max_position_embeddings=2048
    )
    trained, longer = view_rope(dynamic), view_rope(dynamic, length=8192)
    assert (trained.length, longer.length) == (None, 8192)
    assert {row.divisor for row in trained.rows} == {1}
    assert longer.rows[-1].divisor == pytest.approx(
        7
    )  # the base is raised so that the last pair slows by s·L/L0 - s + 1
    plain = view_rope(dynamic.replace(scaling=Linear(factor=1.0)), length=8192)
    assert plain.length is None
    assert {row.divisor for row in plain.rows} == {1}


def test_a_pair_that_turns_the_other_way_has_a_wavelength_and_a_positive_divisor():
    view = view_rope(Rope(head_dim=8, rope_theta=10000.0, pairing="half", direction=-1), window=2048)
    assert [row.inv_freq < 0 for row in view.rows] == [True] * 4
    assert view.rows[0].wavelength == pytest.approx(2 * math.pi)
    assert view.rows[0].turns == pytest.approx(2048 / (2 * math.pi))
    assert {row.divisor for row in view.rows} == {1}
    assert view.slower_than_window == 1


def test_a_map_that_is_no_rotation_shows_both_channels_speeds():
    rope = Rope(head_dim=8, rope_theta=10000.0, pairing="hybrid_tile")
    rows = view_rope(rope).rows
    assert [row.inv_freq for row in rows] != [row.second_inv_freq for row in rows]
    assert {row.second_inv_freq for row in view_rope(rope.replace(pairing="half")).rows} == {None}


def test_the_slowest_pair_of_several_ladders_need_not_be_the_last():
    axes = Ladders(widths=(8, 4), pairing_within="axis", names=("a", "b"))
    view = view_rope(Rope(head_dim=12, rope_theta=10000.0, pairing="half", axes=axes))
    assert view.slowest == view.rows[3]
    assert [row.axis for row in view.rows] == ["a"] * 4 + ["b"] * 2


def test_everything_is_finite_json_at_the_edge_of_float64():
    (view,) = inspect(llama(rope_parameters={"rope_type": "default", "rope_theta": 1.7e308}), window=1).views
    json.dumps(view.to_dict(), allow_nan=False)
    extreme = Rope(head_dim=65536, rope_theta=1.7e308, pairing="half")
    json.dumps(view_rope(extreme).to_dict(), allow_nan=False)


def test_json_keeps_the_model_whole():
    seen = inspect(with_vision(), window=512)
    document = json.loads(json.dumps(seen.to_dict(), allow_nan=False))
    assert document["schema"] == "ropewalk.inspect/1"
    assert set(document) == {"schema", "model", "plan", "ropes", "findings"}
    assert Model.from_dict(document["model"]) == seen.model
    assert [Rope.from_dict(entry["rope"]) for entry in document["ropes"]] == [view.rope for view in seen.views]
    assert set(document["ropes"][0]["pairs"][0]) == {
        *("pair", "first", "second", "axis"),
        *("inv_freq", "second_inv_freq", "wavelength", "turns", "divisor"),
    }
    assert document["ropes"][0]["slowest"] == document["ropes"][0]["pairs"][view_index(seen.views[0])]
    assert {finding["code"] for finding in document["findings"]} == {finding.code for finding in seen.findings}


def view_index(view):
    return view.rows.index(view.slowest)


def test_magnitudes_are_two_numbers():
    view = inspect("deepseek-v3").views[0]
    assert view.pairs.cos_sin_factor == 1
    assert view.pairs.softmax_factor == pytest.approx((0.1 * math.log(40) + 1) ** 2, rel=1e-12)
    assert view.to_dict()["softmax_factor"] == view.pairs.softmax_factor


@pytest.mark.parametrize(
    ("value", "words"),
    [(1e6, "1000000"), (1e300, "1e+300"), (0.25, "0.25"), (1 / 3, "0.333333333"), (7, "7"), (False, "false")],
)
def test_numbers_are_written_to_be_read(value, words):
    assert number_words(value) == words
