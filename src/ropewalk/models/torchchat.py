"""torchchat's model_params: Meta-like files with rope_base and a scaling block that names no type.

Source: pytorch/torchchat a1a7f370 `torchchat/model.py` (TransformerArgs, precompute_freqs_cis, apply_scaling,
apply_rotary_emb, which turns adjacent channels). head_dim is always dim // n_heads there. Files with an encoder and a
decoder: "llava" has the same decoder, "flamingo" is torchtune's Llama 3.2 Vision, and "llama3_1" with a block "text" is
torchtune's Llama 3.1 (pytorch/torchtune bd2a0fc `models/llama3_2_vision/_component_builders.py`,
`models/llama3_1/_component_builders.py`, `models/llama3_1/_position_embeddings.py`).
"""

from collections.abc import Mapping
from typing import Any

from ._homes import object_under
from ._reading import View
from ._words import Words, model_of, read_part, without_rope
from .architectures import Architecture
from .model import Model

TEXT_WORDS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "rope_base": "rope_theta",
    "rope_theta": "rope_theta",
    "block_size": "max_position_embeddings",
    "rope_scaling": "rope_scaling",
}
SCALING_WORDS = {
    "factor": "factor",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
}
TUNE_WORDS = {
    "embed_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "rope_base": "rope_theta",
    "max_seq_len": "max_position_embeddings",
}
ENCODER_WORDS = {"num_layers": "num_hidden_layers", "clip_num_layers": "num_hidden_layers"}

_TOWER = Architecture(config_class="torchtune's CLIP encoder")
_TUNE = Architecture(config_class="torchtune's llama3_1", pairing="interleaved", theta=500_000.0)
_FLAMINGO = Architecture(config_class="torchtune's llama3_2_vision_decoder", pairing="interleaved", theta=500_000.0)
_TEXT = Architecture(
    config_class="torchchat's TransformerArgs",
    pairing="interleaved",
    theta=10_000.0,
    defaults={
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "max_position_embeddings": 2048,
    },
)


def read_torchchat(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read a file of torchchat/model_params.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    >>> read_torchchat({"block_size": 2048, "dim": 64, "n_layers": 2, "n_heads": 4, "rope_base": 10000}).rope.width
    16
    """
    text, decoder, encoder = (data.get(name) for name in ("text", "decoder", "encoder"))
    if data.get("model_type") == "llama3_1" and isinstance(text, Mapping):
        return model_of([read_part("text", Words().take(text, TUNE_WORDS, "text"), _TUNE, _torchtune)], target=target)
    if not isinstance(decoder, Mapping):
        return model_of([read_part("text", Words().take(data, TEXT_WORDS), _TEXT, _scaling)], target=target)
    if data.get("model_type") == "flamingo":
        words = Words().take(decoder, TUNE_WORDS, "decoder")
        parts = [read_part("text", words, _FLAMINGO, _torchtune)]
        parts[0].reading.source("cross_attention", "between these layers, without RoPE")
    else:
        parts = [read_part("text", Words().take(decoder, TEXT_WORDS, "decoder"), _TEXT, _scaling)]
    if isinstance(encoder, Mapping):
        words = Words().take(encoder, ENCODER_WORDS, "encoder")
        parts.append(without_rope("vision", words, _TOWER, "learned absolute", "torchtune's CLIP encoder"))
    return model_of(parts, target=target)


def _scaling(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    block = object_under(view, "rope_scaling")
    if block is None:
        return Words(), arch
    words = Words().take(block, SCALING_WORDS, "rope_scaling").put("path", "rope_scaling", "")
    return words.put("rope_type", "llama3", "torchchat's apply_scaling, the only one"), arch


def _torchtune(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    code = "default of torchtune's Llama3ScaledRoPE"
    words = Words().put("rope_type", "llama3", "torchtune's Llama3ScaledRoPE")
    constants = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    for name, value in {**constants, "original_max_position_embeddings": 8192}.items():
        words.put(name, value, code)
    view.reading.find(
        "scaling-implied",
        key="model_type",
        seen="a model_type of torchtune, without scaling keys",
        right="llama3 scaling 8/1/4/8192",
        message=f"no key says so, and {arch.config_class} always scales its frequencies: llama3 with factor 8, "
        "low_freq_factor 1, high_freq_factor 4 and original length 8192, its defaults, is taken.",
    )
    return words, arch
