"""FlashInfer's rotary calls and its cache of cos and sin, on any device, with exact angles and checked bounds."""

import torch
from torch import Tensor

from .._checks import truth, whole
from ..errors import RopewalkError
from ..rope import Rope
from ..scaling import Linear, Llama3, Scaling
from . import vllm
from ._turning import check_floating, check_ids, packed_ids, turn_leading, turn_leading_


def cos_sin_cache(
    rope: Rope, max_position: int, *, length: int | None = None, device: torch.device | str | None = None
) -> Tensor:
    """Give the cache that apply_rope_with_cos_sin_cache takes: cos and sin side by side, float64 angles, float32.

    Args:
        rope: the description; one axis, its turned channels leading. Pass is_neox=False with it where its pairing is
            "interleaved".
        max_position: rows, positions 0 … max_position-1.
        length: tokens in the sequence, for dynamic NTK and LongRoPE.
        device: where the cache lies.

    Returns:
        [max_position, R] float32, which FlashInfer insists on: the first R/2 columns are cos, the others sin.

    Raises:
        RopewalkError: for several axes, a map that is no rotation, turned channels at the tail, or a missing length.

    >>> cos_sin_cache(Rope(head_dim=4, rope_theta=100.0, pairing="half"), 11)[10]
    tensor([-0.8391,  0.5403, -0.5440,  0.8415])
    """
    if isinstance(rope, Rope) and rope.rotary_start:
        raise RopewalkError(
            f"FlashInfer turns leading channels; this rope turns those from {rope.rotary_start} on. Pass the slice "
            "of the turned channels with a rope of their own."
        )
    return vllm.cos_sin_cache(rope, max_position, length=length, device=device)


def apply_rope_with_cos_sin_cache(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox: bool = True
) -> tuple[Tensor, Tensor]:
    """Turn query and key by the cache's rows; the arithmetic is float32 (float64 for float64), one rounding.

    Args:
        positions: [T] integers.
        query: [T, H·head_size].
        key: [T, KV·head_size].
        head_size: D, channels of a head.
        cos_sin_cache: [max_position, R] float32.
        is_neox: pairs of channels (i, i + R/2); else (2i, 2i + 1).

    Returns:
        The turned query and key, shapes and dtypes of the given ones.

    Raises:
        RopewalkError: for shapes and dtypes that do not fit, and positions outside the cache, which the original
            reads past its end. On devices other than the CPU the device's own check stands for the last one.

    Source: FlashInfer 0.6.18, `apply_rope_with_cos_sin_cache` of flashinfer/rope.py.

    >>> cache = cos_sin_cache(Rope(head_dim=4, rope_theta=100.0, pairing="half"), 11)
    >>> x = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    >>> apply_rope_with_cos_sin_cache(torch.tensor([10]), x, x, 4, cache)[0]
    tensor([[-0.8391,  0.0000, -0.5440,  0.0000]])
    """
    check_floating(query=query, key=key)
    query, key = query.clone(), key.clone()
    apply_rope_with_cos_sin_cache_inplace(positions, query, key, head_size, cos_sin_cache, is_neox)
    return query, key


def apply_rope_with_cos_sin_cache_inplace(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox: bool = True
) -> None:
    """Turn query and key in place by the cache's rows; as apply_rope_with_cos_sin_cache.

    Source: FlashInfer 0.6.18, `apply_rope_with_cos_sin_cache_inplace` of flashinfer/rope.py.
    """
    check_floating(cos_sin_cache=cos_sin_cache)
    if cos_sin_cache.dtype != torch.float32:
        raise RopewalkError(
            f"cos_sin_cache must be float32, as FlashInfer insists, got {cos_sin_cache.dtype}. Make it with "
            "cos_sin_cache(rope, max_position)."
        )
    vllm.rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox)


def apply_rope(
    q: Tensor,
    k: Tensor,
    indptr: Tensor,
    offsets: Tensor,
    rotary_dim: int | None = None,
    interleave: bool = False,
    rope_scale: float = 1,
    rope_theta: float = 1e4,
) -> tuple[Tensor, Tensor]:
    """Turn packed queries and keys, angles computed on the fly: in float64 here, in float32 in the original.

    Args:
        q: [T, H, D].
        k: [T, KV, D].
        indptr: [B + 1] integers, where each sequence starts and the last one ends. Tokens after the end are left as
            they are.
        offsets: [B] integers, the position of each sequence's first token.
        rotary_dim: R, leading channels that turn; all where None.
        interleave: pairs of channels (2i, 2i + 1) instead of (i, i + R/2).
        rope_scale: s, divides the positions (linear scaling).
        rope_theta: θ.

    Returns:
        The turned queries and keys, shapes and dtypes of the given ones.

    Raises:
        RopewalkError: for shapes, dtypes and numbers that do not fit.

    Source: FlashInfer 0.6.18, `apply_rope` of flashinfer/rope.py.

    >>> x = torch.tensor([1.0, 0.0]).view(1, 1, 2)
    >>> apply_rope(x, x, torch.tensor([0, 1]), torch.tensor([7]))[0].flatten()
    tensor([0.7539, 0.6570])
    """
    ids, inside = _ragged(q, indptr, offsets)
    return _turned(q, k, ids, inside, _rope(q, rotary_dim, interleave, rope_theta, _linear(rope_scale)))


def apply_rope_inplace(
    q: Tensor,
    k: Tensor,
    indptr: Tensor,
    offsets: Tensor,
    rotary_dim: int | None = None,
    interleave: bool = False,
    rope_scale: float = 1,
    rope_theta: float = 1e4,
) -> None:
    """Turn packed queries and keys in place; as apply_rope."""
    ids, inside = _ragged(q, indptr, offsets)
    _turn_(q, k, ids, inside, _rope(q, rotary_dim, interleave, rope_theta, _linear(rope_scale)))


def apply_rope_pos_ids(
    q: Tensor,
    k: Tensor,
    pos_ids: Tensor,
    rotary_dim: int | None = None,
    interleave: bool = False,
    rope_scale: float = 1,
    rope_theta: float = 1e4,
) -> tuple[Tensor, Tensor]:
    """Turn queries and keys by the position of each token, pos_ids [T] integers; the rest as apply_rope.

    Source: FlashInfer 0.6.18, `apply_rope_pos_ids` of flashinfer/rope.py.

    >>> x = torch.tensor([1.0, 0.0]).view(1, 1, 2)
    >>> apply_rope_pos_ids(x, x, torch.tensor([14]), rope_scale=2)[0].flatten()
    tensor([0.7539, 0.6570])
    """
    return _turned(q, k, _ids(q, pos_ids), None, _rope(q, rotary_dim, interleave, rope_theta, _linear(rope_scale)))


def apply_rope_pos_ids_inplace(
    q: Tensor,
    k: Tensor,
    pos_ids: Tensor,
    rotary_dim: int | None = None,
    interleave: bool = False,
    rope_scale: float = 1,
    rope_theta: float = 1e4,
) -> None:
    """Turn queries and keys in place by the position of each token; as apply_rope_pos_ids."""
    _turn_(q, k, _ids(q, pos_ids), None, _rope(q, rotary_dim, interleave, rope_theta, _linear(rope_scale)))


def apply_llama31_rope(
    q: Tensor,
    k: Tensor,
    indptr: Tensor,
    offsets: Tensor,
    rotary_dim: int | None = None,
    interleave: bool = False,
    rope_scale: float = 8,
    rope_theta: float = 5e5,
    low_freq_factor: float = 1,
    high_freq_factor: float = 4,
    old_context_len: int = 8192,
) -> tuple[Tensor, Tensor]:
    """Turn packed queries and keys with Llama 3.1's scaling; the rest as apply_rope.

    Args:
        q: [T, H, D].
        k: [T, KV, D].
        indptr: [B + 1] integers.
        offsets: [B] integers.
        rotary_dim: R; all channels where None.
        interleave: pairs of channels (2i, 2i + 1) instead of (i, i + R/2).
        rope_scale: s, by which slow pairs are slowed.
        rope_theta: θ.
        low_freq_factor: turns within old_context_len below which a pair is slowed by all of s.
        high_freq_factor: turns within old_context_len above which a pair is kept.
        old_context_len: L0, tokens.

    Source: FlashInfer 0.6.18, `apply_llama31_rope` of flashinfer/rope.py and BatchQKApplyLlama31Rotary of
        include/flashinfer/pos_enc.cuh, which divides by 0 where the two factors are equal.
    """
    scaling = _llama31(rope_scale, low_freq_factor, high_freq_factor, old_context_len)
    ids, inside = _ragged(q, indptr, offsets)
    return _turned(q, k, ids, inside, _rope(q, rotary_dim, interleave, rope_theta, scaling))


def apply_llama31_rope_inplace(
    q: Tensor,
    k: Tensor,
    indptr: Tensor,
    offsets: Tensor,
    rotary_dim: int | None = None,
    interleave: bool = False,
    rope_scale: float = 8,
    rope_theta: float = 5e5,
    low_freq_factor: float = 1,
    high_freq_factor: float = 4,
    old_context_len: int = 8192,
) -> None:
    """Turn packed queries and keys in place with Llama 3.1's scaling; as apply_llama31_rope."""
    scaling = _llama31(rope_scale, low_freq_factor, high_freq_factor, old_context_len)
    ids, inside = _ragged(q, indptr, offsets)
    _turn_(q, k, ids, inside, _rope(q, rotary_dim, interleave, rope_theta, scaling))


def apply_llama31_rope_pos_ids(
    q: Tensor,
    k: Tensor,
    pos_ids: Tensor,
    rotary_dim: int | None = None,
    interleave: bool = False,
    rope_scale: float = 8,
    rope_theta: float = 5e5,
    low_freq_factor: float = 1,
    high_freq_factor: float = 4,
    old_context_len: int = 8192,
) -> tuple[Tensor, Tensor]:
    """Turn queries and keys by pos_ids [T] with Llama 3.1's scaling; the rest as apply_llama31_rope."""
    scaling = _llama31(rope_scale, low_freq_factor, high_freq_factor, old_context_len)
    return _turned(q, k, _ids(q, pos_ids), None, _rope(q, rotary_dim, interleave, rope_theta, scaling))


def apply_llama31_rope_pos_ids_inplace(
    q: Tensor,
    k: Tensor,
    pos_ids: Tensor,
    rotary_dim: int | None = None,
    interleave: bool = False,
    rope_scale: float = 8,
    rope_theta: float = 5e5,
    low_freq_factor: float = 1,
    high_freq_factor: float = 4,
    old_context_len: int = 8192,
) -> None:
    """Turn queries and keys in place by pos_ids [T] with Llama 3.1's scaling; as apply_llama31_rope_pos_ids."""
    scaling = _llama31(rope_scale, low_freq_factor, high_freq_factor, old_context_len)
    _turn_(q, k, _ids(q, pos_ids), None, _rope(q, rotary_dim, interleave, rope_theta, scaling))


def _linear(rope_scale: float) -> Scaling:
    return Linear(factor=rope_scale)


def _llama31(rope_scale: float, low: float, high: float, old_context_len: int) -> Scaling:
    return Llama3(
        factor=rope_scale,
        low_freq_factor=low,
        high_freq_factor=high,
        original_max_position_embeddings=int(whole("old_context_len", int(old_context_len), at_least=1)),
    )


def _rope(q: Tensor, rotary_dim: int | None, interleave: bool, rope_theta: float, scaling: Scaling) -> Rope:
    check_floating(q=q)
    return Rope(
        head_dim=q.shape[-1],
        rotary_dim=rotary_dim,
        rope_theta=rope_theta,
        pairing="interleaved" if truth("interleave", interleave) else "half",
        scaling=scaling,
    )


def _ids(q: Tensor, pos_ids: Tensor) -> Tensor:
    check_ids("pos_ids", pos_ids)
    if pos_ids.shape != q.shape[:1]:
        raise RopewalkError(f"pos_ids must be [tokens={q.shape[0]}] integers, got shape {list(pos_ids.shape)}.")
    return pos_ids.to(q.device)


def _ragged(q: Tensor, indptr: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    check_floating(q=q)
    check_ids("offsets", offsets)
    return packed_ids(q.shape[0], indptr, offsets, q.device, names=("indptr", "offsets"))


def _rows(q: Tensor, k: Tensor, ids: Tensor, inside: Tensor | None, rope: Rope) -> tuple[Tensor, Tensor]:
    """Give cos and sin [T, 1, R/2] of each token's own angles; a token outside keeps still."""
    check_floating(q=q, k=k)
    if q.ndim != 3 or k.ndim != 3 or q.shape[::2] != k.shape[::2] or q.device != k.device:
        raise RopewalkError(
            "q and k must be [tokens, heads, head_dim] on one device, with as many tokens and channels, got "
            f"{list(q.shape)} on {q.device} and {list(k.shape)} on {k.device}."
        )
    wide = ids if ids.device.type != "mps" else ids.cpu()  # which has no float64
    freq = torch.tensor(rope.pairs().inv_freq, dtype=torch.float64, device=wide.device)
    angles = wide.double()[:, None] * freq
    if inside is not None:
        angles = torch.where(inside.to(angles.device)[:, None], angles, 0.0)
    work = torch.float64 if torch.float64 in (q.dtype, k.dtype) else torch.float32
    cos, sin = (part.to(work).to(q.device)[:, None] for part in (angles.cos(), angles.sin()))
    return cos, sin


def _turned(q: Tensor, k: Tensor, ids: Tensor, inside: Tensor | None, rope: Rope) -> tuple[Tensor, Tensor]:
    cos, sin = _rows(q, k, ids, inside, rope)
    interleaved = rope.pairing == "interleaved"
    return turn_leading(q, cos, sin, interleaved=interleaved), turn_leading(k, cos, sin, interleaved=interleaved)


def _turn_(q: Tensor, k: Tensor, ids: Tensor, inside: Tensor | None, rope: Rope) -> None:
    cos, sin = _rows(q, k, ids, inside, rope)
    for x in (q, k):
        turn_leading_(x, cos, sin, interleaved=rope.pairing == "interleaved")
