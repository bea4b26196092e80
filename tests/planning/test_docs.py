"""docs/extend.md: its printed plan is the program's, and it names every method."""

from pathlib import Path

from click.testing import CliRunner

from ropewalk.cli import main
from ropewalk.planning import METHODS, extend, read_bases

from ._documents import explained, keys

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


def test_the_keys_of_a_plan_are_those_that_the_page_explains():
    plan = extend("smollm2-135m", 16384, theta=1e6)
    assert plan.refused and any(method.leaves_at for method in plan.methods)
    assert set(keys(plan.to_dict())) == explained("The plan as JSON")


def test_the_keys_of_bases_alone_are_those_that_the_page_explains():
    told = {key.removeprefix("bases.") for key in explained("The plan as JSON") if key.startswith("bases.")}
    assert set(keys(read_bases("llama-2-7b", theta=1e6).to_dict())) == told
