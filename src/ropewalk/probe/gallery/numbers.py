"""Faults of precision, M39 to M43: one computation in a number format too narrow for it."""

from typing import Any

import numpy as np

from .exhibit import Turn, shown
from .formats import bfloat16, float16, tf32
from .parts import Array, declared, doubled, ladder, per_head, rotate_half, turned

SMALL = {"head_dim": 16, "rope_theta": 500_000.0}
WIDE = {"head_dim": 96, "rope_theta": 30_000.0, "options": {"heads": 4}}


def bf16_frequencies(head_dim: int, rope_theta: float) -> Turn:
    """inv_freq cast with the weights: wrong by radians within a short prompt."""
    inv_freq = bfloat16(ladder(rope_theta, head_dim))  # must stay float32 at least

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, position_ids[..., None] * inv_freq.astype(np.float64))

    return fn


def bf16_frequencies_module(head_dim: int, rope_theta: float) -> Turn:
    """A buffer, right when built, and then `.to(torch.bfloat16)`."""
    import torch

    class Rotary(torch.nn.Module):
        inv_freq: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("inv_freq", torch.from_numpy(ladder(rope_theta, head_dim)).float(), persistent=False)

        def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
            freqs = position_ids[..., None].float() * self.inv_freq.float()  # too late: its bits are gone
            emb = torch.cat((freqs, freqs), dim=-1)[..., None, :]
            cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
            x1, x2 = x.chunk(2, dim=-1)
            return x * cos + torch.cat((-x2, x1), dim=-1) * sin

    return Rotary().to(torch.bfloat16)  # casts every buffer


def bf16_positions(head_dim: int, rope_theta: float) -> Turn:
    """Positions made in the model's dtype: beyond 256, neighbours share a position."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        t = bfloat16(position_ids)  # must stay integers, or float32
        return turned(x, t[..., None] * inv_freq)

    return fn


def bf16_positions_torch(head_dim: int, rope_theta: float) -> Turn:
    """The line as it is written: `t = position_ids.to(x.dtype)`."""
    import torch

    inv_freq = torch.from_numpy(ladder(rope_theta, head_dim)).float()

    def fn(x: Any, position_ids: Any) -> Any:
        t = position_ids.to(x.dtype)  # right for a float32 x, and not for bfloat16
        freqs = t[..., None].float() * inv_freq.to(x.device)
        emb = torch.cat((freqs, freqs), dim=-1)[..., None, :]
        x1, x2 = x.float().chunk(2, dim=-1)
        return (x.float() * emb.cos() + torch.cat((-x2, x1), dim=-1) * emb.sin()).to(x.dtype)

    return fn


def fp16_angles(head_dim: int, rope_theta: float) -> Turn:
    """Position times frequency in float16: 11 bits for an angle of hundreds of radians."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            freqs = float16(position_ids)[..., None] * float16(inv_freq)  # past 65504 infinite; must be float32
            return turned(x, freqs.astype(np.float32))

    return fn


def fp16_angles_stored(head_dim: int, rope_theta: float) -> Turn:
    """A table of angles, computed well and kept in float16."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = float16(position_ids[..., None] * inv_freq)  # cosines may be kept in float16, angles may not
        return turned(x, freqs.astype(np.float32))

    return fn


def tf32_product(head_dim: int, rope_theta: float) -> Turn:
    """Angles by an outer product that the GPU takes as a matmul: both sides are cut to 11 bits before it."""
    inv_freq = ladder(rope_theta, head_dim).astype(np.float32)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = tf32(position_ids)[..., None] * tf32(inv_freq)  # inv_freq @ position_ids under allow_tf32; must be *
        return turned(x, freqs)

    return fn


def sine_polynomial(head_dim: int, rope_theta: float) -> Turn:
    """Cephes's sinf: a reduction in three parts that is exact while k·DP1 fits 24 bits, to an angle of about 51,000."""
    inv_freq = ladder(rope_theta, head_dim).astype(np.float32)
    dp1, dp2, dp3 = np.float32(0.78515625), np.float32(2.4187564849853515625e-4), np.float32(3.77489497744594108e-8)

    def sin_cos(angle: Array) -> tuple[Array, Array]:
        k = np.rint(angle * np.float32(2 / np.pi)).astype(np.float32)
        eighths = 2 * k
        r = ((angle - eighths * dp1) - eighths * dp2) - eighths * dp3  # must reduce in float64 when k is large
        z = r * r
        s = r + r * z * (np.float32(-1 / 6) + z * (np.float32(8.3321608736e-3) - z * np.float32(1.9515295891e-4)))
        c = (
            1
            - z / 2
            + z
            * z
            * (np.float32(1 / 24) - z * (np.float32(1.388731625493765e-3) - z * np.float32(2.443315711809948e-5)))
        )
        quadrant = k.astype(np.int64) & 3
        sin = np.choose(quadrant, [s, c, -s, -c])
        cos = np.choose(quadrant, [c, -s, -c, s])
        return sin, cos

    def fn(x: Array, position_ids: Array) -> Array:
        angle = position_ids[..., None].astype(np.float32) * inv_freq
        sin, cos = sin_cos(doubled(angle))
        return (x * per_head(cos, x) + rotate_half(x) * per_head(sin, x)).astype(x.dtype)

    return fn


def sine_intrinsic(head_dim: int, rope_theta: float) -> Turn:
    """A sine unit that takes its input in turns: the angle times 1/2π in float32, and of that the fraction."""
    inv_freq = ladder(rope_theta, head_dim).astype(np.float32)
    per_turn = np.float32(1 / (2 * np.pi))

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None].astype(np.float32) * inv_freq)
        turns = angle * per_turn  # rounded to float32: thousands of turns leave few bits for the fraction
        reduced = np.float32(2 * np.pi) * (turns - np.rint(turns))
        return x * per_head(np.cos(reduced), x) + rotate_half(x) * per_head(np.sin(reduced), x)

    return fn


def sine_modulo(head_dim: int, rope_theta: float) -> Turn:
    """The angle modulo 2π in float32, whose 2π is off by 1.7e-7: one such error for every turn taken away."""
    inv_freq = ladder(rope_theta, head_dim).astype(np.float32)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = position_ids[..., None].astype(np.float32) * inv_freq
        reduced = np.fmod(angle, np.float32(2 * np.pi))  # must be reduced by a 2π of more than 24 bits
        return turned(x, reduced)

    return fn


def sine_short_quadrant(head_dim: int, rope_theta: float) -> Turn:
    """A vector sine that packs the number of quarter turns into 16 bits: nonsense past 32,767 of them."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        angle = doubled(position_ids[..., None] * inv_freq)
        quarters = np.rint(angle * (2 / np.pi)).astype(np.int64).astype(np.int16)  # wraps at an angle of 51,471
        r = np.clip(angle - quarters * (np.pi / 2), -np.pi / 4, np.pi / 4)
        quadrant = quarters & 3
        sin = np.choose(quadrant, [np.sin(r), np.cos(r), -np.sin(r), -np.cos(r)])
        cos = np.choose(quadrant, [np.cos(r), -np.sin(r), -np.cos(r), np.sin(r)])
        return x * per_head(cos, x) + rotate_half(x) * per_head(sin, x)

    return fn


EXHIBITS = (
    *shown("M39a", "bf16-frequencies", "frequencies rounded to bfloat16", bf16_frequencies, declared(), SMALL, WIDE),
    *shown(
        "M39b",
        "bf16-frequencies",
        "a module's buffer after .to(bfloat16)",
        bf16_frequencies_module,
        declared(),
        SMALL,
        WIDE,
        backend="torch",
    ),
    *shown("M40a", "bf16-positions", "positions rounded to bfloat16", bf16_positions, declared(), SMALL, WIDE),
    *shown(
        "M40b",
        "bf16-positions",
        "positions in the model's dtype, bfloat16",
        bf16_positions_torch,
        declared(),
        SMALL,
        WIDE,
        backend="torch",
        dtype="bfloat16",
    ),
    *shown(
        "M41a",
        "fp16-angles",
        "the angle product in float16",
        fp16_angles,
        declared(),
        SMALL,
        {**WIDE, "options": {"max_position": 32_768}},
        {"head_dim": 48, "rope_theta": 20_000.0, "options": {"max_position": 4096}},
    ),
    *shown(
        "M41b",
        "fp16-angles",
        "finished angles kept in float16",
        fp16_angles_stored,
        declared(),
        {**SMALL, "options": {"max_position": 16_384}},
        {**WIDE, "options": {"max_position": 65_504}},
    ),
    *shown("M42", "tf32-product", "the angle product in TF32", tf32_product, declared(), SMALL, WIDE),
    *shown("M43a", "sine-unreduced", "a polynomial with a short reduction", sine_polynomial, declared(), SMALL, WIDE),
    *shown("M43c", "sine-unreduced", "modulo 2π in float32", sine_modulo, declared(), SMALL, WIDE),
    *shown("M43d", "sine-unreduced", "quarter turns in 16 bits", sine_short_quadrant, declared(), SMALL, WIDE),
    *shown("M43b", "sine-unreduced", "a sine unit fed with turns", sine_intrinsic, declared(), SMALL, WIDE),
)
