"""What a function makes of its angles at some positions, near and far: cos and sin of every pair."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pairs
from ._caller import Caller, Floats
from .box import BoxFailure

POSITIONS = (128, 4096, 50_000, 131_072, 1_048_576)
SLOW = 0.25  # seconds after which a position eight times as large is not tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """cos and sin of every pair at some positions.

    Attributes:
        positions: [T].
        belongs: [T] the position of POSITIONS that each was asked for.
        cos: [T, P], divided by the factor.
        sin: [T, P].
        failed: by position, why there is no answer.
    """

    positions: Floats
    belongs: NDArray[np.int64]
    cos: Floats
    sin: Floats
    failed: dict[int, str]


def measure(caller: Caller, pairs: Pairs, max_position: int, offset: float) -> Measured:
    """Ask for cos and sin at every position of POSITIONS up to max_position, and a little below each."""
    x = np.zeros((caller.batch, 1, caller.heads, caller.box.head_dim))
    x[..., pairs.first] = 1.0
    kept: list[tuple[Floats, NDArray[np.int64], Floats, Floats]] = []
    failed: dict[int, str] = {}
    own = [max_position] if max_position < POSITIONS[-1] and max_position not in POSITIONS else []
    for last in [*(position for position in POSITIONS if position <= max_position), *own]:
        tokens = _tokens(last)
        ids = np.array(np.broadcast_to(tokens, (caller.axes, caller.batch, len(tokens))))
        before = caller.box.seconds
        try:
            out = caller.turn(np.repeat(x, len(tokens), axis=1), ids)[0, :, 0]
        except BoxFailure as failure:
            failed[last] = f"{failure.failure.kind}: {failure.failure.message}"
            if failure.failure.kind == "hang":
                break
            continue
        g = pairs.cos_sin_factor
        kept.append(
            (
                tokens.astype(np.float64) + offset,
                np.full(len(tokens), last),
                out[:, pairs.first] / g,
                out[:, pairs.second] / g,
            )
        )
        if caller.box.seconds - before > SLOW and last >= 131_072:
            break
    if not kept:
        none = np.zeros((0, len(pairs)))
        return Measured(positions=np.zeros(0), belongs=np.zeros(0, np.int64), cos=none, sin=none, failed=failed)
    positions, belongs, cos, sin = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return Measured(positions=positions, belongs=belongs, cos=cos, sin=sin, failed=failed)


def _tokens(last: int) -> NDArray[np.int64]:
    """Give positions at and below last: no 16-bit format has them all."""
    backwards = last - np.array([0, 1, 3, 11, 29, 63, 101])
    inside = np.array([0.8137, 0.617, 0.271]) * last
    ids = np.unique(np.concatenate([backwards, inside.astype(np.int64)]))
    return ids[ids > 0] if (ids > 0).any() else np.array([last])


def refitted(measured: Measured, pairs: Pairs) -> Pairs | None:
    """Give the table whose frequencies explain what was measured, where they are near those of pairs; else None.

    A frequency known from small positions predicts the angle at the next larger one, which refines it.
    """
    if pairs.second_inv_freq is not None or not len(measured.positions):
        return None
    order = np.argsort(measured.positions)
    phases = np.angle(measured.cos + 1j * measured.sin)[order]
    speeds, alive = pairs.inv_freq.copy(), np.ones(len(pairs), dtype=bool)
    for position, phase in zip(measured.positions[order], phases, strict=True):
        off = np.angle(np.exp(1j * (phase - speeds * position)))
        alive &= np.abs(off) < 1.0
        speeds = np.where(alive, speeds + off / position, speeds)
    near = np.abs(speeds - pairs.inv_freq) <= 0.1 * np.abs(pairs.inv_freq) + 1e-7
    return replace(pairs, inv_freq=speeds) if near.all() else None
