"""Which wrong positions would give what a decoder gave: candidates, tried on its own prefill."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

SCANNED = 8


def gaps(got: NDArray, right: NDArray) -> NDArray:
    """Give for each token how far outputs [S, V] are from what is right, relative to what sets tokens apart.

    >>> gaps(np.array([[0.0, 3.0]]), np.array([[0.0, 2.0]])).tolist()
    [0.5]
    """
    centred = right - right.mean(0) if len(right) > 1 else right
    scale = np.sqrt(np.mean(centred**2)) or np.sqrt(np.mean(right**2)) or 1.0
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.sqrt(np.mean((got - right) ** 2, axis=-1)) / scale
    return np.where(np.isfinite(apart), apart, np.inf)


def named(
    got: NDArray,
    start: int,
    candidates: Iterable[tuple[str, NDArray]],
    whole: Callable[[NDArray], NDArray],
    room: float,
) -> tuple[str, NDArray] | None:
    """Give the words and the ids of the first candidate that explains outputs [S, V] from token start on.

    Args:
        got: what the decoder gave.
        start: the first token that is compared.
        candidates: what the positions would be, in words and as ids [S].
        whole: gives the outputs of the same tokens at ids.
        room: the largest gap of rounding.
    """
    for words, ids in candidates:
        if (ids < 0).any():
            continue
        if gaps(got, whole(ids))[start:].max() <= 2 * room:
            return words, ids
    return None


def of_steps(
    length: int, start: int, *, pad: int = 0, window: int = 1, earlier: int = 0
) -> Iterator[tuple[str, NDArray]]:
    """Give what the positions of the tokens from start on may have been mistaken for.

    Args:
        length: tokens in the sequence.
        start: tokens in the cache before the first step.
        pad: padding before the row.
        window: tokens of a step.
        earlier: tokens of a sequence before this one.

    >>> words, ids = next(of_steps(5, 3))
    >>> words, ids.tolist()
    ('the length of the cache is not added: every new token is at position 0', [0, 1, 2, 0, 0])
    """
    right = np.arange(length)
    after = right - start

    def tail(values: NDArray) -> NDArray:
        return np.where(after >= 0, values, right)

    if window == 1:
        yield "the length of the cache is not added: every new token is at position 0", tail(np.zeros_like(right))
    else:
        first = start + after // window * window
        yield "every token of a window takes the position of its first", tail(first)
        yield "every token of a window takes the position of its last", tail(first + window - 1)
        yield "the counter goes on by one a call, whatever the window", tail(start + after // window + after % window)
        yield "the length of the cache is not added: every window starts again at 0", tail(after % window)
    yield "positions start again at 0 after the prompt", tail(after)
    yield f"the counter stands still: every new token is at position {start}", tail(np.full_like(right, start))
    yield (
        f"every new token is at position {start - 1}, the prompt's last (or cached keys turn on with each step)",
        tail(np.full_like(right, start - 1)),
    )
    if pad:
        yield f"a shift by {pad}, the padding of the row: it is counted in the steps only", tail(right + pad)
        yield f"a shift by -{pad}, the padding of the row", tail(right - pad)
    if earlier:
        yield f"a shift by {earlier}, the length of the sequence before", tail(right + earlier)
    yield "one behind: the offset is read before the token joins the cache", tail(right - 1)
    yield "one ahead: the offset is read after the token has joined the cache", tail(right + 1)
    yield "the counter goes on by two a step", tail(start + 2 * after)
    for size in range(2, SCANNED + 1):
        yield f"a shift by {size}", tail(right + size)
        yield f"a shift by -{size}", tail(right - size)
