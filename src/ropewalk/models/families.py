"""Which family a configuration file belongs to, told from its keys, and the reader of each."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from .._checks import shown
from ..errors import RopewalkError
from ..findings import Finding
from ._reading import Reading
from .json_file import repeats
from .model import Model

Config = Mapping[str, Any]


def _has(data: Config, *names: str) -> bool:
    return all(name in data for name in names)


def _some(data: Config, *names: str) -> bool:
    return any(name in data for name in names)


def _fms(data: Config) -> bool:
    inner = data.get("text_config", data)
    widths = ("emb_dim", "dim", "hidden_size")
    return isinstance(inner, Mapping) and _has(inner, "nheads", "nlayers") and _some(inner, *widths)


_MISTRAL = ("hidden_dim", "yarn", "llama_4_scaling", "vision_encoder", "multimodal")


def _deepseek(data: Config) -> bool:
    return "inter_dim" in data or ("qk_rope_head_dim" in data and not _some(data, *_MISTRAL))


# in order; the first that holds names the family. A file with a model_type is Hugging Face's, unless diffusers wrote it
_FAMILIES: tuple[tuple[str, Callable[[Config], bool]], ...] = (
    ("diffusers", lambda d: _some(d, "_class_name", "_diffusers_version", "axes_dims_rope")),
    ("diffusers", lambda d: "model_type" not in d and _has(d, "attention_head_dim", "in_channels", "out_channels")),
    # Mistral's own files may say so in a word that is no architecture
    ("Mistral params.json", lambda d: d.get("model_type") == "transformer" and _has(d, "dim", "n_layers", "n_heads")),
    ("torchchat", lambda d: d.get("model_type") in ("flamingo", "llava") and isinstance(d.get("decoder"), Mapping)),
    ("torchchat", lambda d: d.get("model_type") == "llama3_1" and isinstance(d.get("text"), Mapping)),
    ("huggingface", lambda d: isinstance(d.get("model_type"), str)),
    ("mesh-transformer-jax", lambda d: _has(d, "pe", "d_model", "layers")),
    ("IBM fms", _fms),
    ("gpt-oss original", lambda d: _has(d, "initial_context_length", "rope_ntk_alpha", "rope_ntk_beta")),
    ("DeepSeek inference", lambda d: _has(d, "dim", "n_layers") and _deepseek(d)),
    ("torchchat", lambda d: _has(d, "dim") and _some(d, "block_size", "rope_base", "n_local_heads")),
    ("litgpt", lambda d: _has(d, "n_embd", "block_size") and _some(d, "rope_n_elem", "rope_base", "rotary_percentage")),
    ("executorch", lambda d: _has(d, "dim", "n_layers") and _some(d, "use_hf_rope", "rope_scaling_short_factor")),
    ("executorch", lambda d: _has(d, "dim", "hidden_dim", "use_scaled_rope")),
    ("Mistral params.json", lambda d: _has(d, "dim", "n_layers", "n_heads") and _some(d, *_MISTRAL)),
    ("Meta params.json", lambda d: _has(d, "dim", "n_layers", "n_heads")),
    ("tokenizer", lambda d: _some(d, "tokenizer_class", "added_tokens_decoder")),
)


def family_of(data: Config) -> str:
    """Give the family of a configuration object, "huggingface" where nothing says otherwise."""
    return next((name for name, holds in _FAMILIES if holds(data)), "huggingface")


# family: the module and the function that read it; each is imported when a file of its family is met
_READERS: dict[str, tuple[str, str]] = {
    "huggingface": (".huggingface", "read_huggingface"),
    "diffusers": (".diffusers", "read_diffusers"),
    "mesh-transformer-jax": (".mesh", "read_mesh"),
    "IBM fms": (".fms", "read_fms"),
    "gpt-oss original": (".gpt_oss", "read_gpt_oss"),
    "DeepSeek inference": (".deepseek", "read_deepseek"),
    "torchchat": (".torchchat", "read_torchchat"),
    "litgpt": (".litgpt", "read_litgpt"),
    "executorch": (".executorch", "read_executorch"),
    "Mistral params.json": (".mistral", "read_mistral"),
    "Meta params.json": (".meta", "read_meta"),
}
# where a directory keeps the configuration of its model, the first that is there
_PLACES = ("config.json", "params.json", "transformer/config.json", "original/params.json", "lit_config.json")


def read_family(data: Config, target: str) -> Model:
    """Read a configuration object by the reader of its family.

    Args:
        data: the object.
        target: what was read, in words.

    Raises:
        RopewalkError: where the object belongs to no model, or its family's reader refuses it whole.
    """
    family = family_of(data)
    if family not in _READERS:
        raise RopewalkError(f"{target} is a {family}'s configuration. Give the model's config.json.")
    module, name = _READERS[family]
    model: Model = getattr(import_module(module, __package__), name)(data, target=target)
    repeated = _repeated(data, next(iter(model.parts), "text"))
    return replace(model, findings=(*model.findings, *repeated)) if repeated else model


def _repeated(data: Config, part: str) -> tuple[Finding, ...]:
    """Warn of keys that stand more than once in an object of the file."""
    reading = Reading(part)
    for path, values in repeats(data):
        *lost, last = map(shown, values)
        reading.find(
            "key-repeated",
            key=path,
            seen=f"{', '.join([*lost[:8], last])}: {len(values)} values",
            right=f"{last}, the last, as Python and every engine built on it take it",
            message=f"{path} stands {len(values)} times in one object. The last value, {last}, is taken without a word "
            "by Python; other readers of JSON take the first or refuse the file. Keep one.",
        )
    return tuple(reading.findings)


def config_in(directory: Path) -> Path | None:
    """Give the file of a directory that describes its model: config.json first, else that of another family."""
    for place in _PLACES:
        path = directory / place
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):
            continue
    return None
