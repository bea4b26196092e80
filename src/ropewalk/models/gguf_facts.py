"""What llama.cpp knows about each architecture and a GGUF file does not say, kept as data.

gguf_architectures.json is keyed by general.architecture. Source of every entry: llama.cpp as llama-cpp-python 0.3.36
carries it, `llama_model_rope_type` in src/llama-model.cpp for the pairing and src/models/*.cpp for the rest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

ENGINE = "llama.cpp (as in llama-cpp-python 0.3.36)"
PAIRINGS: Mapping[str, str] = {"norm": "interleaved", "neox": "half", "mrope": "half", "imrope": "half"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which layers attend within a window, and how their rope differs.

    Attributes:
        pattern: a period where the file gives none; None where the file must list the layers.
        dense_first: the layer without a window is the first of a period, else the last.
        needs_window: only where attention.sliding_window is in the file and above 0.
        zero_is_off: attention.sliding_window = 0 switches windows off.
        blocks: only in files of that many layers; None means in all.
        theta: "same": the base of the other layers where the file gives none, "own": 10000.
        scaled: scaling reaches the layers with a window too.
        kind: the layer type, in words.
    """

    pattern: int | None = None
    dense_first: bool = False
    needs_window: bool = False
    zero_is_off: bool = False
    blocks: int | None = None
    theta: str = "own"
    scaled: bool = False
    kind: str = "sliding_attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about one architecture; every default is that of an ordinary decoder.

    Attributes:
        rope: "norm" (interleaved), "neox" (half), "mrope" and "imrope" (half, several axes) or "none".
        sections_rope: what rope becomes where the file has rope.dimension_sections.
        positions: what an architecture without RoPE uses.
        window: layers with a sliding window, or None.
        rope_layers: "all", "window" (the others have no rope), "window or leading", or "pattern" (a list in the file).
        no_rope: layers without rope in a fixed rhythm: every, last (of the period, else the first), with_window.
        switch: rope.scaling.finetuned = false means no rope at all (Granite).
        blocks_without: what files of that many layers use instead of RoPE.
        recurrent: full attention every so many layers, the others are recurrent.
        log_multiplier: what rope.scaling.yarn_log_multiplier was multiplied by when written; None: it is not read.
        mscale_follows: the numerator of YaRN's magnitude is that of all dimensions too (DeepSeek-V2).
        scale_softmax: the softmax scale is multiplied by the square of YaRN's magnitude.
        reads_yarn: llama.cpp reads the YaRN betas from the file.
        beta_fast: YaRN's default where it is not 32.
        truncates: False where the model itself does not round YaRN's range, as llama.cpp does.
        reads_alpha: rope.scaling.alpha raises the base.
        divisors: "all", or "full": rope_freqs is for the layers without a window.
        full_share: part of rope.dimension_count that turns in layers without a window.
        indexer: the pairing of a sparse-attention indexer, or None.
        query_scale: attn_scale, floor_scale and offset of a temperature on layers without rope.
        tail: the rotated channels are the last of a head.
        compressed: layers with a compress ratio turn by attention.compress_rope_freq_base (DeepSeek-V4).
        output_inverse: the attention output is turned back.
        remark: what a user should know, or None.
    """

    rope: str
    sections_rope: str | None = None
    positions: str | None = None
    window: Window | None = None
    rope_layers: str = "all"
    no_rope: Mapping[str, Any] = field(default_factory=dict)
    switch: bool = False
    blocks_without: Mapping[str, str] = field(default_factory=dict)
    recurrent: int | None = None
    log_multiplier: float | None = None
    mscale_follows: bool = False
    scale_softmax: bool = False
    reads_yarn: bool = False
    beta_fast: float = 32.0
    truncates: bool = True
    reads_alpha: bool = False
    divisors: str = "all"
    full_share: float = 1.0
    indexer: str | None = None
    query_scale: Mapping[str, Any] | None = None
    tail: bool = False
    compressed: bool = False
    output_inverse: bool = False
    remark: str | None = None


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = (files("ropewalk.models") / "gguf_architectures.json").read_text(encoding="utf-8")
    return json.loads(text)


def gguf_architectures() -> tuple[str, ...]:
    """Give every general.architecture that the table has facts about."""
    return tuple(_table())


@cache
def gguf_facts(name: str) -> Facts | None:
    """Give the facts about a general.architecture, or None where it is not known.

    >>> gguf_facts("llama").rope, gguf_facts("qwen2").rope
    ('norm', 'neox')
    """
    entry = _table().get(name)
    if entry is None:
        return None
    window = Window(**entry["window"]) if "window" in entry else None
    return Facts(**{**entry, "window": window})
