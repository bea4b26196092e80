"""Small checks of values, shared by every description; each error names the value and what was expected."""

import math
import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from numbers import Integral, Real
from typing import Any

from .errors import RopewalkError

MAX_HEAD_DIM = 65_536
MAX_LAYERS = 10_000
MAX_POSITION = 2**53


class _Brief(reprlib.Repr):
    """A repr that is quick and short whatever the value."""

    def __init__(self) -> None:
        super().__init__()  # Python 3.11 takes no arguments here
        self.maxlevel = 4
        self.maxlist = self.maxtuple = 8
        self.maxdict = self.maxset = 6
        self.maxstring = self.maxother = self.maxlong = 80


_BRIEF = _Brief()


def real(name: str, value: object, *, above: float | None = None, at_least: float | None = None) -> float:
    """Return value as a finite float, or raise naming the bound that it breaks."""
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an int beyond float64
            number = math.nan
    expected = "a finite number"
    if above is not None:
        expected += f" above {above:g}"
    if at_least is not None:
        expected += f" of at least {at_least:g}"
    low = (above is not None and not number > above) or (at_least is not None and not number >= at_least)
    if not math.isfinite(number) or low:
        raise RopewalkError(f"{name} must be {expected}, got {shown(value)}.")
    return number


def whole(name: str, value: object, *, at_least: int = 0, at_most: int = MAX_POSITION) -> int:
    """Return value as an int within bounds, or raise naming them."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else real(name, value)
    if number != int(number) or not at_least <= number <= at_most:
        raise RopewalkError(f"{name} must be a whole number from {at_least} to {at_most}, got {shown(value)}.")
    return int(number)


def choice(name: str, value: object, allowed: tuple[Any, ...]) -> Any:
    """Return the one of allowed that value equals, or raise listing them."""
    if isinstance(value, bool) or not isinstance(value, str | Integral) or value not in allowed:
        raise RopewalkError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}.")
    return allowed[allowed.index(value)]


def truth(name: str, value: object) -> bool:
    """Return value when it is a bool, or raise."""
    if not isinstance(value, bool):
        raise RopewalkError(f"{name} must be true or false, got {shown(value)}.")
    return value


def items(name: str, value: object, *, at_most: int = MAX_HEAD_DIM) -> tuple[Any, ...]:
    """Return value as a tuple when it is a list of bounded length, or raise."""
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__") or not hasattr(value, "__iter__"):
        raise RopewalkError(f"{name} must be a list, got {shown(value)}.")
    if len(value) > at_most:  # type: ignore[arg-type]
        raise RopewalkError(f"{name} may hold at most {at_most} entries, got {len(value)}.")  # type: ignore[arg-type]
    return tuple(value)  # type: ignore[arg-type]


def shown(value: object, limit: int = 60) -> str:
    """Show value in an error, cut to a line."""
    try:
        text = _BRIEF.repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__} too large to show"
    return text if len(text) <= limit else f"{text[:limit]}…"


def plain(value: Any) -> Any:
    """Turn tuples into lists, for JSON."""
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def fields_to_dict(instance: Any) -> dict[str, Any]:
    """Give the fields of a description as a dict of plain values."""
    return {entry.name: plain(getattr(instance, entry.name)) for entry in fields(instance)}


def fields_from_dict(cls: type, data: object, what: str, *, ignore: tuple[str, ...] = ()) -> dict[str, Any]:
    """Check that data holds only fields of cls and all that have no default; give them as keyword arguments."""
    assert is_dataclass(cls)
    if not isinstance(data, Mapping):
        raise RopewalkError(f"{what} must be an object, got {shown(data)}.")
    known = {entry.name: entry for entry in fields(cls) if entry.init}
    given = {key: value for key, value in data.items() if key not in ignore}
    unknown = [key for key in given if key not in known]
    if unknown:
        listed = ", ".join(shown(key) for key in unknown[:8]) + (", …" if len(unknown) > 8 else "")
        raise RopewalkError(f"{what} has unknown keys {listed}; known are {', '.join(known)}. Remove them.")
    missing = [
        name
        for name, entry in known.items()
        if name not in given and entry.default is MISSING and entry.default_factory is MISSING
    ]
    if missing:
        raise RopewalkError(f"{what} lacks {', '.join(missing)}. Add {'it' if len(missing) == 1 else 'them'}.")
    return given


def check_schema(data: object, schema: str, what: str) -> None:
    """Raise unless data is an object that carries this schema; checked before its keys, which depend on it."""
    if not isinstance(data, Mapping):
        raise RopewalkError(f"{what} must be an object, got {shown(data)}.")
    if data.get("schema") != schema:
        raise RopewalkError(f"{what} must have the schema {schema!r}, got {shown(data.get('schema'))}.")
