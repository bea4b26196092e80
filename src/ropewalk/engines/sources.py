"""What engines start from: the keys of a configuration as they stand, beside the rope that they should come to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..comparison.sides import check_whole
from ..errors import RopewalkError
from ..models._class_block import blocks_of
from ..models._layers import _label_of
from ..models._reading import Reading, View, _as_number
from ..models.architectures import Label, architecture
from ..models.huggingface import _parts
from ..models.model import Layer, Model
from ..models.targets import configuration, read
from ..rope import Rope
from ..scaling import LongRope, Ntk, scaling_to_dict


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One rope of a model, and the keys that engines read it from.

    Attributes:
        part: the part's name.
        use: "attention", "indexer" ….
        layers: the numbers of the layers that use it.
        rope: as ropewalk reads it.
        block: the keys of its block of rope parameters; empty where it has none.
        implied: the file has no block, and transformers' class takes this one in its place.
        home: the name of the block in the file, "rope_parameters" or "rope_scaling"; "" where there is none.
        label: the layer type whose block it is, None for a flat one.
        beside: the keys beside its block that the class reads, where the blocks are by layer type.
        nests: transformers' class moves a flat block of this architecture into blocks by layer type.
        top: the keys of the part itself.
        model_type: the architecture's name, or None.
        scale_softmax: the architecture multiplies its softmax scale by the magnitude (DeepSeek's MLA).
        reads_alpha: the architecture's own code reads `alpha`.
        aliases: spellings of types that the architecture's own code accepts.
    """

    part: str
    use: str
    layers: tuple[int, ...]
    rope: Rope
    block: Mapping[str, Any]
    implied: bool
    home: str
    label: str | None
    beside: Mapping[str, Any]
    nests: bool
    top: Mapping[str, Any]
    model_type: str | None
    scale_softmax: bool
    reads_alpha: bool
    aliases: frozenset[str]

    def number(self, name: str) -> float | None:
        """Give a number of the block; None where absent, null or no number."""
        return _as_number(self.block.get(name))

    def top_number(self, name: str) -> float | None:
        """Give a number of the part itself; None where absent, null or no number."""
        return _as_number(self.top.get(name))

    @property
    def spelled(self) -> str:
        """The type as the file spells it, `rope_type` before `type`."""
        for name in ("rope_type", "type"):
            if isinstance(self.block.get(name), str):
                return self.block[name]
        return "default"


def gather(target: object, part: str | None = None) -> tuple[Model | None, str, list[Source]]:
    """Give the model of a target, its name, and every rope with the keys that it comes from.

    Raises:
        RopewalkError: where nothing can be read, or a rope cannot be described.
    """
    if isinstance(target, Rope):
        return None, "a rope", [_of_rope(target, "rope", "attention", (0,))]
    model = read(target)
    check_whole(model, model.target or "a model")
    main = next((name for name, layers in model.parts.items() if layers is model.layers), None)
    if part not in (None, main):
        raise RopewalkError(
            f"the rules of engines are known for the language model, part {main!r} of {model.target}, and not for "
            f"{part!r}. Leave the part out."
        )
    config = configuration(target)
    sources = _of_model(model) if config is None else _of_config(config, model)
    return model, model.target or "a model", [one for one in sources if one.part == main]


def _of_model(model: Model) -> Iterator[Source]:
    for name, layers in model.parts.items():
        for (use, rope, _), numbers in _grouped(layers).items():
            yield _of_rope(rope, name, use, tuple(numbers), model.model_type)


def _of_rope(rope: Rope, part: str, use: str, numbers: tuple[int, ...], model_type: str | None = None) -> Source:
    """Write a description as the keys that a configuration would hold."""
    data = {name: value for name, value in scaling_to_dict(rope.scaling).items() if value is not None}
    if isinstance(rope.scaling, Ntk) and rope.scaling.method == "aware":
        data = {"rope_type": "dynamic", "alpha": rope.scaling.factor}
    softmax = bool(data.pop("scale_softmax", False))
    if isinstance(rope.scaling, LongRope):
        data |= {name: list(data[name]) for name in ("short_factor", "long_factor")}
    return Source(
        part=part,
        use=use,
        layers=numbers,
        rope=rope,
        block={**data, "rope_theta": rope.rope_theta},
        implied=False,
        home="",
        label=None,
        beside={},
        nests=False,
        top={},
        model_type=model_type,
        scale_softmax=softmax,
        reads_alpha="alpha" in data,
        aliases=frozenset(),
    )


def _of_config(config: Mapping[str, Any], model: Model) -> Iterator[Source]:
    for part in _parts(config):
        layers = model.parts.get(part.name, ())
        reading = Reading(part.name)
        arch = architecture(part.model_type, part.data).stack(part.name)
        blocks = blocks_of(View(part.data, reading, part.path), arch)
        labels = arch.labels or dict.fromkeys(blocks.nested)
        found: dict[tuple[str, Rope, str | None], list[int]] = {}
        for (use, rope, kind), numbers in _grouped(layers).items():
            label = _label_of(kind, arch, labels)
            found.setdefault((use, rope, label), []).extend(numbers)
        for (use, rope, label), numbers in found.items():
            nested = label in blocks.nested
            view = blocks.nested[label or ""] if nested else blocks.flat
            scaled = nested or arch.labels.get(label or "", Label()).scaled
            yield Source(
                part=part.name,
                use=use,
                layers=tuple(sorted(numbers)),
                rope=rope,
                block={} if view is None or not scaled else view.data,
                implied=blocks.implied,
                home=blocks.flat.path.rpartition(".")[2] if view is not None and not blocks.implied else "",
                label=label if nested else None,
                beside=blocks.flat.data if nested and not arch.drops_beside else {},
                nests=arch.nests and not nested,
                top=part.data,
                model_type=part.model_type if isinstance(part.model_type, str) else None,
                scale_softmax=arch.scale_softmax,
                reads_alpha=arch.reads_alpha,
                aliases=frozenset(arch.aliases),
            )


def _grouped(layers: tuple[Layer, ...]) -> dict[tuple[str, Rope, str | None], list[int]]:
    found: dict[tuple[str, Rope, str | None], list[int]] = {}
    for number, layer in enumerate(layers):
        for use, rope in layer.ropes.items():
            found.setdefault((use, rope, layer.kind), []).append(number)
    return found
