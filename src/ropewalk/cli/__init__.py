"""The command line: one file a command, loaded when it is called."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from .._version import __version__
from ..errors import RopewalkError

COMMANDS = {name: name for name in "inspect compare export extend explore check verify bench doctor".split()}


class _Failure(click.ClickException):
    """What ends a run that could not be done: one line on stderr, exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        from ._output import clean

        click.echo(f"ropewalk: {clean(' '.join(self.message.split()))}", err=True)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except RopewalkError as error:
        raise _Failure(str(error)) from error
    except click.UsageError as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            raise
        hint = f" See {error.ctx.command_path} --help." if error.ctx else ""
        raise _Failure(error.format_message().rstrip(".") + "." + hint) from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader has seen enough
            raise
        raise _Failure(f"the output cannot be written: {error.strerror or error}.") from error


class _LazyGroup(click.Group):
    """A group whose commands are imported by name, and whose errors are one line on stderr."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return import_module(f".{COMMANDS[cmd_name]}", __package__).command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _one_line_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        with _one_line_errors():
            return super().invoke(ctx)


@click.group(
    name="ropewalk",
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
    Examples:
      ropewalk inspect llama-3.1-8b
      ropewalk inspect ./config.json --json""",
)
@click.version_option(__version__, prog_name="ropewalk")
def main() -> None:
    """Describe, check and explain rotary position embeddings (RoPE).

    Data goes to stdout, everything else to stderr.

    \b
    Exit codes:
      0  fine (warnings and notes are shown)
      1  an error finding, or a difference
      2  could not run
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    if hasattr(sys.stdout, "reconfigure"):  # θ and ∞ must not end a run where the terminal cannot show them
        encoding = "utf-8" if sys.platform == "win32" else None
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")  # type: ignore[union-attr]
