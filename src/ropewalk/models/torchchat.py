"""torchchat's model_params: Meta-like files with rope_base and a scaling block that names no type.

Source: pytorch/torchchat a1a7f370 `torchchat/model.py` (TransformerArgs, precompute_freqs_cis, apply_scaling,
apply_rotary_emb, which turns adjacent channels). head_dim is always dim // n_heads there.
"""

from collections.abc import Mapping
from typing import Any

from ._reading import View
from ._words import Words, model_of, object_under, read_part
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
    return model_of([read_part("text", Words().take(data, TEXT_WORDS), _TEXT, _scaling)], target=target)


def _scaling(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    block = object_under(view, "rope_scaling")
    if block is None:
        return Words(), arch
    words = Words().take(block, SCALING_WORDS, "rope_scaling").put("path", "rope_scaling", "")
    return words.put("rope_type", "llama3", "torchchat's apply_scaling, the only one"), arch
