"""Static NTK-aware scaling: a larger base, so that slow pairs are slowed and fast ones nearly kept."""

from dataclasses import dataclass
from typing import ClassVar

from .._checks import choice, real
from ._frequencies import Frequencies, Steady, ladder, slowed, stretched_theta


@dataclass(frozen=True, slots=True, kw_only=True)
class Ntk(Steady):
    """A base raised once, at every length. One name stands for three formulas in the field; `method` says which.

    - ``"aware"``: theta·s^(R/(R-2)), so that the slowest pair is divided by s exactly. Source: bloc97's NTK-aware
      RoPE (2023), equation 17 of Peng et al. 2023, YaRN; Hunyuan's `alpha` is this s.
    - ``"vllm"``: base theta·s, then every frequency divided by s^(2/R). Source: vLLM's NTKScalingRotaryEmbedding.
    - ``"base"``: theta·s and nothing else. Source: diffusers' `ntk_factor`.

    >>> Ntk(factor=50.0).frequencies(20000.0, 96).inv_freq.round(9).tolist()[:2]
    [1.0, 0.74859498]
    """

    factor: float
    method: str = "aware"

    rope_type: ClassVar[str] = "ntk"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", real("ntk: factor", self.factor, above=0))
        choice("ntk: method", self.method, ("aware", "vllm", "base"))

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the ladder of the raised base; length and max_position_embeddings play no part."""
        if self.factor == 1:
            return Frequencies(ladder(rope_theta, rotary_dim))
        if self.method == "aware":
            return Frequencies(ladder(stretched_theta(rope_theta, self.factor, rotary_dim, "ntk"), rotary_dim))
        raised = ladder(rope_theta * self.factor, rotary_dim)
        if self.method == "vllm":
            raised = slowed(raised, self.factor ** (2 / rotary_dim), "ntk: the divisor factor^(2/R)")
        return Frequencies(raised)
