"""`ropewalk compare`: what differs between two descriptions or functions, or between the engines that read one."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .check import BACKENDS, LAYOUTS, HeadDim

if TYPE_CHECKING:
    from rich.console import Console

    from ..comparison import Comparison, Group, Measurement, PairDifference, PairsComparison
    from ..engines import Engines
    from ..probe.comparing import BlackBox

FIRST_ROWS = 12
COLUMNS = ("pair", "dims in A", "dims in B", "axis", "θ_i in A", "θ_i in B", "B/A", "differs")
ANGLE_COLUMNS = (
    *("distance", "largest difference (rad)", "of pair", "not wrapped (rad)", "largest not wrapped (rad)"),
    "known to (rad)",
)
DISTANCES = "1,128,4096,32768,131072"


class _Numbers(click.ParamType):
    """Whole numbers joined by commas."""

    name = "N,N…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Give the numbers, or fail with a line that says what was expected."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(one.strip().replace("_", "")) for one in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not whole numbers joined by commas, such as {DISTANCES}", param, ctx)


@click.command(
    "compare",
    short_help="Say what differs between two descriptions, functions or engines.",
    epilog="""\b
    Examples:
      ropewalk compare llama-3.1-8b ./config.json --plot difference.svg
      ropewalk compare llama-3.1-8b mymodel/rope.py:rotate
      ropewalk compare ./config.json --engines""",
)
@click.argument("a")
@click.argument("b", required=False)
@click.option("--engines", is_flag=True, help="How transformers, vLLM, SGLang, llama.cpp, MLX and ONNX read A.")
@click.option(
    "--distances",
    type=_Numbers(),
    metavar="N,N…",
    default=DISTANCES,
    show_default=True,
    help="Tokens between two positions, at which angles are subtracted.",
)
@click.option(
    "--length", type=click.IntRange(1), metavar="L", help="Tokens in the sequence, for dynamic NTK and LongRoPE."
)
@click.option("--part", metavar="P", help="One part only: text, vision, audio …")
@click.option(
    "--head-dim", type=HeadDim(), metavar="D|auto", help="Channels of a function's head (auto: the other side's)."
)
@click.option(
    "--layout", type=click.Choice(LAYOUTS), default="bshd", help="Order of the dimensions that a function takes (bshd)."
)
@click.option("--backend", type=click.Choice(BACKENDS), help="Arrays that a function takes (auto).")
@click.option("--all-pairs", is_flag=True, help=f"Every pair, not the first {FIRST_ROWS} that differ.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw A against B: PNG or SVG."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    a: str,
    b: str | None,
    engines: bool,
    distances: tuple[int, ...],
    length: int | None,
    part: str | None,
    head_dim: int | str | None,
    layout: str,
    backend: str | None,
    all_pairs: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Say what differs between A and B, A being the reference.

    Each is whatever `ropewalk inspect` takes: a configuration, a GGUF, a directory, a hub id or a preset. Files are
    only read: code that they name is never run. With --engines, B may be left out.

    Each may also be a TARGET of ropewalk check: package.module:attribute, file.py:attribute, file.onnx or
    transformers:MODEL_TYPE. That code is run, and its pairs are measured.

    Exits 0 when they are equal, 1 when they differ, 2 when it could not be told.
    """
    from ._output import print_json

    if b is None and not engines:
        raise click.UsageError("give B as well, or --engines to see how engines read A")
    if b is None and plot is not None:
        raise click.UsageError("--plot draws A against B: give B as well")
    if plot is not None:
        from ._plot import check_plot

        check_plot(plot)
    compared = None
    black = [one for one in (a, b) if one is not None and _is_function(one)]
    if engines and black:
        raise click.UsageError(f"--engines says how engines read a configuration, and {black[0]} is a function")
    if black and b is not None:
        asked = {"head_dim": head_dim, "layout": layout, "backend": backend}
        compared = _measured(a, b, asked, distances=distances, length=length, part=part)
    elif b is not None:
        from ..comparison import compare

        compared = compare(a, b, distances=distances, length=length, part=part)
    readings: list[Engines] = []
    if engines:
        from ..engines import read_engines

        targets = [a] if b is None else [a, b]
        readings = [read_engines(one, distances=distances, length=length, part=part) for one in targets]
    if plot is not None and compared is not None:
        from ._plot import draw

        draw(compared, plot)
    if as_json:
        documents = [one.to_dict() for one in readings]
        if compared is None:
            print_json(documents[0])
        else:
            print_json({**compared.to_dict(), **({"engines": documents} if engines else {})})
    else:
        _print(compared, readings, all_pairs=all_pairs, plot=plot)
    equal = (compared is None or compared.equal) and all(one.equal for one in readings)
    raise SystemExit(0 if equal else 1)


def _is_function(target: str) -> bool:
    """Say whether a side is written as a TARGET of `ropewalk check`; an existing path is one only if it ends so."""
    if target.lower().endswith(".onnx") or target.startswith("transformers:"):
        return True
    return ":" in target and "://" not in target and not Path(target).exists()


def _measured(a: str, b: str, asked: dict[str, Any], **options: Any) -> "Comparison":
    """Compare where a side is a function, its code run."""
    from ..probe.comparing import compare
    from ._output import foreign_output

    if asked["head_dim"] == "auto":
        asked["head_dim"] = None
    given = {name: value for name, value in asked.items() if value is not None}
    with foreign_output():
        sides = [_black_box(one, asked["layout"]) if _is_function(one) else one for one in (a, b)]
        return compare(sides[0], sides[1], **given, **options)


def _black_box(target: str, layout: str) -> "BlackBox":
    from ..errors import RopewalkError
    from ..probe.comparing import BlackBox
    from ..probe.targets import resolve

    click.echo(f"ropewalk: compare runs code that is not its own: {target}", err=True)
    named = resolve(target, layout=layout)
    click.echo(f"ropewalk: {named.runs}", err=True)
    if len(named.found) != 1:
        seen = [one.name for one in named.found] or [f"{name}: {reason}" for name, reason in named.left]
        raise RopewalkError(
            f"{target} names {len(named.found)} functions ({'; '.join(seen)}), and compare takes one. ropewalk check "
            "holds each against its configuration."
        )
    (one,) = named.found
    name = target if one.name == target else f"{target}: {one.name}"
    return BlackBox(fn=one.fn, name=name, options={"layout": "bshd", **one.options})  # what is adapted takes that


def _print(compared: "Comparison | None", readings: "list[Engines]", *, all_pairs: bool, plot: Path | None) -> None:
    from ._output import console

    out = console()
    if compared is not None:
        _print_comparison(out, compared, all_pairs)
    if readings:
        from ._engines import print_engines

        for one in readings:
            print_engines(out, one)
    if plot is not None:
        click.echo(f"drawn: {plot}", err=True)


def _print_comparison(out: "Console", compared: "Comparison", all_pairs: bool) -> None:
    from ._output import print_fields, print_findings, print_words

    print_fields(out, [("A", compared.a), ("B", compared.b)], indent=0)
    out.print()
    for group in compared.groups:
        _print_group(out, group, all_pairs)
    print_findings(out, compared.findings)
    measured = any(group.measured for group in compared.groups)
    verdict = f"A and B are equal{', as far as was measured' if measured else ''}: every pair turns alike."
    if not compared.equal:
        verdict = "A and B differ."
    print_words(out, verdict, style="bold green" if compared.equal else "bold red")


def _print_group(out: "Console", group: "Group", all_pairs: bool) -> None:
    from ._output import print_fields, print_table, print_words

    use = "" if group.use == "attention" else f" ({group.use})"
    print_words(out, f"{group.place}{use}", hang=2, style="bold")
    words = group.words
    print_words(out, f"{words[:1].upper()}{words[1:]}.", indent=2, hang=2)
    result = group.result
    if result is not None:
        if result.differing or all_pairs:
            out.print()
            print_table(out, COLUMNS, _pair_rows(result, all_pairs), left=("dims in A", "dims in B", "axis", "differs"))
        if any(row.worst is not None and row.unwrapped.any() for row in result.angles):
            out.print()
            columns = ANGLE_COLUMNS if group.measured else ANGLE_COLUMNS[:-1]
            print_table(out, columns, [row[: len(columns)] for row in _angle_rows(result)], left=())
        print_fields(out, _magnitudes(result, group.measured), indent=2)
    out.print()


def _pair_rows(result: "PairsComparison", all_pairs: bool) -> Iterator[tuple[str, ...]]:
    rows = [row for row in result.pairs if all_pairs or row.differs]
    yield from map(_cells, rows if all_pairs else rows[:FIRST_ROWS])
    if not all_pairs and len(rows) > FIRST_ROWS:
        yield ("…", f"{len(rows) - FIRST_ROWS} more differ", "", "", "", "", "", "")


def _cells(row: "PairDifference") -> tuple[str, ...]:
    sides = (row.a, row.b)
    dims = ["-" if turn is None else f"{turn.first}, {turn.second}" for turn in sides]
    axes = dict.fromkeys(str(turn.axis) for turn in sides if turn is not None)
    speeds = ["-" if turn is None else f"{turn.inv_freq:.8g}" if turn.inv_freq else "still" for turn in sides]
    ratio = "-" if row.ratio is None else f"{row.ratio:.8g}"
    return (str(row.pair), *dims, " / ".join(axes), *speeds, ratio, ", ".join(row.differs) or "nothing")


def _angle_rows(result: "PairsComparison") -> Iterator[tuple[str, ...]]:
    for row in result.angles:
        worst = row.worst or 0
        yield (
            str(row.distance),
            f"{abs(row.wrapped[worst]):.6g}",
            str(result.pairs[worst].pair),
            f"{abs(row.unwrapped[worst]):.6g}",
            f"{abs(row.unwrapped).max():.6g}",
            f"{row.room:.2g}" if row.room < math.pi else "nothing",
        )


def _magnitudes(result: "PairsComparison", measured: "Mapping[str, Measurement]") -> Iterator[tuple[str, str]]:
    from ..inspection import number_words

    for name, pair in (("cos and sin", result.factors.cos_sin), ("softmax scale", result.factors.softmax)):
        left, right = map(number_words, pair)
        words = f"× {left} in both" if left == right else f"× {left} in A, × {right} in B"
        if measured and name == "softmax scale":
            seen = [f"× {value} in {side}" for side, value in zip("AB", (left, right), strict=True)]
            known = [words for words in seen if words[-1].lower() not in measured]
            words = "; ".join([*known, f"not to be seen in {' and '.join(map(str.upper, measured))}"])
        yield name, words
