"""docs/export.md: it names every engine with its version."""

import contextlib
from pathlib import Path

import pytest

from ropewalk import export, preset_names
from ropewalk.exporting import ENGINES, Refused, settings

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("engine", ENGINES[:-1])
def test_every_engine_stands_there_with_its_version(engine):
    (row,) = (line for line in TEXT.splitlines() if line.startswith(f"| {engine} |") and "of 62" in line)
    assert settings("llama-2-7b", engine).version.split()[-1] in row


@pytest.mark.parametrize("engine", ENGINES)
def test_the_number_of_presets_that_an_engine_says_is_counted(engine):
    said = 0
    for name in preset_names():
        with contextlib.suppress(Refused):
            said += bool(export(name, engine))
    (row,) = (line for line in TEXT.splitlines() if line.startswith(f"| {engine} |") and "of 62" in line)
    assert row.endswith(f"| {said} of {len(preset_names())} |")
