"""Two models, compared layer by layer."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .._checks import MAX_POSITION, whole
from ..errors import RopewalkError
from ..findings import Finding
from ..inspection import _layers_words as layers_words
from ..inspection import number_words
from ..models.model import Layer, Model
from ..models.targets import read
from ..rope import Rope
from .measured import Measured, Measurement
from .tables import (
    DISTANCES,
    AngleDifference,
    Factors,
    PairDifference,
    PairsComparison,
    checked_distances,
    compare_pairs,
)
from .verdicts import group_findings, layer_findings
from .walking import Layers, meeting
from .words import changes, group_words

SCHEMA = "ropewalk.compare/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The layers of one part whose two sides are the same two ropes.

    Attributes:
        place: which layers, in words ("text: layers 0-31").
        use: "attention", "indexer" ….
        a: the rope in A, None where these layers have none; of a side that was measured, the nearest description.
        b: the rope in B.
        length: tokens that length-dependent ropes were resolved for; None means the trained length or less.
        result: the two tables, subtracted; None where one side has no rope.
        changes: what the descriptions say differently, in words, by field.
        measured: by side ("a", "b"), how exactly the one was measured that is a function and no description.
    """

    place: str
    use: str
    a: Rope | None
    b: Rope | None
    length: int | None
    result: PairsComparison | None
    changes: Mapping[str, str]
    measured: Mapping[str, Measurement] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether both sides turn vectors alike, as far as was measured."""
        return self.result is not None and self.result.equal and not any(one.faults for one in self.measured.values())

    @property
    def words(self) -> str:
        """The first thing that differs, in a sentence; that nothing does, where so."""
        return group_words(self)

    def to_dict(self) -> dict[str, Any]:
        """Give the group as plain values."""
        return {
            "place": self.place,
            "use": self.use,
            "equal": self.equal,
            "words": self.words,
            "a": None if self.a is None else self.a.to_dict(),
            "b": None if self.b is None else self.b.to_dict(),
            "length": self.length,
            "changes": dict(self.changes),
            "result": None if self.result is None else self.result.to_dict(),
            "measured": {side: one.to_dict() for side, one in self.measured.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models, or two ropes, compared.

    Attributes:
        a: what A is, in words; it is the reference.
        b: what B is.
        equal: every layer turns vectors alike in both (and scales and turns back alike).
        groups: layer by layer, those alike taken together.
        findings: every difference once (errors), and what is worth knowing about an equality (notes).
        distances: tokens, at which angles were subtracted.
    """

    a: str
    b: str
    equal: bool
    groups: tuple[Group, ...]
    findings: tuple[Finding, ...]
    distances: tuple[int, ...]

    @property
    def first(self) -> Group | None:
        """The first group that differs; the first of all where none does."""
        differing = (group for group in self.groups if not group.equal)
        return next(differing, self.groups[0] if self.groups else None)

    @property
    def pairs(self) -> tuple[PairDifference, ...]:
        """The pairs of the first group that differs."""
        return self.first.result.pairs if self.first and self.first.result else ()

    @property
    def angles(self) -> tuple[AngleDifference, ...]:
        """The angles of the first group that differs."""
        return self.first.result.angles if self.first and self.first.result else ()

    @property
    def factors(self) -> Factors | None:
        """Both magnitudes of the first group that differs."""
        return self.first.result.factors if self.first and self.first.result else None

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain values for JSON."""
        return {
            "schema": SCHEMA,
            "a": self.a,
            "b": self.b,
            "equal": self.equal,
            "distances": list(self.distances),
            "groups": [group.to_dict() for group in self.groups],
            "findings": [finding.to_dict() for finding in self.findings],
        }


def compare(
    a: object,
    b: object,
    *,
    distances: Iterable[int] = DISTANCES,
    length: int | None = None,
    part: str | None = None,
) -> Comparison:
    """Compare two descriptions of rotary embeddings, A being the reference.

    `ropewalk.compare` does the same, and takes functions too.

    Args:
        a: a Rope, a Model, a dict (a configuration, or what their to_dict gives), whatever else `read` takes, or
            something Measured.
        b: the same. A lone Rope is compared with every rope of the other's main part.
        distances: tokens, at which angles are subtracted.
        length: tokens in the sequence, for ropes that depend on it; None compares them at the trained length and, where
            they are alike there, beyond it.
        part: one part only ("text", "vision" …); None means all.

    Raises:
        RopewalkError: for a side that cannot be read, or in which no rope could be described.

    >>> a = Rope(head_dim=96, rope_theta=3e5, pairing="half")
    >>> compare(a, a.replace(rope_theta=1e4)).first.words
    'in B, pair 1 of 48 turns 1.07343 times too fast: rope_theta is 10000, not 300000'
    """
    steps = checked_distances(distances)
    length = None if length is None else whole("length", length, at_least=1, at_most=MAX_POSITION)
    left, right = _side("A", a), _side("B", b)
    groups: list[Group] = []
    findings: dict[Finding, None] = {}
    if left.measured is not None or right.measured is not None:
        groups += _measured_groups(left, right, part, steps, length)
    else:
        for place, seen_left, seen_right in _places(left, right, part, findings):
            for use, numbers, one, other in _uses(seen_left, seen_right):
                where = place if place == "rope" else f"{place}: {layers_words(numbers)}"
                groups.append(_group(where, use, one, other, steps, length))
            findings |= dict.fromkeys(layer_findings(place, seen_left, seen_right))
    for group in groups:
        findings |= dict.fromkeys(group_findings(group))
    if not groups and not findings:
        raise RopewalkError(f"there is no RoPE to compare: neither {left.name} nor {right.name} has any.")
    equal = not any(finding.severity == "error" for finding in findings)
    return Comparison(
        a=left.name, b=right.name, equal=equal, groups=tuple(groups), findings=tuple(findings), distances=steps
    )


class _Side(NamedTuple):
    name: str
    model: Model | None
    rope: Rope | None
    measured: Measured | None = None


def _side(letter: str, given: object) -> _Side:
    if isinstance(given, Measured):
        return _Side(given.name, None, None, given)
    if isinstance(given, Mapping) and isinstance(given.get("schema"), str):
        own = {"ropewalk.rope/1": Rope.from_dict, "ropewalk.model/1": Model.from_dict}
        given = own.get(given["schema"], lambda data: data)(given)
    if isinstance(given, Rope):
        return _Side(f"a rope of {_rope_words(given)}", None, given)
    model = read(given)
    failed = [finding for finding in model.findings if finding.severity == "error"]
    if any(finding.name != "layers-conflict" for finding in failed):
        raise RopewalkError(
            f"{letter}, {model.target or 'a model'}, cannot be described whole: {failed[0].where}: {failed[0].message}"
        )
    return _Side(model.target or "a model", model, None)


def _rope_words(rope: Rope) -> str:
    theta = number_words(rope.rope_theta)
    return f"θ={theta}, rotary_dim {rope.width} of {rope.head_dim}, {rope.pairing}, {rope.scaling.rope_type}"


def _places(
    left: _Side, right: _Side, part: str | None, findings: dict[Finding, None]
) -> Iterator[tuple[str, Layers, Layers]]:
    """Give the parts that stand on both sides with their layers; a part on one side only becomes a finding."""
    sides = (left, right)
    if left.model is None and right.model is None:
        yield "rope", _lone(left.rope), _lone(right.rope)
        return
    if left.model is None or right.model is None:
        model, lone = (right.model, left) if left.model is None else (left.model, right)
        assert model is not None
        name, layers = _one_part(model, part)
        ropes = tuple(layer for layer in layers if layer.ropes)
        alone = tuple(Layer(ropes=dict.fromkeys(layer.ropes, lone.rope)) for layer in ropes)  # type: ignore[arg-type]
        ropes = tuple(Layer(ropes=layer.ropes) for layer in ropes)
        yield (name, alone, ropes) if lone is left else (name, ropes, alone)
        return
    a, b = left.model, right.model
    with_ropes = [
        [name for name, held in side.parts.items() if any(layer.ropes or layer.query_scale for layer in held)]
        for side in (a, b)
    ]
    if part is not None:
        yield part, _part_of(a, part), _part_of(b, part)
        return
    if len(with_ropes[0]) == len(with_ropes[1]) == 1:  # "text" here, "decoder" there: still the one that turns
        one, other = with_ropes[0][0], with_ropes[1][0]
        yield one if one == other else f"{one} and {other}", a.parts[one], b.parts[other]
        return
    for name in dict.fromkeys((*with_ropes[0], *with_ropes[1])):
        missing = [letter for letter, side in zip("AB", sides, strict=True) if name not in (side.model or a).parts]
        if missing:
            there = "B" if missing == ["A"] else "A"
            findings[
                Finding.of(
                    "part-missing",
                    where=f"{name}: part",
                    seen=f"none in {missing[0]}",
                    right=f"a part {name}, as in {there}",
                    message=f"{there} has a part {name} with RoPE, and {missing[0]} has none. Compare one part alone "
                    "with part='text' (--part text) if only that is meant.",
                )
            ] = None
            continue
        yield name, a.parts[name], b.parts[name]


def _one_part(model: Model, part: str | None) -> tuple[str, Layers]:
    """Give the part that is meant, its main part where none is named, with its name."""
    if part is not None:
        return part, _part_of(model, part)
    return next((name for name, held in model.parts.items() if held is model.layers), "rope"), model.layers


def _lone(rope: Rope | None) -> Layers:
    return () if rope is None else (Layer(ropes={"attention": rope}),)


def _part_of(model: Model, part: str) -> Layers:
    if part not in model.parts:
        raise RopewalkError(
            f"{model.target or 'the model'} has no part {part!r}; its parts are {', '.join(model.parts) or 'none'}."
        )
    return model.parts[part]


def _uses(a: Layers, b: Layers) -> Iterator[tuple[str, list[int], Rope | None, Rope | None]]:
    """Give each pair of ropes that meet in a layer, once, with the numbers of the layers where they do."""
    met: dict[tuple[str, Rope | None, Rope | None], list[int]] = {}
    for number, one, other in meeting(a, b):
        for use in dict.fromkeys((*one.ropes, *other.ropes)):
            met.setdefault((use, one.ropes.get(use), other.ropes.get(use)), []).append(number)
    for (use, one, other), numbers in met.items():
        yield use, numbers, one, other


def _group(place: str, use: str, a: Rope | None, b: Rope | None, steps: tuple[int, ...], length: int | None) -> Group:
    if a is None or b is None:
        return Group(place=place, use=use, a=a, b=b, length=length, result=None, changes={})
    tried: list[int | None] = [length]
    if length is None and (a.length_dependent or b.length_dependent):
        tried += sorted({switch + 1 for rope in (a, b) for switch in _switches(rope)} | {max(steps) + 1})
    results = ((at, compare_pairs(a.pairs(at), b.pairs(at), distances=steps)) for at in tried)
    first = next(results)
    at, result = first if not first[1].equal else next((one for one in results if not one[1].equal), first)
    return Group(place=place, use=use, a=a, b=b, length=at, result=result, changes=changes(a, b))


def _measured_groups(
    left: _Side, right: _Side, part: str | None, steps: tuple[int, ...], length: int | None
) -> Iterator[Group]:
    """Hold a function against every rope of the other side, or against another function."""
    model = left.model or right.model
    if model is None:
        one, other = (side.measured or side.rope for side in (left, right))
        yield _measured_group("rope", "attention", one, other, steps, length)
        return
    name, layers = _one_part(model, part)
    for use, numbers, rope, _ in _uses(layers, layers):
        one, other = left.measured or rope, right.measured or rope
        yield _measured_group(f"{name}: {layers_words(numbers)}", use, one, other, steps, length)


def _measured_group(place: str, use: str, a: Any, b: Any, steps: tuple[int, ...], length: int | None) -> Group:
    """Compare two sides of which at least one is a function; where lengths matter, at each until they differ."""
    axes = max((side.axes.num_axes for side in (a, b) if isinstance(side, Rope)), default=1)
    ropes = [side for side in (a, b) if isinstance(side, Rope)]
    boxes = [side for side in (a, b) if isinstance(side, Measured)]
    first = group = _at_length(place, use, a, b, steps, length, axes)
    if length is None and group.equal:
        beyond = {one.beyond for one in group.measured.values() if one.beyond is not None}
        beyond |= {switch + more for rope in ropes for switch in _switches(rope) for more in (0, 1)}
        beyond |= {max(steps) + 1} if any(rope.length_dependent for rope in ropes) else set()
        tried = sorted(one for one in beyond if all(one <= box.longest for box in boxes))
        for at in tried:
            group = _at_length(place, use, a, b, steps, at, axes)
            if not group.equal:
                return group
    return first


def _at_length(place: str, use: str, a: Any, b: Any, steps: tuple[int, ...], length: int | None, axes: int) -> Group:
    sides = {"a": a, "b": b}
    measured = {name: side.measure(length, axes) for name, side in sides.items() if isinstance(side, Measured)}
    ropes: dict[str, Rope | None] = {name: None if name in measured else side for name, side in sides.items()}
    words: dict[str, str] = {}
    for name, one in measured.items():
        other = "b" if name == "a" else "a"
        ropes[name], told = sides[name].explain(one, ropes[other], length)
        if ropes[other] is not None:
            words |= {kind: f"A has {said}" if name == "a" else said for kind, said in told.items()}
    tables = {name: measured[name].pairs if name in measured else side.pairs(length) for name, side in sides.items()}
    for name in measured:  # it cannot be seen from outside
        softmax = tables["b" if name == "a" else "a"].softmax_factor
        tables[name] = replace(tables[name], softmax_factor=softmax)
    result = compare_pairs(
        tables["a"],
        tables["b"],
        distances=steps,
        error=measured["a"].room if "a" in measured else None,
        error_b=measured["b"].room if "b" in measured else None,
        factor_error=sum(one.factor_room for one in measured.values()),
    )
    if result.equal:
        words = {}
    return Group(
        place=place, use=use, a=ropes["a"], b=ropes["b"], length=length, result=result, changes=words, measured=measured
    )


def _switches(rope: Rope) -> Iterator[int]:
    """Give the lengths beyond which a rope changes."""
    if rope.length_dependent:
        original = getattr(rope.scaling, "original_max_position_embeddings", None) or rope.max_position_embeddings
        if original is not None:
            yield original
