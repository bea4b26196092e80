"""What every scaling shares: the unscaled ladder of frequencies, and the shape of a result."""

import math
from typing import ClassVar, NamedTuple, Protocol

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


class Steady:
    """What scalings share whose frequencies are the same at every length."""

    __slots__ = ()

    @property
    def length_dependent(self) -> bool:
        """False."""
        return False


class Scaling(Protocol):
    """A frozen set of parameters that turns theta and a width into frequencies.

    Attributes:
        rope_type: the name in a config's rope_parameters.
        length_dependent: whether the frequencies change with the number of tokens in the sequence.
    """

    rope_type: ClassVar[str]

    @property
    def length_dependent(self) -> bool: ...

    def frequencies(
        self,
        rope_theta: float,
        rotary_dim: int,
        *,
        length: int | None = None,
        max_position_embeddings: int | None = None,
    ) -> Frequencies:
        """Give the frequencies of one ladder.

        Args:
            rope_theta: θ, above 0.
            rotary_dim: R, the width of the ladder in channels.
            length: tokens in the sequence; None means at or below the trained length.
            max_position_embeddings: Lmax, tokens, or None where unknown.

        Raises:
            RopewalkError: where the formula is not defined for these numbers, or leaves float64.
        """
        ...


def ladder(rope_theta: float, rotary_dim: int) -> NDArray[np.float64]:
    """Give the unscaled frequencies w_i = theta^(-2i/R) of a ladder, [R // 2] float64, radians a position.

    An odd R keeps R in the exponent and has R // 2 pairs. Raises RopewalkError where a frequency leaves float64.
    Source: Su et al. 2021, RoFormer, equation 15.

    >>> ladder(10000.0, 8).round(12).tolist()
    [1.0, 0.1, 0.01, 0.001]
    """
    if not (math.isfinite(rope_theta) and rope_theta > 0):
        raise RopewalkError(f"the base of the frequencies must be finite and above 0, got {rope_theta:g}.")
    steps = np.arange(rotary_dim // 2, dtype=np.float64)
    with np.errstate(over="ignore"):
        inv_freq = np.float64(rope_theta) ** (-2.0 * steps / rotary_dim)
    if not np.isfinite(inv_freq).all():
        raise RopewalkError(f"rope_theta={rope_theta:g} gives frequencies too large for float64; give a larger one.")
    return inv_freq


def slowed(inv_freq: NDArray[np.float64], divisor: float | NDArray[np.float64], what: str) -> NDArray[np.float64]:
    """Give inv_freq / divisor, or raise where a divisor near 0 takes it out of float64.

    >>> slowed(ladder(10000.0, 4), 4.0, "linear: factor").tolist()
    [0.25, 0.0025]
    """
    with np.errstate(over="ignore"):
        result = inv_freq / divisor
    if not np.isfinite(result).all():
        raise RopewalkError(
            f"{what} as small as {np.min(divisor):g} gives frequencies too large for float64; give a larger one."
        )
    return result


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
