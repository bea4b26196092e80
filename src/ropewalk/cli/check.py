"""`ropewalk check`: what is wrong with somebody's RoPE, told from outside."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..probe.report import Report
    from ..probe.targets import Target, Targets
    from ..rope import Rope


LAYOUTS = ("bshd", "bhsd", "thd")
BACKENDS = ("auto", "numpy", "torch", "jax")


class HeadDim(click.ParamType):
    """A number of channels, or auto."""

    name = "D|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Give the number, or "auto"."""
        if value == "auto":
            return value
        try:
            return click.IntRange(2).convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither a number of channels from 2 on nor auto", param, ctx)


@click.command(
    "check",
    short_help="Say what is wrong with somebody's RoPE, from outside.",
    epilog="""\b
    Examples:
      ropewalk check mymodel/rope.py:rotate --expect config.json
      ropewalk check transformers:qwen3 --json""",
)
@click.argument("target", required=False)
@click.option(
    "--head-dim",
    type=HeadDim(),
    metavar="D|auto",
    help="Channels of a head; auto, as without it: those of --expect or the target.",
)
@click.option("--expect", metavar="MODEL", help="What it should be: whatever `ropewalk inspect` takes.")
@click.option("--part", metavar="P", help="The part of --expect, where it has several ropes.")
@click.option("--layer", type=click.IntRange(0), metavar="N", help="The layer of --expect, counted from 0.")
@click.option("--layout", type=click.Choice(LAYOUTS), default="bshd", help="Order of the dimensions of x (bshd).")
@click.option("--backend", type=click.Choice(BACKENDS), help="Arrays that it takes.")
@click.option("--heads", type=click.IntRange(1), metavar="H", default=2, help="Heads of x (2).")
@click.option("--kv-heads", type=click.IntRange(1), metavar="N", help="Heads of the keys, where they differ.")
@click.option(
    "--of", type=click.Choice(["both", "q", "k"]), default="both", help="What to check of a function of q and k (both)."
)
@click.option("--dtype", metavar="T", help="Number type of x: float32 (the default), float64, bfloat16, float16.")
@click.option("--max-position", type=click.IntRange(1), metavar="N", default=1_048_576, help="The largest one tried.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", default=60.0, help="Seconds (60).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--format", "form", type=click.Choice(["text", "github"]), default="text", help="github: annotations.")
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@click.option(
    "--decode", is_flag=True, help="Check a decoder with its cache: transformers:…, or an object with prefill and step."
)
@click.option("--gallery", is_flag=True, help="Check the gallery of known faults (all, or those TARGET begins).")
def command(
    target: str | None, gallery: bool, decode: bool, as_json: bool, form: str, strict: bool, **asked: Any
) -> None:
    """Say what is wrong with the RoPE of TARGET, told from outside.

    TARGET is package.module:attribute, file.py:attribute, file.onnx, or transformers:MODEL_TYPE or
    transformers:DIRECTORY. An attribute is fn(x, position_ids) that gives x turned, x [batch, seq, heads, head_dim],
    or a function of (q, k, positions), or a torch module called so. Its code is run; what --expect names is only read.
    """
    if gallery:
        _gallery(target, as_json)
    if target is None:
        raise click.UsageError("Missing argument 'TARGET'.")
    from ._output import exit_code, foreign_output, print_json

    if decode:
        from ._decode import decode_command

        raise SystemExit(decode_command(target, as_json=as_json, form=form, strict=strict, asked=asked))

    with foreign_output():
        named, reports, meant = _checked(target, asked)
    if as_json:
        print_json(_document(target, named, reports))
    elif form == "github":
        _print_annotations(named.found, reports)
    else:
        _print_reports(named, reports, meant)
    findings = tuple(finding for report in reports for finding in report.findings)
    raise SystemExit(exit_code(findings, strict=strict))


def _checked(target: str, asked: dict[str, Any]) -> "tuple[Targets, list[Report], list[Rope | None]]":
    """Check what TARGET names; give that, the reports, and what each was held against."""
    from ..errors import RopewalkError
    from ..probe.checking import check
    from ..probe.targets import resolve

    rope = _expected(asked.pop("expect"), asked.pop("part"), asked.pop("layer"))
    head_dim = asked.pop("head_dim")
    click.echo(f"ropewalk: check runs code that is not its own: {target}", err=True)
    named = resolve(target, layout=asked.pop("layout"), kv_heads=asked["kv_heads"], of=asked.pop("of"))
    click.echo(f"ropewalk: {named.runs}", err=True)
    if not named.found:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in named.left)
        raise RopewalkError(f"nothing of {target} can be asked from outside ({reasons}).")
    given = {name: value for name, value in asked.items() if value is not None}
    meant = [rope or one.expect for one in named.found]
    reports = []
    for one, expect in zip(named.found, meant, strict=True):
        options = {**one.options, **given, "head_dim": _head_dim(head_dim, one, expect)}
        reports.append(check(one.fn, expect=expect, **options))
    return named, reports, meant


def _head_dim(asked: int | str | None, one: "Target", meant: "Rope | None") -> int:
    if isinstance(asked, int):
        return asked
    known = meant.head_dim if meant is not None else one.options.get("head_dim")
    if known is None:
        raise click.UsageError(
            "Missing option '--head-dim': give the channels of a head, or --expect, which knows them."
        )
    return known


def _expected(model: str | None, part: str | None, layer: int | None) -> "Rope | None":
    from ..errors import RopewalkError
    from ..models.targets import read

    if model is None:
        if part is not None or layer is not None:
            raise click.UsageError("--part and --layer say which rope of --expect is meant; give --expect.")
        return None
    seen = read(model)
    if part is None and layer is None:
        return seen.rope
    if part is not None and part not in seen.parts:
        raise RopewalkError(f"{model} has no part {part}; it has {', '.join(seen.parts)}.")
    layers = seen.layers if part is None else seen.parts[part]
    if layer is not None and layer >= len(layers):
        raise RopewalkError(f"{model} has {len(layers)} layers there, from 0 to {len(layers) - 1}; got {layer}.")
    ropes = {one.rope for one in (layers if layer is None else layers[layer : layer + 1]) if one.rope is not None}
    if len(ropes) != 1:
        raise RopewalkError(f"{model} has {len(ropes)} ropes there; name one with --part and --layer.")
    return ropes.pop()


def _document(target: str, named: "Targets", reports: "list[Report]") -> dict[str, Any]:
    checks = [
        {"name": one.name, "note": one.note, **report.to_dict()}
        for one, report in zip(named.found, reports, strict=True)
    ]
    return {
        "schema": "ropewalk.checks/1",
        "target": target,
        "ok": all(report.ok for report in reports),
        "checks": checks,
        "left": [{"name": name, "reason": reason} for name, reason in named.left],
    }


def _print_reports(named: "Targets", reports: "list[Report]", meant: "list[Rope | None]") -> None:
    from ._output import console, print_words
    from ._reports import print_report

    out = console()
    for one, report, expect in zip(named.found, reports, meant, strict=True):
        print_report(out, one.name, one.note, report, expect)
        out.print()
    for name, reason in named.left:
        print_words(out, f"not asked: {name}: {reason}", hang=2, style="dim")
    if len(reports) > 1:
        good = sum(report.ok for report in reports)
        print_words(out, f"{good} of {len(reports)} without an error.", style="bold")


def _print_annotations(found: "tuple[Target, ...]", reports: "list[Report]") -> None:
    """Print each finding as a workflow command of GitHub Actions."""
    from ._output import clean

    words = {"error": "error", "warning": "warning", "note": "notice"}
    for one, report in zip(found, reports, strict=True):
        for finding in report.findings:
            fields = {"title": f"{finding.code} {finding.name}"}
            if one.place is not None:
                fields = {"file": _from_here(one.place[0]), "line": str(one.place[1]), **fields}
            told = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in fields.items())
            text = f"{one.name}: {finding.message} Seen: {finding.seen}; right: {finding.right}"
            click.echo(f"::{words[finding.severity]} {told}::{_escaped(clean(text))}")


def _from_here(file: str) -> str:
    from pathlib import Path

    path = Path(file)
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else file


def _escaped(text: str, more: str = "") -> str:
    for letter in "%\r\n" + more:
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text


def _gallery(prefix: str | None, as_json: bool) -> None:
    from ..errors import RopewalkError
    from ..probe.gallery import exhibits
    from ._output import foreign_output, print_json
    from ._reports import looked_at, print_gallery

    shown = [one for one in exhibits() if one.id.startswith(prefix or "")]
    if not shown:
        raise RopewalkError(f"the gallery has nothing whose number begins with {prefix}: M01 to M48, V01 to V28.")
    with foreign_output():
        rows = [looked_at(one) for one in shown]
    if as_json:
        fields = [{key: value for key, value in row.items() if key not in ("report", "exhibit")} for row in rows]
        print_json({"schema": "ropewalk.gallery/1", "exhibits": fields})
    else:
        print_gallery(rows, whole=prefix is not None)
    raise SystemExit(int(not all(row["as_meant"] for row in rows)))
