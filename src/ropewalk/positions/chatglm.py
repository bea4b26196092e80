"""The two-part positions of ChatGLM-6B: where a token stands, and how far into the answer it is."""

from numbers import Integral

from ..errors import RopewalkError
from ._arrays import Array, arange, integers, library, size
from .text import tokens


def chatglm(context_lengths: Array, mask_positions: Array, length: int, *, start: Array = 0) -> Array:
    """Give ChatGLM-6B's position and block position of each column.

    The prompt counts 0, 1 … with block 0. From the start token (``<sop>``, the model's bos) on, the position stays that
    of the mask token, and the block counts 1, 2 … The start token itself has block 1, so that the first word of the
    answer has block 2: one more than the paper's sentence on a span, "from 1 to the length of the span", gives it.

    Args:
        context_lengths: [B] integers, tokens of each row before the start token, the mask token included.
        mask_positions: [B] integers, the position of each row's [MASK] or [gMASK].
        length: columns to give.
        start: the number of the first column, one integer or [B]: the tokens seen before, when decoding; minus the
            padding of a left-padded row. Columns below 0 are padding and get 0.

    Returns:
        position_ids [2, B, length] int64 for a rope with two axes (the model's own code has [B, 2, S]).

    Raises:
        RopewalkError: for shapes that differ.

    Source: ChatGLM-6B's own modeling_chatglm.py, `get_position_ids`; Du et al. 2022, GLM, section 2.1.

    >>> chatglm([4], [3], 7)[:, 0].tolist()
    [[0, 1, 2, 3, 3, 3, 3], [0, 0, 0, 0, 1, 2, 3]]
    """
    context = integers("context_lengths", context_lengths, "[batch]")
    held = integers("mask_positions", mask_positions, "[batch]", like=context)
    first = integers("start", [start] if isinstance(start, Integral) else start, "[batch]", like=context)
    if held.shape != context.shape or first.shape[0] not in (1, context.shape[0]):
        raise RopewalkError(
            f"context_lengths, mask_positions and start must be one a row, got {context.shape[0]}, {held.shape[0]} and "
            f"{first.shape[0]}."
        )
    xp = library(context)
    column = first[:, None] + arange(size("length", length), context)
    into = column - context[:, None] + 1
    position = xp.where(into > 0, held[:, None], column.clip(0))
    return xp.stack([position, into.clip(0)])


def chatglm_from_ids(
    input_ids: Array,
    *,
    attention_mask: Array = None,
    bos_token_id: int = 130004,
    mask_token_id: int = 130000,
    gmask_token_id: int = 130001,
) -> Array:
    """Give ChatGLM-6B's two-part positions of tokenised prompts.

    As its code does, a row's [gMASK] is taken before its [MASK], and the first of several; as its tokenizer does, a row
    without start token counts on to its end, and one without mask token lets no position stand still.

    Args:
        input_ids: [B, S] integers.
        attention_mask: [B, S], 1 for a token and 0 for padding, which gets 0 in both parts; a row counts from its first
            token. None: every column is a token.
        bos_token_id: of the start token; the first release of the model had 150004.
        mask_token_id: of [MASK]; first release 150000.
        gmask_token_id: of [gMASK]; first release 150001.

    Returns:
        position_ids [2, B, S] int64.

    Raises:
        RopewalkError: for ids that are not [B, S] whole numbers, or a mask of another shape.

    Source: ChatGLM-6B's own modeling_chatglm.py (`get_position_ids`) and tokenization_chatglm.py (`_pad`).

    >>> chatglm_from_ids([[5, 6, 130001, 130004, 7]])[:, 0].tolist()
    [[0, 1, 2, 2, 2], [0, 0, 0, 1, 2]]
    """
    ids = integers("input_ids", input_ids, "[batch, seq]")
    xp = library(ids)
    real = xp.ones_like(ids) if attention_mask is None else tokens(attention_mask)
    if real.shape != ids.shape:
        raise RopewalkError(f"attention_mask must be {list(ids.shape)} as input_ids are, got {list(real.shape)}.")
    length = ids.shape[1]
    if length == 0:
        return xp.stack([ids, ids])
    padding = real.argmax(-1)

    def place(token: int) -> tuple[Array, Array]:
        found = real * (ids == token)
        return found.any(-1), found.argmax(-1) - padding

    (starts, bos), (masks, mask), (gmasks, gmask) = map(place, (bos_token_id, mask_token_id, gmask_token_id))
    context = xp.where(starts, bos, length)
    both = chatglm(context, xp.where(gmasks, gmask, mask), length, start=-padding)
    column = arange(length, ids) - padding[:, None]
    position = xp.where((gmasks | masks)[:, None], both[0], column)
    return xp.stack([position, both[1]]) * real
