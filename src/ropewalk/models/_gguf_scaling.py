"""The scaling of a GGUF file: what its keys and its tensors of divisors say, and what llama.cpp makes of them."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._checks import MAX_POSITION, shown
from ..errors import RopewalkError
from ..scaling import Default, Linear, LongRope, Scaling, Yarn
from ..scaling._frequencies import magnitude
from .gguf_divisors import nice, scaling_of, table
from .gguf_facts import ENGINE

if TYPE_CHECKING:
    from ._gguf_ropes import Source

TYPES = ("none", "linear", "yarn", "longrope")
KEY = "rope.scaling."
FLOAT32 = 1e-6  # two roads to a number agree to float32


def read_gguf_scaling(
    source: "Source", label: str | None, *, theta: float, rotary_dim: int, longest: int | None
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
    lists = {name: _divisors(source, f"rope_factors_{name}.weight", rotary_dim) for name in ("short", "long")}
    if all(value is not None for value in lists.values()):
        return _longrope(source, label, kind, lists, original=original, longest=longest)
    alone = next((name for name, value in lists.items() if value is not None), None)
    if alone is not None:
        _lost(
            source,
            f"{KEY}type",
            f"the tensor rope_factors_{alone} without its twin",
            f"the file has divisors for {alone} sequences alone: both lists are needed, so it is described unscaled. "
            "Convert the model again.",
        )
    elif kind == "longrope":
        _lost(
            source,
            f"{KEY}type",
            "longrope, and no tensors rope_factors_long and rope_factors_short",
            "the file says longrope and has no tensors of divisors: llama.cpp then turns it unscaled, and so it is "
            "described. A GGUF of the vocabulary alone has no tensors; convert a whole model again.",
        )
    applies = facts.divisors == "all" or label in (None, "full_attention")
    divisors = _divisors(source, "rope_freqs.weight", rotary_dim) if applies else None
    if kind == "yarn":
        return _yarn(source, label, factor, divisors, original=original, longest=longest)
    scaling = _static(source, label, kind, factor, divisors, theta=theta, original=original, longest=longest)
    attn_factor = _attn_factor(source, label)
    if attn_factor == 1:
        return scaling
    plain = np.ones(rotary_dim // 2) if divisors is None else divisors
    return table(plain * factor, original or longest, attn_factor)


def _kind(source: "Source", label: str | None) -> str:
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


def _factor(source: "Source", kind: str, label: str | None) -> float:
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
        _lost(
            source,
            f"{KEY}factor",
            "yarn without a factor",
            "the file says yarn and gives no factor: llama.cpp then stretches by 1. The converter lost it; compare "
            "with the model's config.json and convert again.",
        )
    if kind == "linear" and not factor and f"{KEY}type" in view:
        _lost(
            source,
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


def _lost(source: "Source", key: str, seen: str, message: str) -> None:
    source.view.reading.find(
        "gguf-scale-lost",
        key=source.view.key(key),
        seen=seen,
        right="unscaled, as llama.cpp turns it",
        message=message,
    )


def _divisors(source: "Source", name: str, rotary_dim: int) -> NDArray[np.float64] | None:
    """Give a tensor of divisors, one for each pair, from whichever part has it."""
    reading = source.view.reading
    for header in source.headers:
        try:
            values = header.floats(name)
        except RopewalkError as error:
            raise reading.fail(
                "value-unusable", key=name, seen="a tensor that cannot be read", right="a row of float32",
                message=str(error),
            ) from error  # fmt: skip
        if values is None:
            continue
        pairs = rotary_dim // 2
        if len(values) < pairs or (len(values) > pairs and source.facts.full_share == 1):
            raise reading.fail(
                "list-length",
                key=name,
                seen=f"{len(values)} entries",
                right=f"rotary_dim/2 = {pairs} entries",
                message=f"{name} has {len(values)} entries; it needs one for each pair, rotary_dim/2 = {pairs}. "
                "Convert the model again.",
            )
        values = values[:pairs]
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise reading.fail(
                "value-unusable", key=name, seen="a divisor that is not finite and above 0", right="divisors above 0",
                message=f"{name} must hold finite numbers above 0, one for each pair. Convert the model again.",
            )  # fmt: skip
        return values
    return None


def _attn_factor(source: "Source", label: str | None) -> float:
    value = source.view.number(f"{KEY}attn_factor", above=0)
    if value is None:
        return 1.0
    source.view.reading.source("attention_factor", source.view.key(f"{KEY}attn_factor"), label)
    return source.tidy(value)


def _longrope(
    source: "Source",
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


def _longrope_magnitude(source: "Source", label: str | None, switch: int, longest: int | None) -> float | None:
    """Give the stated magnitude, or None where it is the one that longrope derives from the lengths."""
    derived = 1.0
    if longest is not None and longest > switch:
        derived = math.sqrt(1 + math.log(longest / switch) / math.log(switch))
    stated = _attn_factor(source, label)
    if longest is not None and math.isclose(stated, derived, rel_tol=FLOAT32):
        return None
    if f"{KEY}attn_factor" not in source.view:
        _lost(
            source,
            f"{KEY}attn_factor",
            f"absent, where {derived:.9g} would follow from the lengths",
            f"there is no attn_factor, so llama.cpp multiplies cos and sin by 1; longrope derives {derived:.9g} from "
            "the lengths. Compare with the model's config.json.",
        )
    return stated


def _yarn(
    source: "Source",
    label: str | None,
    factor: float,
    divisors: NDArray[np.float64] | None,
    *,
    original: int | None,
    longest: int | None,
) -> Scaling:
    view, facts = source.view, source.facts
    reading = view.reading
    if divisors is not None:
        raise reading.fail(
            "scaling-impossible", key="rope_freqs.weight", seen="yarn and a tensor of divisors", right="one of the two",
            message="the file has both yarn scaling and rope_freqs.weight; ropewalk describes one of the two. Convert "
            "the model again.",
        )  # fmt: skip
    _note_extrapolation(source)
    if original is None:
        if longest is None:
            raise reading.fail(
                "key-missing", key=view.key(f"{KEY}original_context_length"), seen="absent",
                right="the length trained before stretching",
                message="yarn scaling needs original_context_length, or context_length in its place. Convert the "
                "model again.",
            )  # fmt: skip
        original = longest
        reading.find(
            "original-length-default",
            key=view.key(f"{KEY}original_context_length"),
            seen="absent",
            right=f"the length trained before stretching; {longest} is taken",
            message=f"yarn scaling has no original_context_length, so context_length = {longest} is taken, as "
            "llama.cpp does. If that is the stretched length, the range of pairs is wrong.",
        )
        reading.source("original_max_position_embeddings", view.key("context_length"), label)
    else:
        reading.source("original_max_position_embeddings", view.key(f"{KEY}original_context_length"), label)
    fast, slow = _betas(source, label)
    mscale, mscale_all_dim = _mscales(source, label)
    if not facts.truncates:
        reading.find(
            "gguf-engine",
            key=view.key(f"{KEY}type"),
            seen="yarn without a key for truncate",
            right="a range rounded to whole pairs, as llama.cpp has it",
            message=f"{source.name} was trained with truncate false, which GGUF has no key for: llama.cpp rounds the "
            "range of the ramp to whole pairs. What llama.cpp turns is described.",
        )
    return Yarn(
        factor=factor,
        original_max_position_embeddings=original,
        beta_fast=fast,
        beta_slow=slow,
        attention_factor=_yarn_magnitude(source, label, factor, mscale, mscale_all_dim),
        mscale=mscale,
        mscale_all_dim=mscale_all_dim,
        scale_softmax=facts.scale_softmax,
    )


def _note_extrapolation(source: "Source") -> None:
    view = source.view
    weight = view.number(f"{KEY}yarn_ext_factor")
    if weight is None or weight in (1, -1):
        return
    view.reading.find(
        "gguf-ext-factor",
        key=view.key(f"{KEY}yarn_ext_factor"),
        seen=f"{weight:g}",
        right="1, or no key",
        message=f"yarn_ext_factor is {weight:g}. It weighs the pairs that are kept and is 1 in YaRN (0 leaves none); a "
        "converter has probably written the scaling factor into it. 1 is described.",
    )


def _betas(source: "Source", label: str | None) -> tuple[float, float]:
    view, facts = source.view, source.facts
    betas = []
    for name, default in (("beta_fast", facts.beta_fast), ("beta_slow", 1.0)):
        key = f"{KEY}yarn_{name}"
        value = view.number(key, at_least=0)
        if not value:
            view.reading.source(name, source.described, label)
            betas.append(default)
            continue
        view.reading.source(name, view.key(key), label)
        betas.append(source.tidy(value))
        if betas[-1] != default and not facts.reads_yarn:
            _note_unread(source, key, f"{betas[-1]:g}", f"takes {default:g}")
    if betas[0] < betas[1]:
        raise view.reading.fail(
            "betas-swapped",
            key=view.key(f"{KEY}yarn_beta_fast"),
            seen=f"beta_fast {betas[0]:g}, beta_slow {betas[1]:g}",
            right="beta_fast at least beta_slow",
            message=f"yarn_beta_fast = {betas[0]:g} is below yarn_beta_slow = {betas[1]:g}: the ramp would run "
            "backwards. They look swapped.",
        )
    return betas[0], betas[1]


def _note_unread(source: "Source", key: str, seen: str, instead: str) -> None:
    source.view.reading.find(
        "gguf-engine",
        key=source.view.key(key),
        seen=seen,
        right=f"{seen}, as the file says",
        message=f"{source.view.key(key)} is {seen}; {ENGINE} does not read this key for {source.name} and {instead}.",
    )


def _mscales(source: "Source", label: str | None) -> tuple[float | None, float | None]:
    """Give mscale and mscale_all_dim out of yarn_log_multiplier, which some converters multiply by 0.1 first."""
    view, facts = source.view, source.facts
    key = f"{KEY}yarn_log_multiplier"
    stored = view.number(key, at_least=0)
    if not stored:
        return None, None
    scale = facts.log_multiplier or 1.0
    multiplier = nice(float(np.float32(nice(stored) / scale)))
    times = "" if scale == 1 else f" / {scale:g}"
    view.reading.source("mscale_all_dim", f"{view.key(key)}{times}", label)
    if facts.log_multiplier is None:
        _note_unread(source, key, f"{stored:g}", "derives the magnitude from the factor alone")
    if (scale != 1 and multiplier > 5) or (scale == 1 and multiplier < 0.2):
        view.reading.find(
            "gguf-log-multiplier",
            key=view.key(key),
            seen=f"{stored:g}",
            right=f"{multiplier / 10 * scale if scale != 1 else multiplier * 10:g}",
            message=f"{view.key(key)} is {stored:g}, which means a multiplier of {multiplier:g} for {source.name}; "
            "published models have about 0.7 to 1. Converters of DeepSeek store a tenth of the number and those of "
            "Mistral the number itself: this one seems to have taken the other's rule.",
        )
    return multiplier if facts.mscale_follows else 1.0, multiplier


def _yarn_magnitude(
    source: "Source", label: str | None, factor: float, mscale: float | None, mscale_all_dim: float | None
) -> float | None:
    view = source.view
    if source.facts.compressed:  # DeepSeek-V4's code applies none
        view.reading.source("attention_factor", source.described, label)
        return 1.0
    derived = magnitude(factor)
    if mscale and mscale_all_dim:
        derived = magnitude(factor, mscale) / magnitude(factor, mscale_all_dim)
    key = f"{KEY}yarn_attn_factor"
    stated = view.number(key, above=0)
    extra = _attn_factor(source, label)
    if stated is None:
        return None if extra == 1 else derived * extra
    view.reading.source("attention_factor", view.key(key), label)
    if math.isclose(stated, derived, rel_tol=FLOAT32):
        return derived * extra
    if not source.facts.reads_yarn or source.name != "grok":
        _note_unread(source, key, f"{stated:g}", f"applies {derived:.9g}")
    return source.tidy(stated) * extra


def _static(
    source: "Source",
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
            _lost(
                source,
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
