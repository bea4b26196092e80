"""The gallery as a table in Markdown, for docs/gallery.md."""

from collections.abc import Mapping

from ...errors import RopewalkError
from ..report import Report
from .exhibit import Exhibit
from .rooms import exhibits


def table(verdicts: Mapping[str, str] | None = None) -> str:
    """Give a Markdown table with one line an exhibit, the extras last.

    Args:
        verdicts: what a check said, by exhibit id; None leaves the column empty.
    """
    told = verdicts or {}
    lines = ["| id | fault | what it does | parameters | verdict |", "| --- | --- | --- | --- | --- |"]
    for one in exhibits(extra=True):
        cells = (one.id, one.slug or "—", one.title, _parameters(one), told.get(one.id, ""))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def verdict(report: Report) -> str:
    """Say in one cell what a check found: each finding's severity, name and what was seen, then how exact angles are.

    >>> verdict(Report(findings=()))
    'no finding'
    """
    said = [f"{one.severity} {one.name}: {one.seen}" for one in report.findings] or ["no finding"]
    grade = report.precision
    if grade is not None:
        off = "" if grade.grade == "exact" else f", off by up to {grade.worst:.2g} rad"
        said.append(f"angles {grade.grade}{off}")
    return "; ".join(said).replace("\n", " ")


def rewritten(page: str, verdicts: Mapping[str, str]) -> str:
    """Give the page with its table made anew.

    Args:
        page: the text of docs/gallery.md.
        verdicts: what a check said, by exhibit id.

    Raises:
        RopewalkError: for a page without the table.
    """
    lines = page.splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if line.startswith("| ")]
    if not rows or not lines[rows[0]].startswith("| id | fault |"):
        raise RopewalkError("the page has no table that begins with | id | fault |. Give docs/gallery.md.")
    return "".join([*lines[: rows[0]], table(verdicts), *lines[rows[-1] + 1 :]])


def _parameters(one: Exhibit) -> str:
    shown = [f"{name} {_value(value)}" for name, value in one.parameters.items()]
    asked = {name: value for name, value in one.options.items() if name in ("layout", "dtype", "backend")}
    return ", ".join(shown + [f"{name} {value}" for name, value in asked.items()])


def _value(value: object) -> str:
    if isinstance(value, tuple) and len(value) > 4:
        return f"{value[0]:g} … {value[-1]:g}"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
