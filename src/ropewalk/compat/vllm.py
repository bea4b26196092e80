"""vLLM's packed cache of cos and sin, and its in-place op, on any device."""

import torch
from torch import Tensor

from .._checks import truth, whole
from ..errors import RopewalkError
from ..rope import Rope
from ._turning import check_floating, check_ids, pairing_of, resolved, rows_of, table, turn_leading_


def cos_sin_cache(
    rope: Rope,
    max_position: int,
    dtype: torch.dtype = torch.float32,
    *,
    rope_dim_offset: int = 0,
    length: int | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Give vLLM's cache of a rope: cos and sin side by side, float64 angles, the factor applied, rounded once.

    Args:
        rope: the description; one axis, pairs (i, i + R/2) or (2i, 2i + 1).
        max_position: rows, positions 0 … max_position-1.
        dtype: of the cache. vLLM itself casts it to the model's; a 16-bit cache costs up to 0.002 an entry.
        rope_dim_offset: the first turned channel, as the op takes it; must be the rope's rotary_start.
        length: tokens in the sequence, for dynamic NTK and LongRoPE.
        device: where the cache lies.

    Returns:
        [max_position, R]: the first R/2 columns are cos, the others sin.

    Raises:
        RopewalkError: for several axes, a map that is no rotation, turned channels elsewhere, or a missing length.

    Source: vLLM, `RotaryEmbedding._compute_cos_sin_cache`, whose own angles are float32.

    >>> cos_sin_cache(Rope(head_dim=4, rope_theta=100.0, pairing="half"), 11)[10]
    tensor([-0.8391,  0.5403, -0.5440,  0.8415])
    """
    pairs = resolved(rope, length, "vLLM's cache")
    if rope.rotary_start != whole("rope_dim_offset", rope_dim_offset):
        raise RopewalkError(
            f"this rope turns channels from {rope.rotary_start} on, the op with rope_dim_offset={rope_dim_offset} "
            f"those from {rope_dim_offset} on. Pass rope_dim_offset={rope.rotary_start} here and to rotary_embedding."
        )
    pairing_of(pairs, rope.rotary_start, "vLLM's op")
    cos, sin = table(pairs, max_position, dtype, device)
    cache = cos.new_empty(cos.shape[0], 2 * len(pairs))
    cache[:, : len(pairs)], cache[:, len(pairs) :] = cos, sin
    return cache


def is_neox(rope: Rope) -> bool:
    """Say whether the op's is_neox must be true for this rope: pairs (i, i + R/2), not (2i, 2i + 1).

    Raises:
        RopewalkError: for a rope whose pairs are neither.

    >>> is_neox(Rope(head_dim=8, rope_theta=10000.0, pairing="interleaved"))
    False
    """
    return pairing_of(rope.pairs(), rope.rotary_start, "vLLM's op") == "half"


def rotary_embedding(
    positions: Tensor,
    query: Tensor,
    key: Tensor | None,
    head_size: int,
    cos_sin_cache: Tensor,
    is_neox: bool,
    rope_dim_offset: int = 0,
    inverse: bool = False,
) -> None:
    """Turn query and key in place by the cache's rows, as vLLM's op of that name.

    The arithmetic is float32 (float64 for float64), whatever the cache's dtype, with one rounding to the input's.

    Args:
        positions: [T] or [B, S] integers.
        query: [T, H·head_size], [T, H, head_size], [B, S, H·head_size] or [B, S, H, head_size].
        key: likewise with its own number of heads, or None.
        head_size: D, channels of a head.
        cos_sin_cache: [max_position, R].
        is_neox: pairs of channels (i, i + R/2); else (2i, 2i + 1).
        rope_dim_offset: the first turned channel.
        inverse: turn the other way; the factor inside the cache still multiplies.

    Raises:
        RopewalkError: for shapes and dtypes that do not fit, and positions outside the cache, which the op reads
            past its end. On devices other than the CPU the device's own check stands for the last one.

    Source: vLLM, csrc/pos_encoding_kernels.cu.

    >>> query = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    >>> cache = cos_sin_cache(Rope(head_dim=4, rope_theta=100.0, pairing="half"), 11)
    >>> rotary_embedding(torch.tensor([10]), query, None, 4, cache, True)
    >>> query
    tensor([[-0.8391,  0.0000, -0.5440,  0.0000]])
    """
    check_ids("positions", positions)
    if positions.ndim not in (1, 2):
        raise RopewalkError(f"positions must be [tokens] or [batch, seq], got shape {list(positions.shape)}.")
    given = {"query": query} if key is None else {"query": query, "key": key}
    check_floating(cos_sin_cache=cos_sin_cache, **given)
    width, start = whole("head_size", head_size, at_least=1), whole("rope_dim_offset", rope_dim_offset)
    turned = cos_sin_cache.shape[-1]
    if cos_sin_cache.ndim != 2 or turned % 2 or start + turned > width:
        raise RopewalkError(
            f"cos_sin_cache must be [max_position, R], R even and rope_dim_offset + R at most head_size, got "
            f"{list(cos_sin_cache.shape)}, rope_dim_offset={start}, head_size={width}."
        )
    by_head = {name: _by_head(name, x, positions, width) for name, x in given.items()}
    rows = rows_of(cos_sin_cache, positions.to(cos_sin_cache.device), "positions").unsqueeze(-2)
    cos, sin = rows.chunk(2, dim=-1)
    sin = -sin if truth("inverse", inverse) else sin
    for x in by_head.values():
        turn_leading_(x[..., start:], cos, sin, interleaved=not truth("is_neox", is_neox))


def _by_head(name: str, x: Tensor, positions: Tensor, width: int) -> Tensor:
    """Give a view of x as [*positions.shape, heads, head_size]."""
    shape, ndim = tuple(positions.shape), positions.ndim
    flat = x.ndim == ndim + 1 and x.shape[-1] % width == 0
    by_head = x.ndim == ndim + 2 and x.shape[-1] == width
    if tuple(x.shape[:ndim]) != shape or not (flat or by_head):
        tokens = ", ".join(map(str, shape))
        raise RopewalkError(
            f"{name} must be [{tokens}, heads·head_size] or [{tokens}, heads, head_size] for positions {list(shape)} "
            f"and head_size={width}, got {list(x.shape)}."
        )
    return x.unflatten(-1, (-1, width)) if flat else x
