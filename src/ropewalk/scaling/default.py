"""No scaling: the frequencies of the RoFormer paper."""

from dataclasses import dataclass
from typing import ClassVar

from ._frequencies import Frequencies, Steady, ladder


@dataclass(frozen=True, slots=True, kw_only=True)
class Default(Steady):
    """No scaling: w_i = theta^(-2i/R). Source: Su et al. 2021, RoFormer, equation 15.

    >>> Default().frequencies(10000.0, 4).inv_freq.tolist()
    [1.0, 0.01]
    """

    rope_type: ClassVar[str] = "default"

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the unscaled ladder; length and max_position_embeddings play no part."""
        return Frequencies(ladder(rope_theta, rotary_dim))
