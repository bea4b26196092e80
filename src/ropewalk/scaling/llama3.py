"""Llama 3.1's scaling: wavelengths short against the original length kept, long ones divided, a ramp between."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._checks import real, whole
from ..errors import RopewalkError
from ._frequencies import Frequencies, Steady, ladder, slowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3(Steady):
    """Bands by wavelength: kept below L0/high, divided by s above L0/low, linear in frequency between.

    Source: Meta's llama-models, `apply_scaling` of models/llama3/model.py. Equal low and high make a hard step, whose
    border itself is divided (where Meta's code divides by zero).

    Attributes:
        factor: s, divides the slow pairs.
        low_freq_factor: turns within the original length below which a pair is divided by the whole factor.
        high_freq_factor: turns above which a pair is kept.
        original_max_position_embeddings: L0, tokens, the length trained before stretching.

    >>> scaling = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    >>> scaling.frequencies(500000.0, 128).inv_freq.round(9).tolist()[-1]
    3.07e-07
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    rope_type: ClassVar[str] = "llama3"

    def __post_init__(self) -> None:
        for name in ("factor", "low_freq_factor", "high_freq_factor"):
            object.__setattr__(self, name, real(f"llama3: {name}", getattr(self, name), above=0))
        original = whole("llama3: original_max_position_embeddings", self.original_max_position_embeddings, at_least=1)
        object.__setattr__(self, "original_max_position_embeddings", original)
        if self.low_freq_factor > self.high_freq_factor:
            raise RopewalkError(
                "llama3: low_freq_factor must be at most high_freq_factor, got "
                f"low_freq_factor={self.low_freq_factor:g}, high_freq_factor={self.high_freq_factor:g}."
            )

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the ladder with its three bands; it is the same at every length."""
        plain = ladder(rope_theta, rotary_dim)
        if self.factor == 1:
            return Frequencies(plain)
        span = self.high_freq_factor - self.low_freq_factor
        with np.errstate(over="ignore"):  # an infinity is clipped away
            turns = self.original_max_position_embeddings * plain / (2 * math.pi)  # within the original length
            if span == 0:
                kept = (turns > self.high_freq_factor).astype(np.float64)
            else:
                kept = np.clip((turns - self.low_freq_factor) / span, 0, 1)
        return Frequencies(slowed((1 - kept) * plain, self.factor, "llama3: factor") + kept * plain)
