"""A whole model: its parts, their layers, and the ropes that they use."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._checks import MAX_LAYERS, check_schema, fields_from_dict, fields_to_dict, items, real, shown, truth, whole
from ..errors import RopewalkError
from ..findings import Finding
from ..rope import Rope

SCHEMA = "ropewalk.model/1"
LAYER_SCHEMA = "ropewalk.layer/1"
_LISTED = 8  # ropes that an error names


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryScale:
    """A temperature that grows with the position: q is multiplied by 1 + s·log1p(floor((m + offset) / floor_scale)).

    Source: transformers' Llama 4 (`attn_scale`, `floor_scale`, offset 1) and Ministral 3 (`llama_4_scaling_beta`,
    the original length, offset 0).

    Attributes:
        attn_scale: s.
        floor_scale: positions between two steps.
        offset: added to the position.

    >>> round(QueryScale(attn_scale=0.1, floor_scale=8192, offset=1).at(20000), 9)
    1.109861229
    """

    attn_scale: float
    floor_scale: float
    offset: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "attn_scale", real("attn_scale", self.attn_scale))
        object.__setattr__(self, "floor_scale", real("floor_scale", self.floor_scale, above=0))
        object.__setattr__(self, "offset", whole("offset", self.offset))

    def at(self, position: float) -> float:
        """Give the factor on the query at a position (tokens, at least -offset)."""
        position = real("position", position, at_least=-self.offset)
        return 1.0 + self.attn_scale * math.log1p(math.floor((position + self.offset) / self.floor_scale))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of a part.

    Attributes:
        ropes: by use: ``{"attention": Rope}``, empty for a layer without RoPE, an ``"indexer"`` beside it for sparse
            attention that scores with a rope of its own.
        kind: the layer type that the config gives ("sliding_attention"), or None.
        query_scale: a temperature of the queries that depends on the position, or None.
        output_inverse: whether the attention output is turned back by the query's position (DeepSeek-V4).

    Raises:
        RopewalkError: for ropes that are no Rope, or fields of another kind.

    >>> Layer(ropes={"attention": Rope(head_dim=64, rope_theta=10000.0, pairing="half")}).rope.width
    64
    """

    ropes: Mapping[str, Rope] = field(default_factory=dict)
    kind: str | None = None
    query_scale: QueryScale | None = None
    output_inverse: bool = False

    def __post_init__(self) -> None:
        ropes = dict(_mapping("a layer's ropes", self.ropes))
        for use, rope in ropes.items():
            if not isinstance(rope, Rope):
                raise RopewalkError(f"a layer's {use} rope must be a Rope, got {shown(rope)}.")
        object.__setattr__(self, "ropes", ropes)
        if self.kind is not None and not isinstance(self.kind, str):
            raise RopewalkError(f"a layer's kind must be a word or null, got {shown(self.kind)}.")
        if self.query_scale is not None and not isinstance(self.query_scale, QueryScale):
            raise RopewalkError(f"a layer's query_scale must be a QueryScale or None, got {shown(self.query_scale)}.")
        truth("output_inverse", self.output_inverse)

    @property
    def rope(self) -> Rope | None:
        """The rope of the attention itself, or None where the layer has none."""
        return self.ropes.get("attention")

    def to_dict(self) -> dict[str, Any]:
        """Give the layer as plain values for JSON, its ropes whole; from_dict reads it back."""
        return {
            "schema": LAYER_SCHEMA,
            "ropes": {use: rope.to_dict() for use, rope in self.ropes.items()},
            "kind": self.kind,
            "query_scale": None if self.query_scale is None else fields_to_dict(self.query_scale),
            "output_inverse": self.output_inverse,
        }

    @classmethod
    def from_dict(cls, data: object) -> "Layer":
        """Build a layer from what to_dict gives.

        Raises:
            RopewalkError: for another schema, unknown keys, or values out of range.
        """
        check_schema(data, LAYER_SCHEMA, "a layer")
        given = fields_from_dict(cls, data, "a layer", ignore=("schema",))
        ropes = _mapping("a layer's ropes", given.get("ropes", {}))
        given["ropes"] = {use: Rope.from_dict(rope) for use, rope in ropes.items()}
        if given.get("query_scale") is not None:
            given["query_scale"] = QueryScale(**fields_from_dict(QueryScale, given["query_scale"], "a query_scale"))
        return cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a configuration says about positions, read to the end.

    Attributes:
        parts: by name ("text", "vision", "talker" …), each a tuple of layers.
        model_type: the architecture's name in the configuration, or None.
        target: what was read, in words ("config.json in models/x", "preset llama-3.1-8b").
        positions: by part, what a part that has no RoPE uses ("learned absolute", "ALiBi" …).
        findings: what a user should know.
        sources: by value ("text.rope_theta"), the key it came from, "default of <class>", or "missing".

    Raises:
        RopewalkError: for more than 10,000 layers in a part, or fields of another kind.

    >>> rope = Rope(head_dim=64, rope_theta=10000.0, pairing="half")
    >>> model = Model(parts={"text": (Layer(ropes={"attention": rope}), Layer())})
    >>> model.rope == rope, len(model.layers), Model.from_dict(model.to_dict()) == model
    (True, 2, True)
    """

    parts: Mapping[str, tuple[Layer, ...]]
    model_type: str | None = None
    target: str = ""
    positions: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts: dict[str, tuple[Layer, ...]] = {}
        for name, layers in _mapping("parts", self.parts).items():
            parts[name] = items(f"part {name}: layers", layers, at_most=MAX_LAYERS)
            for layer in parts[name]:
                if not isinstance(layer, Layer):
                    raise RopewalkError(f"part {name} must hold Layers, got {shown(layer)}.")
        findings = items("findings", self.findings)
        for finding in findings:
            if not isinstance(finding, Finding):
                raise RopewalkError(f"findings must hold Findings, got {shown(finding)}.")
        if not isinstance(self.target, str) or not isinstance(self.model_type, str | None):
            raise RopewalkError(
                "a model's target must be a word and its model_type a word or null, got "
                f"{shown(self.target)} and {shown(self.model_type)}."
            )
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "findings", findings)
        object.__setattr__(self, "positions", _words("positions", self.positions))
        object.__setattr__(self, "sources", _words("sources", self.sources))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the text part; of the decoder, or the first part, where there is no text part."""
        for name in ("text", "decoder", *self.parts):
            if name in self.parts:
                return self.parts[name]
        return ()

    @property
    def ropes(self) -> tuple[Rope, ...]:
        """The distinct ropes of all parts, in order of appearance."""
        return tuple(dict.fromkeys(rope for _, _, _, rope in self.uses()))

    @property
    def rope(self) -> Rope:
        """The only rope of the model.

        Raises:
            RopewalkError: where there is none or more than one; it lists them.
        """
        ropes = self.ropes
        if len(ropes) == 1:
            return ropes[0]
        if ropes:
            first: dict[Rope, str] = {}
            for part, layer, use, rope in self.uses():
                first.setdefault(rope, f"{part} layer {layer} {use}")
            places = [f"{place}: θ={rope.rope_theta:g}, width {rope.width}" for rope, place in first.items()]
            listed = "; ".join(places[:_LISTED]) + ("; …" if len(places) > _LISTED else "")
            raise RopewalkError(
                f"the model has {len(ropes)} ropes ({listed}); take one from model.ropes or model.parts[…][layer].rope."
            )
        errors = [finding for finding in self.findings if finding.severity == "error"]
        if errors:
            raise RopewalkError(f"the rope could not be read: {errors[0].message}")
        used = ", ".join(f"{part}: {words}" for part, words in self.positions.items())
        raise RopewalkError(f"the model has no RoPE ({used or 'no layers'}).")

    def uses(self) -> Iterator[tuple[str, int, str, Rope]]:
        """Give every (part, layer number, use, rope), once for each distinct layer of a part."""
        for part, layers in self.parts.items():
            seen: set[int] = set()
            for number, layer in enumerate(layers):
                if id(layer) in seen:
                    continue
                seen.add(id(layer))
                for use, rope in layer.ropes.items():
                    yield part, number, use, rope

    def to_dict(self) -> dict[str, Any]:
        """Give the model as plain values for JSON, each distinct layer once and a plan of which layer is which."""
        return {
            "schema": SCHEMA,
            "model_type": self.model_type,
            "target": self.target,
            "parts": {name: _packed(layers) for name, layers in self.parts.items()},
            "positions": dict(self.positions),
            "findings": [finding.to_dict() for finding in self.findings],
            "sources": dict(self.sources),
        }

    @classmethod
    def from_dict(cls, data: object) -> "Model":
        """Build a model from what to_dict gives.

        Raises:
            RopewalkError: for another schema, unknown or missing keys, or values out of range.
        """
        check_schema(data, SCHEMA, "a model")
        given = fields_from_dict(cls, data, "a model", ignore=("schema",))
        given["parts"] = {name: _unpacked(name, part) for name, part in _mapping("parts", given["parts"]).items()}
        given["findings"] = tuple(Finding.from_dict(entry) for entry in items("findings", given.get("findings", [])))
        return cls(**given)


def _packed(layers: tuple[Layer, ...]) -> dict[str, Any]:
    numbers: dict[tuple[Any, ...], int] = {}
    distinct: list[Layer] = []
    plan = []
    for layer in layers:
        key = (tuple(layer.ropes.items()), layer.kind, layer.query_scale, layer.output_inverse)
        if key not in numbers:
            numbers[key] = len(distinct)
            distinct.append(layer)
        plan.append(numbers[key])
    return {"layers": [layer.to_dict() for layer in distinct], "plan": plan}


def _unpacked(name: str, part: object) -> tuple[Layer, ...]:
    given = _mapping(f"part {name}", part)
    if set(given) != {"layers", "plan"}:
        raise RopewalkError(f"part {name} must hold layers and plan, got {shown(list(given))}.")
    distinct = [Layer.from_dict(layer) for layer in items("layers", given["layers"], at_most=MAX_LAYERS)]
    plan = items("plan", given["plan"], at_most=MAX_LAYERS)
    if plan and not distinct:
        raise RopewalkError(f"part {name} has a plan of {len(plan)} layers and no layer to take, got layers [].")
    return tuple(distinct[whole(f"part {name}: plan", number, at_most=len(distinct) - 1)] for number in plan)


def _mapping(what: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise RopewalkError(f"{what} must be an object with words as keys, got {shown(value)}.")
    return value


def _words(what: str, value: object) -> dict[str, str]:
    given = _mapping(what, value)
    if not all(isinstance(entry, str) for entry in given.values()):
        raise RopewalkError(f"{what} must hold words only, got {shown(value)}.")
    return dict(given)
