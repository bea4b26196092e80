"""LitGPT's configurations: widths, adjustments, condensed positions and two bases."""

import math

import numpy as np
import pytest

from ropewalk import read
from ropewalk.scaling import Default, Linear, Llama3

BASE = {"n_layer": 6, "n_embd": 512, "n_head": 8, "block_size": 4096, "rope_base": 10000, "rotary_percentage": 1.0}


def names(model):
    return [finding.name for finding in model.findings]


def test_a_quarter_of_the_head_turns_unless_the_file_says_otherwise():
    data = {key: value for key, value in BASE.items() if key != "rotary_percentage"}
    model = read(data)
    assert (model.rope.head_dim, model.rope.rotary_dim, model.rope.pairing) == (64, 16, "half")
    assert names(model) == ["class-default"]
    assert read(BASE).rope.rotary_dim == 64
    assert read(BASE).findings == ()


def test_head_size_wins_over_the_quotient():
    assert read({**BASE, "head_size": 256}).rope.head_dim == 256


def test_rope_interleave_turns_neighbours():
    assert read({**BASE, "rope_interleave": True}).rope.pairing == "interleaved"


def test_condensed_positions_are_linear_scaling():
    rope = read({**BASE, "rope_condense_ratio": 8}).rope
    assert rope.scaling == Linear(factor=8)
    assert read({**BASE, "rope_condense_ratio": 1}).rope.scaling == Default()


def test_adjustments_with_frequency_factors_are_llama3():
    block = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_seq_len": 8192}
    right = Llama3(factor=32, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
    assert read({**BASE, "rope_adjustments": block}).rope.scaling == right
    assert read({**BASE, "rope_adjustments": {"factor": 8.0}}).rope.scaling == Linear(factor=8)


@pytest.mark.parametrize(
    ("mscales", "magnitude"),
    [
        ({}, 1.0),
        ({"mscale": 0.8}, 1 + 0.08 * math.log(4)),
        ({"mscale_all_dim": 0.5}, 1 + 0.05 * math.log(4)),
        ({"mscale": 0.8, "mscale_all_dim": 0.5}, (1 + 0.08 * math.log(4)) / (1 + 0.05 * math.log(4))),
    ],
)
def test_the_magnitude_of_yarn_is_litgpts(mscales, magnitude):
    block = {"factor": 4, "beta_fast": 32, "beta_slow": 1, "original_max_seq_len": 4096, **mscales}
    model = read({**BASE, "rope_adjustments": block})
    assert math.isclose(model.rope.pairs().cos_sin_factor, magnitude, rel_tol=1e-12)
    assert "ramp-inverted" in names(model)
    assert model.rope.pairs().inv_freq[0] == 1  # described as it is meant: the fastest pair is kept


def test_yarn_needs_all_four_numbers_and_no_mixture():
    assert "key-missing" in names(read({**BASE, "rope_adjustments": {"factor": 4, "beta_fast": 32}}))
    mixed = {"factor": 4, "beta_fast": 32, "low_freq_factor": 1}
    assert "rope-type-conflict" in names(read({**BASE, "rope_adjustments": mixed}))


def test_two_bases_by_layer():
    data = {**BASE, "rope_base": 1000000, "rope_local_base_freq": 10000, "rope_indices": [1, 1, 0, 1, 1, 0]}
    model = read({**data, "rope_adjustments": {"factor": 8.0}})
    local, world = model.layers[0].rope, model.layers[2].rope
    assert [layer.kind == "full_attention" for layer in model.layers] == [False, False, True] * 2
    assert (local.rope_theta, local.scaling) == (1e4, Default())
    assert (world.rope_theta, world.scaling) == (1e6, Linear(factor=8))


def test_without_indices_every_layer_takes_the_local_base():
    model = read({**BASE, "rope_local_base_freq": 500})
    assert model.rope.rope_theta == 500


def test_condensed_positions_reach_the_local_base():
    model = read({**BASE, "rope_local_base_freq": 500, "rope_condense_ratio": 2})
    assert model.rope.scaling == Linear(factor=2)


def test_latent_attention_turns_its_rope_part():
    latent = {"qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64, "kv_lora_rank": 8, "q_lora_rank": 8}
    assert read({**BASE, "latent_attention": latent}).rope.head_dim == 32


def test_frequencies_of_pythia():
    pythia = {"n_layer": 2, "n_embd": 2048, "n_head": 16, "block_size": 2048, "rotary_percentage": 0.25}
    rope = read({**pythia, "rope_base": 10000}).rope
    np.testing.assert_allclose(rope.pairs().inv_freq, 1e4 ** (-2 * np.arange(16) / 32), rtol=1e-14)
