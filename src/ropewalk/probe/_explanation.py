"""What a table of pairs turns out to be."""

import math
from dataclasses import dataclass
from typing import Any

from .._checks import fields_to_dict
from ..rope import Rope
from ._fitting_shapes import Deviation

MAGNITUDE = 2.5e-3  # relative: a factor on cos and sin whose tables were rounded to bfloat16 is off by up to 2^-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a table of pairs is.

    Attributes:
        rope: the best known description; None for a table of its own, or a fault that no description has.
        residual: the largest relative deviation of a measured frequency from the explanation's; infinity where
            there is none.
        recipe: in words, relative to the declared rope where there is one.
        slug: the name of the first deviation that has one, or None.
        deviations: from the declared rope, one for each mistake; empty where there is none, or nothing was declared.
        equivalents: other descriptions of the same table.
        parameters: the measured numbers by name.
        open: what the table leaves open, in words.
        known: whether the table is explained (a rope, or a mistake that is known).
    """

    rope: Rope | None
    residual: float
    recipe: str
    slug: str | None = None
    deviations: tuple[Deviation, ...] = ()
    equivalents: tuple[Rope, ...] = ()
    parameters: dict[str, Any]
    open: tuple[str, ...] = ()
    known: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Give the explanation as plain values for JSON."""
        return {
            "rope": None if self.rope is None else self.rope.to_dict(),
            "residual": self.residual if math.isfinite(self.residual) else None,
            "recipe": self.recipe,
            "slug": self.slug,
            "deviations": [fields_to_dict(deviation) for deviation in self.deviations],
            "equivalents": [rope.to_dict() for rope in self.equivalents],
            "parameters": dict(self.parameters),
            "open": list(self.open),
            "known": self.known,
        }
