"""`ropewalk check --decode`: whether a decoder's positions are the same on every road to the same tokens."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..probe.decoding import DecoderReport

USED = ("timeout", "backend", "dtype")
SETTINGS = ("vocab", "pad_token", "right_padding", "hooks_need_positions", "switch")


def decode_command(target: str, *, as_json: bool, form: str, strict: bool, asked: dict[str, Any]) -> int:
    """Check the decoder that TARGET names, print the report, give the exit code."""
    from ._output import exit_code, foreign_output, print_json

    _only(USED)
    with foreign_output():
        click.echo(f"ropewalk: check runs code that is not its own: {target}", err=True)
        name, notes, report = _checked(target, asked)
    if as_json:
        fields = report.to_dict()
        print_json({"schema": fields.pop("schema"), "target": target, "name": name, "notes": notes, **fields})
    elif form == "github":
        from ..probe.targets import Target
        from .check import _print_annotations

        _print_annotations((Target(name=name, fn=lambda x, _: x),), [report])  # type: ignore[list-item]
    else:
        _print(name, notes, report)
    return exit_code(report.findings, strict=strict)


def _only(used: tuple[str, ...]) -> None:
    """Refuse options that mean nothing to a decoder."""
    context = click.get_current_context()
    shared = {"target", "decode", "as_json", "form", "strict", "gallery", *used}
    given = click.core.ParameterSource.COMMANDLINE
    for one in context.command.params:
        if one.name and one.name not in shared and context.get_parameter_source(one.name) is given:
            raise click.UsageError(f"{one.opts[0]} says nothing about a decoder; leave it out with --decode.")


def _checked(target: str, asked: dict[str, Any]) -> "tuple[str, list[str], DecoderReport]":
    if target.startswith("transformers:"):
        return _of_transformers(target.removeprefix("transformers:"), asked)
    from ..errors import RopewalkError
    from ..probe.decoding import check_decoder
    from ..probe.targets import decoder_of

    decoder, runs = decoder_of(target)
    click.echo(f"ropewalk: {runs}", err=True)
    for name in ("prefill", "step"):
        if not callable(getattr(decoder, name, None)):
            raise RopewalkError(
                f"{target} has no {name}: with --decode it must be an object, or what makes one, with "
                "prefill(tokens) -> (outputs, cache) and step(tokens, cache) -> (outputs, cache)."
            )
    options = {name: getattr(decoder, name) for name in SETTINGS if hasattr(decoder, name)}
    options |= {name: getattr(decoder, name, None) for name in ("merge", "evict")}
    options |= {name: asked[name] for name in USED if asked.get(name) is not None}
    return target, [], check_decoder(decoder.step, decoder.prefill, **options)


def _of_transformers(target: str, asked: dict[str, Any]) -> "tuple[str, list[str], DecoderReport]":
    import importlib.util

    from ..errors import RopewalkError

    if not target:
        raise RopewalkError("transformers: must be followed by a model type or a directory.")
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        raise RopewalkError("a target transformers:… needs torch and transformers: pip install torch transformers")
    if asked.get("dtype") not in (None, "float32") or asked.get("backend") not in (None, "auto", "torch"):
        raise RopewalkError("a transformers model is run in float32 by torch here: leave out --dtype and --backend.")
    from ..probe._live import check_live
    from ..probe._models import config_of

    given = click.get_current_context().get_parameter_source("timeout") is click.core.ParameterSource.COMMANDLINE
    config = config_of(target)
    click.echo(f"ropewalk: transformers builds {target} small, with random weights, and runs it", err=True)
    model, report = check_live(config, **({"timeout": asked["timeout"]} if given else {}))
    notes = ["random weights, float32, eager attention, on the CPU"]
    notes += [f"made small: {', '.join(model.notes)}"] if model.notes else []
    notes += [model.says] if model.says else []
    return f"{target}: {model.name}", notes, report


def _print(name: str, notes: list[str], report: "DecoderReport") -> None:
    from ._output import console, print_fields, print_findings, print_table, print_words

    out = console()
    verdict = "no error" if report.ok else "an error"
    print_words(out, f"{name}: {verdict}", hang=2, style="bold green" if report.ok else "bold red")
    fields = [("run with", note) for note in notes]
    fields.append(("rounding", f"{report.dtype or 'unknown dtype'}: gaps up to {report.room:.2g} of the outputs"))
    fields.append(("cost", f"{report.calls} calls, {report.seconds:.2f} s in them"))
    print_fields(out, fields, indent=2)
    if report.evidence:
        out.print()
        print_table(
            out, ("what must hold", "asked", "agree", "largest gap"), list(_rows(report)), left=("what must hold",)
        )
    out.print()
    for one, reason in report.left:
        print_words(out, f"not asked: {one}: {reason}", hang=2, style="dim")
    print_findings(out, report.findings)


def _rows(report: "DecoderReport") -> Iterator[tuple[str, ...]]:
    for right in dict.fromkeys(one.right for one in report.evidence):
        asked = [one for one in report.evidence if one.right == right]
        good = sum(one.ok for one in asked)
        yield right, str(len(asked)), str(good), f"{max(one.detail['gap'] for one in asked):.2g}"
