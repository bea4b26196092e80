"""What a check of a decoder found, as plain data and as a small page."""

from dataclasses import dataclass
from html import escape
from typing import Any

from ..findings import Finding
from .report import _plain, counts_of, faults_words, findings_table

SCHEMA = "ropewalk.decoder/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderReport:
    """The verdicts on one decoder, with what they rest on.

    Attributes:
        findings: errors first, then warnings, then notes.
        evidence: one piece for each question asked; detail["question"] says which.
        left: (question, reason) of what was not asked.
        dtype: what the decoder computes in.
        room: the largest gap, relative to the outputs, that was taken for rounding.
        calls: of prefill, step and the hooks.
        seconds: spent in them.
    """

    findings: tuple[Finding, ...]
    evidence: tuple[Any, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    dtype: str = ""
    room: float = 0.0
    calls: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether there is no error among the findings."""
        return all(finding.severity != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain values for JSON.

        >>> DecoderReport(findings=()).to_dict()["schema"]
        'ropewalk.decoder/1'
        """
        return {
            "schema": SCHEMA,
            "ok": self.ok,
            "findings": [finding.to_dict() for finding in self.findings],
            "evidence": [_plain(one) for one in self.evidence],
            "left": [{"name": name, "reason": reason} for name, reason in self.left],
            "dtype": self.dtype,
            "room": self.room,
            "calls": self.calls,
            "seconds": round(self.seconds, 3),
        }

    def counts(self) -> dict[str, int]:
        """Give how many findings of each severity there are."""
        return counts_of(self.findings)

    def summary(self) -> str:
        """Say in one line how many questions agreed.

        >>> DecoderReport(findings=()).summary()
        'no fault found: 0 of 0 questions agree'
        """
        good = sum(one.ok for one in self.evidence)
        return f"{faults_words(self.findings)}: {good} of {len(self.evidence)} questions agree"

    def _repr_html_(self) -> str:
        left = "".join(f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in self.left)
        foot = f"<p>not asked:</p><ul>{left}</ul>" if left else ""
        return (
            f"<div><p><b>{escape(self.summary())}</b></p>{findings_table(self.findings, places=True)}{foot}"
            f"<p><small>{self.calls} calls, {self.seconds:.2f} s</small></p></div>"
        )
