"""IBM's foundation-model-stack: the keyword arguments of its models.

Source: foundation-model-stack 062adf6e `fms/modules/positions.py` (RotaryEmbedding, on adjacent channels except for
YaRN; PixtralRotaryEmbedding; CachedYarnRotaryEmbedding) and `fms/models/*.py` for the defaults of each architecture.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._checks import shown
from ._homes import object_under
from ._reading import UnreadableError, View
from ._words import Part, Words, model_of, read_part, without_rope
from .architectures import Architecture
from .model import Model

TEXT_WORDS = {
    "emb_dim": "hidden_size",
    "dim": "hidden_size",
    "hidden_size": "hidden_size",
    "nlayers": "num_hidden_layers",
    "nheads": "num_attention_heads",
    "head_dim": "head_dim",
    "rope_theta": "rope_theta",
    "rope_base": "rope_theta",
    "max_expected_seq_len": "max_position_embeddings",
    "rope_scaling": "rope_scaling",
    "rope_parameters": "rope_parameters",
    "ntk_scaling": "ntk_scaling",
}
VISION_WORDS = {
    "hidden_size": "hidden_size",
    "nlayers": "num_hidden_layers",
    "nheads": "num_attention_heads",
    "rope_theta": "rope_theta",
}
LLAMA3_KEYS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
YARN_WORDS = {"scaling_factor": "factor", "ntk_beta": "beta_fast", "ntk_alpha": "beta_slow"}
PARAMETERS = (
    *("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
    *("rope_theta", "llama_4_scaling_beta"),
)
NO_ROPE = {
    "gpt_bigcode": "learned absolute",
    "roberta": "learned absolute",
    "bert": "learned absolute",
    "mpnet": "learned absolute and relative bias",
    "siglip_vision": "learned absolute",
}
TEXT_OF = {"mistral3": "mistral", "llava_next": "granite"}  # composite architectures and their text part
PIXTRAL = ("mistral3", "ministral3")


def _facts(config_class: str, theta: float | None, longest: int, **facts: Any) -> Architecture:
    defaults = {"max_position_embeddings": longest} | (
        {"head_dim": facts.pop("head_dim")} if "head_dim" in facts else {}
    )
    return Architecture(config_class=config_class, pairing="interleaved", theta=theta, defaults=defaults, **facts)


_TEXT = {
    "llama": _facts("FMS' LLaMAConfig", 10_000.0, 4096),
    "granite": _facts("FMS' GraniteConfig", 10_000.0, 4096, head_dim=128),
    "mistral": _facts("FMS' MistralConfig", 1_000_000.0, 32_768, head_dim=128),
    "mixtral": _facts("FMS' MixtralConfig", 1_000_000.0, 32_768),
    "qwen3": _facts("FMS' Qwen3Config", 1_000_000.0, 32_768, head_dim=128),
    "bamba": _facts("FMS' BambaConfig", 10_000.0, 262_144, partial_rotary_factor=0.5),
    "ministral3": _facts(
        "FMS' Ministral3TextConfig",
        None,
        262_144,
        head_dim=128,
        query_scale={"form": "beta", "layers": "all", "offset": 0},
    ),
}
_UNKNOWN = Architecture(config_class="FMS", pairing="interleaved")
_VISION = Architecture(
    config_class="FMS' PixtralVisionConfig", pairing="interleaved", theta=10_000.0, axes={"kind": "strided"}
)


def read_fms(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read the keyword arguments of a foundation-model-stack model.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    >>> data = {"architecture": "llama", "emb_dim": 64, "nheads": 4, "nlayers": 2, "rope_theta": 10000.0}
    >>> read_fms(data).rope.pairing
    'interleaved'
    """
    name = data.get("architecture")
    name = name if isinstance(name, str) else ""
    inner = data.get("text_config")
    composite = isinstance(inner, Mapping)
    words = Words().take(inner if isinstance(inner, Mapping) else data, TEXT_WORDS, "text_config" if composite else "")
    parts = [_text(name, words)]
    vision = data.get("vision_config")
    if isinstance(vision, Mapping):
        parts.append(_vision(name, vision))
    return model_of(parts, target=target)


def _text(name: str, words: Words) -> Part:
    if name in NO_ROPE:
        return without_rope("text", words, _UNKNOWN, NO_ROPE[name], "architecture")
    arch = _TEXT.get(TEXT_OF.get(name, name))
    part = read_part("text", words, arch or _UNKNOWN, _ministral if name == "ministral3" else _scaling)
    if arch is None:
        part.reading.find(
            "architecture-unknown",
            key="architecture",
            seen=shown(name) if name else "absent",
            right=f"one of {', '.join((*_TEXT, *TEXT_OF))}",
            message=f"the FMS architecture {shown(name)} is not known here: adjacent channels over the whole head are "
            "assumed, as most of FMS' models turn them. Compare with the model's own code.",
        )
    return part


def _vision(name: str, data: Mapping[str, Any]) -> Part:
    words = Words().take(data, VISION_WORDS, "vision_config")
    if name in PIXTRAL or data.get("rope_theta") is not None:
        return read_part("vision", words, _VISION)
    if name in TEXT_OF:
        return without_rope("vision", words, _UNKNOWN, "learned absolute", "architecture")
    part = without_rope("vision", words, _UNKNOWN, "unknown", "architecture")
    part.reading.find(
        "positions-unknown",
        key="architecture",
        seen=shown(name) if name else "absent",
        right="an architecture that ropewalk has facts about",
        message="the vision part has no rope key and its architecture is not known here, so whether it uses RoPE "
        "cannot be told.",
    )
    return part


def _scaling(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    if view.flag("ntk_scaling"):
        raise _ntk(view, "ntk_scaling")
    block = object_under(view, "rope_scaling")
    if not block:
        return Words(), arch
    path = view.key("rope_scaling")
    kind = block.get("rope_type")
    words = Words()
    if kind == "ntk":
        raise _ntk(view, "rope_scaling")
    if kind == "yarn":  # the range is that of max_expected_seq_len, and halves are turned
        words.take(block, YARN_WORDS, path)
        if "max_position_embeddings" in view:
            length = view.data["max_position_embeddings"]
            words.put("original_max_position_embeddings", length, view.key("max_position_embeddings"))
        words.put("truncate", False, "FMS' YarnRopeImpl, which does not round")
        arch = replace(arch, pairing="half")
    else:
        words.data |= {str(key): value for key, value in block.items()}
        words.origins |= {str(key): f"{path}.{key}" for key in block}
        if kind in (None, "regular"):
            words.data.pop("rope_type", None)
            words.put("rope_type", "default", f"{path}.rope_type" if kind else "FMS' RotaryEmbedding")
    words.put("rope_type", kind, f"{path}.rope_type").put("path", path, "")
    return words, arch


def _ntk(view: View, name: str) -> UnreadableError:
    return view.reading.fail(
        "form-outside-scope",
        key=view.key(name),
        seen="ntk",
        right="a scaling whose base follows a formula of the length",
        message="FMS' ntk scaling raises the base in steps, by the next power of two of length / max_expected_seq_len, "
        "which no scaling of ropewalk does. No rope is described.",
    )


def _ministral(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    block = object_under(view, "rope_parameters")
    if not block:
        return Words(), arch
    path = view.key("rope_parameters")
    words = Words().take(block, dict(zip(PARAMETERS, PARAMETERS, strict=True)), path).put("path", path, "")
    words.put("mscale", 1.0, "default of FMS' CachedYarnRotaryEmbedding")
    words.put("mscale_all_dim", 1.0, "default of FMS' CachedYarnRotaryEmbedding")
    view.reading.find(
        "engines-truncate",
        key=path,
        seen="YaRN in FMS' CachedYarnRotaryEmbedding",
        right="bounds of the ramp rounded to whole pairs, as in transformers",
        message="FMS 062adf6e rounds the bounds of the ramp before it divides them by 2 ln θ, so that they are not "
        "whole pairs; what the keys mean in transformers is described, and middle pairs turn at another speed in FMS.",
    )
    return words.put("rope_type", "yarn", "FMS' CachedYarnRotaryEmbedding"), arch
