"""torchchat's model_params."""

import pytest

from ropewalk import read
from ropewalk.scaling import Default, Llama3

SMALL = {"block_size": 8192, "dim": 2048, "n_layers": 4, "n_heads": 32, "rope_base": 500000.0}
SCALING = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def test_a_block_without_a_type_is_llama3():
    rope = read({**SMALL, "rope_scaling": SCALING}).rope
    assert (rope.scaling.rope_type, rope.scaling.factor) == ("llama3", 32)
    assert (rope.pairing, rope.max_position_embeddings) == ("interleaved", 8192)


def test_null_is_no_scaling_and_an_empty_block_is_an_error():
    assert read({**SMALL, "rope_scaling": None}).rope.scaling == Default()
    assert "key-missing" in {finding.name for finding in read({**SMALL, "rope_scaling": {}}).findings}


@pytest.mark.parametrize("key", sorted(SCALING))
def test_every_number_is_needed(key):
    model = read({**SMALL, "rope_scaling": {**SCALING, key: None}})
    assert model.ropes == ()
    assert any(finding.where == f"text: rope_scaling.{key}" for finding in model.findings)


def test_both_names_of_the_base_and_a_missing_one():
    meta = {key: value for key, value in SMALL.items() if key != "rope_base"}
    assert read({**meta, "rope_theta": 3e5}).rope.rope_theta == 3e5
    model = read(meta)
    assert model.rope.rope_theta == 1e4
    assert [finding.name for finding in model.findings] == ["theta-default"]


def test_head_dim_is_always_the_quotient():
    assert read({**SMALL, "head_dim": 256}).rope.head_dim == 64


FLAMINGO = {
    "model_type": "flamingo",
    "encoder": {"num_heads": 16, "clip_embed_dim": 1280, "clip_num_layers": 32, "num_layers_projection": 8},
    "decoder": {
        "num_layers": 32,
        "fusion_interval": 4,
        "num_heads": 32,
        "num_kv_heads": 8,
        "embed_dim": 4096,
        "max_seq_len": 131072,
        "rope_base": 500000.0,
    },
}


def test_flamingo_is_llama_3_2_vision_with_the_scaling_of_torchtune():
    model = read(FLAMINGO)
    assert len(model.layers) == 32
    assert (model.rope.pairing, model.rope.head_dim, model.rope.rope_theta) == ("interleaved", 128, 5e5)
    assert (model.rope.scaling.rope_type, model.rope.scaling.factor) == ("llama3", 8)
    assert (len(model.parts["vision"]), model.positions) == (32, {"vision": "learned absolute"})
    assert [finding.name for finding in model.findings] == ["scaling-implied"]
    assert model.sources["text.rope_theta"] == "decoder.rope_base"


def test_llava_has_the_ordinary_decoder():
    decoder = {"n_layers": 32, "n_heads": 32, "dim": 4096, "vocab_size": 32064, "max_seq_length": 768}
    model = read({"model_type": "llava", "encoder": {"num_layers": 24}, "decoder": decoder})
    assert (model.rope.pairing, model.rope.head_dim, model.rope.rope_theta) == ("interleaved", 128, 1e4)
    assert "theta-default" in {finding.name for finding in model.findings}
    assert len(model.parts["vision"]) == 24


def test_llama3_1_is_torchtunes_decoder_with_its_scaling():
    """A file that names torchtune's builder: its rope has no key for scaling, and always scales by 8/1/4/8192."""
    text = {"num_layers": 32, "num_heads": 32, "num_kv_heads": 8, "embed_dim": 4096, "max_seq_len": 8192}
    model = read({"model_type": "llama3_1", "use_tiktoken": True, "text": {**text, "rope_base": 500000.0}})
    expected = Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
    assert (model.rope.pairing, model.rope.head_dim, model.rope.rope_theta) == ("interleaved", 128, 5e5)
    assert model.rope.scaling == expected and model.rope.max_position_embeddings == 8192
    assert (list(model.parts), len(model.layers)) == (["text"], 32)
    assert [finding.name for finding in model.findings] == ["scaling-implied"]
    assert model.sources["text.rope_theta"] == "text.rope_base"
