"""How `ropewalk check` shows its reports and the gallery to people."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rich.console import Console

    from ..pairs import Pairs
    from ..probe.report import Report
    from ..rope import Rope

FIRST_ROWS = 8
COLUMNS = ("pair", "dims", "axis", "θ_i (rad/position)", "turns in", "expected θ_i", "off by")


def print_report(out: "Console", name: str, note: str, report: "Report", meant: "Rope | None") -> None:
    """Print what was recovered, what it is, and the findings."""
    from ._output import print_fields, print_findings, print_table, print_words

    verdict = "no error" if report.ok else "an error"
    print_words(out, f"{name}: {verdict}", hang=2, style="bold green" if report.ok else "bold red")
    print_fields(out, _facts(note, report, meant), indent=2)
    if report.pairs is not None and len(report.pairs.first):
        expected = _expected(meant)
        out.print()
        columns = COLUMNS if expected is not None else COLUMNS[:5]
        print_table(out, columns, list(_rows(report.pairs, expected)), left=("dims", "axis"))
    out.print()
    print_findings(out, report.findings)


def _facts(note: str, report: "Report", meant: "Rope | None") -> Iterator[tuple[str, str]]:
    if note:
        yield "asked as", note
    if meant is not None:
        yield "expected", rope_words(meant)
    pairs = report.pairs
    if pairs is not None:
        turning = int(np.count_nonzero(pairs.inv_freq))
        yield "recovered", f"{len(pairs.first)} pairs, {turning} turning, cos and sin × {pairs.cos_sin_factor:.6g}"
    if report.explanation is not None:
        yield "that is", rope_words(report.explanation)
    elif report.kind:
        yield "that is", report.summary().partition(": ")[2]
    if report.recipe and report.explanation is not None and not report.ok:
        yield "in words", report.recipe
    if report.output_order is not None:
        yield "output order", f"channels {', '.join(map(str, report.output_order[:6]))} … of the rope's, in this order"
    for name, grade in {"": report.precision, **report.conditions}.items():
        words = getattr(grade, "words", "")
        if words:
            yield (f"precision, {name}" if name else "precision"), words
    if pairs is not None:
        yield "residual", f"{report.residual:.2g}, the largest deviation from these pairs on other vectors"
    if report.limit:
        yield "asked up to", report.limit
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


def _expected(meant: "Rope | None") -> dict[tuple[int, int], float] | None:
    """Give the expected frequencies by channels, or None."""
    if meant is None:
        return None
    pairs = meant.pairs()
    channels = zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    return dict(zip(channels, pairs.inv_freq.tolist(), strict=True))


def _rows(pairs: "Pairs", expected: dict[tuple[int, int], float] | None) -> Iterator[tuple[str, ...]]:
    count = len(pairs.first)
    shown = range(count) if count <= FIRST_ROWS + 2 else [*range(FIRST_ROWS), None, count - 1]
    for number in shown:
        if number is None:
            yield ("…", f"{count - FIRST_ROWS - 1} more", *[""] * (3 if expected is None else 5))
            continue
        channels, speed = (int(pairs.first[number]), int(pairs.second[number])), float(pairs.inv_freq[number])
        row = [str(number), f"{channels[0]}, {channels[1]}", str(int(pairs.axis[number]))]
        row += [f"{speed:.8g}" if speed else "still", f"{2 * np.pi / abs(speed):.6g}" if speed else "∞"]
        if expected is not None:
            right = expected.get(channels)
            row.append("-" if right is None else f"{right:.8g}")
            row.append(f"{(speed - right) / right:+.1e}" if right else "-")
        yield tuple(row)


def looked_at(exhibit: Any) -> dict[str, Any]:
    """Check one exhibit of the gallery; say what was found and whether that is what it is there for."""
    from ..probe.checking import check

    report = check(exhibit.make(), expect=exhibit.expect, **exhibit.options)
    faults = [finding.name for finding in report.findings if finding.severity != "note"]
    notes = [finding.name for finding in report.findings if finding.severity == "note"]
    as_meant = _as_meant(exhibit.slug, exhibit.also, faults)
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


def _as_meant(slug: str | None, also: tuple[str, ...], faults: list[str]) -> bool:
    """Say whether the names of the faults are those that an exhibit is there for; "any" has no name of its own."""
    if slug is None:
        return not faults
    return bool(faults) and all(one in faults for one in (slug, *also) if one != "any")


def print_gallery(rows: list[dict[str, Any]], *, whole: bool) -> None:
    """Print the gallery as a table, and, asked for some of it, the code and the report of each."""
    from ._output import console, print_table, print_words

    out = console()
    if whole:
        for row in rows:
            out.print(f"[bold]{row['id']}[/bold]")
            out.print(row["exhibit"].source, markup=False, highlight=False, soft_wrap=True)
            print_report(out, row["title"], "", row["report"], row["exhibit"].expect)
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
