"""`ropewalk inspect`: what a configuration says about RoPE, and what is wrong with it."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from ..inspection import Inspection, PairRow, RopeView

FIRST_ROWS = 12


@click.command(
    "inspect",
    epilog="Examples: ropewalk inspect llama-3.1-8b --window 8192 | ropewalk inspect ./model --part vision --json",
)
@click.argument("target")
@click.option("--part", metavar="P", help="One part only: text, vision, audio …")
@click.option("--layer", type=int, metavar="N", help="One layer of the part, counted from 0.")
@click.option("--window", type=click.IntRange(1), metavar="N", help="Tokens to compare wavelengths with.")
@click.option(
    "--length", type=click.IntRange(1), metavar="L", help="Tokens in the sequence, for dynamic NTK and LongRoPE."
)
@click.option("--all-pairs", is_flag=True, help=f"Every pair, not the first {FIRST_ROWS} and the slowest.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
def command(
    target: str,
    part: str | None,
    layer: int | None,
    window: int | None,
    length: int | None,
    all_pairs: bool,
    as_json: bool,
    strict: bool,
) -> None:
    """Describe the RoPE of TARGET and say what is wrong with it.

    TARGET is a config.json, a directory that holds one, or the name of a preset; an existing path wins. Files are only
    read: code that they name is never run.
    """
    from ..inspection import inspect
    from ._output import console, exit_code, print_findings, print_json

    seen = inspect(target, part=part, layer=layer, window=window, length=length)
    if as_json:
        print_json(seen.to_dict())
    else:
        out = console()
        _print_model(out, seen, part)
        for view in seen.views:
            _print_view(out, view, all_pairs)
        _print_sources(out, seen, part)
        print_findings(out, seen.findings)
    raise SystemExit(exit_code(seen.findings, strict=strict))


def _print_model(out: "Console", seen: "Inspection", part: str | None) -> None:
    out.print(f"[bold]{_escaped(seen.model.target)}[/bold]  ({_escaped(seen.model.model_type or 'no model_type')})")
    for name, lines in seen.plan.items():
        if part in (None, name):
            for line in lines:
                out.print(f"  {name}: {_escaped(line)}")
    out.print()


def _print_view(out: "Console", view: "RopeView", all_pairs: bool) -> None:
    from rich.table import Table

    rope = view.rope
    out.print(f"[bold]RoPE[/bold] of {_escaped('; '.join(view.places))}")
    tail = f" from channel {rope.rotary_start}" if rope.rotary_start else ""
    out.print(
        f"  head_dim {rope.head_dim}, rotary_dim {rope.width}{tail}, θ {rope.rope_theta:g}, pairing {rope.pairing}"
        f"{', direction -1' if rope.direction < 0 else ''}, context {rope.max_position_embeddings or 'not stated'}"
    )
    out.print(f"  scaling {_escaped(_scaling_words(view))}")
    if rope.axes.kind != "single":
        out.print(f"  axes {_escaped(_axes_words(view))}")
    out.print(
        f"  magnitude: cos and sin × {view.pairs.cos_sin_factor:.9g}, softmax scale × {view.pairs.softmax_factor:.9g}"
    )
    if not view.pairs.is_rotation:
        out.print("  this map is no rotation: the two channels of a pair turn by different angles")
    columns = ("pair", "dims", "axis", "θ_i (rad/token)", "wavelength", "turns in window", "divisor")
    table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in table.columns:
        column.justify = "left" if column.header in ("dims", "axis") else "right"
        column.no_wrap = True
    rows = list(view.rows) if all_pairs else list(view.rows[:FIRST_ROWS])
    for row in rows:
        table.add_row(*_cells(row))
    left_out = len(view.rows) - len(rows)
    if left_out:
        table.add_row("…", f"{left_out} more", "", "", "", "", "")
    if view.slowest is not None and view.slowest not in rows:
        table.add_row(*_cells(view.slowest))
    out.print(table)
    out.print(f"  {_slowness(view)}")
    out.print()


def _cells(row: "PairRow") -> tuple[str, ...]:
    return (
        str(row.pair),
        f"{row.first}, {row.second}",
        row.axis,
        f"{row.inv_freq:.10g}" if row.inv_freq else "still",
        "∞" if row.wavelength is None else f"{row.wavelength:.2f}",
        "-" if row.turns is None else f"{row.turns:.4f}",
        "-" if row.divisor is None else f"{row.divisor:.6g}",
    )


def _slowness(view: "RopeView") -> str:
    if view.slowest is None or view.slowest.wavelength is None:
        return "No pair turns."
    words = f"Slowest pair {view.slowest.pair}: one turn in {view.slowest.wavelength:.2f} positions"
    if view.window is None:
        return f"{words}. No window is known: give --window."
    words += f", {view.slowest.wavelength / view.window:.2f} windows of {view.window}. "
    words += f"{view.slower_than_window} of {len(view.rows)} pairs are slower than the window"
    return f"{words}, {view.still} keep still." if view.still else f"{words}."


def _scaling_words(view: "RopeView") -> str:
    data = view.rope.to_dict()["scaling"]
    words = [data.pop("rope_type")]
    for name, value in data.items():
        if value is not None:
            words.append(f"{name} {f'[{len(value)} numbers]' if isinstance(value, list) else _number(value)}")
    length = ""
    if view.rope.length_dependent:
        length = f" (resolved for {f'{view.length} tokens' if view.length else 'the trained length or less'})"
    return ", ".join(words) + length


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _axes_words(view: "RopeView") -> str:
    data = view.rope.to_dict()["axes"]
    return ", ".join(f"{name} {value}" if name != "kind" else str(value) for name, value in data.items())


def _print_sources(out: "Console", seen: "Inspection", part: str | None) -> None:
    out.print("[bold]Where each value came from[/bold]")
    for value, origin in seen.model.sources.items():
        if part is None or value.startswith(f"{part}."):
            out.print(f"  {_escaped(value)}: {_escaped(origin)}")
    out.print()


def _escaped(words: str) -> str:
    from rich.markup import escape

    return escape(words)
