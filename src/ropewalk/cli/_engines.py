"""How engines read a configuration, printed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..engines import EngineGroup, EngineReading, Engines

COLUMNS = ("engine", "version", "verdict", "cos and sin ×", "softmax ×", "pair", "θ_i")
VERIFIED = {"run": "rule checked by running the engine's own code", "read": "rule read from the source only"}


def print_engines(out: "Console", engines: "Engines") -> None:
    """Print every rope of a configuration as each engine reads it."""
    from ._output import print_fields, print_words

    print_words(out, f"Engines reading {engines.target}", hang=2, style="bold")
    for group in engines.groups:
        _print_group(out, group)
    rows = [
        (one.engine, f"{one.version}: {', '.join(one.files)} ({VERIFIED[one.verified]})")
        for one in engines.groups[0].readings
    ]
    print_words(out, "Where each rule was read", style="bold")
    print_fields(out, rows, indent=2)
    refused = sum(one.refused is not None for group in engines.groups for one in group.readings)
    words = "Every engine that loads it turns alike." if engines.equal else "The engines differ."
    if refused:
        words += f" {refused} do{'es' if refused == 1 else ''} not load it."
    print_words(out, words, style="bold green" if engines.equal else "bold red")


def _print_group(out: "Console", group: "EngineGroup") -> None:
    from ._output import print_fields, print_table, print_words

    print_words(out, f"{group.place} (compared with {group.reference})", indent=2, style="bold")
    print_table(out, COLUMNS, map(_cells, group.readings), left=("engine", "version", "verdict"))
    out.print()
    print_fields(out, _said(group), indent=2)
    out.print()


def _cells(reading: "EngineReading") -> "list[str | Text]":
    from rich.text import Text

    from ..inspection import number_words

    verdict, style = ("refuses", "yellow") if reading.refused is not None else ("same", "green")
    if reading.differs:
        verdict, style = "differs", "bold red"
    elif reading.refused is None and reading.result is None:
        verdict = "reference"
    if reading.pairs is None:
        return [reading.engine, reading.version.partition(",")[0], Text(verdict, style), "-", "-", "-", "-"]
    row = reading.result.first if reading.result is not None else None
    turn = row.b if row is not None else None
    return [
        reading.engine,
        reading.version.partition(",")[0],
        Text(verdict, style),
        number_words(reading.pairs.cos_sin_factor),
        number_words(reading.pairs.softmax_factor),
        "-" if row is None else str(row.pair),
        "-" if turn is None else f"{turn.inv_freq:.8g}",
    ]


def _said(group: "EngineGroup") -> Iterator[tuple[str, str]]:
    """Give what each engine does otherwise, and what it does not read."""
    for reading in group.readings:
        words = [reading.words] if reading.differs or reading.refused is not None else []
        if reading.differs and reading.result is not None:
            far = [f"{abs(one.wrapped).max():.3g} at {one.distance}" for one in reading.result.angles]
            if any(one.unwrapped.any() for one in reading.result.angles):
                words.append(f"angles off by up to {', '.join(far)} tokens (rad)")
        words += reading.notes
        if words:
            yield reading.engine, "; ".join(words)
