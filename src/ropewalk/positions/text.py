"""Positions of text: from a padding mask, from packed sequences, and of the tokens that come next."""

from ..errors import RopewalkError
from ._arrays import Array, arange, integers, library, readable, size


def from_mask(attention_mask: Array) -> Array:
    """Give each token its place among the tokens of its row, whatever side the padding is on.

    Args:
        attention_mask: [B, S] boolean or integer, 1 for a token and 0 for padding.

    Returns:
        position_ids [B, S] int64. Padding gets 0: no token attends to it, so that any position in range does no harm.

    Raises:
        RopewalkError: for another shape, an additive (float) mask, or values other than 0 and 1 (a mask that numbers
            packed documents 1, 2, 3 … must become cu_seqlens). Values are checked on the CPU only, and not while torch
            traces.

    Source: transformers, `GenerationMixin._prepare_position_ids_for_generation`.

    >>> from_mask([[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]]).tolist()
    [[0, 0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 0, 0]]
    """
    mask = tokens(attention_mask)
    xp = library(mask)
    return xp.where(mask > 0, xp.cumsum(mask, -1) - 1, 0)


def next_positions(attention_mask: Array, steps: int = 1) -> Array:
    """Give the positions of the tokens that come after each row, as from_mask would of the longer mask.

    Args:
        attention_mask: [B, S] of all tokens so far, those in the cache included.
        steps: how many tokens come.

    Returns:
        position_ids [B, steps] int64.

    Raises:
        RopewalkError: as from_mask does.

    >>> next_positions([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1]]).tolist()
    [[4], [6]]
    """
    return decode(tokens(attention_mask).sum(-1), steps)


def decode(offsets: Array, steps: int = 1) -> Array:
    """Give the positions of new tokens: row b takes offsets[b], then offsets[b] + 1, and so on.

    Args:
        offsets: [B] integers, the tokens that each row has seen before: not the rows left in a cache that dropped some.
        steps: how many tokens come.

    Returns:
        position_ids [B, steps] int64.

    Raises:
        RopewalkError: for offsets that are not [B] whole numbers (one number for all rows is refused: rows differ).

    >>> decode([50, 20], steps=3).tolist()
    [[50, 51, 52], [20, 21, 22]]
    """
    offsets = integers("offsets", offsets, "[batch]")
    return offsets[:, None] + arange(size("steps", steps), offsets)


def from_cu_seqlens(cu_seqlens: Array, *, offsets: Array = None, total: int | None = None) -> Array:
    """Give the positions of packed sequences, each counted from its own start.

    Args:
        cu_seqlens: [N + 1] integers, where the sequences start and where the last one ends: 0, …, T.
        offsets: [N] integers, tokens that each sequence has seen before (a chunk of a longer prompt); None: none.
        total: T, where it is known; otherwise it is read from cu_seqlens, which on a device waits. It may be larger:
            the rows beyond count as one more sequence.

    Returns:
        position_ids [T] int64.

    Raises:
        RopewalkError: for cu_seqlens that do not start at 0 or that fall, or more of them than total; as from_mask
            says, not where the numbers cannot be looked at.

    >>> from_cu_seqlens([0, 3, 7]).tolist(), from_cu_seqlens([0, 1, 3], offsets=[9, 0]).tolist()
    ([0, 1, 2, 0, 1, 2, 3], [9, 0, 1])
    """
    edges = boundaries(cu_seqlens)
    xp = library(edges)
    rows = arange(packed_length(edges, total), edges)
    sequence = xp.searchsorted(edges, rows, side="right") - 1  # right: an empty sequence takes no row
    ids = rows - edges[sequence]
    if offsets is None:
        return ids
    before = integers("offsets", offsets, "[sequences]", like=edges)
    if before.shape[0] != edges.shape[0] - 1:
        raise RopewalkError(
            f"offsets must be one a sequence, got {before.shape[0]} for {edges.shape[0] - 1} sequences."
        )
    return ids + xp.concatenate([before, xp.zeros_like(edges[:1])])[sequence]


def tokens(attention_mask: Array) -> Array:
    """Give a padding mask as [B, S] int64 of 0 and 1, checked."""
    mask = integers("attention_mask", attention_mask, "[batch, seq]", flags=True)
    if readable(mask) and bool(((mask != 0) & (mask != 1)).any()):
        raise RopewalkError(
            f"attention_mask must hold 1 for a token and 0 for padding, got values from {int(mask.min())} to "
            f"{int(mask.max())}. If it numbers packed documents, give their cu_seqlens to from_cu_seqlens."
        )
    return mask


def boundaries(cu_seqlens: Array) -> Array:
    """Give cu_seqlens as [N + 1] int64, checked."""
    edges = integers("cu_seqlens", cu_seqlens, "[sequences + 1]")
    if edges.shape[0] == 0:
        raise RopewalkError("cu_seqlens must hold at least the 0 at the start, got none.")
    if readable(edges) and (int(edges[0]) != 0 or bool((edges[1:] < edges[:-1]).any())):
        listed = edges[:8].tolist()
        raise RopewalkError(
            f"cu_seqlens must start at 0 and never fall, got {listed}{' …' if edges.shape[0] > 8 else ''}. "
            "From lengths: 0 followed by their running sum."
        )
    return edges


def packed_length(edges: Array, total: int | None) -> int:
    """Give the number of packed rows: total, or what cu_seqlens end with."""
    if total is None:
        return edges[-1].item()
    rows = size("total", total)
    if readable(edges) and rows < int(edges[-1]):
        raise RopewalkError(
            f"total must be at least the end of cu_seqlens, got total={rows}, cu_seqlens end at {int(edges[-1])}."
        )
    return rows
