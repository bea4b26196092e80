"""Hugging Face configurations, of transformers 4 and 5 alike: config.json, read part by part."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._checks import shown
from ..errors import RopewalkError
from ..findings import Finding
from ._class_block import blocks_of
from ._homes import BLOCK_KEYS, Blocks
from ._layers import plain_layers, read_layers
from ._numbers import FRACTION_KEYS, ROTARY_DIM_KEYS, THETA_HOMES, THETA_KEYS
from ._reading import Reading, UnreadableError, View
from ._sizes import SPELLINGS
from .architectures import Architecture, architecture, type_of_class
from .model import Layer, Model

MAX_PARTS = 32
MAX_DEPTH = 5
# how the objects of a composite configuration are called here; "" joins what is inside to the level above
PART_NAMES: Mapping[str, str] = {
    "text_config": "text",
    "llm_config": "text",
    "language_config": "text",
    "language_model": "text",
    "text_model": "text",
    "thinker_config": "",
    "token2wav_config": "",
    "vlm_config": "",
    "vision_config": "vision",
    "visual": "vision",
    "visual_config": "vision",
    "vision_tower": "vision",
    "vit_config": "vision",
    "vision_encoder_config": "vision",
    "audio_config": "audio",
    "audio_encoder_config": "audio",
    "speech_config": "audio",
    "encoder": "encoder",
    "decoder": "decoder",
}
INNER_NAMES = frozenset({"text", "encoder", "backbone", "asr"})  # called after what holds them: "talker", "vision"
NEVER_PARTS = frozenset({"quantization_config", "generation_config", "task_specific_params", "auto_map", *THETA_HOMES})
ROPE_KEYS = frozenset(
    {*BLOCK_KEYS, *THETA_KEYS, *FRACTION_KEYS, *ROTARY_DIM_KEYS, "rope_ratio", "rope_local_base_freq"}
)
NO_ROPE_WORDS: Mapping[str, str] = {
    "absolute": "learned absolute",
    "learned": "learned absolute",
    "relative_key": "relative key",
    "relative_key_query": "relative key and query",
    "alibi": "ALiBi",
    "sinusoidal": "sinusoidal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One object of the configuration that describes layers."""

    name: str
    data: Mapping[str, Any]
    path: str
    model_type: object
    by_class: bool = False  # model_type was found by the class that "architectures" names


def read_huggingface(config: Mapping[str, Any], *, target: str = "") -> Model:
    """Read a Hugging Face configuration.

    Args:
        config: the object of a config.json.
        target: what was read, in words, for the Model.

    Raises:
        RopewalkError: where the object describes no model at all. What is wrong inside a model becomes findings.
    """
    found = _parts(config)
    if not found:
        raise RopewalkError(
            f"{target or 'this object'} describes no model: no model_type, no layer or head count and no rope key "
            f"among {', '.join(sorted(map(shown, list(config)[:8]))) or 'its 0 keys'}. Give the model's config.json."
        )
    parts: dict[str, tuple[Layer, ...]] = {}
    positions: dict[str, str] = {}
    findings: dict[Finding, None] = {}
    sources: dict[str, str] = {}
    for part in found:
        reading = Reading(part.name)
        layers, words = _read_part(part, reading)
        parts[part.name] = layers
        if words is not None:
            positions[part.name] = words
        findings |= reading.findings
        sources |= reading.sources
    model_type = config.get("model_type")
    return Model(
        parts=parts,
        model_type=model_type if isinstance(model_type, str) else None,
        target=target,
        positions=positions,
        findings=tuple(findings),
        sources=sources,
    )


def _parts(config: Mapping[str, Any]) -> list[_Part]:
    """Find the parts of a configuration, the text part first, each under a name of its own."""
    root_type, by_class = _root_type(config)
    root_facts = architecture(root_type, config)
    found: list[_Part] = []
    _collect(config, "", "", root_type, root_facts, found, depth=0)
    text_inside = any(part.name in ("text", "encoder", "decoder") for part in found)
    flat_text = next((kind for key, kind in root_facts.parts.items() if PART_NAMES.get(key) == "text"), None)
    if not found or (not text_inside and _describes_layers(config)) or (root_facts.known and root_facts.part):
        name = root_facts.part or ("text" if not text_inside else "root")
        if found or _looks_like_model(config):
            kind = flat_text if flat_text and not text_inside else root_type
            stacks = tuple(root_facts.stacks) or (name,)
            found = [
                _Part(name=stack, data=config, path="", model_type=kind, by_class=by_class) for stack in stacks
            ] + found
    named: dict[str, _Part] = {}
    for part in sorted(found, key=lambda part: part.name != "text")[:MAX_PARTS]:
        name = part.name
        if name in named:
            name = part.path.removesuffix("_config").replace("_config.", ".")
        named[name] = replace(part, name=name)
    return list(named.values())


def _root_type(config: Mapping[str, Any]) -> tuple[object, bool]:
    """Give the model_type, or one by the class under "architectures" where it is absent or not known."""
    told = config.get("model_type")
    found = None if architecture(told).known else type_of_class(config.get("architectures"))
    return (told, False) if found is None else (found, True)


def _collect(
    data: Mapping[str, Any],
    path: str,
    container: str,
    container_type: object,
    facts: Architecture,
    found: list[_Part],
    *,
    depth: int,
) -> None:
    if depth >= MAX_DEPTH:
        return
    for key, inner in data.items():
        if not isinstance(key, str) or not isinstance(inner, Mapping) or key in NEVER_PARTS:
            continue
        if key not in PART_NAMES and not key.endswith("_config"):
            continue
        plain = PART_NAMES.get(key, key.removesuffix("_config"))
        name = container if container and plain in INNER_NAMES else plain
        own = inner.get("model_type")
        known_own = isinstance(own, str) and own != container_type and architecture(own).known
        kind = own if known_own else facts.parts.get(key, own)
        inner_path = f"{path}.{key}" if path else key
        inner_facts = architecture(kind, inner)
        if _describes_layers(inner) or (inner_facts.known and not inner_facts.parts):
            found.append(_Part(name=name or "text", data=inner, path=inner_path, model_type=kind))
        _collect(inner, inner_path, name, own, inner_facts, found, depth=depth + 1)


def _describes_layers(data: Mapping[str, Any]) -> bool:
    layers = any(data.get(name) is not None for name in SPELLINGS["num_hidden_layers"])
    width = ("head_dim", *SPELLINGS["hidden_size"], *SPELLINGS["num_attention_heads"])
    return layers and any(data.get(name) is not None for name in width)


def _looks_like_model(data: Mapping[str, Any]) -> bool:
    sizes = ("head_dim", *SPELLINGS["hidden_size"], *SPELLINGS["num_attention_heads"], *SPELLINGS["num_hidden_layers"])
    return isinstance(data.get("model_type"), str) or any(name in data for name in (*ROPE_KEYS, *sizes))


def _read_part(part: _Part, reading: Reading) -> tuple[tuple[Layer, ...], str | None]:
    """Give the layers of a part and, where it has no RoPE, what positions it uses instead."""
    view = View(part.data, reading, part.path)
    arch = architecture(part.model_type, part.data).stack(part.name)
    _note_remote_code(view)
    if part.by_class:
        _note_class(view, part)
    if arch.remark is not None:
        reading.find(
            "map-outside-scope",
            key=view.key("model_type"),
            seen=shown(part.model_type),
            right="what is described is the nearest RoPE",
            message=f"{part.model_type}: {arch.remark}.",
        )
    words = arch.positions or _switched_off(view, arch)
    if words is None and not arch.known:
        words = _unknown_positions(view, part)
    if words is not None:
        return plain_layers(view, arch), words
    try:
        blocks = blocks_of(view, arch)
    except UnreadableError:
        return plain_layers(view, arch), None
    if not arch.known:
        _note_unknown(view, part, blocks)
    return read_layers(view, arch, blocks), None


def _note_remote_code(view: View) -> None:
    if "auto_map" in view.data:
        view.reading.find(
            "remote-code",
            key=view.key("auto_map"),
            seen="code beside the configuration",
            right="read, never run",
            message="the file names Python code of its own. ropewalk runs none of it: what the code decides comes from "
            "ropewalk's table of architectures, or is said to be unknown.",
        )


def _note_class(view: View, part: _Part) -> None:
    told, name = view.data.get("model_type"), view.data["architectures"][0]
    seen = "absent" if told is None else shown(told)
    state = seen if told is None else f"{seen}, which is not known here"
    view.reading.find(
        "architecture-by-class",
        key=view.key("model_type"),
        seen=seen,
        right=shown(part.model_type),
        message=f"model_type is {state}, and architectures names {name}: the facts about {part.model_type} are taken.",
    )


def _note_unknown(view: View, part: _Part, blocks: Blocks) -> None:
    pairing = "half-split pairing is assumed, the usual one in Hugging Face checkpoints"
    view.reading.find(
        "architecture-unknown",
        key=view.key("model_type"),
        seen="absent" if part.model_type is None else shown(part.model_type),
        right="a model_type that ropewalk has facts about",
        message=f"the architecture {shown(part.model_type)} is not known here: {pairing}, as are no layers without "
        "RoPE. Compare with the model's own code.",
    )


def _switched_off(view: View, arch: Architecture) -> str | None:
    """Give what positions are used where a key switches RoPE off, None where RoPE is on."""
    for toggle in arch.toggle:
        home, name = view, toggle["key"]
        if "." in name:
            outer, name = name.split(".")
            home = view.sub(outer) or View({}, view.reading, view.key(outer))
        value = home.data.get(name)
        if name not in home.data and toggle.get("absent") == "on":
            continue
        value = toggle.get("default") if value is None else value
        off = value in toggle["off"] if "off" in toggle else value not in toggle["on"]
        if off:
            view.reading.source("rope", home.key(name) if name in home.data else arch.described())
            return toggle.get("words") or NO_ROPE_WORDS.get(str(value), "none")
    return None


def _unknown_positions(view: View, part: _Part) -> str | None:
    """Say what an architecture without facts uses where its file shows that it is not RoPE, or shows nothing."""
    data = view.data
    if data.get("alibi") is True:
        view.reading.source("rope", view.key("alibi"))
        return "ALiBi"
    if any(data.get(name) is not None for name in ROPE_KEYS):
        return None
    kind = data.get("position_embedding_type")
    if isinstance(kind, str) and kind in NO_ROPE_WORDS:
        view.reading.source("rope", view.key("position_embedding_type"))
        return NO_ROPE_WORDS[kind]
    if part.name in ("text", "decoder"):
        return None
    view.reading.find(
        "positions-unknown",
        key=view.key("model_type"),
        seen=shown(part.model_type),
        right="a model_type that ropewalk has facts about",
        message=f"the part {part.name} has no rope key and its architecture is not known here, so whether it uses "
        "RoPE cannot be told.",
    )
    return "unknown"
