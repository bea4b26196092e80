"""The types of a part's layers, and which of them the file leaves without RoPE."""

from collections.abc import Mapping, Sequence
from typing import Any

from .._checks import MAX_LAYERS, shown
from ._reading import UnreadableError, View
from ._sizes import size
from .architectures import Architecture

KIND_LISTS = ("layer_types", "layers_block_type", "block_types")
OFF_LISTS = ("no_rope_layers",)  # 1 means that the layer turns
OFF_INTERVALS = ("no_rope_layer_interval", "nope_layer_interval")


def layer_kinds(view: View, arch: Architecture) -> list[str | None]:
    """Give the type of every layer, None where the file and the architecture name none."""
    reading = view.reading
    count = _count(view, arch)
    name = view.first(KIND_LISTS)
    if name is not None:
        given = view.data[name]
        named = isinstance(given, Sequence) and not isinstance(given, str)
        if not named or not given or len(given) > MAX_LAYERS or not all(isinstance(kind, str) for kind in given):
            reading.find(
                "value-unusable",
                key=view.key(name),
                seen=shown(given),
                right=f"a list of 1 to {MAX_LAYERS} words",
                message=f"{view.key(name)} must be a list of words, one a layer, got {shown(given)}.",
            )
        else:
            kinds: list[str | None] = [kind for kind in given if kind not in arch.skip_kinds]
            if len(kinds) < len(given):
                count = len(kinds)
            reading.source("layer_types", view.key(name))
            if count is not None and len(kinds) != count and name != "block_types":  # block_types repeats
                reading.find(
                    "layers-conflict",
                    key=view.key(name),
                    seen=f"{len(kinds)} layer types, {count} layers",
                    right="one type for each layer",
                    message=f"{view.key(name)} names {len(kinds)} layers, the file says {count}. Make them equal.",
                )
            return _last_forced(view, arch, (kinds * (1 + (count or 0) // max(1, len(kinds))))[:count], name)
    if count is None:
        count = 1
        reading.find(
            "layers-unknown",
            key=view.key("num_hidden_layers"),
            seen="no usable number",
            right="the number of layers",
            message="the file does not say how many layers there are; one is described, which stands for all.",
        )
    return _kinds_by_rule(view, arch, count)


def _last_forced(view: View, arch: Architecture, kinds: list[str | None], name: str) -> list[str | None]:
    """Give the last layer the type that the class gives it whatever the list says."""
    forced = (arch.layers or {}).get("forced_last")
    if forced is None or not kinds or kinds[-1] == forced:
        return kinds
    view.reading.find(
        "key-unused",
        key=view.key(name),
        seen=f"{shown(kinds[-1])} at its end",
        right=shown(forced),
        message=f"{view.key(name)} ends with {shown(kinds[-1])}, and {arch.config_class} makes the last layer "
        f"{forced} whatever the list says. Write {forced} at its end.",
    )
    return [*kinds[:-1], forced]


def _count(view: View, arch: Architecture) -> int | None:
    try:
        count, origin = size(view, arch, "num_hidden_layers", at_most=MAX_LAYERS)
    except UnreadableError:
        return None
    if count is not None:
        view.reading.source("layers", origin)
    return count


def _kinds_by_rule(view: View, arch: Architecture, count: int) -> list[str | None]:
    rule = arch.layers
    if rule is None:
        return [None] * count
    if rule["rule"] == "ratios":
        return _kinds_by_ratio(view, rule, count)
    hit, miss = rule["hit"], rule["miss"]
    if rule["rule"] == "indices":
        chosen = _index_set(view, rule, count)
        if chosen is None:
            return [None] * count
        return [hit if number in chosen else miss for number in range(count)]
    letters = _lettered(view, rule, count)
    if letters is not None:
        return letters
    try:
        key = view.first(rule.get("keys", ()))
        period = (view.whole(key) if key else None) or rule["default"]
    except UnreadableError:
        period, key = rule["default"], None
    view.reading.source("layer_types", view.key(key) if key else arch.described())
    phase = rule.get("phase", 1)
    kinds: list[str | None] = [hit if (number + phase) % period == 0 else miss for number in range(count)]
    for number in rule.get("also", ()):
        kinds[number : number + 1] = [hit][: len(kinds) - number]
    if rule.get("last") and kinds:
        kinds[-1] = rule["last"]
    return kinds


def _lettered(view: View, rule: Mapping[str, Any], count: int) -> list[str | None] | None:
    """Give the types of a pattern written in letters, L local and G global ("LLLG", EXAONE 4); None for any other."""
    key = view.first(rule.get("keys", ()))
    pattern = view.data[key] if key else None
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_LAYERS or set(pattern) - {"L", "G"}:
        return None
    view.reading.source("layer_types", view.key(key or ""))
    return [rule["hit"] if pattern[number % len(pattern)] == "G" else rule["miss"] for number in range(count)]


def _kinds_by_ratio(view: View, rule: Mapping[str, Any], count: int) -> list[str | None]:
    """Give DeepSeek-V4's layer types from its list of compression ratios, or the class's own plan without one."""
    try:
        ratios = view.numbers(rule["key"], at_most=MAX_LAYERS, above=-1)
    except UnreadableError:
        ratios = None
    names: Mapping[str, str] = rule["names"]
    if ratios is None:
        sparse, heavy = rule["default"]
        return [sparse if number >= 2 and number % 2 else heavy for number in range(count)]
    view.reading.source("layer_types", view.key(rule["key"]))
    kinds = [names.get(f"{ratio:g}") for ratio in ratios[:count]]
    return kinds + [None] * (count - len(kinds))


def _index_set(view: View, rule: Mapping[str, Any], count: int) -> set[int] | None:
    key = view.first(rule["keys"])
    if key is None:
        default = rule.get("default")
        return None if default is None else set(default)
    try:
        given = view.numbers(key, at_most=MAX_LAYERS, above=-1) if view.data[key] else ()
    except UnreadableError:
        return None
    view.reading.source("layer_types", view.key(key))
    return {int(entry) - rule.get("first", 0) for entry in given or ()}


def off_layers(view: View, arch: Architecture, count: int) -> frozenset[int]:
    """Give the numbers of the layers that the file, or the architecture, leaves without RoPE."""
    reading = view.reading
    facts = arch.off_layers or {}
    if arch.known and arch.off_layers is None and not any(name in view for name in OFF_LISTS):
        return frozenset()
    name = view.first(OFF_LISTS)
    if name is not None and view.data[name]:
        try:
            flags = view.numbers(name, at_most=MAX_LAYERS, above=-1) or ()
        except UnreadableError:
            return frozenset()
        reading.source("no_rope_layers", view.key(name))
        if len(flags) != count:
            reading.find(
                "layers-conflict",
                key=view.key(name),
                seen=f"{len(flags)} entries, {count} layers",
                right="one entry for each layer",
                message=f"{view.key(name)} has {len(flags)} entries for {count} layers. Make them equal.",
            )
        off = frozenset(number for number, flag in enumerate(flags[:count]) if not flag)
        if len(off) * 2 > count:
            reading.find(
                "rope-layers-few",
                key=view.key(name),
                seen=f"{count - len(off)} of {count} layers turn",
                right="1 for a layer that uses RoPE",
                message=f"{view.key(name)} leaves {len(off)} of {count} layers without RoPE. In this list 1 means "
                "that the layer uses RoPE, whatever its name suggests; perhaps it is inverted.",
            )
        return off
    interval = view.first(OFF_INTERVALS)
    try:
        period = view.whole(interval) if interval else None
    except UnreadableError:
        return frozenset()
    origin = view.key(interval) if interval and period else arch.described()
    if period is None:
        period = facts.get("interval")
    if period is None:
        return frozenset()
    reading.source("no_rope_layers", origin)
    return frozenset(number for number in range(count) if (number + 1) % period == 0)
