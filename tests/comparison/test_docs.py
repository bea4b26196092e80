"""docs/compare.md: its examples run, and it names every option, every engine and every version."""

import doctest
from pathlib import Path

import click
import pytest

from ropewalk.cli import main
from ropewalk.engines import ENGINES

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_example_of_the_page_runs():
    failures, tries = doctest.testfile(str(PAGE), module_relative=False)
    assert tries > 5 and not failures


def test_every_option_is_explained():
    command = main.get_command(click.Context(main), "compare")
    assert command is not None
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.opts[0] for one in options if f"| `{one.opts[0]}" not in TEXT] == []


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_every_engine_stands_there_with_its_version_and_files(engine):
    (row,) = (line for line in TEXT.splitlines() if line.startswith(f"| {engine.name} | {engine.version} |"))
    assert all(f"`{file}`" in row for file in engine.files)
    assert row.endswith("| read only |") is (engine.verified == "read")
