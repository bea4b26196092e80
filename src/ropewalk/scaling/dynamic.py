"""Dynamic NTK: the base grows with the sequence, beyond the trained length only."""

from dataclasses import dataclass
from typing import ClassVar

from .._checks import real
from ..errors import RopewalkError
from ._frequencies import Frequencies, ladder, stretched_theta


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamic:
    """The base as a function of the length: theta·(s·L/Lmax - (s - 1))^(R/(R-2)), L = max(length, Lmax).

    Lmax is the rope's max_position_embeddings; at and below it nothing changes. Beyond it the base grows even where
    the factor is 1. Source: emozilla's dynamic NTK (2023) as transformers computes it; Peng et al. 2023, YaRN,
    section 3.3 names the idea.

    Attributes:
        factor: s, how fast the base grows beyond the trained length.

    >>> scaling = Dynamic(factor=2.0)
    >>> scaling.frequencies(10000.0, 4, length=4096, max_position_embeddings=4096).inv_freq.tolist()
    [1.0, 0.01]
    """

    factor: float

    rope_type: ClassVar[str] = "dynamic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", real("dynamic: factor", self.factor, above=0))

    @property
    def length_dependent(self) -> bool:
        """True: the base grows with the sequence."""
        return True

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the ladder for a sequence of length tokens; None means at or below the trained length."""
        if max_position_embeddings is None:
            raise RopewalkError("dynamic scaling needs the trained length: set the rope's max_position_embeddings.")
        if rotary_dim <= 2:
            raise RopewalkError(f"dynamic scaling needs rotary_dim above 2, got rotary_dim={rotary_dim}.")
        if length is None or length <= max_position_embeddings:
            return Frequencies(ladder(rope_theta, rotary_dim))
        ratio = self.factor * length / max_position_embeddings - (self.factor - 1)
        return Frequencies(ladder(stretched_theta(rope_theta, ratio, rotary_dim, "dynamic scaling"), rotary_dim))
