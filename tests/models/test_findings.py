"""Every kind of finding that a configuration gives: a config that has the fault, and its twin that has not."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ropewalk
from ropewalk.findings import KINDS as EVERY_KIND
from ropewalk.findings import Finding
from ropewalk.rope import Rope

DOCS = Path(__file__).resolve().parents[2] / "docs" / "findings.md"
DROP = object()
# those of configurations; others are tested where they arise
KINDS = {name: kind for name, kind in EVERY_KIND.items() if kind[0].startswith("RW1")}

# What each kind's severity must be, stated a second time.
ERRORS = """
    theta-missing rope-type-conflict key-missing list-length width-odd sections-sum betas-swapped rope-type-unknown
    value-unusable width-missing scaling-impossible width-too-large layers-conflict form-outside-scope
""".split()
WARNINGS = """
    theta-default factor-ratio original-length-default sections-realised key-unused attn-factor mscale-inert
    dynamic-cached-keys longrope-switch engines-truncate engines-mscale engines-dynamic engines-partial
    original-length-conflict theta-conflict blocks-conflict architecture-unknown rope-layers-few dynamic-factor-one
    width-conflict engines-ntk engines-longrope engines-attention-factor map-outside-scope factor-below-one
    ramp-empty engines-extrapolation scaling-implied ramp-inverted mlx-pairing
""".split()
NOTES = """
    number-as-text null-absent old-spelling class-default theta-one layers-unknown remote-code positions-unknown
    indexer-pairing
""".split()


def config(block: Any = None, *, theta: Any = 3e5, **keys: Any) -> dict[str, Any]:
    """A Llama of four layers and heads of 64 channels, without a fault; DROP takes a key away."""
    rope = {"rope_type": "default", "rope_theta": theta, **(block or {})}
    whole = {
        "model_type": "llama",
        "head_dim": 64,
        "num_hidden_layers": 4,
        "max_position_embeddings": 4096,
        "rope_parameters": {key: value for key, value in rope.items() if value is not DROP},
        **keys,
    }
    return {key: value for key, value in whole.items() if value is not DROP}


def linear(**keys: Any) -> dict[str, Any]:
    return config({"rope_type": "linear", "factor": 3.0, **keys})


def yarn(*, model: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """A YaRN block in which every engine agrees: factor 12, 6144 tokens stretched to 73728."""
    block = {"rope_type": "yarn", "factor": 12.0, "original_max_position_embeddings": 6144, **keys}
    return config(block, **{"max_position_embeddings": 73728, **(model or {})})


def longrope(*, model: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    block = {
        "rope_type": "longrope",
        "short_factor": [2.0] * 32,
        "long_factor": [2.0] * 32,
        "original_max_position_embeddings": 3072,
    }
    return config({**block, **keys}, **{"max_position_embeddings": 49152, **(model or {})})


def llama3(**keys: Any) -> dict[str, Any]:
    block = {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    return config({**block, "original_max_position_embeddings": 4096, **keys}, max_position_embeddings=65536)


def proportional(**keys: Any) -> dict[str, Any]:
    return config({"rope_type": "proportional", "partial_rotary_factor": 0.5, **keys})


def mrope(sections: list[int], **keys: Any) -> dict[str, Any]:
    return config({"mrope_section": sections, **keys}, model_type="qwen3_vl_text", head_dim=40)


def smollm3(flags: list[int]) -> dict[str, Any]:
    return config(model_type="smollm3", num_hidden_layers=6, no_rope_layers=flags)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A config with a fault, its twin, and the words that the finding's fields hold."""

    name: str
    fault: dict[str, Any]
    twin: dict[str, Any]
    where: str
    seen: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    id: str = field(default="")


CASES = (
    # errors
    Case(
        name="rope-type-unknown",
        fault=config({"rope_type": "spiral"}),
        twin=config({"rope_type": "default"}),
        where="text: rope_parameters.rope_type",
        seen=("spiral",),
        right=("default", "yarn", "llama3"),
        message=("spiral", "longrope", "su"),
    ),
    Case(
        name="rope-type-conflict",
        fault=linear(type="yarn"),
        twin=linear(type="linear"),
        where="text: rope_parameters.rope_type",
        seen=("linear", "yarn"),
        right=("rope_type",),
        message=("linear", "yarn", "transformers", "MLX"),
    ),
    Case(
        name="theta-missing",
        fault=config(theta=DROP, model_type="never_heard_of"),
        twin=config(model_type="never_heard_of"),
        where="text: rope_parameters.rope_theta",
        seen=("absent",),
        right=("trained with",),
        message=("rope_theta",),
    ),
    Case(
        name="key-missing",
        fault=linear(factor=DROP),
        twin=linear(),
        where="text: rope_parameters.factor",
        seen=("absent",),
        right=("factor",),
        message=("linear", "factor", "rope_parameters"),
        id="absent",
    ),
    Case(
        name="key-missing",
        fault=linear(factor=None),
        twin=linear(),
        where="text: rope_parameters.factor",
        seen=("null",),
        message=("linear", "factor"),
        id="null",
    ),
    Case(
        name="key-missing",
        fault=llama3(original_max_position_embeddings=DROP),
        twin=llama3(),
        where="text: rope_parameters.original_max_position_embeddings",
        message=("llama3", "original_max_position_embeddings"),
        id="llama3",
    ),
    Case(
        name="list-length",
        fault=longrope(long_factor=[2.0] * 31),
        twin=longrope(),
        where="text: rope_parameters.long_factor",
        seen=("31",),
        right=("32",),
        message=("31", "32"),
    ),
    Case(
        name="width-odd",
        fault=config(head_dim=57),
        twin=config(head_dim=56),
        where="text: head_dim",
        seen=("57",),
        right=("even",),
        message=("rotary_dim=57", "head_dim=57"),
        id="head",
    ),
    Case(
        name="width-odd",
        fault=config({"partial_rotary_factor": 0.7}, head_dim=10),
        twin=config({"partial_rotary_factor": 0.8}, head_dim=10),
        where="text: rope_parameters.partial_rotary_factor",
        seen=("7", "10"),
        message=("rotary_dim=7", "head_dim=10"),
        id="fraction",
    ),
    Case(
        name="width-odd",
        fault=config(rotary_dim=80),
        twin=config(rotary_dim=48),
        where="text: rotary_dim",
        seen=("80", "64"),
        message=("rotary_dim=80", "head_dim=64"),
        id="wider than the head",
    ),
    Case(
        name="width-odd",
        fault=config(model_type="deepseek_v32", qk_rope_head_dim=64, index_head_dim=32),
        twin=config(model_type="deepseek_v32", qk_rope_head_dim=64, index_head_dim=128),
        where="text: index_head_dim",
        seen=("32", "64"),
        message=("32", "64"),
        id="indexer",
    ),
    Case(
        name="sections-sum",
        fault=mrope([10, 6, 5]),
        twin=mrope([10, 6, 4]),
        where="text: rope_parameters.mrope_section",
        seen=("[10, 6, 5]", "21"),
        right=("20",),
        message=("[10, 6, 5]", "21", "20"),
    ),
    Case(
        name="sections-sum",
        fault=mrope([10, 6.5, 3.5]),
        twin=mrope([10, 6, 4]),
        where="text: rope_parameters.mrope_section",
        seen=("6.5",),
        right=("whole",),
        message=("6.5",),
        id="half a pair",
    ),
    Case(
        name="betas-swapped",
        fault=yarn(beta_fast=1.0, beta_slow=32.0),
        twin=yarn(beta_fast=32.0, beta_slow=1.0),
        where="text: rope_parameters.beta_fast",
        seen=("beta_fast 1", "beta_slow 32"),
        right=("at least beta_slow",),
        message=("beta_fast = 1", "beta_slow = 32", "swapped"),
    ),
    Case(
        name="value-unusable",
        fault=linear(factor="x"),
        twin=linear(factor=3.0),
        where="text: rope_parameters.factor",
        seen=("x",),
        right=("above 0",),
        message=("'x'", "above 0"),
        id="text",
    ),
    Case(
        name="value-unusable",
        fault=config(theta=-1.0),
        twin=config(theta=1e4),
        where="text: rope_parameters.rope_theta",
        seen=("-1",),
        message=("-1.0", "above 0"),
        id="negative base",
    ),
    Case(
        name="value-unusable",
        fault=config(rope_parameters="yarn"),
        twin=config(),
        where="text: rope_parameters",
        seen=("yarn",),
        right=("object",),
        message=("'yarn'",),
        id="block is a word",
    ),
    Case(
        name="value-unusable",
        fault=config({"rope_type": 7}),
        twin=config(),
        where="text: rope_parameters.rope_type",
        seen=("7",),
        right=("word",),
        message=("7",),
        id="type is a number",
    ),
    Case(
        name="value-unusable",
        fault=config(layer_types="full_attention"),
        twin=config(layer_types=["full_attention"] * 4),
        where="text: layer_types",
        seen=("full_attention",),
        right=("list",),
        message=("'full_attention'",),
        id="layer_types is a word",
    ),
    Case(
        name="value-unusable",
        fault=config(head_dim=DROP, hidden_size=4, num_attention_heads=8),
        twin=config(head_dim=DROP, hidden_size=512, num_attention_heads=8),
        where="text: num_attention_heads",
        seen=("8",),
        right=("4",),
        message=("8", "4"),
        id="more heads than channels",
    ),
    Case(
        name="width-missing",
        fault=config(model_type="never_heard_of", head_dim=DROP, hidden_size=512),
        twin=config(model_type="never_heard_of", head_dim=DROP, hidden_size=512, num_attention_heads=8),
        where="text: head_dim",
        seen=("num_attention_heads",),
        right=("hidden_size and num_attention_heads",),
        message=("head_dim", "num_attention_heads"),
    ),
    Case(
        name="scaling-impossible",
        fault=llama3(low_freq_factor=4.0, high_freq_factor=1.0),
        twin=llama3(),
        where="text: rope_parameters",
        seen=("llama3",),
        message=("low_freq_factor=4", "high_freq_factor=1"),
        id="llama3 bands",
    ),
    Case(
        name="scaling-impossible",
        fault=yarn(rope_theta=1.0),
        twin=yarn(),
        where="text: rope_parameters",
        seen=("yarn",),
        message=("rope_theta above 1",),
        id="yarn with one speed",
    ),
    Case(
        name="scaling-impossible",
        fault=config({"rope_type": "dynamic", "alpha": 50.0}, model_type="hunyuan_v1_dense", head_dim=2),
        twin=config({"rope_type": "dynamic", "alpha": 50.0}, model_type="hunyuan_v1_dense", head_dim=4),
        where="text: rope_parameters",
        seen=("dynamic",),
        message=("rotary_dim=2",),
        id="alpha over two channels",
    ),
    Case(
        name="width-too-large",
        fault=config(head_dim=65538),
        twin=config(head_dim=4096),
        where="text: head_dim",
        seen=("65538",),
        right=("65536",),
        message=("65538", "65536"),
    ),
    Case(
        name="layers-conflict",
        fault=config(layer_types=["full_attention"] * 3),
        twin=config(layer_types=["full_attention"] * 4),
        where="text: layer_types",
        seen=("3", "4"),
        right=("one type for each layer",),
        message=("3", "4"),
        id="layer_types",
    ),
    Case(
        name="layers-conflict",
        fault=smollm3([1, 1, 1, 0]),
        twin=smollm3([1, 1, 1, 0, 1, 1]),
        where="text: no_rope_layers",
        seen=("4", "6"),
        message=("4", "6"),
        id="no_rope_layers",
    ),
    # warnings
    Case(
        name="theta-default",
        fault=config(theta=DROP),
        twin=config(),
        where="text: rope_parameters.rope_theta",
        seen=("absent",),
        right=("10000", "LlamaConfig"),
        message=("LlamaConfig", "10000"),
    ),
    Case(
        name="factor-ratio",
        fault=yarn(factor=6.0, original_max_position_embeddings=20000, model={"max_position_embeddings": 30000}),
        twin=yarn(factor=1.5, original_max_position_embeddings=20000, model={"max_position_embeddings": 30000}),
        where="text: rope_parameters.factor",
        seen=("6", "30000/20000", "1.5"),
        right=("6",),
        message=("6", "1.5"),
        id="yarn",
    ),
    Case(
        name="factor-ratio",
        fault=longrope(factor=8.0),
        twin=longrope(factor=16.0),
        where="text: rope_parameters.factor",
        seen=("8", "49152/3072", "16"),
        right=("8",),
        message=("8", "16"),
        id="longrope",
    ),
    Case(
        name="original-length-default",
        fault=yarn(original_max_position_embeddings=DROP),
        twin=yarn(),
        where="text: rope_parameters.original_max_position_embeddings",
        seen=("absent",),
        right=("73728",),
        message=("yarn", "73728"),
    ),
    Case(
        name="original-length-conflict",
        fault=yarn(model={"original_max_position_embeddings": 8192}),
        twin=yarn(model={"original_max_position_embeddings": 6144}),
        where="text: rope_parameters.original_max_position_embeddings",
        seen=("6144", "8192"),
        right=("8192",),
        message=("6144", "8192", "transformers"),
    ),
    Case(
        name="sections-realised",
        fault=mrope([6, 8, 6]),
        twin=mrope([10, 6, 4]),
        where="text: rope_parameters.mrope_section",
        seen=("[6, 8, 6]",),
        right=("[7, 7, 6]",),
        message=("[6, 8, 6]", "[7, 7, 6]"),
    ),
    Case(
        name="key-unused",
        fault=linear(low_freq_factor=1.5),
        twin=linear(),
        where="text: rope_parameters.low_freq_factor",
        seen=("1.5",),
        right=("linear", "factor"),
        message=("low_freq_factor", "'linear'"),
        id="of another type",
    ),
    Case(
        name="key-unused",
        fault=config({"factor": 8.0}),
        twin=config(),
        where="text: rope_parameters.factor",
        seen=("8",),
        message=("factor", "'default'"),
        id="factor without a type",
    ),
    Case(
        name="key-unused",
        fault=config(
            rope_parameters={"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 2e4}},
            layer_types=["full_attention"] * 4,
        ),
        twin=config(
            rope_parameters={"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 2e4}},
            layer_types=["full_attention", "sliding_attention"] * 2,
        ),
        where="text: rope_parameters.sliding_attention",
        seen=("sliding_attention",),
        right=("full_attention",),
        message=("no layer", "full_attention"),
        id="block of no layer",
    ),
    Case(
        name="key-unused",
        fault=config(rope_parameters={"full_attention": {"rope_theta": 1e6}, "factor": 8.0}),
        twin=config(rope_parameters={"full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8.0}}),
        where="text: rope_parameters.factor",
        seen=("8",),
        right=("full_attention",),
        message=("beside",),
        id="beside blocks",
    ),
    Case(
        name="attn-factor",
        fault=yarn(factor=6.0, attn_factor=0.8480498627958061, original_max_position_embeddings=12288),
        twin=yarn(factor=6.0, attn_factor=1.0, original_max_position_embeddings=12288),
        where="text: rope_parameters.attn_factor",
        seen=("0.84805",),
        right=("1.17917595",),
        message=("1.17917595", "(1)", "transformers", "vLLM", "SGLang"),
    ),
    Case(
        name="mscale-inert",
        fault=yarn(mscale=1.0, mscale_all_dim=1.0),
        twin=yarn(model={"model_type": "deepseek_v3"}, mscale=1.0, mscale_all_dim=1.0),
        where="text: rope_parameters.mscale",
        seen=("mscale = mscale_all_dim = 1",),
        right=("1 on cos and sin",),
        message=("1.24849066", "SGLang", "llama.cpp"),
    ),
    Case(
        name="dynamic-cached-keys",
        fault=config({"rope_type": "dynamic", "factor": 3.0}),
        twin=linear(),
        where="text: rope_parameters.rope_type",
        seen=("dynamic", "3"),
        right=("cached keys",),
        message=("4096",),
    ),
    Case(
        name="longrope-switch",
        fault=longrope(short_factor=[1.0] * 32, long_factor=[2.5] * 32),
        twin=longrope(),
        where="text: rope_parameters.original_max_position_embeddings",
        seen=("3072",),
        right=("one list",),
        message=("3072", "short_factor", "long_factor"),
    ),
    Case(
        name="engines-truncate",
        fault=yarn(truncate=False),
        twin=yarn(truncate=True),
        where="text: rope_parameters.truncate",
        seen=("false",),
        right=("not rounded",),
        message=("llama.cpp", "MLX"),
        id="flat",
    ),
    Case(
        name="engines-truncate",
        fault=config(rope_parameters={"full_attention": yarn(truncate=False)["rope_parameters"]}),
        twin=config(rope_parameters={"full_attention": yarn()["rope_parameters"]}),
        where="text: rope_parameters.full_attention.truncate",
        seen=("false",),
        message=("transformers", "nested", "llama.cpp", "MLX"),
        id="nested",
    ),
    Case(
        name="engines-mscale",
        fault=yarn(mscale=0.8),
        twin=yarn(),
        where="text: rope_parameters.mscale",
        seen=("mscale 0.8", "mscale_all_dim absent"),
        right=("1.24849066",),
        message=("1.24849066", "0.8", "transformers", "ONNX Runtime"),
        id="lone mscale",
    ),
    Case(
        name="engines-mscale",
        fault=yarn(mscale=0.8, mscale_all_dim=0),
        twin=yarn(),
        where="text: rope_parameters.mscale",
        seen=("mscale 0.8", "mscale_all_dim 0"),
        right=("1.24849066",),
        message=("Megatron",),
        id="mscale_all_dim 0",
    ),
    Case(
        name="engines-mscale",
        fault=yarn(mscale_all_dim=0.8),
        twin=yarn(),
        where="text: rope_parameters.mscale_all_dim",
        seen=("mscale absent", "mscale_all_dim 0.8"),
        message=("1.24849066",),
        id="lone mscale_all_dim",
    ),
    Case(
        name="engines-mscale",
        fault=yarn(mscale=1.0, mscale_all_dim=0.5),
        twin=yarn(model={"model_type": "deepseek_v3"}, mscale=1.0, mscale_all_dim=0.5),
        where="text: rope_parameters.mscale",
        seen=("mscale 1", "mscale_all_dim 0.5"),
        right=("1.11051443",),
        message=("1.11051443", "1.24849066", "SGLang", "llama.cpp"),
        id="pair outside MLA",
    ),
    Case(
        name="engines-dynamic",
        fault=config({"rope_type": "dynamic", "factor": 3.0}),
        twin=linear(),
        where="text: rope_parameters.rope_type",
        seen=("dynamic", "3"),
        right=("transformers",),
        message=("transformers", "vLLM", "SGLang", "llama.cpp"),
    ),
    Case(
        name="engines-partial",
        fault=proportional(),
        twin=config({"partial_rotary_factor": 0.5}),
        where="text: rope_parameters.partial_rotary_factor",
        seen=("0.5",),
        right=("(i, i + D/2)",),
        message=("two meanings", "vLLM", "SGLang"),
    ),
    Case(
        name="theta-conflict",
        fault=config(rope_theta=1e4),
        twin=config(rope_theta=3e5),
        where="text: rope_theta",
        seen=("300000", "10000"),
        right=("300000",),
        message=("300000", "10000", "rope_parameters.rope_theta"),
    ),
    Case(
        name="blocks-conflict",
        fault=config(rope_scaling={"rope_type": "linear", "rope_theta": 2e4, "factor": 3.0}),
        twin=config(rope_scaling={"rope_type": "default", "rope_theta": 3e5}),
        where="text: rope_scaling",
        seen=("rope_theta", "rope_type"),
        right=("rope_parameters",),
        message=("rope_scaling", "transformers"),
        id="differing",
    ),
    Case(
        name="blocks-conflict",
        fault=config(rope_scaling={"type": "linear", "factor": 3.0}),
        twin=config(rope_scaling={"type": "default", "rope_theta": 3e5}),
        where="text: rope_scaling",
        seen=("rope_type", "only in rope_parameters: rope_theta"),
        message=("rope_parameters",),
        id="lost",
    ),
    Case(
        name="architecture-unknown",
        fault=config(model_type="never_heard_of"),
        twin=config(model_type="llama"),
        where="text: model_type",
        seen=("never_heard_of",),
        right=("model_type",),
        message=("never_heard_of", "half-split"),
    ),
    Case(
        name="rope-layers-few",
        fault=smollm3([0, 1, 0, 0, 1, 0]),
        twin=smollm3([1, 0, 1, 1, 0, 1]),
        where="text: no_rope_layers",
        seen=("2 of 6",),
        right=("1 for a layer that uses RoPE",),
        message=("4 of 6", "inverted"),
    ),
    Case(
        name="dynamic-factor-one",
        fault=config({"rope_type": "dynamic", "factor": 1.0}),
        twin=config({"rope_type": "dynamic", "factor": 3.0}),
        where="text: rope_parameters.factor",
        seen=("1",),
        right=("no scaling",),
        message=("factor 1",),
    ),
    Case(
        name="width-conflict",
        fault=config({"partial_rotary_factor": 0.25}, rotary_dim=48),
        twin=config({"partial_rotary_factor": 0.75}, rotary_dim=48),
        where="text: rotary_dim",
        seen=("48", "16", "0.25"),
        right=("48",),
        message=("48", "16"),
    ),
    Case(
        name="engines-ntk",
        fault=config({"rope_type": "ntk", "factor": 5.0}),
        twin=linear(),
        where="text: rope_parameters.rope_type",
        seen=("ntk", "5"),
        right=("R/(R-2)",),
        message=("vLLM", "transformers", "2/R"),
        id="type",
    ),
    Case(
        name="engines-longrope",
        fault=longrope(short_mscale=1.1, long_mscale=1.3),
        twin=longrope(),
        where="text: rope_parameters.long_mscale",
        seen=("1.1", "1.3"),
        right=("these factors",),
        message=("vLLM", "sqrt(1 + ln s / ln L0)"),
    ),
    Case(
        name="engines-attention-factor",
        fault=yarn(attention_factor=1.0),
        twin=yarn(),
        where="text: rope_parameters.attention_factor",
        seen=("1",),
        right=("1 on cos and sin",),
        message=("verbatim", "SGLang", "MLX", "llama.cpp", "1.24849"),
        id="yarn",
    ),
    Case(
        name="engines-attention-factor",
        fault=longrope(attention_factor=1.0),
        twin=longrope(),
        where="text: rope_parameters.attention_factor",
        seen=("1",),
        message=("verbatim", "vLLM", "1.15985998"),
        id="longrope",
    ),
    Case(
        name="map-outside-scope",
        fault=config(model_type="mistral_large4_text"),
        twin=config(model_type="mistral"),
        where="text: model_type",
        seen=("mistral_large4_text",),
        right=("nearest",),
        message=("mistral_large4_text", "learned"),
    ),
    Case(
        name="factor-below-one",
        fault=linear(factor=0.2),
        twin=linear(factor=5.0),
        where="text: rope_parameters.factor",
        seen=("0.2",),
        right=("1 or more",),
        message=("0.2", "5", "GGUF"),
    ),
    Case(
        name="ramp-empty",
        fault=llama3(high_freq_factor=1.0),
        twin=llama3(),
        where="text: rope_parameters.high_freq_factor",
        seen=("low_freq_factor = high_freq_factor = 1",),
        right=("4096",),
        message=("both 1", "NaN"),
        id="llama3",
    ),
    Case(
        name="ramp-empty",
        fault=yarn(beta_fast=2.0, beta_slow=2.0, truncate=False),
        twin=yarn(beta_fast=2.0, beta_slow=1.0, truncate=False),
        where="text: rope_parameters.beta_slow",
        seen=("pair 15.7",),
        right=("15.7",),
        message=("15.7", "divides by zero"),
        id="yarn",
    ),
    Case(
        name="engines-ntk",
        fault=config({"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}),
        twin=config({"rope_type": "dynamic", "alpha": 1000.0, "factor": 1.0}, model_type="hunyuan_v1_dense"),
        where="text: rope_parameters.alpha",
        seen=("1000",),
        right=("R/(R-2)",),
        message=("alpha 1000", "vLLM", "Hunyuan", "transformers"),
        id="alpha",
    ),
    Case(
        name="engines-extrapolation",
        fault=yarn(extrapolation_factor=0.5),
        twin=yarn(extrapolation_factor=1.0),
        where="text: rope_parameters.extrapolation_factor",
        seen=("0.5",),
        right=("1",),
        message=("0.5", "SGLang", "transformers"),
    ),
    # notes
    Case(
        name="number-as-text",
        fault=config(theta="300000"),
        twin=config(theta=3e5),
        where="text: rope_parameters.rope_theta",
        seen=("'300000'",),
        right=("300000",),
        message=("'300000'", "number 300000"),
        id="value",
    ),
    Case(
        name="number-as-text",
        fault=longrope(long_factor=[2.0] * 31 + ["2.0"]),
        twin=longrope(),
        where="text: rope_parameters.long_factor",
        seen=("'2.0'",),
        right=("2",),
        message=("'2.0'",),
        id="in a list",
    ),
    Case(
        name="null-absent",
        fault=config(rope_scaling=None),
        twin=config(),
        where="text: rope_scaling",
        seen=("null",),
        right=("absent",),
        message=("rope_scaling",),
        id="block",
    ),
    Case(
        name="null-absent",
        fault=yarn(beta_fast=None),
        twin=yarn(),
        where="text: rope_parameters.beta_fast",
        seen=("null",),
        message=("beta_fast",),
        id="number",
    ),
    Case(
        name="null-absent",
        fault=yarn(truncate=None),
        twin=yarn(),
        where="text: rope_parameters.truncate",
        seen=("null",),
        message=("truncate",),
        id="flag",
    ),
    Case(
        name="old-spelling",
        fault=config(rope_parameters=DROP, rope_scaling={"rope_type": "default", "rope_theta": 3e5}),
        twin=config(),
        where="text: rope_scaling",
        seen=("rope_scaling",),
        right=("rope_parameters",),
        message=("rope_scaling", "rope_parameters"),
        id="block",
    ),
    Case(
        name="old-spelling",
        fault=linear(rope_type=DROP, type="linear"),
        twin=linear(),
        where="text: rope_parameters.type",
        seen=("type",),
        right=("rope_type",),
        message=("'type'", "'rope_type'"),
        id="type",
    ),
    Case(
        name="old-spelling",
        fault=longrope(rope_type="su"),
        twin=longrope(),
        where="text: rope_parameters.rope_type",
        seen=("su",),
        right=("longrope",),
        message=("'su'", "'longrope'"),
        id="su",
    ),
    Case(
        name="old-spelling",
        fault=config({"rope_theta": DROP}, model_type="gpt_neox", partial_rotary_factor=0.25, rotary_emb_base=2e4),
        twin=config({"rope_theta": DROP}, model_type="gpt_neox", partial_rotary_factor=0.25, rope_theta=2e4),
        where="text: rotary_emb_base",
        seen=("rotary_emb_base",),
        right=("rope_theta",),
        message=("rotary_emb_base", "rope_theta"),
        id="base",
    ),
    Case(
        name="class-default",
        fault=config(model_type="glm"),
        twin=config({"partial_rotary_factor": 0.5}, model_type="glm"),
        where="text: partial_rotary_factor",
        seen=("absent",),
        right=("0.5", "GlmConfig"),
        message=("0.5", "GlmConfig"),
        id="fraction",
    ),
    Case(
        name="class-default",
        fault=config(model_type="gptj", rope_parameters=DROP, rotary_dim=64),
        twin=config(model_type="llama", rotary_dim=64),
        where="text: rope_theta",
        seen=("absent",),
        right=("10000", "constant"),
        message=("10000", "GPTJConfig"),
        id="constant of the code",
    ),
    Case(
        name="class-default",
        fault=config(model_type="gpt_oss", head_dim=DROP),
        twin=config(model_type="gpt_oss", head_dim=64),
        where="text: head_dim",
        seen=("absent",),
        right=("64", "GptOssConfig"),
        message=("64", "GptOssConfig"),
        id="width",
    ),
    Case(
        name="theta-one",
        fault=config(theta=1.0),
        twin=config(theta=2.0),
        where="text: rope_parameters.rope_theta",
        seen=("1",),
        right=("above 1",),
        message=("1",),
    ),
    Case(
        name="layers-unknown",
        fault=config(model_type="never_heard_of", num_hidden_layers=DROP),
        twin=config(model_type="never_heard_of"),
        where="text: num_hidden_layers",
        seen=("no usable number",),
        right=("number of layers",),
        message=("one is described",),
    ),
    Case(
        name="remote-code",
        fault=config(auto_map={"AutoModel": "modeling_mine.Mine"}),
        twin=config(),
        where="text: auto_map",
        right=("never run",),
        message=("runs none of it",),
    ),
    Case(
        name="positions-unknown",
        fault=config(vision_config={"model_type": "never_seen", "hidden_size": 64, "num_hidden_layers": 2}),
        twin=config(vision_config={"model_type": "siglip_vision_model", "hidden_size": 64, "num_hidden_layers": 2}),
        where="vision: vision_config.model_type",
        seen=("never_seen",),
        right=("model_type",),
        message=("vision",),
    ),
    # other families of files
    Case(
        name="form-outside-scope",
        fault={"_class_name": "LTXVideoTransformer3DModel", "num_layers": 4},
        twin={"_class_name": "FluxTransformer2DModel", "num_layers": 4},
        where="transformer: _class_name",
        seen=("LTXVideoTransformer3DModel",),
        right=("one axis",),
        message=("LTXVideoTransformer3DModel", "No rope is described"),
        id="a class",
    ),
    Case(
        name="form-outside-scope",
        fault={"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 10000, "rope_condense_ratio": 2}
        | {"rope_adjustments": {"factor": 4}},
        twin={"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 10000, "rope_condense_ratio": 2},
        where="text: rope_condense_ratio",
        seen=("2", "rope_adjustments"),
        right=("one of the two",),
        message=("two scalings at once",),
        id="two scalings",
    ),
    Case(
        name="scaling-implied",
        fault={"dim": 64, "n_layers": 2, "n_heads": 4, "rope_theta": 5e5, "use_scaled_rope": True},
        twin={"dim": 64, "n_layers": 2, "n_heads": 4, "rope_theta": 5e5, "use_scaled_rope": True}
        | {"rope_scaling_factor": 8},
        where="text: use_scaled_rope",
        seen=("without a factor",),
        right=("factor 8",),
        message=("8", "32", "Llama 3.2"),
    ),
    Case(
        name="ramp-inverted",
        fault={"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 10000}
        | {"rope_adjustments": {"factor": 4, "beta_fast": 32, "beta_slow": 1, "original_max_seq_len": 4096}},
        twin={"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 10000}
        | {"rope_adjustments": {"factor": 4}},
        where="text: rope_adjustments.beta_fast",
        seen=("YaRN",),
        right=("fast pairs kept",),
        message=("LitGPT", "wrong way round"),
    ),
    Case(
        name="mlx-pairing",
        fault=config(rope_traditional=True),
        twin=config(rope_traditional=False),
        where="text: rope_traditional",
        seen=("true",),
        right=("half",),
        message=("mlx-lm", "interleaved"),
    ),
    Case(
        name="indexer-pairing",
        fault={"dim": 64, "n_layers": 2, "inter_dim": 64, "qk_rope_head_dim": 64, "index_head_dim": 128},
        twin={"dim": 64, "n_layers": 2, "inter_dim": 64, "qk_rope_head_dim": 64},
        where="text: index_head_dim",
        seen=("no key",),
        right=("half-split", "interleaved"),
        message=("indexer", "adjacent"),
    ),
)


def found(target: dict[str, Any], name: str) -> list[Finding]:
    return [finding for finding in ropewalk.read(target).findings if finding.name == name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.id}".strip())
def test_fault_is_found_and_named_and_its_twin_is_not(case):
    findings = found(case.fault, case.name)
    assert [finding.where for finding in findings] == [case.where]
    (finding,) = findings
    assert (finding.code, finding.severity) == KINDS[case.name]
    assert finding.seen and finding.right and finding.message.endswith(".")
    for part in ("seen", "right", "message"):
        text = getattr(finding, part)
        assert [words for words in getattr(case, part) if words not in text] == [], f"{part}: {text}"
    assert [one for one in found(case.twin, case.name) if one.where == case.where] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.id}".strip())
def test_an_error_takes_the_rope_away_and_nothing_less_does(case):
    errors = [finding for finding in ropewalk.read(case.fault).findings if finding.severity == "error"]
    has_rope = any(layer.rope for layer in ropewalk.read(case.fault).layers)
    keeps_rope = {"layers-conflict"} | ({case.name} if case.id in ("layer_types is a word", "indexer") else set())
    assert bool(errors) is (KINDS[case.name][1] == "error")
    assert has_rope is not any(finding.name not in keeps_rope for finding in errors)


def test_every_kind_has_a_case():
    assert {case.name for case in CASES} == set(KINDS)


def test_severities_are_those_of_the_design():
    severities = {name: severity for name, (_, severity) in KINDS.items()}
    wanted = {"error": ERRORS, "warning": WARNINGS, "note": NOTES}
    assert severities == {name: severity for severity, names in wanted.items() for name in names}


def test_codes_are_unique_and_of_the_configurations():
    codes = [code for code, _ in KINDS.values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"RW1\d\d", code) for code in codes)


def test_a_faultless_config_gives_no_finding():
    assert ropewalk.read(config()).findings == ()
    assert ropewalk.read(yarn()).findings == ()
    assert ropewalk.read(llama3()).findings == ()


def test_findings_survive_json():
    for finding in ropewalk.read(yarn(truncate=False, mscale=0.8)).findings:
        assert Finding.from_dict(finding.to_dict()) == finding


def test_a_missing_base_is_never_filled_in_silence():
    model = ropewalk.read(config(theta=DROP, model_type="never_heard_of"))
    assert model.ropes == ()
    assert model.sources["text.rope_theta"] == "missing"
    model = ropewalk.read(config(theta=DROP))
    assert model.sources["text.rope_theta"] == "default of LlamaConfig"
    assert model.rope == Rope(head_dim=64, rope_theta=1e4, pairing="half", max_position_embeddings=4096)


def documented() -> dict[str, str]:
    """The sections of docs/findings.md by heading."""
    sections = re.split(r"^##? ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(one.split("\n", 1) for one in sections if re.match(r"RW1(?![78])", one))


def test_docs_have_a_section_for_every_code_and_no_other():
    headings = re.findall(r"^#+ (RW1(?![78]).+)$", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    wanted = [f"{code} {name} ({severity})" for name, (code, severity) in KINDS.items()]
    assert sorted(headings) == sorted(wanted)
    assert set(documented()) == set(wanted)


@pytest.mark.parametrize("name", KINDS)
def test_docs_show_a_config_that_gives_the_finding_and_say_what_to_do(name):
    code, severity = KINDS[name]
    section = documented()[f"{code} {name} ({severity})"]
    (example,) = re.findall(r"^```json\n(.+?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    assert code in {finding.code for finding in ropewalk.read(json.loads(example)).findings}
    assert section.count("**What to do.** ") == 1
