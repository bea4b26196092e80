"""The command line: one file a command, loaded when it is called."""

import sys
from importlib import import_module

import click

from .._version import __version__

COMMANDS = {"inspect": "inspect", "verify": "verify", "doctor": "doctor"}


class _LazyGroup(click.Group):
    """A group whose commands are imported by name, and which turns RopewalkError into one line and exit 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f".{COMMANDS[cmd_name]}", __package__).command

    def invoke(self, ctx: click.Context) -> object:
        from ..errors import RopewalkError

        try:
            return super().invoke(ctx)
        except RopewalkError as error:
            click.echo(f"ropewalk: {' '.join(str(error).split())}", err=True)
            ctx.exit(2)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Examples: ropewalk inspect llama-3.1-8b | ropewalk inspect ./config.json --json",
)
@click.version_option(__version__, prog_name="ropewalk")
def main() -> None:
    """Describe, check and explain rotary position embeddings (RoPE).

    Data goes to stdout, everything else to stderr. Exit codes: 0 fine (warnings and notes are shown), 1 an error
    finding or a difference, 2 could not run.
    """
    if sys.platform == "win32":  # pragma: no cover
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
