"""read(): whatever names a model, to a Model."""

import difflib
import errno
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._checks import shown
from ..errors import RopewalkError
from ._files import starts_with
from .families import config_in, family_of, read_family
from .json_file import read_json
from .model import Model

if TYPE_CHECKING:
    from .hub import HubFile

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)


def read(target: object) -> Model:
    """Describe the rotary embeddings of a model from its configuration, its GGUF, its hub id or a preset.

    Args:
        target: a path to a configuration (config.json, params.json …), a GGUF, a checkpoint with a configuration
            beside it, an ONNX graph, a .npy or .npz of cos and sin, or a directory that holds one; a hub id
            `org/name[@revision]` or `hf://…`; the name of a preset ("llama-3.1-8b"); a dict with the contents of a
            configuration; or a `transformers.PretrainedConfig`. An existing path wins over a hub id, a hub id over a
            preset.

    Returns:
        The Model: parts, layers, ropes, findings, and the source of every value. A model without RoPE reads as a
        Model without ropes whose `positions` says what it uses. Nothing that the files name is executed.

    Raises:
        RopewalkError: where there is nothing to read: no such file, a damaged one, no model in it, a hub that does
            not give it, an unknown preset.

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
            f"a target must be a path, a hub id, a dict, a PretrainedConfig or a preset's name, got {shown(target)}."
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


def _check_link(path: Path) -> None:
    """Refuse symbolic links that lead to nothing, before the name is taken for a hub id."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RopewalkError(f"{path} runs through symbolic links that lead in a circle. Mend them.") from error
        if error.errno == errno.ENOENT and path.is_symlink():
            raise RopewalkError(f"{path} is a symbolic link to what is not there. Mend it.") from error
    except ValueError:
        pass


def _read_path(path: Path) -> Model:
    if path.is_dir():
        path = _file_in(path)
    suffix = path.suffix.lower()
    if suffix == ".gguf" or starts_with(path, b"GGUF"):
        from .gguf import read_gguf

        return read_gguf(path)
    if suffix == ".safetensors":
        from .safetensors_file import config_beside, with_stored_frequencies

        beside = config_beside(path)
        return with_stored_frequencies(_read_object(read_json(beside), f"{beside}, beside {path.name}"), path)
    if suffix == ".onnx":
        from .onnx_file import read_onnx

        return read_onnx(path)
    if suffix in (".npy", ".npz"):
        from .tables import read_table_file

        return read_table_file(path)
    if suffix == ".bin":
        from .llama2c import llama2c_header, read_llama2c

        if (header := llama2c_header(path)) is not None:
            return read_llama2c(path, header)
    if suffix in _PICKLES:
        raise RopewalkError(
            f"{path} is a checkpoint, perhaps a pickle, which ropewalk never loads: it could run code. Give the "
            "model's config.json."
        )
    return _read_object(read_json(path), str(path))


def _file_in(directory: Path) -> Path:
    """Give the file of a directory that describes its model: a configuration, else its only GGUF."""
    found = config_in(directory)
    if found is not None:
        return found
    try:
        ggufs = sorted(islice((path for path in directory.iterdir() if path.suffix.lower() == ".gguf"), 1000))
    except OSError as error:
        raise RopewalkError(f"{directory} cannot be read: {error.strerror or error}. Check its rights.") from error
    models = [path for path in ggufs if not _LATER_PART.search(path.name) and not path.name.startswith("mmproj")]
    if len(models) == 1:
        return models[0]
    held = f"; it holds {len(models)} GGUF models" if models else ""
    raise RopewalkError(
        f"{directory} has no config.json and no params.json{held}. Give a directory with one, or the file itself."
    )


def configuration(target: object) -> Mapping[str, Any] | None:
    """Give the Hugging Face configuration behind a target, as it stands in its file; None where there is none.

    Raises:
        RopewalkError: where the target names nothing that can be read.
    """
    if isinstance(target, Model):
        return None
    if isinstance(target, Mapping):
        data: Mapping[str, Any] | None = target
    elif hasattr(target, "to_dict"):
        data = target.to_dict()  # type: ignore[union-attr]
    else:
        data = _json_behind(str(target))
    return data if data is not None and family_of(data) == "huggingface" else None


def _json_behind(name: str) -> Mapping[str, Any] | None:
    path = Path(name)
    if not (name and _exists(path)):
        if name in _presets():
            return preset(name)["config"]
        _check_link(path)
        found = _on_hub(name)
        return None if found is None else read_json(found.path)
    if path.is_dir():
        path = _file_in(path)
    return read_json(path) if path.suffix.lower() == ".json" and not starts_with(path, b"GGUF") else None


def _on_hub(name: str) -> "HubFile | None":
    if "/" not in name:
        return None
    from .hub import hub_id, locate

    return None if hub_id(name) is None else locate(name)


def _read_object(data: Mapping[str, Any], target: str) -> Model:
    return read_family(data, target)


def _read_name(name: str) -> Model:
    presets = _presets()
    if name in presets:
        return _read_object(presets[name]["config"], f"preset {name}")
    _check_link(Path(name))
    found = _on_hub(name)
    if found is not None:
        return _read_object(read_json(found.path), found.words)
    if "/" in name or name.lower().endswith((".json", ".gguf", ".onnx", ".npy", ".npz", *_PICKLES)):
        from .hub import meant_for_hub

        raise RopewalkError(meant_for_hub(name) or f"there is no file {shown(name)}. Check the path.")
    nearest = difflib.get_close_matches(name.lower(), presets, n=3, cutoff=0.3)
    listed = f"ropewalk.preset_names() lists the {len(presets)} presets"
    if nearest:
        listed = f"the nearest presets are {', '.join(nearest)}"
    raise RopewalkError(f"{shown(name)} is neither an existing path, nor a hub id org/name, nor a preset; {listed}.")
