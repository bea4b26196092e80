"""Mistral's params.json: YaRN under other names, the query temperature, windows and encoders."""

import math

import numpy as np
import pytest

from ropewalk import read
from ropewalk.axes import Strided
from ropewalk.models.model import QueryScale

BASE = {"dim": 4096, "n_layers": 4, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8}
SMALL = {**BASE, "rope_theta": 1000000.0}
YARN = {"factor": 18, "beta": 32, "alpha": 1, "original_max_position_embeddings": 8192}
MLA = {**SMALL, "qk_nope_head_dim": 96, "qk_rope_head_dim": 64, "kv_lora_rank": 512}


def names(model):
    return [finding.name for finding in model.findings]


def test_neighbours_turn_with_the_base_of_the_file():
    model = read(SMALL)
    assert (model.rope.pairing, model.rope.rope_theta, model.rope.head_dim) == ("interleaved", 1e6, 128)
    assert model.findings == ()


def test_head_dim_wins_over_the_quotient():
    assert read({**SMALL, "dim": 5120}).rope.head_dim == 128


def test_a_missing_base_is_that_of_the_code_and_named():
    model = read(BASE)
    assert model.rope.rope_theta == 1e6
    assert names(model) == ["theta-default"]


def test_a_missing_base_beside_a_window_is_that_of_mistral_7b_v01():
    model = read({**BASE, "sliding_window": 4096})
    assert model.rope.rope_theta == 1e4
    assert names(model) == ["theta-default"]
    assert "sliding window" in model.sources["text.rope_theta"]


def test_hidden_dim_is_never_taken_for_the_width():
    assert read({**SMALL, "head_dim": None, "dim": None}).ropes == ()


def test_yarn_is_scaled_by_default():
    rope = read({**SMALL, "yarn": {**YARN, "apply_scale": True}}).rope
    assert (rope.scaling.beta_fast, rope.scaling.beta_slow, rope.scaling.truncate) == (32, 1, True)
    assert math.isclose(rope.pairs().cos_sin_factor, 1.289037176, rel_tol=1e-9)
    assert rope.pairs().softmax_factor == 1


def test_apply_scale_false_takes_the_magnitude_away():
    model = read({**SMALL, "yarn": {**YARN, "apply_scale": False}})
    assert model.rope.pairs().cos_sin_factor == 1
    assert model.sources["text.attention_factor"] == "yarn.apply_scale"


def test_apply_scale_absent_is_vllms_default_and_said():
    model = read({**SMALL, "yarn": YARN})
    assert math.isclose(model.rope.pairs().cos_sin_factor, 1.289037176, rel_tol=1e-9)
    assert names(model) == ["class-default"]


@pytest.mark.parametrize(("applied", "scale"), [(False, 0.1020620726), (True, 0.1695880586)])
def test_an_mla_model_has_the_magnitude_on_the_softmax_scale_alone(applied, scale):
    model = read({**MLA, "yarn": {**YARN, "apply_scale": applied}})
    pairs = model.rope.pairs()
    assert model.rope.head_dim == 64
    assert pairs.cos_sin_factor == 1
    assert math.isclose(pairs.softmax_factor / math.sqrt(96), scale, rel_tol=1e-9)


def test_yarn_frequencies_are_those_of_the_paper():
    inv_freq = read({**SMALL, "yarn": {**YARN, "apply_scale": False}}).rope.pairs().inv_freq
    plain = 1e6 ** (-2 * np.arange(64) / 128)
    low, high = (128 * math.log(8192 / (2 * math.pi * turns)) / (2 * math.log(1e6)) for turns in (32, 1))
    ramp = np.clip((np.arange(64) - math.floor(low)) / (math.ceil(high) - math.floor(low)), 0, 1)
    np.testing.assert_allclose(inv_freq, plain / 18 * ramp + plain * (1 - ramp), rtol=1e-14)


def test_yarn_without_a_number_is_an_error():
    model = read({**SMALL, "yarn": {**YARN, "original_max_position_embeddings": None}})
    assert model.ropes == ()
    assert "key-missing" in names(model)


def test_an_unknown_key_of_yarn_is_said_to_be_unread():
    model = read({**SMALL, "yarn": {**YARN, "apply_scale": True, "gamma": 2}})
    (finding,) = model.findings
    assert (finding.name, finding.where) == ("key-unused", "text: yarn.gamma")


def test_llama_4_scaling_is_a_temperature_on_all_layers():
    block = {"original_max_position_embeddings": 16384, "beta": 0.1}
    model = read({**SMALL, "llama_4_scaling": block})
    scale = QueryScale(attn_scale=0.1, floor_scale=16384)
    assert [layer.query_scale for layer in model.layers] == [scale] * 4
    assert math.isclose(scale.at(32768), 1 + 0.1 * math.log(3))


def test_llama_4_scaling_without_a_number_is_an_error():
    model = read({**SMALL, "llama_4_scaling": {"beta": 0.1}})
    assert names(model) == ["key-missing"]


@pytest.mark.parametrize("key", ["sliding_window", "_sliding_window"])
def test_a_list_of_windows_repeats_over_the_layers(key):
    model = read({**SMALL, key: [None, 4096]})
    assert [layer.kind for layer in model.layers] == ["full_attention", "sliding_attention"] * 2


def test_a_list_of_windows_that_does_not_fit_is_an_error():
    assert "layers-conflict" in names(read({**SMALL, "sliding_window": [None, 4096, 4096]}))


@pytest.mark.parametrize("path", [("vision_encoder",), ("multimodal", "vision_encoder_args")])
def test_the_vision_encoder_deals_one_ladder_to_rows_and_columns(path):
    encoder = {"hidden_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 16, "rope_theta": 10000.0}
    for key in reversed(path):
        encoder = {key: encoder}
    layers = read({**SMALL, **encoder}).parts["vision"]
    plain = 1e4 ** (-2 * np.arange(32) / 64)
    pairs = layers[0].rope.pairs()
    assert len(layers) == 3
    assert layers[0].rope.axes == Strided()
    assert pairs.first.tolist() == list(range(0, 64, 2))
    np.testing.assert_allclose(pairs.inv_freq, np.concatenate([plain[::2], plain[1::2]]), rtol=1e-14)


def test_an_audio_encoder_is_whispers():
    encoder = {"encoder_args": {"dim": 1280, "n_layers": 5, "n_heads": 20}}
    model = read({**SMALL, "multimodal": {"whisper_model_args": encoder}})
    assert len(model.parts["audio"]) == 5
    assert model.positions["audio"] == "sinusoidal"
    encoder["encoder_args"]["rope_theta"] = 1e6
    assert read({**SMALL, "multimodal": {"whisper_model_args": encoder}}).positions["audio"] == "unknown"


def test_experts_change_nothing_and_a_length_is_read():
    model = read({**SMALL, "moe": {"num_experts": 8, "num_experts_per_tok": 2}, "max_seq_len": 65536})
    assert model.rope.max_position_embeddings == 65536


def test_the_word_transformer_is_no_architecture():
    assert read({**SMALL, "model_type": "transformer"}).rope == read(SMALL).rope
