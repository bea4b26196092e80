"""Several axes: which row of positions drives which pair, asked with an image that is not square."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np

from ..axes import Sections
from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope
from ._caller import Caller, by_head, gap, turned
from ._evidence import Evidence
from ._scenes import ask

RIGHT = "every pair by the axis that the description gives it"


def grid(caller: Caller, rope: Rope, offset: float) -> list[Evidence]:
    """Ask with unequal positions on every axis and say which reading of the axes explains the answer."""
    steps = 5 + np.arange(7)
    rows = [3 + (steps * (2 * axis + 1) + axis * axis) % (11 - 2 * min(axis, 3)) for axis in range(caller.axes)]
    ids = np.array(np.broadcast_to(np.array(rows)[:, None], (caller.axes, caller.batch, len(steps))))
    if caller.per_row:
        ids = ids + np.arange(caller.batch)[None, :, None] * (1 + np.arange(caller.axes)[:, None, None])
    scene = ask(caller, "grid", ids)
    if scene.out is None:
        assert scene.failure is not None
        return [Evidence(name="raised", ok=False, seen=scene.failure.message, right=RIGHT, detail={"scene": "grid"})]
    positions = by_head(ids + offset, caller.heads)
    gaps = {}
    for name, words, pairs, moved in _alternatives(rope, positions):
        gaps[name, words] = gap(turned(scene.x, pairs, moved), scene.out)
    best = min(gaps, key=lambda one: gaps[one])
    fine = gaps["right", ""] <= 1e-3 or best[0] == "right" or gaps[best] * 8 > gaps["right", ""]
    judged = gaps["right", ""] <= 0.05 or not fine
    evidence = []
    for name in ("mrope-chunked", "axes-swapped"):
        hit = not fine and best[0] == name
        seen = best[1] if hit else "as declared" if judged else "no reading of the axes explains the answer"
        evidence.append(Evidence(name=name, ok=not hit, seen=seen, right=RIGHT, detail={"judged": judged}))
    return evidence


def _alternatives(rope: Rope, positions: np.ndarray) -> Iterator[tuple[str, str, Pairs, np.ndarray]]:
    pairs, names = rope.pairs(), getattr(rope.axes, "names", tuple(str(axis) for axis in range(len(positions))))
    yield "right", "", pairs, positions
    for other in _arrangements(rope):
        yield "mrope-chunked", f"{other.arrangement} sections", rope.replace(axes=other).pairs(), positions
    for order in permutations(range(len(positions))) if len(positions) <= 4 else ():
        if list(order) != sorted(order):
            words = ", ".join(f"{names[a]} for {names[b]}" for b, a in enumerate(order) if a != b)
            yield "axes-swapped", words, pairs, positions[list(order)]
            for other in _arrangements(rope):
                words_too = f"{other.arrangement} sections and {words}"
                yield "axes-swapped", words_too, rope.replace(axes=other).pairs(), positions[list(order)]
    for axis in range(len(positions)):
        moved = positions.copy()
        moved[axis] = 0
        yield "axes-swapped", f"{names[axis]} taken as 0", pairs, moved
        yield "axes-swapped", f"{names[axis]} for every axis", replace(pairs, axis=np.full(len(pairs), axis)), positions
        for source in range(len(positions)):
            if source != axis:
                moved = positions.copy()
                moved[axis] = positions[source]
                yield "axes-swapped", f"{names[source]} for {names[axis]}", pairs, moved


def _arrangements(rope: Rope) -> Iterator[Sections]:
    if not isinstance(rope.axes, Sections):
        return
    for arrangement in ("chunked", "interleaved", "alternating"):
        if arrangement == rope.axes.arrangement:
            continue
        try:
            axes = Sections(sections=rope.axes.sections, arrangement=arrangement, names=rope.axes.names)
            rope.replace(axes=axes)
        except RopewalkError:
            continue
        yield axes
