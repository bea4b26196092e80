"""What the exhibits share: the few right lines that every implementation of RoPE has, and descriptions to declare."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...axes import Sections
from ...rope import Rope
from ...scaling import Dynamic, Linear, Llama3, LongRope, Proportional, Yarn
from .exhibit import Turn

Array = NDArray[Any]


def ladder(rope_theta: float, dim: int) -> Array:
    """Give the frequencies θ^(-2i/dim), [dim / 2] float64."""
    return rope_theta ** (-np.arange(0, dim, 2) / dim)


def rotate_half(x: Array) -> Array:
    """Give (-x2, x1), the halves exchanged and the first one negated."""
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([-x2, x1], axis=-1)


def rotate_every_two(x: Array) -> Array:
    """Give (-x1, x0, -x3, x2, …), neighbours exchanged and the first of each negated."""
    return np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)


def doubled(freqs: Array) -> Array:
    """Give the angles once for each half: a0, a1, a0, a1 for two pairs."""
    return np.concatenate([freqs, freqs], axis=-1)


def repeated(freqs: Array) -> Array:
    """Give every angle twice in a row: a0, a0, a1, a1 for two pairs."""
    return np.repeat(freqs, 2, axis=-1)


def per_head(table: Array, x: Array) -> Array:
    """Make a table [..., S, C] fit x [..., S, H, C], in x's dtype."""
    return table[..., None, :].astype(x.dtype)


def turned(x: Array, freqs: Array, pairing: str = "half", g: float = 1.0) -> Array:
    """Turn the leading channels of x [..., S, H, D] by angles [..., S, P], as the formula has it."""
    lay_out, rotate = (doubled, rotate_half) if pairing == "half" else (repeated, rotate_every_two)
    angle = lay_out(freqs)
    cos, sin = per_head(g * np.cos(angle), x), per_head(g * np.sin(angle), x)
    width = angle.shape[-1]
    head, rest = x[..., :width], x[..., width:]
    return np.concatenate([head * cos + rotate(head) * sin, rest], axis=-1)


def turning(inv_freq: Array, pairing: str = "half", g: float = 1.0) -> Turn:
    """Give the right fn for these frequencies: what differs between such exhibits is the frequencies alone."""

    def fn(x: Array, position_ids: Array) -> Array:
        return turned(x, position_ids[..., None] * inv_freq, pairing, g)

    return fn


def length_of(position_ids: Array) -> int:
    """Give the length that a call implies, as transformers counts it: the highest position plus 1."""
    return int(position_ids.max()) + 1


def longrope_magnitude(original_max_position_embeddings: int, max_position_embeddings: int) -> float:
    """Give the factor on cos and sin of Phi-3's LongRoPE."""
    stretch = max_position_embeddings / original_max_position_embeddings
    return math.sqrt(1 + math.log(stretch) / math.log(original_max_position_embeddings))


def table_rows(table: Array, position_ids: Array) -> Array:
    """Gather rows by id as an embedding does: what the table does not have is an error, negative ids too."""
    if position_ids.min() < 0 or position_ids.max() >= len(table):
        raise IndexError(f"position {position_ids.min()} … {position_ids.max()}, and the table has {len(table)} rows")
    return table[position_ids]


# --- What is declared -------------------------------------------------------------------------------------------------


def declared(**fixed: Any) -> Callable[..., Rope]:
    """Give the description with these fields fixed, the others taken from the exhibit's parameters."""
    known = ("head_dim", "rope_theta", "rotary_dim", "rotary_start", "pairing", "max_position_embeddings")

    def rope(**parameters: Any) -> Rope:
        fields = {"pairing": "half", **{name: parameters[name] for name in known if name in parameters}, **fixed}
        return Rope(**fields)

    return rope


def scaled(family: type, **fixed: Any) -> Callable[..., Rope]:
    """Give the description whose scaling takes its fields from the exhibit's parameters."""
    names = list(family.__dataclass_fields__)  # type: ignore[attr-defined]

    def rope(**parameters: Any) -> Rope:
        given = {name: parameters[name] for name in names if name in parameters}
        return declared(scaling=family(**given, **fixed))(**parameters)

    return rope


linear, llama3, yarn = scaled(Linear), scaled(Llama3), scaled(Yarn)
dynamic, longrope, proportional = scaled(Dynamic), scaled(LongRope), scaled(Proportional)


def sections(arrangement: str) -> Callable[..., Rope]:
    """Give an M-RoPE's description, its sections taken from the exhibit's parameters."""

    def rope(*, mrope_section: tuple[int, ...], **parameters: Any) -> Rope:
        return declared(axes=Sections(sections=mrope_section, arrangement=arrangement))(**parameters)

    return rope
