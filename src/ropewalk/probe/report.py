"""What a check found, as plain data and as a small page."""

import math
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ..findings import SEVERITIES, Finding
from ..pairs import Pairs
from ..rope import Rope

SCHEMA = "ropewalk.check/1"
_COLORS = {"error": "#b3261e", "warning": "#8a5a00", "note": "#3b5b8c"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The verdicts on one function, with what they rest on.

    Attributes:
        findings: errors first, then warnings, then notes.
        pairs: the recovered table; None where there is none (a failure, an identity, no linear map).
        explanation: the best known description of the pairs, or None.
        recipe: the explanation in words, relative to what was expected.
        kind: "rotation", "identity", "reflection", "linear", "nonlinear", or "" where nothing could be asked.
        output_order: output channel j holds what channel output_order[j] would; None: the input's order.
        offset: the constant by which all positions are moved.
        precision: how exact the angles are, or None where that was not graded.
        conditions: the same of a torch module under autocast, cast to half precision …, by name.
        evidence: of the position battery.
        residual: the largest deviation of the function from its pairs, over the largest number given.
        limit: what stopped the search for larger positions, in words; "" where nothing did.
        calls: how often the function was called.
        seconds: spent in the function.
    """

    findings: tuple[Finding, ...]
    pairs: Pairs | None = None
    explanation: Rope | None = None
    recipe: str = ""
    kind: str = ""
    output_order: tuple[int, ...] | None = None
    offset: float = 0.0
    precision: Any = None
    conditions: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[Any, ...] = ()
    residual: float = 0.0
    limit: str = ""
    calls: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether there is no error among the findings."""
        return all(finding.severity != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain values for JSON.

        >>> Report(findings=(), kind="rotation").to_dict()["ok"]
        True
        """
        return {
            "schema": SCHEMA,
            "ok": self.ok,
            "kind": self.kind,
            "findings": [finding.to_dict() for finding in self.findings],
            "pairs": None if self.pairs is None else self.pairs.to_dict(),
            "explanation": None if self.explanation is None else self.explanation.to_dict(),
            "recipe": self.recipe,
            "output_order": None if self.output_order is None else list(self.output_order),
            "offset": self.offset,
            "precision": _plain(self.precision),
            "conditions": {name: _plain(one) for name, one in self.conditions.items()},
            "evidence": [_plain(one) for one in self.evidence],
            "residual": self.residual,
            "limit": self.limit,
            "calls": self.calls,
            "seconds": round(self.seconds, 3),
        }

    def counts(self) -> dict[str, int]:
        """Give how many findings of each severity there are."""
        return counts_of(self.findings)

    def summary(self) -> str:
        """Say in one line what the function is.

        >>> Report(findings=(), kind="identity").summary()
        'no fault found: turns nothing'
        """
        what = {"identity": "turns nothing", "": "nothing could be measured"}.get(self.kind, self.recipe or self.kind)
        return f"{faults_words(self.findings)}: {what}"

    def _repr_html_(self) -> str:
        foot = f"{self.calls} calls, {self.seconds:.2f} s"
        return (
            f"<div><p><b>{escape(self.summary())}</b></p>{findings_table(self.findings)}{self._html_pairs()}"
            f"<p><small>{foot}</small></p></div>"
        )

    def _html_pairs(self) -> str:
        if self.pairs is None:
            return ""
        pairs = self.pairs
        rows = "".join(
            f"<tr><td>{i}</td><td>({pairs.first[i]}, {pairs.second[i]})</td><td>{pairs.axis[i]}</td>"
            f"<td>{pairs.inv_freq[i]:.9g}</td></tr>"
            for i in range(len(pairs))
        )
        return (
            f"<details><summary>{len(pairs)} pairs, cos and sin times {pairs.cos_sin_factor:.7g}</summary><table>"
            f"<tr><th>pair</th><th>channels</th><th>axis</th><th>radians a position</th></tr>{rows}</table></details>"
        )


def counts_of(findings: tuple[Finding, ...]) -> dict[str, int]:
    """Give how many findings of each severity there are."""
    return {one: sum(finding.severity == one for finding in findings) for one in SEVERITIES}


def faults_words(findings: tuple[Finding, ...]) -> str:
    """Say how many errors and warnings there are; notes are no faults."""
    counts = [f"{n} {name}{'s' * (n != 1)}" for name, n in counts_of(findings).items() if n and name != "note"]
    return ", ".join(counts) or "no fault found"


def findings_table(findings: tuple[Finding, ...], *, places: bool = False) -> str:
    """Write findings as a table of HTML, with where they are where that differs."""
    rows = "".join(
        f"<tr><td><b style='color:{_COLORS[one.severity]}'>{one.severity}</b></td><td>{one.code} "
        f"<code>{escape(one.name)}</code></td><td>{escape(f'{one.where}: ' if places else '')}{escape(one.seen)}<br>"
        f"<small>right: {escape(one.right)}</small></td><td>{escape(one.message)}</td></tr>"
        for one in findings
    )
    head = "<tr><th>severity</th><th>finding</th><th>seen</th><th>what it means</th></tr>" if rows else ""
    return f"<table>{head}{rows}</table>"


def _plain(value: Any) -> Any:
    """Give whatever a report holds as values that JSON has."""
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool) or value is None else str(value)
