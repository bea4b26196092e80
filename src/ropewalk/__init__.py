"""ropewalk: describe, turn, show, check and compare rotary position embeddings (RoPE).

Everything public is importable from here; a name's module is loaded when the name is first used, so that
`import ropewalk` stays quick and `ropewalk --help` quicker.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .axes import Ladders as Ladders
    from .axes import Sections as Sections
    from .axes import Single as Single
    from .axes import Strided as Strided
    from .errors import RopewalkError as RopewalkError
    from .exporting import export as export
    from .findings import Finding as Finding
    from .gate import verify as verify
    from .inspection import inspect as inspect
    from .models.model import Layer as Layer
    from .models.model import Model as Model
    from .models.model import QueryScale as QueryScale
    from .models.targets import preset_names as preset_names
    from .models.targets import read as read
    from .pairs import Pairs as Pairs
    from .planning import extend as extend
    from .probe.checking import check as check
    from .probe.comparing import compare as compare
    from .rope import Rope as Rope
    from .turning.dispatch import rotate as rotate
    from .turning.dispatch import rotate_qk as rotate_qk
    from .turning.naive import score as score
    from .turning.naive import score_from_distance as score_from_distance
    from .turning.naive import tables as tables

_HOMES = {
    "Finding": "findings",
    "Ladders": "axes",
    "Layer": "models.model",
    "Model": "models.model",
    "Pairs": "pairs",
    "QueryScale": "models.model",
    "Rope": "rope",
    "RopewalkError": "errors",
    "Sections": "axes",
    "Single": "axes",
    "Strided": "axes",
    "check": "probe.checking",
    "compare": "probe.comparing",
    "export": "exporting",
    "extend": "planning",
    "inspect": "inspection",
    "preset_names": "models.targets",
    "read": "models.targets",
    "rotate": "turning.dispatch",
    "rotate_qk": "turning.dispatch",
    "score": "turning.naive",
    "score_from_distance": "turning.naive",
    "tables": "turning.naive",
    "verify": "gate",
}
__all__ = [
    "Finding",
    "Ladders",
    "Layer",
    "Model",
    "Pairs",
    "QueryScale",
    "Rope",
    "RopewalkError",
    "Sections",
    "Single",
    "Strided",
    "__version__",
    "check",
    "compare",
    "export",
    "extend",
    "inspect",
    "preset_names",
    "read",
    "rotate",
    "rotate_qk",
    "score",
    "score_from_distance",
    "tables",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
