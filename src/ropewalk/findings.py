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
    "key-repeated": ("RW146", "warning"),
    "form-outside-scope": ("RW160", "error"),
    "scaling-implied": ("RW161", "warning"),
    "ramp-inverted": ("RW162", "warning"),
    "indexer-pairing": ("RW163", "note"),
    "mlx-pairing": ("RW164", "warning"),
    "number-as-text": ("RW150", "note"),
    "null-absent": ("RW151", "note"),
    "old-spelling": ("RW152", "note"),
    "class-default": ("RW153", "note"),
    "theta-one": ("RW154", "note"),
    "layers-unknown": ("RW155", "note"),
    "remote-code": ("RW156", "note"),
    "positions-unknown": ("RW157", "note"),
    "architecture-by-class": ("RW158", "note"),
    "pairing-differs": ("RW301", "error"),
    "width-differs": ("RW302", "error"),
    "axis-differs": ("RW303", "error"),
    "direction-differs": ("RW304", "error"),
    "frequency-differs": ("RW305", "error"),
    "magnitude-differs": ("RW306", "error"),
    "rope-absent": ("RW307", "error"),
    "part-missing": ("RW308", "error"),
    "layer-rule": ("RW309", "error"),
    "measured-otherwise": ("RW310", "error"),
    "layer-plan": ("RW320", "warning"),
    "measured-roughly": ("RW321", "warning"),
    "length-differs": ("RW350", "note"),
    "description-differs": ("RW351", "note"),
    "layer-count": ("RW352", "note"),
    "measured": ("RW353", "note"),
}

# RW17x and RW18x come from files that are no configuration object: GGUF, checkpoints, graphs, tables.
FILE_KINDS: dict[str, tuple[str, str]] = {
    "gguf-key-missing": ("RW170", "warning"),
    "gguf-scale-lost": ("RW171", "warning"),
    "gguf-ext-factor": ("RW172", "warning"),
    "gguf-log-multiplier": ("RW173", "warning"),
    "gguf-engine": ("RW174", "warning"),
    "gguf-parts": ("RW175", "warning"),
    "stored-frequencies": ("RW176", "warning"),
    "gguf-table": ("RW177", "note"),
    "frequencies-fitted": ("RW178", "note"),
    "gguf-plan": ("RW179", "note"),
    "pairing-open": ("RW180", "warning"),
    "table-kept": ("RW181", "note"),
}

# RW2xx come from `ropewalk check`: what a function does. The first 48 are the faults of the gallery, in its order.
CHECK_KINDS: dict[str, tuple[str, str]] = {
    "interleaved-for-half": ("RW201", "error"),
    "hybrid-repeat": ("RW202", "error"),
    "hybrid-tile": ("RW203", "error"),
    "conjugate": ("RW204", "error"),
    "tables-as-angles": ("RW205", "error"),
    "cos-sin-swapped": ("RW206", "error"),
    "partner-of-full-head": ("RW207", "error"),
    "leading-for-tail": ("RW208", "error"),
    "full-for-partial": ("RW209", "error"),
    "partial-twice": ("RW210", "error"),
    "proportional-for-ordinary": ("RW211", "error"),
    "exponent-over-head": ("RW212", "error"),
    "exponent-without-2": ("RW213", "error"),
    "wrong-theta": ("RW214", "error"),
    "unscaled": ("RW215", "error"),
    "factor-pinned": ("RW216", "error"),
    "llama3-precedence": ("RW217", "error"),
    "llama3-ramp-in-wavelength": ("RW218", "error"),
    "yarn-rounded": ("RW219", "error"),
    "yarn-clamp-half": ("RW220", "error"),
    "yarn-ramp-inverted": ("RW221", "error"),
    "yarn-factor-in-power": ("RW222", "error"),
    "yarn-ntk-base": ("RW223", "error"),
    "magnitude-missing": ("RW224", "error"),
    "magnitude-twice": ("RW225", "error"),
    "dynamic-frozen": ("RW226", "error"),
    "dynamic-sticky": ("RW227", "error"),
    "longrope-long-always": ("RW228", "error"),
    "longrope-off-by-one": ("RW229", "error"),
    "ids-ignored": ("RW230", "error"),
    "stale-table": ("RW231", "error"),
    "head-axis": ("RW232", "error"),
    "row-0-only": ("RW233", "error"),
    "double-rotation": ("RW234", "error"),
    "identity": ("RW235", "error"),
    "window-constant": ("RW236", "error"),
    "table-end-clamped": ("RW237", "error"),
    "first-head-only": ("RW238", "error"),
    "bf16-frequencies": ("RW239", "error"),
    "bf16-positions": ("RW240", "error"),
    "fp16-angles": ("RW241", "error"),
    "tf32-product": ("RW242", "error"),
    "sine-unreduced": ("RW243", "error"),
    "mrope-chunked": ("RW244", "error"),
    "axes-swapped": ("RW245", "error"),
    "input-mutated": ("RW246", "error"),
    "float32-out": ("RW247", "error"),
    "gradient-wrong": ("RW248", "error"),
    "raised": ("RW250", "error"),
    "hang": ("RW251", "error"),
    "shape": ("RW252", "error"),
    "type": ("RW253", "error"),
    "device": ("RW254", "error"),
    "not-finite": ("RW255", "error"),
    "random": ("RW256", "error"),
    "keeps-state": ("RW257", "error"),
    "nonlinear": ("RW258", "error"),
    "not-a-rotation": ("RW259", "error"),
    "reflection": ("RW260", "error"),
    "pairs-differ": ("RW261", "error"),
    "frequencies-differ": ("RW262", "error"),
    "magnitude-wrong": ("RW263", "error"),
    "positions-misread": ("RW264", "error"),
    "heads-differ": ("RW265", "error"),
    "length-rule": ("RW266", "error"),
    "precision": ("RW267", "error"),
    "dtype": ("RW270", "warning"),
    "autocast": ("RW271", "warning"),
    "output-order": ("RW280", "note"),
    "offset": ("RW281", "note"),
    "one-speed": ("RW282", "note"),
    "rounded-tables": ("RW283", "note"),
    "own-convention": ("RW284", "note"),
    "table-end": ("RW285", "note"),
    "negative-ids": ("RW286", "note"),
    "length-of-rows": ("RW287", "note"),
    "no-rope": ("RW288", "note"),
    "precision-notable": ("RW290", "note"),
    "state-cast": ("RW291", "note"),
    "two-tables": ("RW292", "note"),
    "stepwise-differs": ("RW293", "error"),
    "padding-shifts-positions": ("RW294", "error"),
    "rows-share-positions": ("RW295", "error"),
    "merged-cache-differs": ("RW296", "error"),
    "eviction-breaks-distances": ("RW297", "error"),
    "state-leaks": ("RW298", "error"),
    "cached-keys-keep-table": ("RW299", "warning"),
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
        code, severity = next(kinds[name] for kinds in (KINDS, FILE_KINDS, CHECK_KINDS) if name in kinds)
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
