"""Languages: translated labels from gettext catalogs, and numbers as each language writes them in prose."""

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape

LANGUAGES: Mapping[str, str] = {"en": "English", "vi": "Tiếng Việt", "zh": "中文"}
HTML_TAGS: Mapping[str, str] = {"en": "en", "vi": "vi", "zh": "zh-Hans"}
# decimal mark and thousands mark in running prose; figures, tables, readings and inputs use a dot everywhere
_MARKS: Mapping[str, tuple[str, str]] = {"en": (".", ","), "vi": (",", "."), "zh": (".", ",")}


@cache
def catalog(lang: str) -> Mapping[str, str]:
    """Give the translations of one language by their English text; English has none."""
    if lang == "en":
        return {}
    from babel.messages.pofile import read_po

    path = files("ropewalk.explorer") / "locale" / lang / "LC_MESSAGES" / "explorer.po"
    with path.open("rb") as file:
        messages = read_po(file, locale=lang)
    return {str(entry.id): str(entry.string) for entry in messages if entry.id and entry.string and not entry.fuzzy}


@lru_cache(maxsize=4096)
def _label(lang: str, text: str) -> Markup:
    return escape(catalog(lang).get(text, text))


class Speech:
    """One language: translate labels, fill in their placeholders, and write numbers."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self.tag = HTML_TAGS[lang]
        self.decimal, self.thousands = _MARKS[lang]

    def __call__(self, text: str, **values: Any) -> Markup:
        """Translate an English label; placeholders in braces are filled in and escaped."""
        words = _label(self.lang, text)
        if not values:
            return words
        return Markup(str(words).format_map({name: str(escape(value)) for name, value in values.items()}))

    def number(self, value: float, digits: int = 6, *, grouped: bool = True) -> str:
        """Write a number for running prose."""
        text = f"{value:,.{digits}f}" if grouped else f"{value:.{digits}f}"
        return text.replace(",", "\0").replace(".", self.decimal).replace("\0", self.thousands)

    def turns(self, count: int) -> Markup:
        """Say how many full turns an angle holds."""
        if count == 0:
            return self("no full turn")
        return self("one full turn") if count == 1 else self("{count} full turns", count=count)


def N_(text: str) -> str:
    """Mark a label for translation where it is only named; it is translated where it is shown."""
    return text


def negotiate(header: str | None) -> str:
    """Choose the language from an Accept-Language header, English where none fits.

    >>> negotiate("fr, vi;q=0.8, en;q=0.5"), negotiate("zh-TW"), negotiate(None)
    ('vi', 'zh', 'en')
    """
    wishes = []
    for place, part in enumerate((header or "")[:1000].split(",")):
        tag, _, parameters = part.strip().partition(";")
        try:
            weight = float(parameters.strip().removeprefix("q=")) if parameters else 1.0
        except ValueError:
            weight = 0.0
        wishes.append((-weight, place, tag.strip().lower().split("-")[0]))
    return next((tag for weight, _, tag in sorted(wishes) if tag in LANGUAGES and weight < 0), "en")
