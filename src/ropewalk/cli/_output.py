"""The one output sink: words and tables for people, one JSON document for programs."""

import json
import os
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..findings import Finding

STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
WIDE = 120  # columns where the output is no terminal
WIDEST_LABEL = 24


def console() -> "Console":
    """Give the console for stdout, as wide as the terminal, or as COLUMNS says."""
    from rich.console import Console

    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if told else WIDE, highlight=False, emoji=False)


@contextmanager
def foreign_output() -> Iterator[None]:
    """Send what foreign code prints to stderr, whichever way it does: it must not end up in the document.

    Code that never came back goes on printing, and so stdout stays the main thread's from then on.
    """
    out, threads = sys.stdout, set(threading.enumerate())
    out.flush()
    try:
        here, there = sys.__stdout__.fileno(), sys.__stderr__.fileno()  # type: ignore[union-attr]
        kept = os.dup(here)
    except (AttributeError, OSError, ValueError):  # closed, or not of this process
        here = there = kept = -1
    try:
        if kept >= 0:
            os.dup2(there, here)  # os.write and code that is not Python write there
        with redirect_stdout(sys.stderr):
            yield
    finally:
        lost = not threads.issuperset(threading.enumerate())
        if kept >= 0 and not (lost and out is sys.__stdout__):
            os.dup2(kept, here)
            os.close(kept)
        elif kept >= 0:
            out = os.fdopen(kept, "w", encoding=out.encoding, errors=out.errors)
        if lost:
            sys.stdout = _MainThreads(out)  # type: ignore[assignment]


class _MainThreads:
    """A stream that takes the words of the main thread, and gives those of others to stderr."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, words: Any) -> int:
        """Write on, here or there."""
        here = threading.current_thread() is threading.main_thread()
        return (self._stream if here else sys.stderr).write(words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def clean(words: str) -> str:
    """Write what a terminal would obey, and what it could not show, as escapes: a file's words may hold anything."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in words
    )


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=2, allow_nan=False)
    click.echo(text)


def print_words(out: "Console", words: str, *, indent: int = 0, hang: int = 0, style: str = "") -> None:
    """Print a paragraph, later lines indented by hang more; a word longer than a line is left whole."""
    from rich.text import Text

    lines = textwrap.wrap(
        clean(words),
        width=max(out.width, indent + hang + 20),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hang),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        out.print(Text(line, style=style), soft_wrap=True)


def print_fields(out: "Console", rows: Iterable[tuple[str, str]], *, indent: int) -> None:
    """Print labels and values in two columns; a value that does not fit beside its label goes under it."""
    rows = list(rows)
    labels = max((len(label) for label, _ in rows if len(label) <= WIDEST_LABEL), default=0)
    for label, value in rows:
        column = indent + max(labels, len(label)) + 2
        if " " not in value and column + len(value) > out.width:
            print_words(out, label, indent=indent)
            print_words(out, value, indent=indent + 4)
        else:
            print_words(out, f"{label:<{labels}}  {value}", indent=indent, hang=column - indent)


def print_table(
    out: "Console", columns: Sequence[str], rows: "Iterable[Sequence[str | Text]]", *, left: Sequence[str]
) -> None:
    """Print a table, numbers to the right and the columns named in left to the left.

    Not rich's Table, which cuts cells where the terminal is narrow: here the line is longer than the terminal.
    """
    from rich.text import Text

    lines = [[Text(name, "bold") for name in columns]]
    lines += [[cell if isinstance(cell, Text) else Text(clean(cell)) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        for cell, width, name in zip(line, widths, columns, strict=True):
            cell.align("left" if name in left else "right", width)
        joined = Text("  ").join(line)
        joined.rstrip()
        out.print(joined, soft_wrap=True)


def print_findings(out: "Console", findings: "tuple[Finding, ...]") -> None:
    """Print findings, errors first, with what was seen and what is right."""
    if not findings:
        out.print("No findings.")
        return
    counts = Counter(finding.severity for finding in findings)
    listed = ", ".join(f"{counts[name]} {name}{'s' * (counts[name] > 1)}" for name in STYLES if counts[name])
    out.print(f"[bold]Findings[/bold]: {listed}")
    order = list(STYLES)
    for finding in sorted(findings, key=lambda finding: order.index(finding.severity)):
        head = f"{finding.severity} {finding.code} {finding.name}, {finding.where}"
        print_words(out, head, indent=2, hang=2, style=STYLES[finding.severity])
        print_words(out, finding.message, indent=4)
        if finding.severity != "note":
            print_words(out, f"seen: {finding.seen}; right: {finding.right}", indent=4)


def exit_code(findings: "tuple[Finding, ...]", *, strict: bool = False) -> int:
    """Give 1 for an error finding (with strict, for a warning too), else 0."""
    bad = {"error", "warning"} if strict else {"error"}
    return int(any(finding.severity in bad for finding in findings))
