"""Every configuration in a tree of files, each read once, whatever links lead where."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import RopewalkError
from ..findings import Finding
from ..rope import Rope
from .families import read_family
from .json_file import read_json
from .model import Model
from .targets import read

SCHEMA = "ropewalk.inspect.line/1"
SUMMARY_SCHEMA = "ropewalk.inspect.summary/1"
MAX_DEPTH = 64
MAX_FILES = 1_000_000
# files of a model's directory that never describe it
_OTHERS = re.compile(
    r"^(tokenizer.*|vocab|merges|added_tokens|special_tokens_map|generation_config|preprocessor_config|processor_config|"
    r"chat_template|.*\.index|package(-lock)?|tsconfig.*|quantize_config|adapter_config)\.json$"
)
_SURE = re.compile(r"^((.*[.-])?config|(.*[.-])?params)\.json$|\.gguf$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One file of a tree.

    Attributes:
        path: as it was met.
        model: what it describes, or None where it could not be read.
        error: why it could not be read, or None.
    """

    path: Path
    model: Model | None = None
    error: str | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a user should know about the file."""
        return () if self.model is None else self.model.findings

    @property
    def ropes(self) -> tuple[Rope, ...]:
        """The distinct ropes of the model."""
        return () if self.model is None else self.model.ropes

    def count(self, severity: str) -> int:
        """Give how many findings of a severity there are; a file that cannot be read is an error."""
        return sum(one.severity == severity for one in self.findings) + (severity == "error" and self.error is not None)

    def to_dict(self) -> dict[str, Any]:
        """Give the line as plain values for JSON."""
        return {
            "schema": SCHEMA,
            "path": str(self.path),
            "model_type": None if self.model is None else self.model.model_type,
            "ropes": [rope.to_dict() for rope in self.ropes],
            "positions": {} if self.model is None else dict(self.model.positions),
            "findings": [one.to_dict() for one in self.findings],
            "error": self.error,
        }


@dataclass(slots=True)
class Summary:
    """Counts over the lines of a tree.

    Attributes:
        files: configurations read or not.
        skipped: JSON files that describe no model.
        unreadable: configurations that could not be read.
        severities: findings by severity.
        rope_types: models by the scaling of their ropes, "none" for models without RoPE.
    """

    files: int = 0
    skipped: int = 0
    unreadable: int = 0
    severities: Counter[str] = field(default_factory=Counter)
    rope_types: Counter[str] = field(default_factory=Counter)

    def add(self, line: Line) -> None:
        """Count a line."""
        self.files += 1
        self.unreadable += line.error is not None
        self.severities.update(one.severity for one in line.findings)
        if line.model is not None:
            self.rope_types.update({rope.scaling.rope_type for rope in line.ropes} or {"none"})

    def to_dict(self) -> dict[str, Any]:
        """Give the counts as plain values for JSON."""
        return {
            "schema": SUMMARY_SCHEMA,
            "files": self.files,
            "skipped": self.skipped,
            "unreadable": self.unreadable,
            "findings": {name: self.severities[name] for name in ("error", "warning", "note")},
            "rope_types": dict(sorted(self.rope_types.items())),
        }


def files_in(root: Path) -> list[Path]:
    """Give the JSON and GGUF files under a directory, in order, each once; links are followed, loops are not.

    Raises:
        RopewalkError: for a directory that cannot be listed, or more than a million files.
    """
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()
    _collect(root, seen, found, depth=0)
    return found


def _collect(directory: Path, seen: set[tuple[int, int]], found: list[Path], *, depth: int) -> None:
    try:
        state = os.stat(directory)  # noqa: PTH116 - os.scandir's entries are strings
        if depth > MAX_DEPTH or (state.st_dev, state.st_ino) in seen:
            return
        seen.add((state.st_dev, state.st_ino))
        with os.scandir(directory) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        if depth:
            return
        raise RopewalkError(f"{directory} cannot be listed: {error.strerror or error}. Check the path.") from error
    for entry in entries:
        path = directory / entry.name
        try:
            if entry.is_dir():
                _collect(path, seen, found, depth=depth + 1)
            elif entry.name.lower().endswith((".json", ".gguf")) and not _OTHERS.match(entry.name) and entry.is_file():
                state = entry.stat()
                if (state.st_dev, state.st_ino) not in seen:
                    seen.add((state.st_dev, state.st_ino))
                    found.append(path)
        except OSError:
            continue
    if len(found) > MAX_FILES:
        raise RopewalkError(f"{directory} holds more than {MAX_FILES} files. Inspect a part of it.")


def survey(files: list[Path]) -> Iterator[Line | None]:
    """Read files one after another; None stands for a JSON file that describes no model."""
    for path in files:
        try:
            if path.suffix.lower() != ".json":
                yield Line(path=path, model=read(path))
                continue
            data = read_json(path)
        except RopewalkError as error:
            yield Line(path=path, error=str(error))
            continue
        try:
            yield Line(path=path, model=read_family(data, str(path)))
        except RopewalkError as error:
            yield Line(path=path, error=str(error)) if _SURE.search(path.name) else None
