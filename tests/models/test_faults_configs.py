"""Faults seen in the wild, as configs: each test carries the id of its fault and numbers worked out beside the library.

The numbers are float64, from the papers' formulas; transformers 5.24 agrees with them to float32 rounding.
"""

import math

import numpy as np
import pytest

import ropewalk
from ropewalk import RopewalkError
from ropewalk.axes import Ladders, Sections
from ropewalk.models.model import QueryScale
from ropewalk.rope import Rope
from ropewalk.scaling import Default, Dynamic, Linear, Llama3, LongRope, Ntk, Yarn

RTOL = 1e-9  # ten digits are given
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 16,
    "low_freq_factor": 1,
    "high_freq_factor": 4,
    "original_max_position_embeddings": 4096,
}
YARN = {"rope_type": "yarn", "factor": 12, "original_max_position_embeddings": 6144}


def config(block=None, *, head_dim=96, theta=3e5, **keys):
    """A Llama of two layers; a theta of None is left out."""
    rope = dict(block or {})
    if theta is not None:
        rope.setdefault("rope_theta", theta)
    return {
        "model_type": "llama",
        "head_dim": head_dim,
        "num_hidden_layers": 2,
        "max_position_embeddings": 4096,
        "rope_parameters": rope,
        **keys,
    }


def yarn(block=None, **keys):
    """The block of F206: R = 80, theta 250000, 6144 tokens stretched by 12."""
    given = {"head_dim": 80, "theta": 250000, "max_position_embeddings": 73728, **keys}
    return config({**YARN, **(block or {})}, **given)


def dynamic(**keys):
    """The block of F218."""
    given = {"theta": 5e4, "max_position_embeddings": 3072, **keys}
    return config({"rope_type": "dynamic", "factor": 3}, **given)


def longrope(**keys):
    """The block of F223."""
    block = {"rope_type": "longrope", "short_factor": [1.0] * 40, "long_factor": [2.5] * 40, **keys}
    block.setdefault("original_max_position_embeddings", 3072)
    return config(block, head_dim=80, theta=1e4, max_position_embeddings=49152)


def rope_of(target):
    return ropewalk.read(target).rope


def inv_freq(target, length=None):
    return rope_of(target).pairs(length).inv_freq


def close(right):
    return pytest.approx(right, rel=RTOL, abs=0)


def divisors(rope):
    """What scaling divides each frequency by."""
    return rope.replace(scaling=Default()).pairs().inv_freq / rope.pairs().inv_freq


def names(target, severity=None):
    """The names of the findings, of one severity where one is given."""
    return {one.name for one in ropewalk.read(target).findings if severity in (None, one.severity)}


def errors(target):
    """The messages of the error findings."""
    return [one.message for one in ropewalk.read(target).findings if one.severity == "error"]


def finding(target, name):
    (one,) = [one for one in ropewalk.read(target).findings if one.name == name]
    return one


def off_layers(target):
    """The numbers of the layers of the text part without RoPE."""
    return [number for number, layer in enumerate(ropewalk.read(target).layers) if layer.rope is None]


# --- pairing, direction, several ropes


def test_f101_llama_of_hugging_face_is_half_split():
    assert rope_of(config()).pairing == "half"


@pytest.mark.parametrize("model_type", "qwen2 qwen3 gemma gemma2 phi3 gpt_neox falcon gpt_oss".split())
def test_f102_families_that_share_a_list_elsewhere_are_half_split_each(model_type):
    assert {rope.pairing for rope in ropewalk.read(config(model_type=model_type)).ropes} == {"half"}


@pytest.mark.parametrize("model_type", ["orion", "plamo"])
def test_f103_orion_and_plamo_are_half_split(model_type):
    assert rope_of(config(model_type=model_type)).pairing == "half"


def test_f104_gptj_is_interleaved_over_64_of_256_channels():
    rope = rope_of({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "rotary_dim": 64})
    assert (rope.pairing, rope.head_dim, rope.rotary_dim, rope.rotary_start) == ("interleaved", 256, 64, 0)


def test_f105_deepseek_v32_has_an_indexer_beside_its_rope():
    keys = {"model_type": "deepseek_v32", "qk_rope_head_dim": 64, "index_head_dim": 128}
    ropes = ropewalk.read(config(head_dim=192, **keys)).layers[0].ropes
    assert (ropes["attention"].head_dim, ropes["attention"].pairing) == (64, "interleaved")
    assert (ropes["indexer"].head_dim, ropes["indexer"].rotary_dim, ropes["indexer"].pairing) == (128, 64, "half")


def test_f106_nanochat_turns_the_other_way():
    rope = rope_of(config(model_type="nanochat", head_dim=16))
    assert rope.direction == -1
    assert rope.pairs().inv_freq.tolist() == [-speed for speed in inv_freq(config(head_dim=16))]


def test_f106_deepseek_v4_turns_the_last_channels_and_turns_the_output_back():
    keys = {"model_type": "deepseek_v4", "qk_rope_head_dim": 64, "rope_theta": 1e4, "compress_rope_theta": 1.6e5}
    layers = ropewalk.read({"head_dim": 512, "num_hidden_layers": 4, **keys}).layers
    for layer in layers:
        assert (layer.rope.rotary_start, layer.rope.rotary_dim, layer.output_inverse) == (448, 64, True)
        pairs = layer.rope.pairs()
        assert {*pairs.first.tolist(), *pairs.second.tolist()} == set(range(448, 512))


# --- the base


def test_f107_base_in_rope_parameters_is_taken_and_its_home_named():
    model = ropewalk.read(config(theta=3e5))
    assert model.rope.pairs().inv_freq[1] == close(0.7689415118)
    assert model.sources["text.rope_theta"] == "rope_parameters.rope_theta"


def test_f107_missing_base_is_a_class_default_that_is_named():
    model = ropewalk.read(config(theta=None))
    assert model.rope.pairs().inv_freq[1] == close(0.8254041853)
    assert model.sources["text.rope_theta"] == "default of LlamaConfig"
    assert finding(config(theta=None), "theta-default").severity == "warning"


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_theta": 250000, "rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 250000}},
        {"rope_scaling": {"type": "default", "rope_theta": 250000}},
        {"rope_theta": "250000"},
        {"rope_parameters": {"rope_theta": 250000}, "rope_scaling": {"rope_type": "default"}},
    ],
)
def test_f108_five_homes_of_the_base_give_one_description(keys):
    model = ropewalk.read({"model_type": "llama", "head_dim": 96, "num_hidden_layers": 2, **keys})
    right = Rope(head_dim=96, rope_theta=250000, pairing="half", max_position_embeddings=2048)
    assert model.rope == right
    assert errors({"model_type": "llama", "head_dim": 96, **keys}) == []


def test_f108_yarn_under_either_key_alone_is_read():
    new = yarn()
    old = {**{key: value for key, value in new.items() if key != "rope_parameters"}, "rope_theta": 250000}
    for block in ({**YARN}, {"type": "yarn", **{key: value for key, value in YARN.items() if key != "rope_type"}}):
        assert rope_of({**old, "rope_scaling": block}) == rope_of(new)


def test_f108_scaling_beside_an_unscaled_block_is_read_and_the_pair_reported():
    both = config({"rope_type": "default"}, rope_scaling={"type": "linear", "factor": 3})
    assert rope_of(both).scaling == Linear(factor=3)
    assert rope_of(both).rope_theta == 3e5
    assert "blocks-conflict" in names(both, "warning")
    sources = ropewalk.read(both).sources
    assert (sources["text.factor"], sources["text.rope_theta"]) == ("rope_scaling.factor", "rope_parameters.rope_theta")


def test_f109_default_is_not_scaling():
    rope = rope_of(config({"rope_type": "default", "rope_theta": 3e5}))
    assert rope.scaling == Default()
    assert names(config({"rope_type": "default", "rope_theta": 3e5})) == set()


def test_f110_type_beside_an_equal_rope_type_is_fine_and_beside_another_an_error():
    equal = config({"type": "linear", "rope_type": "linear", "factor": 3})
    assert rope_of(equal).scaling == Linear(factor=3)
    assert names(equal) == set()
    differing = config({"type": "linear", "rope_type": "yarn", "factor": 3})
    assert ropewalk.read(differing).ropes == ()
    assert "rope-type-conflict" in names(differing, "error")


@pytest.mark.parametrize(("type_", "rope_type"), [("su", "longrope"), ("mrope", "default")])
def test_f110_two_spellings_of_one_type_do_not_conflict(type_, rope_type):
    block = {"short_factor": [1.0] * 48, "long_factor": [2.5] * 48, "original_max_position_embeddings": 1024}
    block = {"type": type_, "rope_type": rope_type, **(block if type_ == "su" else {"mrope_section": [24, 12, 12]})}
    assert names(config(block), "error") == set()


def test_f111_llama3_is_read_whole_and_a_key_missing_or_unknown_is_reported():
    block = {**LLAMA3, "factor": 8, "original_max_position_embeddings": 8192}
    right = Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
    assert rope_of(config(block)).scaling == right
    for name in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"):
        lacking = config({key: value for key, value in block.items() if key != name})
        assert finding(lacking, "key-missing").where == f"text: rope_parameters.{name}"
        assert ropewalk.read(lacking).ropes == ()
    noted = config({**block, "note": 1})
    assert rope_of(noted).scaling == right
    assert finding(noted, "key-unused").where == "text: rope_parameters.note"


def test_f112_truncate_false_is_read():
    rope = rope_of(yarn({"truncate": False}))
    assert rope.scaling == Yarn(factor=12, original_max_position_embeddings=6144, truncate=False)


def test_f113_null_is_absent():
    assert rope_of(config({"rope_type": "default", "factor": None})) == rope_of(config())
    assert finding(config({"rope_type": "linear", "factor": None}), "key-missing").severity == "error"
    derived = yarn({"factor": None})
    assert rope_of(derived) == rope_of(yarn())
    assert "max_position_embeddings" in ropewalk.read(derived).sources["text.factor"]


@pytest.mark.parametrize(
    "block",
    [
        {"rope_type": "default"},
        YARN,
        {"rope_type": "dynamic", "factor": 3},
        {"rope_type": "longrope", "short_factor": [1] * 48, "long_factor": [2] * 48, "factor": 2},
    ],
    ids=lambda block: block["rope_type"],
)
def test_f113_null_head_dim_is_hidden_size_over_heads(block):
    rope = rope_of(config(block, head_dim=None, hidden_size=384, num_attention_heads=4))
    assert rope.head_dim == 96


def test_f114_numbers_as_text_are_read_and_words_are_not():
    assert rope_of(config(theta="300000")).rope_theta == 3e5
    assert rope_of(config({"rope_type": "linear", "factor": "3"})).scaling == Linear(factor=3)
    wrong = config({"rope_type": "linear", "factor": "x"})
    assert ropewalk.read(wrong).ropes == ()
    assert "'x'" in finding(wrong, "value-unusable").message


def test_f115_the_file_wins_over_the_class_default():
    assert rope_of(config(model_type="gpt_oss", theta=3e5)).rope_theta == 3e5
    block = {"rope_type": "longrope", "short_factor": [1] * 48, "long_factor": [2] * 48}
    stated = config({**block, "original_max_position_embeddings": 2048}, model_type="phi3")
    assert rope_of(stated).scaling.original_max_position_embeddings == 2048


def test_f116_a_long_context_base_is_carried_to_the_last_pair():
    assert inv_freq(config(theta=3e5))[-1] == close(4.334963430e-6)
    assert inv_freq(config(theta=1e4))[-1] == close(1.211527659e-4)


# --- widths


def test_f117_head_dim_wins_over_hidden_size_over_heads():
    assert rope_of(config(head_dim=128, hidden_size=3840, num_attention_heads=24)).head_dim == 128


@pytest.mark.parametrize(
    ("keys", "width", "head"),
    [
        ({"head_dim": None, "hidden_size": 456, "num_attention_heads": 8}, 57, 57),
        ({"head_dim": 10, "partial_rotary_factor": 0.7}, 7, 10),
    ],
)
def test_f118_odd_width_is_an_error_with_both_numbers(keys, width, head):
    target = config(**keys)
    assert ropewalk.read(target).ropes == ()
    assert f"rotary_dim={width}, head_dim={head}" in finding(target, "width-odd").message


def test_f118_a_fraction_is_cut_to_whole_channels():
    assert rope_of(config(head_dim=192, partial_rotary_factor=0.334)).rotary_dim == 64


@pytest.mark.parametrize(
    "keys",
    [
        {"rotary_dim": 48},
        {"rope_dim": 48},
        {"partial_rotary_factor": 0.5},
        {"rotary_pct": 0.5},
        {"rope_pct": 0.5},
        {"rope_percent": 0.5},
        {"rotary_emb_fraction": 0.5},
        {"model_type": "glm"},
        {"model_type": "phi"},
    ],
    ids=str,
)
def test_f119_f120_partial_width_is_read_under_every_name_and_applied_once(keys):
    rope = rope_of(config(rope_theta=3e5, **keys))
    assert (rope.head_dim, rope.rotary_dim) == (96, 48)
    speeds = rope.pairs().inv_freq
    assert len(speeds) == 24
    assert (speeds[1], speeds[-1]) == (close(0.5912710485), close(5.637572382e-6))


def test_f119_the_rope_part_of_mla_is_a_head_of_its_own():
    rope = rope_of(config(model_type="deepseek_v3", head_dim=192, qk_rope_head_dim=48))
    assert (rope.head_dim, rope.rotary_dim) == (48, 48)


def test_f120_a_fraction_in_two_homes_is_applied_once():
    assert rope_of(config({"partial_rotary_factor": 0.5}, partial_rotary_factor=0.5)).rotary_dim == 48


def test_f121_partial_rotary_factor_has_the_meaning_of_its_type():
    keys = {"head_dim": 160, "theta": 2e5}
    proportional = rope_of(config({"rope_type": "proportional", "partial_rotary_factor": 0.3}, **keys))
    pairs = proportional.pairs()
    assert (proportional.rotary_dim, len(pairs), np.count_nonzero(pairs.inv_freq)) == (160, 80, 24)
    assert (pairs.first[1], pairs.second[1]) == (1, 81)
    assert (pairs.inv_freq[1], pairs.inv_freq[23]) == (close(0.8584937249), close(0.02991946863))
    ordinary = rope_of(config({"partial_rotary_factor": 0.3}, **keys))
    pairs = ordinary.pairs()
    assert (ordinary.rotary_dim, len(pairs), pairs.first[1], pairs.second[1]) == (48, 24, 1, 25)
    assert pairs.inv_freq[1] == close(0.6013450635)


@pytest.mark.parametrize("length", [64, 39])
def test_f122_factor_lists_have_half_the_rotary_width(length):
    block = {"rope_type": "longrope", "factor": 4, "original_max_position_embeddings": 1024}
    keys = {"head_dim": 128, "partial_rotary_factor": 0.625}
    right = config({**block, "short_factor": [1] * 40, "long_factor": [2] * 40}, **keys)
    assert rope_of(right).num_pairs == 40
    wrong = config({**block, "short_factor": [1] * length, "long_factor": [2] * 40}, **keys)
    assert ropewalk.read(wrong).ropes == ()
    assert f"{length} entries" in finding(wrong, "list-length").seen
    assert "40" in finding(wrong, "list-length").right


# --- blocks by layer type


def test_f123_nested_yarn_with_its_truncate_is_the_flat_one():
    blocks = {
        "full_attention": {**YARN, "truncate": False, "rope_theta": 250000},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    }
    kinds = ["full_attention", "sliding_attention"]
    nested = yarn(rope_parameters=blocks, layer_types=kinds)
    full, sliding = (layer.rope for layer in ropewalk.read(nested).layers)
    assert full == rope_of(yarn({"truncate": False}))
    assert (sliding.rope_theta, sliding.scaling) == (2e4, Default())
    assert "transformers" in finding(nested, "engines-truncate").message


def test_f124_null_under_a_layer_type_is_a_layer_without_rope():
    blocks = {"full_attention": None, "sliding_attention": {"rope_theta": 2e4}}
    target = config(rope_parameters=blocks, layer_types=["full_attention", "sliding_attention"])
    assert off_layers(target) == [0]
    assert ropewalk.read(target).rope.rope_theta == 2e4
    assert names(target, "error") == set()


def test_f124_labels_need_not_be_layer_types():
    blocks = {"main": {"rope_theta": 1e4}, "compress": {"rope_theta": 1.6e5}}
    keys = {"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 4, "qk_rope_head_dim": 64}
    ratios = {"compress_ratios": [0, 0, 4, 128], "rope_parameters": blocks}
    assert [layer.rope.rope_theta for layer in ropewalk.read({**keys, **ratios}).layers] == [1e4, 1e4, 1.6e5, 1.6e5]


def test_f124_a_base_for_all_does_not_contradict_the_block_of_one_layer_type():
    blocks = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 2e4}}
    target = config(rope_parameters=blocks, rope_theta=1e6, layer_types=["full_attention", "sliding_attention"])
    assert "theta-conflict" not in names(target)


GEMMA3 = {"model_type": "gemma3_text", "head_dim": 96, "num_hidden_layers": 6, "max_position_embeddings": 4096}
GEMMA3_V4 = {
    **GEMMA3,
    "rope_theta": 8e5,
    "rope_local_base_freq": 2e4,
    "rope_scaling": {"rope_type": "linear", "factor": 6},
}
GEMMA3_V5 = {
    **GEMMA3,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 6, "rope_theta": 8e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    },
}


@pytest.mark.parametrize("target", [GEMMA3_V4, GEMMA3_V5], ids=["v4", "v5"])
def test_f125_f227_linear_reaches_the_global_layers_only(target):
    layers = ropewalk.read(target).layers
    assert [layer.kind for layer in layers] == ["sliding_attention"] * 5 + ["full_attention"]
    assert layers[0].rope.pairs().inv_freq[1] == close(0.8135705294)
    assert layers[5].rope.pairs().inv_freq[1] == close(0.1255647419)
    assert (layers[0].rope.scaling, layers[5].rope.scaling) == (Default(), Linear(factor=6))


def test_f125_old_and_new_form_give_the_same_layers():
    assert ropewalk.read(GEMMA3_V4).layers == ropewalk.read(GEMMA3_V5).layers


@pytest.mark.parametrize(
    "keys",
    [
        {"model_type": "modernbert", "global_rope_theta": 8e5, "local_rope_theta": 2e4},
        {"model_type": "mimo_v2_flash", "rope_theta": 8e5, "swa_rope_theta": 2e4},
    ],
    ids=lambda keys: keys["model_type"],
)
def test_f125_other_names_of_a_local_base_are_read(keys):
    kinds = ["full_attention", "sliding_attention"]
    layers = ropewalk.read({"head_dim": 96, "num_hidden_layers": 2, "layer_types": kinds, **keys}).layers
    assert [layer.rope.rope_theta for layer in layers] == [8e5, 2e4]


# --- layers without RoPE


def test_f126_every_nth_layer_of_smollm3_is_without_rope():
    ten = config(model_type="smollm3", num_hidden_layers=10)
    assert off_layers({**ten, "no_rope_layer_interval": 3}) == [2, 5, 8]
    assert off_layers(ten) == [3, 7]


def test_f126_cohere2_turns_in_sliding_layers_only():
    target = config(model_type="cohere2", num_hidden_layers=8)
    assert off_layers(target) == [3, 7]
    kinds = ["sliding_attention", "full_attention"] * 4
    assert off_layers({**target, "layer_types": kinds}) == [1, 3, 5, 7]


def test_f127_one_in_no_rope_layers_means_that_the_layer_turns():
    target = config(model_type="smollm3", num_hidden_layers=6, no_rope_layers=[1, 0, 1, 1, 0, 1])
    assert off_layers(target) == [1, 4]
    assert "rope-layers-few" not in names(target)
    inverted = {**target, "no_rope_layers": [0, 1, 0, 0, 1, 0]}
    assert off_layers(inverted) == [0, 2, 3, 5]
    assert "rope-layers-few" in names(inverted, "warning")


def test_f128_a_declared_plan_gives_no_finding():
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    target = config(model_type="cohere2", num_hidden_layers=3, layer_types=kinds)
    assert off_layers(target) == [2]
    assert names(target) == set()
    assert ropewalk.read(target).sources["text.layer_types"] == "layer_types"


# --- M-RoPE


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_parameters": {"rope_type": "default", "mrope_section": [10, 6, 4], "rope_theta": 3e5}},
        {"rope_parameters": {"rope_theta": 3e5}, "rope_scaling": {"mrope_section": [10, 6, 4]}},
        {"rope_theta": 3e5, "rope_scaling": {"type": "mrope", "mrope_section": [10, 6, 4]}},
        {"rope_theta": 3e5, "rope_scaling": {"type": "default", "rope_type": "default", "mrope_section": [10, 6, 4]}},
    ],
    ids=["named default", "in the other dict", "named mrope", "v4"],
)
@pytest.mark.parametrize(
    ("model_type", "arrangement"), [("qwen2_vl_text", "chunked"), ("qwen3_vl_text", "interleaved")]
)
def test_f129_sections_mean_mrope_whatever_the_type_is_called(keys, model_type, arrangement):
    rope = rope_of({"model_type": model_type, "head_dim": 40, "num_hidden_layers": 2, **keys})
    assert rope.axes == Sections(sections=(10, 6, 4), arrangement=arrangement)
    assert rope.rope_theta == 3e5


# --- YaRN: lengths, factors, magnitudes


def test_f130_the_stated_factor_wins_and_the_ratio_is_reported():
    target = yarn({"factor": 6, "original_max_position_embeddings": 20000}, max_position_embeddings=30000)
    assert rope_of(target).scaling.factor == 6
    assert "1.5" in finding(target, "factor-ratio").message


def test_f131_an_original_length_says_where_it_comes_from():
    inside = yarn({"original_max_position_embeddings": 4096})
    outside = {**inside, "original_max_position_embeddings": 8192}
    absent = config({"rope_type": "yarn", "factor": 12}, max_position_embeddings=8192)
    origins = [ropewalk.read(one).sources["text.original_max_position_embeddings"] for one in (inside, outside, absent)]
    lengths = [rope_of(one).scaling.original_max_position_embeddings for one in (inside, outside, absent)]
    key = "original_max_position_embeddings"
    assert origins == [f"rope_parameters.{key}", key, "max_position_embeddings"]
    assert lengths == [4096, 8192, 8192]
    assert {"original-length-conflict"} <= names(outside, "warning")
    assert {"original-length-default"} <= names(absent, "warning")


def test_f131_a_class_default_of_the_original_length_is_named():
    block = {"rope_type": "longrope", "short_factor": [1] * 48, "long_factor": [2] * 48}
    model = ropewalk.read(config(block, model_type="phi3", max_position_embeddings=131072))
    assert model.rope.scaling.original_max_position_embeddings == 4096
    assert model.sources["text.original_max_position_embeddings"] == "default of Phi3Config"
    notes = [one for one in model.findings if one.name == "class-default"]
    assert any("4096" in one.right and "original_max_position_embeddings" in one.where for one in notes)


def test_f132_the_ramp_uses_the_original_length():
    rope = rope_of(yarn())
    assert rope.scaling.bounds(250000, 80) == (11, 23)
    longer = Yarn(factor=12, original_max_position_embeddings=73728)
    assert longer.bounds(250000, 80) == (19, 31)
    stretched = rope.replace(scaling=longer).pairs().inv_freq[23]
    assert stretched / rope.pairs().inv_freq[23] == close(8.333333333333334)


@pytest.mark.parametrize("spelled", ["deepseek_yarn", "telechat3-yarn"])
def test_f133_the_context_of_a_vendors_yarn_is_not_multiplied_again(spelled):
    target = yarn(
        {"rope_type": spelled, "factor": 5, "original_max_position_embeddings": 4096}, max_position_embeddings=20480
    )
    rope = rope_of(target)
    assert (rope.max_position_embeddings, rope.scaling.factor) == (20480, 5)
    assert names(target, "warning") == set()
    magnitude = 0.07 * math.log(5) + 1 if spelled.startswith("tele") else 0.1 * math.log(5) + 1
    assert rope.pairs().cos_sin_factor == close(magnitude)


def test_f135_attn_factor_gives_both_readings():
    target = yarn({"factor": 6, "attn_factor": 0.8480498627958061}, max_position_embeddings=36864)
    assert rope_of(target).pairs().cos_sin_factor == close(1.179175947)
    message = finding(target, "attn-factor").message
    assert "1.17917595" in message
    assert "(1)" in message


# --- other spellings and types


@pytest.mark.parametrize("model_type", ["hunyuan_v1_dense", "hunyuan_v1_moe"])
def test_f137_alpha_raises_the_base(model_type):
    block = {"type": "dynamic", "alpha": 50, "factor": 1}
    rope = rope_of(config(block, theta=2e4, model_type=model_type))
    assert rope.scaling == Ntk(factor=50)
    raised = rope.replace(rope_theta=1086796.667, scaling=Default()).pairs().inv_freq
    np.testing.assert_allclose(rope.pairs().inv_freq, raised, rtol=1e-9)
    ignored = rope.replace(scaling=Default()).pairs().inv_freq
    assert np.abs(rope.pairs().inv_freq - ignored).max() == pytest.approx(0.1240657, abs=5e-8)
    narrow = config(block, theta=2e4, model_type=model_type, head_dim=2)
    assert ropewalk.read(narrow).ropes == ()
    assert "rotary_dim=2" in finding(narrow, "scaling-impossible").message


def test_f138_rope_ratio_multiplies_the_base_of_chatglm():
    model = ropewalk.read({"model_type": "chatglm", "kv_channels": 128, "num_layers": 2, "rope_ratio": 25})
    assert model.rope.rope_theta == 250000
    assert model.sources["text.rope_theta"] == "rope_ratio"


@pytest.mark.parametrize("spelled", ["su", "yarn", "longrope"])
def test_f139_old_type_names_of_phi3_mean_longrope(spelled):
    block = {"type": spelled, "short_factor": [1.0] * 48, "long_factor": [2.5] * 48}
    target = config(block, model_type="phi3", original_max_position_embeddings=2048)
    right = LongRope(short_factor=(1.0,) * 48, long_factor=(2.5,) * 48, original_max_position_embeddings=2048)
    assert rope_of(target).scaling == right
    assert names(target, "error") == set()


def test_f140_an_unknown_type_is_an_error_that_names_the_known_ones():
    target = config({"type": "spiral"})
    assert ropewalk.read(target).ropes == ()
    message = finding(target, "rope-type-unknown").message
    assert all(word in message for word in ("spiral", "linear", "yarn", "longrope", "llama3"))
    with pytest.raises(RopewalkError, match="spiral"):
        rope_of(target)


def test_f142_a_family_with_lists_reads_plain_without_a_block():
    target = {"model_type": "phi3", "hidden_size": 384, "num_attention_heads": 4, "rope_theta": 1e4}
    assert rope_of(target).scaling == Default()
    assert names(target) <= {"class-default"}


def test_f146_class_defaults_are_named_as_such():
    sources = ropewalk.read({"model_type": "glm", "head_dim": 96}).sources
    for value in ("rope_theta", "rotary_dim", "layers", "max_position_embeddings"):
        assert sources[f"text.{value}"] == "default of GlmConfig"
    assert {"theta-default", "class-default"} <= names({"model_type": "glm", "head_dim": 96})


def test_f147_chatglm_6b_has_two_positions_of_half_a_head_each():
    keys = {"model_type": "chatglm", "position_encoding_2d": True, "num_layers": 2}
    rope = rope_of({**keys, "hidden_size": 768, "num_attention_heads": 8})
    assert rope.axes == Ladders(widths=(48, 48), pairing_within="axis", names=("position", "block_position"))
    assert rope.pairing == "half"
    pairs = rope.pairs()
    assert pairs.inv_freq[1] == close(0.6812920691)
    assert pairs.inv_freq.tolist() == [*pairs.inv_freq[:24], *pairs.inv_freq[:24]]
    assert pairs.axis.tolist() == [0] * 24 + [1] * 24
    assert (pairs.second[0], pairs.first[24], pairs.second[24]) == (24, 48, 72)


# --- scaling, as a file declares it


def test_f201_f204_declared_llama3_bands_are_there():
    rope = rope_of(config(LLAMA3))
    right = [1.228669046, 1.760351773, 2.638197642, 4.278988540, 8.200951039]
    found = divisors(rope)
    assert found[20:25].tolist() == close(right)
    assert found[:20].tolist() == close([1.0] * 20)
    assert found[25:].tolist() == close([16.0] * 23)
    speeds = rope.pairs().inv_freq
    assert (speeds[20], speeds[24]) == (close(4.250413936e-3), close(2.226256259e-4))


def test_f205_equal_bands_are_a_step():
    target = config({**LLAMA3, "high_freq_factor": 1})
    assert "ramp-empty" in names(target, "warning")
    found = divisors(rope_of(target))
    assert found.tolist() == close([1.0] * 25 + [16.0] * 23)


@pytest.mark.parametrize(
    ("block", "bounds", "speed"),
    [
        ({}, (11, 23), 1.715925148e-4),
        ({"truncate": True}, (11, 23), 1.715925148e-4),
        ({"truncate": False}, (11.00509719, 22.15861113), 1.035309897e-4),
    ],
    ids=["default", "true", "false"],
)
def test_f206_bounds_are_rounded_unless_truncate_is_false(block, bounds, speed):
    rope = rope_of(yarn(block))
    assert rope.scaling.bounds(250000, 80) == close(bounds)
    assert rope.pairs().inv_freq[22] == close(speed)
    assert rope.pairs().cos_sin_factor == close(1.248490665)


def test_f207_the_upper_bound_may_lie_past_the_last_pair():
    block = {"factor": 6, "original_max_position_embeddings": 65536}
    rope = rope_of(yarn(block, head_dim=48, theta=5000, max_position_embeddings=393216))
    assert rope.scaling.bounds(5000, 48) == (16, 27)
    assert divisors(rope)[23] < 6


def test_f209_swapped_betas_are_an_error():
    target = yarn({"beta_fast": 1, "beta_slow": 32})
    assert ropewalk.read(target).ropes == ()
    assert "swapped" in finding(target, "betas-swapped").message


def test_f210_a_lower_bound_of_zero_is_fine():
    block = {"factor": 4, "original_max_position_embeddings": 200}
    target = yarn(block, head_dim=48, theta=20000, max_position_embeddings=800)
    assert rope_of(target).scaling.bounds(20000, 48) == (0, 9)
    assert names(target) == set()


def test_f210_equal_betas_of_kimi_k2_make_a_step():
    block = {"factor": 32, "original_max_position_embeddings": 4096, "beta_fast": 1, "beta_slow": 1}
    keys = {"model_type": "kimi_k2", "qk_rope_head_dim": 64, "max_position_embeddings": 131072}
    rope = rope_of(yarn({**block, "mscale": 1, "mscale_all_dim": 1}, head_dim=None, theta=5e4, **keys))
    assert divisors(rope).tolist() == close([1.0] * 20 + [32.0] * 12)


def test_f211_f212_fast_pairs_are_kept_and_slow_ones_divided():
    assert inv_freq(yarn())[1] == close(0.7329114386)
    found = divisors(rope_of(yarn()))
    assert found[[0, 10, 15, 20, 25, 39]].tolist() == close([1, 1, 1.44, 3.2, 12, 12])


@pytest.mark.parametrize(
    ("block", "cos_sin", "softmax"),
    [
        ({"factor": 20, "mscale": 1.0, "mscale_all_dim": 0.5}, 1.130273402, 1.322009257),
        ({"factor": 25, "mscale": 0.8, "mscale_all_dim": 0.8}, 1.0, 1.581331566),
    ],
    ids=["f213", "f214"],
)
def test_f213_f214_mla_has_a_magnitude_on_cos_and_sin_and_one_on_the_softmax(block, cos_sin, softmax):
    keys = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64}
    length = 4096 * block["factor"]
    target = yarn({**block, "original_max_position_embeddings": 4096}, max_position_embeddings=length, **keys)
    pairs = rope_of(target).pairs()
    assert (pairs.cos_sin_factor, pairs.softmax_factor) == (close(cos_sin), close(softmax))
    assert names(target) == set()


def test_f216_an_equal_pair_outside_mla_is_reported_with_both_values():
    target = yarn({"mscale": 1.0, "mscale_all_dim": 1.0})
    pairs = rope_of(target).pairs()
    assert (pairs.cos_sin_factor, pairs.softmax_factor) == (1.0, 1.0)
    one = finding(target, "mscale-inert")
    assert one.right.startswith("1 ")
    assert "1.24849066" in one.message


@pytest.mark.parametrize("block", [{"mscale": 0.8}, {"mscale": 0.8, "mscale_all_dim": 0}], ids=str)
def test_f216_a_lone_mscale_is_reported_with_both_values(block):
    assert rope_of(yarn(block)).pairs().cos_sin_factor == close(1.248490665)
    message = finding(yarn(block), "engines-mscale").message
    assert "1.24849066" in message
    assert "0.8" in message


def test_f217_an_explicit_magnitude_is_taken_verbatim():
    block = {"factor": 50, "attention_factor": 1.0}
    target = yarn(block, max_position_embeddings=307200)
    assert rope_of(target).pairs().cos_sin_factor == 1.0
    assert "1.3912" in finding(target, "engines-attention-factor").message


@pytest.mark.parametrize(
    ("length", "theta"),
    [(10, 5e4), (3072, 5e4), (3073, 50049.86754), (4500, 121971.6882), (7000, 250042.6554), (15000, 667504.9284)],
)
def test_f218_f219_the_base_of_dynamic_ntk_follows_the_length(length, theta):
    rope = rope_of(dynamic())
    assert rope.scaling == Dynamic(factor=3)
    right = theta ** (-np.arange(48) / 48)
    np.testing.assert_allclose(rope.pairs(length).inv_freq, right, rtol=RTOL)


def test_f218_an_original_length_plays_no_part_in_dynamic_ntk():
    target = dynamic()
    target["rope_parameters"]["original_max_position_embeddings"] = 1024
    assert rope_of(target) == rope_of(dynamic())
    assert "key-unused" in names(target, "warning")


def test_f221_positions_are_not_multiplied():
    target = config({"rope_type": "dynamic", "factor": 6})
    assert 7 * inv_freq(target)[0] == 7.0


@pytest.mark.parametrize(("length", "speed"), [(10, 1.0), (3072, 1.0), (3073, 0.4)])
def test_f223_f224_longrope_is_short_up_to_the_original_length(length, speed):
    pairs = rope_of(longrope()).pairs(length)
    assert pairs.inv_freq[0] == speed
    assert pairs.cos_sin_factor == close(1.159859982)


def test_f226_linear_stays_linear_at_any_length():
    target = config({"rope_type": "linear", "factor": 5})
    assert inv_freq(target, 3 * 4096).tolist() == inv_freq(target).tolist()
    assert inv_freq(target).tolist() == close((inv_freq(config()) / 5).tolist())


def test_f228_query_temperatures_are_a_field_of_the_layer():
    llama4 = ropewalk.read(config(model_type="llama4_text", num_hidden_layers=4, head_dim=128)).layers
    assert [layer.query_scale for layer in llama4[:3]] == [None] * 3
    scale = llama4[3].query_scale
    assert scale == QueryScale(attn_scale=0.1, floor_scale=8192, offset=1)
    steps = math.floor((20000 + scale.offset) / scale.floor_scale)
    assert 1 + scale.attn_scale * math.log1p(steps) == close(1.109861229)
    ministral = ropewalk.read(yarn({"llama_4_scaling_beta": 0.1}, model_type="ministral3")).layers
    assert {layer.query_scale for layer in ministral} == {QueryScale(attn_scale=0.1, floor_scale=6144, offset=0)}


def test_f230_the_factor_of_proportional_divides_the_pairs_that_turn():
    block = {"rope_type": "proportional", "partial_rotary_factor": 0.3}
    keys = {"head_dim": 160, "theta": 2e5}
    plain, divided = inv_freq(config(block, **keys)), inv_freq(config({**block, "factor": 4}, **keys))
    assert divided.tolist() == close((plain / 4).tolist())
    assert np.count_nonzero(divided) == 24


def test_f231_the_name_ntk_is_reported_as_several_formulas():
    target = config({"rope_type": "ntk", "factor": 5}, theta=5e4)
    rope = rope_of(target)
    assert rope.scaling == Ntk(factor=5, method="aware")
    vllm = rope.replace(scaling=Ntk(factor=5, method="vllm")).pairs().inv_freq / rope.pairs().inv_freq
    assert (vllm[0], vllm[-1]) == (close(0.9670259421), close(1.0))
    assert "vLLM" in finding(target, "engines-ntk").message


@pytest.mark.parametrize(
    ("block", "magnitude"),
    [({}, 1.159859982), ({"factor": 8}, 1.122032256), ({"attention_factor": 1.0}, 1.0)],
    ids=["ratio of lengths", "factor", "attention_factor"],
)
def test_f232_magnitude_of_longrope_takes_what_is_stated_first(block, magnitude):
    assert rope_of(longrope(**block)).pairs().cos_sin_factor == close(magnitude)


def test_f232_short_and_long_magnitudes_are_separate():
    rope = rope_of(longrope(short_mscale=1.1, long_mscale=1.3))
    assert (rope.pairs(3072).cos_sin_factor, rope.pairs(3073).cos_sin_factor) == (1.1, 1.3)
