"""Broken configurations: whatever is done to a real shape, read() gives a Model or a RopewalkError, and quickly."""

import copy
import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ropewalk import Model, RopewalkError, inspect
from ropewalk.models.json_file import parse_json, repeats
from ropewalk.models.targets import preset, preset_names

from ._timing import LIMIT_S, timed_read

NASTY = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 3, 7, -(10**9), 10**18, 10**400, -(10**400), 2**53, 65_536, 65_537, 100_000_000]),
    st.sampled_from([0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, math.inf, -math.inf, math.nan]),
    st.sampled_from(
        ["", "x", "3", "1e3", "nan", "inf", "yarn", "su", "llama3", "longrope", "dynamic", "é" * 50, "9" * 5000]
    ),
    st.lists(st.one_of(st.integers(-3, 70_000), st.text(max_size=3), st.none(), st.floats()), max_size=40),
    st.dictionaries(
        st.sampled_from(["rope_type", "type", "factor", "full_attention", "main", "x"]), st.integers(), max_size=3
    ),
    st.just({"full_attention": None, "sliding_attention": {"rope_type": "yarn"}}),
    st.just({"full_attention": {"rope_type": ["yarn"]}, "sliding_attention": 3}),
    st.just([[[[]]]]),
)
KEYS = [
    "model_type",
    "hidden_size",
    "num_attention_heads",
    "num_hidden_layers",
    "head_dim",
    "max_position_embeddings",
    "original_max_position_embeddings",
    "rope_theta",
    "rope_local_base_freq",
    "partial_rotary_factor",
    "rotary_dim",
    "rope_parameters",
    "rope_scaling",
    "layer_types",
    "no_rope_layers",
    "no_rope_layer_interval",
    "sliding_window_pattern",
    "qk_rope_head_dim",
    "index_head_dim",
    "indexer_types",
    "rope_interleave",
    "compress_ratios",
    "layer_rope_theta",
    "text_config",
    "vision_config",
    "auto_map",
    "alibi",
    "attn_config",
    "rope_ratio",
    "kv_channels",
    "position_encoding_2d",
    "attn_temperature_tuning",
    "floor_scale",
    "attn_scale",
]
INNER = [
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "truncate",
    "attention_factor",
    "attn_factor",
    "mscale",
    "mscale_all_dim",
    "short_factor",
    "long_factor",
    "low_freq_factor",
    "high_freq_factor",
    "alpha",
    "mrope_section",
    "mrope_interleaved",
    "partial_rotary_factor",
    "short_mscale",
    "llama_4_scaling_beta",
    "full_attention",
    "main",
]
MODEL_TYPES = [
    "llama",
    "gemma3_text",
    "deepseek_v3",
    "deepseek_v4",
    "qwen2_vl",
    "chatglm",
    "llama4_text",
    "smollm3",
    "glm_moe_dsa",
]
MODEL_TYPES += ["gemma4_text", "muse_spark_text", "falcon", "mpt", "whisper", "zamba2", "lfm2", "neomme", "unheard-of"]


def _places(config, path=()):
    """Every object inside a configuration, the root first."""
    yield path
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _places(value, (*path, key))


@st.composite
def mutated(draw):
    config = copy.deepcopy(dict(preset(draw(st.sampled_from(preset_names())))["config"]))
    for _ in range(draw(st.integers(1, 6))):
        places = list(_places(config))
        target = config
        for key in draw(st.sampled_from(places)):
            target = target[key]
        action = draw(st.sampled_from(["drop", "replace", "add", "add-inner", "retype", "junk-key"]))
        if action == "drop" and target:
            del target[draw(st.sampled_from(sorted(target, key=str)))]
        elif action == "replace" and target:
            target[draw(st.sampled_from(sorted(target, key=str)))] = copy.deepcopy(draw(NASTY))
        elif action == "add":
            target[draw(st.sampled_from(KEYS))] = copy.deepcopy(draw(NASTY))
        elif action == "add-inner":
            block = target.setdefault("rope_parameters", {})
            if isinstance(block, dict):
                block[draw(st.sampled_from(INNER))] = copy.deepcopy(draw(NASTY))
        elif action == "retype":
            target["model_type"] = draw(st.sampled_from(MODEL_TYPES))
        else:
            target[draw(st.sampled_from([1, None, (1, 2), "", "\x00", "a_config"]))] = copy.deepcopy(draw(NASTY))
    return config


@given(config=mutated())
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
def test_mutated_configs_give_a_model_or_one_clear_error_in_time(config):
    result, seconds = timed_read(config)
    assert seconds < LIMIT_S, f"{seconds:.3f} s"
    if isinstance(result, RopewalkError):
        assert 0 < len(str(result)) < 2000
        return
    assert isinstance(result, Model)
    assert Model.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False))) == result
    for finding in result.findings:
        assert len(finding.message) < 3000
    for rope in result.ropes[:2]:
        rope.pairs(7)
    inspect(result)


@pytest.mark.parametrize("depth", [500, 5000, 100_000])
def test_deep_nesting_is_no_recursion_error(depth):
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1}
    for _ in range(depth):
        config = {"model_type": "x", "text_config": config}
    result, seconds = timed_read(config)
    assert isinstance(result, RopewalkError) or any(finding.severity == "error" for finding in result.findings)
    assert seconds < LIMIT_S


def test_a_dict_that_contains_itself_is_no_endless_loop():
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "rope_theta": 1e4,
    }
    config["text_config"] = config
    config["rope_parameters"] = {"rope_type": config}
    result, seconds = timed_read(config)
    assert isinstance(result, Model | RopewalkError)
    assert seconds < LIMIT_S


def test_repeated_keys_are_looked_for_once_in_an_object_that_stands_in_many_places():
    shared = parse_json(b'{"a": 1, "a": 2}', "these bytes")
    wide = {"x": shared, "y": [shared, shared]}
    for _ in range(200):
        wide = {"l": wide, "r": wide}  # 2**200 paths, 200 objects
    assert list(repeats(wide)) == []  # too deep to be a configuration
    near = {"model_type": "llama", "one": shared, "two": [shared, {"three": shared}]}
    near["self"] = near
    assert [(path.rpartition(".")[2], values) for path, values in repeats(near)] == [("a", (1, 2))]
