"""Settings of transformers, in both spellings, and of vLLM, which takes them as overrides."""

import json
import shlex
from typing import Any

from ..axes import Sections
from ..scaling import Dynamic, Linear, LongRope, Ntk
from ._carriers import PARTIAL, carried, carrier_notes
from ._classes import NEEDED, TOP_BASE, check_class, check_layer_types
from ._proving import engine_named, prove
from ._settings import Settings
from ._subject import Refused, Subject
from ._writing import Config, UnwritableError, config_of

TRANSFORMERS = "5.24.0"
VLLM = "0.33.0"


def transformers(subject: Subject) -> Settings:
    """Give the keys of a config.json for transformers 5."""
    return _configured(subject, 5, "transformers")


def transformers_v4(subject: Subject) -> Settings:
    """Give the keys of a config.json in the spelling of transformers 4, which transformers 5 loads too."""
    return _configured(subject, 4, "transformers-v4")


def _configured(subject: Subject, spelling: int, name: str) -> Settings:
    chosen, config, notes = written(subject, spelling, name, "transformers")
    arch = chosen.arch
    for group in chosen.groups:
        if group.rope.width != group.rope.head_dim and chosen.model_type not in PARTIAL and not arch.ignore_partial:
            raise Refused(name, f"{arch.config_class} turns whole heads", ("rotary_dim",))
    said = f"verified against transformers {TRANSFORMERS}: loads, and gives the same inv_freq"
    carrier = carrier_notes(chosen, subject, "class whose code pairs channels")
    needed = dict.fromkeys(NEEDED[layer.kind] for layer in chosen.layers if layer.kind in NEEDED)
    beside = tuple(f"{key} must stand in the file: {arch.config_class} does not load without it" for key in needed)
    text = as_json(config)
    return Settings(engine=name, version=TRANSFORMERS, text=text, notes=(said, *carrier, *beside, *notes))


def vllm(subject: Subject) -> Settings:
    """Give vLLM's flag --hf-overrides, which replaces the block of rope parameters of the model that is served."""
    if subject.model_type == "chatglm":
        raise Refused("vllm", "its ChatGLM class reads rope_ratio and no rope_parameters", ("rope_parameters",))
    rope = subject.single
    if subject.model_type is None and rope is not None:
        if rope.direction < 0:
            raise Refused("vllm", "no key turns backwards: the model's class does", ("direction",))
        if isinstance(rope.axes, Sections) and rope.axes.arrangement == "alternating":
            raise Refused("vllm", "no key alternates axes: the model's class does", ("axes",))
    chosen, config, notes = written(subject, 5, "vllm", "vLLM")
    inner = config.get(chosen.home, config)
    kept: Config = {"rope_parameters": inner["rope_parameters"]}
    for name in ("original_max_position_embeddings", "max_position_embeddings"):
        # the server multiplies its length by a linear or dynamic factor itself
        grows = any(isinstance(rope.scaling, Linear | Dynamic | Ntk) for rope in chosen.ropes)
        if name in inner and not (grows and name == "max_position_embeddings"):
            kept[name] = inner[name]
    for group in chosen.groups:
        if group.rope.width != group.rope.head_dim and chosen.arch.rotary_dim_keys and not chosen.arch.rotary_tail:
            kept[chosen.arch.rotary_dim_keys[0]] = group.rope.width
    overrides: dict[str, Any] = {chosen.home: kept} if chosen.home else kept
    text = f"--hf-overrides {shlex.quote(json.dumps(overrides))}\n"
    said = f"verified against vLLM {VLLM} (vllm/config/model.py, rotary_embedding/__init__.py): source read"
    pairs = {f"{rope.pairing} pairs" for rope in chosen.ropes}
    fixed = f"the model's class fixes head_dim and pairing ({', '.join(sorted(pairs))})"
    if any(isinstance(rope.scaling, LongRope) for rope in chosen.ropes):
        notes = tuple(note for note in notes if "shown as" not in note)
        notes = (*notes, "one list for every length: the long one where --max-model-len exceeds the original length")
    return Settings(engine="vllm", version=VLLM, text=text, notes=(said, fixed, *notes))


def written(subject: Subject, spelling: int, name: str, engine: str) -> tuple[Subject, Config, tuple[str, ...]]:
    """Give the configuration that the engine reads back as the subject, and the architecture that it stands under.

    Raises:
        Refused: where there is none.
    """
    first: Refused | None = None
    for candidate in candidates(subject, name):
        try:
            config = _checked(candidate, spelling, name) if engine == "transformers" else config_of(candidate)
            alike = engine == "transformers"
            return candidate, config, prove(candidate, config, engine_named(engine), name, read_alike=alike)
        except UnwritableError as error:
            first = first or Refused(name, error.reason, error.lost)
        except Refused as error:
            first = first or error
    assert first is not None
    raise first


def _checked(subject: Subject, spelling: int, name: str) -> Config:
    check_class(subject, spelling, name)
    config = config_of(subject, spelling=4 if subject.model_type in TOP_BASE else spelling)
    check_layer_types(subject, config, spelling, name)
    return config


def candidates(subject: Subject, name: str) -> list[Subject]:
    """Give the subject under its own architecture, or under every one that could carry its rope.

    Raises:
        Refused: where there is none.
    """
    for rope in subject.ropes if name != "vllm" else ():
        if isinstance(rope.scaling, Ntk) and rope.scaling.method == "vllm":
            raise Refused(name, "it has no rope_type for vLLM's own form of ntk", ("scaling",))
    own = [subject] if subject.model_type is not None and subject.arch.source.startswith("transformers") else []
    if own:
        return own
    try:
        return list(carried(subject))
    except UnwritableError as error:
        raise Refused(name, error.reason, error.lost) from error


def as_json(config: Config) -> str:
    """Give a configuration as indented JSON, its lists of numbers on one line each."""
    lists: list[str] = []

    def flat(value: object) -> object:
        if isinstance(value, dict):
            return {key: flat(entry) for key, entry in value.items()}
        if isinstance(value, list) and not any(isinstance(entry, dict) for entry in value):
            lists.append(json.dumps(value))
            return f"\x00{len(lists) - 1}\x00"
        return value

    text = json.dumps(flat(config), indent=2)
    for number, line in enumerate(lists):
        text = text.replace(f'"\\u0000{number}\\u0000"', line)
    return text + "\n"
