"""The README shows what the commands really print, and its Python really runs."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from ropewalk.cli import main

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```console\n\$ ropewalk (.*?)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_there_are_commands_to_check():
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_shown_output_is_what_the_command_prints(command, shown):
    result = CliRunner().invoke(main, shlex.split(command))
    assert result.exit_code == 0
    pattern = ".*?".join(
        re.escape(piece.strip("\n")) for piece in shown.split("[…]")
    )  # […] stands for what is left out
    assert re.fullmatch(rf"\s*{pattern}\s*", result.output, re.DOTALL), result.output


def test_python_example_runs():
    failures, tries = doctest.testfile(str(README), module_relative=False)
    assert tries > 5
    assert not failures
