"""`ropewalk inspect`: what a configuration says about RoPE, and what is wrong with it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from ..inspection import Inspection, PairRow, RopeView

FIRST_ROWS = 12
COLUMNS = ("pair", "dims", "axis", "θ_i (rad/token)", "wavelength", "turns in window", "divisor")


@click.command(
    "inspect",
    short_help="Describe the RoPE of a model and say what is wrong with it.",
    epilog="""\b
    Examples:
      ropewalk inspect llama-3.1-8b --window 8192
      ropewalk inspect ./model/config.json --part vision --json
      ropewalk inspect ./models --recursive
      ropewalk inspect ./model/config.json --fix --write""",
)
@click.argument("target")
@click.option("--part", metavar="P", help="One part only: text, vision, audio …")
@click.option("--layer", type=int, metavar="N", help="One layer, counted from 0 (of the text part, or of --part).")
@click.option(
    "--window",
    type=click.IntRange(1),
    metavar="N",
    help="Tokens to compare wavelengths with, instead of the model's own context.",
)
@click.option(
    "--length", type=click.IntRange(1), metavar="L", help="Tokens in the sequence, for dynamic NTK and LongRoPE."
)
@click.option("--all-pairs", is_flag=True, help=f"Every pair, not the first {FIRST_ROWS} and the slowest.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--recursive", "-r", is_flag=True, help="Every configuration and GGUF under the directory TARGET.")
@click.option("--json-lines", is_flag=True, help="With --recursive: one JSON document a line, the summary last.")
@click.option("--fix", is_flag=True, help="Print the configuration with what has one right answer repaired.")
@click.option("--write", is_flag=True, help="With --fix: write it in place of the old one, which is kept as .bak.")
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
def command(
    target: str,
    part: str | None,
    layer: int | None,
    window: int | None,
    length: int | None,
    all_pairs: bool,
    as_json: bool,
    recursive: bool,
    json_lines: bool,
    fix: bool,
    write: bool,
    strict: bool,
) -> None:
    """Describe the RoPE of TARGET and say what is wrong with it.

    TARGET is a configuration (config.json, params.json …), a GGUF, a directory that holds one, a hub id
    (org/name[@revision] or hf://…), or the name of a preset; an existing path wins over a hub id, a hub id over a
    preset. Files are only read: code that they name is never run.
    """
    _check_options(recursive=recursive, json_lines=json_lines, fix=fix, write=write, other=as_json or all_pairs)
    if recursive:
        from ._tree import inspect_tree

        raise SystemExit(inspect_tree(target, json_lines=json_lines, strict=strict))
    if fix:
        from ._fix import fix_file

        raise SystemExit(fix_file(target, write=write, strict=strict))

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
        if not seen.views:
            _print_nothing(out, seen, layer)
        _print_sources(out, seen, part)
        print_findings(out, seen.findings)
    raise SystemExit(exit_code(seen.findings, strict=strict))


def _check_options(*, recursive: bool, json_lines: bool, fix: bool, write: bool, other: bool) -> None:
    """Refuse options that have no meaning together."""
    if json_lines and not recursive:
        raise click.UsageError("--json-lines needs --recursive; --json gives one document for one target.")
    if write and not fix:
        raise click.UsageError("--write needs --fix.")
    if fix and recursive:
        raise click.UsageError("--fix repairs one file; leave --recursive out.")
    if other and (fix or recursive):
        raise click.UsageError("--json and --all-pairs describe one target; leave them out with --fix or --recursive.")


def _print_model(out: "Console", seen: "Inspection", part: str | None) -> None:
    from ._output import print_fields, print_words

    print_words(out, f"{seen.model.target} ({seen.model.model_type or 'no model_type'})", hang=2, style="bold")
    rows = [(name, line) for name, lines in seen.plan.items() if part in (None, name) for line in lines]
    print_fields(out, rows, indent=2)
    out.print()


def _print_view(out: "Console", view: "RopeView", all_pairs: bool) -> None:
    from ._output import print_fields, print_table, print_words

    print_words(out, f"RoPE of {'; '.join(view.places)}", hang=2, style="bold")
    print_fields(out, _facts(view), indent=2)
    out.print()
    print_table(out, COLUMNS, _table(view, all_pairs), left=("dims", "axis"))
    print_words(out, _slowness(view))
    out.print()


def _facts(view: "RopeView") -> Iterator[tuple[str, str]]:
    from ..inspection import number_words

    rope = view.rope
    tail = f", from channel {rope.rotary_start}" if rope.rotary_start else ""
    yield "width", f"head_dim {rope.head_dim}, rotary_dim {rope.width}{tail}"
    yield "rope_theta", number_words(rope.rope_theta)
    yield "pairing", rope.pairing
    if rope.direction < 0:
        yield "direction", "-1, the angle is -position·θ_i"
    yield "context", str(rope.max_position_embeddings or "not stated")
    yield "scaling", _scaling_words(view)
    if rope.axes.kind != "single":
        yield "axes", _named_words(rope.to_dict()["axes"], "kind")
    factors = [number_words(factor) for factor in (view.pairs.cos_sin_factor, view.pairs.softmax_factor)]
    yield "magnitude", f"cos and sin × {factors[0]}, softmax scale × {factors[1]}"
    if not view.pairs.is_rotation:
        yield "not a rotation", "the two channels of a pair turn by different angles; θ_i is the first one's"


def _table(view: "RopeView", all_pairs: bool) -> Iterator[tuple[str, ...]]:
    """Give every row, or the first ones, how many are left out, and the slowest pair on its own."""
    rows = view.rows
    if all_pairs or len(rows) <= FIRST_ROWS + 1:
        yield from map(_cells, rows)
        return
    yield from map(_cells, rows[:FIRST_ROWS])
    yield ("…", f"{len(rows) - FIRST_ROWS} more", "", "", "", "", "")
    if view.slowest is not None and view.slowest not in rows[:FIRST_ROWS]:
        yield _cells(view.slowest)


def _cells(row: "PairRow") -> tuple[str, ...]:
    return (
        str(row.pair),
        f"{row.first}, {row.second}",
        row.axis,
        f"{row.inv_freq:.8g}" if row.inv_freq else "still",
        "∞" if row.wavelength is None else _fixed(row.wavelength, 2),
        _turns(row),
        "-" if row.divisor is None else f"{row.divisor:.6g}",
    )


def _turns(row: "PairRow") -> str:
    if row.turns is None or not row.inv_freq:
        return "-"
    return _fixed(row.turns, 4) if row.turns >= 5e-5 else f"{row.turns:.3g}"


def _fixed(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}" if value < 1e9 else f"{value:.6e}"


def _slowness(view: "RopeView") -> str:
    if view.slowest is None or view.slowest.wavelength is None:
        return "No pair turns."
    words = f"Slowest pair {view.slowest.pair}: one turn in {_fixed(view.slowest.wavelength, 2)} positions"
    if view.window is None:
        return f"{words}. No window is known: give --window."
    words += f", {_fixed(view.slowest.wavelength / view.window, 2)} windows of {view.window}. "
    verb = "is" if view.slower_than_window == 1 else "are"
    words += f"{view.slower_than_window} of {len(view.rows)} pairs {verb} slower than the window"
    return f"{words}, {view.still} keep still." if view.still else f"{words}."


def _scaling_words(view: "RopeView") -> str:
    words = _named_words(view.rope.to_dict()["scaling"], "rope_type")
    if view.rope.length_dependent:
        words += f" (resolved for {f'{view.length} tokens' if view.length else 'the trained length or less'})"
    return words


def _named_words(data: dict[str, object], kind: str) -> str:
    """Write a set of parameters as its kind and what is set in it."""
    from ..inspection import number_words

    words = [str(data[kind])]
    for name, value in data.items():
        if name == kind or value is None:
            continue
        if isinstance(value, list):
            shown = f"[{','.join(map(str, value))}]" if len(value) <= 4 else f"[{len(value)} numbers]"
        else:
            shown = number_words(value)
        words.append(f"{name}={shown}")
    return ", ".join(words)


def _print_nothing(out: "Console", seen: "Inspection", layer: int | None) -> None:
    from ._output import print_words

    if any(finding.severity == "error" for finding in seen.findings):
        print_words(out, "No RoPE could be read: the errors below say why.")
    else:
        print_words(out, "No RoPE here." if layer is None else f"No RoPE in layer {layer}.")
    out.print()


def _print_sources(out: "Console", seen: "Inspection", part: str | None) -> None:
    """Print the origin of every value, under its part and, where they differ, its kind of layer."""
    from ._output import print_fields, print_words

    groups: dict[str, list[tuple[str, str]]] = {}
    for value, origin in seen.model.sources.items():
        owner, _, name = value.rpartition(".")
        if part is None or value.startswith(f"{part}."):
            groups.setdefault(owner, []).append((name, origin))
    if not groups:
        return
    out.print("[bold]Where each value came from[/bold]")
    for owner, rows in groups.items():
        print_words(out, owner, indent=2)
        print_fields(out, rows, indent=4)
    out.print()
