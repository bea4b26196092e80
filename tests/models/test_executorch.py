"""ExecuTorch's params: two implementations of RoPE, and which keys each reads."""

import math

import numpy as np

from ropewalk import read
from ropewalk.scaling import Default, Llama3

SMALL = {"dim": 2048, "n_layers": 6, "n_heads": 16, "hidden_dim": 4096, "rope_theta": 10000.0}
HALF = {**SMALL, "use_hf_rope": True}
PAIRS = {**SMALL, "use_hf_rope": False, "use_scaled_rope": False}


def names(model):
    return [finding.name for finding in model.findings]


def test_use_hf_rope_decides_the_pairing():
    assert read(HALF).rope.pairing == "half"
    assert read(PAIRS).rope.pairing == "interleaved"
    assert read(HALF).sources["text.pairing"] == "use_hf_rope"


def test_partial_turning_is_read_by_one_implementation_only():
    assert read({**HALF, "partial_rotary_factor": 0.25}).rope.rotary_dim == 32
    model = read({**PAIRS, "partial_rotary_factor": 0.25})
    assert model.rope.rotary_dim == 128
    assert names(model) == ["key-unused"]


def test_use_scaled_rope_is_read_by_the_other_only():
    model = read({**PAIRS, "use_scaled_rope": True, "rope_scale_factor": 8})
    right = Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
    assert model.rope.scaling == right
    assert model.findings == ()
    model = read({**HALF, "use_scaled_rope": True})
    assert model.rope.scaling == Default()
    assert names(model) == ["key-unused"]


def test_a_factor_that_the_command_line_decides_is_named():
    model = read({**PAIRS, "use_scaled_rope": True})
    assert model.rope.scaling.factor == 8
    assert names(model) == ["scaling-implied"]


def test_rope_theta_wins_over_rope_freq_base():
    assert read({**HALF, "rope_freq_base": 7.0}).rope.rope_theta == 1e4
    data = {key: value for key, value in HALF.items() if key != "rope_theta"}
    assert read({**data, "rope_freq_base": 7.0}).rope.rope_theta == 7
    assert names(read(data)) == ["theta-default"]


def test_one_list_of_divisors_stands_for_both():
    lists = {"rope_scaling_long_factor": [2.0] * 64, "original_max_position_embeddings": 4096}
    model = read({**HALF, **lists, "max_position_embeddings": 16384})
    pairs = model.rope.pairs(10)
    np.testing.assert_allclose(pairs.inv_freq, 1e4 ** (-2 * np.arange(64) / 128) / 2, rtol=1e-14)
    assert math.isclose(pairs.cos_sin_factor, math.sqrt(1 + math.log(4) / math.log(4096)), rel_tol=1e-14)


def test_lists_of_the_wrong_length_are_an_error():
    lists = {"rope_scaling_short_factor": [1.0] * 3, "rope_scaling_long_factor": [1.0] * 64}
    model = read({**HALF, **lists, "original_max_position_embeddings": 4096})
    assert "list-length" in names(model)


def test_hybrid_layers_have_no_rope():
    kinds = ["conv", "full_attention", "linear_attention", "skip_attention", "full_attention", "conv"]
    model = read({**HALF, "layer_types": kinds})
    assert [bool(layer.ropes) for layer in model.layers] == [False, True, False, False, True, False]


def test_a_local_base_belongs_to_sliding_layers():
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    model = read({**HALF, "rope_theta": 1e6, "local_rope_theta": 1e4, "layer_types": kinds})
    assert [layer.rope.rope_theta for layer in model.layers] == [1e4] * 5 + [1e6]
