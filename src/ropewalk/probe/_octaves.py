"""Calls that differ in their longest position alone: a table kept under too short a key shows by which is used."""

from collections.abc import Sequence

import numpy as np

from ._caller import Caller, Floats, by_head, gap, turned
from ._evidence import Evidence
from ._scenes import ROUGH, Table, ask

SMALL = (5, 7, 11)  # positions that are asked for in every call
RIGHT = "the same positions turn alike in every call, however long"


def octaves(caller: Caller, declared: Table | None, offset: float) -> list[Evidence]:
    """Ask for three small positions beside ever longer ones, and compare what the small ones give.

    Args:
        caller: what is asked.
        declared: the table that does not depend on the length, where one is declared.
        offset: a constant by which the function moves every position.
    """
    lengths, outs, x = [], [], None
    for power in range(3, 17):
        longest = 3 * 2**power // 2
        if longest > caller.box.max_position:
            break
        tokens = np.array([*SMALL, longest])
        scene = ask(caller, "octave", np.array(np.broadcast_to(tokens, (caller.axes, caller.batch, 4))), uniform=True)
        if scene.out is None:
            break
        lengths.append(longest + 1)
        outs.append(scene.out[:, :3])
        x = scene.x[:, :3]
    if len(outs) < 3 or x is None:
        return []
    kinds = _kinds(outs)
    detail = {"lengths": lengths, "tables": kinds}
    if len(set(kinds)) == 1:
        return [Evidence(name="stale-table", ok=True, seen="alike at every length", right=RIGHT, detail=detail)]
    fits = [declared is not None and _fits(caller, x, out, declared, offset) for out in outs]
    usual = kinds[fits.index(True)] if any(fits) else max(set(kinds), key=kinds.count)
    odd = [kind != usual for kind in kinds]
    where = ", ".join(str(length) for length, other in zip(lengths, odd, strict=True) if other)
    seen = f"another table in calls of length {where}"
    stale = len(set(kinds)) == 2 and (any(fits) or declared is None) and not odd[-1]
    if stale:
        return [Evidence(name="stale-table", ok=False, seen=seen, right=RIGHT, detail=detail)]
    # one that changes with the length and stays so is a rule of its own: a fault where another is declared
    undeclared = declared is None
    note = {"note": "the table depends on the length"} if undeclared else {}
    return [Evidence(name="length-rule", ok=undeclared, seen=seen, right=RIGHT, detail={**detail, **note})]


def _kinds(outs: Sequence[Floats]) -> list[int]:
    """Number the different answers in the order in which they come."""
    models: list[Floats] = []
    kinds = []
    for out in outs:
        kind = next((place for place, model in enumerate(models) if gap(model, out) <= 0.02), len(models))
        if kind == len(models):
            models.append(out)
        kinds.append(kind)
    return kinds


def _fits(caller: Caller, x: Floats, out: Floats, table: Table, offset: float) -> bool:
    ids = np.array(np.broadcast_to(np.array(SMALL), (caller.axes, caller.batch, 3)))
    return gap(turned(x, table(ids), by_head(ids + offset, caller.heads)), out) <= ROUGH
