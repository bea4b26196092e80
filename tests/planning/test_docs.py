"""docs/extend.md: its printed plan is the program's, and it names every method."""

from pathlib import Path

from click.testing import CliRunner

from ropewalk.cli import main
from ropewalk.planning import METHODS

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_method_stands_in_the_table():
    assert [name for name in METHODS if f"\n| {name} | " not in TEXT] == []


def test_the_printed_plan_is_the_programs():
    _, _, tail = TEXT.partition("    $ ropewalk extend smollm2-135m --to 16384\n")
    shown = tail.partition("\nIn Python:")[0].rstrip("\n").splitlines()
    done = CliRunner().invoke(main, ["extend", "smollm2-135m", "--to", "16384"], env={"COLUMNS": "120"})
    assert len(shown) > 15
    assert [line.removeprefix("    ") for line in shown] == done.stdout.splitlines()[: len(shown)]
