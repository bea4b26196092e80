"""Python that builds the ropes."""

from pprint import pformat
from textwrap import indent

from .._version import __version__
from ..inspection import _layers_words as layers_words
from ..rope import Rope
from ._settings import Settings
from ._subject import Subject


def python(subject: Subject) -> Settings:
    """Give Python that builds the rope, or a dict of every rope by the layers that use it."""
    if subject.single is not None:
        body = f"rope = {_call(subject.single)}"
    else:
        entries = "".join(f"    {name!r}: {indent(_call(rope), '    ').lstrip()},\n" for name, rope in _named(subject))
        body = f"ropes = {{\n{entries}}}"
    text = f"from ropewalk import Rope\n\n{body}\n"
    notes = (f"reads back in ropewalk {__version__}",)
    return Settings(engine="python", version=f"ropewalk {__version__}", text=text, notes=notes)


def _named(subject: Subject) -> list[tuple[str, Rope]]:
    found: dict[tuple[str, Rope], list[int]] = {}
    for number, layer in enumerate(subject.layers):
        for use, rope in layer.ropes.items():
            found.setdefault((use, rope), []).append(number)
    return [
        (f"{subject.part} {layers_words(numbers)}{'' if use == 'attention' else f' {use}'}", rope)
        for (use, rope), numbers in found.items()
    ]


def _call(rope: Rope) -> str:
    return f"Rope.from_dict(\n{indent(pformat(rope.to_dict(), sort_dicts=False), '    ')}\n)"
