"""What the call shapes share: one turn in plain torch operations, exact tables, rows taken by position, checks."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding

from .._checks import shown, whole
from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope

MAX_TABLE_BYTES = 2**36
_ROWS_AT_ONCE = 16_384  # float64 angles of a long table are made in pieces


def arithmetic(dtype: torch.dtype) -> torch.dtype:
    """Give the dtype that vectors of dtype are turned in: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def turn(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Turn every channel of x [..., R] by cos and sin, broadcastable to [..., R/2]; one rounding, to x's dtype.

    Everything that autograd keeps is cos and sin: the backward of a product with them needs no x.
    """
    work = arithmetic(x.dtype)
    cos, sin, wide = cos.to(work), sin.to(work), x.to(work)
    if interleaved:
        a, b = wide[..., 0::2], wide[..., 1::2]
        out = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    else:
        a, b = wide.chunk(2, dim=-1)
        out = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    return out.to(x.dtype)


def turn_doubled(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the first R channels of x [..., D], half-split, by tables [..., R] with an entry for each channel."""
    width = cos.shape[-1]
    work = arithmetic(x.dtype)
    a, b = x[..., :width].to(work).chunk(2, dim=-1)
    (cos_a, cos_b), (sin_a, sin_b) = (part.to(work).chunk(2, dim=-1) for part in (cos, sin))
    return _with_rest(torch.cat((a * cos_a - b * sin_a, b * cos_b + a * sin_b), dim=-1).to(x.dtype), x)


def turn_leading(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Turn the first 2·cos.shape[-1] channels of x [..., D]; the others are copied."""
    return _with_rest(turn(x[..., : 2 * cos.shape[-1]], cos, sin, interleaved=interleaved), x)


def _with_rest(turned: Tensor, x: Tensor) -> Tensor:
    """Give x with its first channels replaced; no concatenation, which autocast on the CPU refuses for half."""
    width = turned.shape[-1]
    if width == x.shape[-1]:
        return turned
    out = x.clone()
    out[..., :width] = turned
    return out


def turn_leading_(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Turn the first 2·cos.shape[-1] channels of x [..., D] in place and give x."""
    part = x[..., : 2 * cos.shape[-1]]
    part.copy_(turn(part, cos, sin, interleaved=interleaved))
    return x


def check_floating(**tensors: object) -> None:
    """Raise unless each is a tensor of real floating-point numbers."""
    for name, value in tensors.items():
        if not isinstance(value, Tensor) or not value.is_floating_point():
            given = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise RopewalkError(f"{name} must be a torch tensor of floating-point numbers, got {given}.")


def check_ids(name: str, ids: object) -> None:
    """Raise unless ids is a tensor of integers."""
    if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        given = ids.dtype if isinstance(ids, Tensor) else type(ids).__name__
        raise RopewalkError(f"{name} must be a torch tensor of integers, got {given}.")


def check_positions(ids: Tensor, rows: int, what: str) -> None:
    """Raise where a position lies outside a table of so many rows.

    Looked at on the CPU only: elsewhere it would wait for the device, whose own indexing refuses such a row. Neither
    while tracing, where there are no numbers.
    """
    if ids.device.type != "cpu" or not ids.numel() or torch.compiler.is_compiling():
        return
    low, high = (int(end) for end in ids.aminmax())
    if low < 0 or high >= rows:
        raise RopewalkError(
            f"{what} lie in 0 … {rows - 1}, the rows of the table, got {low if low < 0 else high}. "
            f"Make the table for at least {high + 1} positions."
        )


def rows_of(table: Tensor, ids: Tensor, what: str) -> Tensor:
    """Give the rows of table [rows, C] at ids [...], as [..., C]; a position without a row is an error."""
    check_positions(ids, table.shape[0], what)
    return embedding(ids.long(), table)  # not table[ids]: a negative index would wrap round


def offsets_of(offsets: int | Tensor, batch: int, device: torch.device, name: str = "seqlen_offsets") -> int | Tensor:
    """Give the position of each sequence's first token, one int or [B] integers on the device."""
    if not isinstance(offsets, Tensor):
        return whole(name, offsets)
    check_ids(name, offsets)
    if offsets.shape != (batch,):
        raise RopewalkError(f"{name} must be one int or [batch={batch}] integers, got shape {list(offsets.shape)}.")
    return offsets.to(device)


def packed_ids(
    tokens: int,
    starts: Tensor,
    offsets: int | Tensor,
    device: torch.device,
    *,
    max_seqlen: int | None = None,
    names: tuple[str, str] = ("cu_seqlens", "seqlen_offsets"),
) -> tuple[Tensor, Tensor]:
    """Give each packed token's position [T], 0 for those after the end, and whether it is inside a sequence [T]."""
    check_ids(names[0], starts)
    if starts.ndim != 1 or starts.shape[0] < 2:
        raise RopewalkError(f"{names[0]} must be [batch + 1] integers, got shape {list(starts.shape)}.")
    if starts.device.type == "cpu" and not torch.compiler.is_compiling():
        _check_starts(names[0], starts.tolist(), tokens, max_seqlen)
    starts = starts.to(device=device, dtype=torch.int64)
    batch = starts.shape[0] - 1
    order = torch.arange(tokens, device=device)
    row = torch.searchsorted(starts[1:].contiguous(), order, right=True)
    inside, row = row < batch, row.clamp(max=batch - 1)
    offsets = offsets_of(offsets, batch, device, names[1])
    ids = order - starts[row] + (offsets[row] if isinstance(offsets, Tensor) else offsets)
    return torch.where(inside, ids, 0), inside


def _check_starts(name: str, starts: list[int], tokens: int, max_seqlen: int | None) -> None:
    lengths = [end - start for start, end in pairwise(starts)]
    if starts[0] != 0 or min(lengths) < 0 or starts[-1] > tokens:
        raise RopewalkError(f"{name} must rise from 0 to at most the number of tokens {tokens}, got {shown(starts)}.")
    if max_seqlen is not None and max(lengths) > max_seqlen:
        raise RopewalkError(
            f"max_seqlen must be at least the longest sequence's {max(lengths)} tokens, got {max_seqlen}."
        )


def resolved(rope: Rope, length: int | None, what: str) -> Pairs:
    """Give the rope's pairs for a table by one position, or say why such a table cannot say them."""
    if not isinstance(rope, Rope):
        raise RopewalkError(f"{what} needs a Rope, got {type(rope).__name__}. Take one from ropewalk.read(…).")
    if rope.length_dependent and length is None:
        raise RopewalkError(
            f"{rope.scaling.rope_type} scaling depends on the length of the sequence: pass length=, the number of "
            "tokens."
        )
    pairs = rope.pairs(length)
    if rope.axes.num_axes > 1:
        raise RopewalkError(
            f"{what} has one position a token; this rope has {rope.axes.num_axes} axes "
            f"({', '.join(getattr(rope.axes, 'names', ()))}). Use ropewalk.torch.Rotary."
        )
    if not pairs.is_rotation:
        raise RopewalkError(
            f"{what} has one cos and sin a pair; this rope ({rope.pairing}) turns the two channels of a pair by "
            "different angles. Use ropewalk.torch.Rotary."
        )
    return pairs


def pairing_of(pairs: Pairs, start: int, what: str) -> str:
    """Give "half" or "interleaved" for pairs that take all channels from start on in that order, else raise.

    One pair is both: the answer is then "half".
    """
    steps = np.arange(len(pairs))
    for name, first, second in (("half", steps, steps + len(pairs)), ("interleaved", 2 * steps, 2 * steps + 1)):
        if np.array_equal(pairs.first, start + first) and np.array_equal(pairs.second, start + second):
            return name
    raise RopewalkError(
        f"{what} pairs channels (i, i + R/2) or (2i, 2i + 1) from channel {start} on; this rope starts with "
        f"({', '.join(str((int(a), int(b))) for a, b in list(zip(pairs.first, pairs.second, strict=True))[:3])} …)."
    )


def table(
    pairs: Pairs, max_position: int, dtype: torch.dtype, device: torch.device | str | None
) -> tuple[Tensor, Tensor]:
    """Give cos and sin [max_position, P] of the positions 0 …, the factor applied: float64 angles, rounded to dtype."""
    rows = whole("max_position", max_position)
    if not dtype.is_floating_point:
        raise RopewalkError(f"a table's dtype must be a floating-point one, got {dtype}.")
    size = 2 * rows * len(pairs) * dtype.itemsize
    if size > MAX_TABLE_BYTES:
        raise RopewalkError(
            f"a table of {rows} positions and {len(pairs)} pairs takes {size / 2**30:.1f} GiB; at most "
            f"{MAX_TABLE_BYTES // 2**30} are made. Ask for fewer positions."
        )
    cos, sin = (torch.empty(rows, len(pairs), dtype=dtype, device="cpu") for _ in range(2))
    for start, angles in _angles(pairs, rows):
        for into, values in ((cos, np.cos(angles)), (sin, np.sin(angles))):
            into[start : start + len(angles)] = torch.from_numpy(values * pairs.cos_sin_factor)
    return cos.to(device=device), sin.to(device=device)


def _angles(pairs: Pairs, rows: int) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, rows, _ROWS_AT_ONCE):
        ids = np.arange(start, min(start + _ROWS_AT_ONCE, rows), dtype=np.float64)
        yield start, ids[:, None] * pairs.inv_freq
