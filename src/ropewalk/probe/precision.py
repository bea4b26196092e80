"""How precise a RoPE's angles are, in radians by position, and which rounding makes them what they are."""

from collections.abc import Sequence

import numpy as np

from ..pairs import Pairs
from ._blame import Precision, by_frequencies, explained, on_a_grid
from ._caller import Caller
from ._conditions import under_conditions
from ._measured import POSITIONS, measure
from .box import Box

__all__ = ["POSITIONS", "Precision", "conditions", "grade"]


def grade(
    box: Box,
    pairs: Pairs,
    *,
    max_position: int,
    intended: Pairs | None = None,
    output_order: Sequence[int] | None = None,
    offset: float = 0.0,
) -> Precision:
    """Give how far the angles are from float64, and why.

    Args:
        box: the function.
        pairs: the table recovered from it; of one length, where it depends on the length.
        max_position: the largest position: a table's last row, the last before a length-dependent rope switches.
        intended: the table it means to have, where that is known (its explanation, what was declared). Rounded
            frequencies are part of the recovered table; without this they show only by lying on a 16-bit grid.
        output_order: output channel j holds what channel output_order[j] would; None is the same order.
        offset: a constant by which the function moves every position.

    >>> def turn(x, ids):
    ...     angle = (ids * 0.3).astype(np.float16).astype(float)[..., None, None]
    ...     cos, sin = np.cos(angle), np.sin(angle)
    ...     return np.concatenate([x[..., :1] * cos - x[..., 1:] * sin, x[..., 1:] * cos + x[..., :1] * sin], -1)
    >>> result = grade(Box(turn, head_dim=2), Pairs(first=[0], second=[1], axis=[0], inv_freq=[0.3]), max_position=9000)
    >>> result.cause, result.grade
    ('fp16-angles', 'fatal')
    """
    caller = Caller(box, output_order)
    measured = measure(caller, pairs, max_position, offset)
    if not len(measured.positions):
        words = next(iter(measured.failed.values()), "no position could be tried")
        return Precision(errors={}, cause=None, grade="unusable", words=words, detail={"failed": measured.failed})
    resolution = box.resolution
    tables = [*([intended] if intended is not None and _close(intended, pairs) else []), pairs]
    verdicts = [explained(measured, table, resolution) for table in tables]
    known = next((one for one in verdicts if one.cause != "unknown" and one.grade != "unusable"), None)
    if known is None:
        computed = by_frequencies(measured, tables[0], resolution)
        return computed or explained(measured, tables[0], resolution, last_resort=True)
    return known if known is not verdicts[-1] else on_a_grid(known, pairs, intended, measured, resolution)


def conditions(
    box: Box,
    pairs: Pairs,
    *,
    max_position: int = 50_000,
    intended: Pairs | None = None,
    output_order: Sequence[int] | None = None,
    offset: float = 0.0,
) -> dict[str, Precision]:
    """Give the same for a torch function under the conditions that ruin many: by condition, its own grade.

    Autocast, half-precision inputs and default dtype; for a module also copies of it after ``.to(bfloat16)``,
    ``.half()`` and ``.to("meta")`` with ``to_empty`` (and its reset_parameters, if it has one). The module itself is
    not changed. Functions of other libraries have no conditions: {}.

    Args:
        box: the function.
        pairs: as for grade; so are the others.
        max_position: the largest position that is tried.
        intended: as for grade.
        output_order: as for grade.
        offset: as for grade.

    >>> conditions(Box(lambda x, ids: x, head_dim=2), Pairs(first=[], second=[], axis=[], inv_freq=[]))
    {}
    """
    if box.library != "torch":
        return {}
    found: dict[str, Precision] = {}
    for name, tries in under_conditions(box):
        for other in tries:
            found[name] = grade(
                other, pairs, max_position=max_position, intended=intended, output_order=output_order, offset=offset
            )
            if found[name].grade != "unusable":
                break
    return found


def _close(intended: Pairs, pairs: Pairs) -> bool:
    """Whether a table is another only by roundings: the same pairs, frequencies within a tenth."""
    if len(intended) != len(pairs) or not np.array_equal(intended.first, pairs.first):
        return False
    if not (np.array_equal(intended.second, pairs.second) and np.array_equal(intended.axis, pairs.axis)):
        return False
    return bool(np.all(np.abs(intended.inv_freq - pairs.inv_freq) <= 0.1 * np.abs(intended.inv_freq) + 1e-7))
