"""YaRN in a GGUF file: the ramp's keys, and the magnitude that llama.cpp comes to."""

import math

import numpy as np
from numpy.typing import NDArray

from ..scaling import Scaling, Yarn
from ..scaling._frequencies import magnitude
from ._gguf_source import FLOAT32, KEY, Source
from .gguf_divisors import nice


def read_gguf_yarn(
    source: Source,
    label: str | None,
    factor: float,
    divisors: NDArray[np.float64] | None,
    *,
    original: int | None,
    longest: int | None,
) -> Scaling:
    """Read YaRN of all layers, or of those of one label; raises UnreadableError behind an error finding."""
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


def _note_extrapolation(source: Source) -> None:
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


def _betas(source: Source, label: str | None) -> tuple[float, float]:
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
            source.note_unread(key, f"{betas[-1]:g}", f"takes {default:g}")
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


def _mscales(source: Source, label: str | None) -> tuple[float | None, float | None]:
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
        source.note_unread(key, f"{stored:g}", "derives the magnitude from the factor alone")
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
    source: Source, label: str | None, factor: float, mscale: float | None, mscale_all_dim: float | None
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
    extra = source.attn_factor(label)
    if stated is None:
        return None if extra == 1 else derived * extra
    view.reading.source("attention_factor", view.key(key), label)
    if math.isclose(stated, derived, rel_tol=FLOAT32):
        return derived * extra
    if not source.facts.reads_yarn or source.name != "grok":
        source.note_unread(key, f"{stated:g}", f"applies {derived:.9g}")
    return source.tidy(stated) * extra
