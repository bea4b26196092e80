"""Meta's params.json: keys, the constants of Meta's code, and what is said about them."""

import math

import numpy as np
import pytest

from ropewalk import read
from ropewalk.axes import Ladders
from ropewalk.models.model import QueryScale
from ropewalk.scaling import Default, Llama3

LLAMA31 = {"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256, "rope_theta": 500000.0}
SCOUT = {
    "dim": 5120,
    "n_layers": 48,
    "n_heads": 40,
    "n_kv_heads": 8,
    "rope_theta": 500000.0,
    "use_scaled_rope": True,
    "nope_layer_interval": 4,
    "attention_chunk_size": 8192,
    "use_qk_norm": True,
    "vision_args": {"dim": 1408, "n_layers": 34, "n_heads": 16, "image_size": {"height": 336, "width": 336}},
}


def names(model):
    return [finding.name for finding in model.findings]


def test_llama_2_takes_the_constant_of_its_code_and_says_so():
    model = read({"dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": -1})
    assert model.rope.rope_theta == 1e4
    assert model.sources["text.rope_theta"].startswith("default of llama's model.py")
    assert names(model) == ["theta-default"]


@pytest.mark.parametrize("sign", [{"vocab_size": 128256}, {"use_scaled_rope": False}, {"nope_layer_interval": 4}])
def test_a_llama_3_or_4_without_a_base_takes_that_of_its_own_code(sign):
    model = read({"dim": 64, "n_layers": 2, "n_heads": 4, **sign})
    assert {rope.rope_theta for rope in model.ropes} == {5e5}
    assert "llama-models" in model.sources["text.rope_theta"]


def test_neighbours_turn_and_the_head_is_dim_over_heads():
    pairs = read(LLAMA31).rope.pairs()
    assert pairs.first.tolist()[:3] == [0, 2, 4]
    assert pairs.second.tolist()[:3] == [1, 3, 5]
    np.testing.assert_allclose(pairs.inv_freq, 5e5 ** (-2 * np.arange(64) / 128), rtol=1e-14)


def test_use_scaled_rope_means_the_four_constants_of_the_code():
    model = read({**LLAMA31, "use_scaled_rope": True})
    right = Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
    assert model.rope.scaling == right
    assert names(model) == ["scaling-implied"]
    assert model.sources["text.factor"] == "constant of llama-models' model.py"


def test_use_scaled_rope_false_is_no_scaling():
    model = read({**LLAMA31, "use_scaled_rope": False})
    assert model.rope.scaling == Default()
    assert model.findings == ()


@pytest.mark.parametrize(("dim", "layers", "heads"), [(2048, 16, 32), (3072, 28, 24)])
def test_the_text_models_of_llama_3_2_have_factor_32_and_the_doubt_is_named(dim, layers, heads):
    model = read({**LLAMA31, "dim": dim, "n_layers": layers, "n_heads": heads, "use_scaled_rope": True})
    assert model.rope.scaling.factor == 32
    (finding,) = model.findings
    assert finding.name == "scaling-implied"
    assert "applies 8" in finding.message


def test_a_factor_in_the_file_wins_and_leaves_nothing_implied():
    data = {**LLAMA31, "use_scaled_rope": True, "rope_scaling_factor": 32, "rope_high_freq_factor": 2}
    model = read(data)
    assert (model.rope.scaling.factor, model.rope.scaling.high_freq_factor) == (32, 2)
    assert model.findings == ()
    assert model.sources["text.factor"] == "rope_scaling_factor"


def test_scout_has_a_step_no_rope_layers_and_no_temperature_unless_switched_on():
    model = read(SCOUT)
    right = Llama3(factor=16, low_freq_factor=1, high_freq_factor=1, original_max_position_embeddings=8192)
    assert [bool(layer.ropes) for layer in model.layers] == [True, True, True, False] * 12
    assert model.layers[0].rope.scaling == right
    assert {layer.query_scale for layer in model.layers} == {None}


def test_the_temperature_of_llama_4_stands_on_the_layers_without_rope():
    model = read({**SCOUT, "attn_temperature_tuning": True})
    assert model.layers[0].query_scale is None
    assert model.layers[3].query_scale == QueryScale(attn_scale=0.1, floor_scale=8192, offset=1)
    assert math.isclose(model.layers[3].query_scale.at(8191), 1 + 0.1 * math.log(2))


def test_maverick_without_scaled_rope_keeps_its_frequencies():
    model = read({**SCOUT, "use_scaled_rope": False})
    assert model.layers[0].rope.scaling == Default()


def test_the_vision_tower_of_llama_4_has_two_ladders_over_neighbours():
    rope = read(SCOUT).parts["vision"][0].rope
    assert rope.axes == Ladders(widths=(44, 44), names=("w", "h"))
    assert (rope.head_dim, rope.pairing, rope.rope_theta) == (88, "interleaved", 1e4)
    np.testing.assert_allclose(rope.pairs().inv_freq, np.tile(1e4 ** (-2 * np.arange(22) / 44), 2), rtol=1e-14)


def test_vision_and_text_of_llama_4_are_those_of_its_hugging_face_twin():
    text = {"model_type": "llama4_text", "head_dim": 128, "num_hidden_layers": 48, "rope_theta": 500000.0}
    block = {"rope_type": "llama3", "factor": 16, "low_freq_factor": 1, "high_freq_factor": 1}
    text["rope_scaling"] = {**block, "original_max_position_embeddings": 8192}
    vision = {"model_type": "llama4_vision_model", "hidden_size": 1408, "num_attention_heads": 16}
    twin = read({"model_type": "llama4", "text_config": text, "vision_config": {**vision, "num_hidden_layers": 34}})
    model = read(SCOUT)
    assert model.parts["vision"] == twin.parts["vision"]
    rope = twin.layers[0].rope
    assert model.layers[0].rope == rope.replace(max_position_embeddings=None)


def test_a_stated_length_is_read_and_none_is_made_up():
    assert read(LLAMA31).rope.max_position_embeddings is None
    assert read({**LLAMA31, "max_seq_len": 4096}).rope.max_position_embeddings == 4096


def test_bad_values_become_findings():
    for bad in ({"rope_theta": "x"}, {"use_scaled_rope": "perhaps"}, {"n_heads": 0}, {"dim": None}):
        model = read({**LLAMA31, **bad})
        assert model.ropes == ()
        assert any(finding.severity == "error" for finding in model.findings), bad


def test_a_factor_without_its_switch_is_said():
    plain = {name: value for name, value in LLAMA31.items() if name != "use_scaled_rope"}
    model = read({**plain, "rope_scaling_factor": 32})
    assert model.rope.scaling == Default()
    assert [one.code for one in model.findings] == ["RW124"]
    assert not read({**plain, "use_scaled_rope": False, "rope_scaling_factor": 32}).findings
