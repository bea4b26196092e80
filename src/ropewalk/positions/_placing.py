"""Where multimodal tokens stand: the count of a row, and each token's place in its grid, without a loop."""

from itertools import accumulate
from typing import NamedTuple

import numpy as np

from .._checks import choice, truth
from ..errors import RopewalkError
from ._arrays import Array, library, positions, readable

TEXT, IMAGE, VIDEO = 0, 1, 2


class Stream(NamedTuple):
    """Grids of one kind of token, in the order of the batch's rows."""

    sizes: Array  # [N, 3]: frames, rows, columns of tokens
    steps: Array = None  # [N]
    frames_apart: bool = False


class Placed(NamedTuple):
    """Where the tokens of one stream stand within their grids."""

    member: Array  # [B, S] bool
    offset: Array  # [3, B, S], to add to the count that the grid begins at
    adds: Array  # [B, S], what the count grows by after this token


def place(
    kinds: Array, mask: Array, streams: dict[int, Stream], advance: str, whole_times: bool
) -> tuple[Array, Array, Array]:
    """Give position_ids [3, B, S], delta [B, 1] and next position [B, 1], as mrope_from_ids describes them.

    Args:
        kinds: [B, S] int64, TEXT, IMAGE or VIDEO.
        mask: [B, S] int64, 1 for a token and 0 for padding.
        streams: the grids of each kind that there are.
        advance: ``"largest"`` or ``"side"``.
        whole_times: whether times are whole numbers.
    """
    choice("advance", advance, ("largest", "side"))
    truth("whole_times", whole_times)
    xp = library(kinds)
    adds, offset = mask, xp.stack([xp.zeros_like(mask)] * 3)
    for kind, stream in streams.items():
        if readable(kinds, stream.sizes):
            _check_counts(kind, (kinds == kind) & (mask > 0), stream.sizes.prod(-1).tolist())
        if stream.sizes.shape[0] == 0:
            continue
        one = _placed(kinds, mask, kind, stream, advance, whole_times)
        adds = xp.where(one.member, one.adds, adds)
        offset = xp.where(one.member, one.offset, offset)
    ids = (xp.cumsum(adds, -1) - adds + offset) * mask
    largest = xp.where(mask > 0, ids.max(0) if xp is np else ids.amax(0), -1)
    if largest.shape[1]:
        largest = largest.max(-1, keepdims=True) if xp is np else largest.amax(-1, keepdim=True)
    else:
        largest = xp.zeros_like(mask.sum(-1))[:, None] - 1
    following = (largest if whole_times else _whole(largest)) + 1
    return ids, following - mask.sum(-1)[:, None], following


def _placed(kinds: Array, mask: Array, kind: int, stream: Stream, advance: str, whole_times: bool) -> Placed:
    xp, sizes = library(kinds), stream.sizes
    member = (kinds == kind) & (mask > 0)
    count = xp.cumsum(member.reshape(-1), 0) - 1  # the number of each token among those of its kind in the batch
    count = (count.astype(np.int64) if xp is np else count).reshape(kinds.shape)
    all_ends = xp.cumsum(sizes[:, 0] * sizes[:, 1] * sizes[:, 2], 0)
    grid = xp.searchsorted(all_ends, count, side="right").clip(0, sizes.shape[0] - 1)
    t, h, w = (sizes[grid, axis] for axis in range(3))
    within = (count - (all_ends[grid] - t * h * w)).clip(0)
    frame, patch = within // (h * w), within % (h * w)
    last = patch == h * w - 1
    side = xp.maximum(h, w)
    if stream.frames_apart:
        time, grows = xp.zeros_like(frame), side
    else:
        step = None if stream.steps is None else stream.steps[grid]
        time, last = _times(frame, step, whole_times), last & (frame == t - 1)
        reached = time if whole_times or step is None else _whole(time)
        grows = xp.maximum(side, reached + 1) if advance == "largest" else side  # counted at the last token alone
    zero = xp.zeros_like(side)
    if readable(kinds, sizes):
        _check_together(kind, member, mask, patch if stream.frames_apart else within)
    return Placed(member, xp.stack([time, patch // w, patch % w]), xp.where(last, grows, zero))


def _times(frame: Array, step: Array, whole_times: bool) -> Array:
    if step is None:
        return frame
    if not whole_times:
        return frame * positions("step", step, frame)  # in float64
    # In the dtype of the step, as the models' code multiplies: float32 from a processor's tensor.
    return _whole((frame.astype(step.dtype) if library(frame) is np else frame) * step)


def _whole(times: Array) -> Array:
    xp = library(times)
    return np.floor(times).astype(np.int64) if xp is np else xp.floor(times).to(xp.int64)


def _check_counts(kind: int, member: Array, sizes: list[int]) -> None:
    name = "image" if kind == IMAGE else "video"
    counts, ends, reached = member.sum(-1).tolist(), {0, *accumulate(sizes)}, 0
    if sum(counts) != sum(sizes):
        raise RopewalkError(
            f"the {name} tokens must be as many as the grids hold, got {sum(counts)} tokens for grids of {sum(sizes)} "
            f"(after merging). Check {name}_grid_thw, {name}_token_id and spatial_merge_size."
        )
    for row, count in enumerate(counts):
        reached += count
        if reached not in ends:
            raise RopewalkError(
                f"row {row} ends within a grid: its {count} {name} tokens do not fit {name}_grid_thw, whose grids hold "
                f"{', '.join(map(str, sizes[:8]))}{' …' if len(sizes) > 8 else ''} (after merging)."
            )


def _check_together(kind: int, member: Array, mask: Array, within: Array) -> None:
    """Raise where something stands between two tokens of one grid, whose own order would then be counted wrongly."""
    inner = member[:, 1:] & (within[:, 1:] > 0)
    if bool((inner & (mask[:, :-1] > 0) & ~member[:, :-1]).any()):
        name = "image" if kind == IMAGE else "video"
        more = " Where every frame stands apart, say frames_apart=True." if kind == VIDEO else ""
        raise RopewalkError(f"the tokens of one {name} must stand side by side, got others between them.{more}")
