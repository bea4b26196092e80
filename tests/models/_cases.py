"""A configuration with a fault, its twin without, and the blocks that both are made of."""

from dataclasses import dataclass, field
from typing import Any

DROP = object()


def config(block: Any = None, *, theta: Any = 3e5, **keys: Any) -> dict[str, Any]:
    """A Llama of four layers and heads of 64 channels, without a fault; DROP takes a key away."""
    rope = {"rope_type": "default", "rope_theta": theta, **(block or {})}
    whole = {
        "model_type": "llama",
        "head_dim": 64,
        "num_hidden_layers": 4,
        "max_position_embeddings": 4096,
        "rope_parameters": {key: value for key, value in rope.items() if value is not DROP},
        **keys,
    }
    return {key: value for key, value in whole.items() if value is not DROP}


def linear(**keys: Any) -> dict[str, Any]:
    return config({"rope_type": "linear", "factor": 3.0, **keys})


def yarn(*, model: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """A YaRN block in which every engine agrees: factor 12, 6144 tokens stretched to 73728."""
    block = {"rope_type": "yarn", "factor": 12.0, "original_max_position_embeddings": 6144, **keys}
    return config(block, **{"max_position_embeddings": 73728, **(model or {})})


def longrope(*, model: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    block = {
        "rope_type": "longrope",
        "short_factor": [2.0] * 32,
        "long_factor": [2.0] * 32,
        "original_max_position_embeddings": 3072,
    }
    return config({**block, **keys}, **{"max_position_embeddings": 49152, **(model or {})})


def llama3(**keys: Any) -> dict[str, Any]:
    block = {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    return config({**block, "original_max_position_embeddings": 4096, **keys}, max_position_embeddings=65536)


def proportional(**keys: Any) -> dict[str, Any]:
    return config({"rope_type": "proportional", "partial_rotary_factor": 0.5, **keys})


def mrope(sections: list[int], **keys: Any) -> dict[str, Any]:
    return config({"mrope_section": sections, **keys}, model_type="qwen3_vl_text", head_dim=40)


def smollm3(flags: list[int]) -> dict[str, Any]:
    return config(model_type="smollm3", num_hidden_layers=6, no_rope_layers=flags)


def old_gemma3(**keys: Any) -> dict[str, Any]:
    """A Gemma 3 with a flat block, which its class reads under the old key alone."""
    block = {**yarn()["rope_parameters"], **keys}
    theta = block.pop("rope_theta")
    model = {"model_type": "gemma3_text", "num_hidden_layers": 6, "rope_theta": theta, "rope_scaling": block}
    return yarn(model={**model, "rope_parameters": DROP})


@dataclass(frozen=True, kw_only=True)
class Case:
    """A config with a fault, its twin, and the words that the finding's fields hold."""

    name: str
    fault: dict[str, Any]
    twin: dict[str, Any]
    where: str
    seen: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    id: str = field(default="")
