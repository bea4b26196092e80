"""Which tokens a rank holds when sequences are shared out for context parallelism (zig-zag)."""

import numpy as np

from .._checks import whole
from ..errors import RopewalkError
from ._arrays import Array, arange, as_like, library, readable
from .text import boundaries, packed_length


def shard(length: int, *, cp_size: int, cp_rank: int, like: Array = None) -> Array:
    """Give the rows of one sequence that a rank holds: chunks cp_rank and 2*cp_size - 1 - cp_rank of 2*cp_size.

    An early chunk and a late one give every rank the same share of a causal mask. The rows are the positions too.

    Args:
        length: tokens in the sequence, a multiple of 2*cp_size.
        cp_size: ranks that share the sequence.
        cp_rank: the rank, from 0.
        like: a tensor decides kind and device; None gives NumPy.

    Returns:
        [length / cp_size] int64, rows of the whole sequence, in the order the rank holds them.

    Raises:
        RopewalkError: for a length that is no multiple of 2*cp_size (pad it: no token is dropped here).

    >>> shard(8, cp_size=2, cp_rank=1).tolist()
    [2, 3, 4, 5]
    """
    edges = as_like(np.array([0, whole("length", length)]), like)
    return shard_packed(edges, cp_size=cp_size, cp_rank=cp_rank)


def shard_packed(cu_seqlens: Array, *, cp_size: int, cp_rank: int, total: int | None = None) -> Array:
    """Give the rows of packed sequences that a rank holds, each sequence cut into its own 2*cp_size chunks.

    They are rows of the packed table; the positions are ``from_cu_seqlens(cu_seqlens)`` at these rows.

    Args:
        cu_seqlens: [N + 1] integers, where the sequences start and the last one ends; each length a multiple of
            2*cp_size.
        cp_size: ranks that share every sequence.
        cp_rank: the rank, from 0.
        total: T, the end of cu_seqlens, where it is known; otherwise it is read, which on a device waits.

    Returns:
        [T / cp_size] int64, in the order the rank holds them.

    Raises:
        RopewalkError: for a sequence whose length is no multiple of 2*cp_size, or a total that is not T.

    Source: Megatron-LM, `get_batch_on_this_cp_rank`; TransformerEngine, `thd_get_partitioned_indices`.

    >>> shard_packed([0, 8, 12], cp_size=2, cp_rank=0).tolist()
    [0, 1, 6, 7, 8, 11]
    """
    size = whole("cp_size", cp_size, at_least=1)
    rank = whole("cp_rank", cp_rank, at_most=size - 1)
    edges = boundaries(cu_seqlens)
    if readable(edges):
        for length in (edges[1:] - edges[:-1]).tolist():
            if length % (2 * size):
                up = -(-length // (2 * size)) * 2 * size
                raise RopewalkError(
                    f"each sequence must be a multiple of 2*cp_size = {2 * size} tokens long, got {length} tokens. "
                    f"Pad it to {up}."
                )
    length = packed_length(edges, total)
    if readable(edges) and length != int(edges[-1]):
        raise RopewalkError(
            f"total must be the end of cu_seqlens, got total={length}, cu_seqlens end at {int(edges[-1])}."
        )
    xp = library(edges)
    mine = edges // size  # where each sequence starts among the rank's own rows
    rows = arange(length // size, edges)
    sequence = xp.searchsorted(mine, rows, side="right") - 1
    chunk = (mine[sequence + 1] - mine[sequence]) // 2
    within = rows - mine[sequence]
    early = edges[sequence] + rank * chunk + within
    late = edges[sequence] + (2 * size - 2 - rank) * chunk + within
    return xp.where(within < chunk, early, late)
