"""The guide to positions shows what really comes out."""

import doctest
from pathlib import Path

from ropewalk import positions

GUIDE = Path(__file__).parents[2] / "docs" / "positions.md"


def test_the_guides_examples_run():
    failures, tries = doctest.testfile(str(GUIDE), module_relative=False)
    assert tries > 20
    assert not failures


def test_the_guide_names_every_public_function():
    text = GUIDE.read_text(encoding="utf-8")
    hidden = {"Grid", "MRope"}  # what mrope takes and gives
    assert [name for name in positions.__all__ if name not in hidden and name not in text] == []
