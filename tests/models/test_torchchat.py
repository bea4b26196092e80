"""torchchat's model_params."""

import pytest

from ropewalk import read
from ropewalk.scaling import Default

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
