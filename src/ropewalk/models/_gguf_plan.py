"""Which layers of a GGUF attend, within a window or not, and turn: the file's lists, and llama.cpp's own rhythms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._gguf_source import Source
from ._reading import UnreadableError, View
from .gguf_facts import ENGINE, Facts


@dataclass(frozen=True, slots=True)
class Plan:
    """Which layers do what: by layer, whether it attends, within a window, and turns."""

    attends: list[bool]
    windowed: list[bool]
    turns: list[bool]
    compressed: list[bool]

    def label(self, number: int) -> str | None:
        """Name the rope of a layer; None where all layers share one."""
        if any(self.compressed):
            return "compress" if self.compressed[number] else "main"
        if not any(self.windowed):
            return None
        return "sliding_attention" if self.windowed[number] else "full_attention"

    def kind(self, facts: Facts, number: int) -> str | None:
        """Give the type of a layer; None where all layers are of one."""
        if not self.attends[number]:
            return "linear_attention"
        if not any(self.windowed) or facts.window is None:
            return None if all(self.attends) else "full_attention"
        return facts.window.kind if self.windowed[number] else "full_attention"


def read_gguf_plan(source: Source, count: int) -> Plan:
    """Read which of so many layers do what."""
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
    return Plan(attends, windowed, turns, compressed)


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
