"""What a declared scaling should give, and what the known mistakes make of it: one function each."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fitting.numbers import Array
from ..inspection import number_words
from ..rope import Rope
from ..scaling import Default, Dynamic, Linear, LongRope, Ntk, Proportional, Scaling
from ._fitting_rule import Function, Rule
from ._fitting_rules_banded import llama3_rules, yarn_rules


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


_MAKERS: dict[str, Callable[[Any, Rope, int | None], Iterator[Rule]]] = {
    "default": _default,
    "linear": _linear,
    "ntk": _ntk_rules,
    "dynamic": _dynamic,
    "yarn": yarn_rules,
    "longrope": _longrope,
    "llama3": llama3_rules,
    "proportional": _proportional,
}
