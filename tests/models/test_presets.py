"""The presets against a table of facts written by hand, apart from presets.json.

The road: tables of models (litgpt's config.py, maxtext's yml files, transformers' classes) for the values, the papers'
formulas for the numbers; and, where the collected configuration files lie beside the checkout, those files, read whole.
"""

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import ropewalk
from ropewalk import RopewalkError
from ropewalk.models.targets import preset, preset_names

DEFAULT = {"rope_type": "default"}
LINEAR_8 = {"rope_type": "linear", "factor": 8}


def llama3(factor, low=1, high=4):
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": 8192,
    }


def yarn(factor, original, **more):
    betas = {"beta_fast": 32, "beta_slow": 1, "truncate": True, "scale_softmax": False}
    return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original, **betas, **more}


def mla(factor, original, mscale, **more):
    """DeepSeek's YaRN: the magnitude goes to the softmax scale, not to cos and sin."""
    return yarn(factor, original, mscale=mscale, mscale_all_dim=mscale, scale_softmax=True, **more)


COMPRESSED = yarn(16, 65536, attention_factor=1)  # DeepSeek-V4: no magnitude, which the class forces


def g(factor, mscale=1.0):
    """YaRN's magnitude, 0.1·m·ln(s) + 1."""
    return 0.1 * mscale * math.log(factor) + 1


def sections(arrangement, *widths):
    return {"kind": "sections", "sections": list(widths), "arrangement": arrangement, "names": ["t", "h", "w"]}


def ladders(width, within, *names):
    return {"kind": "ladders", "widths": [width, width], "pairing_within": within, "names": list(names)}


@dataclass(frozen=True, kw_only=True)
class Use:
    """One rope of a preset and the layers that use it (all of the part where `layers` is None)."""

    head_dim: int
    rotary_dim: int
    theta: float
    pairing: str
    length: int | None
    scaling: dict[str, Any] = field(default_factory=lambda: DEFAULT)
    axes: dict[str, Any] = field(default_factory=lambda: {"kind": "single"})
    start: int = 0
    part: str = "text"
    layers: range | tuple[int, ...] | None = None
    use: str = "attention"


def half(head_dim, rotary_dim, theta, length, **more):
    return Use(head_dim=head_dim, rotary_dim=rotary_dim, theta=theta, pairing="half", length=length, **more)


def adjacent(head_dim, rotary_dim, theta, length, **more):
    return Use(head_dim=head_dim, rotary_dim=rotary_dim, theta=theta, pairing="interleaved", length=length, **more)


def global_local(head_dim, length, layers, scaling=DEFAULT):
    """Gemma 3: every sixth layer global at 10⁶, scaled or not; the others local at 10⁴, never scaled."""
    wide = range(5, layers, 6)
    narrow = tuple(number for number in range(layers) if number % 6 != 5)
    return (
        half(head_dim, head_dim, 1e6, length, layers=wide, scaling=scaling),
        half(head_dim, head_dim, 1e4, length, layers=narrow),
    )


def but_every_fourth(layers):
    return tuple(number for number in range(layers) if number % 4 != 3)


# preset: ({part: layers}, the ropes). A layer that no row names has no rope.
FACTS: dict[str, tuple[dict[str, int], tuple[Use, ...]]] = {
    "llama-2-7b": ({"text": 32}, (half(128, 128, 1e4, 4096),)),
    "llama-3-8b": ({"text": 32}, (half(128, 128, 5e5, 8192),)),
    "llama-3.1-8b": ({"text": 32}, (half(128, 128, 5e5, 131072, scaling=llama3(8)),)),
    "llama-3.1-70b": ({"text": 80}, (half(128, 128, 5e5, 131072, scaling=llama3(8)),)),
    "llama-3.2-1b": ({"text": 16}, (half(64, 64, 5e5, 131072, scaling=llama3(32)),)),
    "llama-3.3-70b": ({"text": 80}, (half(128, 128, 5e5, 131072, scaling=llama3(8)),)),
    # Scout's first configuration said 8, 1, 4; the later one and llama-models say 16, 1, 1
    "llama-4-scout": (
        {"text": 48, "vision": 34},
        (
            adjacent(128, 128, 5e5, 10485760, scaling=llama3(16, 1, 1), layers=but_every_fourth(48)),
            adjacent(88, 88, 1e4, None, axes=ladders(44, "head", "w", "h"), part="vision"),
        ),
    ),
    "llama-4-maverick": (
        {"text": 48, "vision": 34},
        (
            adjacent(128, 128, 5e5, 1048576, layers=but_every_fourth(48)),
            adjacent(88, 88, 1e4, None, axes=ladders(44, "head", "w", "h"), part="vision"),
        ),
    ),
    "codellama-7b": ({"text": 32}, (half(128, 128, 1e6, 16384),)),
    "tinyllama-1.1b": ({"text": 22}, (half(64, 64, 1e4, 2048),)),
    "smollm2-135m": ({"text": 30}, (half(64, 64, 1e5, 8192),)),
    "mistral-7b-v0.1": ({"text": 32}, (half(128, 128, 1e4, 32768),)),
    "mistral-7b-v0.3": ({"text": 32}, (half(128, 128, 1e6, 32768),)),
    "mistral-nemo": ({"text": 40}, (half(128, 128, 1e6, 131072),)),
    "mixtral-8x7b": ({"text": 32}, (half(128, 128, 1e6, 32768),)),
    "ministral-3-8b": (
        {"text": 34},
        (half(128, 128, 1e6, 262144, scaling=yarn(16, 16384, mscale=1, mscale_all_dim=1)),),
    ),
    "mistral-small-4": ({"text": 36}, (adjacent(64, 64, 1e4, 1048576, scaling=mla(128, 8192, 1)),)),
    "olmo-1b": ({"text": 16}, (half(128, 128, 1e4, 2048),)),
    "olmo-2-7b": ({"text": 32}, (half(128, 128, 5e5, 4096),)),
    "gemma-2b": ({"text": 18}, (half(256, 256, 1e4, 8192),)),
    "gemma-7b": ({"text": 28}, (half(256, 256, 1e4, 8192),)),
    "gemma-2-9b": ({"text": 42}, (half(256, 256, 1e4, 8192),)),
    "gemma-3-1b": ({"text": 26}, global_local(256, 32768, 26)),
    "gemma-3-4b": ({"text": 34, "vision": 27}, global_local(256, 131072, 34, LINEAR_8)),
    "gemma-3-27b": ({"text": 62, "vision": 27}, global_local(128, 131072, 62, LINEAR_8)),
    "phi-1.5": ({"text": 24}, (half(64, 32, 1e4, 2048),)),
    "phi-2": ({"text": 32}, (half(80, 32, 1e4, 2048),)),
    "phi-3-mini-4k": ({"text": 32}, (half(96, 96, 1e4, 4096),)),
    "phi-3-mini-128k": (
        {"text": 32},
        (half(96, 96, 1e4, 131072, scaling={"rope_type": "longrope", "original_max_position_embeddings": 4096}),),
    ),
    "phi-4": ({"text": 40}, (half(128, 128, 2.5e5, 16384),)),
    "qwen2.5-0.5b": ({"text": 24}, (half(64, 64, 1e6, 32768),)),
    "qwen2.5-7b": ({"text": 28}, (half(128, 128, 1e6, 131072),)),
    "qwen3-0.6b": ({"text": 28}, (half(128, 128, 1e6, 40960),)),
    "qwen3-8b": ({"text": 36}, (half(128, 128, 1e6, 40960),)),
    "qwen3-30b-a3b": ({"text": 48}, (half(128, 128, 1e6, 40960),)),
    "qwen3-next-80b": ({"text": 48}, (half(256, 64, 1e7, 262144, layers=range(3, 48, 4)),)),
    "qwen2-vl-7b": (
        {"text": 28, "vision": 32},
        (
            half(128, 128, 1e6, 32768, axes=sections("chunked", 16, 24, 24)),
            half(80, 80, 1e4, None, axes=ladders(40, "head", "h", "w"), part="vision"),
        ),
    ),
    "qwen2.5-vl-7b": (
        {"text": 28, "vision": 32},
        (
            half(128, 128, 1e6, 128000, axes=sections("chunked", 16, 24, 24)),
            half(80, 80, 1e4, None, axes=ladders(40, "head", "h", "w"), part="vision"),
        ),
    ),
    "qwen3-vl-2b": (
        {"text": 28, "vision": 24},
        (
            half(128, 128, 5e6, 262144, axes=sections("interleaved", 24, 20, 20)),
            half(64, 64, 1e4, None, axes=ladders(32, "head", "h", "w"), part="vision"),
        ),
    ),
    "qwen3-vl-4b": (
        {"text": 36, "vision": 24},
        (
            half(128, 128, 5e6, 128000, axes=sections("interleaved", 24, 20, 20)),
            half(64, 64, 1e4, None, axes=ladders(32, "head", "h", "w"), part="vision"),
        ),
    ),
    "gemma-4-26b": (
        {"text": 30},
        (
            half(256, 256, 1e4, 131072, layers=tuple(n for n in range(30) if n % 6 != 5)),
            half(
                512,
                512,
                1e6,
                131072,
                scaling={"rope_type": "proportional", "partial_rotary_factor": 0.25},
                layers=range(5, 30, 6),
            ),
        ),
    ),
    "deepseek-v2-lite": ({"text": 27}, (adjacent(64, 64, 1e4, 163840, scaling=mla(40, 4096, 0.707)),)),
    "deepseek-v3": ({"text": 61}, (adjacent(64, 64, 1e4, 163840, scaling=mla(40, 4096, 1)),)),
    "deepseek-v4-flash": (
        {"text": 43},
        (
            adjacent(512, 64, 1e4, 1048576, start=448, layers=(0, 1)),
            adjacent(512, 64, 1.6e5, 1048576, start=448, layers=range(2, 43), scaling=COMPRESSED),
            adjacent(128, 64, 1.6e5, 1048576, start=64, layers=range(2, 43, 2), use="indexer", scaling=COMPRESSED),
        ),
    ),
    "kimi-k2": ({"text": 61}, (adjacent(64, 64, 5e4, 131072, scaling=mla(32, 4096, 1, beta_fast=1)),)),
    "glm-4-9b": ({"text": 40}, (adjacent(128, 64, 1e4, 8192),)),
    "glm-4-9b-chat": ({"text": 40}, (adjacent(128, 64, 5e6, 131072),)),  # rope_ratio 500
    "glm-5": (
        {"text": 78},
        (adjacent(64, 64, 1e6, 202752), adjacent(128, 64, 1e6, 202752, use="indexer")),
    ),
    "chatglm-6b": (
        {"text": 28},
        (half(128, 128, 1e4, 2048, axes=ladders(64, "axis", "position", "block_position")),),
    ),
    "chatglm2-6b": ({"text": 28}, (adjacent(128, 64, 1e4, 32768),)),
    "gpt-oss-20b": ({"text": 24}, (half(64, 64, 1.5e5, 131072, scaling=yarn(32, 4096, truncate=False)),)),
    "gpt-j-6b": ({"text": 28}, (adjacent(256, 64, 1e4, 2048),)),
    "gpt-neox-20b": ({"text": 44}, (half(96, 24, 1e4, 2048),)),
    "pythia-1.4b": ({"text": 24}, (half(128, 32, 1e4, 2048),)),
    "stablelm-3b-4e1t": ({"text": 32}, (half(80, 20, 1e4, 4096),)),
    "falcon-7b": ({"text": 32}, (half(64, 64, 1e4, 2048),)),
    "smollm3-3b": ({"text": 36}, (half(128, 128, 5e6, 65536, layers=but_every_fourth(36)),)),
    "ernie-4.5-0.3b": ({"text": 18}, (adjacent(128, 128, 5e5, 131072),)),
    "modernbert-base": (
        {"text": 22},
        (
            half(64, 64, 1.6e5, 8192, layers=range(0, 22, 3)),
            half(64, 64, 1e4, 8192, layers=tuple(number for number in range(22) if number % 3)),
        ),
    ),
    "seed-oss-36b": ({"text": 64}, (half(128, 128, 1e7, 524288),)),
    "minimax-m2.7": ({"text": 62}, (half(128, 64, 5e6, 204800),)),
    "apertus-8b": ({"text": 32}, (half(128, 128, 1.2e7, 65536, scaling=llama3(8)),)),
}

# preset: (what multiplies cos and sin, what multiplies the softmax scale). Everywhere else both are 1.
MAGNITUDES = {
    "mistral-small-4": (1, g(128) ** 2),
    "deepseek-v2-lite": (1, g(40, 0.707) ** 2),
    "deepseek-v3": (1, g(40) ** 2),
    "kimi-k2": (1, g(32) ** 2),
    "gpt-oss-20b": (g(32), 1),
    "phi-3-mini-128k": (math.sqrt(1 + math.log(131072 / 4096) / math.log(4096)), 1),
}

# preset: (s, floor_scale, offset) of the temperature of the queries, and whether the layers that turn have it
TEMPERATURES = {
    "llama-4-scout": (0.1, 8192, 1, False),
    "llama-4-maverick": (0.1, 8192, 1, False),
    "ministral-3-8b": (0.1, 16384, 0, True),
    "mistral-small-4": (0.1, 8192, 0, True),
}

# presets that say what a whole collected file says (the others come from tables, or from a file that was shortened)
FILES = {
    "llama-3-8b": "meta-llama--Meta-Llama-3-8B.json",
    "llama-3.1-70b": "meta-llama--Llama-3.1-70B-Instruct.json",
    "llama-3.2-1b": "meta-llama--Llama-3.2-1B.json",
    "llama-4-scout": "extra/RedHatAI--Llama-4-Scout-17B-16E-Instruct-FP8-dynamic.json",
    "llama-4-maverick": "extra/meta-llama--Llama-4-Maverick-17B-128E-Instruct.json",
    "mistral-7b-v0.1": "mistralai--Mistral-7B-v0.1.json",
    "mistral-nemo": "mistralai--Mistral-Nemo-Instruct-2407.json",
    "mixtral-8x7b": "mistralai--Mixtral-8x7B-v0.1.json",
    "gemma-7b": "google--gemma-7b.json",
    "gemma-3-1b": "google--gemma-3-1b-it.json",
    "gemma-3-27b": "google--gemma-3-27b-it.expanded.json",
    "phi-3-mini-128k": "microsoft--Phi-3-mini-128k-instruct.json",
    "qwen2.5-7b": "Qwen--Qwen2.5-7B.json",
    "qwen3-8b": "extra/Qwen--Qwen3-8B.json",
    "qwen3-30b-a3b": "Qwen--Qwen3-30B-A3B.json",
    "qwen2-vl-7b": "Qwen--Qwen2-VL-7B-Instruct.json",
    "qwen2.5-vl-7b": "extra/Qwen--Qwen2.5-VL-7B-Instruct.json",
    "qwen3-vl-2b": "Qwen--Qwen3-VL-2B-Instruct.json",
    "deepseek-v2-lite": "deepseek-ai--DeepSeek-V2-Lite.json",
    "deepseek-v3": "deepseek-ai--DeepSeek-V3.json",
    "deepseek-v4-flash": "deepseek-ai--DeepSeek-V4-Flash.json",
    "glm-5": "zai-org--GLM-5.json",
    "chatglm-6b": "THUDM--chatglm-6b.json",
    "chatglm2-6b": "THUDM--chatglm2-6b.json",
    "gpt-oss-20b": "openai--gpt-oss-20b.json",
    "stablelm-3b-4e1t": "stabilityai--stablelm-3b-4e1t.json",
    "smollm3-3b": "HuggingFaceTB--SmolLM3-3B.json",
    "modernbert-base": "answerdotai--ModernBERT-base.json",
    "seed-oss-36b": "ByteDance-Seed--Seed-OSS-36B.json",
    "minimax-m2.7": "MiniMaxAI--MiniMax-M2.7.json",
}


def test_every_preset_is_in_the_table():
    assert set(preset_names()) == set(FACTS)


@pytest.mark.parametrize("name", FACTS)
def test_preset_reads_without_errors_and_names_its_source(name):
    model = ropewalk.read(name)
    assert [finding for finding in model.findings if finding.severity == "error"] == []
    assert model.target == f"preset {name}"
    assert preset(name).keys() == {"source", "config"}
    assert preset(name)["source"].strip()
    assert re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", name), "a preset's name is lower-case, with dashes and dots"


@pytest.mark.parametrize("name", FACTS)
def test_preset_holds_the_facts(name):
    counts, uses = FACTS[name]
    model = ropewalk.read(name)
    assert {part: len(layers) for part, layers in model.parts.items()} == counts
    wanted: dict[tuple[str, int, str], Use] = {}
    for use in uses:
        for number in range(counts[use.part]) if use.layers is None else use.layers:
            assert wanted.setdefault((use.part, number, use.use), use) is use
    seen = {
        (part, number, use): rope
        for part, layers in model.parts.items()
        for number, layer in enumerate(layers)
        for use, rope in layer.ropes.items()
    }
    assert set(seen) == set(wanted)
    for place, rope in seen.items():
        right, data = wanted[place], rope.to_dict()
        assert data["head_dim"] == right.head_dim, place
        assert data["rotary_dim"] == right.rotary_dim, place
        assert data["rotary_start"] == right.start, place
        assert data["rope_theta"] == pytest.approx(right.theta, rel=1e-15), place
        assert data["pairing"] == right.pairing, place
        assert data["direction"] == 1, place
        assert data["max_position_embeddings"] == right.length, place
        assert {key: data["scaling"].get(key) for key in right.scaling} == right.scaling, place
        assert {key: data["axes"].get(key) for key in right.axes} == right.axes, place


@pytest.mark.parametrize("name", FACTS)
def test_preset_puts_the_magnitude_where_the_model_does(name):
    cos_sin, softmax = MAGNITUDES.get(name, (1, 1))
    for rope in ropewalk.read(name).ropes:
        pairs = rope.pairs()
        assert pairs.cos_sin_factor == pytest.approx(cos_sin, rel=1e-15)
        assert pairs.softmax_factor == pytest.approx(softmax, rel=1e-15)


@pytest.mark.parametrize("name", FACTS)
def test_preset_scales_queries_where_the_model_does(name):
    right = TEMPERATURES.get(name)
    model = ropewalk.read(name)
    for layer in model.parts["text"]:
        scale = layer.query_scale
        if right is None or right[3] is (layer.rope is None):
            assert scale is None
        else:
            assert scale is not None
            assert (scale.attn_scale, scale.floor_scale, scale.offset) == right[:3]
        assert layer.output_inverse is (name == "deepseek-v4-flash")
    assert all(layer.query_scale is None for layer in model.parts.get("vision", ()))


@pytest.mark.parametrize("name", ["gemma-3-4b", "gemma-3-27b"])
def test_gemma_3_divides_global_layers_alone(name):
    layers = ropewalk.read(name).layers
    assert layers[5].rope.pairs().inv_freq[0] == 1 / 8
    assert layers[4].rope.pairs().inv_freq[0] == 1
    assert ropewalk.read(name).positions == {"vision": "learned absolute"}


def test_gpt_oss_ramp_is_not_rounded():
    # YaRN's correction dimension for r turns, d·ln(L0/2πr)/(2 ln θ), left as it is
    low, high = (64 * math.log(4096 / (2 * math.pi * turns)) / (2 * math.log(150000)) for turns in (32, 1))
    inv_freq = ropewalk.read("gpt-oss-20b").ropes[0].pairs().inv_freq
    for pair in range(32):
        ramp = min(max((pair - low) / (high - low), 0), 1)
        assert inv_freq[pair] == pytest.approx(150000 ** (-pair / 32) * (ramp / 32 + 1 - ramp), rel=1e-12)


def test_phi_3_changes_lists_after_4096_tokens():
    rope = ropewalk.read("phi-3-mini-128k").rope
    plain = [10000 ** (-pair / 48) for pair in range(48)]
    for length, factors, rel in (
        (4096, {0: 1.1, 8: 2, 24: 2, 34: 2.25, 47: 3.05}, 1e-12),
        (4097, {0: 1.07, 9: 5.91, 47: 64.76}, 1e-6),  # these numbers were float32 once
    ):
        inv_freq = rope.pairs(length).inv_freq
        assert len(inv_freq) == 48
        for pair, factor in factors.items():
            assert plain[pair] / inv_freq[pair] == pytest.approx(factor, rel=rel)


@pytest.mark.parametrize("name", ["mistral-small-4", "deepseek-v3"])
@pytest.mark.parametrize(("flag", "pairing"), [(True, "interleaved"), (False, "half")])
def test_rope_interleave_decides_the_pairing(name, flag, pairing):
    assert ropewalk.read({**preset(name)["config"], "rope_interleave": flag}).rope.pairing == pairing


@pytest.mark.parametrize("name", FILES)
def test_preset_says_what_the_file_says(name, shared_configs):
    ours, theirs = ropewalk.read(name), ropewalk.read(shared_configs / FILES[name])
    # A preset may leave out labels of layers that change nothing: SmolLM3's are all full_attention.
    unlabelled = {part for part, layers in ours.parts.items() if all(layer.kind is None for layer in layers)}
    for part, layers in theirs.parts.items():
        right = tuple(replace(layer, kind=None) for layer in layers) if part in unlabelled else layers
        assert ours.parts[part] == right
    assert ours.parts.keys() == theirs.parts.keys()
    assert ours.positions == theirs.positions


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("llama-3.1-8", "llama-3.1-8b"),
        ("Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("deepseekv3", "deepseek-v3"),
        ("gpt-oss", "gpt-oss-20b"),
    ],
)
def test_an_unknown_preset_is_answered_with_the_nearest(given, nearest):
    with pytest.raises(RopewalkError, match=f"nearest presets are {re.escape(nearest)}"):
        ropewalk.read(given)


@pytest.mark.parametrize("name", ["#####", ""])
def test_an_unknown_preset_like_none_says_how_to_list_them(name):
    with pytest.raises(RopewalkError, match=rf"preset_names\(\) lists the {len(preset_names())} presets"):
        ropewalk.read(name)
