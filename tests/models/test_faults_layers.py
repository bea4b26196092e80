"""Faults seen in the wild: which layers a block is meant for, and which layers turn at all.

Each test carries the id of its fault and numbers worked out beside the library.
"""

import pytest

import ropewalk
from ropewalk.scaling import Default, Linear

from ._faults import YARN, close, config, finding, names, off_layers, rope_of, yarn

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
