"""What is to be exported: one rope, or the layers of one part of a model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._checks import whole
from ..comparison.sides import check_whole
from ..errors import RopewalkError
from ..inspection import _layers_words as layers_words
from ..models._layers import _label_of
from ..models.architectures import Architecture, architecture
from ..models.huggingface import PART_NAMES
from ..models.model import Layer, Model
from ..models.targets import read
from ..rope import Rope


class Refused(RopewalkError):
    """An engine's settings cannot say this rope; nothing was written.

    Attributes:
        engine: the name of the engine.
        reason: why, in one sentence without a full stop.
        lost: what the engine would lose or turn otherwise: "truncate", "rope_theta" ….
    """

    def __init__(self, engine: str, reason: str, lost: Iterable[str] = (), hint: str = "") -> None:
        self.engine = engine
        self.reason = reason
        self.lost = tuple(dict.fromkeys(lost))
        listed = f" Lost: {', '.join(self.lost)}." if self.lost else ""
        super().__init__(f"{engine} cannot say this: {reason}.{listed}{f' {hint}' if hint else ''}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The layers of one type, and the rope that they share.

    Attributes:
        label: the layer type whose parameters these are, or None.
        rope: their rope.
        layers: their numbers.
    """

    label: str | None
    rope: Rope
    layers: tuple[int, ...]

    @property
    def words(self) -> str:
        """Name the layers."""
        return f"{layers_words(list(self.layers))}{f' ({self.label})' if self.label else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is exported.

    Attributes:
        name: what was read, in words.
        layers: the layers of the part; one for a bare rope.
        model_type: the architecture of the part, None for a bare rope or where it is not known here.
        root: the model_type of the whole configuration.
        home: the key under which the part stands in the configuration, "" at the top.
        part: the part's name, "" for a bare rope.
        kind: the type of the layer that a bare rope was taken from, or None.
        stands_in: whether the architecture is not its own, but one that could carry its rope.
    """

    name: str
    layers: tuple[Layer, ...]
    model_type: str | None = None
    root: str | None = None
    home: str = ""
    part: str = ""
    kind: str | None = None
    stands_in: bool = False

    @property
    def arch(self) -> Architecture:
        """The facts about its architecture."""
        return architecture(self.model_type)

    @property
    def ropes(self) -> tuple[Rope, ...]:
        """The distinct ropes of its layers, those of an indexer included."""
        return tuple(dict.fromkeys(rope for layer in self.layers for rope in layer.ropes.values()))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The attention's ropes by the layer type that a configuration gives them under."""
        arch = self.arch
        found: dict[tuple[str | None, Rope], list[int]] = {}
        kinds = {layer.kind for layer in self.layers if layer.rope is not None}
        labels: Mapping[str, Any] = arch.labels
        if not labels and len({layer.rope for layer in self.layers if layer.rope is not None}) > 1:
            labels = dict.fromkeys(kind for kind in kinds if kind is not None)
        for number, layer in enumerate(self.layers):
            if layer.rope is not None:
                found.setdefault((_label_of(layer.kind, arch, labels), layer.rope), []).append(number)
        return tuple(Group(label=label, rope=rope, layers=tuple(n)) for (label, rope), n in found.items())

    @property
    def single(self) -> Rope | None:
        """The only rope, or None where there are several."""
        return self.ropes[0] if len(self.ropes) == 1 else None

    @property
    def without_rope(self) -> tuple[int, ...]:
        """The numbers of the layers that turn nothing."""
        return tuple(number for number, layer in enumerate(self.layers) if not layer.ropes)


def bare(rope: Rope, name: str = "a rope", kind: str | None = None) -> Subject:
    """Give one rope without a model around it."""
    return Subject(name=name, layers=(Layer(ropes={"attention": rope}),), kind=kind)


def subject_of(target: object, part: str | None = None, layer: int | None = None) -> Subject:
    """Give what a target, a part of it and a layer of that part amount to.

    Raises:
        RopewalkError: where nothing can be read, the rope is not known, or there is no such part or layer.
    """
    if isinstance(target, Rope):
        if part is not None or layer is not None:
            raise RopewalkError(f"a Rope has no parts and layers, got part={part!r}, layer={layer!r}. Leave them out.")
        return bare(target)
    model = read(target)
    check_whole(model, model.target or "the model")
    main = next((name for name, layers in model.parts.items() if layers is model.layers), "")
    chosen = main if part is None else part
    if chosen not in model.parts:
        raise RopewalkError(f"{model.target} has no part {chosen!r}; it has {', '.join(model.parts) or 'none'}.")
    layers = model.parts[chosen]
    name = f"{model.target or 'the model'}, part {chosen}"
    if layer is not None:
        number = whole("layer", layer)
        if number >= len(layers):
            raise RopewalkError(f"{name} has layers 0 to {len(layers) - 1}, got layer {number}.")
        rope = layers[number].rope
        if rope is None:
            raise RopewalkError(f"layer {number} of {name} has no RoPE. Take another layer.")
        return bare(rope, f"{name}, layer {number}", layers[number].kind)
    if not any(one.ropes for one in layers):
        used = model.positions.get(chosen, "no layers")
        others = [other for other, own in model.parts.items() if any(one.ropes for one in own)]
        hint = f" Parts with RoPE: {', '.join(others)}." if others else ""
        raise RopewalkError(f"{name} has no RoPE ({used}).{hint}")
    kind, home = _architecture_of(model, chosen, main)
    return Subject(name=name, layers=layers, model_type=kind, root=model.model_type, home=home, part=chosen)


def _architecture_of(model: Model, part: str, main: str) -> tuple[str | None, str]:
    """Give the architecture of a part and the key that it stands under, (None, "") where that is not known.

    Engines' rules are those of language models: a tower's rope goes out as a rope by itself.
    """
    facts = architecture(model.model_type)
    if part != main:
        return None, ""
    for key, kind in facts.parts.items():
        if PART_NAMES.get(key, key.removesuffix("_config")) == part:
            return kind, key
    # a composite whose text part may be of any type (LLaVA): what type it was is not kept
    inside = any(
        origin.partition(".")[0].endswith("_config")
        for value, origin in model.sources.items()
        if value.startswith(f"{part}.")
    )
    known = facts.known and not facts.positions and not inside
    return (model.model_type, "") if known else (None, "")
