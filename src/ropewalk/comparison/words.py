"""What a comparison found, in words: B told from A."""

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from ..inspection import number_words
from ..rope import Rope
from ..scaling import scaling_to_dict
from .tables import Factors, PairDifference, PairsComparison, Turn, close

if TYPE_CHECKING:
    from .groups import Group


# which fields of a description move what; of a function that was measured, which kinds of deviation
MOVES = {
    "channels": ("pairing", "rotary_dim", "rotary_start", "head_dim", "axes", "width", "start", "partner"),
    "axis": ("axes",),
    "direction": ("direction",),
    "frequency": ("scaling", "rope_theta", "rotary_dim", "axes", "max_position_embeddings", "frequencies"),
    "magnitude": ("scaling", "max_position_embeddings", "magnitude"),
}
CAUSES = {"missing": "channels", "partner": "channels", "map": "channels"}


def changes(a: Rope, b: Rope) -> dict[str, str]:
    """Say what two descriptions write differently, by field, B told from A."""
    words = {}
    if a.scaling != b.scaling:
        words["scaling"] = _scaling_change(a, b)
    for name in ("rope_theta", "width", "rotary_start", "pairing", "direction", "head_dim", "max_position_embeddings"):
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            label = "rotary_dim" if name == "width" else name
            words[label] = f"{label} is {_said(other)}, not {'left open' if one is None else _said(one)}"
    if a.axes != b.axes:
        words["axes"] = _axes_change(a, b)
    return words


def cause(group: "Group", *what: str) -> str:
    """Give the changes that bring about some differences ("frequency", "axis" …), joined; "" where none is known."""
    fields_that_move = {field for one in what for field in MOVES[CAUSES.get(one, one)]}
    if not any(rope is not None and rope.length_dependent for rope in (group.a, group.b)):
        fields_that_move.discard("max_position_embeddings")
    if "rotary_dim" in group.changes:
        fields_that_move.discard("head_dim")
    return "; ".join(words for field, words in group.changes.items() if field in fields_that_move)


def _scaling_change(a: Rope, b: Rope) -> str:
    one, other = a.scaling.rope_type, b.scaling.rope_type
    if one != other:
        if other == "default":
            return f"{one} scaling is missing"
        return f"{other} scaling is added" if one == "default" else f"scaling is {other}, not {one}"
    given = (scaling_to_dict(a.scaling), scaling_to_dict(b.scaling))
    parts = []
    for name in given[0]:
        left, right = given[0][name], given[1][name]
        if left == right:
            continue
        if isinstance(left, list) or isinstance(right, list):
            parts.append(f"{name} is another list")
        else:
            parts.append(f"{name} is {_said(right)}, not {_said(left)}")
    return f"{one}: {', '.join(parts)}"


def _axes_change(a: Rope, b: Rope) -> str:
    if a.axes.kind != b.axes.kind:
        return f"axes are {b.axes.kind}, not {a.axes.kind}"
    names = [entry.name for entry in fields(a.axes)]  # type: ignore[arg-type]
    told = [
        f"{name} is {_said(getattr(b.axes, name))}, not {_said(getattr(a.axes, name))}"
        for name in names
        if getattr(a.axes, name) != getattr(b.axes, name)
    ]
    return f"{a.axes.kind} axes: {', '.join(told)}"


def _said(value: object) -> str:
    if value is None:
        return "not given"
    return str(list(value)) if isinstance(value, tuple) else number_words(value)


def group_words(group: "Group") -> str:
    """Give the first thing that differs in a group of layers, in a sentence; that nothing does, where so."""
    if group.result is None:
        here, there = ("B", "A") if group.b is None else ("A", "B")
        return f"{here} has no RoPE where {there} has"
    row, result = group.result.first, group.result
    if row is None and result.factors.equal and group.measured:
        faults = [fault for one in group.measured.values() for fault in one.faults]
        return f"the same pairs, but {faults[0].seen}" if faults else "the same pairs, as far as was measured"
    if row is None and result.factors.equal:
        changed = "; ".join(group.changes.values())
        return f"the same pairs, described differently: {changed}" if changed else "the same description"
    beyond = "" if group.length is None else f"for a sequence of {group.length} tokens, "
    if row is not None:
        words, why = pair_words(row, result), cause(group, *row.differs)
    else:
        words, why = f"every pair turns alike, {factor_words(result.factors)}", cause(group, "magnitude")
    return f"{beyond}{words}{f': {why}' if why else ''}"


def pair_words(row: PairDifference, result: PairsComparison) -> str:
    """Say in words how one pair of B differs from that of A; nothing is said of why.

    >>> from .tables import compare_pairs
    >>> from ..pairs import Pairs
    >>> table = Pairs(first=[0], second=[1], axis=[0], inv_freq=[0.5])
    >>> seen = compare_pairs(table, Pairs(first=[0], second=[1], axis=[0], inv_freq=[-0.25]))
    >>> pair_words(seen.pairs[0], seen)
    'in B, pair 0 of 1 turns the other way, 2 times too slow'
    """
    name = f"pair {row.pair} of {len(result.pairs)}"
    a, b = row.a, row.b
    if a is None or b is None:
        turn = a or b
        assert turn is not None
        here, there = ("B", "A") if b is None else ("A", "B")
        return f"{name}, channels {turn.first} and {turn.second}, turns in {there} and stands in no pair of {here}"
    said = []
    if "channels" in row.differs or "partner" in row.differs:
        said.append(f"joins channels {b.first} and {b.second}, not {a.first} and {a.second}")
    if "axis" in row.differs:
        said.append(f"listens to axis {b.axis}, not {a.axis}")
    if "direction" in row.differs:
        said.append("turns the other way")
    if "frequency" in row.differs:
        speed = _speed_words(a, b, row.ratio)
        said.append(speed.removeprefix("turns ") if "direction" in row.differs else speed)
    if "map" in row.differs:
        said.append("turns its two channels by other angles")
    return f"in B, {name} {', '.join(said)}"


def _speed_words(a: Turn, b: Turn, ratio: float | None) -> str:
    if ratio is None:
        return "turns instead of keeping still" if b.inv_freq else "keeps still instead of turning"
    times = max(ratio, 1 / ratio) if ratio else math.inf
    off = f"{times - 1:.3g} (relative)" if times < 1.00001 else f"{times:.6g} times"
    return f"turns {off} too {'fast' if ratio > 1 else 'slow'}"


def factor_words(factors: Factors) -> str:
    """Say in words how the magnitudes differ."""
    said = [
        f"{what} × {number_words(pair[1])}, not {number_words(pair[0])}"
        for what, pair in (("cos and sin", factors.cos_sin), ("the softmax scale", factors.softmax))
        if not close(*pair)
    ]
    tail = " (scores of a head that turns whole come out alike)" if factors.scores_equal else ""
    return f"but B takes {' and '.join(said)}{tail}"
