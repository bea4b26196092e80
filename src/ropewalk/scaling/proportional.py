"""Proportional RoPE: the first pairs of the whole head turn, the rest keep still."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._checks import real
from ..errors import RopewalkError
from ._frequencies import Frequencies, Steady, ladder, slowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportional(Steady):
    """Gemma 4's partial rotation: exponents over the whole head, and pairs from int(p·D // 2) on with frequency 0.

    Unlike an ordinary partial RoPE, whose pairs and exponents are those of the rotated width, the width here is the
    head's: leave the rope's rotary_dim at D. Source: transformers 5.24, `_compute_proportional_rope_parameters`.

    Attributes:
        partial_rotary_factor: p, the part of the pairs that turn, above 0 and at most 1.
        factor: s, divides the frequencies of the pairs that turn.

    >>> Proportional(partial_rotary_factor=0.5).frequencies(10000.0, 8).inv_freq.round(12).tolist()
    [1.0, 0.1, 0.0, 0.0]
    """

    partial_rotary_factor: float = 1.0
    factor: float = 1.0

    rope_type: ClassVar[str] = "proportional"

    def __post_init__(self) -> None:
        for name in ("partial_rotary_factor", "factor"):
            object.__setattr__(self, name, real(f"proportional: {name}", getattr(self, name), above=0))
        if self.partial_rotary_factor > 1:
            raise RopewalkError(
                f"proportional: partial_rotary_factor must be at most 1, got {self.partial_rotary_factor:g}."
            )

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the ladder over the whole head with its tail still; it is the same at every length."""
        turning = int(self.partial_rotary_factor * rotary_dim // 2)
        inv_freq = slowed(ladder(rope_theta, rotary_dim), self.factor, "proportional: factor")
        return Frequencies(np.where(np.arange(rotary_dim // 2) < turning, inv_freq, 0.0))
