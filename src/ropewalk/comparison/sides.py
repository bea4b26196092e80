"""What stands on either side of a comparison, and which of their layers meet."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..errors import RopewalkError
from ..findings import Finding
from ..inspection import number_words
from ..models.model import Layer, Model
from ..models.targets import read
from ..rope import Rope
from .measured import Measured
from .walking import Layers, meeting


class Side(NamedTuple):
    """One side of a comparison: a model, a lone rope, or something measured."""

    name: str
    model: Model | None
    rope: Rope | None
    measured: Measured | None = None


def side_of(letter: str, given: object) -> Side:
    """Read what was given as A or as B."""
    if isinstance(given, Measured):
        return Side(given.name, None, None, given)
    if isinstance(given, Mapping) and isinstance(given.get("schema"), str):
        own = {"ropewalk.rope/1": Rope.from_dict, "ropewalk.model/1": Model.from_dict}
        given = own.get(given["schema"], lambda data: data)(given)
    if isinstance(given, Rope):
        return Side(f"a rope of {_rope_words(given)}", None, given)
    model = read(given)
    check_whole(model, f"{letter}, {model.target or 'a model'},")
    return Side(model.target or "a model", model, None)


def check_whole(model: Model, name: str) -> None:
    """Raise where an error finding took a rope away: what is left would be compared in its place."""
    failed = [finding for finding in model.findings if finding.severity == "error"]
    if any(finding.name != "layers-conflict" for finding in failed):
        raise RopewalkError(f"{name} cannot be described whole: {failed[0].where}: {failed[0].message}")


def _rope_words(rope: Rope) -> str:
    theta = number_words(rope.rope_theta)
    return f"θ={theta}, rotary_dim {rope.width} of {rope.head_dim}, {rope.pairing}, {rope.scaling.rope_type}"


def places(
    left: Side, right: Side, part: str | None, findings: dict[Finding, None]
) -> Iterator[tuple[str, Layers, Layers]]:
    """Give the parts that stand on both sides with their layers; a part on one side only becomes a finding."""
    sides = (left, right)
    if left.model is None and right.model is None:
        yield "rope", _lone(left.rope), _lone(right.rope)
        return
    if left.model is None or right.model is None:
        model, lone = (right.model, left) if left.model is None else (left.model, right)
        assert model is not None
        name, layers = one_part(model, part)
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


def one_part(model: Model, part: str | None) -> tuple[str, Layers]:
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


def uses(a: Layers, b: Layers) -> Iterator[tuple[str, list[int], Rope | None, Rope | None]]:
    """Give each pair of ropes that meet in a layer, once, with the numbers of the layers where they do."""
    met: dict[tuple[str, Rope | None, Rope | None], list[int]] = {}
    for number, one, other in meeting(a, b):
        for use in dict.fromkeys((*one.ropes, *other.ropes)):
            met.setdefault((use, one.ropes.get(use), other.ropes.get(use)), []).append(number)
    for (use, one, other), numbers in met.items():
        yield use, numbers, one, other
