"""The table of docs/gallery.md: its verdicts are those of a check, by name; the numbers in them are not compared."""

import re
from pathlib import Path

import pytest

from ropewalk import RopewalkError, check
from ropewalk.probe.gallery import __main__ as remake
from ropewalk.probe.gallery import exhibits, rewritten, verdict
from ropewalk.probe.report import Report

PAGE = Path(__file__).parents[2] / "docs" / "gallery.md"
TEXT = PAGE.read_text(encoding="utf-8")
ALL = exhibits(extra=True)
QUICK = ("M01a", "M14", "M25b", "M40a", "V01", "V05", "V10", "X01")


def named(words):
    """The (severity, name) of every finding in a cell of the table."""
    return re.findall(r"\b(error|warning|note) ([a-z0-9-]+):", words)


def cells():
    """The page's verdicts by exhibit id."""
    rows = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if re.match(r"\| [MVX]\d\d", line)]
    return {row[0]: row[4].strip() for row in rows}


def said(one):
    return verdict(check(one.make(), expect=one.expect, **one.options))


def test_every_exhibit_of_the_page_has_the_verdict_that_it_is_there_for():
    told = cells()
    assert list(told) == [one.id for one in ALL]
    for one in ALL:
        found = named(told[one.id])
        faults = [name for severity, name in found if severity != "note"]
        if one.slug is None:
            assert faults == [] and told[one.id], one.id
        else:
            assert faults and {one.slug, *one.also} - {"any"} <= set(faults), one.id


def test_the_notes_are_where_the_page_says_that_they_are():
    told = cells()
    notes = {one.entry: {name for _, name in named(told[one.id])} for one in ALL if one.slug is None}
    expected = {"V05": "output-order", "V10": "rounded-tables", "V23": "offset", "V28": "one-speed"}
    assert {entry: notes[entry] for entry in expected} == {entry: {name} for entry, name in expected.items()}


@pytest.mark.parametrize("one", [one for one in ALL if one.id in QUICK], ids=lambda one: one.id)
def test_a_fresh_check_says_what_the_page_says(one):
    if one.needs_torch:
        pytest.importorskip("torch")
    assert named(said(one)) == named(cells()[one.id])


@pytest.mark.slow
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.id)
def test_a_fresh_check_of_every_exhibit_says_what_the_page_says(one):
    if one.needs_torch:
        pytest.importorskip("torch")
    assert named(said(one)) == named(cells()[one.id])


def test_the_table_is_made_anew_and_the_rest_of_the_page_stays(tmp_path, monkeypatch):
    some = [one for one in ALL if one.id in ("M14", "V01")]
    monkeypatch.setattr(remake, "exhibits", lambda *, extra: some)
    page = tmp_path / "page.md"
    page.write_text(TEXT, encoding="utf-8")
    remake.main(page)
    made = page.read_text(encoding="utf-8")
    assert made.partition("| id |")[0] == TEXT.partition("| id |")[0]
    rows = {line[2:].split(" | ")[0]: line for line in made.splitlines() if re.match(r"\| [MVX]\d\d", line)}
    assert rows["M14"].endswith("| error wrong-theta: theta 10000 for 500000; angles exact |")
    assert rows["V01"].endswith("| no finding; angles exact |")
    assert rows["M01a"].endswith("|  |") and len(rows) == len(ALL)


def test_a_page_without_the_table_is_refused():
    with pytest.raises(RopewalkError, match="no table"):
        rewritten("# A page\n", {})


def test_a_report_without_findings_has_words_too():
    assert verdict(Report(findings=())) == "no finding"
