"""GGUF files: metadata and the small tensors of divisors, read as llama.cpp reads them. Weights are never touched."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._checks import MAX_LAYERS, shown
from ..errors import RopewalkError
from ..rope import Rope
from ._gguf_ropes import Source, read_gguf_rope
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


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which layers do what: by layer, whether it attends, within a window, and turns."""

    attends: list[bool]
    windowed: list[bool]
    turns: list[bool]
    compressed: list[bool]


def _layers(source: Source, count: int) -> tuple[Layer, ...]:
    facts, view = source.facts, source.view
    plan = _plan(source, count)
    ropes: dict[str | None, Rope | None] = {}
    made: dict[tuple[Any, ...], Layer] = {}
    layers = []
    for number in range(count):
        label = _label(plan, number)
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
                kind=_kind(plan, facts, number),
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


def _label(plan: _Plan, number: int) -> str | None:
    if any(plan.compressed):
        return "compress" if plan.compressed[number] else "main"
    if not any(plan.windowed):
        return None
    return "sliding_attention" if plan.windowed[number] else "full_attention"


def _kind(plan: _Plan, facts: Facts, number: int) -> str | None:
    if not plan.attends[number]:
        return "linear_attention"
    if not any(plan.windowed) or facts.window is None:
        return None if all(plan.attends) else "full_attention"
    return facts.window.kind if plan.windowed[number] else "full_attention"


def _plan(source: Source, count: int) -> _Plan:
    facts, view = source.facts, source.view
    windowed = _windowed(view, facts, count)
    attends = _attending(view, facts, count)
    turns = [True] * count
    rhythm: Mapping[str, Any] = facts.no_rope
    if rhythm and _rhythm_holds(view, rhythm, windowed):
        every, last = rhythm["every"], rhythm["last"]
        turns = [(number + 1) % every != 0 if last else number % every != 0 for number in range(count)]
    elif facts.rope_layers.startswith("window") and any(windowed):
        leading = view.data.get("leading_dense_block_count", 0) if facts.rope_layers.endswith("leading") else 0
        turns = [inside or number < leading for number, inside in enumerate(windowed)]
    elif facts.rope_layers == "pattern" and (given := _flags(view, "attention.rope_pattern", count)) is not None:
        turns = given
        view.reading.source("rope_layers", view.key("attention.rope_pattern"))
    if rhythm or facts.rope_layers.startswith("window"):
        _note_plan(view, turns)
    ratios = view.data.get("attention.compress_ratios")
    compressed = [False] * count
    if facts.compressed and isinstance(ratios, list):
        compressed = [bool(ratio) for ratio in (ratios + [0] * count)[:count]]
    return _Plan(attends, windowed, turns, compressed)


def _rhythm_holds(view: View, rhythm: Mapping[str, Any], windowed: list[bool]) -> bool:
    if rhythm.get("with_window"):
        return any(windowed)
    return view.path != "llama4" or view.data.get("attention.sliding_window") != 0


def _note_plan(view: View, turns: list[bool]) -> None:
    view.reading.source("rope_layers", f"architecture {view.path} in {ENGINE}")
    off = [number for number, on in enumerate(turns) if not on]
    if off:
        view.reading.find(
            "gguf-plan",
            key="general.architecture",
            seen=f"no key for layers without RoPE, architecture {view.path}",
            right=f"{len(off)} of {len(turns)} layers without RoPE, the first is layer {off[0]}",
            message=f"GGUF has no key for layers without RoPE. {ENGINE} leaves {len(off)} of {len(turns)} layers of "
            f"{view.path} unturned, and so it is described.",
        )


def _windowed(view: View, facts: Facts, count: int) -> list[bool]:
    """Say which layers attend within a window."""
    none = [False] * count
    window = facts.window
    if window is None or window.blocks not in (None, count):
        return none
    try:
        width = view.whole("attention.sliding_window", at_least=0)
    except UnreadableError:
        width = None
    if (window.needs_window and not width) or (window.zero_is_off and width == 0):
        return none
    name = "attention.sliding_window_pattern"
    given = _flags(view, name, count)
    if given is not None:
        view.reading.source("layer_types", view.key(name))
        return given
    period = window.pattern
    if isinstance(view.data.get(name), int):
        period = view.data[name]
        view.reading.source("layer_types", view.key(name))
    if period is None:
        view.reading.find(
            "gguf-key-missing",
            key=view.key(name),
            seen="absent",
            right="a list, one entry a layer",
            message=f"{view.key(name)} is absent, and {ENGINE} refuses such a file: which layers have a window, and so "
            "the other base, is not known. All are described as layers without one.",
        )
        return none
    view.reading.source("layer_types", f"architecture {view.path} in {ENGINE}")
    if period == 0:
        return [True] * count
    dense = 0 if window.dense_first else period - 1
    return [number % period != dense for number in range(count)]


def _flags(view: View, name: str, count: int) -> list[bool] | None:
    given = view.data.get(name)
    if not isinstance(given, list) or len(given) < count:
        return None
    return [bool(entry) for entry in given[:count]]


def _attending(view: View, facts: Facts, count: int) -> list[bool]:
    """Say which layers have softmax attention: those with heads, and in hybrids every so many."""
    attends = [True] * count
    for name in ("attention.head_count", "attention.head_count_kv"):
        given = view.data.get(name)
        if isinstance(given, list) and len(given) >= count and any(given):
            attends = [on and bool(heads) for on, heads in zip(attends, given, strict=False)]
    if facts.recurrent is not None:
        recurrent = _flags(view, "attention.recurrent_layers", count)
        if recurrent is None:
            every = view.data.get("full_attention_interval", facts.recurrent)
            every = every if isinstance(every, int) and every > 0 else facts.recurrent
            recurrent = [(number + 1) % every != 0 for number in range(count)]
        attends = [on and not other for on, other in zip(attends, recurrent, strict=True)]
    return attends


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
