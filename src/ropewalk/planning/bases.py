"""Which base supports which context, and which context a base supports: three published rules."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .._checks import MAX_POSITION, real
from ..errors import RopewalkError
from ..inspection import number_words
from ..rope import Rope
from ..scaling import Proportional

SCHEMA = "ropewalk.bases/1"
LONGEST = 2**20  # tokens; the longest context of the paper's own table
LONGEST_SEARCH = 2**18  # a second's work
SEARCH_STEP = 1.02
_FINE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRule:
    """One rule that ties a base to a context.

    Attributes:
        name: "turns", "critical" or "similarity".
        theta: the base that the wished context asks for; None where the rule gives none, or no context was wished.
        context: tokens that the base in question supports; None where the rule gives no bound.
        words: what the rule says, and what it supposes.
        evidence: how far it has been tried.
        source: paper and equation.
    """

    name: str
    theta: float | None
    context: int | None
    words: str
    evidence: str
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Give the rule as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bases:
    """The rules for one rope.

    Attributes:
        trained: L0, tokens.
        to: the wished context, tokens, or None.
        theta: the base whose context is told.
        rules: "turns", "critical", "similarity"; none for proportional RoPE, whose still pairs no rule counts with.
    """

    trained: int
    to: int | None
    theta: float
    rules: tuple[BaseRule, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the rules as plain values for JSON."""
        return {
            "schema": SCHEMA,
            "trained": self.trained,
            "to": self.to,
            "theta": self.theta,
            "rules": [rule.to_dict() for rule in self.rules],
        }


def base_rules(
    rope: Rope, trained: int, *, to: int | None = None, theta: float | None = None, whole_head: bool = True
) -> Bases:
    """Tell the base for a context, and the context for a base, by each rule.

    Args:
        rope: whose width and trained base count; its scaling plays no part.
        trained: L0, tokens.
        to: the wished context, tokens, or None.
        theta: the base whose context is asked for; None takes the rope's own.
        whole_head: whether the description covers the whole head (MLA's does not).

    Raises:
        RopewalkError: for a base that is not above 1.

    >>> rope = Rope(head_dim=128, rope_theta=10000.0, pairing="half")
    >>> [(rule.name, rule.theta and round(rule.theta)) for rule in base_rules(rope, 4096, to=16384).rules][:2]
    [('turns', 40890), ('critical', 56628)]
    """
    asked = rope.rope_theta if theta is None else real("theta", theta, above=1)
    if isinstance(rope.scaling, Proportional):  # part of its pairs keep still, which no rule counts with
        return Bases(trained=trained, to=to, theta=asked, rules=())
    rules = (_turns(rope, trained, to, asked), _critical(rope, trained, to, asked))
    return Bases(
        trained=trained, to=to, theta=asked, rules=(*rules, _similarity(rope, to, asked, whole_head=whole_head))
    )


def _turns(rope: Rope, trained: int, to: int | None, theta: float) -> BaseRule:
    """The slowest pair turns as far at the longer context as it did in training."""
    width, words = rope.width, "the slowest pair turns as far as it did in training, θ' = θ·s^(R/(R-2)); no training"
    raised = context = None
    if width > 2:
        raised = None if to is None else _power(to / trained, width / (width - 2), rope.rope_theta)
        context = _tokens(_power(theta / rope.rope_theta, (width - 2) / width, trained))
    else:
        words = "a rope of one pair has no slower one: its exponent R/(R-2) does not exist"
    return BaseRule(
        name="turns",
        theta=raised,
        context=context,
        words=words,
        evidence="a forum post and perplexity curves of LLaMA 7B; pairs between the first and the last still leave the "
        "angles of the training before that context",
        source="bloc97's NTK-aware RoPE (2023), in Peng et al. 2023, YaRN (arXiv 2309.00071), section 3.1",
    )


def _critical(rope: Rope, trained: int, to: int | None, theta: float) -> BaseRule:
    """The last pair that turned once in training still turns at most once within the longer context."""
    width, own = rope.width, rope.rope_theta
    words, raised, context = "", None, None
    if own <= 1 or trained <= 2 * math.pi:
        words = "not defined where the base is not above 1 or not even the first pair turns once in training"
    else:
        critical = 2 * math.ceil(width / 2 * math.log(trained / (2 * math.pi), own))
        if critical >= width:
            words = f"every pair turned at least once within {trained} tokens: no bound by this rule"
        else:
            words = f"after training at {trained} tokens with the new base; {critical} of {width} channels have turned"
            if to is not None:
                raised = _power(to / (2 * math.pi), width / critical, 1.0)
                train_longer = _power(own, math.log(to / (2 * math.pi), trained / (2 * math.pi)), 1.0)
                if train_longer is not None:
                    words += f"; trained at {to} tokens itself, a base above {number_words(round(train_longer))}"
            if theta < own:
                words += "; a smaller base follows another law, without a sharp bound"
            else:
                context = trained if theta == own else _tokens(_power(theta, critical / width, 2 * math.pi))
    return BaseRule(
        name="critical",
        theta=raised,
        context=context,
        words=words,
        evidence="LLaMA 2 7B and 13B, further trained, judged by perplexity",
        source="Liu et al. 2023, Scaling Laws of RoPE-based Extrapolation (arXiv 2310.05209), lemma 1 and theorem 3",
    )


def _similarity(rope: Rope, to: int | None, theta: float, *, whole_head: bool) -> BaseRule:
    """A key like the query is scored above a random one, on average, at every distance."""
    raised = context = None
    words = "Σ cos(m·θ_i) ≥ 0 at every distance m below the context; for training from scratch or at length"
    if not whole_head or rope.width != rope.head_dim:
        words = "not told where channels of the head keep still: they alone keep the sum of the rule high"
    elif theta < 2:
        words = "not computed for a base below 2"
    else:
        context = first_negative(theta, rope.width, LONGEST)
        if context == LONGEST:
            context, words = None, f"{words}; θ={number_words(theta)} holds it to {LONGEST} tokens and more"
        if to is not None and to > LONGEST_SEARCH:
            words += f"; no base is searched for beyond {LONGEST_SEARCH} tokens"
        elif to is not None:
            raised = _smallest_base(to, rope.width)
            words += "; the base is the first that holds, in steps of 2 % (a finer search finds smaller ones that "
            words += "hold by chance, as some in the paper's table do)"
    return BaseRule(
        name="similarity",
        theta=raised,
        context=context,
        words=words,
        evidence="a bound that its authors call not very strict: queries and keys taken as independent, one layer; "
        "tried on Llama 2 7B and Baichuan 2 7B, fine-tuned, and a 2B model trained from scratch",
        source="Men et al. 2024, Base of RoPE Bounds Context Length (arXiv 2405.14591), theorem 1 and equations 10, 11",
    )


def first_negative(theta: float, width: int, limit: int) -> int:
    """Give the first distance at which Σ cos(m·θ^(-2i/R)) falls below 0: so many tokens the base supports.

    Source: Men et al. 2024 (arXiv 2405.14591), theorem 1. Their table has 4.3e3 for 1024 and 8.4e4 for 8192 tokens at
    R = 128.

    Args:
        theta: the base, above 1.
        width: R, channels.
        limit: tokens to look at.

    Returns:
        The distance, or the limit where the sum stays at 0 or above.

    >>> first_negative(10000.0, 128, 8192)
    1707
    """
    speeds = theta ** (-2.0 * np.arange(width // 2) / width)
    fine = np.arange(_FINE)[:, None] * speeds
    cos, sin = np.cos(fine).T, np.sin(fine).T
    rows, start, step = -(-limit // _FINE), 0, 1
    while start < rows:  # Σ cos(a + b) = Σ cos a·cos b - Σ sin a·sin b: two products of matrices
        coarse = np.arange(start, min(start + step, rows))[:, None] * _FINE * speeds
        sums = np.cos(coarse) @ cos - np.sin(coarse) @ sin
        below = np.flatnonzero(sums.ravel() < 0)
        if below.size:
            return min(int(below[0]) + start * _FINE, limit)
        start, step = start + step, min(2 * step, 64)
    return limit


@lru_cache(maxsize=64)
def _smallest_base(to: int, width: int) -> float | None:
    base = max(float(to), 2.0)  # no base below the context holds
    while base < 1e5 * to:
        if first_negative(base, width, to) == to:
            return base
        base *= SEARCH_STEP
    return None


def _power(base: float, exponent: float, times: float) -> float | None:
    """Give times·base^exponent, or None where float64 has no such number."""
    try:
        value = times * base**exponent
    except OverflowError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _tokens(value: float | None) -> int | None:
    return None if value is None or value > MAX_POSITION else max(1, math.floor(value * (1 + 1e-12)))


def checked_theta(theta: object) -> float:
    """Give a base above 1 as a float.

    Raises:
        RopewalkError: for anything else.
    """
    try:
        return real("theta", theta, above=1)
    except RopewalkError as error:
        raise RopewalkError(f"{error} A base turns pairs slower one after another, as 10000 does.") from error
