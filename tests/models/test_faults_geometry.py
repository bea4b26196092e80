"""Faults seen in the wild: which channels turn together, which way, and by which of several positions.

Each test carries the id of its fault and numbers worked out beside the library.
"""

import numpy as np
import pytest

import ropewalk
from ropewalk.axes import Sections

from ._faults import close, config, finding, inv_freq, rope_of

# --- pairing, direction, several ropes


def test_f101_llama_of_hugging_face_is_half_split():
    assert rope_of(config()).pairing == "half"


@pytest.mark.parametrize("model_type", "qwen2 qwen3 gemma gemma2 phi3 gpt_neox falcon gpt_oss".split())
def test_f102_families_that_share_a_list_elsewhere_are_half_split_each(model_type):
    assert {rope.pairing for rope in ropewalk.read(config(model_type=model_type)).ropes} == {"half"}


@pytest.mark.parametrize("model_type", ["orion", "plamo"])
def test_f103_orion_and_plamo_are_half_split(model_type):
    assert rope_of(config(model_type=model_type)).pairing == "half"


def test_f104_gptj_is_interleaved_over_64_of_256_channels():
    rope = rope_of({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "rotary_dim": 64})
    assert (rope.pairing, rope.head_dim, rope.rotary_dim, rope.rotary_start) == ("interleaved", 256, 64, 0)


def test_f105_deepseek_v32_has_an_indexer_beside_its_rope():
    keys = {"model_type": "deepseek_v32", "qk_rope_head_dim": 64, "index_head_dim": 128}
    ropes = ropewalk.read(config(head_dim=192, **keys)).layers[0].ropes
    assert (ropes["attention"].head_dim, ropes["attention"].pairing) == (64, "interleaved")
    assert (ropes["indexer"].head_dim, ropes["indexer"].rotary_dim, ropes["indexer"].pairing) == (128, 64, "half")


def test_f106_nanochat_turns_the_other_way():
    rope = rope_of(config(model_type="nanochat", head_dim=16))
    assert rope.direction == -1
    assert rope.pairs().inv_freq.tolist() == [-speed for speed in inv_freq(config(head_dim=16))]


def test_f106_deepseek_v4_turns_the_last_channels_and_turns_the_output_back():
    keys = {"model_type": "deepseek_v4", "qk_rope_head_dim": 64, "rope_theta": 1e4, "compress_rope_theta": 1.6e5}
    layers = ropewalk.read({"head_dim": 512, "num_hidden_layers": 4, **keys}).layers
    for layer in layers:
        assert (layer.rope.rotary_start, layer.rope.rotary_dim, layer.output_inverse) == (448, 64, True)
        pairs = layer.rope.pairs()
        assert {*pairs.first.tolist(), *pairs.second.tolist()} == set(range(448, 512))


# --- widths


def test_f117_head_dim_wins_over_hidden_size_over_heads():
    assert rope_of(config(head_dim=128, hidden_size=3840, num_attention_heads=24)).head_dim == 128


@pytest.mark.parametrize(
    ("keys", "width", "head"),
    [
        ({"head_dim": None, "hidden_size": 456, "num_attention_heads": 8}, 57, 57),
        ({"head_dim": 10, "partial_rotary_factor": 0.7}, 7, 10),
    ],
)
def test_f118_odd_width_is_an_error_with_both_numbers(keys, width, head):
    target = config(**keys)
    assert ropewalk.read(target).ropes == ()
    assert f"rotary_dim={width}, head_dim={head}" in finding(target, "width-odd").message


def test_f118_a_fraction_is_cut_to_whole_channels():
    assert rope_of(config(head_dim=192, partial_rotary_factor=0.334)).rotary_dim == 64


@pytest.mark.parametrize(
    "keys",
    [
        {"rotary_dim": 48},
        {"rope_dim": 48},
        {"partial_rotary_factor": 0.5},
        {"rotary_pct": 0.5},
        {"rope_pct": 0.5},
        {"rope_percent": 0.5},
        {"rotary_emb_fraction": 0.5},
        {"model_type": "glm"},
        {"model_type": "phi"},
    ],
    ids=str,
)
def test_f119_f120_partial_width_is_read_under_every_name_and_applied_once(keys):
    rope = rope_of(config(rope_theta=3e5, **keys))
    assert (rope.head_dim, rope.rotary_dim) == (96, 48)
    speeds = rope.pairs().inv_freq
    assert len(speeds) == 24
    assert (speeds[1], speeds[-1]) == (close(0.5912710485), close(5.637572382e-6))


def test_f119_the_rope_part_of_mla_is_a_head_of_its_own():
    rope = rope_of(config(model_type="deepseek_v3", head_dim=192, qk_rope_head_dim=48))
    assert (rope.head_dim, rope.rotary_dim) == (48, 48)


def test_f120_a_fraction_in_two_homes_is_applied_once():
    assert rope_of(config({"partial_rotary_factor": 0.5}, partial_rotary_factor=0.5)).rotary_dim == 48


def test_f121_partial_rotary_factor_has_the_meaning_of_its_type():
    keys = {"head_dim": 160, "theta": 2e5}
    proportional = rope_of(config({"rope_type": "proportional", "partial_rotary_factor": 0.3}, **keys))
    pairs = proportional.pairs()
    assert (proportional.rotary_dim, len(pairs), np.count_nonzero(pairs.inv_freq)) == (160, 80, 24)
    assert (pairs.first[1], pairs.second[1]) == (1, 81)
    assert (pairs.inv_freq[1], pairs.inv_freq[23]) == (close(0.8584937249), close(0.02991946863))
    ordinary = rope_of(config({"partial_rotary_factor": 0.3}, **keys))
    pairs = ordinary.pairs()
    assert (ordinary.rotary_dim, len(pairs), pairs.first[1], pairs.second[1]) == (48, 24, 1, 25)
    assert pairs.inv_freq[1] == close(0.6013450635)


@pytest.mark.parametrize("length", [64, 39])
def test_f122_factor_lists_have_half_the_rotary_width(length):
    block = {"rope_type": "longrope", "factor": 4, "original_max_position_embeddings": 1024}
    keys = {"head_dim": 128, "partial_rotary_factor": 0.625}
    right = config({**block, "short_factor": [1] * 40, "long_factor": [2] * 40}, **keys)
    assert rope_of(right).num_pairs == 40
    wrong = config({**block, "short_factor": [1] * length, "long_factor": [2] * 40}, **keys)
    assert ropewalk.read(wrong).ropes == ()
    assert f"{length} entries" in finding(wrong, "list-length").seen
    assert "40" in finding(wrong, "list-length").right


# --- M-RoPE


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_parameters": {"rope_type": "default", "mrope_section": [10, 6, 4], "rope_theta": 3e5}},
        {"rope_parameters": {"rope_theta": 3e5}, "rope_scaling": {"mrope_section": [10, 6, 4]}},
        {"rope_theta": 3e5, "rope_scaling": {"type": "mrope", "mrope_section": [10, 6, 4]}},
        {"rope_theta": 3e5, "rope_scaling": {"type": "default", "rope_type": "default", "mrope_section": [10, 6, 4]}},
    ],
    ids=["named default", "in the other dict", "named mrope", "v4"],
)
@pytest.mark.parametrize(
    ("model_type", "arrangement"), [("qwen2_vl_text", "chunked"), ("qwen3_vl_text", "interleaved")]
)
def test_f129_sections_mean_mrope_whatever_the_type_is_called(keys, model_type, arrangement):
    rope = rope_of({"model_type": model_type, "head_dim": 40, "num_hidden_layers": 2, **keys})
    assert rope.axes == Sections(sections=(10, 6, 4), arrangement=arrangement)
    assert rope.rope_theta == 3e5
