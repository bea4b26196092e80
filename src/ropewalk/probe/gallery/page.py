"""The gallery as a table in Markdown, for docs/gallery.md."""

from collections.abc import Mapping

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


def _parameters(one: Exhibit) -> str:
    shown = [f"{name} {_value(value)}" for name, value in one.parameters.items()]
    asked = {name: value for name, value in one.options.items() if name in ("layout", "dtype", "backend")}
    return ", ".join(shown + [f"{name} {value}" for name, value in asked.items()])


def _value(value: object) -> str:
    if isinstance(value, tuple) and len(value) > 4:
        return f"{value[0]:g} … {value[-1]:g}"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
