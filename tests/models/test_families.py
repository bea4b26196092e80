"""Which reader a file goes to, where a directory keeps its file, and that one rope has one description."""

import json

import pytest

from ropewalk import RopewalkError, read
from ropewalk.models.families import config_in, family_of

SCALING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
PLAIN = {
    "huggingface": {
        "model_type": "cohere",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 2,
        "max_position_embeddings": 8192,
        "rope_theta": 300000,
    },
    "Meta params.json": {"dim": 4096, "n_heads": 32, "n_layers": 2, "max_seq_len": 8192, "rope_theta": 300000},
    "Mistral params.json": {
        "dim": 4096,
        "n_heads": 32,
        "n_layers": 2,
        "head_dim": 128,
        "hidden_dim": 14336,
        "max_seq_len": 8192,
        "rope_theta": 300000.0,
    },
    "torchchat": {"dim": 4096, "n_heads": 32, "n_layers": 2, "block_size": 8192, "rope_base": 300000},
    "executorch": {
        "dim": 4096,
        "n_heads": 32,
        "n_layers": 2,
        "use_hf_rope": False,
        "max_position_embeddings": 8192,
        "rope_theta": 300000,
    },
    "IBM fms": {
        "architecture": "llama",
        "emb_dim": 4096,
        "nheads": 32,
        "nlayers": 2,
        "max_expected_seq_len": 8192,
        "rope_theta": 300000,
    },
    "litgpt": {
        "n_embd": 4096,
        "n_head": 32,
        "n_layer": 2,
        "block_size": 8192,
        "rope_base": 300000,
        "rotary_percentage": 1.0,
        "rope_interleave": True,
    },
}
# the keys that add llama3 scaling with factor 8 to each
SCALED = {
    "huggingface": {"rope_scaling": {"rope_type": "llama3", **SCALING}},
    "Meta params.json": {"use_scaled_rope": True},
    "torchchat": {"rope_scaling": SCALING},
    "executorch": {"use_scaled_rope": True, "rope_scale_factor": 8},
    "IBM fms": {"rope_scaling": {"rope_type": "llama3", **SCALING}},
    "litgpt": {
        "rope_adjustments": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_seq_len": 8192,
        }
    },
}


@pytest.mark.parametrize("family", PLAIN)
def test_one_description_in_every_format_is_one_rope(family):
    assert family_of(PLAIN[family]) == family
    model = read(PLAIN[family])
    assert model.rope == read(PLAIN["huggingface"]).rope
    assert len(model.layers) == 2
    assert not [finding for finding in model.findings if finding.severity != "note"]


@pytest.mark.parametrize("family", SCALED)
def test_one_scaled_description_in_every_format_is_one_rope(family):
    rope = read({**PLAIN[family], **SCALED[family]}).rope
    assert rope == read({**PLAIN["huggingface"], **SCALED["huggingface"]}).rope


@pytest.mark.parametrize("family", PLAIN)
def test_null_is_absent_and_numbers_may_be_text(family):
    data = {key: str(value) if "theta" in key or "base" in key else value for key, value in PLAIN[family].items()}
    model = read({**data, "rope_scaling": None, "head_size": None, "rope_scaling_factor": None})
    assert model.rope == read(PLAIN["huggingface"]).rope
    assert "number-as-text" in {finding.name for finding in model.findings}


@pytest.mark.parametrize("family", PLAIN)
def test_every_value_has_a_source(family):
    sources = read(PLAIN[family]).sources
    for value in ("rope_theta", "head_dim", "rotary_dim", "pairing", "layers", "max_position_embeddings"):
        assert sources.get(f"text.{value}"), value
    key = next(key for key in PLAIN[family] if key in ("rope_theta", "rope_base"))
    assert sources["text.rope_theta"] == key


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")


def test_a_directory_is_read_from_the_first_file_that_describes_its_model(tmp_path):
    assert config_in(tmp_path) is None
    with pytest.raises(RopewalkError, match=r"has no config\.json"):
        read(tmp_path)
    flux = {"_class_name": "FluxTransformer2DModel", "num_layers": 1, "num_single_layers": 1}
    write(tmp_path / "model_index.json", {"_class_name": "FluxPipeline", "transformer": ["diffusers", "x"]})
    write(tmp_path / "transformer" / "config.json", flux)
    assert read(tmp_path).rope.axes.widths == (16, 56, 56)
    write(tmp_path / "params.json", PLAIN["Meta params.json"])
    assert read(tmp_path).rope == read(PLAIN["Meta params.json"]).rope
    write(tmp_path / "config.json", {**PLAIN["huggingface"], "rope_theta": 5})
    assert config_in(tmp_path) == tmp_path / "config.json"
    assert read(tmp_path).rope.rope_theta == 5


def test_a_tokenizer_describes_no_model():
    with pytest.raises(RopewalkError, match="tokenizer's configuration"):
        read({"tokenizer_class": "LlamaTokenizer"})
