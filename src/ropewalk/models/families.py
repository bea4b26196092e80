"""Which family a configuration file belongs to, told from its keys."""

from collections.abc import Callable, Mapping
from typing import Any

Config = Mapping[str, Any]


def _has(data: Config, *names: str) -> bool:
    return all(name in data for name in names)


def _some(data: Config, *names: str) -> bool:
    return any(name in data for name in names)


def _fms(data: Config) -> bool:
    inner = data.get("text_config", data)
    return isinstance(inner, Mapping) and _has(inner, "emb_dim", "nheads", "nlayers")


# in order; the first that holds names the family. A file with a model_type is Hugging Face's, unless diffusers wrote it
_FAMILIES: tuple[tuple[str, Callable[[Config], bool]], ...] = (
    ("diffusers", lambda d: _some(d, "_class_name", "_diffusers_version", "axes_dims_rope")),
    ("diffusers", lambda d: "model_type" not in d and _has(d, "attention_head_dim", "in_channels", "out_channels")),
    ("huggingface", lambda d: isinstance(d.get("model_type"), str)),
    ("mesh-transformer-jax", lambda d: _has(d, "pe", "d_model", "layers")),
    ("IBM fms", _fms),
    ("gpt-oss original", lambda d: _has(d, "initial_context_length", "rope_ntk_alpha", "rope_ntk_beta")),
    ("DeepSeek inference", lambda d: _has(d, "dim", "n_layers") and _some(d, "inter_dim", "qk_rope_head_dim")),
    ("torchchat", lambda d: _has(d, "dim") and _some(d, "block_size", "rope_base", "n_local_heads")),
    ("litgpt", lambda d: _has(d, "n_embd", "block_size") and _some(d, "rope_n_elem", "rope_base", "rotary_percentage")),
    ("executorch", lambda d: _has(d, "dim", "n_layers") and _some(d, "use_hf_rope", "rope_scaling_short_factor")),
    ("executorch", lambda d: _has(d, "dim", "hidden_dim", "use_scaled_rope")),
    ("Mistral params.json", lambda d: _has(d, "dim", "n_layers", "hidden_dim", "n_heads")),
    ("Meta params.json", lambda d: _has(d, "dim", "n_layers", "n_heads")),
    ("tokenizer", lambda d: _some(d, "tokenizer_class", "added_tokens_decoder")),
)


def family_of(data: Config) -> str:
    """Give the family of a configuration object, "huggingface" where nothing says otherwise."""
    return next((name for name, holds in _FAMILIES if holds(data)), "huggingface")
