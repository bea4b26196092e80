"""Two models, compared layer by layer."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .._checks import MAX_POSITION, whole
from ..errors import RopewalkError
from ..findings import Finding
from ..inspection import _layers_words as layers_words
from .groups import Group, measured_group, rope_group
from .sides import Side, one_part, places, side_of, uses
from .tables import DISTANCES, AngleDifference, Factors, PairDifference, checked_distances
from .verdicts import group_findings, layer_findings

SCHEMA = "ropewalk.compare/1"


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

    >>> from ropewalk import Rope
    >>> a = Rope(head_dim=96, rope_theta=3e5, pairing="half")
    >>> compare(a, a.replace(rope_theta=1e4)).first.words
    'in B, pair 1 of 48 turns 1.07343 times too fast: rope_theta is 10000, not 300000'
    """
    steps = checked_distances(distances)
    length = None if length is None else whole("length", length, at_least=1, at_most=MAX_POSITION)
    left, right = side_of("A", a), side_of("B", b)
    groups: list[Group] = []
    findings: dict[Finding, None] = {}
    if left.measured is not None or right.measured is not None:
        groups += _measured_groups(left, right, part, steps, length)
    else:
        for place, seen_left, seen_right in places(left, right, part, findings):
            for use, numbers, one, other in uses(seen_left, seen_right):
                where = place if place == "rope" else f"{place}: {layers_words(numbers)}"
                groups.append(rope_group(where, use, one, other, steps, length))
            findings |= dict.fromkeys(layer_findings(place, seen_left, seen_right))
    for group in groups:
        findings |= dict.fromkeys(group_findings(group))
    if not groups and not findings:
        raise RopewalkError(f"there is no RoPE to compare: neither {left.name} nor {right.name} has any.")
    equal = not any(finding.severity == "error" for finding in findings)
    return Comparison(
        a=left.name, b=right.name, equal=equal, groups=tuple(groups), findings=tuple(findings), distances=steps
    )


def _measured_groups(
    left: Side, right: Side, part: str | None, steps: tuple[int, ...], length: int | None
) -> Iterator[Group]:
    """Hold a function against every rope of the other side, or against another function."""
    model = left.model or right.model
    if model is None:
        one, other = (side.measured or side.rope for side in (left, right))
        yield measured_group("rope", "attention", one, other, steps, length)
        return
    name, layers = one_part(model, part)
    for use, numbers, rope, _ in uses(layers, layers):
        one, other = left.measured or rope, right.measured or rope
        yield measured_group(f"{name}: {layers_words(numbers)}", use, one, other, steps, length)
