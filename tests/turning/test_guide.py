"""The guide to turning vectors shows what really comes out, and names what can be set."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "rotate.md"


def test_the_guides_examples_run():
    pytest.importorskip("torch")
    failures, tries = doctest.testfile(str(GUIDE), module_relative=False)
    assert tries > 15
    assert not failures


def test_the_guide_names_every_switch_of_the_kernel():
    sources = [*(ROOT / "src" / "ropewalk" / "turning").glob("*.py"), ROOT / "pyproject.toml"]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    switches = set(re.findall(r"ROPEWALK_[A-Z_]+", text))
    assert {"ROPEWALK_NO_KERNEL", "ROPEWALK_BUILD_EXT", "ROPEWALK_NO_EXT"} <= switches
    guide = GUIDE.read_text(encoding="utf-8")
    assert [name for name in switches if name not in guide] == []
