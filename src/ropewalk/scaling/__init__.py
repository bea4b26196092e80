"""Every way to scale RoPE's frequencies: frozen parameters and one pure float64 function each."""

from collections.abc import Mapping
from typing import Any

from .._checks import fields_from_dict, fields_to_dict, shown
from ..errors import RopewalkError
from ._frequencies import Frequencies, Scaling
from .default import Default
from .dynamic import Dynamic
from .linear import Linear
from .llama3 import Llama3
from .longrope import LongRope
from .ntk import Ntk
from .proportional import Proportional
from .yarn import Yarn

__all__ = [
    "SCALINGS",
    "Default",
    "Dynamic",
    "Frequencies",
    "Linear",
    "Llama3",
    "LongRope",
    "Ntk",
    "Proportional",
    "Scaling",
    "Yarn",
    "scaling_from_dict",
    "scaling_to_dict",
]

SCALINGS: dict[str, Any] = {
    cls.rope_type: cls for cls in (Default, Linear, Ntk, Dynamic, Yarn, LongRope, Llama3, Proportional)
}


def scaling_to_dict(scaling: Scaling) -> dict[str, Any]:
    """Give a scaling as plain values, its rope_type first."""
    return {"rope_type": scaling.rope_type, **fields_to_dict(scaling)}


def scaling_from_dict(data: object) -> Scaling:
    """Build a scaling from what scaling_to_dict gives; unknown or missing keys are an error."""
    rope_type = data.get("rope_type") if isinstance(data, Mapping) else None
    if not isinstance(rope_type, str) or rope_type not in SCALINGS:
        given = shown(data if rope_type is None else rope_type)
        raise RopewalkError(f"a scaling's rope_type must be one of {', '.join(SCALINGS)}, got {given}.")
    cls = SCALINGS[rope_type]
    return cls(**fields_from_dict(cls, data, f"{rope_type} scaling", ignore=("rope_type",)))
