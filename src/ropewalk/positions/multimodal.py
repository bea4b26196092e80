"""Positions of text with images and videos in it (M-RoPE): three for each token, and where decoding goes on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._checks import choice, items, real, shown, truth, whole
from ..errors import RopewalkError
from ._arrays import Array, as_like, integers, library, positions
from ._placing import IMAGE, TEXT, VIDEO, Stream, place
from .grids import check_grids
from .text import tokens


class Grid(NamedTuple):
    """An image or a video among the tokens of a prompt, as they are after patches were merged.

    Attributes:
        t: frames (after temporal patches); 1 for an image.
        h: rows of tokens.
        w: tokens in a row.
        step: positions from one frame to the next (Qwen2.5-VL: tokens_per_second times the seconds of a frame).
    """

    t: int
    h: int
    w: int
    step: float = 1.0


class MRope(NamedTuple):
    """What a multimodal prompt needs: its positions, and the way on.

    Attributes:
        position_ids: [3, B, S] (t, h, w), int64; float64 where times are real numbers. Padding has 0.
        delta: [B, 1] int64; the position of a new token is the number of tokens before it plus delta, on every axis
            (transformers' ``rope_deltas``).
        next_position: [B, 1] int64, the position of the first new token.
    """

    position_ids: Array
    delta: Array
    next_position: Array


def mrope(
    rows: Sequence[Sequence[int | tuple[float, ...]]],
    *,
    padding_side: str = "left",
    advance: str = "largest",
    whole_times: bool = True,
    like: Array = None,
) -> MRope:
    """Give the positions of prompts described piece by piece.

    Text counts on by one on all three axes. A grid stands where the count has come to: its tokens take the count plus
    their frame, row and column, and after it the count is larger by what advance says.

    Args:
        rows: for each row of the batch its pieces in order: n for n tokens of text, a Grid (or a plain tuple t, h, w
            and perhaps step) for an image or a video.
        padding_side: ``"left"`` or ``"right"``, where shorter rows are filled up.
        advance: ``"largest"``: text goes on after the largest position of the grid, times included (Qwen2-VL's paper
            and the models' own code); ``"side"``: after the longer side, times left out (transformers 5 since 5.3).
            They differ for a video whose times reach beyond its sides.
        whole_times: the time of frame i is the whole part of i * step, as in the models' code; the step itself is never
            rounded. False keeps real times.
        like: a tensor decides kind and device; None gives NumPy.

    Returns:
        MRope(position_ids [3, B, S], delta [B, 1], next_position [B, 1]).

    Raises:
        RopewalkError: for pieces that are no whole numbers or grids.

    Source: Wang et al. 2024, Qwen2-VL, section 2.1; transformers 5.24, `Qwen2_5_VLModel.get_rope_index`.

    >>> found = mrope([[4, (1, 2, 3), 2]])
    >>> found.position_ids[:, 0].tolist()
    [[0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 7, 8], [0, 1, 2, 3, 4, 4, 4, 5, 5, 5, 7, 8], [0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8]]
    >>> found.delta.tolist(), found.next_position.tolist()
    ([[-3]], [[9]])
    """
    choice("padding_side", padding_side, ("left", "right"))
    grids, kinds = [], []
    for row in items("rows", rows):
        kinds.append([])
        for piece in items("a row", row):
            if isinstance(piece, tuple | list):
                grids.append(_grid(piece))
                kinds[-1] += [IMAGE] * int(np.prod(grids[-1][:3]))
            else:
                kinds[-1] += [TEXT] * whole("tokens of text", piece)
    longest = max(map(len, kinds), default=0)
    filled, mask = (np.zeros((len(kinds), longest), dtype=np.int64) for _ in range(2))
    for b, row in enumerate(kinds):
        span = slice(longest - len(row), longest) if padding_side == "left" else slice(len(row))
        filled[b, span], mask[b, span] = row, 1
    sizes = np.array([grid[:3] for grid in grids], dtype=np.int64).reshape(-1, 3)
    steps = np.array([grid.step for grid in grids], dtype=np.float64)
    found = place(filled, mask, {IMAGE: Stream(sizes, steps)}, advance, whole_times)
    return MRope(*(as_like(array, like) for array in found))


def mrope_from_ids(
    input_ids: Array,
    *,
    image_token_id: int | None = None,
    video_token_id: int | None = None,
    image_grid_thw: Array = None,
    video_grid_thw: Array = None,
    spatial_merge_size: int,
    temporal_merge_size: int = 1,
    tokens_per_second: float | None = None,
    second_per_grid_ts: Array = None,
    frames_apart: bool = False,
    attention_mask: Array = None,
    advance: str = "largest",
    whole_times: bool = True,
) -> MRope:
    """Give the positions of tokenised multimodal prompts, from what a processor makes of them.

    It is built without a loop over rows or images, so that torch can trace it. Where a processor gives
    ``mm_token_type_ids``, these can stand for input_ids, with image_token_id=1 and video_token_id=2.

    Args:
        input_ids: [B, S] integers.
        image_token_id: stands for each token of an image.
        video_token_id: stands for each token of a video.
        image_grid_thw: [N, 3] integers, frames, rows and columns of each image's patches before merging, in the order
            of the batch's rows.
        video_grid_thw: [N, 3], likewise of the videos.
        spatial_merge_size: patches merged into one token, each way (2 for Qwen2-VL to Qwen3-VL and GLM-4.1V).
        temporal_merge_size: frames of a video merged into one (2 for Ernie 4.5-VL).
        tokens_per_second: positions a second, for videos (Qwen2.5-VL); None: each frame is one position on.
        second_per_grid_ts: [N] seconds from one frame of a video to the next; None: 1.
        frames_apart: every frame of a video is a grid of its own, with text (its time) before it (Qwen3-VL, GLM-4.1V).
        attention_mask: [B, S], 1 for a token and 0 for padding; None: every column is a token.
        advance: ``"largest"`` or ``"side"``, as for mrope.
        whole_times: as for mrope.

    Returns:
        MRope(position_ids [3, B, S], delta [B, 1], next_position [B, 1]).

    Raises:
        RopewalkError: where the tokens of images or videos are not as many as their grids say; counts are looked at on
            the CPU only, and not while torch traces.

    Source: transformers 5.24, `get_rope_index` of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Ernie 4.5-VL.

    >>> ids = [[1, 9, 9, 9, 9, 9, 9, 2]]
    >>> mrope_from_ids(ids, image_token_id=9, image_grid_thw=[[1, 4, 6]], spatial_merge_size=2).position_ids[2].tolist()
    [[0, 1, 2, 3, 1, 2, 3, 4]]
    """
    ids = integers("input_ids", input_ids, "[batch, seq]")
    xp = library(ids)
    mask = xp.ones_like(ids) if attention_mask is None else tokens(attention_mask)
    if mask.shape != ids.shape:
        raise RopewalkError(f"attention_mask must be {list(ids.shape)} as input_ids are, got {list(mask.shape)}.")
    merge = whole("spatial_merge_size", spatial_merge_size, at_least=1)
    frames = whole("temporal_merge_size", temporal_merge_size, at_least=1)
    kinds, streams = xp.zeros_like(ids), {}
    given = (IMAGE, "image", image_token_id, image_grid_thw), (VIDEO, "video", video_token_id, video_grid_thw)
    for kind, name, token, grids in given:
        if grids is None and token is None:
            continue
        if token is None:
            raise RopewalkError(f"{name}_grid_thw needs {name}_token_id, to know its tokens.")
        sizes = ids.reshape(-1)[:0].reshape(0, 3) if grids is None else grids
        sizes = integers(f"{name}_grid_thw", sizes, "[images, 3]", like=ids)
        temporal = frames if kind == VIDEO else 1
        check_grids(f"{name}_grid_thw", sizes, merge, temporal)
        sizes = xp.stack([sizes[:, 0] // temporal, sizes[:, 1] // merge, sizes[:, 2] // merge], -1)
        steps = _steps(sizes, tokens_per_second, second_per_grid_ts) if kind == VIDEO else None
        kinds = xp.where(ids == whole(f"{name}_token_id", token), kind, kinds)
        streams[kind] = Stream(sizes, steps, kind == VIDEO and truth("frames_apart", frames_apart))
    return MRope(*place(kinds, mask, streams, advance, whole_times))


def _steps(sizes: Array, tokens_per_second: float | None, second_per_grid_ts: Array) -> Array:
    """Give the step of each video in positions, or None where each frame is one position on."""
    if tokens_per_second is None and second_per_grid_ts is None:
        return None
    per_second = 1.0 if tokens_per_second is None else real("tokens_per_second", tokens_per_second, above=0)
    if second_per_grid_ts is None:
        return _seconds(sizes[:, 0] * 0 + 1, sizes) * per_second
    seconds = _seconds(second_per_grid_ts, sizes)
    if tuple(seconds.shape) != tuple(sizes.shape[:1]):
        raise RopewalkError(
            f"second_per_grid_ts must be one a video, got shape {list(seconds.shape)} for {sizes.shape[0]} videos."
        )
    return seconds * per_second


def _seconds(values: Array, like: Array) -> Array:
    """Give seconds as floats, a tensor's own dtype kept."""
    if library(values) is not np and values.is_floating_point():
        return values.to(like.device)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and library(like) is np:
        return values
    found = positions("second_per_grid_ts", values, like)
    xp = library(found)
    return found.astype(np.float64) if xp is np else found.to(xp.float32 if found.device.type == "mps" else xp.float64)


def _grid(piece: Sequence[float]) -> Grid:
    if len(piece) not in (3, 4):
        raise RopewalkError(f"a grid must be (t, h, w) or (t, h, w, step), got {shown(tuple(piece))}.")
    t, h, w = (whole(f"{name} of a grid", size, at_least=1) for name, size in zip("thw", piece, strict=False))
    return Grid(t, h, w, real("step of a grid", piece[3], at_least=0) if len(piece) == 4 else 1.0)
