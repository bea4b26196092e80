"""What every live piece shares: its controls, read from the lesson's address, and the HTML that frames it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from markupsafe import Markup, escape

from ..i18n import Speech
from ..state import Message, State, _choice, _flag, _real, _Refusal, _whole, number_text
from ..wording import message_words

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One thing about a piece that the reader may change.

    Attributes:
        name: its parameter in the address.
        default: the value where the address does not say.
        read: text to a value, or a refusal.
        kind: "whole", "number", "choice", "flag" or "text", for the input that is drawn.
        low: the smallest number taken.
        high: the largest number taken.
        options: what a choice offers.
    """

    name: str
    default: Any
    read: Callable[[str], Any]
    kind: str
    low: float | None = None
    high: float | None = None
    options: tuple[str, ...] = ()

    def text(self, value: Any) -> str:
        """Write a value as the address has it."""
        if isinstance(value, bool):
            return str(int(value))
        return number_text(value) if isinstance(value, float) else str(value)

    def input(self, value: Any, label: Markup) -> Markup:
        """Draw the control with its label."""
        text = self.text(value)
        if self.kind == "choice":
            options = joined(
                Markup("<option{}>{}</option>").format(Markup(" selected") if option == text else "", option)
                for option in self.options
            )
            return Markup('<label>{} <select name="{}">{}</select></label>').format(label, self.name, options)
        if self.kind == "flag":
            checked = Markup(" checked") if value else ""
            return Markup('<label><input type="checkbox" name="{}" value="1"{}> {}</label>').format(
                self.name, checked, label
            )
        if self.kind == "text":
            return Markup(
                '<label>{} <input type="text" name="{}" value="{}" size="8" spellcheck="false"></label>'
            ).format(label, self.name, text)
        step = "1" if self.kind == "whole" else "any"
        low, high = number_text(self.low or 0), number_text(self.high or 0)
        return Markup(
            '<label>{} <input type="number" name="{}" value="{}" min="{}" max="{}" step="{}"></label>'
        ).format(label, self.name, text, low, high, step)


def whole(name: str, default: int, low: int, high: int) -> Control:
    """Give a control for a whole number."""
    return Control(name=name, default=default, read=_whole(low, high), kind="whole", low=low, high=high)


def real(name: str, default: float, low: float, high: float) -> Control:
    """Give a control for a number."""
    return Control(name=name, default=default, read=_real(low, high), kind="number", low=low, high=high)


def choice(name: str, default: Any, options: Iterable[Any]) -> Control:
    """Give a control for one of a few values, all of one type."""
    texts, read = tuple(map(str, options)), type(default)
    check = _choice(texts)
    return Control(name=name, default=default, read=lambda text: read(check(text)), kind="choice", options=texts)


def flag(name: str) -> Control:
    """Give a control that is on or off."""
    return Control(name=name, default=False, read=_flag, kind="flag")


def letters(name: str, default: str, alphabet: str, least: int, most: int) -> Control:
    """Give a control for a short word over a few letters."""

    def read(text: str) -> str:
        word = text.strip().upper()
        if not least <= len(word) <= most or set(word) - set(alphabet):
            raise _Refusal("name")
        return word

    return Control(name=name, default=default, read=read, kind="text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A live piece: call it with a Speech and the lesson's query string.

    Attributes:
        name: what a lesson calls it by.
        draw: the piece's body for checked values.
        title: what a screen reader calls it.
        controls: what the reader may change.
        labels: the controls' labels by name.
    """

    name: str
    draw: Callable[[Speech, Values], Markup]
    title: Callable[[Speech], Markup]
    controls: tuple[Control, ...] = ()
    labels: Callable[[Speech], Mapping[str, Markup]] = lambda _: {}

    def __call__(self, _: Speech, query: str = "") -> Markup:
        """Draw the piece; parameters that cannot be taken fall back to their defaults, with a message."""
        values, messages = self.parse(query)
        return Markup(
            '<div class="piece piece-{name}" id="piece-{name}" role="group" aria-label="{title}">\n'
            "{messages}{form}{body}</div>\n"
        ).format(
            name=self.name,
            title=self.title(_),
            messages=joined(
                Markup('<p class="message" role="alert">{}</p>\n').format(message_words(message, _))
                for message in messages
            ),
            form=self._form(_, values, _embedded(query)),
            body=self.draw(_, values),
        )

    def parse(self, query: str) -> tuple[dict[str, Any], tuple[Message, ...]]:
        """Read a query string: a value for every control, and messages for what could not be taken.

        Parameters of the simulator's state are no mistake here; they are left alone.
        """
        own = {control.name: control for control in self.controls}
        values = {control.name: control.default for control in self.controls}
        state_messages = State.parse(query)[1]
        messages = [
            message
            for message in state_messages
            if message.kind in ("unknown", "too-many") and message.parameter not in own
        ]
        for name, text in _pairs(query):
            if name not in own:
                continue
            try:
                values[name] = own[name].read(text)
            except _Refusal as refusal:
                messages.append(replace(refusal.message, parameter=name, given=text[:40]))
        return values, tuple(messages)

    def query(self, values: Values, **changes: Any) -> str:
        """Give the canonical query string of some values: controls in order, defaults left out."""
        shown = {**values, **changes}
        return urlencode(
            [
                (control.name, control.text(shown[control.name]))
                for control in self.controls
                if shown[control.name] != control.default
            ],
            quote_via=quote,
        )

    def link(self, values: Values, **changes: Any) -> str:
        """Give the address of the piece with some values changed, relative to the lesson."""
        return f"?{self.query(values, **changes)}#piece-{self.name}"

    def _form(self, _: Speech, values: Values, embedded: bool) -> Markup:
        if not self.controls:
            return Markup("")
        labels = self.labels(_)
        return Markup(
            '<form class="try" method="get" action="#piece-{}">{}{} <button type="submit">{}</button></form>\n'
        ).format(
            self.name,
            Markup('<input type="hidden" name="embed" value="1">') if embedded else "",
            Markup(" ").join(control.input(values[control.name], labels[control.name]) for control in self.controls),
            _("Show"),
        )


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, max_num_fields=100, errors="replace")
    except ValueError:
        return []


def _embedded(query: str) -> bool:
    return ("embed", "1") in _pairs(query)


# --- HTML ------------------------------------------------------------------------------------------------------------


def joined(parts: Iterable[Any]) -> Markup:
    """Join parts of HTML; plain text among them is escaped."""
    return Markup("").join(parts)


def table(
    caption: Markup, head: Sequence[Any], rows: Iterable[Sequence[Any]], *, foot: Sequence[Any] | None = None
) -> Markup:
    """Give a table in its own scrolling box; the first cell of a row is its heading."""
    columns = joined(Markup('<th scope="col">{}</th>').format(words) for words in head)
    body = joined(_row(row) for row in rows)
    total = Markup("<tfoot>{}</tfoot>").format(_row(foot)) if foot else ""
    return Markup(
        '<div class="scroll" role="region" tabindex="0" aria-label="{}"><table class="data">\n<caption>{}</caption>\n'
        "<thead><tr>{}</tr></thead>\n<tbody>{}</tbody>{}</table></div>\n"
    ).format(caption.striptags(), caption, columns, body, total)


def _row(cells: Sequence[Any]) -> Markup:
    first, *rest = cells
    return Markup('<tr><th scope="row">{}</th>{}</tr>\n').format(
        first, joined(Markup("<td>{}</td>").format(cell) for cell in rest)
    )


def svg(
    kind: str, width: float, height: float, label: Any, parts: Iterable[str], *, fixed_size: bool = False
) -> Markup:
    """Give a figure; one of fixed size stands in a line of text and wraps like a word."""
    size = f' width="{width:g}" height="{height:g}"' if fixed_size else ""
    inside = "".join(parts)  # the pieces' own shapes; labels in them were escaped where they were made
    return Markup(
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}"{size} role="img" aria-label="{escape(label)}">'
        f"{inside}</svg>\n"
    )


def words(x: float, y: float, text: Any, *, kind: str = "tick", anchor: str = "middle", size: float = 11) -> str:
    """Give a word in a figure."""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}" fill="currentColor">'
        f"{escape(text)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> str:
    """Give a straight stroke in a figure."""
    return f'<line class="{kind}" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="currentColor"/>'


def polyline(points: Iterable[tuple[float, float]], kind: str = "line") -> str:
    """Give a curve in a figure."""
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{text}" fill="none" stroke="currentColor"/>'


def short(value: float, digits: int = 6) -> str:
    """Write a number with at most so many decimals and no idle zeros.

    >>> short(99.99), short(9999.0), short(-0.0000001)
    ('99.99', '9999', '0')
    """
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def vector(numbers: Iterable[float], digits: int = 6) -> str:
    """Write a vector.

    >>> vector([1.0, -0.0], 3)
    '(1.000, 0.000)'
    """
    return f"({', '.join(plain(number, digits) for number in numbers)})"


def plain(value: float, digits: int = 6) -> str:
    """Write a number with a fixed count of decimals, and no minus before a zero."""
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and float(text) == 0 else text
