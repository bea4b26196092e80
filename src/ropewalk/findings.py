"""What ropewalk has to say about an input: stable codes, each with a severity and a section in docs/findings.md."""

from dataclasses import dataclass
from typing import Any

from ._checks import fields_from_dict, fields_to_dict
from .errors import RopewalkError

SEVERITIES = ("error", "warning", "note")

# name: (code, severity). RW1xx come from configurations, RW3xx from comparisons. A retired code is not used again.
KINDS: dict[str, tuple[str, str]] = {
    "rope-type-unknown": ("RW101", "error"),
    "rope-type-conflict": ("RW102", "error"),
    "theta-default": ("RW103", "warning"),
    "theta-missing": ("RW104", "error"),
    "key-missing": ("RW105", "error"),
    "list-length": ("RW106", "error"),
    "width-odd": ("RW107", "error"),
    "sections-sum": ("RW108", "error"),
    "betas-swapped": ("RW109", "error"),
    "value-unusable": ("RW110", "error"),
    "width-missing": ("RW111", "error"),
    "scaling-impossible": ("RW112", "error"),
    "width-too-large": ("RW113", "error"),
    "layers-conflict": ("RW114", "error"),
    "factor-ratio": ("RW120", "warning"),
    "original-length-default": ("RW121", "warning"),
    "original-length-conflict": ("RW122", "warning"),
    "sections-realised": ("RW123", "warning"),
    "key-unused": ("RW124", "warning"),
    "attn-factor": ("RW125", "warning"),
    "mscale-inert": ("RW126", "warning"),
    "dynamic-cached-keys": ("RW127", "warning"),
    "longrope-switch": ("RW128", "warning"),
    "engines-truncate": ("RW129", "warning"),
    "engines-mscale": ("RW130", "warning"),
    "engines-dynamic": ("RW131", "warning"),
    "engines-partial": ("RW132", "warning"),
    "theta-conflict": ("RW133", "warning"),
    "blocks-conflict": ("RW134", "warning"),
    "architecture-unknown": ("RW135", "warning"),
    "rope-layers-few": ("RW136", "warning"),
    "dynamic-factor-one": ("RW137", "warning"),
    "width-conflict": ("RW138", "warning"),
    "engines-ntk": ("RW139", "warning"),
    "engines-longrope": ("RW140", "warning"),
    "engines-attention-factor": ("RW141", "warning"),
    "map-outside-scope": ("RW142", "warning"),
    "factor-below-one": ("RW143", "warning"),
    "ramp-empty": ("RW144", "warning"),
    "engines-extrapolation": ("RW145", "warning"),
    "number-as-text": ("RW150", "note"),
    "null-absent": ("RW151", "note"),
    "old-spelling": ("RW152", "note"),
    "class-default": ("RW153", "note"),
    "theta-one": ("RW154", "note"),
    "layers-unknown": ("RW155", "note"),
    "remote-code": ("RW156", "note"),
    "positions-unknown": ("RW157", "note"),
    "pairing-differs": ("RW301", "error"),
    "width-differs": ("RW302", "error"),
    "axis-differs": ("RW303", "error"),
    "direction-differs": ("RW304", "error"),
    "frequency-differs": ("RW305", "error"),
    "magnitude-differs": ("RW306", "error"),
    "rope-absent": ("RW307", "error"),
    "part-missing": ("RW308", "error"),
    "layer-rule": ("RW309", "error"),
    "layer-plan": ("RW320", "warning"),
    "length-differs": ("RW350", "note"),
    "description-differs": ("RW351", "note"),
    "layer-count": ("RW352", "note"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a user should know, with everything needed to act on it.

    Attributes:
        code: stable, "RW104".
        name: the code in words, "theta-missing".
        severity: "error", "warning" or "note".
        where: the part and key that caused it, "text: rope_scaling.factor".
        seen: what was found there.
        right: what is right, or what was taken.
        message: a sentence that a user understands.
    """

    code: str
    name: str
    severity: str
    where: str
    seen: str
    right: str
    message: str

    @classmethod
    def of(cls, name: str, *, where: str, seen: str, right: str, message: str) -> "Finding":
        """Make a finding of a known kind; its code and severity follow from the name."""
        code, severity = KINDS[name]
        return cls(code=code, name=name, severity=severity, where=where, seen=seen, right=right, message=message)

    def to_dict(self) -> dict[str, Any]:
        """Give the finding as plain values."""
        return fields_to_dict(self)

    @classmethod
    def from_dict(cls, data: object) -> "Finding":
        """Build a finding from what to_dict gives."""
        given = fields_from_dict(cls, data, "a finding")
        if not all(isinstance(value, str) for value in given.values()) or given["severity"] not in SEVERITIES:
            raise RopewalkError(f"a finding holds words only, and a severity of {', '.join(SEVERITIES)}.")
        return cls(**given)
