"""What a stretched rope does to each pair: kept, blended or stretched, new angles, and short prompts."""

import math
import sys

import numpy as np
from numpy.typing import NDArray

from ..inspection import number_words
from ..rope import Rope
from ..scaling import Dynamic, LongRope
from .plan import Leaving, ShortPrompts

CLOSE = 1e-9
NOISE = 1e-12  # relative; quotients of speeds that are whole numbers in exact arithmetic
TURN = 2 * math.pi


def speeds(rope: Rope, length: int | None = None) -> NDArray[np.float64]:
    """Give every pair's speed without its sign, [P] float64, radians a position."""
    return np.abs(rope.pairs(length).inv_freq)


def full_turns(plain: NDArray[np.float64], trained: int) -> NDArray[np.bool_]:
    """Say of each pair whether it turns at least once within the trained length."""
    return plain >= TURN * (1 - CLOSE) / trained


def divisors(plain: NDArray[np.float64], stretched: NDArray[np.float64]) -> tuple[float | None, ...]:
    """Give by how much each pair is slowed; None for a pair that keeps still, or where float64 cannot say it."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slowed = (plain / stretched).tolist()
    return tuple(divisor if math.isfinite(divisor) and divisor > 0 else None for divisor in slowed)


def kinds(slowed: tuple[float | None, ...], full: float | None) -> dict[str, tuple[int, ...]]:
    """Sort the pairs that turn into kept, blended and stretched (by the full factor).

    >>> kinds((1.0, 2.0, 4.0, None), 4.0)
    {'kept': (0,), 'blended': (1,), 'stretched': (2,)}
    """
    found: dict[str, list[int]] = {"kept": [], "blended": [], "stretched": []}
    for i, divisor in enumerate(slowed):
        if divisor is None:
            continue
        if abs(divisor - 1) < CLOSE:
            found["kept"].append(i)
        elif full is not None and abs(divisor / full - 1) < CLOSE:
            found["stretched"].append(i)
        else:
            found["blended"].append(i)
    return {name: tuple(pairs) for name, pairs in found.items()}


def leaving(rope: Rope, plain: NDArray[np.float64], trained: int, to: int) -> Leaving | None:
    """Give the first position below `to` at which a pair reaches an angle that training has not shown it.

    A pair that turned at least once within the trained length has been shown every angle. One that did not has been
    shown [0, L0·θ_i), and leaves at the first position m with m·θ'_i ≥ L0·θ_i; without scaling that is position L0. A
    rope that depends on the length is resolved, for position m, for a sequence of m + 1 tokens.

    Source: Peng et al. 2023, YaRN, section 3.2, which sorts pairs by their turns within the trained length; Liu et al.
    2023 (arXiv 2310.05209), lemma 1, call the channels before the first such pair the critical dimension. Distances
    between tokens are angles too: that small ones are all seen plays no part, and softmax over more tokens neither.

    Args:
        rope: the stretched rope.
        plain: [P] the speeds of the training.
        trained: L0, tokens.
        to: tokens wished.
    """
    slow = np.flatnonzero((plain > 0) & ~full_turns(plain, trained))
    if not slow.size:
        return None
    seen = trained * plain[slow]
    if isinstance(rope.scaling, Dynamic):
        return _leaving_dynamic(rope, slow, seen, trained, to)
    switch = to
    if isinstance(rope.scaling, LongRope):
        switch = min(to, rope.scaling.original_max_position_embeddings)
    for start, stop, length in ((0, switch, None), (switch, to, to)):
        speed = speeds(rope, length)[slow]
        if start == stop or not speed.any():
            continue
        with np.errstate(divide="ignore", over="ignore"):
            first = np.maximum(seen / speed, start)
        position = math.ceil(first.min() * (1 - NOISE)) if first.min() < stop * (1 - NOISE) else stop
        if position < stop:
            # untouched pairs leave together, and rounding must not say which is the first
            return Leaving(position, int(slow[(first <= first.min() * (1 + NOISE)).argmax()]))
    return None


def _leaving_dynamic(
    rope: Rope, slow: NDArray[np.int64], seen: NDArray[np.float64], trained: int, to: int
) -> Leaving | None:
    """Search by halves: seen/θ'(m + 1) - m is concave in m and above 0 at the trained length, so it falls once."""

    def outside(position: int) -> NDArray[np.bool_]:
        return position * speeds(rope, position + 1)[slow] >= seen * (1 - NOISE)

    low, high = trained, to - 1
    if outside(low).any():
        high = low
    elif not outside(high).any():
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if outside(middle).any() else (middle, high)
    return Leaving(high, int(slow[outside(high).argmax()]))


def short_prompts(rope: Rope, given: Rope, trained: int) -> ShortPrompts:
    """Say what a method changes within the trained length, against the model as it is."""
    before, after = given.pairs(trained), rope.pairs(trained)
    gaps = np.abs(after.inv_freq - before.inv_freq)
    moved = np.flatnonzero(gaps > CLOSE * np.abs(before.inv_freq))
    score = (after.cos_sin_factor / before.cos_sin_factor) ** 2 * (after.softmax_factor / before.softmax_factor)
    score = 1.0 if abs(score - 1) < 1e-12 else score
    if not moved.size:
        words = "unchanged" if score == 1 else f"every angle unchanged, scores × {number_words(score)}"
        return ShortPrompts(changed=(), largest=0.0, pair=None, score_factor=score, words=words)
    worst = int(gaps.argmax())
    largest = min(trained * float(gaps[worst]), sys.float_info.max)
    words = f"{moved.size} of {len(gaps)} pairs turn otherwise; at position {trained} pair {worst} is off by "
    words += f"{largest:.6g} rad"
    if score != 1:
        words += f"; scores × {number_words(score)}"
    return ShortPrompts(changed=tuple(moved.tolist()), largest=largest, pair=worst, score_factor=score, words=words)
