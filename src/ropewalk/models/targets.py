"""read(): whatever names a model, to a Model."""

import difflib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from .._checks import shown
from ..errors import RopewalkError
from .families import config_in, read_family
from .model import Model

MAX_FILE_BYTES = 64 * 2**20
_HUB_ID = re.compile(r"^(hf://.+|[\w.-]+/[\w.-]+(@[\w./-]+)?)$")
_OTHER_FILES = {
    ".gguf": "a GGUF file",
    ".safetensors": "a checkpoint",
    ".bin": "a checkpoint",
    ".pt": "a checkpoint",
    ".onnx": "an ONNX graph",
}


def read(target: object) -> Model:
    """Describe the rotary embeddings of a model from its Hugging Face configuration.

    Args:
        target: a path to a config.json or to a directory that holds one; a dict with its contents; a
            `transformers.PretrainedConfig`; or the name of a preset ("llama-3.1-8b"). An existing path wins.

    Returns:
        The Model: parts, layers, ropes, findings, and the source of every value. A model without RoPE reads as a
        Model without ropes whose `positions` says what it uses. Nothing that the files name is executed.

    Raises:
        RopewalkError: where there is nothing to read: no such file, not JSON, no model in it, another family of
            files, an unknown preset.

    >>> read({"model_type": "llama", "head_dim": 8, "num_hidden_layers": 2, "rope_theta": 10000}).rope.num_pairs
    4
    """
    if isinstance(target, Model):
        return target
    if isinstance(target, Mapping):
        return _read_object(target, "a dict")
    if hasattr(target, "to_dict"):
        return _read_object(target.to_dict(), type(target).__name__)  # type: ignore[union-attr]
    if not isinstance(target, str | Path):
        raise RopewalkError(
            f"a target must be a path, a dict, a PretrainedConfig or a preset's name, got {shown(target)}."
        )
    path = Path(target)
    if str(target) and _exists(path):
        return _read_path(path)
    return _read_name(str(target))


def preset_names() -> tuple[str, ...]:
    """Give the names of all presets."""
    return tuple(_presets())


def preset(name: str) -> Mapping[str, Any]:
    """Give a preset as it is kept: its configuration and where the facts come from."""
    return _presets()[name]


@cache
def _presets() -> dict[str, dict[str, Any]]:
    return json.loads((files("ropewalk.models") / "presets" / "presets.json").read_text(encoding="utf-8"))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _read_path(path: Path) -> Model:
    if path.is_dir():
        inner = config_in(path)
        if inner is None:
            raise RopewalkError(
                f"{path} has no config.json and no params.json. Give a directory with one, or the file."
            )
        path = inner
    if path.suffix.lower() in _OTHER_FILES:
        what = _OTHER_FILES[path.suffix.lower()]
        raise RopewalkError(f"{path} is {what}; this version reads configurations. Give the model's config.json.")
    data = _json_of(path)
    if not isinstance(data, Mapping):
        raise RopewalkError(f"{path} must hold a JSON object, got {shown(data)}. Give the model's config.json.")
    return _read_object(data, str(path))


def _json_of(path: Path) -> object:
    try:
        size = path.stat().st_size
        text = path.read_text(encoding="utf-8") if size <= MAX_FILE_BYTES else ""
    except OSError as error:
        raise RopewalkError(
            f"{path} cannot be read: {error.strerror or error}. Check the path and its rights."
        ) from error
    except ValueError as error:
        raise RopewalkError(f"{path} is not text ({error}). Give the model's config.json.") from error
    if size > MAX_FILE_BYTES:
        raise RopewalkError(
            f"{path} has {size // 2**20} MiB; a configuration may have {MAX_FILE_BYTES // 2**20}. Give the model's "
            "config.json."
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
        raise RopewalkError(f"{path} is not JSON ({reason}). Give the model's config.json.") from error


def _read_object(data: Mapping[str, Any], target: str) -> Model:
    return read_family(data, target)


def _read_name(name: str) -> Model:
    presets = _presets()
    if name in presets:
        return _read_object(presets[name]["config"], f"preset {name}")
    if _HUB_ID.match(name) or "/" in name or name.endswith(".json"):
        hub = (
            " It looks like a hub id; this version does not download: fetch the model's config.json and give its path."
            if _HUB_ID.match(name) and not name.endswith(".json")
            else " Check the path."
        )
        raise RopewalkError(f"there is no file {name}.{hub}")
    nearest = difflib.get_close_matches(name.lower(), presets, n=3, cutoff=0.3)
    listed = f"ropewalk.preset_names() lists the {len(presets)} presets"
    if nearest:
        listed = f"the nearest presets are {', '.join(nearest)}"
    raise RopewalkError(f"{shown(name)} is neither an existing path nor a preset; {listed}.")
