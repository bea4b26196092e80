"""foundation-model-stack: defaults by architecture, pairing by scaling."""

import math

import numpy as np
import pytest

from ropewalk import read

SMALL = {"architecture": "llama", "emb_dim": 2048, "nheads": 32, "nlayers": 2, "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "scaling_factor": 32.0, "ntk_alpha": 1.0, "ntk_beta": 32.0}


def names(model):
    return [finding.name for finding in model.findings]


def test_neighbours_turn_over_the_whole_head():
    rope = read({**SMALL, "max_expected_seq_len": 2048}).rope
    assert (rope.pairing, rope.head_dim, rope.max_position_embeddings) == ("interleaved", 64, 2048)


@pytest.mark.parametrize(
    ("name", "theta", "head"),
    [("llama", 1e4, 64), ("granite", 1e4, 128), ("mistral", 1e6, 128), ("mixtral", 1e6, 64), ("qwen3", 1e6, 128)],
)
def test_a_missing_base_is_that_of_the_architecture_and_named(name, theta, head):
    model = read({"architecture": name, "emb_dim": 2048, "nheads": 32, "nlayers": 2})
    assert (model.rope.rope_theta, model.rope.head_dim) == (theta, head)
    assert "theta-default" in names(model)


def test_mixtral_spells_its_width_dim():
    data = {"architecture": "mixtral", "dim": 4096, "nheads": 32, "nlayers": 2, "rope_base": 1000000.0}
    assert read(data).rope.head_dim == 128


def test_bamba_turns_half_of_the_head():
    assert read({**SMALL, "architecture": "bamba"}).rope.rotary_dim == 32


def test_llama3_scaling_reads_like_hugging_faces():
    block = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope = read({**SMALL, "rope_scaling": {**block, "original_max_position_embeddings": 8192}}).rope
    assert (rope.scaling.rope_type, rope.scaling.factor) == ("llama3", 8)
    assert "key-missing" in names(read({**SMALL, "rope_scaling": block}))


def test_yarn_turns_halves_with_unrounded_bounds():
    model = read({**SMALL, "rope_scaling": YARN, "max_expected_seq_len": 4096, "rope_theta": 150000.0})
    plain = 150000.0 ** (-2 * np.arange(32) / 64)
    low, high = (64 * math.log(4096 / (2 * math.pi * turns)) / (2 * math.log(150000)) for turns in (32, 1))
    ramp = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    pairs = model.rope.pairs()
    assert model.rope.pairing == "half"
    np.testing.assert_allclose(pairs.inv_freq, plain / 32 * ramp + plain * (1 - ramp), rtol=1e-13)
    assert math.isclose(pairs.cos_sin_factor, 0.1 * math.log(32) + 1, rel_tol=1e-14)


@pytest.mark.parametrize("keys", [{"ntk_scaling": True}, {"rope_scaling": {"rope_type": "ntk"}}])
def test_ntk_in_steps_is_refused(keys):
    model = read({**SMALL, **keys})
    assert model.ropes == ()
    assert "form-outside-scope" in names(model)


def test_ministral_has_yarn_a_temperature_and_no_magnitude():
    text = {"emb_dim": 4096, "nheads": 32, "nlayers": 2, "head_dim": 128, "max_expected_seq_len": 262144}
    text["rope_parameters"] = {"rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16384}
    text["rope_parameters"] |= {"beta_fast": 32.0, "beta_slow": 1.0, "llama_4_scaling_beta": 0.1}
    model = read({"architecture": "ministral3", "text_config": text})
    assert model.rope.rope_theta == 1e6
    assert model.rope.pairs().cos_sin_factor == 1
    assert math.isclose(model.layers[0].query_scale.at(16384), 1 + 0.1 * math.log(2), rel_tol=1e-14)


@pytest.mark.parametrize("name", ["roberta", "mpnet", "gpt_bigcode"])
def test_architectures_without_rope(name):
    model = read({"architecture": name, "emb_dim": 768, "nheads": 12, "nlayers": 3})
    assert (len(model.layers), model.ropes) == (3, ())
    assert model.positions["text"].startswith("learned absolute")


def test_granite_vision_has_rope_in_the_text_only():
    text = {"emb_dim": 2048, "nheads": 32, "nlayers": 2, "head_dim": 64, "rope_theta": 300000}
    vision = {"hidden_size": 1152, "nheads": 16, "nlayers": 27}
    model = read({"architecture": "llava_next", "text_config": text, "vision_config": vision})
    assert model.rope.rope_theta == 300000
    assert model.positions == {"vision": "learned absolute"}


def test_an_unknown_architecture_is_said():
    assert "architecture-unknown" in names(read({**SMALL, "architecture": "never_heard_of"}))
