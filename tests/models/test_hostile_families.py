"""Broken files of the other families: a Model or a RopewalkError, and quickly, whatever is done to them."""

import copy
import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ropewalk import Model, RopewalkError, inspect

from ._timing import LIMIT_S, timed_read

META = {"dim": 64, "n_layers": 4, "n_heads": 4, "rope_theta": 5e5, "use_scaled_rope": True}
VISION = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "rope_theta": 1e4}
LISTS = {"rope_scaling_short_factor": [1.0] * 8, "rope_scaling_long_factor": [2.0] * 8}
ADJUSTED = {"factor": 4, "beta_fast": 32, "beta_slow": 1, "original_max_seq_len": 4096}
SCALING = {"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}
SEEDS = {
    "meta": [
        META,
        {**META, "nope_layer_interval": 2, "attn_temperature_tuning": True, "vision_args": {**META, "n_heads": 2}},
    ],
    "mistral": [
        {**META, "hidden_dim": 128, "head_dim": 16, "sliding_window": [None, 8], "vision_encoder": VISION}
        | {"yarn": {"factor": 4, "beta": 32, "alpha": 1, "original_max_position_embeddings": 4096, "apply_scale": True}}
        | {"llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 4096}, "use_scaled_rope": None},
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 8, "qk_rope_head_dim": 16, "model_type": "transformer"}
        | {"multimodal": {"vision_encoder_args": VISION, "whisper_model_args": {"encoder_args": {"n_layers": 2}}}},
    ],
    "torchchat": [
        {"dim": 64, "n_heads": 4, "n_layers": 2, "block_size": 8, "rope_base": 1e4, "rope_scaling": SCALING},
        {
            "model_type": "flamingo",
            "encoder": {"clip_num_layers": 2},
            "decoder": {"num_layers": 2, "num_heads": 2} | {"embed_dim": 64, "rope_base": 1e4},
        },
    ],
    "executorch": [
        {**META, "hidden_dim": 128, "use_hf_rope": False, "no_rope_layer_interval": 2},
        {**META, **LISTS, "use_hf_rope": True, "original_max_position_embeddings": 64, "partial_rotary_factor": 1.0}
        | {"local_rope_theta": 10.0, "layer_types": ["sliding_attention", "full_attention", "conv", "x"]},
    ],
    "fms": [
        {"architecture": "llama", "emb_dim": 64, "nheads": 4, "nlayers": 2, "rope_scaling": {"rope_type": "ntk"}},
        {"architecture": "mistral3", "text_config": {"emb_dim": 64, "nheads": 4, "nlayers": 2, "rope_base": 1e6}}
        | {"vision_config": {"hidden_size": 64, "nheads": 4, "nlayers": 2}},
        {"architecture": "ministral3", "emb_dim": 64, "nheads": 4, "nlayers": 2, "head_dim": 16}
        | {"rope_parameters": {"rope_theta": 1e4, "factor": 4, "original_max_position_embeddings": 4096}},
    ],
    "mesh": [{"pe": "rotary", "layers": 2, "d_model": 64, "n_heads": 4, "pe_rotary_dims": 8, "seq": 8}],
    "gpt-oss": [
        {"initial_context_length": 4096, "rope_ntk_alpha": 1, "rope_ntk_beta": 32, "head_dim": 16}
        | {"num_hidden_layers": 2, "rope_theta": 1e4, "rope_scaling_factor": 32.0},
    ],
    "deepseek": [{"dim": 64, "n_layers": 2, "inter_dim": 8, "qk_rope_head_dim": 16, "index_head_dim": 32}],
    "litgpt": [
        {"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 1e4, "rope_adjustments": ADJUSTED},
        {"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 1e4, "rope_condense_ratio": 2}
        | {"rope_local_base_freq": 100, "rope_indices": [0, 1], "latent_attention": {"qk_rope_head_dim": 8}},
    ],
    "diffusers": [
        {"_class_name": "FluxTransformer2DModel", "attention_head_dim": 16, "axes_dims_rope": [4, 6, 6]},
        {"_class_name": "ZImageTransformer2DModel", "dim": 64, "n_heads": 4, "axes_dims": [8, 8], "rope_theta": 4},
        {"_class_name": "CosmosTransformer3DModel", "attention_head_dim": 24, "rope_scale": [2, 2, 2]},
        {"attention_head_dim": 16, "in_channels": 1, "out_channels": 1, "use_rotary_positional_embeddings": True},
        {"_class_name": "WanModel", "dim": 64, "num_heads": 4, "num_layers": 2, "model_type": "i2v"},
        {"_class_name": "AllegroTransformer3DModel", "attention_head_dim": 12, "num_layers": 2},
        {"_class_name": "Cosmos3OmniTransformer", "head_dim": 16, "rope_scaling": {"mrope_section": [4, 2, 2]}},
        {"_class_name": "Ideogram4Transformer2DModel", "attention_head_dim": 16, "mrope_section": [4, 2, 2]},
        {"_class_name": "MiniMaxH3Transformer3DModel", "attention_head_dim": 16, "rope_freq_dim": 2},
        {"_class_name": "MiniMaxMusic3Transformer1DModel", "attention_head_dim": 16, "rotary_dim": 8},
        {"_class_name": "SanaWMTransformer3DModel", "linear_head_dim": 12, "use_pe": True},
        {"_class_name": "LuminaNextDiT2DModel", "hidden_size": 64, "num_attention_heads": 4, "num_layers": 2},
        {"_class_name": "OmniGenTransformer2DModel", "hidden_size": 16, "num_attention_heads": 4, "num_layers": 2}
        | {"rope_scaling": {"short_factor": [1.0] * 2, "long_factor": [2.0] * 2}, "rope_base": 100}
        | {"original_max_position_embeddings": 8, "max_position_embeddings": 16},
    ],
}
NASTY = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 3, 7, 10**18, 10**400, -(10**400), 2**53, 65_536, 65_537, 100_000_000]),
    st.sampled_from([0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, math.inf, -math.inf, math.nan]),
    st.sampled_from(["", "x", "3", "nan", "yarn", "ntk", "llama3", "FluxTransformer2DModel", "é" * 50, "9" * 5000]),
    st.lists(st.one_of(st.integers(-3, 70_000), st.text(max_size=3), st.none(), st.floats()), max_size=40),
    st.dictionaries(st.sampled_from(["rope_type", "factor", "beta", "n_layers"]), st.integers(), max_size=3),
    st.just([1] * 20_000),
    st.just({"a": {"b": {"c": [[[]]]}}}),
)


def places(config, path=()):
    yield path
    for key, value in config.items():
        if isinstance(value, dict):
            yield from places(value, (*path, key))


@st.composite
def mutated(draw, seeds):
    config = copy.deepcopy(draw(st.sampled_from(seeds)))
    keys = sorted({key for seed in seeds for key in seed})
    for _ in range(draw(st.integers(1, 5))):
        target = config
        for key in draw(st.sampled_from(list(places(config)))):
            target = target[key]
        action = draw(st.sampled_from(["drop", "replace", "replace", "add", "junk-key"]))
        if action == "drop" and target:
            del target[draw(st.sampled_from(sorted(target, key=str)))]
        elif action == "replace" and target:
            target[draw(st.sampled_from(sorted(target, key=str)))] = copy.deepcopy(draw(NASTY))
        elif action == "add":
            target[draw(st.sampled_from(keys))] = copy.deepcopy(draw(NASTY))
        else:
            target[draw(st.sampled_from([1, None, (1, 2), "", "\x00"]))] = copy.deepcopy(draw(NASTY))
    return config


@pytest.mark.parametrize("family", SEEDS)
def test_mutated_files_give_a_model_or_one_clear_error_in_time(family):
    @given(config=mutated(SEEDS[family]))
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    def run(config):
        result, seconds = timed_read(config)
        assert seconds < LIMIT_S, f"{seconds:.3f} s"
        if isinstance(result, RopewalkError):
            assert 0 < len(str(result)) < 2000
            return
        assert isinstance(result, Model)
        assert Model.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False))) == result
        assert all(len(finding.message) < 3000 for finding in result.findings)
        for rope in result.ropes[:2]:
            rope.pairs(7)
        inspect(result)

    run()


@pytest.mark.parametrize("family", SEEDS)
def test_a_file_that_contains_itself_is_no_endless_loop(family):
    config = copy.deepcopy(SEEDS[family][0])
    for key in list(config):
        config[key] = config
        result, seconds = timed_read(config)
        assert isinstance(result, Model | RopewalkError)
        assert seconds < LIMIT_S
        config = copy.deepcopy(SEEDS[family][0])
