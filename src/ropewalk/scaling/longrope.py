"""LongRoPE: a divisor for each pair, one list for short sequences and one for long ones."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._checks import items, real, whole
from ..errors import RopewalkError
from ._frequencies import Frequencies, ladder, slowed


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRope:
    """Searched divisors: w_i / ext_i, ext from the short list up to the original length and the long list beyond it.

    Source: Ding et al. 2024, LongRoPE, equation 3; the magnitude sqrt(1 + ln s / ln L0) is the one of Phi-3's code.

    Attributes:
        short_factor: [rotary_dim // 2] divisors for a sequence of at most the original length.
        long_factor: [rotary_dim // 2] divisors for a longer one.
        original_max_position_embeddings: L0, tokens.
        factor: s of the magnitude; None takes max_position_embeddings / L0.
        attention_factor: the factor on cos and sin, verbatim; None derives it from s.
        short_mscale: the factor on cos and sin of short sequences, verbatim (Phi-3.5-MoE); wins over attention_factor.
        long_mscale: the same for long sequences.

    >>> scaling = LongRope(short_factor=(1.0, 1.0), long_factor=(2.0, 4.0), original_max_position_embeddings=8)
    >>> scaling.frequencies(10000.0, 4, length=9, max_position_embeddings=8).inv_freq.tolist()
    [0.5, 0.0025]
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int
    factor: float | None = None
    attention_factor: float | None = None
    short_mscale: float | None = None
    long_mscale: float | None = None

    rope_type: ClassVar[str] = "longrope"

    def __post_init__(self) -> None:
        for name in ("short_factor", "long_factor"):
            values = items(f"longrope: {name}", getattr(self, name))
            checked = tuple(real(f"longrope: {name}[{i}]", value, above=0) for i, value in enumerate(values))
            object.__setattr__(self, name, checked)
        original = whole(
            "longrope: original_max_position_embeddings", self.original_max_position_embeddings, at_least=2
        )
        object.__setattr__(self, "original_max_position_embeddings", original)
        for name in ("factor", "attention_factor", "short_mscale", "long_mscale"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, real(f"longrope: {name}", getattr(self, name), above=0))

    @property
    def length_dependent(self) -> bool:
        """Whether the two lists, or their magnitudes, differ: MiniCPM4 has one list twice, and no switch."""
        return self.short_factor != self.long_factor or self.short_mscale != self.long_mscale

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the ladder divided by the list of that length; None means at or below the original length."""
        for name in ("short_factor", "long_factor"):
            if len(getattr(self, name)) != rotary_dim // 2:
                raise RopewalkError(
                    f"longrope: {name} must have rotary_dim/2 = {rotary_dim // 2} entries, "
                    f"got {len(getattr(self, name))}."
                )
        long = length is not None and length > self.original_max_position_embeddings
        divisors = np.array(self.long_factor if long else self.short_factor, dtype=np.float64)
        inv_freq = slowed(ladder(rope_theta, rotary_dim), divisors, f"longrope: {'long' if long else 'short'}_factor")
        return Frequencies(inv_freq, self._cos_sin_factor(long, max_position_embeddings))

    def _cos_sin_factor(self, long: bool, max_position_embeddings: int | None) -> float:
        mscale = self.long_mscale if long else self.short_mscale
        if mscale is not None:
            return mscale
        if self.attention_factor is not None:
            return self.attention_factor
        stretch = self.factor
        if stretch is None:
            if max_position_embeddings is None:
                raise RopewalkError(
                    "longrope derives its magnitude from factor, or from max_position_embeddings over the original "
                    "length; give one of factor, attention_factor, or the rope's max_position_embeddings."
                )
            stretch = max_position_embeddings / self.original_max_position_embeddings
        if stretch <= 1:
            return 1.0
        return math.sqrt(1 + math.log(stretch) / math.log(self.original_max_position_embeddings))
