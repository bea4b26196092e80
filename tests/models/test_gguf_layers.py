"""GGUF files: which layers turn, by which base, and where the file leaves it open."""

import math

import pytest

from ropewalk import read

gguf = pytest.importorskip("gguf")
from ._gguf import codes, named  # noqa: E402


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
