"""How `ropewalk check` shows its reports and the gallery to people."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rich.console import Console

FIRST_ROWS = 8
COLUMNS = ("pair", "dims", "axis", "θ_i (rad/position)", "turns in", "expected θ_i", "off by")


def print_report(out: "Console", name: str, note: str, report: Any) -> None:
    """Print what was recovered, what it is, and the findings."""
    from ._output import print_fields, print_findings, print_table, print_words

    verdict = "no error" if report.ok else "an error"
    print_words(out, f"{name}: {verdict}", hang=2, style="bold green" if report.ok else "bold red")
    print_fields(out, _facts(note, report), indent=2)
    if report.pairs is not None and len(report.pairs.first):
        out.print()
        print_table(out, _columns(report), list(_rows(report)), left=("dims", "axis"))
    out.print()
    print_findings(out, report.findings)


def _facts(note: str, report: Any) -> Iterator[tuple[str, str]]:
    if note:
        yield "asked as", note
    pairs = report.pairs
    if pairs is not None:
        turning = int(np.count_nonzero(pairs.inv_freq))
        yield "recovered", f"{len(pairs.first)} pairs, {turning} turning, cos and sin × {pairs.cos_sin_factor:.6g}"
    if report.explanation is not None:
        yield "that is", rope_words(report.explanation)
    elif pairs is not None:
        yield "that is", "a table of its own: no description known here gives these frequencies"
    if report.output_order is not None:
        yield "output order", f"channel j of the output holds channel {list(report.output_order)[:6]}… of the rope's"
    if report.precision is not None:
        yield "precision", getattr(report.precision, "words", None) or str(report.precision)
    if report.residual is not None:
        yield "residual", f"{report.residual:.2g}: the largest deviation from these pairs on other vectors"
    yield "cost", f"{report.calls} calls, {report.seconds:.2f} s in them"


def rope_words(rope: Any) -> str:
    """Write a rope in one line."""
    from ..inspection import number_words

    words = [f"θ {number_words(rope.rope_theta)}", rope.pairing, f"{rope.width} of {rope.head_dim} channels"]
    if rope.rotary_start:
        words.append(f"from channel {rope.rotary_start}")
    if rope.direction < 0:
        words.append("direction -1")
    scaling = rope.to_dict()["scaling"]
    if scaling["rope_type"] != "default":
        told = ", ".join(
            f"{key} {number_words(value)}"
            for key, value in scaling.items()
            if key != "rope_type" and isinstance(value, int | float) and not isinstance(value, bool)
        )
        words.append(f"{scaling['rope_type']} ({told})" if told else scaling["rope_type"])
    if rope.axes.num_axes > 1:
        words.append(f"{rope.axes.num_axes} axes ({rope.axes.kind})")
    return ", ".join(words)


def _columns(report: Any) -> tuple[str, ...]:
    return COLUMNS if _expected(report) is not None else COLUMNS[:5]


def _expected(report: Any) -> Any:
    """Give the pairs that were expected, by (first, second), or None."""
    rope = getattr(report, "expect", None)
    if rope is None:
        return None
    pairs = rope.pairs()
    return dict(zip(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True), pairs.inv_freq, strict=True))


def _rows(report: Any) -> Iterator[tuple[str, ...]]:
    pairs, expected = report.pairs, _expected(report)
    count = len(pairs.first)
    shown = range(count) if count <= FIRST_ROWS + 2 else [*range(FIRST_ROWS), None, count - 1]
    width = len(_columns(report))
    for number in shown:
        if number is None:
            yield ("…", f"{count - FIRST_ROWS - 1} more", *[""] * (width - 2))
            continue
        first, second, speed = int(pairs.first[number]), int(pairs.second[number]), float(pairs.inv_freq[number])
        row = [str(number), f"{first}, {second}", str(int(pairs.axis[number]))]
        row += [f"{speed:.8g}" if speed else "still", f"{2 * np.pi / abs(speed):.6g}" if speed else "∞"]
        if expected is not None:
            right = expected.get((first, second))
            row.append("-" if right is None else f"{right:.8g}")
            row.append("-" if right is None or right == 0 else f"{(speed - right) / right:+.1e}")
        yield tuple(row)


def looked_at(exhibit: Any) -> dict[str, Any]:
    """Check one exhibit of the gallery; say what was found and whether that is what it is there for."""
    from ..probe.checking import check

    report = check(exhibit.make(), expect=exhibit.expect, **exhibit.options)
    faults = [finding.name for finding in report.findings if finding.severity != "note"]
    notes = [finding.name for finding in report.findings if finding.severity == "note"]
    as_meant = exhibit.slug in faults if exhibit.slug else not faults
    return {
        "id": exhibit.id,
        "slug": exhibit.slug,
        "title": exhibit.title,
        "found": faults,
        "notes": notes,
        "as_meant": as_meant,
        "seconds": round(report.seconds, 3),
        "exhibit": exhibit,
        "report": report,
    }


def print_gallery(rows: list[dict[str, Any]], *, whole: bool) -> None:
    """Print the gallery as a table, and, asked for some of it, the code and the report of each."""
    from ._output import console, print_table, print_words

    out = console()
    if whole:
        for row in rows:
            out.print(f"[bold]{row['id']}[/bold]")
            out.print(row["exhibit"].source, markup=False, highlight=False, soft_wrap=True)
            print_report(out, row["title"], "", row["report"])
            out.print()
    lines = [
        (
            row["id"],
            "yes" if row["as_meant"] else "NO",
            row["slug"] or "nothing",
            ", ".join(row["found"]) or "nothing",
            ", ".join(row["notes"]),
            row["title"],
        )
        for row in rows
    ]
    columns = ("id", "as meant", "there for", "found", "notes", "what it does")
    print_table(out, columns, lines, left=columns)
    good = sum(row["as_meant"] for row in rows)
    print_words(out, f"{good} of {len(rows)} as meant.", style="bold")
