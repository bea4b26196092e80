"""The ways to misread position ids: for each, the position by which every head of every token would be turned."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._caller import Floats, by_head


class Reading(NamedTuple):
    """A way of reading position ids.

    Attributes:
        name: the fault it would be; "right" for none.
        words: what the function then does.
        positions: [A, B, S, H] the position of every head of every token.
    """

    name: str
    words: str
    positions: Floats


def readings(ids: NDArray, heads: int, offset: float, earlier: Sequence[NDArray]) -> Iterator[Reading]:
    """Give the right reading of ids [A, B, S] first, then every wrong one that differs from it.

    Args:
        ids: what was asked.
        heads: H.
        offset: a constant by which the function moves every position.
        earlier: the ids of the calls before, the latest first.
    """
    right = by_head(ids + offset, heads)
    yield Reading("right", "each token by its own id", right)
    for name, words, positions in _wrong(np.asarray(ids, np.float64) + offset, heads, offset, earlier):
        full = np.array(np.broadcast_to(positions, right.shape))
        if not np.array_equal(full, right):
            yield Reading(name, words, full)


def _wrong(ids: Floats, heads: int, offset: float, earlier: Sequence[NDArray]) -> Iterator[tuple[str, str, Floats]]:
    batch, tokens = ids.shape[1:]
    counted, head, each = np.arange(tokens) + offset, np.arange(heads) + offset, ids[..., None]
    zero = np.zeros_like(each)
    yield "identity", "no token at all", zero
    yield "ids-ignored", "each token by its place in the call, 0, 1, 2 …", counted[:, None] + zero
    yield "ids-ignored", "the first id, counted on from there", each[:, :, :1] + np.arange(tokens)[:, None]
    yield "ids-ignored", "all rows counted on from the first id of row 0", each[:, :1, :1] + np.arange(tokens)[:, None]
    yield "window-constant", "all tokens of a call by its first id", each[:, :, :1] + zero
    yield "window-constant", "all tokens of a call by its last id", each[:, :, -1:] + zero
    yield "row-0-only", "the first row alone", np.where(np.arange(batch)[:, None, None] > 0, 0.0, each)
    yield "ids-ignored", "every row by the ids of row 0", each[:, :1] + zero
    yield "first-head-only", "the first head alone", np.where(np.arange(heads) > 0, 0.0, each)
    yield "head-axis", "each head by its place, 0, 1, 2 …", head + zero
    yield "head-axis", "each head by its place, counted on from the first id", each[:, :, :1] + np.arange(heads)
    if tokens == heads:
        yield "head-axis", "each head by the id of the token of that number", np.swapaxes(each, 2, 3) + zero
    if tokens == batch:
        yield "per-row-ids", "rows and tokens exchanged", np.swapaxes(each, 1, 2)
    if batch > 1:
        rows = np.arange(batch)[:, None, None] + offset
        yield "per-row-ids", "each row by its place, 0, 1, 2 …", rows + zero
        if tokens > 1:
            yield "per-row-ids", "the first ids of the rows, row after row", _first_ids_along_tokens(each) + zero
    yield "double-rotation", "each token twice by its id", 2 * each
    yield "positions", "each token one position ahead", each + 1
    yield "positions", "each token one position behind", each - 1
    yield "non-monotone", "the ids sorted", np.sort(each, axis=2)
    yield "non-monotone", "the largest id so far", np.maximum.accumulate(each, axis=2)
    yield "negative-ids", "a negative id by its size", np.abs(each)
    yield "negative-ids", "a negative id as 0", np.maximum(each, 0)
    yield "negative-ids", "a negative id not at all", np.where(each < 0, 0.0, each)
    for past in earlier:
        if past.shape[2] >= tokens and past.shape[1] >= batch:
            words = f"the positions of an earlier call (from {past[0, 0, 0]:g})"
            yield "stale-table", words, past[:, :batch, :tokens, None] + offset


def _first_ids_along_tokens(each: Floats) -> Floats:
    """Offsets [B] spread along the tokens instead of the rows, as a broadcast of [B] against [S] does."""
    batch, tokens = each.shape[1:3]
    return each[:, np.arange(tokens) % batch, 0, :][:, None]
