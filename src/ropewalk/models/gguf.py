"""GGUF files: metadata and the small tensors of divisors, read as llama.cpp reads them. Weights are never touched."""

import re
from pathlib import Path
from typing import Any

from .._checks import MAX_LAYERS, shown
from ..errors import RopewalkError
from ..rope import Rope
from ._gguf_plan import read_gguf_plan
from ._gguf_ropes import read_gguf_rope
from ._gguf_source import Source
from ._reading import Reading, UnreadableError, View
from .gguf_facts import ENGINE, Facts, gguf_facts
from .gguf_file import LONG, GGUFHeader, read_header
from .model import Layer, Model, QueryScale

_PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
MAX_PARTS = 512
UNKNOWN = Facts(rope="neox")


def read_gguf(path: Path | str, *, target: str = "") -> Model:
    """Read a GGUF file, or the set of files that a model was split into.

    The file has no key for the pairing, for layers without RoPE, and often for windows: these come from llama.cpp's
    own table of architectures. Where the file and that table are silent, llama.cpp's defaults are taken and named.

    Args:
        path: the file; of a split model any part.
        target: what was read, in words, for the Model.

    Raises:
        RopewalkError: for a file that is no GGUF, is damaged, or describes no model.
    """
    path = Path(path)
    headers = _headers(path)
    main = headers[0]
    name = main.metadata.get("general.architecture")
    if not isinstance(name, str) or name in ("", LONG):
        raise RopewalkError(
            f"{path} names no general.architecture, so it describes no model. Give the GGUF of a model, not of a "
            "tokenizer alone."
        )
    kind = main.metadata.get("general.type", "model")
    if kind in ("adapter", "imatrix"):
        raise RopewalkError(f"{path} is a GGUF of type {kind}, which has no RoPE of its own. Give the model's GGUF.")
    part = "vision" if name == "clip" else "text"
    reading = Reading(part)
    data = {key.removeprefix(f"{name}."): value for key, value in main.metadata.items() if key.startswith(f"{name}.")}
    view = View(data, reading, name)
    facts = gguf_facts(name)
    if facts is None:
        facts = UNKNOWN
        reading.find(
            "architecture-unknown",
            key="general.architecture",
            seen=shown(name),
            right="half-split pairing is assumed, the usual one of new architectures",
            message=f"GGUF does not store the pairing, and {name} is not in the table of architectures taken from "
            f"{ENGINE}: half-split pairing is assumed. Check it with `ropewalk check`.",
        )
    _note_parts(reading, path, headers)
    if facts.remark is not None:
        reading.find(
            "map-outside-scope", key="general.architecture", seen=name, right="what is described is the nearest RoPE",
            message=f"{name}: {facts.remark}.",
        )  # fmt: skip
    count = _count(view)
    words = _without_rope(view, facts, count)
    if words is not None:
        layers = (Layer(),) * count
    else:
        layers = _layers(Source(view=view, facts=facts, name=name, headers=headers), count)
    return Model(
        parts={part: layers},
        model_type=name,
        target=target or str(path),
        positions={} if words is None else {part: words},
        findings=tuple(reading.findings),
        sources=reading.sources,
    )


def _headers(path: Path) -> tuple[GGUFHeader, ...]:
    """Give the headers of all parts that are there, the first part first."""
    split = _PART.match(path.name)
    if split is None:
        return (read_header(path),)
    count = int(split["count"])
    if not 1 <= count <= MAX_PARTS:
        raise RopewalkError(f"{path} claims to be one of {count} parts; at most {MAX_PARTS} are read.")
    names = [path.with_name(f"{split['stem']}-{number:05}-of-{split['count']}.gguf") for number in range(1, count + 1)]
    if not names[0].is_file():
        raise RopewalkError(
            f"{path} is part {int(split['number'])} of {count}, and {names[0].name}, which holds the metadata, is not "
            "beside it. Put all parts into one directory."
        )
    return tuple(read_header(name) for name in names if name.is_file())


def _note_parts(reading: Reading, path: Path, headers: tuple[GGUFHeader, ...]) -> None:
    count = headers[0].metadata.get("split.count", 1)
    if isinstance(count, int) and count > len(headers):
        reading.find(
            "gguf-parts",
            key="split.count",
            seen=f"{len(headers)} of {count} parts",
            right="all parts in one directory",
            message=f"{path.name} is one of {count} parts, of which {len(headers)} are here. Tensors of divisors "
            "(rope_freqs, rope_factors_long) in the others are not seen.",
        )


def _count(view: View) -> int:
    """Give the number of layers, without those that only predict further tokens."""
    try:
        count = view.whole("block_count", at_most=MAX_LAYERS)
        extra = view.whole("nextn_predict_layers", at_least=0, at_most=MAX_LAYERS) or 0
    except UnreadableError:
        count, extra = None, 0
    if count is None:
        view.reading.find(
            "layers-unknown",
            key=view.key("block_count"),
            seen="no usable number",
            right="the number of layers",
            message="the file does not say how many layers there are; one is described, which stands for all.",
        )
        return 1
    view.reading.source("layers", view.key("block_count"))
    return max(count - extra, 1)


def _without_rope(view: View, facts: Facts, count: int) -> str | None:
    """Say what a model without RoPE uses for positions, or None where it has RoPE."""
    words = facts.positions if facts.rope == "none" else facts.blocks_without.get(str(count))
    origin = f"architecture {view.path} in {ENGINE}"
    if facts.switch:
        try:
            if view.flag("rope.scaling.finetuned") is False:
                words, origin = "none", view.key("rope.scaling.finetuned")
        except UnreadableError:
            return None
    if words is not None:
        view.reading.source("positions", origin)
    return words


def _layers(source: Source, count: int) -> tuple[Layer, ...]:
    facts, view = source.facts, source.view
    plan = read_gguf_plan(source, count)
    ropes: dict[str | None, Rope | None] = {}
    made: dict[tuple[Any, ...], Layer] = {}
    layers = []
    for number in range(count):
        label = plan.label(number)
        key = (label, plan.attends[number], plan.turns[number])
        if key not in made:
            turns = plan.attends[number] and plan.turns[number]
            if turns and label not in ropes:
                ropes[label] = _rope(source, label)
            rope = ropes.get(label) if turns else None
            uses = {} if rope is None else {"attention": rope}
            if rope is not None and (indexer := _indexer(view, facts, rope)) is not None:
                uses["indexer"] = indexer
            made[key] = Layer(
                ropes=uses,
                kind=plan.kind(facts, number),
                query_scale=_query_scale(source, turns=turns, attends=plan.attends[number]),
                output_inverse=facts.output_inverse and rope is not None,
            )
        layers.append(made[key])
    return tuple(layers)


def _rope(source: Source, label: str | None) -> Rope | None:
    try:
        return read_gguf_rope(source, label)
    except UnreadableError:
        return None


def _query_scale(source: Source, *, turns: bool, attends: bool) -> QueryScale | None:
    facts, view = source.facts, source.view
    if not attends:
        return None
    if facts.query_scale is not None:
        off = view.data.get("attention.sliding_window") == 0
        return None if turns or off else QueryScale(**facts.query_scale)
    try:
        scale = view.number("attention.temperature_scale")
        floor = view.number("attention.temperature_length", above=0) or view.number(
            "rope.scaling.original_context_length", above=0
        )
    except UnreadableError:
        return None
    if not scale or floor is None:
        return None
    view.reading.source("query_scale", view.key("attention.temperature_scale"))
    return QueryScale(attn_scale=source.tidy(scale), floor_scale=floor, offset=0)


def _indexer(view: View, facts: Facts, rope: Rope) -> Rope | None:
    """Give the rope of a sparse-attention indexer, which turns the first channels of its own heads."""
    if facts.indexer is None:
        return None
    try:
        width = view.whole("attention.indexer.key_length", at_most=65_536)
    except UnreadableError:
        return None
    if width is None or width < rope.width:
        return None
    view.reading.source("indexer.pairing", f"architecture {view.path} in {ENGINE}")
    return rope.replace(head_dim=width, pairing=facts.indexer)
