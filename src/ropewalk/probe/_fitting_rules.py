"""What a declared scaling should give, and what the known mistakes make of it: one function each."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fitting.numbers import Array
from ..inspection import number_words
from ..rope import Rope
from ..scaling import Default, Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Scaling, Yarn

Function = Callable[[Array, float, float, NDArray[np.int64], int], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One way to make frequencies.

    Attributes:
        slug: of the mistake; None for the right way, or a mistake without a name of its own.
        words: what was seen; "" for the right way.
        right: what is right, in words.
        function: (the plain ladder w_i, theta, factor, i, R) -> frequencies.
        scaling: the known scaling that gives the same, by factor; None where none does.
        factor: the declared s, or None where the rule has none.
    """

    slug: str | None = None
    words: str = ""
    right: str = ""
    function: Function
    scaling: Callable[[float], Scaling | None]
    factor: float | None = None


def rules(rope: Rope, length: int | None) -> Iterator[Rule]:
    """Give the declared rule first, then each mistake that can be made of it."""
    scaling, lmax = rope.scaling, rope.max_position_embeddings
    yield from _MAKERS[scaling.rope_type](scaling, rope, length)
    declared = f"{scaling.rope_type} scaling"
    if not isinstance(scaling, Default):
        unscaled = isinstance(scaling, Dynamic) and (length is None or lmax is None or length <= lmax)
        if isinstance(scaling, LongRope):
            unscaled = set(scaling.short_factor) == {1.0}  # then the short list says it
        if not unscaled:
            yield Rule(
                slug="unscaled",
                words="unscaled",
                right=f"{declared} {_parameters(scaling)}".strip(),
                function=lambda w, theta, s, i, d: w,
                scaling=lambda s: Default(),
            )
    factor = getattr(scaling, "factor", None)
    if factor is not None and factor != 1 and not isinstance(scaling, Linear | Proportional | LongRope):
        yield Rule(
            words=f"every pair divided by the factor {number_words(factor)} (linear)",
            right=declared,
            function=lambda w, theta, s, i, d: w / factor,
            scaling=lambda s: Linear(factor=factor),
        )
    if factor is not None and factor != 1 and not isinstance(scaling, Ntk | LongRope | Dynamic | Proportional):
        yield Rule(
            words=f"the base stretched by the factor {number_words(factor)} (ntk)",
            right=declared,
            function=_ntk(factor, "aware"),
            scaling=lambda s: Ntk(factor=factor),
        )


def _parameters(scaling: Scaling) -> str:
    factor = getattr(scaling, "factor", None)
    return "" if factor is None else f"by factor {number_words(factor)}"


def _default(scaling: Default, rope: Rope, length: int | None) -> Iterator[Rule]:
    yield Rule(function=lambda w, theta, s, i, d: w, scaling=lambda s: Default())


def _linear(scaling: Linear, rope: Rope, length: int | None) -> Iterator[Rule]:
    yield Rule(function=lambda w, theta, s, i, d: w / s, scaling=lambda s: Linear(factor=s), factor=scaling.factor)


def _proportional(scaling: Proportional, rope: Rope, length: int | None) -> Iterator[Rule]:
    turning = int(scaling.partial_rotary_factor * rope.width // 2)
    yield Rule(
        function=lambda w, theta, s, i, d: np.where(i < turning, w / s, 0.0),
        scaling=lambda s: replace(scaling, factor=s),
        factor=scaling.factor,
    )
    if scaling.factor != 1:
        yield Rule(
            slug="unscaled",
            words="unscaled (the factor of proportional is ignored)",
            right=f"turning pairs divided by {number_words(scaling.factor)}",
            function=lambda w, theta, s, i, d: np.where(i < turning, w, 0.0),
            scaling=lambda s: replace(scaling, factor=1.0),
        )
    yield Rule(
        slug="full-for-partial",
        words="every pair of the head turns",
        right=f"the first {turning} pairs turn",
        function=lambda w, theta, s, i, d: w / scaling.factor,
        scaling=lambda s: Linear(factor=scaling.factor) if scaling.factor != 1 else Default(),
    )


def _ntk(factor: float, method: str) -> Function:
    def frequencies(w: Array, theta: float, s: float, i: NDArray[np.int64], d: int) -> Array:
        if method == "aware":
            return w * factor ** (-2 * i / (d - 2)) if d > 2 else np.full_like(w, math.nan)
        base = w * factor ** (-2 * i / d)
        return base / factor ** (2 / d) if method == "vllm" else base

    return frequencies


def _ntk_rules(scaling: Ntk, rope: Rope, length: int | None) -> Iterator[Rule]:
    yield Rule(
        function=lambda w, theta, s, i, d: _ntk(s, scaling.method)(w, theta, s, i, d),
        scaling=lambda s: replace(scaling, factor=s),
        factor=scaling.factor,
    )
    for method in ("aware", "vllm", "base"):
        if method != scaling.method and scaling.factor != 1:
            other = replace(scaling, method=method)
            yield Rule(
                words=f"ntk by the formula {method!r}",
                right=f"ntk by the formula {scaling.method!r}",
                function=_ntk(scaling.factor, method),
                scaling=lambda s, other=other: other,
            )


def _dynamic(scaling: Dynamic, rope: Rope, length: int | None) -> Iterator[Rule]:
    lmax = rope.max_position_embeddings
    assert lmax is not None

    def ratio(tokens: int | None) -> float:
        if tokens is None or tokens <= lmax:
            return 1.0
        return scaling.factor * tokens / lmax - (scaling.factor - 1)

    now = ratio(length)
    yield Rule(
        function=_ntk(now, "aware"),
        scaling=lambda s: scaling if now == 1 else Ntk(factor=now),
    )
    full = round(lmax * scaling.factor)
    if ratio(full) != now:
        yield Rule(
            slug="dynamic-frozen",
            words=f"the base of a sequence of {full} tokens (the stretched maximum)",
            right=f"the base of {'at most ' + str(lmax) if length is None else length} tokens",
            function=_ntk(ratio(full), "aware"),
            scaling=lambda s: Ntk(factor=ratio(full)),
        )
    if scaling.factor != 1:
        yield Rule(
            words="every pair divided by s^(R/(R-2)), where the base should change",
            right="the base changed by length",
            function=lambda w, theta, s, i, d: w / scaling.factor ** (d / (d - 2)),
            scaling=lambda s: None,
        )


def _longrope(scaling: LongRope, rope: Rope, length: int | None) -> Iterator[Rule]:
    border = scaling.original_max_position_embeddings
    long = length is not None and length > border
    lists = {False: np.array(scaling.short_factor), True: np.array(scaling.long_factor)}

    def by(divisors: Array) -> Function:
        def frequencies(w: Array, theta: float, s: float, i: NDArray[np.int64], d: int) -> Array:
            return w / divisors[i] if int(i.max(initial=0)) < len(divisors) else np.full_like(w, math.nan)

        return frequencies

    def always(which: bool) -> Scaling:
        values = scaling.long_factor if which else scaling.short_factor
        return replace(scaling, short_factor=values, long_factor=values)

    yield Rule(function=by(lists[long]), scaling=lambda s: scaling if length is None else always(long))
    if scaling.short_factor != scaling.long_factor:
        yield Rule(
            slug=None if long else "longrope-long-always",
            words=f"the {'short' if long else 'long'} list of factors",
            right=f"the {'long' if long else 'short'} list {'beyond' if long else 'up to'} {border} tokens",
            function=by(lists[not long]),
            scaling=lambda s: always(not long),
        )
    yield Rule(
        words="multiplied by the factors instead of divided",
        right="divided by the factors",
        function=by(1 / lists[long]),
        scaling=lambda s: None,
    )


def _llama3(scaling: Llama3, rope: Rope, length: int | None) -> Iterator[Rule]:
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


def _yarn(scaling: Yarn, rope: Rope, length: int | None) -> Iterator[Rule]:
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


_MAKERS: dict[str, Callable[[Any, Rope, int | None], Iterator[Rule]]] = {
    "default": _default,
    "linear": _linear,
    "ntk": _ntk_rules,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}
