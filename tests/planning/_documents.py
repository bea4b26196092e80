"""The tables of docs/extend.md that explain its JSON documents, and the keys that a document has."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TEXT = (Path(__file__).parents[2] / "docs" / "extend.md").read_text(encoding="utf-8")
OPEN = ("rope", "settings", "unwritten", "machine")  # explained elsewhere, or keyed by names of engines


def explained(heading: str) -> set[str]:
    """Give the keys in the first column of the table under a heading, as paths: `methods[].name`."""
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    found = [key for cell in cells for key in re.findall("`([^`]+)`", cell)]
    assert len(set(found)) == len(found)
    return set(found)


def keys(value: Any, path: str = "") -> Iterator[str]:
    """Give the path of every key of a document; of a list every entry counts."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}".lstrip(".")
            if key not in OPEN:
                yield from keys(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, f"{path}[]")
