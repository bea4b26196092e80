"""From what was measured to findings: which fault it is, what usually causes it, and what it does to a model."""

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np

from ..findings import CHECK_KINDS, Finding
from ..rope import Rope
from ._causes import CAUSES
from ._evidence import Evidence
from .box import Failure
from .explaining import Deviation, Explanation
from .precision import Precision
from .recovery import Recovered

WHERE = "fn(x, position_ids)"
UNNAMED = {
    "pairing": "pairs-differ",
    "direction": "pairs-differ",
    "width": "pairs-differ",
    "start": "pairs-differ",
    "partner": "pairs-differ",
    "axes": "axes-swapped",
    "frequencies": "frequencies-differ",
    "magnitude": "magnitude-wrong",
}
BATTERY = {
    "per-row-ids": "ids-ignored",
    "non-monotone": "ids-ignored",
    "positions": "positions-misread",
    "length-off-by-one": "length-rule",
}


def verdict(name: str, *, seen: str, right: str, where: str = WHERE, severity: str | None = None) -> Finding:
    """Give the finding of a name, its usual cause and its effect in the message.

    >>> verdict("wrong-theta", seen="theta 10000", right="theta 500000").code
    'RW214'
    """
    mistake, effect = CAUSES[name]
    words = [f"Likely mistake: {mistake}." if mistake else "", f"Effect: {effect}." if effect else ""]
    finding = Finding.of(name, where=where, seen=seen, right=right, message=" ".join(one for one in words if one))
    return finding if severity is None else replace(finding, severity=severity)


def of_failure(failure: Failure, *, right: str = "an answer to every call") -> Finding:
    """Give the finding of a call that failed."""
    return verdict(failure.kind, seen=failure.message, right=right, where=failure.where)


def of_facts(facts: dict[str, str]) -> list[Finding]:
    """Give the findings of answers that change by themselves."""
    names = {"random": "random", "state": "keeps-state"}
    return [
        verdict(name, seen=facts[fact], right="equal calls give equal answers")
        for fact, name in names.items()
        if fact in facts
    ]


def of_map(found: Recovered, expect: Rope | None) -> list[Finding]:
    """Give the findings of the map itself: what keeps it from being a rotation by angles that start at 0."""
    right = "a rotation of pairs, by angles proportional to the position"
    if found.kind == "nonlinear":
        return [verdict("nonlinear", seen="; ".join(found.notes), right=right)]
    if found.kind == "identity" or found.pairs is None:
        return _unturned(found, expect)
    findings = []
    if found.tables_as_angles:
        seen = "cos(cos a) and sin(sin a) for cos a and sin a; position 0 is no identity"
        return [verdict("tables-as-angles", seen=seen, right="cos a and sin a")]
    if found.kind == "reflection":
        return [verdict("reflection", seen="; ".join(found.notes) or "pairs are mirrored", right=right)]
    if found.kind == "linear":
        return [verdict("not-a-rotation", seen="; ".join(found.notes), right=right)]
    if found.quarter:
        seen = "x·sin a + rot(x)·cos a: position 0 turns every pair by a quarter"
        severity = None if expect is not None else "note"
        findings.append(verdict("cos-sin-swapped", seen=seen, right="x·cos a + rot(x)·sin a", severity=severity))
    elif not found.identity_at_zero and not found.offset:
        findings.append(verdict("not-a-rotation", seen="position 0 turns the pairs, by no common offset", right=right))
    if found.unsteady:
        seen = "pairs turn, and one position more does not turn them"
        findings.append(verdict("positions-misread", seen=seen, right=right))
    if found.offset:
        seen = f"every position is moved by {found.offset:.9g}"
        findings.append(verdict("offset", seen=seen, right="position 0 is the identity"))
    if found.output_order is not None:
        order = ", ".join(map(str, found.output_order[:6]))
        seen = f"output channels hold channels {order}, …"
        findings.append(verdict("output-order", seen=seen, right="the input's order, or any that q and k share"))
    if abs(found.still_factor - 1) > 1e-3 + 16 * found.noise:
        seen = f"channels that do not turn are multiplied by {found.still_factor:.7g}"
        findings.append(verdict("magnitude-twice", seen=seen, right="they pass unchanged"))
    speeds = np.abs(found.pairs.inv_freq)
    if len(speeds) > 1 and np.ptp(speeds) <= 1e-6 * speeds.max() and not found.unsteady:
        seen = f"all {len(speeds)} pairs turn by {speeds.max():.9g} radians a position (theta 1)"
        findings.append(verdict("one-speed", seen=seen, right="a speed for each pair, unless this is meant"))
    if not found.heads_alike and found.manner == "ids":
        findings.append(_of_heads(found))
    return findings


def _of_heads(found: Recovered) -> Finding:
    if not found.still_heads:
        return verdict("heads-differ", seen="heads of one token are turned differently", right="every head alike")
    turned, still = (", ".join(map(str, heads)) for heads in (found.turned_heads, found.still_heads))
    seen = f"of the heads only {turned} {'turn' if ',' in turned else 'turns'}; {still} stay as they are"
    return verdict("first-head-only", seen=seen, right="every head turns")


def _unturned(found: Recovered, expect: Rope | None) -> list[Finding]:
    if found.kind != "identity":
        right = "one axis for the two channels of a pair" if found.two_axes else "pairs that turn"
        return [verdict("not-a-rotation", seen="; ".join(found.notes) or "no channels turn in pairs", right=right)]
    if expect is None:
        return [verdict("no-rope", seen=f"no channel turns up to position {found.largest}", right="not declared")]
    moving = int((expect.pairs().inv_freq != 0).sum())
    if not moving:
        return []
    seen = f"no channel turns at any position up to {found.largest}"
    return [verdict("identity", seen=seen, right=f"{moving} pairs turn")]


def of_explanation(explanation: Explanation, expect: Rope | None, found: Recovered) -> list[Finding]:
    """Give the findings of a table that is not the declared one; without a declaration, notes on its conventions."""
    pairs = found.pairs
    assert pairs is not None
    other, findings = pairs.second_inv_freq, []
    if other is not None and (abs(pairs.inv_freq + other) <= 1e-6 * abs(other) + 1e-9).all():
        seen = "the two channels of a pair turn opposite ways: both rows carry the same sign"
        return [verdict("not-a-rotation", seen=seen, right="one minus in the rotation")]
    if expect is not None:
        return [_of_deviation(one, explanation) for one in explanation.deviations]
    if not pairs.is_rotation:
        near = bool((pairs.second - pairs.first == 1).all())
        name = "hybrid-tile" if near else "hybrid-repeat"
        severity = "warning" if near else None
        seen = "the two channels of a pair turn by different angles"
        findings.append(verdict(name, seen=seen, right="one angle for a pair", severity=severity))
    elif (pairs.inv_freq <= 0).all():
        findings.append(verdict("own-convention", seen="turned by the negative angle", right="not declared"))
    return findings


def _of_deviation(deviation: Deviation, explanation: Explanation) -> Finding:
    name = deviation.slug if deviation.slug in CHECK_KINDS else UNNAMED[deviation.kind]
    assert name is not None
    seen = deviation.words
    if explanation.equivalents and deviation.kind == "frequencies":
        other = explanation.equivalents[0]
        same = f"theta {other.rope_theta:.9g}"
        if same not in seen:
            seen += f" (equals {same}{'' if other.scaling.rope_type == 'default' else ', ' + other.scaling.rope_type})"
    return verdict(name, seen=seen, right=deviation.right)


def of_evidence(evidence: Iterable[Evidence], *, turns: bool, softened: Collection[str] = ()) -> list[Finding]:
    """Give the findings of the position battery: faults, and notes where there is something worth saying.

    Args:
        evidence: what the battery gave.
        turns: whether the function is known to turn pairs: calls in which it does not are then a fault.
        softened: names that are only notes here.
    """
    findings = []
    for one in evidence:
        name = BATTERY.get(one.name, one.name)
        if name == "identity" and turns and one.detail.get("scenes"):
            seen = f"{one.seen} in some calls ({', '.join(one.detail['scenes'])}), though it does in others"
            findings.append(verdict(name, seen=seen, right=one.right))
        elif not one.ok:
            severity = "note" if name in softened else None
            findings.append(verdict(name, seen=one.seen, right=one.right, severity=severity))
        elif one.detail.get("note") and name in ("table-end", "negative-ids", "length-of-rows"):
            findings.append(verdict(name, seen=one.seen, right=one.right))
    return findings


def of_precision(precision: Precision) -> list[Finding]:
    """Give the finding of angles that are not exact, by its cause where that has a name."""
    right = "angles as float64 has them; float32 angles pass where contexts are short"
    if precision.grade in ("exact", "unusable"):
        return []
    cause = _named(precision)
    if cause in CHECK_KINDS:
        return [verdict(cause, seen=precision.words, right=right)]
    if precision.cause == "float32-angles":
        return [verdict("precision-notable", seen=precision.words, right=right)] if precision.grade != "mild" else []
    if precision.grade == "fatal":
        return [verdict("precision", seen=precision.words, right=right)]
    name = "rounded-tables" if (precision.cause or "").endswith("-tables") else "precision-notable"
    return [verdict(name, seen=precision.words, right=right)]


def of_residual(found: Recovered) -> list[Finding]:
    """Give the finding of a function that does not keep to its own pairs, where nothing else has said why."""
    if found.residual <= 0.05 + 64 * found.noise:
        return []
    seen = f"on fresh vectors and positions the function differs from its own pairs by {found.residual:.3g}"
    return [verdict("precision", seen=seen, right="angles proportional to the position")]


def of_conditions(conditions: dict[str, Precision], usual: Precision) -> list[Finding]:
    """Give the findings of a torch function that is right as built and ruined by what is done to it."""
    ruined: dict[str, list[str]] = {}
    for name, one in conditions.items():
        if one.grade != "fatal" or usual.grade == "fatal":
            continue
        kind = "autocast" if "autocast" in name else "state-cast"
        if name.endswith(" input"):  # no state: the angles are computed in the dtype of x
            cause = _named(one)
            kind = cause if cause in CHECK_KINDS else "precision"
        ruined.setdefault(kind, []).append(f"{name}: {one.words}")
    right = "the same angles as without it"
    return [
        verdict(kind, seen="; ".join(words), right=right, severity=None if kind == "autocast" else "note")
        for kind, words in ruined.items()
    ]


def _named(precision: Precision) -> str:
    """Give the cause by the name of its mistake: of what goes into a product, what is rounded first."""
    cause = precision.cause or ""
    if cause != "bf16-angles":
        return cause
    rounded = str(precision.detail.get("rounded", ""))
    return next((f"bf16-{one}" for one in ("positions", "frequencies") if one in rounded), cause)
