"""flash-attention's rotary call, on any device, with the bounds of the table checked."""

import torch
from torch import Tensor

from .._checks import whole
from ..errors import RopewalkError
from ..rope import Rope
from ._turning import (
    check_floating,
    offsets_of,
    packed_ids,
    pairing_of,
    resolved,
    rows_of,
    table,
    turn_leading,
    turn_leading_,
)


def cos_sin(
    rope: Rope,
    seqlen: int,
    dtype: torch.dtype = torch.float32,
    *,
    length: int | None = None,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """Give the two tables that apply_rotary_emb takes: float64 angles, the factor applied, rounded once.

    Args:
        rope: the description; one axis, its turned channels leading. Pass interleaved=True with it where its pairing
            is "interleaved".
        seqlen: rows, positions 0 … seqlen-1.
        dtype: of the tables; float32 is read as it is, a 16-bit table costs up to 0.002 an entry.
        length: tokens in the sequence, for dynamic NTK and LongRoPE.
        device: where the tables lie.

    Returns:
        (cos, sin), each [seqlen, R/2].

    Raises:
        RopewalkError: for a rope that these tables cannot say, or a missing length.

    >>> cos_sin(Rope(head_dim=8, rope_theta=10000.0, pairing="half"), 3)[0].shape
    torch.Size([3, 4])
    """
    pairs = resolved(rope, length, "flash-attention")
    pairing_of(pairs, 0, "flash-attention")
    return table(pairs, seqlen, dtype, device)


def apply_rotary_emb(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    interleaved: bool = False,
    inplace: bool = False,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
    conjugate: bool = False,
) -> Tensor:
    """Turn the leading R channels of x by the table's rows; differentiable, also with respect to cos and sin.

    The arithmetic is float32 (float64 for float64), whatever the tables' dtype, with one rounding to x's dtype.

    Args:
        x: [B, S, H, D], or packed [T, H, D] with cu_seqlens.
        cos: [rows, R/2], the row of each position; R at most D.
        sin: likewise.
        interleaved: pairs of channels (2i, 2i + 1) instead of (i, i + R/2).
        inplace: write into x and give x.
        seqlen_offsets: the position of each sequence's first token, one int or [B] integers.
        cu_seqlens: [B + 1] integers, where each packed sequence starts and the last one ends. Tokens after the end are
            left as they are.
        max_seqlen: tokens of the longest packed sequence; checked where given.
        conjugate: turn the other way, as the backward does.

    Returns:
        Shape and dtype of x.

    Raises:
        RopewalkError: for shapes and dtypes that do not fit, and for positions outside the table, where the original
            leaves the tokens unturned. On devices other than the CPU the device's own check stands for the last one.

    Source: flash-attention, `apply_rotary_emb` of flash_attn/layers/rotary.py; conjugate is `apply_rotary`'s.

    >>> x = torch.tensor([1.0, 0.0]).view(1, 1, 1, 2)
    >>> angle = torch.arange(8.0)[:, None]
    >>> apply_rotary_emb(x, angle.cos(), angle.sin(), seqlen_offsets=7).flatten()
    tensor([0.7539, 0.6570])
    """
    _check(x, cos, sin, 3 if cu_seqlens is not None else 4)
    if cu_seqlens is None:
        if max_seqlen is not None and max_seqlen < x.shape[1]:
            raise RopewalkError(f"max_seqlen must be at least the sequence's length {x.shape[1]}, got {max_seqlen}.")
        cos, sin = (_padded(part, x, seqlen_offsets) for part in (cos, sin))
    else:
        ids, inside = packed_ids(x.shape[0], cu_seqlens, seqlen_offsets, x.device, max_seqlen=max_seqlen)
        cos = torch.where(inside[:, None], rows_of(cos, ids, "positions"), 1.0)[:, None]
        sin = torch.where(inside[:, None], rows_of(sin, ids, "positions"), 0.0)[:, None]
    sin = -sin if conjugate else sin
    return (turn_leading_ if inplace else turn_leading)(x, cos, sin, interleaved=interleaved)


def apply_rotary_emb_qkv_(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    cos_k: Tensor | None = None,
    sin_k: Tensor | None = None,
    interleaved: bool = False,
    seqlen_offsets: int | Tensor = 0,
    num_heads_q: int | None = None,
) -> Tensor:
    """Turn the queries and keys inside qkv in place and give qkv; the values are not touched.

    Args:
        qkv: [B, S, 3, H, D], or [B, S, num_heads_q + 2·KV, D] with num_heads_q.
        cos: [rows, R/2].
        sin: likewise.
        cos_k: tables of the keys where they differ (xPos); else those of the queries.
        sin_k: likewise.
        interleaved: pairs of channels (2i, 2i + 1) instead of (i, i + R/2).
        seqlen_offsets: the position of each sequence's first token, one int or [B] integers.
        num_heads_q: heads of the queries, for the second shape.

    Raises:
        RopewalkError: as apply_rotary_emb does, and for heads that do not add up.

    Source: flash-attention, `apply_rotary_emb_qkv_` of flash_attn/layers/rotary.py.

    >>> qkv = torch.ones(1, 1, 3, 2, 4)
    >>> apply_rotary_emb_qkv_(qkv, torch.zeros(1, 2), torch.ones(1, 2))[0, 0, :, 0, 0]
    tensor([-1., -1.,  1.])
    """
    check_floating(qkv=qkv)
    if qkv.ndim == 5 and qkv.shape[2] == 3:
        q, k = qkv[:, :, 0], qkv[:, :, 1]
    elif qkv.ndim == 4 and num_heads_q is not None:
        heads, rest = whole("num_heads_q", num_heads_q, at_least=1), qkv.shape[2] - num_heads_q
        if rest < 2 or rest % 2:
            raise RopewalkError(
                f"qkv must hold num_heads_q + 2·KV heads, got {qkv.shape[2]} heads with num_heads_q={num_heads_q}."
            )
        q, k = qkv[:, :, :heads], qkv[:, :, heads : heads + rest // 2]
    else:
        raise RopewalkError(
            "qkv must be [batch, seq, 3, heads, head_dim], or [batch, seq, num_heads_q + 2·KV, head_dim] with "
            f"num_heads_q, got {list(qkv.shape)}, num_heads_q={num_heads_q}."
        )
    k_tables = cos if cos_k is None else cos_k, sin if sin_k is None else sin_k
    _check(k, *k_tables, 4)  # before q is written
    apply_rotary_emb(q, cos, sin, interleaved, True, seqlen_offsets)
    apply_rotary_emb(k, *k_tables, interleaved, True, seqlen_offsets)
    return qkv


def apply_rotary_emb_kv_(
    kv: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, seqlen_offsets: int | Tensor = 0
) -> Tensor:
    """Turn the keys inside kv [B, S, 2, KV, D] in place and give kv; the values are not touched.

    Args:
        kv: keys and values.
        cos: [rows, R/2].
        sin: likewise.
        interleaved: pairs of channels (2i, 2i + 1) instead of (i, i + R/2).
        seqlen_offsets: the position of each sequence's first token, one int or [B] integers.

    Raises:
        RopewalkError: as apply_rotary_emb does.

    Source: flash-attention, `apply_rotary_emb_kv_` of flash_attn/layers/rotary.py.

    >>> apply_rotary_emb_kv_(torch.ones(1, 1, 2, 1, 2), torch.zeros(1, 1), torch.ones(1, 1)).flatten()
    tensor([-1.,  1.,  1.,  1.])
    """
    check_floating(kv=kv)
    if kv.ndim != 5 or kv.shape[2] != 2:
        raise RopewalkError(f"kv must be [batch, seq, 2, heads, head_dim], got {list(kv.shape)}.")
    apply_rotary_emb(kv[:, :, 0], cos, sin, interleaved, True, seqlen_offsets)
    return kv


def _check(x: Tensor, cos: Tensor, sin: Tensor, ndim: int) -> None:
    check_floating(x=x, cos=cos, sin=sin)
    if x.ndim != ndim:
        shape = "[batch, seq, heads, head_dim]" if ndim == 4 else "[tokens, heads, head_dim] with cu_seqlens"
        raise RopewalkError(f"x must be {shape}, got shape {list(x.shape)}.")
    if cos.ndim != 2 or cos.shape != sin.shape or 2 * cos.shape[1] > x.shape[-1]:
        raise RopewalkError(
            f"cos and sin must both be [rows, R/2] with R at most head_dim={x.shape[-1]}, got {list(cos.shape)} and "
            f"{list(sin.shape)}."
        )
    if not x.device == cos.device == sin.device:
        raise RopewalkError(
            f"x, cos and sin must be on one device, got {x.device}, {cos.device} and {sin.device}. Move the tables "
            "once."
        )


def _padded(part: Tensor, x: Tensor, seqlen_offsets: int | Tensor) -> Tensor:
    """Give the rows of part for x [B, S, H, D] as [S, 1, R/2] or [B, S, 1, R/2]."""
    batch, seq = x.shape[:2]
    offsets = offsets_of(seqlen_offsets, batch, x.device)
    if isinstance(offsets, Tensor):
        ids = offsets[:, None] + torch.arange(seq, device=x.device)
        return rows_of(part, ids, "positions").unsqueeze(-2)
    if offsets + seq > part.shape[0]:
        raise RopewalkError(
            f"positions lie in 0 … {part.shape[0] - 1}, the rows of the table, got {offsets + seq - 1} (offset "
            f"{offsets}, {seq} tokens). Make the table for at least {offsets + seq} positions."
        )
    return part[offsets : offsets + seq].unsqueeze(-2)
