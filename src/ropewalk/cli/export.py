"""`ropewalk export`: a rope, or the ropes of a model, as the settings of an engine."""

import os
from pathlib import Path

import click

ENGINES = ("transformers", "transformers-v4", "vllm", "llama.cpp", "gguf", "mlx", "python")


@click.command(
    "export",
    short_help="Write a model's RoPE as the settings of an engine.",
    epilog="""\b
    Examples:
      ropewalk export llama-3.1-8b --to transformers
      ropewalk export ./config.json --to vllm
      ropewalk export gemma-3-4b --layer 5 --to llama.cpp""",
)
@click.argument("target")
@click.option(
    "--to", "engine", type=click.Choice(ENGINES), required=True, metavar="ENGINE", help=f"One of {', '.join(ENGINES)}."
)
@click.option("--part", metavar="P", help="One part only: text, vision, audio …; else the language model.")
@click.option("--layer", type=click.IntRange(0), metavar="N", help="The rope of one layer, where a model has several.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write a file, not to stdout.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def command(target: str, engine: str, part: str | None, layer: int | None, out: Path | None, force: bool) -> None:
    """Write the RoPE of TARGET as settings that ENGINE runs with.

    They are read back by the engine's own rule before they are shown. What the engine cannot say is refused, with what
    would be lost: exit code 1. stdout holds the settings alone, stderr the version that they were verified against.
    """
    from ..errors import RopewalkError
    from ..exporting import Refused, settings
    from ..models._files import write_beside
    from ._output import clean

    if out is not None:
        try:
            out = out.resolve()  # a link stays one: what it points to is written
        except (OSError, RuntimeError) as error:
            raise RopewalkError(f"--out {out} runs through links that lead in a circle. Give another name.") from error
        if out.exists() and not out.is_file():
            raise RopewalkError(f"--out names a file, got {out}, which is a directory or a device. Give another name.")
        if not force and out.exists():
            raise RopewalkError(f"{out} is there already. Give another name, or --force to replace it.")
        if not out.parent.is_dir():
            raise RopewalkError(f"there is no directory {out.parent} to write {out.name} in. Make it, or give another.")
    try:
        found = settings(target, engine, part=part, layer=layer)
    except Refused as error:
        click.echo(f"ropewalk: {clean(str(error))}", err=True)
        raise SystemExit(1) from error
    for note in found.notes:
        click.echo(f"ropewalk: {clean(note)}.", err=True)
    if out is None:
        click.echo(found.text, nl=False)
    else:
        mask = os.umask(0)
        os.umask(mask)
        write_beside(out, found.text.encode(), mode=0o666 & ~mask)  # a reader never meets half of it
