"""One way to make frequencies from a plain ladder: the right one, or a known mistake."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..fitting.numbers import Array
from ..scaling import Scaling

Function = Callable[[Array, float, float, NDArray[np.int64], int], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One way to make frequencies.

    Attributes:
        slug: of the mistake; None for the right way, or a mistake without a name of its own.
        words: what was seen; "" for the right way.
        right: what is right, in words.
        function: (the plain ladder w_i, theta, factor, i, R) -> frequencies.
        scaling: the known scaling that gives the same, by factor; None where none does.
        factor: the declared s, or None where the rule has none.
    """

    slug: str | None = None
    words: str = ""
    right: str = ""
    function: Function
    scaling: Callable[[float], Scaling | None]
    factor: float | None = None
