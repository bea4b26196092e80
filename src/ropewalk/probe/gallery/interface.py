"""Faults of the interface, M46 to M48: the values are right, and something beside them is not."""

from typing import Any

import numpy as np

from .exhibit import Turn, shown
from .parts import Array, declared, doubled, ladder, repeated, turned

SMALL = {"head_dim": 16, "rope_theta": 500_000.0}
WIDE = {"head_dim": 96, "rope_theta": 30_000.0, "options": {"heads": 5}}


def input_mutated_views(head_dim: int, rope_theta: float) -> Turn:
    """Slices of x are views: what is multiplied into them is multiplied into the caller's x."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        freqs = (position_ids[..., None] * inv_freq)[..., None, :]
        cos, sin = np.cos(freqs).astype(x.dtype), np.sin(freqs).astype(x.dtype)
        x1, x2 = np.split(x, 2, axis=-1)
        turned_x2 = x2 * cos + x1 * sin
        x1 *= cos  # must be x1 = x1 * cos - x2 * sin, which makes a new array
        x1 -= x2 * sin
        return np.concatenate([x1, turned_x2], axis=-1)

    return fn


def input_mutated_in_place(head_dim: int, rope_theta: float) -> Turn:
    """Written back into x and returned: the caller's q has changed under him."""
    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Array, position_ids: Array) -> Array:
        x[...] = turned(x, position_ids[..., None] * inv_freq)  # must go to an array of its own
        return x

    return fn


def input_mutated_torch(head_dim: int, rope_theta: float) -> Turn:
    """The same in torch, on strided views of neighbours."""
    import torch

    inv_freq = torch.from_numpy(ladder(rope_theta, head_dim))

    def fn(x: Any, position_ids: Any) -> Any:
        freqs = (position_ids[..., None].double() * inv_freq.to(x.device))[..., None, :]
        cos, sin = freqs.cos().to(x.dtype), freqs.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned_even, turned_odd = even * cos - odd * sin, odd * cos + even * sin
        with torch.no_grad():
            even.copy_(turned_even)  # copy_ into a view writes to x
            odd.copy_(turned_odd)
        return torch.stack((turned_even, turned_odd), dim=-1).flatten(-2)

    return fn


def float32_out(head_dim: int, rope_theta: float) -> Turn:
    """float32 tables promote a bfloat16 x, and nothing casts back: attention then runs in float32, or refuses."""
    import torch

    inv_freq = torch.from_numpy(ladder(rope_theta, head_dim))

    def fn(x: Any, position_ids: Any) -> Any:
        freqs = position_ids[..., None].double() * inv_freq.to(x.device)
        emb = torch.cat((freqs, freqs), dim=-1)[..., None, :]
        table = torch.promote_types(x.dtype, torch.float32)
        cos, sin = emb.cos().to(table), emb.sin().to(table)
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-x2, x1), dim=-1) * sin  # must end in .to(x.dtype)

    return fn


def float32_out_complex(head_dim: int, rope_theta: float) -> Turn:
    """Meta's complex form up to its last call, type_as(xq), which is missing."""
    import torch

    inv_freq = torch.from_numpy(ladder(rope_theta, head_dim))

    def fn(x: Any, position_ids: Any) -> Any:
        freqs = (position_ids[..., None].double() * inv_freq.to(x.device))[..., None, :]
        work = torch.promote_types(x.dtype, torch.float32)
        narrow = torch.complex64 if work == torch.float32 else torch.complex128
        freqs_cis = torch.polar(torch.ones_like(freqs), freqs).to(narrow)
        x_ = torch.view_as_complex(x.to(work).reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(x_ * freqs_cis).flatten(-2)  # must end in .type_as(x)

    return fn


def gradient_missing(head_dim: int, rope_theta: float) -> Turn:
    """A fast path outside autograd: q and k projections get no gradient, and nothing says so."""
    import torch

    inv_freq = ladder(rope_theta, head_dim)

    def fn(x: Any, position_ids: Any) -> Any:
        fast = turned(x.detach().cpu().double().numpy(), position_ids.cpu().numpy()[..., None] * inv_freq)
        return torch.from_numpy(fast).to(x)  # must be an autograd.Function with a backward

    return fn


def gradient_straight(head_dim: int, rope_theta: float) -> Turn:
    """Written through .data: autograd sees a clone, and hands the gradient on without turning it."""
    import torch

    inv_freq = torch.from_numpy(ladder(rope_theta, head_dim))

    def fn(x: Any, position_ids: Any) -> Any:
        freqs = position_ids[..., None].double() * inv_freq.to(x.device)
        emb = torch.cat((freqs, freqs), dim=-1)[..., None, :]
        cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
        out = x.clone()
        x1, x2 = x.detach().chunk(2, dim=-1)
        out.data.copy_(x.detach() * cos + torch.cat((-x2, x1), dim=-1) * sin)  # .data hides this from autograd
        return out

    return fn


def gradient_forward_way(head_dim: int, rope_theta: float, pairing: str = "half") -> Turn:
    """A backward that turns as the forward does: the gradient must be turned back."""
    import torch

    inv_freq = ladder(rope_theta, head_dim)
    lay_out = doubled if pairing == "half" else repeated

    def rotate(x: torch.Tensor) -> torch.Tensor:
        if pairing == "half":
            x1, x2 = x.chunk(2, dim=-1)
            return torch.cat((-x2, x1), dim=-1)
        return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)

    class Turning(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(cos, sin)
            return x * cos + rotate(x) * sin

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> Any:
            cos, sin = ctx.saved_tensors
            (grad,) = grads
            return grad * cos + rotate(grad) * sin, None, None  # must be grad * cos - rotate(grad) * sin

    def fn(x: Any, position_ids: Any) -> Any:
        angle = torch.from_numpy(lay_out(position_ids.cpu().numpy()[..., None] * inv_freq))[..., None, :].to(x.device)
        return Turning.apply(x, angle.cos().to(x.dtype), angle.sin().to(x.dtype))

    return fn


HALF, INTERLEAVED = declared(pairing="half"), declared(pairing="interleaved")

EXHIBITS = (
    *shown("M46a", "input-mutated", "multiplied into views of x", input_mutated_views, HALF, SMALL, WIDE),
    *shown("M46b", "input-mutated", "written back into x", input_mutated_in_place, HALF, SMALL, WIDE),
    *shown(
        "M46c",
        "input-mutated",
        "copied into strided views of x",
        input_mutated_torch,
        INTERLEAVED,
        SMALL,
        WIDE,
        backend="torch",
    ),
    *shown(
        "M47a",
        "float32-out",
        "bfloat16 in, float32 out",
        float32_out,
        HALF,
        {**SMALL, "options": {"dtype": "bfloat16"}},
        WIDE,
        backend="torch",
    ),
    *shown(
        "M47b",
        "float32-out",
        "bfloat16 in, float32 out, complex form",
        float32_out_complex,
        INTERLEAVED,
        {**SMALL, "options": {"dtype": "bfloat16"}},
        WIDE,
        backend="torch",
    ),
    *shown("M48a", "gradient-wrong", "no backward", gradient_missing, HALF, SMALL, WIDE, backend="torch"),
    *shown(
        "M48b",
        "gradient-wrong",
        "a backward that turns the forward way",
        gradient_forward_way,
        declared(),
        SMALL,
        {**WIDE, "pairing": "interleaved"},
        backend="torch",
    ),
    *shown(
        "M48c", "gradient-wrong", "a backward that does not turn", gradient_straight, HALF, SMALL, WIDE, backend="torch"
    ),
)
