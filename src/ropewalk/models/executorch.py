"""ExecuTorch's llama params: Meta-like files that say which of two RoPE implementations runs.

Source: pytorch/executorch cff6f4dd `examples/models/llama/{model_args,rope,model}.py`; local_rope_theta, layer_types
and no_rope_layer_interval as `examples/qualcomm/oss_scripts/llama/model/static_llama.py` reads them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ._reading import View
from ._words import Words, model_of, note_unread, read_part
from .architectures import Architecture, Label
from .meta import is_llama32, note_implied
from .model import Model

TEXT_WORDS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "head_dim": "head_dim",
    "rope_theta": "rope_theta",
    "rope_freq_base": "rope_theta",
    "local_rope_theta": "local_rope_theta",
    "partial_rotary_factor": "partial_rotary_factor",
    "layer_types": "layer_types",
    "no_rope_layer_interval": "no_rope_layer_interval",
    "max_position_embeddings": "max_position_embeddings",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "use_hf_rope": "use_hf_rope",
    "use_scaled_rope": "use_scaled_rope",
    "rope_scale_factor": "rope_scale_factor",
    "high_freq_factor": "high_freq_factor",
    "rope_scaling_short_factor": "short_factor",
    "rope_scaling_long_factor": "long_factor",
    "rope_scaling_attention_factor": "attention_factor",
}
LISTS = ("short_factor", "long_factor")

_TEXT = Architecture(
    config_class="ExecuTorch's ModelArgs", theta=10_000.0, off_layers={}, off_kinds=("skip_attention",)
)


def read_executorch(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read a params file of ExecuTorch's llama example.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    >>> params = {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 256, "rope_theta": 10000.0}
    >>> [read_executorch({**params, "use_hf_rope": flag}).rope.pairing for flag in (True, False)]
    ['half', 'interleaved']
    """
    return model_of([read_part("text", Words().take(data, TEXT_WORDS), _TEXT, _rope)], target=target)


def _rope(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    half = bool(view.flag("use_hf_rope"))
    labels = {}
    if view.number("local_rope_theta", above=0) is not None:
        labels = {
            "sliding_attention": Label(theta_keys=("local_rope_theta",), scaled=False),
            "full_attention": Label(theta_keys=("rope_theta",)),
        }
    for label in (None, *labels):
        view.reading.source("pairing", view.key("use_hf_rope") if "use_hf_rope" in view else arch.described(), label)
    arch = replace(arch, pairing="half" if half else "interleaved", ignore_partial=not half, labels=labels)
    _note_unread(view, half)
    return (_longrope(view), arch) if half else (_llama3(view), arch)


def _note_unread(view: View, half: bool) -> None:
    names = ("use_scaled_rope",) if half else ("partial_rotary_factor", *LISTS)
    for name in names:
        value = view.data.get(name)
        if value is None or value is False or (name == "partial_rotary_factor" and value == 1):
            continue
        when = "true" if half else "false or absent"
        note_unread(
            view,
            name,
            f"{view.key(name)} is not read where use_hf_rope is {when}: ExecuTorch's other RoPE reads it.",
        )


def _longrope(view: View) -> Words:
    if not any(name in view for name in LISTS):
        return Words()
    words = Words()
    names = (*LISTS, "original_max_position_embeddings", "attention_factor")
    for name in names:
        words.origins[name] = view.key(name)
        if name in view.data:
            words.data[name] = view.data[name]
    for name, other in (LISTS, LISTS[::-1]):  # a list that is absent is the other one
        words.put(name, view.data.get(other), view.key(other))
    return words.put("rope_type", "longrope", view.key("short_factor"))


def _llama3(view: View) -> Words:
    if not view.flag("use_scaled_rope"):
        return Words()
    code = "constant of ExecuTorch's rope.py"
    words = Words().take(view.data, {"rope_scale_factor": "factor", "high_freq_factor": "high_freq_factor"})
    if view.number("rope_scale_factor") is None:
        llama32 = is_llama32(view)
        factor = 32.0 if llama32 else 8.0
        note_implied(view, factor, "ExecuTorch's ModelArgs", llama32=llama32)
        words.put("factor", factor, "released configuration of Llama 3.2" if llama32 else "default of ModelArgs")
    words.put("low_freq_factor", 1.0, code)
    words.put("high_freq_factor", 4.0, "default of ExecuTorch's ModelArgs")
    words.put("original_max_position_embeddings", 8192, code)
    return words.put("rope_type", "llama3", view.key("use_scaled_rope"))
