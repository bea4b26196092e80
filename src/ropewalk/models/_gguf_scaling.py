"""The scaling of a GGUF file: what its keys and its tensors of divisors say, and what llama.cpp makes of them."""

import math

import numpy as np
from numpy.typing import NDArray

from .._checks import MAX_POSITION, shown
from ..scaling import Default, Linear, LongRope, Scaling
from ._gguf_source import FLOAT32, KEY, Source
from ._gguf_yarn import read_gguf_yarn
from .gguf_divisors import scaling_of, table

TYPES = ("none", "linear", "yarn", "longrope")


def read_gguf_scaling(
    source: Source, label: str | None, *, theta: float, rotary_dim: int, longest: int | None
) -> Scaling:
    """Read the scaling of all layers, or of those of one label; raises UnreadableError behind an error finding."""
    view, facts = source.view, source.facts
    reading = view.reading
    inside = label == "sliding_attention" and facts.window is not None and not facts.window.scaled
    if inside or label == "main":
        reading.source("scaling", source.described, label)
        return Default()
    kind = _kind(source, label)
    factor = _factor(source, kind, label)
    original = view.whole(f"{KEY}original_context_length", at_most=MAX_POSITION)
    lists = {name: source.divisors(f"rope_factors_{name}.weight", rotary_dim) for name in ("short", "long")}
    if all(value is not None for value in lists.values()):
        return _longrope(source, label, kind, lists, original=original, longest=longest)
    alone = next((name for name, value in lists.items() if value is not None), None)
    if alone is not None:
        source.note_lost(
            f"{KEY}type",
            f"the tensor rope_factors_{alone} without its twin",
            f"the file has divisors for {alone} sequences alone: both lists are needed, so it is described unscaled. "
            "Convert the model again.",
        )
    elif kind == "longrope":
        source.note_lost(
            f"{KEY}type",
            "longrope, and no tensors rope_factors_long and rope_factors_short",
            "the file says longrope and has no tensors of divisors: llama.cpp then turns it unscaled, and so it is "
            "described. A GGUF of the vocabulary alone has no tensors; convert a whole model again.",
        )
    applies = facts.divisors == "all" or label in (None, "full_attention")
    divisors = source.divisors("rope_freqs.weight", rotary_dim) if applies else None
    if kind == "yarn":
        return read_gguf_yarn(source, label, factor, divisors, original=original, longest=longest)
    scaling = _static(source, label, kind, factor, divisors, theta=theta, original=original, longest=longest)
    attn_factor = source.attn_factor(label)
    if attn_factor == 1:
        return scaling
    plain = np.ones(rotary_dim // 2) if divisors is None else divisors
    return table(plain * factor, original or longest, attn_factor)


def _kind(source: Source, label: str | None) -> str:
    view = source.view
    kind = view.data.get(f"{KEY}type")
    if kind is None:
        view.reading.source("scaling", "missing", label)
        return "linear"
    if kind not in TYPES:
        raise view.reading.fail(
            "rope-type-unknown",
            key=view.key(f"{KEY}type"),
            seen=shown(kind),
            right=f"one of {', '.join(TYPES)}",
            message=f"{view.key(f'{KEY}type')} is {shown(kind)}; GGUF knows {', '.join(TYPES)}. Convert it again.",
        )
    view.reading.source("scaling", view.key(f"{KEY}type"), label)
    return kind


def _factor(source: Source, kind: str, label: str | None) -> float:
    """Give the factor; 0 and an absent one mean 1, as in llama.cpp."""
    view = source.view
    name = view.first((f"{KEY}factor", "rope.scale_linear"))
    factor = None if name is None else source.tidy(view.number(name, at_least=0) or 0.0)
    if name == "rope.scale_linear":
        view.reading.find(
            "old-spelling", key=view.key(name), seen="rope.scale_linear", right=f"{KEY}factor",
            message=f"{view.key(name)} is the spelling of early GGUFs; it is read as {KEY}factor.",
        )  # fmt: skip
    if name is not None and factor and kind != "none":
        view.reading.source("factor", view.key(name), label)
    if kind == "yarn" and not factor:
        source.note_lost(
            f"{KEY}factor",
            "yarn without a factor",
            "the file says yarn and gives no factor: llama.cpp then stretches by 1. The converter lost it; compare "
            "with the model's config.json and convert again.",
        )
    if kind == "linear" and not factor and f"{KEY}type" in view:
        source.note_lost(
            f"{KEY}factor",
            "linear without a factor",
            "the file says linear and gives no factor, which llama.cpp reads as no scaling. If the model was "
            "stretched, the converter lost the factor; compare with its config.json.",
        )
    if kind == "none":
        if factor not in (None, 0.0, 1.0) and name is not None:
            view.reading.find(
                "key-unused", key=view.key(name), seen=f"{factor:g}", right="no factor beside type none",
                message=f"{view.key(name)} is {factor:g}, but the type is none, so nothing is scaled.",
            )  # fmt: skip
        return 1.0
    return factor or 1.0


def _longrope(
    source: Source,
    label: str | None,
    kind: str,
    lists: dict[str, NDArray[np.float64] | None],
    *,
    original: int | None,
    longest: int | None,
) -> Scaling:
    view = source.view
    reading = view.reading
    if kind in ("linear", "yarn") and f"{KEY}type" in view:
        reading.find(
            "key-unused", key=view.key(f"{KEY}type"), seen=kind, right="longrope",
            message=f"{view.key(f'{KEY}type')} is {kind}, but the file holds rope_factors_long and rope_factors_short: "
            "they are described.",
        )  # fmt: skip
    switch = original or longest
    if switch is None or switch < 2:
        raise reading.fail(
            "key-missing",
            key=view.key(f"{KEY}original_context_length"),
            seen="absent",
            right="the length trained before stretching",
            message="the file has two lists of divisors, but neither original_context_length nor context_length says "
            "where one gives way to the other. Convert the model again.",
        )
    key = view.key(f"{KEY}original_context_length")
    reading.source("original_max_position_embeddings", key if original else view.key("context_length"), label)
    if original is None:
        reading.find(
            "original-length-default", key=key, seen="absent", right=f"{switch}, of context_length",
            message="the file does not say where the long list takes over; as in llama.cpp that is past "
            f"context_length, {switch}, so the short one is always used. Compare with the model's config.json.",
        )  # fmt: skip
    for name in lists:
        reading.source(f"{name}_factor", f"tensor rope_factors_{name}.weight", label)
    short, long = (tuple(values.tolist()) for values in lists.values() if values is not None)
    return LongRope(
        short_factor=short,
        long_factor=long,
        original_max_position_embeddings=switch,
        attention_factor=_longrope_magnitude(source, label, switch, longest),
    )


def _longrope_magnitude(source: Source, label: str | None, switch: int, longest: int | None) -> float | None:
    """Give the stated magnitude, or None where it is the one that longrope derives from the lengths."""
    derived = 1.0
    if longest is not None and longest > switch:
        derived = math.sqrt(1 + math.log(longest / switch) / math.log(switch))
    stated = source.attn_factor(label)
    if longest is not None and math.isclose(stated, derived, rel_tol=FLOAT32):
        return None
    if f"{KEY}attn_factor" not in source.view:
        source.note_lost(
            f"{KEY}attn_factor",
            f"absent, where {derived:.9g} would follow from the lengths",
            f"there is no attn_factor, so llama.cpp multiplies cos and sin by 1; longrope derives {derived:.9g} from "
            "the lengths. Compare with the model's config.json.",
        )
    return stated


def _static(
    source: Source,
    label: str | None,
    kind: str,
    factor: float,
    divisors: NDArray[np.float64] | None,
    *,
    theta: float,
    original: int | None,
    longest: int | None,
) -> Scaling:
    view = source.view
    reading = view.reading
    if divisors is None:
        scaling: Scaling = Default() if factor == 1 else Linear(factor=factor)
        if factor == 1 and original and longest and longest > original and kind == "linear":
            source.note_lost(
                f"{KEY}original_context_length",
                f"original {original}, context {longest}, no scaling",
                f"the file gives an original length of {original} and a context of {longest}, but no scaling that "
                "takes one to the other. The converter lost it; compare with the model's config.json.",
            )
    else:
        scaling, how = scaling_of(divisors * factor, theta, length=longest, original=original)
        origin = f"tensor rope_freqs.weight, {how}"
        reading.sources.pop(".".join(filter(None, (reading.part, label, "scaling"))), None)
        reading.source("scaling", origin, label)
        if how.startswith("fitted"):
            reading.find(
                "frequencies-fitted",
                key="rope_freqs.weight",
                seen=f"{len(divisors)} divisors",
                right=shown(scaling),
                message=f"GGUF stores divisors, not parameters: {scaling.rope_type} with the parameters shown "
                "reproduces every divisor to float32. Other parameters may give the same divisors.",
            )
        elif isinstance(scaling, LongRope):
            reading.find(
                "gguf-table",
                key="rope_freqs.weight",
                seen=f"{len(divisors)} divisors",
                right="the divisors themselves, at every length",
                message="no known scaling reproduces the divisors of rope_freqs.weight, so they are kept as they are: "
                "a longrope whose two lists are equal.",
            )
    return scaling
