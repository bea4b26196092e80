"""The layers of one part whose two sides are the same two ropes, compared at every length that matters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..rope import Rope
from .measured import Measured, Measurement
from .tables import PairsComparison, compare_pairs
from .words import changes, group_words


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


def rope_group(
    place: str, use: str, a: Rope | None, b: Rope | None, steps: tuple[int, ...], length: int | None
) -> Group:
    """Compare two descriptions; where they depend on the length and are alike as trained, beyond it too."""
    if a is None or b is None:
        return Group(place=place, use=use, a=a, b=b, length=length, result=None, changes={})
    tried: list[int | None] = [length]
    if length is None and (a.length_dependent or b.length_dependent):
        tried += sorted({switch + 1 for rope in (a, b) for switch in _switches(rope)} | {max(steps) + 1})
    results = ((at, compare_pairs(a.pairs(at), b.pairs(at), distances=steps)) for at in tried)
    first = next(results)
    at, result = first if not first[1].equal else next((one for one in results if not one[1].equal), first)
    return Group(place=place, use=use, a=a, b=b, length=at, result=result, changes=changes(a, b))


def measured_group(place: str, use: str, a: Any, b: Any, steps: tuple[int, ...], length: int | None) -> Group:
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
