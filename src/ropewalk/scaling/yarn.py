"""YaRN: fast pairs kept, slow pairs interpolated, a ramp between; and a magnitude."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._checks import real, truth, whole
from ..errors import RopewalkError
from ._frequencies import Frequencies, Steady, ladder, magnitude, slowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Yarn(Steady):
    """NTK-by-parts with a magnitude. Source: Peng et al. 2023, YaRN, equations 19 to 23, in transformers' form.

    A pair that turns more than beta_fast times within the original length is kept, one that turns less than beta_slow
    times is divided by the factor, and the divisor of those between follows a ramp over the pair number.

    Attributes:
        factor: s, how far the context is stretched; 1 changes no frequency.
        original_max_position_embeddings: tokens, the length trained before stretching.
        beta_fast: turns within the original length above which a pair is kept.
        beta_slow: turns below which a pair is divided by the whole factor.
        truncate: round the ramp's bounds outward to whole pairs.
        attention_factor: the factor on cos and sin, verbatim; None derives it.
        mscale: numerator's m in g(s, mscale)/g(s, mscale_all_dim); used when both are given and not 0.
        mscale_all_dim: denominator's m, and the m of the softmax factor.
        scale_softmax: the architecture multiplies the softmax scale by g(s, mscale_all_dim)² (DeepSeek's MLA).

    >>> Yarn(factor=40.0, original_max_position_embeddings=4096).frequencies(10000.0, 64).cos_sin_factor
    1.3688879454113936
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    scale_softmax: bool = False

    rope_type: ClassVar[str] = "yarn"

    def __post_init__(self) -> None:
        original = whole("yarn: original_max_position_embeddings", self.original_max_position_embeddings, at_least=1)
        object.__setattr__(self, "original_max_position_embeddings", original)
        for name in ("factor", "beta_fast", "beta_slow"):
            object.__setattr__(self, name, real(f"yarn: {name}", getattr(self, name), above=0))
        if self.beta_fast < self.beta_slow:
            raise RopewalkError(
                f"yarn: beta_fast must be at least beta_slow, got beta_fast={self.beta_fast:g}, "
                f"beta_slow={self.beta_slow:g}. They look swapped."
            )
        if self.attention_factor is not None:
            object.__setattr__(self, "attention_factor", real("yarn: attention_factor", self.attention_factor, above=0))
        for name in ("mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, real(f"yarn: {name}", getattr(self, name), at_least=0))
        truth("yarn: truncate", self.truncate)
        truth("yarn: scale_softmax", self.scale_softmax)
        real("yarn: the factor on cos and sin", self.cos_sin_factor, above=0)
        real("yarn: the softmax factor", self.softmax_factor, above=0)

    def bounds(self, rope_theta: float, rotary_dim: int) -> tuple[float, float]:
        """Give the pair numbers between which the divisor rises from 1 to the factor (equal for a step).

        Raises:
            RopewalkError: where the range does not exist: theta not above 1, an original length in which even the
                fastest pair turns less than beta_slow times, or one in which every pair turns more than beta_fast.
        """
        if rope_theta <= 1:
            raise RopewalkError(f"yarn needs rope_theta above 1 (its range divides by ln θ), got {rope_theta:g}.")

        def pair_that_turns(turns: float) -> float:
            per_radian = self.original_max_position_embeddings / (turns * 2 * math.pi)
            if not 0 < per_radian < math.inf:
                raise RopewalkError(f"yarn: a beta of {turns:g} turns is out of float64; give one nearer to 1.")
            return rotary_dim * math.log(per_radian) / (2 * math.log(rope_theta))

        low, high = pair_that_turns(self.beta_fast), pair_that_turns(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, rotary_dim - 1)
        if low > high:
            raise RopewalkError(
                f"yarn: the range from pair {low:g} to pair {high:g} is empty at rope_theta={rope_theta:g}, "
                f"rotary_dim={rotary_dim}, original_max_position_embeddings={self.original_max_position_embeddings}; "
                "check the original length and the betas."
            )
        return low, high

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the ladder blended between kept and interpolated; it is the same at every length."""
        plain = ladder(rope_theta, rotary_dim)
        if self.factor == 1:
            return Frequencies(plain, self.cos_sin_factor, self.softmax_factor)
        low, high = self.bounds(rope_theta, rotary_dim)
        width = high - low if high > low else 0.001  # equal bounds: a step, as in the authors' code
        ramp = np.clip((np.arange(rotary_dim // 2) - low) / width, 0, 1)
        blended = slowed(plain, self.factor, "yarn: factor") * ramp + plain * (1 - ramp)
        return Frequencies(blended, self.cos_sin_factor, self.softmax_factor)

    @property
    def cos_sin_factor(self) -> float:
        """What multiplies cos and sin: the attention factor, the ratio of magnitudes, or g(s, 1)."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return magnitude(self.factor, self.mscale) / magnitude(self.factor, self.mscale_all_dim)
        return magnitude(self.factor)

    @property
    def softmax_factor(self) -> float:
        """What multiplies the softmax scale: g(s, mscale_all_dim)² where the architecture does that, else 1.

        Source: DeepSeek-V3's own model code (`mscale * mscale` on `softmax_scale`).
        """
        if not self.scale_softmax or not self.mscale_all_dim:
            return 1.0
        g = magnitude(self.factor, self.mscale_all_dim)
        return g * g
