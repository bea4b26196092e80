"""The pages of docs/: their examples run, and they name every option of the command that they explain."""

import doctest
from pathlib import Path

import click
import pytest

from ropewalk.cli import main

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = {"compare": 15, "export": 10, "extend": 11, "extend-measured": 4}  # at least so many statements


@pytest.mark.parametrize("page", EXAMPLES)
def test_every_example_of_a_page_runs(page):
    failures, tries = doctest.testfile(str(DOCS / f"{page}.md"), module_relative=False)
    assert tries >= EXAMPLES[page] and not failures


@pytest.mark.parametrize("name", ["compare", "export", "extend"])
def test_every_option_of_a_command_stands_in_the_table_of_its_page(name):
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    command = main.get_command(click.Context(main), name)
    assert command is not None
    heads = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `--")]
    named = {word.strip("`") for head in heads for word in head.replace(",", " ").split() if "--" in word}
    options = {one.opts[0] for one in command.params if isinstance(one, click.Option)}
    assert named == options
