"""Faults of ropes that look at the length, M26 to M29: dynamic NTK and LongRoPE."""

import numpy as np

from .exhibit import Turn, shown
from .parts import Array, dynamic, ladder, length_of, longrope, longrope_magnitude, table_rows, turned
from .scaling_static import PHI


def dynamic_frozen(head_dim: int, rope_theta: float, factor: float, max_position_embeddings: int) -> Turn:
    """Dynamic NTK built once, for the longest sequence it may ever see: short prompts degrade."""
    length = factor * max_position_embeddings  # must be the length of this sequence
    ratio = factor * length / max_position_embeddings - (factor - 1)
    inv_freq = ladder(rope_theta * ratio ** (head_dim / (head_dim - 2)), head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, position_ids[..., None] * inv_freq)

    return fn


def dynamic_sticky(head_dim: int, rope_theta: float, factor: float, max_position_embeddings: int) -> Turn:
    """Dynamic NTK that grows with a long sequence and never shrinks again."""

    class Rotary:
        def __init__(self) -> None:
            self.cached_length = max_position_embeddings
            self.inv_freq = ladder(rope_theta, head_dim)

        def __call__(self, x: Array, position_ids: Array) -> Array:
            length = length_of(position_ids)
            if length > self.cached_length:
                ratio = factor * length / max_position_embeddings - (factor - 1)
                self.inv_freq = ladder(rope_theta * ratio ** (head_dim / (head_dim - 2)), head_dim)
                self.cached_length = length
            # a short sequence after a long one must go back to the base of its own length
            return turned(x, position_ids[..., None] * self.inv_freq)

    return Rotary()


def longrope_long_always(
    head_dim: int,
    rope_theta: float,
    original_max_position_embeddings: int,
    max_position_embeddings: int,
    short_factor: tuple[float, ...],
    long_factor: tuple[float, ...],
) -> Turn:
    """The long list at every length."""
    g = longrope_magnitude(original_max_position_embeddings, max_position_embeddings)
    inv_freq = ladder(rope_theta, head_dim) / np.array(long_factor)  # must be short_factor up to the original length

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, position_ids[..., None] * inv_freq, g=g)

    return fn


def longrope_off_by_one(
    head_dim: int,
    rope_theta: float,
    original_max_position_embeddings: int,
    max_position_embeddings: int,
    short_factor: tuple[float, ...],
    long_factor: tuple[float, ...],
) -> Turn:
    """The switch one token too early."""
    g = longrope_magnitude(original_max_position_embeddings, max_position_embeddings)
    plain = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        short = length_of(position_ids) < original_max_position_embeddings  # must be <=
        inv_freq = plain / np.array(short_factor if short else long_factor)
        return turned(x, position_ids[..., None] * inv_freq, g=g)

    return fn


def longrope_row_0(
    head_dim: int,
    rope_theta: float,
    original_max_position_embeddings: int,
    max_position_embeddings: int,
    short_factor: tuple[float, ...],
    long_factor: tuple[float, ...],
) -> Turn:
    """Two tables end to end: the first position past the short one reads row 0 of the long one."""
    g = longrope_magnitude(original_max_position_embeddings, max_position_embeddings)
    plain = ladder(rope_theta, head_dim)
    k = original_max_position_embeddings
    short_table = np.arange(k)[:, None] * (plain / np.array(short_factor))
    long_table = np.arange(max_position_embeddings)[:, None] * (plain / np.array(long_factor))
    table = np.concatenate([short_table, long_table])

    def fn(x: Array, position_ids: Array) -> Array:
        offset = k if (position_ids > k).any() else 0  # must be >= k
        return turned(x, table_rows(table, position_ids + offset), g=g)

    return fn


DYNAMIC = {"head_dim": 96, "rope_theta": 50_000.0, "factor": 3.0, "max_position_embeddings": 3072}
DYNAMIC_TOO = {"head_dim": 64, "rope_theta": 10_000.0, "factor": 2.0, "max_position_embeddings": 4096}
MEDIUM = {
    "head_dim": 96,
    "rope_theta": 10_000.0,
    "original_max_position_embeddings": 4096,
    "max_position_embeddings": 131_072,
    "short_factor": tuple(1.0 + i / 80 for i in range(48)),
    "long_factor": tuple(round(1.08 * 1.07**i, 2) for i in range(48)),
}

EXHIBITS = (
    *shown(
        "M26", "dynamic-frozen", "the base of the longest length, always", dynamic_frozen, dynamic, DYNAMIC, DYNAMIC_TOO
    ),
    *shown("M27", "dynamic-sticky", "the base is never reset", dynamic_sticky, dynamic, DYNAMIC, DYNAMIC_TOO),
    *shown("M28", "longrope-long-always", "the long list at every length", longrope_long_always, longrope, PHI, MEDIUM),
    *shown("M29a", "longrope-off-by-one", "< for <= at the switch", longrope_off_by_one, longrope, PHI, MEDIUM),
    *shown(
        "M29b",
        "longrope-off-by-one",
        "row 0 of the long table at the switch",
        longrope_row_0,
        longrope,
        {**PHI, "options": {"max_position": 49_151}},
        {**MEDIUM, "options": {"max_position": 131_071}},
    ),
)
