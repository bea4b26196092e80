"""What a comparison found, as findings of stable codes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..findings import Finding
from ..inspection import _layers_words as layers_words
from ..inspection import number_words
from ..models.model import QueryScale
from .measured import Measurement, rough
from .tables import PairDifference, Turn
from .walking import Layers, meeting, uniform
from .words import cause, pair_words

if TYPE_CHECKING:
    from .groups import Group

KINDS_OF_DIFFERENCE = {
    "missing": "width-differs",
    "channels": "pairing-differs",
    "partner": "pairing-differs",
    "axis": "axis-differs",
    "direction": "direction-differs",
    "frequency": "frequency-differs",
    "map": "pairing-differs",
}


def group_findings(group: "Group") -> Iterator[Finding]:
    """Give what differs in a group of layers, each kind once, or how two descriptions of one table differ."""
    suffix = "" if group.use == "attention" else f" ({group.use})"
    where = f"{group.place}{suffix}"
    if group.result is None:
        here, there = ("B", "A") if group.b is None else ("A", "B")
        yield Finding.of(
            "rope-absent",
            where=where,
            seen=f"no RoPE in {here}",
            right="the same layers with RoPE on both sides",
            message=f"{where}: {there} turns these layers, {here} does not.",
        )
        return
    result = group.result
    seen: set[str] = set()
    for row in result.pairs:
        for name in dict.fromkeys(KINDS_OF_DIFFERENCE[what] for what in row.differs):
            if name not in seen:
                seen.add(name)
                yield _pairs_finding(name, where, group, row)
    if not result.factors.equal:
        yield _magnitude_finding(where, group)
    for side, one in group.measured.items():
        yield from one.faults
        yield from _measured_findings(where, side.upper(), one, group)
    if group.equal and group.a != group.b and not group.measured:
        yield _equivalent_finding(where, group)
    if group.length is not None and not group.equal and _length_dependent(group):
        yield Finding.of(
            "length-differs",
            where=where,
            seen=f"a difference at {group.length} tokens",
            right="the same pairs at every length",
            message=f"the pairs depend on the length of the sequence; what is shown holds for {group.length} tokens.",
        )


def _length_dependent(group: "Group") -> bool:
    return any(rope is not None and rope.length_dependent for rope in (group.a, group.b))


def _pairs_finding(name: str, where: str, group: "Group", row: PairDifference) -> Finding:
    assert group.result is not None
    kinds = [what for what, kind in KINDS_OF_DIFFERENCE.items() if kind == name]
    count = sum(any(what in other.differs for what in kinds) for other in group.result.pairs)
    why = cause(group, *kinds)
    tail = f": {why}" if why else ""
    words = pair_words(row, group.result)
    if name == "frequency-differs":
        steps = [f"{np.abs(one.wrapped).max():.3g} rad at {one.distance}" for one in group.result.angles]
        tail += f". Largest difference of an angle: {', '.join(steps)} tokens"
    return Finding.of(
        name,
        where=where,
        seen=f"{count} of {len(group.result.pairs)} pairs, the first: {_turn_words(row.b)}",
        right=_turn_words(row.a),
        message=f"{words[:1].upper()}{words[1:]}{tail}.",
    )


def _turn_words(turn: Turn | None) -> str:
    if turn is None:
        return "no such pair"
    return f"channels {turn.first} and {turn.second}, axis {turn.axis}, {turn.inv_freq:.10g} rad a position"


def _magnitude_finding(where: str, group: "Group") -> Finding:
    assert group.result is not None
    factors = group.result.factors
    said = [
        f"cos and sin × {number_words(factors.cos_sin[side])}, softmax scale × {number_words(factors.softmax[side])}"
        for side in (0, 1)
    ]
    why = cause(group, "magnitude")
    why = f" ({why})" if why else ""
    alike = " Scores of a head that turns whole come out alike all the same." if factors.scores_equal else ""
    return Finding.of(
        "magnitude-differs",
        where=where,
        seen=said[1],
        right=said[0],
        message=f"B multiplies otherwise: {said[1]}; A: {said[0]}{why}.{alike}",
    )


def _measured_findings(where: str, side: str, one: Measurement, group: "Group") -> Iterator[Finding]:
    """Say how exactly a side was measured, and where that is no firm ground."""
    assert group.result is not None
    far = group.result.angles[-1]
    until = f"positions up to {one.until}"
    exact = f"frequencies to {one.relative:.2g} (relative), the factor on cos and sin to {one.factor_room:.2g}"
    seen = f"{exact}, from {one.calls} calls, {until}"
    yield Finding.of(
        "measured",
        where=where,
        seen=seen,
        right="the numbers themselves, which cannot be read out of a function",
        message=f"{side} is a function and was measured: {exact}, from {one.calls} calls with {until}. Equal means: no "
        f"difference beyond that; an angle at {far.distance} tokens is so known to {far.room:.2g} rad. What multiplies "
        "the softmax scale cannot be seen from outside.",
    )
    if rough(one):
        off = f"frequencies known to {one.relative:.2g} (relative) only"
        yield Finding.of(
            "measured-roughly",
            where=where,
            seen=off,
            right="a function exact enough to be measured closely",
            message=f"{side} could be measured roughly: {off}, so that a difference smaller than that is not seen. "
            "ropewalk check says how precise the function is, and why not more.",
        )


def _equivalent_finding(where: str, group: "Group") -> Finding:
    when = " at the trained length and at the lengths tried beyond it" if _length_dependent(group) else ""
    return Finding.of(
        "description-differs",
        where=where,
        seen="; ".join(group.changes.values()) or "another spelling",
        right="the same pairs",
        message=f"the two are described differently and are the same pairs{when}: {'; '.join(group.changes.values())}.",
    )


def layer_findings(place: str, a: Layers, b: Layers) -> Iterator[Finding]:
    """Give what differs between the plans of a part's layers, their ropes aside."""
    if len(a) != len(b) and a and b:
        counts = f"A has {len(a)} layers and B {len(b)}"
        where = {
            "where": f"{place}: layers",
            "seen": f"{len(b)} layers in B",
            "right": f"{len(a)} layers, as in A",
        }
        if uniform(a) or uniform(b):
            alike = f"{counts}. That moves no pair: the layers of a side are alike."
            yield Finding.of("layer-count", **where, message=alike)
        else:
            kinds = f"{counts}, of several kinds on both sides: the first {min(len(a), len(b))} are compared."
            yield Finding.of("layer-plan", **where, message=kinds)
    for name, words in (("query_scale", "query temperature"), ("output_inverse", "output turned back")):
        differing = [
            (number, _rule_words(getattr(one, name)), _rule_words(getattr(other, name)))
            for number, one, other in meeting(a, b)
            if getattr(one, name) != getattr(other, name)
        ]
        if differing:
            number, one, other = differing[0]
            yield Finding.of(
                "layer-rule",
                where=f"{place}: {layers_words([number for number, _, _ in differing])}",
                seen=f"{words}: {other} in B",
                right=f"{words}: {one}, as in A",
                message=f"layer {number}, {words}: {other} in B, {one} in A. It is no part of the pairs, and changes "
                "what a layer computes.",
            )


def _rule_words(rule: object) -> str:
    if isinstance(rule, QueryScale):
        numbers = [number_words(value) for value in (rule.attn_scale, rule.offset, rule.floor_scale)]
        return "1 + {}·log1p(floor((m + {}) / {}))".format(*numbers)
    return "yes" if rule else "none"
