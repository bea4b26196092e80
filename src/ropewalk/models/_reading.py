"""Reading a configuration key by key, remembering where each value came from and what was odd about it."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .._checks import MAX_POSITION, shown
from ..findings import Finding

ALIKE = 100  # findings of one kind about one part; a list of 100,000 unused keys helps nobody


class UnreadableError(Exception):
    """A value that a rope needs cannot be used; the error finding that says so has been recorded."""


class Reading:
    """What has been learnt so far about one part of a model.

    Attributes:
        part: the part's name, "text".
        findings: in order, each once.
        sources: by value, where it came from.
    """

    def __init__(self, part: str) -> None:
        self.part = part
        self.findings: dict[Finding, None] = {}
        self.sources: dict[str, str] = {}
        self._alike: Counter[str] = Counter()

    def find(self, name: str, *, key: str, seen: object, right: str, message: str) -> None:
        """Record a finding about a key of this part; those of one kind are ALIKE at most."""
        self._alike[name] += 1
        if self._alike[name] > ALIKE:
            return
        if self._alike[name] == ALIKE:
            message += " Any further ones of this kind are left out."
        seen_words = seen if isinstance(seen, str) else shown(seen)
        finding = Finding.of(name, where=f"{self.part}: {key}", seen=seen_words, right=right, message=message)
        self.findings[finding] = None

    def fail(self, name: str, *, key: str, seen: object, right: str, message: str) -> UnreadableError:
        """Record an error finding and give the exception to raise."""
        self.find(name, key=key, seen=seen, right=right, message=message)
        return UnreadableError(message)

    def source(self, value: str, origin: str, label: str | None = None) -> None:
        """Record where a value came from; the first word stands."""
        self.sources.setdefault(".".join(filter(None, (self.part, label, value))), origin)


class View:
    """One object of a configuration, with the path that leads to it.

    Attributes:
        data: the object.
        reading: where findings and sources go.
        path: the keys that lead to the object, joined by dots.
        homes: the path of single keys, where the object was joined from two.
    """

    def __init__(
        self, data: Mapping[str, Any], reading: Reading, path: str = "", homes: Mapping[str, str] | None = None
    ) -> None:
        self.data = data
        self.reading = reading
        self.path = path
        self.homes = homes or {}

    def key(self, name: str) -> str:
        """Give the full path of a key."""
        path = self.homes.get(name, self.path)
        return f"{path}.{name}" if path else name

    def __contains__(self, name: str) -> bool:
        return self.data.get(name) is not None

    def sub(self, name: str) -> "View | None":
        """Give the object under a key, or None where there is none."""
        value = self.data.get(name)
        return View(value, self.reading, self.key(name)) if isinstance(value, Mapping) else None

    def first(self, names: Iterable[str]) -> str | None:
        """Give the first of several spellings that is present and not null; a null among them is noted."""
        for name in names:
            if self.data.get(name) is not None:
                return name
            if name in self.data:
                self.note_null(name)
        return None

    def note_null(self, name: str) -> None:
        """Note that a null is read as an absent key."""
        self.reading.find(
            "null-absent",
            key=self.key(name),
            seen="null",
            right="absent",
            message=f"{self.key(name)} is null, which is read as if the key were absent.",
        )

    def note_text(self, name: str, value: str, number: float) -> None:
        """Note that a number is written as text."""
        self.reading.find(
            "number-as-text",
            key=self.key(name),
            seen=shown(value),
            right=f"{number:g}",
            message=f"{self.key(name)} is written as text, {shown(value)}; it is read as the number {number:g}.",
        )

    def number(self, name: str, *, above: float | None = None, at_least: float | None = None) -> float | None:
        """Give the number under a key; None where absent or null. A numeric string is taken and noted."""
        value = self.data.get(name)
        if value is None:
            if name in self.data:
                self.note_null(name)
            return None
        number = _as_number(value)
        if number is None or (above is not None and number <= above) or (at_least is not None and number < at_least):
            bound = (
                f" above {above:g}"
                if above is not None
                else f" of at least {at_least:g}"
                if at_least is not None
                else ""
            )
            raise self.reading.fail(
                "value-unusable",
                key=self.key(name),
                seen=value,
                right=f"a finite number{bound}",
                message=f"{self.key(name)} must be a finite number{bound}, got {shown(value)}. Correct it in the file.",
            )
        if isinstance(value, str):
            self.note_text(name, value, number)
        return number

    def whole(self, name: str, *, at_least: int = 1, at_most: int = MAX_POSITION) -> int | None:
        """Give the whole number under a key; None where absent or null."""
        number = self.number(name)
        if number is None:
            return None
        if number != int(number) or not at_least <= number <= at_most:
            raise self.reading.fail(
                "value-unusable",
                key=self.key(name),
                seen=self.data[name],
                right=f"a whole number from {at_least} to {at_most}",
                message=f"{self.key(name)} must be a whole number from {at_least} to {at_most}, "
                f"got {shown(self.data[name])}. Correct it in the file.",
            )
        return int(number)

    def flag(self, name: str) -> bool | None:
        """Give the truth value under a key; None where absent or null. 0 and 1 count."""
        value = self.data.get(name)
        if value is None:
            if name in self.data:
                self.note_null(name)
            return None
        if value is True or value is False or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        raise self.reading.fail(
            "value-unusable",
            key=self.key(name),
            seen=value,
            right="true or false",
            message=f"{self.key(name)} must be true or false, got {shown(value)}. Correct it in the file.",
        )

    def numbers(self, name: str, *, at_most: int, above: float | None = None) -> tuple[float, ...] | None:
        """Give the list of numbers under a key; None where absent or null."""
        value = self.data.get(name)
        if value is None:
            if name in self.data:
                self.note_null(name)
            return None
        entries = [_as_number(entry) for entry in value[: at_most + 1]] if isinstance(value, list | tuple) else []
        if (
            not entries
            or len(entries) > at_most
            or any(n is None or (above is not None and n <= above) for n in entries)
        ):
            raise self.reading.fail(
                "value-unusable",
                key=self.key(name),
                seen=value,
                right=f"a list of 1 to {at_most} finite numbers",
                message=f"{self.key(name)} must be a list of 1 to {at_most} finite numbers"
                f"{f' above {above:g}' if above is not None else ''}, got {shown(value)}. Correct it in the file.",
            )
        for entry, number in zip(value, entries, strict=True):
            if isinstance(entry, str) and number is not None:
                self.note_text(name, entry, number)
        return tuple(entry for entry in entries if entry is not None)


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > 40:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
