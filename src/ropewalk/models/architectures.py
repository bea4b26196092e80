"""Facts about architectures that no configuration file states, kept as data in architectures.json.

Each entry is keyed by model_type. `docs/spec.md` explains every key; the ones that matter most:

- ``class``: the configuration class, for "default of <class>"; ``source``: where the facts were read.
- ``pairing``, ``direction``, ``theta`` (the class default; null where unknown), ``theta_fixed`` (a constant of the
  code, which configurations do not carry), ``partial_rotary_factor``, ``rotary_dim``, ``defaults`` (sizes).
- ``block``: the rope parameters that the class takes, whole, where a configuration has no block of them; by layer type
  where the class has it so. A block that is there gets nothing from it.
- ``flat_key``: the one key under which the class reads a block that is not laid out by layer type.
- ``drops_beside``: whether the class drops keys beside blocks by layer type, `truncate` among them.
- ``positions``: what the architecture uses instead, when it has no RoPE at all.
- ``labels``: ropes by layer type; ``layers``: which layer has which type; ``off_kinds``: types without RoPE.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ..errors import RopewalkError


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The rope of one layer type.

    Attributes:
        theta: class default, or None where unknown.
        theta_keys: flat keys that carry this type's theta in old files.
        scaled: whether a flat scaling block is meant for this type.
        partial_rotary_factor: class default, or None.
        head_dim_keys: keys of the head width, where this type has its own.
        head_dim: class default of that width, or None.
        attention_factor: the factor on cos and sin that the code takes where the file gives none, or None.
    """

    theta: float | None = None
    theta_keys: tuple[str, ...] = ()
    scaled: bool = True
    partial_rotary_factor: float | None = None
    head_dim_keys: tuple[str, ...] = ()
    head_dim: int | None = None
    attention_factor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The facts about one model_type; every default is that of an ordinary Llama-like decoder."""

    config_class: str = ""
    source: str = ""
    known: bool = True
    positions: str | None = None
    pairing: str = "half"
    pairing_key: str | None = None
    direction: int = 1
    theta: float | None = None
    theta_fixed: bool = False
    theta_keys: tuple[str, ...] = ()
    ratio_key: str | None = None
    reads_alpha: bool = False
    rope_type: str = "default"
    block: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    partial_rotary_factor: float | None = None
    rotary_dim: int | None = None
    rotary_dim_keys: tuple[str, ...] = ()
    head_dim_keys: tuple[str, ...] = ()
    head_dim_heads: int = 1
    block_keys: tuple[str, ...] = ()
    flat_key: str | None = None
    drops_beside: bool = False
    rotary_tail: bool = False
    ignore_partial: bool = False
    ignore_rotary_dim: bool = False
    defaults: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    axes: Mapping[str, Any] | None = None
    scale_softmax: bool = False
    attention_factor: float | None = None
    labels: Mapping[str, Label] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    layers: Mapping[str, Any] | None = None
    skip_kinds: tuple[str, ...] = ()
    off_kinds: tuple[str, ...] = ()
    off_kinds_need: str | None = None
    off_layers: Mapping[str, Any] | None = None
    toggle: tuple[Mapping[str, Any], ...] = ()
    query_scale: Mapping[str, Any] | None = None
    indexer: Mapping[str, Any] | None = None
    output_inverse: bool = False
    parts: Mapping[str, str] = field(default_factory=dict)
    part: str | None = None
    stacks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    variants: tuple[Mapping[str, Any], ...] = ()
    remark: str | None = None
    position_note: str | None = None

    def stack(self, name: str) -> "Architecture":
        """Give the facts about one of several stacks of layers that a flat configuration describes."""
        facts = self.stacks.get(name)
        if facts is None:
            return self
        keys = {**self.keys, **{key: tuple(spellings) for key, spellings in facts.get("keys", {}).items()}}
        return replace(self, keys=keys, positions=facts.get("positions", self.positions))

    @property
    def nests(self) -> bool:
        """Whether transformers' class keeps its rope parameters by layer type, and moves a flat block there."""
        return bool(self.labels) and self.source.startswith("transformers")

    def described(self) -> str:
        """Name the class whose defaults these are."""
        return f"default of {self.config_class or 'the architecture'}"


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = (files("ropewalk.models") / "architectures.json").read_text(encoding="utf-8")
    return json.loads(text)


def known_types() -> tuple[str, ...]:
    """Give every model_type that the table has facts about."""
    return tuple(_table())


def architecture(model_type: object, config: Mapping[str, Any] | None = None) -> Architecture:
    """Give the facts about a model_type, or those of an ordinary decoder marked as not known.

    One model_type may stand for several architectures (`chatglm`); config decides which variant it is.
    """
    if not isinstance(model_type, str) or model_type not in _table():
        return Architecture(known=False)
    return _architecture(model_type, _variant(_table()[model_type].get("variants", ()), config or {}))


def type_of_class(names: object) -> str | None:
    """Give the model_type whose configuration class goes with the first of some model classes ("architectures").

    >>> type_of_class(["MiniCPM3ForCausalLM"]), type_of_class(["LlamaModel"]), type_of_class(["Llama"])
    ('minicpm3', 'llama', None)
    """
    if not isinstance(names, list | tuple) or not names or not isinstance(names[0], str):
        return None
    stem = _CLASS.fullmatch(names[0])
    return None if stem is None else _types_by_stem().get(stem[1].lower())


_CLASS = re.compile(r"(\w+?)(?:For[A-Z]\w+|LMHeadModel|Model)")


@cache
def _types_by_stem() -> dict[str, str]:
    """Give model_types by the stem of their class, "llama" by "LlamaConfig"; the first entry where two share it."""
    found: dict[str, str] = {}
    for model_type, entry in _table().items():
        if entry.get("class", "").endswith("Config"):
            found.setdefault(entry["class"].removesuffix("Config").lower(), model_type)
    return found


def _variant(variants: list[dict[str, Any]], config: Mapping[str, Any]) -> int | None:
    """Choose the first variant whose "when" holds: keys that must have a given value."""
    for number, variant in enumerate(variants):
        if all(
            config.get(key) == value and isinstance(config.get(key), bool) == isinstance(value, bool)
            for key, value in variant["when"].items()
        ):
            return number
    return None


@cache
def _architecture(model_type: str, variant: int | None) -> Architecture:
    entry = dict(_table()[model_type])
    if variant is not None:
        entry |= {key: value for key, value in entry["variants"][variant].items() if key != "when"}
    entry["config_class"] = entry.pop("class", "")
    known = {item.name for item in fields(Architecture)}
    unknown = set(entry) - known
    if unknown:
        raise RopewalkError(f"architectures.json: {model_type} has unknown keys {', '.join(sorted(unknown))}.")
    for name in _LISTS:
        entry[name] = tuple(entry.get(name, ()))
    entry["keys"] = {name: tuple(spellings) for name, spellings in entry.get("keys", {}).items()}
    entry["labels"] = {name: _label(label) for name, label in entry.get("labels", {}).items()}
    return Architecture(**entry)


_LISTS = (
    "theta_keys",
    "rotary_dim_keys",
    "head_dim_keys",
    "off_kinds",
    "skip_kinds",
    "block_keys",
    "toggle",
    "variants",
)


def _label(entry: Mapping[str, Any]) -> Label:
    lists = {name: tuple(entry[name]) for name in ("theta_keys", "head_dim_keys") if name in entry}
    return Label(**{**entry, **lists})
