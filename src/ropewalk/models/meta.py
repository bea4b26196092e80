"""Meta's params.json: Llama 1 to 4, and the files of other codebases that have no key of their own.

Source: meta-llama/llama 689c7f2 `llama/model.py` (Llama 1 and 2), meta-llama/llama-models a9c89c4
`models/llama3/{args,model}.py`, `models/llama3/multimodal/model.py`, `models/llama4/{args,model}.py`,
`models/llama4/vision/encoder.py`. All of them turn adjacent channels as complex numbers.
"""

from collections.abc import Mapping
from typing import Any

from ._reading import View
from ._words import Part, Words, model_of, note_unread, read_part
from .architectures import Architecture
from .model import Model

TEXT_WORDS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "head_dim": "head_dim",
    "rope_theta": "rope_theta",
    "max_position_embeddings": "max_position_embeddings",
    "max_seq_len": "max_position_embeddings",
    "nope_layer_interval": "no_rope_layer_interval",
    "attn_temperature_tuning": "attn_temperature_tuning",
    "attn_scale": "attn_scale",
    "floor_scale": "floor_scale",
    "use_scaled_rope": "use_scaled_rope",
    "rope_scaling_factor": "rope_scaling_factor",
    "rope_high_freq_factor": "rope_high_freq_factor",
}
VISION_WORDS = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads"}
LLAMA3_KEYS = frozenset({"use_scaled_rope", "rope_scaling_factor", "vision_chunk_size", "quantization_args"})
LLAMA4_KEYS = frozenset(
    {"nope_layer_interval", "attention_chunk_size", "use_qk_norm", "moe_args", "ffn_exp", "vision_args"}
    | {"attn_temperature_tuning"}
)
LLAMA3_VOCABULARY = 128_256
# dim and n_layers of the text models of Llama 3.2, whose scaling has factor 32 wherever it is written down
LLAMA32_SIZES = frozenset({(2048, 16), (3072, 28)})

_LLAMA2 = Architecture(
    config_class="llama's model.py (Llama 1 and 2, where it is a constant)", pairing="interleaved", theta=10_000.0
)
_LLAMA3 = Architecture(config_class="llama-models' ModelArgs", pairing="interleaved", theta=500_000.0, off_layers={})
_LLAMA4 = Architecture(
    config_class="llama-models' ModelArgs",
    pairing="interleaved",
    theta=500_000.0,
    off_layers={},
    query_scale={
        "form": "llama4",
        "layers": "off",
        "default": False,
        "attn_scale": 0.1,
        "floor_scale": 8192.0,
        "offset": 1,
    },
)
_LLAMA4_VISION = Architecture(
    config_class="llama-models' VisionEncoder",
    pairing="interleaved",
    theta=10_000.0,
    theta_fixed=True,
    axes={"kind": "ladders", "names": ["w", "h"]},
    position_note="columns and rows counted from 1; the class token is not turned",
)


def read_meta(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read a params.json of Llama 1 to 4.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    >>> read_meta({"dim": 64, "n_layers": 2, "n_heads": 4, "rope_theta": 500000.0}).rope.pairing
    'interleaved'
    """
    part = read_part("text", Words().take(data, TEXT_WORDS), generation(data), _scaling)
    if "vision_num_cross_attention_layers" in data or "fusion_interval" in data:
        part.reading.source("cross_attention", "between these layers, without RoPE")
    vision = data.get("vision_args")
    return model_of([part, *([_vision(vision)] if isinstance(vision, Mapping) else [])], target=target)


def generation(data: Mapping[str, Any]) -> Architecture:
    """Give the facts of the generation that a file's keys show; they differ where a key is absent."""
    if LLAMA4_KEYS & set(map(str, data)):
        return _LLAMA4
    vocabulary = data.get("vocab_size")
    if LLAMA3_KEYS & set(map(str, data)) or (isinstance(vocabulary, int) and vocabulary >= LLAMA3_VOCABULARY):
        return _LLAMA3
    return _LLAMA2


def _vision(data: Mapping[str, Any]) -> Part:
    return read_part("vision", Words().take(data, VISION_WORDS, "vision_args"), _LLAMA4_VISION)


def _scaling(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    scaled = view.flag("use_scaled_rope")
    if not scaled:
        if scaled is None and view.data.get("rope_scaling_factor") not in (None, 1):
            note_unread(
                view,
                "rope_scaling_factor",
                "rope_scaling_factor counts only beside use_scaled_rope, which the "
                "file does not set, so nothing is scaled. Write use_scaled_rope true if the model was scaled.",
            )
        return Words(), arch
    code = "constant of llama-models' model.py"
    words = Words().take(view.data, {"rope_scaling_factor": "factor", "rope_high_freq_factor": "high_freq_factor"})
    implied = view.number("rope_scaling_factor") is None
    factor, high = (16.0, 1.0) if arch is _LLAMA4 else (8.0, 4.0)
    llama32 = arch is _LLAMA3 and is_llama32(view)
    if implied:
        factor = 32.0 if llama32 else factor
        note_implied(view, factor, "llama-models", llama32=llama32, llama4=arch is _LLAMA4)
    words.put("factor", factor, "released configuration of Llama 3.2" if llama32 else code)
    words.put("low_freq_factor", 1.0, code)
    words.put("high_freq_factor", high, code)
    words.put("original_max_position_embeddings", 8192, code)
    words.put("rope_type", "llama3", view.key("use_scaled_rope"))
    return words, arch


def is_llama32(view: View) -> bool:
    """Tell whether a file has the sizes of Llama 3.2's text models, 1B and 3B."""
    sizes = (view.data.get("hidden_size"), view.data.get("num_hidden_layers"))
    return all(isinstance(size, int) for size in sizes) and sizes in LLAMA32_SIZES


def note_implied(view: View, factor: float, code: str, *, llama32: bool = False, llama4: bool = False) -> None:
    """Warn that a file switches the scaling on and leaves its numbers to the code that loads it."""
    if llama32:
        why = (
            "dim and n_layers are those of Llama 3.2, whose configuration for transformers says 32; "
            f"{code} itself applies 8 where no factor is given"
        )
    elif llama4:
        why = f"16 is the constant of {code}, for Llama 4 Scout"
    else:
        why = f"8 is the constant of {code}, as Llama 3.1 has it; Llama 3.2's text models have 32"
    view.reading.find(
        "scaling-implied",
        key=view.key("use_scaled_rope"),
        seen="true, without a factor",
        right=f"llama3 scaling with factor {factor:g}",
        message=f"use_scaled_rope switches llama3 scaling on and no key gives its factor: {factor:g} is taken. {why}. "
        "Compare with the model's other configuration.",
    )
