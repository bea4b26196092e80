"""OpenAI's own gpt-oss configuration: YaRN with unrounded bounds, in words of its own.

Source: openai/gpt-oss 7b58334 `gpt_oss/torch/model.py` (ModelConfig, RotaryEmbedding; halves by torch.chunk; a
sliding window on every other layer from the first on).
"""

from collections.abc import Mapping
from typing import Any

from ._reading import View
from ._words import Words, model_of, read_part
from .architectures import Architecture
from .model import Model

TEXT_WORDS = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "head_dim": "head_dim",
    "rope_theta": "rope_theta",
    "rope_scaling_factor": "factor",
    "rope_ntk_alpha": "beta_slow",
    "rope_ntk_beta": "beta_fast",
    "initial_context_length": "original_max_position_embeddings",
}
# the defaults of ModelConfig
CONSTANTS = {
    "factor": 32.0,
    "beta_slow": 1.0,
    "beta_fast": 32.0,
    "original_max_position_embeddings": 4096,
}

_TEXT = Architecture(
    config_class="gpt-oss's ModelConfig",
    theta=150_000.0,
    defaults={"head_dim": 64, "hidden_size": 2880, "num_attention_heads": 64, "num_hidden_layers": 36},
    layers={"rule": "pattern", "keys": [], "default": 2, "hit": "full_attention", "miss": "sliding_attention"},
)


def read_gpt_oss(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read gpt-oss's own config.json.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    >>> data = {"num_hidden_layers": 2, "head_dim": 64, "rope_theta": 150000, "rope_scaling_factor": 32.0}
    >>> read_gpt_oss({**data, "initial_context_length": 4096, "rope_ntk_alpha": 1, "rope_ntk_beta": 32}).rope.pairing
    'half'
    """
    return model_of([read_part("text", Words().take(data, TEXT_WORDS), _TEXT, _yarn)], target=target)


def _yarn(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    words = Words()
    for name, default in CONSTANTS.items():
        words.origins[name] = view.key(name)
        if name in view.data:
            words.data[name] = view.data[name]
        words.put(name, default, arch.described())
    factor = view.number("factor", above=0)
    if factor is not None and factor <= 1:
        view.reading.source("scaling", view.key("factor"))
        return Words(), arch
    words.put("truncate", False, "gpt-oss's RotaryEmbedding, which does not round")
    return words.put("rope_type", "yarn", "gpt-oss's RotaryEmbedding"), arch
