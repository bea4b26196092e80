"""Right variants of arithmetic, V08 to V12: honest rounding is no fault."""

import numpy as np

from .exhibit import Turn, shown
from .formats import bfloat16
from .frequencies import LLAMA3
from .parts import Array, declared, doubled, ladder, linear, llama3, per_head, rotate_half, turned

SMALL = {"head_dim": 16, "rope_theta": 500_000.0}
WIDE = {"head_dim": 96, "rope_theta": 30_000.0, "options": {"heads": 5}}
GEMMA = {"head_dim": 128, "rope_theta": 1_000_000.0, "factor": 8.0}


def tables_from_float64(head_dim: int, rope_theta: float) -> Turn:
    """float64 up to the angle's cosine, then float32."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        return x * per_head(cos, x) + rotate_half(x) * per_head(sin, x)

    return fn


def tables_from_float64_llama3(
    head_dim: int,
    rope_theta: float,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> Turn:
    """The same with Llama 3.1's scaling."""
    inv_freq = ladder(rope_theta, head_dim)
    turns = original_max_position_embeddings * inv_freq / (2 * np.pi)
    kept = np.clip((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    inv_freq = (1 - kept) * inv_freq / factor + kept * inv_freq

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        return x * per_head(cos, x) + rotate_half(x) * per_head(sin, x)

    return fn


def float32_angles(head_dim: int, rope_theta: float) -> Turn:
    """float32 throughout, as transformers computes: the angle's own rounding, and no more."""
    exponent = np.arange(0, head_dim, 2).astype(np.float32) / np.float32(head_dim)
    inv_freq = (1.0 / np.float32(rope_theta) ** exponent).astype(np.float32)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = position_ids[..., None].astype(np.float32) * inv_freq
        return turned(x, freqs)

    return fn


def bf16_tables(head_dim: int, rope_theta: float) -> Turn:
    """Finished cosines and sines rounded to bfloat16, as a model in bfloat16 hands them on."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        cos, sin = bfloat16(np.cos(angle)), bfloat16(np.sin(angle))
        return x * per_head(cos, x) + rotate_half(x) * per_head(sin, x)

    return fn


def running_product(head_dim: int, rope_theta: float) -> Turn:
    """Each frequency from the one before, in float32: off by a few ulps at the end."""
    step = np.float32(rope_theta ** (-2 / head_dim))
    inv_freq = np.ones(head_dim // 2, dtype=np.float32)
    for i in range(1, head_dim // 2):
        inv_freq[i] = inv_freq[i - 1] * step

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, position_ids[..., None] * inv_freq.astype(np.float64))

    return fn


def running_product_of_angles(head_dim: int, rope_theta: float) -> Turn:
    """The angle itself multiplied on from pair to pair in float32: ggml's form."""
    step = np.float32(rope_theta ** (-2 / head_dim))

    def fn(x: Array, position_ids: Array) -> Array:
        angle = position_ids.astype(np.float32)
        freqs = []
        for _ in range(head_dim // 2):
            freqs.append(angle)
            angle = angle * step
        return turned(x, np.stack(freqs, axis=-1))

    return fn


def linear_by_positions(head_dim: int, rope_theta: float, factor: float) -> Turn:
    """Position interpolation as its paper has it: positions divided."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, (position_ids / factor)[..., None] * inv_freq)

    return fn


def linear_by_frequencies(head_dim: int, rope_theta: float, factor: float) -> Turn:
    """Position interpolation as transformers has it: frequencies divided."""
    inv_freq = ladder(rope_theta, head_dim) / factor

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, position_ids[..., None] * inv_freq)

    return fn


HALF = declared(pairing="half")

EXHIBITS = (
    *shown("V08a", None, "float32 tables from float64 angles", tables_from_float64, HALF, SMALL, WIDE),
    *shown("V08b", None, "the same, llama3", tables_from_float64_llama3, llama3, LLAMA3),
    *shown("V09", None, "honest float32 angles", float32_angles, HALF, SMALL, WIDE, max_position=100_000),
    *shown("V10", None, "finished tables in bfloat16", bf16_tables, HALF, SMALL, WIDE),
    *shown("V11a", None, "a float32 running product", running_product, HALF, SMALL, WIDE),
    *shown(
        "V11b",
        None,
        "a float32 running product of angles",
        running_product_of_angles,
        HALF,
        SMALL,
        {"head_dim": 128, "rope_theta": 10_000.0},
        max_position=100_000,
    ),
    *shown("V12a", None, "linear by dividing positions", linear_by_positions, linear, {**SMALL, "factor": 4.0}, GEMMA),
    *shown(
        "V12b", None, "linear by dividing frequencies", linear_by_frequencies, linear, {**SMALL, "factor": 4.0}, GEMMA
    ),
)
