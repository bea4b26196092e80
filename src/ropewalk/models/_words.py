"""A file of another family put into the words of the Hugging Face reader, each remembering what the file calls it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._checks import shown
from ..findings import Finding
from ._homes import Blocks
from ._layers import plain_layers, read_layers
from ._reading import Reading, UnreadableError, View
from .architectures import Architecture
from .model import Layer, Model


class Translated(View):
    """A View whose keys are the reader's words and whose `key` gives the file's own.

    Attributes:
        origins: by word, the path of the key in the file, or the place in the code that a constant stands at.
    """

    def __init__(self, data: Mapping[str, Any], reading: Reading, origins: Mapping[str, str], path: str = "") -> None:
        super().__init__(data, reading, path)
        self.origins = origins

    def key(self, name: str) -> str:
        """Give what the file calls a word, or where the constant comes from."""
        return self.origins.get(name) or super().key(name)


@dataclass
class Words:
    """Collects words and their origins.

    Attributes:
        data: by word, the value.
        origins: by word, the key it came from.
    """

    data: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def take(self, data: Mapping[str, Any], table: Mapping[str, str], path: str = "") -> "Words":
        """Take the keys of a file that a table {key: word} names; of two keys for one word the first that is set."""
        for key, word in table.items():
            origin = f"{path}.{key}" if path else key
            self.origins.setdefault(word, origin)
            if key in data and self.data.get(word) is None:
                self.data[word] = data[key]
                self.origins[word] = origin
        return self

    def put(self, word: str, value: object, origin: str) -> "Words":
        """Put a value that the code has and the file has not, where the file does not set it."""
        if self.data.get(word) is None:
            self.data[word] = value
            self.origins[word] = origin
        return self

    def view(self, reading: Reading, path: str = "") -> Translated:
        """Give the words as a view."""
        return Translated(self.data, reading, self.origins, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a model of another family, read.

    Attributes:
        name: "text", "vision".
        reading: its findings and sources.
        layers: its layers.
        positions: what it uses instead, where it has no RoPE.
    """

    name: str
    reading: Reading
    layers: tuple[Layer, ...]
    positions: str | None = None


def read_part(name: str, words: Words, arch: Architecture, block: "BlockReader | None" = None) -> Part:
    """Read a part with RoPE: its words, the facts of its code, and a function that gives the words of its scaling.

    The function may adapt the facts, and may refuse by raising UnreadableError; the layers then have no rope.
    """
    reading = Reading(name)
    view = words.view(reading)
    try:
        scaling, arch = (Words(), arch) if block is None else block(view, arch)
    except UnreadableError:
        return Part(name=name, reading=reading, layers=plain_layers(view, arch))
    path = scaling.data.pop("path", "")
    scaling.origins.setdefault("rope_theta", view.key("rope_theta"))
    flat = scaling.view(reading, path)
    return Part(name=name, reading=reading, layers=read_layers(view, arch, Blocks(flat=flat, nested={})))


BlockReader = Callable[[View, Architecture], tuple[Words, Architecture]]


def without_rope(name: str, words: Words, arch: Architecture, positions: str, origin: str) -> Part:
    """Give a part that has no RoPE, and say where that is known from."""
    reading = Reading(name)
    reading.source("rope", origin)
    return Part(name=name, reading=reading, layers=plain_layers(words.view(reading), arch), positions=positions)


def adapted(layers: Sequence[Layer], change: Callable[[Layer], Layer]) -> tuple[Layer, ...]:
    """Change every layer, keeping layers that are one object one object."""
    changed: dict[int, Layer] = {}
    for layer in layers:
        if id(layer) not in changed:
            changed[id(layer)] = change(layer)
    return tuple(changed[id(layer)] for layer in layers)


def model_of(parts: Iterable[Part], *, target: str, model_type: str | None = None) -> Model:
    """Put parts together to a Model."""
    findings: dict[Finding, None] = {}
    sources: dict[str, str] = {}
    layers: dict[str, tuple[Layer, ...]] = {}
    positions: dict[str, str] = {}
    for part in parts:
        layers[part.name] = part.layers
        if part.positions is not None:
            positions[part.name] = part.positions
        findings |= part.reading.findings
        sources |= part.reading.sources
    return Model(
        parts=layers,
        model_type=model_type,
        target=target,
        positions=positions,
        findings=tuple(findings),
        sources=sources,
    )


def note_unread(view: View, name: str, message: str) -> None:
    """Warn of a key that the family's code does not read in this place."""
    view.reading.find(
        "key-unused",
        key=view.key(name),
        seen=shown(view.data.get(name)),
        right="a key that the code reads",
        message=message,
    )
