"""`ropewalk bench`: how fast vectors are turned here, beside a copy and beside other libraries."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import RopewalkError

if TYPE_CHECKING:
    from rich.console import Console

    from ..bench.bars import Verdict
    from ..bench.measuring import Measurement, Row
    from ..bench.plan import Plan
    from ..bench.timing import Spread

ALL, NONE = "all", "none"


def _names(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """Take names given one at a time or with commas between."""
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())


@click.command(
    "bench",
    short_help="Measure turning beside a copy and other libraries.",
    epilog="""\b
    Examples:
      ropewalk bench --dtype bfloat16 --case in-place
      ropewalk bench --case all --json""",
)
@click.option("--shape", metavar="B,S,H,KV,D", default="1,4096,32,8,128", help="q [B,S,H,D] and k [B,S,KV,D].")
@click.option(
    "--case",
    "cases",
    metavar="NAME",
    multiple=True,
    callback=_names,
    help="out-of-place, in-place, backward, decode, decode-ragged; all is the whole table of bars.",
)
@click.option(
    "--dtype",
    "dtypes",
    metavar="NAME",
    multiple=True,
    callback=_names,
    help="float32, bfloat16, float16, float64; without it the first two.",
)
@click.option(
    "--pairing", "pairings", metavar="NAME", multiple=True, callback=_names, help="half (the default), interleaved."
)
@click.option(
    "--vs",
    "peers",
    metavar="NAME",
    multiple=True,
    callback=_names,
    help="transformers (the default), torch-compile, rotary-embedding-torch, complex, none.",
)
@click.option("--rounds", type=click.IntRange(1, 10_000), default=11, metavar="N", help="Timed rounds; 11 by default.")
@click.option("--floors", is_flag=True, help="Show every bar beside what was measured.")
@click.option("--strict", is_flag=True, help="Exit 1 where a bar is missed, or none could be judged.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    shape: str,
    cases: tuple[str, ...],
    dtypes: tuple[str, ...],
    pairings: tuple[str, ...],
    peers: tuple[str, ...],
    rounds: int,
    floors: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Measure how long turning q and k takes, as ratios to copying them, beside other libraries.

    Each contender is compared with float64 first and gets no number where it is wrong (exit 1). Then all take turns,
    round by round. The last line is one JSON document. NAME may be several, with commas between.
    """
    plan = _plan(shape, cases, dtypes, pairings, peers, rounds)
    _need_torch()
    from ..bench.bars import judge, missed
    from ..bench.document import document
    from ..bench.machine import describe
    from ..bench.measuring import measure

    machine = describe()  # first of all, while the load is not yet ours
    measured: list[Measurement] = []
    out = None
    if not as_json:
        from ._output import console

        out = console()
        _print_machine(out, machine)
    for one in measure(plan):
        measured.append(one)
        if out:
            _print_measurement(out, one)
    verdicts = judge(measured)
    report = document(plan, machine, measured, verdicts)
    if out:
        import json

        if floors or strict or ALL in cases:
            _print_bars(out, verdicts)
        _print_reading(out, machine)
        click.echo(json.dumps(report, allow_nan=False))
    else:
        from ._output import print_json

        print_json(report)
    raise SystemExit(int(not report["ok"] or (strict and missed(verdicts))))


def _plan(
    shape: str,
    cases: tuple[str, ...],
    dtypes: tuple[str, ...],
    pairings: tuple[str, ...],
    peers: tuple[str, ...],
    rounds: int,
) -> "Plan":
    from ..bench.plan import CASES, PAIRINGS, Plan, Shape

    asked: dict[str, Any] = {}
    if ALL in cases:
        cases = tuple(CASES)
        asked |= {"pairings": PAIRINGS, "peers": ("transformers", "torch-compile")}  # those that a bar names
    asked |= {name: given for name, given in (("cases", cases), ("dtypes", dtypes), ("pairings", pairings)) if given}
    if peers:
        asked["peers"] = () if peers == (NONE,) else peers
    return Plan(shape=Shape.parse(shape), rounds=rounds, **asked)


def _need_torch() -> None:
    try:
        import torch  # noqa: F401 - asked for here, where its absence can be told in one line
    except ImportError as error:
        raise RopewalkError(f"bench needs torch ({error}): pip install 'ropewalk[torch]'.") from error


def _print_machine(out: "Console", machine: dict[str, Any]) -> None:
    from ._output import print_fields

    load = "unknown" if machine["load"] is None else f"{machine['load']:.2f}"
    settings = [f"{name}={value}" for name, value in machine["settings"].items()]
    rows = [
        ("machine", f"{machine['cpu']}, {machine['cpus']} CPUs, load {load} at the start"),
        ("threads", str(machine["threads"])),
        ("kernel", machine["kernel"]),
        ("huge pages", machine["huge_pages"] or "none"),
        ("versions", ", ".join(f"{name} {version}" for name, version in machine["versions"].items())),
    ]
    rows += [("settings", " ".join([*settings, *machine["preloaded"]]))] * bool(settings or machine["preloaded"])
    print_fields(out, rows, indent=0)


def _print_measurement(out: "Console", measured: "Measurement") -> None:
    from rich.text import Text

    from ..bench.plan import CASES
    from ._output import print_table, print_words

    sample = f", {measured.calls} calls a sample" * (measured.calls > 1)
    out.print()
    out.print(Text(f"{measured.case}, {measured.dtype}, {measured.pairing}", "bold"), end="")
    out.print(f": {CASES[measured.case].words}", markup=False, soft_wrap=True)
    sizes = f"q {list(measured.q)}, k {list(measured.k)}; {measured.rounds} rounds{sample}"
    print_words(out, sizes, indent=2)
    columns = ("", "time", "÷ clone", "", "÷ copy_", "", "÷ ropewalk", "", "error", "of allowed")
    print_table(out, columns, [tuple(_cells(row)) for row in measured.rows], left=("",))
    for row in measured.rows:
        if row.parity is not None and not row.ok:
            print_words(out, f"{row.name}: parity is red, so no number: {row.parity.why}.", hang=2, style="bold red")
    for name, reason in measured.skipped.items():
        print_words(out, f"{name}: skipped: {reason}.", hang=2, style="dim")


def _cells(row: "Row") -> Iterator[str]:
    yield row.name
    yield _time_words(row.seconds)
    for spread in (row.to_clone, row.to_copy, row.to_ours):
        yield "-" if spread is None else _number(spread.median)
        yield "" if spread is None else f"{_number(spread.low)}–{_number(spread.high)}"
    yield "-" if row.parity is None or row.parity.error is None else f"{row.parity.error:.1e}"
    yield "-" if row.parity is None or row.parity.share is None else f"{row.parity.share:.2g}"


def _time_words(spread: "Spread | None") -> str:
    if spread is None:
        return "-"
    unit, scale = ("ms", 1e3) if spread.median >= 1e-3 else ("µs", 1e6)
    return f"{_number(spread.median * scale)} {unit}"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _print_bars(out: "Console", verdicts: "Iterable[Verdict]") -> None:
    from rich.text import Text

    from ._output import print_table

    marks = {True: Text("ok", "green"), False: Text("MISSED", "bold red"), None: Text("-", "dim")}
    rows = [
        (
            marks[one.ok] if not (one.aim and one.ok is False) else Text("not yet", "yellow"),
            one.words,
            f"{'aim: ' if one.aim else ''}{one.sense} {one.limit:g}",
            "-" if one.value is None else f"{one.value:.3g}",
            one.why,
        )
        for one in verdicts
    ]
    out.print()
    print_table(
        out, ("", "bar", "limit", "measured", "why not judged"), rows, left=("", "bar", "limit", "why not judged")
    )


def _print_reading(out: "Console", machine: dict[str, Any]) -> None:
    from ._output import print_words

    words = (
        "Ratios are taken within each round; shown are their medians and quartiles. ÷ ropewalk above 1 means that "
        "ropewalk is faster. Errors are absolute, against float64."
    )
    if machine["load"] is not None and machine["load"] > 0.5:
        words += f" The machine was busy at the start (load {machine['load']:.2f}): trust the numbers less."
    out.print()
    print_words(out, words)
