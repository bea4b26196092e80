"""LitGPT's configurations.

Source: Lightning-AI/litgpt 2685705 `litgpt/config.py` (Config) and `litgpt/model.py` (GPT.rope_cache,
build_rope_cache, apply_rope, apply_rope_interleave).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..scaling._frequencies import magnitude
from ._homes import object_under
from ._reading import View
from ._words import Words, model_of, read_part
from .architectures import Architecture, Label
from .model import Model

TEXT_WORDS = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "head_size": "head_dim",
    "rope_base": "rope_theta",
    "block_size": "max_position_embeddings",
    "rotary_percentage": "partial_rotary_factor",
    "rope_n_elem": "rotary_dim",
    "rope_interleave": "rope_interleave",
    "rope_condense_ratio": "rope_condense_ratio",
    "rope_adjustments": "rope_adjustments",
    "rope_local_base_freq": "rope_local_base_freq",
}
LLAMA3_WORDS = {
    "factor": "factor",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_max_seq_len": "original_max_position_embeddings",
}
YARN_WORDS = {
    "factor": "factor",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "original_max_seq_len": "original_max_position_embeddings",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim",
}
YARN_REQUIRED = ("factor", "beta_fast", "beta_slow", "original_max_seq_len")

_TEXT = Architecture(
    config_class="LitGPT's Config",
    theta=10_000.0,
    partial_rotary_factor=0.25,
    pairing_key="rope_interleave",
    defaults={
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 16,
        "max_position_embeddings": 4096,
    },
)


def read_litgpt(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read a configuration of LitGPT.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    >>> data = {"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 2048, "rope_base": 10000}
    >>> read_litgpt({**data, "rotary_percentage": 0.5}).rope.width
    8
    """
    words = Words().take(data, TEXT_WORDS)
    arch = _TEXT
    local = data.get("rope_local_base_freq") is not None
    flags, key = data.get("rope_indices" if local else "sliding_window_indices"), "rope_indices"
    if not local:
        key = "sliding_window_indices"
        flags = flags if data.get("sliding_window_size") is not None else None
    count = data.get("n_layer")
    if local and flags is None and isinstance(count, int) and 0 < count <= 10_000:
        flags = [1] * count  # LitGPT's default: every layer takes the local base
    if isinstance(flags, list | tuple):
        kinds = {0: "full_attention", 1: "sliding_attention"}
        whole = isinstance(count, int) and 0 < count < len(flags)
        entries = flags[:count] if whole else flags
        words.put("layer_types", [kinds.get(flag, flag) if isinstance(flag, int) else flag for flag in entries], key)
    if local:
        labels = {
            "full_attention": Label(theta_keys=("rope_theta",)),
            "sliding_attention": Label(theta_keys=("rope_local_base_freq",), scaled=False),
        }
        arch = replace(arch, labels=labels)
    latent = data.get("latent_attention")
    if isinstance(latent, Mapping):
        words.take(latent, {"qk_rope_head_dim": "qk_rope_head_dim"}, "latent_attention")
        arch = replace(arch, head_dim_keys=("qk_rope_head_dim",), ignore_partial=True, partial_rotary_factor=None)
    return model_of([read_part("text", words, arch, _scaling)], target=target)


def _scaling(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    block = object_under(view, "rope_adjustments")
    ratio = view.number("rope_condense_ratio", above=0)
    given = {key for key in block or {} if block and block[key] is not None}
    if not given & {"low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "factor"}:
        return (Words(), arch) if ratio in (None, 1.0) else (_condensed(view), _for_all(view, arch))
    assert block is not None
    if ratio not in (None, 1.0):
        raise view.reading.fail(
            "form-outside-scope",
            key=view.key("rope_condense_ratio"),
            seen=f"{ratio:g} beside rope_adjustments",
            right="one of the two",
            message="rope_condense_ratio divides the positions on top of rope_adjustments, two scalings at once, which "
            "a description of one scaling cannot hold. No rope is described.",
        )
    path = "rope_adjustments"
    if given & {"low_freq_factor", "high_freq_factor"}:
        if given & {"beta_fast", "beta_slow"}:
            raise view.reading.fail(
                "rope-type-conflict",
                key=view.key("rope_adjustments"),
                seen="keys of llama3 and of yarn",
                right="the keys of one of the two",
                message="rope_adjustments holds keys of llama3 scaling and of YaRN; LitGPT refuses that. Keep one.",
            )
        words = Words().take(block, LLAMA3_WORDS, path).put("path", path, "")
        return words.put("rope_type", "llama3", "LitGPT's build_rope_cache"), arch
    if given & {"beta_fast", "beta_slow"}:
        return _yarn(view, block, path), arch
    words = Words().take(block, {"factor": "factor"}, path).put("path", path, "")
    return words.put("rope_type", "linear", "LitGPT's build_rope_cache"), arch


def _condensed(view: View) -> Words:
    words = Words().take(view.data, {"rope_condense_ratio": "factor"})
    return words.put("rope_type", "linear", view.key("rope_condense_ratio"))


def _for_all(view: View, arch: Architecture) -> Architecture:
    """Let the condensed positions reach the local base too, as LitGPT's table does."""
    labels = {name: replace(label, scaled=True) for name, label in arch.labels.items()}
    return replace(arch, labels=labels)


def _yarn(view: View, block: Mapping[str, Any], path: str) -> Words:
    words = Words().take(block, YARN_WORDS, path).put("path", path, "")
    inner = words.view(view.reading, path)
    for key in YARN_REQUIRED:
        if block.get(key) is None:
            raise view.reading.fail(
                "key-missing",
                key=f"{path}.{key}",
                seen="absent",
                right=f"a value for {key}",
                message=f"LitGPT's YaRN needs {key} in rope_adjustments, which is not there. Add it.",
            )
    factor = inner.number("factor", above=0)
    over, under = inner.number("mscale", at_least=0), inner.number("mscale_all_dim", at_least=0)
    if factor is not None and not (over and under):  # LitGPT: one of them alone counts, none means no magnitude
        alone = over or under
        words.put("attention_factor", magnitude(factor, alone) if alone else 1.0, "LitGPT's build_rope_cache")
    view.reading.find(
        "ramp-inverted",
        key=f"{path}.beta_fast",
        seen="a YaRN block",
        right="fast pairs kept, slow pairs divided by the factor",
        message="LitGPT 2685705 blends the wrong way round: its ramp divides the fast pairs by the factor and keeps "
        "the slow ones. What the keys mean, and what the other engines compute, is described; LitGPT itself differs.",
    )
    return words.put("rope_type", "yarn", "LitGPT's build_rope_cache")
