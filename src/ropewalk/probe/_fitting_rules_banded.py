"""The scalings that treat fast and slow pairs differently, and the known mistakes in them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fitting.numbers import Array
from ..inspection import number_words
from ..rope import Rope
from ..scaling import Llama3, Scaling, Yarn
from ._fitting_rule import Function, Rule


def llama3_rules(scaling: Llama3, rope: Rope, length: int | None) -> Iterator[Rule]:
    low, high = scaling.low_freq_factor, scaling.high_freq_factor

    def banded(between: Callable[[Array, Array, float], Array], original: float) -> Function:
        def frequencies(w: Array, theta: float, s: float, i: NDArray[np.int64], d: int) -> Array:
            turns = original * w / (2 * math.pi)
            kept = np.clip((turns - low) / (high - low), 0, 1) if high > low else (turns > high).astype(float)
            wavelength = np.clip((1 / turns - 1 / high) / (1 / low - 1 / high), 0, 1) if high > low else 1 - kept
            with np.errstate(all="ignore"):
                middle = between(kept, wavelength, s)
            return w * np.where(kept >= 1, 1.0, np.where(kept <= 0, 1 / s, middle))

        return frequencies

    original = scaling.original_max_position_embeddings
    right = "1/((1-t)/s + t), t linear in frequency"
    yield Rule(
        function=banded(lambda t, u, s: (1 - t) / s + t, original),
        scaling=lambda s: replace(scaling, factor=s),
        factor=scaling.factor,
    )
    wavelength = "llama3-ramp-in-wavelength"
    mistakes: list[tuple[str | None, str, Callable[[Array, Array, float], Array]]] = [
        ("llama3-precedence", "the middle band divided by 1/(1-t)*s + t", lambda t, u, s: 1 / (s / (1 - t) + t)),
        (wavelength, "a reversed ramp of divisors over the wavelength", lambda t, u, s: 1 / ((1 - u) * s + u)),
        (wavelength, "a ramp of divisors over the wavelength", lambda t, u, s: 1 / ((1 - u) + u * s)),
        (wavelength, "a reversed ramp over the wavelength", lambda t, u, s: (1 - u) / s + u),
        (wavelength, "a ramp over the wavelength", lambda t, u, s: (1 - u) + u / s),
        (None, "the ramp reversed", lambda t, u, s: t / s + (1 - t)),
        (None, "divisors blended instead of frequencies", lambda t, u, s: 1 / ((1 - t) * s + t)),
        (None, "the middle band kept", lambda t, u, s: np.ones_like(t)),
        (None, "the middle band divided by the whole factor", lambda t, u, s: np.full_like(t, 1 / s)),
    ]
    if high > low:
        for slug, words, between in mistakes:
            yield Rule(
                slug=slug,
                words=words,
                right=right,
                function=banded(between, original),
                scaling=lambda s: None,
                factor=scaling.factor,
            )
    yield from _other_length(scaling, rope, lambda L: banded(lambda t, u, s: (1 - t) / s + t, L))


def yarn_rules(scaling: Yarn, rope: Rope, length: int | None) -> Iterator[Rule]:
    def blend(
        *,
        original: float = scaling.original_max_position_embeddings,
        fast: float = scaling.beta_fast,
        slow: float = scaling.beta_slow,
        truncate: bool = scaling.truncate,
        clamp: Callable[[int], float] = lambda d: d - 1,
        way: str = "",
    ) -> Function:
        def frequencies(w: Array, theta: float, s: float, i: NDArray[np.int64], d: int) -> Array:
            if not theta > 1:
                return np.full_like(w, math.nan)
            if s == 1 and not way:
                return w
            low, high = (d * math.log(original / (2 * math.pi * beta)) / (2 * math.log(theta)) for beta in (fast, slow))
            if truncate:
                low, high = math.floor(low), math.ceil(high)
            low, high = max(low, 0), min(high, clamp(d))
            span = high - low if high != low else 0.001
            ramp = np.clip((i - low) / span, 0, 1)
            kept, slowed = w, w / s
            if way == "inverted":
                ramp = 1 - ramp
            if way == "power":
                slowed = w * s ** (-2 * i / d)
            if way == "ntk" and d > 2:
                kept = w * s ** (-2 * i / (d - 2))
            return slowed * ramp + kept * (1 - ramp)

        return frequencies

    def rule(slug: str | None, words: str, right: str, function: Function, **changes: Any) -> Rule:
        def same(s: float) -> Scaling | None:
            return replace(scaling, factor=s, **changes) if changes else None

        return Rule(slug=slug, words=words, right=right, function=function, scaling=same, factor=scaling.factor)

    yield Rule(function=blend(), scaling=lambda s: replace(scaling, factor=s), factor=scaling.factor)
    if scaling.factor == 1:
        return
    rounded, raw = "the ramp's bounds rounded to whole pairs", "the ramp's bounds as they are (truncate false)"
    if scaling.truncate:
        rounded, raw = raw.replace("(truncate false)", "(not rounded)"), "the ramp's bounds rounded (truncate true)"
    flipped = not scaling.truncate
    yield rule("yarn-rounded", rounded, raw, blend(truncate=flipped), truncate=flipped)
    right = "the upper bound clamped to R-1"
    yield rule("yarn-clamp-half", "the ramp's upper bound clamped to R/2-1", right, blend(clamp=lambda d: d // 2 - 1))
    right = "fast pairs kept, slow pairs divided"
    yield rule("yarn-ramp-inverted", "fast pairs divided, slow pairs kept", right, blend(way="inverted"))
    words = "beta_fast and beta_slow swapped, which inverts the ramp"
    swapped = blend(fast=scaling.beta_slow, slow=scaling.beta_fast)
    yield rule("yarn-ramp-inverted", words, right, swapped)
    words = "the factor inside the power, (s·θ)^(-2i/R)"
    yield rule("yarn-factor-in-power", words, "slow pairs divided by the factor, θ^(-2i/R)/s", blend(way="power"))
    words = "fast pairs of an NTK-stretched base"
    yield rule("yarn-ntk-base", words, "fast pairs keep their own base", blend(way="ntk"))
    if (scaling.beta_fast, scaling.beta_slow) != (32.0, 1.0):
        words = "the default betas 32 and 1"
        right = f"betas {number_words(scaling.beta_fast)} and {number_words(scaling.beta_slow)}"
        yield rule(None, words, right, blend(fast=32.0, slow=1.0), beta_fast=32.0, beta_slow=1.0)
    yield from _other_length(scaling, rope, lambda L: blend(original=L))


def _other_length(scaling: Any, rope: Rope, of: Callable[[float], Function]) -> Iterator[Rule]:
    """Give the mistake of taking the stretched length for the original one."""
    original = scaling.original_max_position_embeddings
    stretched = {rope.max_position_embeddings, round(original * scaling.factor)} - {None, original}
    for length in sorted(one for one in stretched if one is not None):
        yield Rule(
            words=f"the bands of an original length of {length}",
            right=f"the bands of original_max_position_embeddings {original}",
            function=of(float(length)),
            scaling=lambda s, length=length: replace(scaling, factor=s, original_max_position_embeddings=length),
            factor=scaling.factor,
        )
