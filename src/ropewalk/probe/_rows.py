"""How many rows of positions a function takes that nothing was declared of: [A, B, S] beside [B, S]."""

import numpy as np

from ._caller import gap, vectors
from .box import Box, BoxFailure

COUNTS = (3, 2, 4)  # t, h, w first: fewer rows than it has make a function raise, more are not looked at
TOKENS = 5


def rows_of(box: Box) -> int:
    """Give A where a function takes positions [A, B, S] and every row of them turns something; else 1.

    >>> rows_of(Box(lambda x, ids: x * np.cos(ids)[..., None, None], head_dim=4))
    1
    """
    try:
        box.library  # noqa: B018  (finds out what fn takes; what it does not take may be the missing rows)
    except BoxFailure as failure:
        if failure.failure.kind not in ("raised", "shape"):
            return 1
    return next((count for count in COUNTS if _every_row_turns(box.with_(axes=count))), 1)


def _every_row_turns(box: Box) -> bool:
    tokens = next(size for size in (TOKENS, 6, 7) if size not in (box.axes, box.batch, box.heads))
    still = np.zeros((box.axes, box.batch, tokens), dtype=np.int64)
    x = vectors((box.batch, tokens, box.heads, box.head_dim))
    try:
        unmoved = box.turn(x, still)
        near = 64 * box.resolution * max(1.0, float(np.abs(unmoved).max()))
        return all(_turns(box, x, unmoved, row, near) for row in range(box.axes))
    except BoxFailure:
        return False


def _turns(box: Box, x: np.ndarray, unmoved: np.ndarray, row: int, near: float) -> bool:
    """Whether the positions of one row turn the last token, and it alone; slow pairs need a far one."""
    for position in (7, 900):
        ids = np.zeros((box.axes, box.batch, x.shape[1]), dtype=np.int64)
        ids[row, :, -1] = min(position, box.max_position)
        out = box.turn(x, ids)
        if gap(out[:, :-1], unmoved[:, :-1]) > near:
            return False
        if gap(out[:, -1], unmoved[:, -1]) > near:
            return True
    return False
