"""`ropewalk extend … --measure FILE`: the methods of a plan tried on a model and a text."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..errors import RopewalkError

if TYPE_CHECKING:
    from rich.text import Text

    from ..measuring import Curve, Measurement, Passkey
    from ..planning import Plan
    from ..rope import Rope

BUCKET = 1024
INTERRUPTED = 130
UNTOUCHED = "untouched"


def measure_command(
    plan: "Plan",
    *,
    file: Path,
    model: str,
    tokens: int | None,
    bucket: int | None,
    dtype: str | None,
    passkey: bool,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Measure every method of a plan, and print or draw what came out; Ctrl-C keeps what is there."""
    from ..measuring import load, own_ropes, read_tokens
    from ..measuring.curves import Measurement, curves
    from ..measuring.passkey import passkeys

    bucket = bucket or BUCKET
    loaded = _with_status(f"loading {model}", lambda: load(model, dtype=dtype or "bfloat16"))
    ropes = fitted(plan, own_ropes(loaded.model))
    least = 2 if tokens is not None else plan.trained + 2  # a text that ends within the trained length shows nothing
    ids = read_tokens(file, loaded.tokenizer, tokens or plan.to, least=least)
    measured: list[Curve] = []
    keys: list[Passkey] = []
    whole = True
    try:
        with _progress() as tell:
            for one in curves(loaded.model, ids, ropes, bucket=bucket, trained=plan.trained, progress=tell("loss")):
                measured.append(one)
            if passkey:
                lengths = passkey_lengths(plan.trained, len(ids))
                for found in passkeys(
                    loaded.model, loaded.tokenizer, ids, ropes, lengths=lengths, progress=tell("passkey")
                ):
                    keys.append(found)
    except KeyboardInterrupt:
        whole = False
    name = dtype or "bfloat16"
    result = Measurement(
        tokens=len(ids), bucket=bucket, trained=plan.trained, dtype=name, growing=None, curves=tuple(measured)
    )
    if plot is not None and measured:
        from ._measure_plot import draw_measurement

        draw_measurement(plan, result, keys, plot)
    if as_json:
        _print_document(plan, result, keys, file, model, whole, asked=passkey)
    else:
        _print(plan, result, keys, file, model)
    if plot is not None and measured:
        click.echo(f"drawn: {plot}", err=True)
    if not whole:
        click.echo(f"stopped: {len(measured)} of {len(ropes)} methods were measured; the model is as it was", err=True)
        raise SystemExit(INTERRUPTED)


def fitted(plan: "Plan", own: "Mapping[str | None, Rope]") -> "dict[str, Rope | dict[str, Rope]]":
    """Give the plan's methods as ropes of the model that was loaded, whose pairing may be another than the target's.

    A GGUF file's heads, say, are stored for interleaved pairs, and transformers turns them back into halves.
    """
    planned = plan.rope.pairs().inv_freq

    def is_planned(rope: "Rope") -> bool:
        speeds = rope.pairs().inv_freq
        return speeds.shape == planned.shape and np.allclose(speeds, planned, rtol=1e-5)

    labels = [label for label, rope in own.items() if is_planned(rope)]
    if not labels:
        from ..compat._rotary import words

        theirs = "; ".join(map(words, own.values()))
        raise RopewalkError(
            f"the plan is of {plan.target} ({words(plan.rope)}), and the model that was loaded turns by {theirs}: name "
            "the model itself as TARGET, or another with --model."
        )
    found: dict[str, Rope | dict[str, Rope]] = {}
    for method in plan.methods:
        kept = ("rope_theta", "scaling", "max_position_embeddings")
        new = {label: own[label].replace(**{name: getattr(method.rope, name) for name in kept}) for label in labels}
        one = {**own, **new}
        found[method.name] = one[None] if None in one else {str(label): rope for label, rope in one.items()}
    return found


def passkey_lengths(trained: int, tokens: int) -> tuple[int, ...]:
    """Give the lengths at which keys are hidden: two within the trained length and two beyond it.

    >>> passkey_lengths(8192, 16384)
    (4096, 8192, 12288, 16384)
    """
    return tuple(
        sorted({min(trained // 2, tokens), min(trained, tokens), (min(trained, tokens) + tokens) // 2, tokens})
    )


@contextmanager
def _progress() -> "Iterator[Callable[[str], Callable[[str, float], None]]]":
    """Show on stderr how far each method is: bars where it is a terminal, else nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    err = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=err, disable=not err.is_terminal)
    tasks: dict[str, Any] = {}

    def tell(what: str) -> Callable[[str, float], None]:
        def update(name: str, share: float) -> None:
            words = f"{what} {name}"
            if words not in tasks:
                tasks[words] = bars.add_task(words, total=1.0)
            bars.update(tasks[words], completed=share)

        return update

    with bars:
        yield tell


def _with_status(words: str, work: Callable[[], Any]) -> Any:
    from rich.console import Console

    err = Console(stderr=True)
    if not err.is_terminal:
        return work()
    with err.status(words):
        return work()


def _print_document(
    plan: "Plan",
    result: "Measurement",
    keys: "Sequence[Passkey]",
    file: Path,
    model: str,
    whole: bool,
    *,
    asked: bool,
) -> None:
    from ..bench.machine import describe
    from ._output import print_json

    best = None if result.best is None else plan.method(result.best.name)
    document = {
        **result.to_dict(),
        "target": plan.target,
        "to": plan.to,
        "model": str(model),
        "file": str(file),
        "complete": whole,
        "passkey": [one.to_dict() for one in keys] if asked else None,
        "settings": {} if best is None else dict(best.settings),
        "machine": describe(),
    }
    print_json(document)


def _print(plan: "Plan", result: "Measurement", keys: "Sequence[Passkey]", file: Path, model: str) -> None:
    from ._output import console, print_fields, print_table, print_words

    out = console()
    rows = [
        ("model", f"{model}, {result.dtype}"),
        ("text", f"{file}, the first {result.tokens} tokens"),
        ("trained", f"{plan.trained} tokens ({plan.trained_from})"),
        ("wished", f"{plan.to} tokens, {plan.factor:g} times"),
    ]
    print_fields(out, rows, indent=0)
    out.print()
    if result.curves:
        words = f"Mean loss in nats a token, {result.bucket} positions a row; nothing was trained"
        print_words(out, words, style="bold")
        print_table(out, ("positions", *(one.name for one in result.curves)), loss_rows(result), left=("positions",))
        out.print()
        print_words(out, verdict(result))
    if keys:
        out.print()
        print_words(
            out,
            "Passkey: keys given back, of those hidden at several depths, and their loss in nats a token",
            style="bold",
        )
        print_table(out, ("tokens", *(one.name for one in keys)), key_rows(keys), left=())
        out.print()
        print_words(out, "One who only knows that digits come would lose 2.3 nats a digit.")
    if result.best is not None:
        from .extend import _print_settings

        _print_settings(out, plan, result.best.name)


def loss_rows(result: "Measurement") -> "Iterator[list[str | Text]]":
    """Give the table's rows: one a bucket, the least loss in bold, and the means within and beyond."""
    from rich.text import Text

    def row(head: str, losses: "Sequence[float | None]") -> "list[str | Text]":
        least = min((one for one in losses if one is not None), default=None)
        cells = [Text("-" if one is None else f"{one:.3f}", "bold" if one == least else "") for one in losses]
        return [head, *cells]

    buckets = max(len(one.losses) for one in result.curves)
    for i in range(buckets):
        start, stop = i * result.bucket, min((i + 1) * result.bucket, result.tokens)
        if i and start >= result.trained > start - result.bucket:
            yield [Text(f"trained to {result.trained}", "dim"), *[""] * len(result.curves)]
        yield row(f"{start}–{stop - 1}", [one.losses[i] for one in result.curves])
    yield ["", *[""] * len(result.curves)]
    yield row("within", [one.inside for one in result.curves])
    yield row("beyond", [one.beyond for one in result.curves])
    yield ["seconds", *(f"{one.seconds:.0f}" for one in result.curves)]


def key_rows(keys: "Sequence[Passkey]") -> "Iterator[list[str | Text]]":
    """Give one row for each length: how many keys were given back, and the mean loss."""
    for length in dict.fromkeys(trial.length for trial in keys[0].trials):
        cells = []
        for one in keys:
            trials = one.at(length)
            loss = sum(trial.loss for trial in trials) / len(trials)
            cells.append(f"{sum(trial.found for trial in trials)}/{len(trials)}  {loss:.2f}")
        yield [str(length), *cells]


def verdict(result: "Measurement") -> str:
    """Say which method did best, and what it costs within the trained length."""
    best, plain = result.best, result.curve(UNTOUCHED)
    if best is None:
        return f"Nothing was measured beyond {result.trained} tokens."
    words = f"Beyond {result.trained} tokens {best.name} lost least: {best.beyond:.3f} nats a token"
    if plain is None or plain.beyond is None:
        return f"{words}."
    if best is plain:
        return f"{words}; no method that was tried helps."
    words += f", where the untouched model lost {plain.beyond:.3f}"
    if best.inside is not None and plain.inside is not None:
        words += f". Within, it lost {best.inside:.3f} against {plain.inside:.3f}"
    return f"{words}. One text and no training: measure on what the model is to read."
