"""The table of architectures: every entry is whole, has a source, and reads; remote code is stated a second time."""

from dataclasses import replace

import pytest

from ropewalk import RopewalkError, read
from ropewalk.models.architectures import architecture, known_types
from ropewalk.models.huggingface import PART_NAMES
from ropewalk.rope import PAIRINGS

# model_type: pairing, θ by default, rotary width of a 64-channel head, stated again from the models' own code
REMOTE = {
    "internlm2": ("half", 10000.0, 64),
    "baichuan": ("half", 10000.0, 64),
    "qwen": ("half", 10000.0, 64),
    "exaone": ("half", 10000.0, 64),
    "minicpm": ("half", 10000.0, 64),
    "bailing_moe": ("half", 10000.0, 64),
    "bailing_moe_v2": ("half", 10000.0, 32),
    "phi3small": ("half", 1000000.0, 64),
    "phi3_v": ("half", 10000.0, 64),
    "chatglm": ("interleaved", 10000.0, 32),
    "orion": ("half", 10000.0, 64),
    "deepseek": ("half", 10000.0, 64),
    "stablelm_epoch": ("half", 10000.0, 16),
    "plamo": ("half", 10000.0, 64),
    "moonvit": ("interleaved", 10000.0, 64),
    "Yi": ("half", 5000000.0, 64),
    "grok-1": ("half", 10000.0, 64),
}


@pytest.mark.parametrize("model_type", known_types())
def test_entry_is_whole(model_type):
    arch = architecture(model_type)
    assert arch.known
    assert arch.source
    assert arch.pairing in PAIRINGS
    assert arch.direction in (1, -1)
    assert all(key in PART_NAMES or key.endswith("_config") or key in ("encoder", "decoder") for key in arch.parts)
    assert arch.positions or arch.parts or arch.labels or arch.theta or arch.ratio_key or arch.theta is None


@pytest.mark.parametrize("model_type", known_types())
def test_a_small_config_of_every_type_reads(model_type):
    config = {"model_type": model_type, "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 8}
    try:
        model = read({**config, "rope_theta": 20000.0, "qk_rope_head_dim": 64, "max_position_embeddings": 4096})
    except RopewalkError as error:
        assert "describes no model" in str(error)
        return
    assert model.parts
    for rope in model.ropes:
        assert rope.num_pairs


@pytest.mark.parametrize(("model_type", "facts"), REMOTE.items(), ids=REMOTE)
def test_remote_code_is_read_as_its_code_says(model_type, facts):
    model = read({"model_type": model_type, "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2})
    rope = model.layers[0].rope if model.layers else model.rope
    assert rope is not None
    assert (rope.pairing, rope.rope_theta, rope.width) == facts


def test_one_model_type_may_stand_for_two_architectures():
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_layers": 2}
    two = read({"model_type": "chatglm", "position_encoding_2d": True, **sizes}).rope
    one = read({"model_type": "chatglm", "position_encoding_2d": False, **sizes}).rope
    later = read({"model_type": "chatglm", "original_rope": True, "kv_channels": 64, **sizes}).rope
    assert (two.axes.kind, two.pairing, two.width) == ("ladders", "half", 64)
    assert (one.axes.kind, one.pairing, one.width) == ("single", "half", 64)
    assert (later.axes.kind, later.pairing, later.width) == ("single", "interleaved", 32)


def test_unknown_type_is_marked_as_such():
    assert not architecture("never_heard_of").known
    assert not architecture(["llama"]).known


@pytest.mark.parametrize(("named", "expected"), [("Llama", "llama"), ("Mistral", "mistral"), ("Qwen", "qwen2")])
def test_llavas_own_files_have_the_text_model_that_their_class_names(named, expected):
    """haotian-liu/LLaVA writes the text model's keys flat: LlavaConfig there is a LlamaConfig of another name."""
    sizes = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 2, "rope_theta": 20000.0}
    model = read({"model_type": "llava", "architectures": [f"Llava{named}ForCausalLM"], **sizes})
    assert model == replace(read({"model_type": expected, **sizes}), model_type="llava")
    assert (model.rope.head_dim, model.rope.rope_theta, model.rope.pairing) == (128, 20000, "half")


def test_a_class_stands_for_a_model_type_that_is_absent_or_unknown():
    sizes = {"hidden_size": 2560, "num_attention_heads": 40, "num_hidden_layers": 1, "qk_rope_head_dim": 32}
    for told in ({}, {"model_type": "never_heard_of"}):
        model = read({**told, "architectures": ["MiniCPM3ForCausalLM"], **sizes, "rope_theta": 1e4})
        assert (model.rope.head_dim, model.model_type) == (32, told.get("model_type"))  # latent attention, not 2560/40
    assert read({"model_type": "llama", "architectures": ["MiniCPM3ForCausalLM"], **sizes}).rope.head_dim == 64
    for nonsense in ([], [None], "MiniCPM3ForCausalLM", [["x"]], {"a": 1}, ["ForCausalLM"], ["A" * 100_000]):
        assert "architecture-unknown" in {one.name for one in read({"architectures": nonsense, **sizes}).findings}


def test_a_model_without_rope_has_as_many_layers_as_its_list_of_kinds():
    config = {"model_type": "nemotron_h", "hidden_size": 64, "layers_block_type": ["mamba", "moe", "attention"]}
    model = read(config)
    assert (len(model.layers), model.ropes, model.sources["text.layers"]) == (3, (), "layers_block_type")


@pytest.mark.parametrize(
    "name", ["gemma4_text", "gemma4_unified_text", "diffusion_gemma_text", "embedding_gemma2_text"]
)
def test_the_last_layer_of_gemma_4_is_full_whatever_the_list_says(name):
    """transformers 5.24: "Last layer must use `full_attention` ... Forcing last layer"."""
    kinds = ["full_attention", "sliding_attention", "sliding_attention"]
    model = read({"model_type": name, "num_hidden_layers": 3, "layer_types": kinds})
    assert [layer.kind for layer in model.layers] == [*kinds[:2], "full_attention"]
    assert model.layers[2].rope == model.layers[0].rope != model.layers[1].rope
    (finding,) = (one for one in model.findings if one.name == "key-unused")
    assert finding.where == "text: layer_types"


def test_keys_beside_the_block_that_gemma_4_makes_itself_change_nothing():
    """As in ExecuTorch's files for Gemma 4; transformers 5.24's class makes a block of its own all the same."""
    flat = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "partial_rotary_factor": 0.25, "head_dim": 256}
    sliding, full = (layer.rope for layer in read({"model_type": "gemma4_text", **flat}).layers[4:6])
    assert (sliding.rope_theta, sliding.width, sliding.scaling.rope_type) == (1e4, 256, "default")
    assert (full.rope_theta, full.scaling.rope_type, full.scaling.partial_rotary_factor) == (1e6, "proportional", 0.25)
