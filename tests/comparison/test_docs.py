"""docs/compare.md: it names every engine and every version."""

from pathlib import Path

import pytest

from ropewalk.engines import ENGINES

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_every_engine_stands_there_with_its_version_and_files(engine):
    (row,) = (line for line in TEXT.splitlines() if line.startswith(f"| {engine.name} | {engine.version} |"))
    assert all(f"`{file}`" in row for file in engine.files)
    assert row.endswith("| read only |") is (engine.verified == "read")
