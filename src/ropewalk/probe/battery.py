"""The position battery: calls that a careless RoPE gets wrong, each answer named by what it did instead."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pairs
from ..rope import Rope
from ._caller import Caller, gap
from ._evidence import Evidence
from ._far import far
from ._grid import grid
from ._interface import dtypes, facts, gradient, other_heads
from ._lengths import switch_of, switching
from ._octaves import octaves
from ._scenes import ROUGH, Reaction, Scene, Table, blame, constant_offset, play, react, without_table
from .box import Box, BoxFailure

__all__ = ["Evidence", "first_calls", "run"]

MISREADINGS = {
    "identity": "every token turns by its position",
    "ids-ignored": "every token turns by the id that was given for it",
    "stale-table": "every call turns by its own ids, whatever was asked before",
    "window-constant": "every token of a call turns by its own id",
    "head-axis": "every head of a token turns alike, by the token's id",
    "first-head-only": "every head turns",
    "row-0-only": "every row of the batch turns",
    "per-row-ids": "every row turns by its own ids",
    "non-monotone": "ids in any order, repeated ones too, turn each their own token",
    "double-rotation": "every vector turns once",
    "positions": "every token turns by its id, not by the one before or after",
}
HIDES_THE_REST = ("identity", "ids-ignored", "stale-table", "window-constant", "head-axis", "per-row-ids")


def run(
    box: Box,
    pairs: Pairs | None,
    *,
    expect: Rope | None = None,
    output_order: Sequence[int] | None = None,
    offset: float = 0.0,
    before: Sequence[Evidence] = (),
    largest: int | None = None,
) -> tuple[Evidence, ...]:
    """Give the evidence of the position battery, one piece for every fault looked for.

    Args:
        box: the function.
        pairs: the table recovered from it; None where none was found.
        expect: what it should be, where that is declared: needed to see a double rotation, an identity, a switch at
            the trained length and axes that are exchanged.
        output_order: output channel j holds what channel output_order[j] would; None is the same order.
        offset: a constant by which the function moves every position.
        before: evidence of first_calls, made before the function was asked for long positions; replaces those calls.
        largest: the largest position that is known to be answered, where larger ones are refused.

    Raises:
        BoxFailure: when no ordinary call is answered.

    >>> def turn(x, ids):
    ...     cos, sin = np.cos(ids)[..., None, None], np.sin(ids)[..., None, None]
    ...     return np.concatenate([x[..., :1] * cos - x[..., 1:] * sin, x[..., 1:] * cos + x[..., :1] * sin], -1)
    >>> pairs = Pairs(first=[0], second=[1], axis=[0], inv_freq=[1.0])
    >>> [evidence.name for evidence in run(Box(turn, head_dim=2), pairs) if not evidence.ok]
    []
    """
    rope = expect if expect is not None and expect.head_dim == box.head_dim else None
    caller = Caller(box, output_order)
    tables = _tables(pairs, rope)
    room = box.max_position + 1
    if rope is not None and rope.length_dependent:
        room = min(room, switch_of(rope))
    if largest is not None:
        room = min(room, largest + 1)
    scenes = play(caller, max(2, room))
    answered = [scene for scene in scenes if scene.out is not None]
    if not answered:
        assert scenes[0].failure is not None
        raise BoxFailure(scenes[0].failure)
    offset = offset or constant_offset(caller, answered, tables)
    found, reactions = _misread(caller, answered, tables, offset)
    twice = _twice(pairs, rope)
    if twice is not None:
        found.setdefault("double-rotation", twice)
    settled = not set(found) & set(HIDES_THE_REST) and all(one.ok for one in before)
    evidence = [*_named(found, rope, bool(tables), offset), *_by_scene(scenes, reactions, settled)]
    evidence += _again(scenes, found)
    evidence += _keys(caller, tables, offset, room, output_order, found)
    evidence += [*facts(caller), *dtypes(caller)]
    if not set(found) & set(HIDES_THE_REST):
        evidence += _where_it_turns(caller, tables, rope, offset, before)
        evidence += _sticky(caller, scenes, rope)
    return tuple(_merged(evidence))


def first_calls(box: Box, expect: Rope, *, output_order: Sequence[int] | None = None) -> tuple[Evidence, ...]:
    """Give the evidence about lengths alone: for a rope that depends on them, to be made before any other call.

    A base that never shrinks again is told from one that was always stretched only by a function that has not yet
    seen a long sequence.

    >>> from ropewalk import rotate
    >>> rope = Rope(head_dim=4, rope_theta=1e4, pairing="half")
    >>> first_calls(Box(lambda x, ids: rotate(x, ids, rope), head_dim=4), rope)
    ()
    """
    if not expect.length_dependent or expect.head_dim != box.head_dim:
        return ()
    return tuple(switching(Caller(box, output_order), expect))


def _tables(pairs: Pairs | None, rope: Rope | None) -> list[Table]:
    tables: list[Table] = []
    if pairs is not None:
        tables.append(lambda ids: pairs)
    if rope is not None:
        tables.append(lambda ids: rope.pairs(max(1, int(ids.max()) + 1) if rope.length_dependent else None))
    return tables


def _misread(
    caller: Caller, scenes: Sequence[Scene], tables: Sequence[Table], offset: float
) -> tuple[dict[str, dict[str, Any]], list[Reaction]]:
    """Give the faults with their details, and how each scene was explained."""
    earlier: list[NDArray] = []
    reactions = []
    for scene in scenes:
        reactions.append(react(caller, scene, tables, offset, earlier))
        earlier.insert(0, scene.ids)
    found: dict[str, dict[str, Any]] = {}
    for name, hits in blame([one for one in reactions if one.scene.name != "negative"]).items():
        found[name] = {"seen": hits[0].wrong[name][1], "scenes": [hit.scene.name for hit in hits], "gap": hits[0].right}
    if not found and all(one.right > 0.05 for one in reactions if one.scene.name in ("first", "offset", "grown")):
        bare = without_table(scenes, caller.box.resolution)
        if bare is not None:
            found[bare[0]] = {"seen": bare[1], "scenes": ["grown", "first", "offset"], "gap": None}
    elif all(gap(scene.x, scene.out) <= 1e-4 + 32 * caller.box.resolution for scene in scenes if scene.out is not None):
        found = {"identity": {"seen": "no token at all", "scenes": [scene.name for scene in scenes], "gap": None}}
    return found, reactions


def _named(found: dict[str, dict[str, Any]], rope: Rope | None, judged: bool, offset: float) -> list[Evidence]:
    evidence = []
    for name, right in MISREADINGS.items():
        hit = found.get(name)
        if hit is None:
            detail = {"judged": judged, **({"offset": offset} if offset else {})}
            evidence.append(Evidence(name=name, ok=True, seen="as it should", right=right, detail=detail))
            continue
        # a layer without positions is a convention
        undeclared = name == "identity" and (rope is None or not np.any(rope.pairs().inv_freq))
        detail = {key: value for key, value in hit.items() if key != "seen"}
        detail |= {"note": "turns nothing"} if undeclared else {}
        evidence.append(Evidence(name=name, ok=undeclared, seen=f"turns {hit['seen']}", right=right, detail=detail))
    return evidence


def _by_scene(scenes: Sequence[Scene], reactions: Sequence[Reaction], settled: bool) -> list[Evidence]:
    """Say what happened in the scenes themselves: a call that failed, or one that nothing explains."""
    evidence = []
    some_fit = settled and any(not one.wrong and one.right <= ROUGH for one in reactions)
    lost = [one.scene.name for one in reactions if not one.wrong and not one.fits and one.scene.name != "negative"]
    other_table = _by_tokens(reactions, lost)
    if other_table is not None and some_fit:
        words = f"calls of {other_table} tokens by another table than calls of other lengths"
        detail = {"scenes": lost, "tokens": other_table}
        evidence.append(
            Evidence(name="stale-table", ok=False, seen=words, right=MISREADINGS["stale-table"], detail=detail)
        )
    strange = some_fit and bool(lost) and other_table is None
    words = f"turned by no reading of the ids: {', '.join(lost)}" if strange else "as it should"
    evidence.append(Evidence(name="positions", ok=not strange, seen=words, right="each token by its id",
                             detail={"scenes": lost, "judged": some_fit}))  # fmt: skip
    failed = [scene for scene in scenes if scene.failure is not None and scene.name != "negative"]
    if failed and failed[0].failure is not None:
        words = f"{failed[0].name}: {failed[0].failure.message}"
        detail = {"scenes": [scene.name for scene in failed], "where": failed[0].failure.where}
        right = "an answer to every call"
        evidence.append(Evidence(name=failed[0].failure.kind, ok=False, seen=words, right=right, detail=detail))
    negative = next(scene for scene in scenes if scene.name == "negative")
    reaction = next((one for one in reactions if one.scene.name == "negative"), None)
    seen, detail = "turned backwards", {}
    if negative.failure is not None:
        seen, detail = negative.failure.message, {"note": "negative ids are refused"}
    elif reaction is not None and not reaction.fits:
        how = next(iter(reaction.wrong.values()), (0, "otherwise: perhaps from the end of a table"))[1]
        seen, detail = how, {"note": "negative ids are misread"}
    return [*evidence, Evidence(name="negative-ids", ok=True, seen=seen, right="turned backwards", detail=detail)]


def _by_tokens(reactions: Sequence[Reaction], lost: Sequence[str]) -> int | None:
    """Give the one number of tokens of all lost scenes, where there are several and every other scene is right."""
    sizes = {one.scene.ids.shape[2] for one in reactions if one.scene.name in lost}
    others = {one.scene.ids.shape[2] for one in reactions if one.fits}
    return sizes.pop() if len(lost) > 1 and len(sizes) == 1 and not sizes & others else None


def _again(scenes: Sequence[Scene], found: dict[str, Any]) -> list[Evidence]:
    """Compare the first of the calls with the same call after all others."""
    calls = {scene.name: scene.out for scene in scenes}
    first, again = calls["first"], calls["again"]
    if first is None or again is None or "stale-table" in found:
        return []
    return [_state("keeps-state", gap(first, again), "the same call, after others")]


def _state(name: str, change: float, words: str) -> Evidence:
    moved = change > 0.01
    seen = f"{words}, differs by {change:.3g}" if moved else f"{words}, is the same"
    return Evidence(name=name, ok=not moved, seen=seen, right="equal calls give equal answers", detail={"gap": change})


def _keys(
    caller: Caller,
    tables: Sequence[Table],
    offset: float,
    room: int,
    order: Sequence[int] | None,
    found: dict[str, Any],
) -> list[Evidence]:
    """Play the scenes with the number of key heads, where that is another and the queries were right."""
    box = other_heads(caller.box)
    if box is None or found or not tables:
        return []
    keys = Caller(box, order)
    scenes = play(keys, max(2, room))
    wrong, _ = _misread(keys, [scene for scene in scenes if scene.out is not None], tables, offset)
    failed = next((scene.failure for scene in scenes if scene.failure and scene.name != "negative"), None)
    words = f"with {box.heads} heads: "
    evidence = [
        Evidence(name=name, ok=False, seen=f"{words}turns {hit['seen']}", right=MISREADINGS.get(name, ""), detail=hit)
        for name, hit in wrong.items()
    ]
    if failed is not None:
        right = "an answer for keys as for queries"
        evidence.append(Evidence(name=failed.kind, ok=False, seen=words + failed.message, right=right))
    return evidence


def _where_it_turns(
    caller: Caller, tables: Sequence[Table], rope: Rope | None, offset: float, before: Sequence[Evidence]
) -> list[Evidence]:
    evidence: list[Evidence] = []
    dependent = rope is not None and rope.length_dependent
    if rope is not None and dependent:
        evidence += before or switching(caller, rope, offset)
    if rope is not None and caller.axes > 1:
        evidence += grid(caller, rope, offset)
    if tables:
        small = np.zeros((1, 1, 1), int) + 9
        slope = gradient(caller, tables[0](small), offset)
        evidence += [slope] if slope is not None else []
    if not dependent and caller.box.max_position > 100:
        evidence += octaves(caller, tables[-1] if rope is not None else None, offset)
    return evidence + far(caller, [] if dependent else tables, offset)


def _sticky(caller: Caller, scenes: Sequence[Scene], rope: Rope | None) -> list[Evidence]:
    """Compare a short call with the same one before the long ones, where no description says what is right."""
    first = next(scene for scene in scenes if scene.name == "first")
    if first.out is None or (rope is not None and rope.length_dependent):
        return []
    try:
        after = caller.turn(first.x, first.ids)
    except BoxFailure:
        return []
    return [_state("dynamic-sticky", gap(first.out, after), "a short call, after a long one")]


def _twice(pairs: Pairs | None, rope: Rope | None) -> dict[str, Any] | None:
    """Whether every pair turns by twice the declared angle."""
    if pairs is None or rope is None or rope.length_dependent:
        return None
    declared = {(int(a), int(b)): w for a, b, w in zip(*_columns(rope.pairs()), strict=True)}
    ratios = []
    for a, b, w in zip(*_columns(pairs), strict=True):
        wanted = declared.get((int(a), int(b)), -declared.get((int(b), int(a)), np.nan))
        if wanted:
            ratios.append(w / wanted)
    moving = sum(1 for w in declared.values() if w)
    if len(ratios) != moving or not np.allclose(ratios, 2.0, atol=2e-3, rtol=0):
        return None
    return {"seen": "each token twice by its id", "scenes": [], "gap": None, "ratio": float(np.median(ratios))}


def _columns(pairs: Pairs) -> tuple[NDArray, NDArray, NDArray]:
    return pairs.first, pairs.second, pairs.inv_freq


def _merged(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Keep one piece of evidence for a name: the first bad one, else the first."""
    kept: dict[str, Evidence] = {}
    for one in evidence:
        if one.name not in kept or (kept[one.name].ok and not one.ok):
            kept[one.name] = one
    return list(kept.values())
