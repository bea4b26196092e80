"""Frequencies from angles known only up to whole turns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TURNS = 32  # of the slowest pair, that a constant offset may amount to
EPS = 2.0**-24  # the unit roundoff of float32


class Ladder(NamedTuple):
    """What one row of phases says.

    Attributes:
        inv_freq: [P] radians a position, signed.
        error: [P] its uncertainty.
        until: [P] the largest position whose angle still lies where the smaller ones say.
    """

    inv_freq: NDArray[np.float64]
    error: NDArray[np.float64]
    until: NDArray[np.float64]


def grow(limit: int) -> NDArray[np.int64]:
    """Give 0, 1, 2, 3, 4, 6, 8, 12 …: each step half as far again or a third, and few bits in every number."""
    out = [0, 1]
    while out[-1] < limit:
        last = out[-1]
        power = 1 << (last.bit_length() - 1)
        out.append(2 if last == 1 else (power * 3 // 2 if last == power else power * 2))
    return np.array([m for m in out if m <= limit], dtype=np.int64)


def unwrap(
    positions: NDArray[np.int64], phases: NDArray[np.float64], noise: float, other: NDArray[np.float64] | None = None
) -> Ladder:
    """Give the frequencies behind phases that are known up to whole turns.

    A frequency known from smaller positions predicts the next angle to well within half a turn; what the angle then
    differs by refines it. A pair is given up at the first position where it differs by more than its history allows.

    Args:
        positions: [K] ascending from 0, the second one 1.
        phases: [K, P] radians, those at position 0 subtracted.
        noise: radians by which a phase may be off for the function's resolution alone.
        other: [K, P] a second candidate for each phase, where its cosine's sign is unknown.
    """
    count = phases.shape[1]
    inv_freq = wrapped(phases[1])
    alive, until = np.ones(count, dtype=bool), np.ones(count)
    largest, recent = np.zeros(count), [np.zeros(count)] * 3  # of what angles were off by: at all, per position
    shared = 0.0
    sums = [inv_freq.copy(), np.ones(count)]  # of p·angle and p², over what was accepted
    history = [inv_freq.copy()]
    for k in range(2, len(positions)):
        p = float(positions[k])
        off = wrapped(phases[k] - inv_freq * p)
        if other is not None:
            second = wrapped(other[k] - inv_freq * p)
            off = np.where(np.abs(second) < np.abs(off), second, off)
        history_allows = 6 * np.maximum(np.maximum(largest, p * np.max(recent, axis=0)), shared * np.abs(inv_freq) * p)
        allowed = np.minimum(history_allows + 4 * noise * (2 + np.abs(inv_freq) * p), 0.6)
        # twice a position is exact even for a rounded angle: the first step to three is the first that may tell
        alive &= np.abs(off) <= (allowed if k > 3 else 0.6)
        angle = inv_freq * p + off
        largest = np.where(alive, np.maximum(largest, np.abs(off)), largest)
        recent = [*recent[1:], np.abs(off) / p]
        beyond = alive & (np.abs(off) > 8 * noise)
        if beyond.any():  # an angle rounded to few bits: what one pair suffers, the others may
            shared = max(shared, float(np.max(np.abs(off[beyond]) / (np.abs(inv_freq[beyond]) * p + 1e-30))))
        sums[0] = sums[0] + np.where(alive, p * angle, 0)
        sums[1] = sums[1] + np.where(alive, p * p, 0)
        until = np.where(alive, p, until)
        inv_freq = np.where(alive, angle / p, inv_freq)
        history.append(inv_freq.copy())
    fitted = sums[0] / sums[1]
    spread = np.max(np.abs(np.array(history[-3:]) - fitted), axis=0)
    # an angle is rounded in float32 at best or worst; coarser ones have shown themselves as shared
    error = np.maximum(np.maximum(spread, noise / until), max(4 * min(noise, EPS), shared) * np.abs(fitted))
    return Ladder(fitted, error, until)


def offset_of(phases: NDArray[np.float64], inv_freq: NDArray[np.float64], noise: float) -> float | None:
    """Give the constant c for which every phase is c·inv_freq up to whole turns, or None where there is none."""
    moving = np.abs(inv_freq) > 0
    order = np.argsort(np.abs(inv_freq[moving]))
    speeds, angles = inv_freq[moving][order], wrapped(phases[moving])[order]
    if not speeds.size:
        return None
    best, least = 0.0, np.inf
    for turns in range(TURNS + 1):  # of the slowest pair, which may have gone round, though hardly often
        for sign in (1, -1) if turns else (1,):
            constant = sign * turns * 2 * np.pi / float(speeds[0])
            for speed, angle in zip(
                speeds, angles, strict=True
            ):  # slow pairs first: each settles the turns of the next
                constant += float(wrapped(angle - constant * speed)) / float(speed)
            off = float(np.abs(wrapped(angles - constant * speeds)).max())
            if off <= 1e-3 + 64 * noise * (1 + abs(constant)) and off < 0.5 * least:
                best, least = constant, off
        if least < np.inf:
            return best
    return None


def wrapped(angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give angles between -π and π."""
    return np.angle(np.exp(1j * np.asarray(angle)))
