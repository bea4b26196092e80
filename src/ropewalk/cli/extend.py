"""`ropewalk extend`: a longer context, by every method, and what each does."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..planning import Bases, Method, Plan

METHOD_NAMES = ("all", "linear", "ntk", "dynamic", "yarn", "longrope", "llama3")
COLUMNS = ("method", "kept", "blended", "full factor", "divisors", "cos, sin ×", "unseen angles from", "short prompts")
RULES = ("rule", "base for the context", "context of the base")


@click.command(
    "extend",
    short_help="Plan a longer context: every method, and what it does.",
    epilog="""\b
    Examples:
      ropewalk extend llama-2-7b --to 32768 --plot plan.png
      ropewalk extend ./model --to 131072 --method yarn --json
      ropewalk extend llama-2-7b --theta 1000000""",
)
@click.argument("target")
@click.option("--to", type=int, metavar="N", help="Tokens wanted, more than were trained.")
@click.option("--method", type=click.Choice(METHOD_NAMES), default="all", show_default=True, help="One method only.")
@click.option("--theta", type=float, metavar="X", help="Tell which context this base supports.")
@click.option("--trained", type=int, metavar="N", help="The length trained, where the configuration does not say it.")
@click.option("--part", metavar="P", help="One part only: text, talker …")
@click.option("--layer", type=int, metavar="N", help="The layer whose rope is meant, counted from 0.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw the methods: PNG or SVG."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--measure",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Measure each method's loss on this text (extra torch).",
)
@click.option("--model", metavar="DIR|GGUF", help="The weights to measure; TARGET where left out.")
@click.option("--tokens", type=click.IntRange(2), metavar="N", help="Tokens of the text to measure; --to by default.")
@click.option("--bucket", type=click.IntRange(1), metavar="N", help="Positions in each bucket of the measurement.")
@click.option("--dtype", metavar="T", help="Number type of the measurement: bfloat16, float32 …")
@click.option("--passkey", is_flag=True, help="Measure whether a key hidden in the text is found, too.")
def command(
    target: str,
    to: int | None,
    method: str,
    theta: float | None,
    trained: int | None,
    part: str | None,
    layer: int | None,
    plot: Path | None,
    as_json: bool,
    measure: Path | None,
    model: str | None,
    tokens: int | None,
    bucket: int | None,
    dtype: str | None,
    passkey: bool,
) -> None:
    """Plan a longer context for the RoPE of TARGET: what each method does to the pairs, and who can run it.

    TARGET is whatever `ropewalk inspect` takes. Files are only read. With --theta alone, only the base is looked at;
    with --measure, the methods are tried on a model and a text instead of planned on paper only.
    """
    from ._output import print_json

    _check_options(
        to, theta, plot, measure, {"--model": model, "--tokens": tokens, "--bucket": bucket, "--dtype": dtype}
    )
    if passkey and measure is None:
        raise click.UsageError("--passkey belongs to --measure FILE: give the text")
    if to is None:
        from ..planning import read_bases

        told = read_bases(target, theta=theta, trained=trained, part=part, layer=layer)
        print_json(told.to_dict()) if as_json else _print_bases_alone(told)
        return
    from ..planning import extend

    plan = extend(target, to, method=method, trained=trained, theta=theta, part=part, layer=layer)
    if measure is not None:
        import_module("._measure", __package__).measure_command(
            plan,
            file=measure,
            model=target if model is None else model,
            tokens=tokens,
            bucket=bucket,
            dtype=dtype,
            passkey=passkey,
            as_json=as_json,
            plot=plot,
        )
        return
    if plot is not None:
        from ._plot import draw_plan

        draw_plan(plan, plot)
    if as_json:
        print_json(plan.to_dict())
    else:
        _print_plan(plan, method)
    if plot is not None:
        click.echo(f"drawn: {plot}", err=True)


def _check_options(
    to: int | None, theta: float | None, plot: Path | None, measure: Path | None, measuring: dict[str, object]
) -> None:
    """Refuse options that do not go together, before any work is done."""
    if to is None and theta is None:
        raise click.UsageError("say how many tokens are wished, --to N, or which base to look at, --theta X")
    if to is None and (plot is not None or measure is not None):
        raise click.UsageError(f"{'--plot' if measure is None else '--measure'} needs a plan: give --to N as well")
    given = [name for name, value in measuring.items() if value is not None]
    if given and measure is None:
        raise click.UsageError(f"{given[0]} belongs to --measure FILE: give the text")
    if plot is not None:
        from ._plot import check_plot

        check_plot(plot)


def _print_plan(plan: "Plan", asked: str) -> None:
    from ._output import console, print_fields, print_table, print_words

    out = console()
    words = f"{plan.target}: from {plan.trained} to {plan.to} tokens, {plan.factor:g} times"
    print_words(out, words, hang=2, style="bold")
    print_fields(out, _facts(plan), indent=2)
    out.print()
    print_table(out, COLUMNS, map(_cells, plan.methods), left=("method", "unseen angles from", "short prompts"))
    out.print()
    print_words(out, "Engines, reading the method's own keys", style="bold")
    names = [engine.engine for engine in plan.methods[0].engines]
    print_table(out, ("method", *names), map(_engine_cells, plan.methods), left=("method", *names))
    out.print()
    for method in plan.methods:
        _print_method(out, method)
    for refusal in plan.refused:
        print_words(out, f"{refusal.name}: not planned", style="bold")
        print_words(out, refusal.reason, indent=2, hang=2)
        out.print()
    _print_bases(out, plan.bases)
    advice = plan.recommendation
    print_words(out, "Recommendation", style="bold")
    print_words(out, advice.reason, indent=2)
    print_words(out, f"Evidence: {advice.evidence}", indent=2)
    for caveat in plan.caveats:
        print_words(out, f"- {caveat}", indent=2, hang=2)
    _print_settings(out, plan, advice.method if asked == "all" else asked)


def _facts(plan: "Plan") -> Iterator[tuple[str, str]]:
    from ..inspection import number_words

    rope = plan.rope
    yield "RoPE of", plan.place
    yield "width", f"head_dim {rope.head_dim}, rotary_dim {rope.width}: {rope.num_pairs} pairs"
    yield "rope_theta", number_words(rope.rope_theta)
    yield "scaling", rope.scaling.rope_type
    yield "trained", f"{plan.trained} tokens ({plan.trained_from})"
    yield (
        "shown",
        f"{plan.full_turns} of {rope.num_pairs} pairs turned at least once in training: every angle was shown",
    )


def _cells(method: "Method") -> tuple[str, ...]:
    from ..inspection import number_words

    slowed = [divisor for divisor in method.divisors if divisor is not None]
    low, high = (f"{bound:.4g}" for bound in (min(slowed, default=1.0), max(slowed, default=1.0)))
    leaves = "-" if method.leaves_at is None else f"{method.leaves_at.position} (pair {method.leaves_at.pair})"
    short = method.short_prompts
    change = "unchanged" if short.unchanged else f"up to {short.largest:.4g} rad"
    if short.score_factor != 1:
        change += f", scores × {short.score_factor:.4g}"
    return (
        method.name,
        *(_span(pairs) for pairs in (method.kept, method.blended, method.stretched)),
        low if low == high else f"{low} … {high}",
        number_words(round(method.magnitude.cos_sin_factor, 6)),
        leaves,
        change,
    )


def _span(pairs: tuple[int, ...]) -> str:
    """Write which pairs, as their numbers where they stand together.

    >>> _span((0, 1, 2)), _span((7,)), _span(()), _span((0, 2))
    ('0-2', '7', '-', '2 of 0-2')
    """
    if len(pairs) < 2:
        return str(pairs[0]) if pairs else "-"
    together = pairs[-1] - pairs[0] + 1 == len(pairs)
    return f"{pairs[0]}-{pairs[-1]}" if together else f"{len(pairs)} of {pairs[0]}-{pairs[-1]}"


def _engine_cells(method: "Method") -> "list[str | Text]":
    from rich.text import Text

    styles = {"yes": "green", "differs": "bold red", "no": "yellow"}
    return [method.name, *(Text(one.support, styles[one.support]) for one in method.engines)]


def _print_method(out: "Console", method: "Method") -> None:
    from ._output import print_fields, print_words

    print_words(out, f"{method.name}: {method.how}", hang=2, style="bold")
    rows = [("short prompts", method.short_prompts.words)]
    if method.magnitude.softmax_factor != 1:
        rows.append(("softmax", f"the softmax scale × {method.magnitude.softmax_factor:.9g}"))
    rows += [(one.engine, f"{one.support}: {one.words}") for one in method.engines if one.support != "yes"]
    rows += [("note", note) for note in method.notes]
    rows += [("evidence", method.evidence), ("source", "; ".join(method.sources))]
    print_fields(out, rows, indent=2)
    out.print()


def _print_bases_alone(bases: "Bases") -> None:
    from ._output import console

    _print_bases(console(), bases)


def _print_bases(out: "Console", bases: "Bases") -> None:
    from ..inspection import number_words
    from ._output import print_fields, print_table, print_words

    if not bases.rules:
        print_words(out, "Bases: no rule counts with the still pairs of proportional RoPE.")
        out.print()
        return
    asked = f"a base of {number_words(bases.theta)}"
    wished = "" if bases.to is None else f"a context of {bases.to} tokens, and "
    print_words(out, f"Bases, for {wished}{asked} (trained: {bases.trained} tokens)", style="bold")
    rows = [
        (
            rule.name,
            "-" if rule.theta is None else f"{rule.theta:.6g}",
            "-" if rule.context is None else str(rule.context),
        )
        for rule in bases.rules
    ]
    columns = RULES if bases.to is not None else (RULES[0], RULES[2])
    print_table(out, columns, (row if bases.to is not None else (row[0], row[2]) for row in rows), left=("rule",))
    out.print()
    print_fields(
        out, [(rule.name, f"{rule.words}. Evidence: {rule.evidence}. {rule.source}") for rule in bases.rules], indent=2
    )
    out.print()


def _print_settings(out: "Console", plan: "Plan", name: str) -> None:
    from ._output import clean, print_words

    method = plan.method(name)
    if method is None or not (method.settings or method.unwritten):
        return
    out.print()
    print_words(out, f"Settings for {method.name}", style="bold")
    for engine, text in method.settings.items():
        print_words(out, engine, indent=2, style="bold")
        for line in text.splitlines():
            out.print(f"    {clean(line)}", markup=False, soft_wrap=True)
    for engine, reason in method.unwritten.items():
        print_words(out, f"{engine}: {reason}", indent=2, hang=2)
