"""State: everything that a page shows, in its URL. Parsed, validated, and built in one canonical order."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, quote

from ..models.targets import preset_names
from ..simulation import DEFAULT_KEY, DEFAULT_QUERY

MAX_DIM = 1024
MAX_POSITION = 10**9
MAX_VECTOR_TEXT = 16_384
SCALINGS = ("default", "linear", "ntk", "dynamic", "yarn", "llama3", "proportional")
HIDEABLE = ("controls", "a", "b", "c", "lesson", "gate", "quiz", "engineers", "tour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Something wrong with a URL: which parameter, what was given, what is expected (kinds are translated)."""

    parameter: str
    given: str
    kind: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the message as plain values."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One description: a preset's rope, or d, base, pairing and scaling typed by the reader."""

    model: str = ""
    part: str = ""
    layer: int = 0
    d: int = 8
    base: float = 10000.0
    pairing: str = "interleaved"
    scaling: str = "default"
    factor: float = 4.0
    original: int = 4096
    length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    low: float = 1.0
    high: float = 4.0
    fraction: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the page shows.

    Attributes:
        a: the description.
        b: a second one to hold beside it, or None.
        pair: the pair being drawn.
        m: the query's position.
        n: the key's position.
        s: the shift of both positions.
        window: tokens that wavelengths are compared with.
        q: the reader's query numbers; cycled or cut to the width.
        k: the reader's key numbers, likewise.
        rows: "some" or "all" rows of long tables.
        embed: whether the page is shown inside another.
        hide: sections left out.
    """

    a: Side = Side()
    b: Side | None = None
    pair: int = 0
    m: int = 7
    n: int = 2
    s: int = 100
    window: int = 2048
    q: tuple[float, ...] = DEFAULT_QUERY
    k: tuple[float, ...] = DEFAULT_KEY
    rows: str = "some"
    embed: bool = False
    hide: tuple[str, ...] = ()

    @classmethod
    def parse(cls, query: str) -> tuple["State", tuple[Message, ...]]:
        """Read a query string: the state, and a message for each parameter that could not be taken."""
        messages: list[Message] = []
        values: dict[str, Any] = {}
        try:
            given = parse_qsl(query, keep_blank_values=True, max_num_fields=100, errors="replace")
        except ValueError:
            return cls(), (Message(parameter="?", given="", kind="too-many"),)
        for name, text in given:
            reader = _READERS.get(name) or _READERS_B.get(name)
            if reader is None:
                messages.append(Message(parameter=name[:40], given=text[:40], kind="unknown"))
                continue
            try:
                values[name] = reader(text)
            except _Refusal as refusal:
                messages.append(replace(refusal.message, parameter=name, given=text[:40]))
        state = cls._of(values)
        return state, tuple(messages)

    @classmethod
    def _of(cls, values: Mapping[str, Any]) -> "State":
        a = {name: value for name, value in values.items() if name in _SIDE}
        b = {name[2:]: value for name, value in values.items() if name.startswith("b.")}
        rest = {name: value for name, value in values.items() if name in _WHOLE}
        shown = Side(**a)
        if b == {"model": shown.model}:  # the form's "compare with nothing"
            b = {}
        return cls(a=shown, b=replace(shown, **b) if b else None, **rest)

    def query(self) -> str:
        """Give the canonical query string: parameters in a fixed order, defaults left out.

        >>> State(m=3, a=Side(d=64)).query()
        'd=64&m=3'
        """
        return "&".join(self._pieces().values())

    def _pieces(self) -> dict[str, str]:
        """Give the query string in pieces, by parameter, in canonical order."""
        pieces = {name: _piece(name, text) for name, text in self.written().items()}
        if self.b is not None:
            different = [name for name in _SIDE if getattr(self.b, name) != getattr(self.a, name)]
            for name in different or ["base"]:
                pieces[f"b.{name}"] = _piece(f"b.{name}", _text(getattr(self.b, name)))
        return pieces

    def change(self, **changes: Any) -> "State":
        """Give a copy with some values changed; names of the first description are taken as well."""
        side = {name: value for name, value in changes.items() if name in _SIDE}
        rest = {name: value for name, value in changes.items() if name not in _SIDE}
        return replace(self, a=replace(self.a, **side), **rest) if side else replace(self, **rest)

    def swapped(self) -> "State":
        """Give the state with its two descriptions exchanged; the same where there is one."""
        return self if self.b is None else replace(self, a=self.b, b=self.a)

    def side_differences(self) -> list[tuple[str, str]]:
        """Give the second description as form fields: what differs from the first, the model left out."""
        if self.b is None:
            return []
        return [
            (f"b.{name}", _text(getattr(self.b, name)))
            for name in _SIDE
            if name != "model" and getattr(self.b, name) != getattr(self.a, name)
        ]

    def written(self) -> dict[str, str]:
        """Give what differs from the defaults as text by parameter, the second description aside."""
        sides = ((_SIDE, self.a, _DEFAULT.a), (_WHOLE, self, _DEFAULT))
        return {
            name: _text(getattr(given, name))
            for names, given, default in sides
            for name in names
            if getattr(given, name) != getattr(default, name)
        }

    def link(self, **changes: Any) -> str:
        """Give the address of the state with some values changed, relative to the page."""
        query = self.change(**changes).query()
        return f"?{query}" if query else "?"

    def links(self, name: str, values: Iterable[Any]) -> list[str]:
        """Give link(name=value) for each of several values, for a parameter of the whole page; one pass for all.

        >>> State(m=3, window=64).links("pair", [0, 1])
        ['?m=3&window=64', '?pair=1&m=3&window=64']
        """
        pieces, order = self._pieces(), (*_SIDE, *_WHOLE)
        place, default = order.index(name), getattr(_DEFAULT, name)
        earlier = [piece for other, piece in pieces.items() if other in order[:place]]
        later = [piece for other, piece in pieces.items() if other not in order[: place + 1]]
        return [
            "?" + "&".join([*earlier, *([] if value == default else [_piece(name, _text(value))]), *later])
            for value in values
        ]

    def to_dict(self) -> dict[str, Any]:
        """Give the state as plain values."""
        whole = {name: getattr(self, name) for name in _WHOLE}
        return {
            **{name: getattr(self.a, name) for name in _SIDE},
            **{name: list(value) if isinstance(value, tuple) else value for name, value in whole.items()},
            "b": None if self.b is None else {name: getattr(self.b, name) for name in _SIDE},
        }

    def vectors(self, width: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Give query and key at some width: the reader's numbers, cycled when longer and cut when shorter."""
        return _cycled(self.q, width), _cycled(self.k, width)


class _Refusal(Exception):
    def __init__(self, kind: str, **details: Any) -> None:
        super().__init__(kind)
        self.message = Message(parameter="", given="", kind=kind, **details)


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text) if len(text) <= 20 else None
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise _Refusal("whole", low=low, high=high)
        return value

    return read


def _real(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text) if len(text) <= 40 else math.nan
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value <= high):
            raise _Refusal("number", low=low, high=high)
        return value

    return read


def _choice(choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise _Refusal("choice", choices=choices if len(choices) < 20 else ())
        return text

    return read


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise _Refusal("choice", choices=("0", "1"))
    return text == "1"


def _words(text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word for word in text.split(",") if word))
    if any(word not in HIDEABLE for word in words):
        raise _Refusal("choice", choices=HIDEABLE)
    return words


def _name(text: str) -> str:
    if len(text) > 40 or not all(letter.isalnum() or letter in "_-." for letter in text):
        raise _Refusal("name")
    return text


def _model(text: str) -> str:
    if text and text != "start" and text not in preset_names():
        raise _Refusal("model")
    return text


def _vector(text: str) -> tuple[float, ...]:
    if len(text) > MAX_VECTOR_TEXT:
        raise _Refusal("vector", high=MAX_DIM)
    parts = [part.strip() for part in text.replace(";", ",").split(",")]
    try:
        numbers = tuple(float(part) for part in parts if part)
    except ValueError as error:
        raise _Refusal("vector", high=MAX_DIM) from error
    if not 1 <= len(numbers) <= MAX_DIM or not all(abs(number) <= 1e6 for number in numbers):
        raise _Refusal("vector", high=MAX_DIM)
    return numbers


_SIDE: dict[str, Callable[[str], Any]] = {
    "model": _model,
    "part": _name,
    "layer": _whole(0, 9999),
    "d": _whole(2, MAX_DIM),
    "base": _real(1e-3, 1e15),
    "pairing": _choice(("interleaved", "half")),
    "scaling": _choice(SCALINGS),
    "factor": _real(1e-3, 1e6),
    "original": _whole(1, MAX_POSITION),
    "length": _whole(0, MAX_POSITION),
    "beta_fast": _real(1e-3, 1e6),
    "beta_slow": _real(1e-3, 1e6),
    "truncate": _flag,
    "low": _real(1e-3, 1e6),
    "high": _real(1e-3, 1e6),
    "fraction": _real(1e-3, 1.0),
}
_WHOLE: dict[str, Callable[[str], Any]] = {
    "pair": _whole(0, MAX_DIM // 2),
    "m": _whole(-MAX_POSITION, MAX_POSITION),
    "n": _whole(-MAX_POSITION, MAX_POSITION),
    "s": _whole(-MAX_POSITION, MAX_POSITION),
    "window": _whole(1, MAX_POSITION),
    "q": _vector,
    "k": _vector,
    "rows": _choice(("some", "all")),
    "embed": _flag,
    "hide": _words,
}
_READERS: Mapping[str, Callable[[str], Any]] = {**_SIDE, **_WHOLE}
_READERS_B: Mapping[str, Callable[[str], Any]] = {f"b.{name}": reader for name, reader in _SIDE.items()}
_DEFAULT = State()


def _piece(name: str, text: str) -> str:
    return f"{name}={quote(text, safe=',:')}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, tuple):
        return ",".join(_text(entry) for entry in value)
    return str(value)


def number_text(value: float) -> str:
    """Write a number so that it reads back the same, without a needless .0.

    >>> number_text(10000.0), number_text(0.25), number_text(1e-05)
    ('10000', '0.25', '1e-05')
    """
    return str(int(value)) if value == int(value) and abs(value) < 1e16 else repr(value)


def _cycled(numbers: Iterable[float], width: int) -> tuple[float, ...]:
    given = tuple(numbers)
    return tuple(given[i % len(given)] for i in range(width))


# every parameter's default as text, in the canonical order of addresses
DEFAULT_TEXTS: Mapping[str, str] = {
    name: _text(getattr(part, name)) for names, part in ((_SIDE, _DEFAULT.a), (_WHOLE, _DEFAULT)) for name in names
}
