"""What every scaling shares: the unscaled ladder of frequencies, and the shape of a result."""

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import RopewalkError


class Frequencies(NamedTuple):
    """One ladder, scaled.

    Attributes:
        inv_freq: [rotary_dim // 2] float64, radians a position.
        cos_sin_factor: multiplies cos and sin.
        softmax_factor: multiplies the softmax scale.
    """

    inv_freq: NDArray[np.float64]
    cos_sin_factor: float = 1.0
    softmax_factor: float = 1.0


class Scaling(Protocol):
    """A frozen set of parameters that turns theta and a width into frequencies."""

    @property
    def rope_type(self) -> str:
        """The name in a config's rope_parameters."""
        ...

    @property
    def length_dependent(self) -> bool:
        """Whether the frequencies change with the number of tokens in the sequence."""
        ...

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the frequencies of one ladder for a sequence of length tokens."""
        ...


def ladder(rope_theta: float, rotary_dim: int) -> NDArray[np.float64]:
    """Give the unscaled frequencies w_i = theta^(-2i/R) of a ladder, [R // 2] float64, radians a position.

    An odd R keeps R in the exponent and has R // 2 pairs. Source: Su et al. 2021, RoFormer, equation 15.

    >>> ladder(10000.0, 8).round(12).tolist()
    [1.0, 0.1, 0.01, 0.001]
    """
    steps = np.arange(rotary_dim // 2, dtype=np.float64)
    with np.errstate(over="ignore"):
        inv_freq = np.float64(rope_theta) ** (-2.0 * steps / rotary_dim)
    if not np.isfinite(inv_freq).all():
        raise RopewalkError(f"rope_theta={rope_theta:g} gives frequencies too large for float64; give a larger one.")
    return inv_freq


def stretched_theta(rope_theta: float, ratio: float, rotary_dim: int, what: str) -> float:
    """Give theta · ratio^(R/(R-2)), the base change of NTK-aware scaling; R must be above 2."""
    if rotary_dim <= 2:
        raise RopewalkError(f"{what} needs rotary_dim above 2 (its exponent is R/(R-2)), got rotary_dim={rotary_dim}.")
    try:
        theta = rope_theta * ratio ** (rotary_dim / (rotary_dim - 2))
    except OverflowError:
        theta = math.inf
    if not math.isfinite(theta) or theta <= 0:
        raise RopewalkError(f"{what} by {ratio:g} takes rope_theta={rope_theta:g} out of float64; give a smaller one.")
    return theta


def magnitude(factor: float, mscale: float = 1.0) -> float:
    """Give YaRN's g(s, m) = 0.1·m·ln s + 1, and 1 for s <= 1. Source: Peng et al. 2023, YaRN, equation 22.

    >>> round(magnitude(40.0), 9)
    1.368887945
    """
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0
