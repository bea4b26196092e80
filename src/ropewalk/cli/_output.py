"""The one output sink: tables for people, one JSON document for programs."""

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from ..findings import Finding

STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def console() -> "Console":
    """Give the console for stdout; where the output is no terminal, lines are wide enough for every table."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=False, emoji=False)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_findings(out: "Console", findings: "tuple[Finding, ...]") -> None:
    """Print findings, errors first, with what was seen and what is right."""
    from rich.text import Text

    if not findings:
        out.print("No findings.")
        return
    order = list(STYLES)
    for finding in sorted(findings, key=lambda finding: order.index(finding.severity)):
        line = Text(f"{finding.severity} {finding.code} {finding.name}", style=STYLES[finding.severity])
        out.print(line + Text(f"  {finding.where}", style="default"))
        out.print(Text(f"    {finding.message}"))


def exit_code(findings: "tuple[Finding, ...]", *, strict: bool = False) -> int:
    """Give 1 for an error finding (with strict, for a warning too), else 0."""
    bad = {"error", "warning"} if strict else {"error"}
    return int(any(finding.severity in bad for finding in findings))
