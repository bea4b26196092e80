"""What llama.cpp computes from its rotary parameters: the same arithmetic, in float64, as its runtime.

Source: llama-cpp-python 0.3.36, vendor/llama.cpp: `llama_context` in src/llama-context.cpp (scales, magnitudes),
`ggml_rope_yarn_corr_dims` in ggml/src/ggml.c, `rope_yarn` in ggml/src/ggml-cpu/ops.cpp, and the scale of the softmax in
src/models/deepseek2.cpp. Parameters are float32 there and rounded to it here.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._subject import Refused


class Turning(NamedTuple):
    """What a parameter set comes to: [P] radians a position, what multiplies cos and sin, what the softmax scale."""

    inv_freq: NDArray[np.float64]
    cos_sin_factor: float
    softmax_factor: float


def single(values: ArrayLike, engine: str, name: str) -> NDArray[np.float64]:
    """Round numbers to float32, in which llama.cpp and its files hold them.

    Raises:
        Refused: where one of them is beyond the range of float32; name is what would be lost.
    """
    exact = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        rounded = exact.astype(np.float32).astype(np.float64)
    beyond = ~np.isfinite(rounded) | ((rounded == 0) & (exact != 0))
    if beyond.any():
        worst = exact[beyond].flat[0]
        raise Refused(engine, f"it holds numbers in float32, and {worst:.3g} is beyond their range", (name,))
    return rounded


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of ggml_rope_ext and of the context around it.

    Attributes:
        n_dims: channels that turn.
        freq_base: the base.
        freq_scale: 1/factor.
        scaling: "none", "linear", "yarn" or "longrope".
        orig_ctx: the original length of yarn.
        beta_fast: of yarn.
        beta_slow: of yarn.
        attn_factor: `rope.scaling.attn_factor`, which multiplies at the end.
        log_mul: the yarn log multiplier as it stands in memory.
        mla: the architecture is deepseek2, which multiplies its softmax scale too.
        divisors: the tensor of frequency factors, or None.
        engine: whose settings they were, for errors.
    """

    n_dims: int
    freq_base: float
    freq_scale: float = 1.0
    scaling: str = "none"
    orig_ctx: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attn_factor: float = 1.0
    log_mul: float = 0.0
    mla: bool = False
    divisors: tuple[float, ...] | None = None
    engine: str = "gguf"

    def turning(self) -> Turning:
        """Compute the angles of one position, and the magnitudes.

        Raises:
            Refused: where a parameter is beyond the range of float32.
        """
        base = float(single(self.freq_base, self.engine, "rope_theta"))
        scale = 1.0 if self.scaling == "none" else float(single(self.freq_scale, self.engine, "scaling"))
        pairs = np.arange(self.n_dims // 2)
        plain = base ** (-2.0 * pairs / self.n_dims)
        if self.divisors is not None:
            plain = plain / single(self.divisors, self.engine, "scaling")
        magnitude, softmax = float(single(self.attn_factor, self.engine, "attention_factor")), 1.0
        if self.scaling != "yarn":
            return Turning(scale * plain, magnitude, softmax)
        low = max(0.0, math.floor(self._turns(self.beta_fast, base)))
        high = min(self.n_dims - 1.0, math.ceil(self._turns(self.beta_slow, base)))
        kept = 1 - np.clip((pairs - low) / max(0.001, high - low), 0, 1)
        factor = 1 / scale
        magnitude *= self._mscale(factor)
        if self.mla:
            softmax = (magnitude * (1 + 0.1 * self.log_mul * math.log(factor))) ** 2
        return Turning(scale * plain * (1 - kept) + plain * kept, magnitude, softmax)

    def _turns(self, beta: float, base: float) -> float:
        return self.n_dims * math.log(self.orig_ctx / (beta * 2 * math.pi)) / (2 * math.log(base))

    def _mscale(self, factor: float) -> float:
        """Give the magnitude of yarn; the operator multiplies by 1 + 0.1 ln s what the context has divided by it."""

        def get(mscale: float) -> float:
            return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1

        if not self.log_mul:
            return get(1.0)
        numerator = self.log_mul if self.mla and self.log_mul != 1 else 1.0
        return get(numerator) / get(self.log_mul)
