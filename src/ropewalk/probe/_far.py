"""Positions beyond the end of somebody's table: an error is fine, the last row again is not."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ._caller import Caller, Floats, by_head, gap, turned
from ._evidence import Evidence
from ._scenes import Scene, Table, ask

NAME = "table-end-clamped"
RIGHT = "every position turns by its own angle, or is refused"
SLOW = 0.25  # seconds after which a call with positions eight times as large is not made


def far_positions(limit: int) -> list[int]:
    """Give positions that grow to below limit, none a power of two: a table's end then lies between two of them.

    >>> far_positions(5000)
    [14, 23, 40, 73, 138, 267, 524, 1037, 2062, 4150, 4650, 4850, 4950, 4999]
    """
    steps = [2**j + 3 + j for j in range(3, 40) if 2**j + 3 + j < 0.75 * limit]
    near = [part * limit // 100 for part in (83, 93, 97, 99)]
    return sorted({*steps, *near, max(0, limit - 1)})


def far(caller: Caller, tables: Sequence[Table], offset: float) -> list[Evidence]:
    """Ask for ever larger positions and say what happens at the end of the table, if there is one."""
    positions = far_positions(caller.box.max_position + 1)
    before = caller.box.seconds
    scene = _ask(caller, [p for p in positions if p <= 140_000])
    if scene.out is not None and positions[-1] > 140_000 and caller.box.seconds - before < SLOW:
        longer = _ask(caller, positions)
        scene = longer if longer.out is not None else _last_fine(caller, positions, longer)
    elif scene.out is None:
        scene = _last_fine(caller, [p for p in positions if p <= 140_000], scene)
    evidence = []
    if scene.out is None or scene.failure is not None:
        evidence.append(_refused(scene))
    if scene.out is None:
        return evidence
    return [*evidence, _judged(caller, scene, tables, offset)]


def _ask(caller: Caller, positions: Sequence[int]) -> Scene:
    ids = np.array(np.broadcast_to(np.array(positions), (caller.axes, caller.batch, len(positions))))
    return ask(caller, "far", ids, uniform=True)


def _last_fine(caller: Caller, positions: Sequence[int], failed: Scene) -> Scene:
    """Give the longest call that is answered, the failure of the next one kept with it."""
    low, high, fine = 0, len(positions), None
    while low + 1 < high:  # the first `low` positions are answered, the first `high` are not
        middle = (low + high) // 2
        scene = _ask(caller, positions[:middle])
        if scene.out is None:
            high, failed = middle, scene
        else:
            low, fine = middle, scene
    if fine is None:
        return failed
    return Scene(name="far", ids=fine.ids, x=fine.x, out=fine.out, failure=failed.failure)


def _refused(scene: Scene) -> Evidence:
    assert scene.failure is not None
    last = None if scene.out is None else int(scene.ids.max())
    silent = scene.failure.kind == "not-finite"
    words = f"positions to {last} are answered" if last is not None else "no large position is answered"
    return Evidence(
        name="not-finite" if silent else "table-end",
        ok=not silent,
        seen=f"{words}; beyond them: {scene.failure.kind}: {scene.failure.message}",
        right="finite numbers, or an error that names the position and the rows",
        detail={"last_answered": last, "kind": scene.failure.kind, "note": "ends"},
    )


def _judged(caller: Caller, scene: Scene, tables: Sequence[Table], offset: float) -> Evidence:
    out, ids = scene.out, scene.ids[0, 0].astype(np.float64) + offset
    assert out is not None
    row = out[0]  # [S, H, D]
    near = 8 * caller.box.resolution * max(1.0, float(np.abs(row).max()))
    frozen = _frozen_tail(row, near)
    table = _fitting(caller, scene, tables, offset)
    expected = (
        None if table is None else turned(scene.x, table(scene.ids), by_head(scene.ids + offset, caller.heads))[0]
    )
    if frozen > 1 and (expected is None or gap(expected[-frozen:], row[-1:]) > 0.05):
        last_moving = int(ids[-frozen - 1]) if frozen < len(ids) else 0
        rows = None if table is None else _row(caller, scene, table, row[-1], last_moving, int(ids[-frozen]) + 1)
        how = "unturned" if gap(row[-1], scene.x[0, -1]) <= near else "clamped"
        at = f"as position {rows}" if rows is not None else "alike"
        return Evidence(
            name=NAME, ok=False, seen=f"every position from {int(ids[-frozen])} on is turned {at}", right=RIGHT,
            detail={"how": how, "last_row": rows, "last_moving": last_moving, "first_frozen": int(ids[-frozen])},
        )  # fmt: skip
    wrapped = None if table is None or expected is None else _wrapped(caller, scene, table, row, expected)
    if wrapped is not None:
        return Evidence(
            name=NAME, ok=False, seen=f"position {wrapped} is turned as 0: positions wrap round", right=RIGHT,
            detail={"how": "wrapped", "rows": wrapped, "last_row": wrapped - 1},
        )  # fmt: skip
    return Evidence(name=NAME, ok=True, seen=f"positions to {int(ids[-1])} differ", right=RIGHT,
                    detail={"largest": int(ids[-1])})  # fmt: skip


def _frozen_tail(row: Floats, near: float) -> int:
    """Give how many of the last tokens are equal to the very last."""
    same = [gap(token, row[-1]) <= near for token in row]
    return len(same) - max((place + 1 for place, equal in enumerate(same) if not equal), default=0)


def _fitting(caller: Caller, scene: Scene, tables: Sequence[Table], offset: float) -> Table | None:
    """Give the table that explains the smallest of the positions."""
    assert scene.out is not None
    positions = by_head(scene.ids + offset, caller.heads)[:, :, :1]
    gaps = [gap(turned(scene.x[:, :1], table(scene.ids), positions), scene.out[:, :1]) for table in tables]
    if not gaps or min(gaps) > 0.25:
        return None
    return tables[int(np.argmin(gaps))]


def _row(caller: Caller, scene: Scene, table: Table, token: Floats, start: int, end: int) -> int | None:
    """Give the position from start to below end that turns a token as it was turned, or None."""
    pairs = table(scene.ids)
    fast = np.argsort(-np.abs(pairs.inv_freq))[:6]
    few = replace(
        pairs,
        first=pairs.first[fast],
        second=pairs.second[fast],
        axis=pairs.axis[fast],
        inv_freq=pairs.inv_freq[fast],
        second_inv_freq=None if pairs.second_inv_freq is None else pairs.second_inv_freq[fast],
    )
    channels = np.concatenate([few.first, few.second])
    best, place = 0.05, None
    for begin in range(start, end, 65_536):
        span = np.arange(begin, min(end, begin + 65_536))
        positions = np.array(np.broadcast_to(span[:, None], (caller.axes, 1, len(span), 1)), dtype=np.float64)
        out = turned(np.repeat(scene.x[:1, :1, :1], len(span), axis=1), few, positions)[0, :, 0]
        gaps = np.abs(out[:, channels] - token[0, channels]).max(-1)
        if gaps.min() < best:
            best, place = float(gaps.min()), int(span[gaps.argmin()])
    return place


def _wrapped(caller: Caller, scene: Scene, table: Table, row: Floats, expected: Floats) -> int | None:
    """Give the number of rows after which positions start again, or None."""
    wrong = [place for place in range(len(row)) if gap(expected[place], row[place]) > 0.3]
    if not wrong or wrong != list(range(wrong[0], len(row))):
        return None
    ids = scene.ids[0, 0]
    fine = int(ids[wrong[0] - 1]) if wrong[0] else 0
    place = _row(caller, scene, table, row[wrong[0]], 0, int(ids[wrong[0]]) - fine)
    if place is None:
        return None
    rows = int(ids[wrong[0]]) - place
    positions = np.broadcast_to((ids % rows)[None, None, :, None], (caller.axes, 1, len(ids), caller.heads))
    return rows if gap(turned(scene.x[:1], table(scene.ids), positions.astype(np.float64))[0], row) <= 0.1 else None
