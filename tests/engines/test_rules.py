"""What each engine's rule comes to, beside what the engine's own code gave (measured.json says by which road)."""

import copy
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from ropewalk.engines import ENGINES, read_engines

MEASURED = json.loads((Path(__file__).parent / "measured.json").read_text(encoding="utf-8"))
CASES = [(case, engine) for case in MEASURED["cases"] for engine in case["engines"]]


def readings(target, **options):
    """The readings of the first group, by engine."""
    return {one.engine: one for one in read_engines(target, **options).groups[0].readings}


def yarn(model_type="llama", *, longest=73728, **block):
    """F206: D = 80, theta 250000, factor 12, L0 6144."""
    return {
        "model_type": model_type,
        "head_dim": 80,
        "num_hidden_layers": 2,
        "max_position_embeddings": longest,
        "rope_theta": 250000,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 12,
            "original_max_position_embeddings": 6144,
            "beta_fast": 32,
            "beta_slow": 1,
            **block,
        },
    }


def factors(target):
    """What multiplies cos and sin, by engine."""
    return {name: round(one.pairs.cos_sin_factor, 9) for name, one in readings(target).items() if one.pairs is not None}


@pytest.mark.parametrize(("case", "engine"), CASES, ids=[f"{case['name']}, {engine}" for case, engine in CASES])
def test_a_rule_comes_to_what_the_engine_computes(case, engine):
    seen, measured = readings(case["config"])[engine], case["engines"][engine]
    if "refused" in measured:
        assert seen.refused is not None
        return
    assert seen.refused is None
    pairs = seen.rope.pairs() if seen.rope is not None else seen.pairs  # the engines were asked for a short sequence
    assert len(pairs) == measured["pairs"]
    for number, inv_freq in measured["inv_freq"].items():
        # float32 angles and seven digits on the file: 3e-6 relative, and 2e-7 where arctan2 of float32 ends
        assert pairs.inv_freq[int(number)] == pytest.approx(inv_freq, rel=3e-6, abs=2e-7)
    assert pairs.cos_sin_factor == pytest.approx(measured["cos_sin_factor"], rel=2e-6)


def test_what_was_measured_is_of_the_versions_that_the_rules_name():
    versions = {engine.name: engine.version for engine in ENGINES}
    assert {name: versions[name] for name in MEASURED["versions"]} == MEASURED["versions"]
    run = {engine.name for engine in ENGINES if engine.verified == "run"}
    assert run == {*MEASURED["versions"], "transformers"}


@pytest.mark.parametrize("case", MEASURED["cases"], ids=lambda case: case["name"])
def test_the_rule_of_transformers_comes_to_what_transformers_computes(case):
    pytest.importorskip("torch")
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig

    if case["config"]["model_type"] != "llama":
        pytest.skip("other classes are compared by the census")
    config = {name: value for name, value in case["config"].items() if name != "model_type"}
    config["hidden_size"] = config["head_dim"] * config["num_attention_heads"]
    seen = readings(case["config"])["transformers"]
    made = LlamaConfig(**config)
    kind = made.rope_parameters["rope_type"]
    if kind == "default":
        assert seen.refused is None and seen.pairs.cos_sin_factor == 1.0
        return
    if kind not in rope_utils.ROPE_INIT_FUNCTIONS:
        assert seen.refused is not None
        return
    if "factor" not in made.rope_parameters and kind == "dynamic":
        return
    inv_freq, factor = rope_utils.ROPE_INIT_FUNCTIONS[kind](made, "cpu")
    np.testing.assert_allclose(seen.rope.pairs().inv_freq, inv_freq.double().numpy(), rtol=3e-6)
    assert seen.rope.pairs().cos_sin_factor == pytest.approx(factor, rel=1e-6)


def test_transformers_overlooks_truncate_in_a_nested_block():
    # F123, F206: pair 22 raw 1.035309897e-4, rounded 1.715925148e-4
    block = {**yarn(truncate=False)["rope_scaling"], "rope_theta": 250000}
    config = {name: value for name, value in yarn("gemma3_text").items() if name not in ("rope_scaling", "rope_theta")}
    nested = {"full_attention": block, "sliding_attention": {"rope_type": "default", "rope_theta": 20000}}
    target = {**config, "layer_types": ["full_attention", "sliding_attention"], "rope_parameters": nested}
    seen = readings(target)
    assert seen["transformers"].pairs.inv_freq[22] == pytest.approx(1.715925148e-4, rel=1e-9)
    assert seen["vLLM"].pairs.inv_freq[22] == pytest.approx(1.035309897e-4, rel=1e-9)
    assert seen["vLLM"].differs
    assert any("ignores truncate" in note for note in seen["transformers"].notes)


NESTING = ("gemma3_text", "gemma3n_text", "t5gemma2_text", "olmo3", "modernbert", "modernbert-decoder")


@pytest.mark.parametrize("model_type", [*NESTING, "llama", "gpt_oss"])
def test_transformers_overlooks_truncate_where_its_class_nests_a_flat_block(model_type):
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.24", exc_type=ImportError)
    config = {**yarn(model_type, truncate=False), "hidden_size": 160, "num_attention_heads": 2, "num_hidden_layers": 6}
    config["global_rope_theta"] = config["rope_theta"]  # ModernBERT's word
    made = transformers.AutoConfig.for_model(**copy.deepcopy(config))
    code = importlib.import_module(type(made).__module__.replace("configuration_", "modeling_"))
    name = next(name for name in vars(code) if name.endswith("RotaryEmbedding") and "Vision" not in name)
    module = getattr(code, name)(config=made)
    label = "full_attention_" if model_type in NESTING else ""
    found = getattr(module, f"{label}inv_freq").double().numpy()
    groups = [group.readings[0] for group in read_engines(config).groups]
    seen = next(one for one in groups if one.rope.scaling.rope_type == "yarn")
    assert seen.engine == "transformers"
    np.testing.assert_allclose(seen.pairs.inv_freq, found, rtol=3e-6)
    # F206: pair 22 raw or rounded
    assert found[22] == pytest.approx(1.715925148e-4 if label else 1.035309897e-4, rel=3e-6)
    assert ("ignores truncate once its class nests the block and rounds" in seen.notes) == bool(label)


def test_engines_that_always_round_differ_from_those_that_need_not():
    # F206
    seen = readings(yarn(truncate=False))
    expected = {"transformers": 1.035309897e-4, "vLLM": 1.035309897e-4, "SGLang": 1.035309897e-4}
    expected |= {"llama.cpp": 1.715925148e-4, "mlx-lm": 1.715925148e-4, "onnxruntime-genai": 1.035309897e-4}
    assert {name: one.pairs.inv_freq[22] for name, one in seen.items()} == pytest.approx(expected, rel=1e-9)
    assert {name for name, one in seen.items() if one.differs} == {"llama.cpp", "mlx-lm"}


def test_attn_factor_is_ignored_or_multiplied():
    # F135: factor 6, attn_factor 0.848…: 1.179175947 or 1.0
    seen = factors(yarn(factor=6, longest=36864, attn_factor=0.8480498627958061))
    assert seen == {name: 1.0 if name == "SGLang" else 1.179175947 for name in seen}
    assert len(seen) == 6


def test_an_equal_mscale_pair_is_a_ratio_or_nothing():
    # F216: 1.0 or 1.248490665
    seen = factors(yarn(mscale=1.0, mscale_all_dim=1.0))
    assert seen == {name: 1.248490665 if name == "llama.cpp" else 1.0 for name in seen}


def test_a_lone_mscale_is_read_in_three_ways():
    # F216: unused, the multiplier itself, or g(12, 0.8) = 0.08·ln 12 + 1
    seen = factors(yarn(mscale=0.8))
    expected = {"onnxruntime-genai": 0.8, "mlx-lm": round(0.08 * np.log(12) + 1, 9)}
    assert seen == {name: expected.get(name, 1.248490665) for name in seen}


def test_an_explicit_magnitude_is_verbatim_or_ignored():
    # F217: factor 50: 1.0, not 1.391202301
    seen = factors(yarn(factor=50, longest=307200, attention_factor=1.0))
    assert seen == {name: 1.0 if name in ("transformers", "vLLM") else 1.391202301 for name in seen}


def test_an_absent_original_length_is_the_longest_or_4096():
    # F131: transformers takes max_position_embeddings; bounds are D·ln(L0/(2π·beta))/(2·ln theta), rounded outward
    config = yarn(longest=8192)
    del config["rope_scaling"]["original_max_position_embeddings"]
    seen = readings(config)
    assert seen["transformers"].rope.scaling.bounds(250000.0, 80) == (11, 24)  # 11.93, 23.09 of 8192
    assert seen["mlx-lm"].rope.scaling.bounds(250000.0, 80) == (9, 21)  # 9.70, 20.86 of 4096
    assert seen["mlx-lm"].differs


def test_an_outer_original_length_wins_in_transformers_alone_of_the_two():
    # F131: 4096 in the block, 8192 at the top level
    config = {**yarn(original_max_position_embeddings=4096), "original_max_position_embeddings": 8192}
    seen = readings(config)
    taken = {name: seen[name].rope.scaling.original_max_position_embeddings for name in ("transformers", "mlx-lm")}
    assert taken == {"transformers": 8192, "mlx-lm": 4096}


def test_a_factor_of_proportional_scaling_is_ignored_by_some():
    # F230: the 24 pairs that turn are divided by 4, or not
    config = {
        "model_type": "gemma4_text",
        "head_dim": 160,
        "global_head_dim": 160,
        "num_hidden_layers": 1,
        "layer_types": ["full_attention"],
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "partial_rotary_factor": 0.3,
                "factor": 4,
                "rope_theta": 2e5,
            }
        },
    }
    seen = readings(config)
    speeds = {name: one.pairs.inv_freq[1] for name, one in seen.items() if one.pairs is not None}
    divided = {"transformers", "mlx-lm"}
    assert speeds == pytest.approx({name: 0.8584937249 / (4 if name in divided else 1) for name in speeds}, rel=1e-9)
    assert set(speeds) >= {"transformers", "mlx-lm", "vLLM", "SGLang", "llama.cpp"}


def test_dynamic_scaling_is_four_different_things():
    # F218: theta 250042.6554 at 7000 tokens in transformers; SGLang's base is that of 9216 = 3·3072 tokens
    config = {
        "model_type": "llama",
        "head_dim": 96,
        "num_hidden_layers": 2,
        "max_position_embeddings": 3072,
        "rope_theta": 50000,
        "rope_scaling": {"rope_type": "dynamic", "factor": 3},
    }
    seen = readings(config, length=7000)
    bases = {name: one.pairs.inv_freq[1] ** (-96 / 2) for name, one in seen.items() if one.pairs is not None}
    expected = {"transformers": 250042.6554, "mlx-lm": 250042.6554, "vLLM": 50000, "llama.cpp": 50000}
    assert bases == pytest.approx({**expected, "SGLang": 364794.9803}, rel=1e-9)
    assert seen["onnxruntime-genai"].refused is not None
    # at the trained length vLLM agrees, and beyond it does not: the reading says for which length
    later = readings(config)["vLLM"]
    assert later.differs and later.length == 3073


def test_deepseek_puts_a_magnitude_on_the_softmax_scale_too():
    # F213: cos/sin 1.130273402, softmax 1.322009257
    config = {
        "model_type": "deepseek_v3",
        "qk_rope_head_dim": 64,
        "num_hidden_layers": 1,
        "max_position_embeddings": 122880,
        "rope_theta": 10000,
        "rope_scaling": {
            "type": "yarn",
            "factor": 20,
            "mscale": 1.0,
            "mscale_all_dim": 0.5,
            "original_max_position_embeddings": 6144,
        },
    }
    for name in ("transformers", "vLLM", "SGLang", "mlx-lm"):
        pairs = readings(config)[name].pairs
        assert pairs.cos_sin_factor == pytest.approx(1.130273402, rel=1e-9)
        assert pairs.softmax_factor == pytest.approx(1.322009257, rel=1e-9)
    assert readings(config)["llama.cpp"].pairs.cos_sin_factor == 1.0
    assert "no class" in readings(config)["onnxruntime-genai"].refused


def test_a_weight_on_kept_pairs_is_read_by_sglang_and_llama_cpp():
    # pair 0 is kept: w·0.5 + (w/12)·0.5 where extrapolation_factor is 0.5
    seen = readings(yarn(extrapolation_factor=0.5))
    speeds = {name: one.pairs.inv_freq[0] for name, one in seen.items()}
    weighted = 0.5 + 0.5 / 12
    assert speeds == pytest.approx({name: weighted if name in ("SGLang", "llama.cpp") else 1.0 for name in speeds})


def test_mlx_does_not_see_rope_parameters_in_files_that_read_the_old_keys():
    old = yarn()
    new = {name: value for name, value in old.items() if name not in ("rope_scaling", "rope_theta")}
    new["rope_parameters"] = {**old["rope_scaling"], "rope_theta": 250000}
    seen = readings(new)["mlx-lm"]
    assert seen.differs and seen.rope.scaling.rope_type == "default"
    assert seen.rope.rope_theta == 10000  # the default of its models/llama.py
    assert not readings(old)["mlx-lm"].differs
    assert readings({**new, "model_type": "qwen3"})["mlx-lm"].rope.scaling.rope_type == "yarn"
    assert "needs rope_theta" in readings({**new, "model_type": "qwen3_moe"})["mlx-lm"].refused


def test_mlx_takes_the_long_list_at_every_length():
    # F223, F224: inv_freq[0] 0.4 for 1.0 at 10 tokens
    config = {
        "model_type": "phi3",
        "head_dim": 80,
        "num_hidden_layers": 1,
        "max_position_embeddings": 49152,
        "original_max_position_embeddings": 3072,
        "rope_theta": 300000,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 40, "long_factor": [2.5] * 40},
    }
    seen = readings(config, length=10)
    assert seen["mlx-lm"].pairs.inv_freq[0] == pytest.approx(0.4)
    assert seen["transformers"].pairs.inv_freq[0] == 1.0
    assert {round(one.pairs.cos_sin_factor, 9) for one in seen.values()} == {1.159859982}
