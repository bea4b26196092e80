"""What one census case is, and which rotary classes of the installed transformers there are."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

# The rule: a class whose name says rotary or rope, up to the next line that starts in column 0.
_CLASS = re.compile(r"^class (\w*(?:Rotary|Rope|RoPE)\w*)\([^)]*\):\n(.*?)(?=^\S)", re.MULTILINE | re.DOTALL)
_SEVERAL_AXES = re.compile("DINOv3|Eomt|Sapiens|LoFTR|Sam|EdgeTam|Vision|ViT")
_SEVERAL_AXES_BODY = ("mrope", "axial")


class NotCovered(Exception):
    """The census has no case for this class; the message says why."""


@dataclass(frozen=True)
class Case:
    """One rotary embedding of one default config, as transformers itself computes it."""

    class_name: str  # "LlamaRotaryEmbedding"
    file: str  # "models/llama/modeling_llama.py"
    model_type: str  # of the root config that is read
    config: dict  # the root config's to_dict(): what a user has in config.json
    part: str  # "text", "vision", "audio", "talker", "encoder", …
    label: str | None  # layer-type label ("full_attention", "main", …) or None
    layer: int | None  # one layer of the part that uses it, if known
    rope_key: str  # "attention" or "indexer"
    head_dim: int  # width of the vectors given to `turn`
    axes: int  # number of position axes
    inv_freq: np.ndarray | None  # the module's own, as float64; None where it has none
    attention_scaling: float  # what multiplies cos and sin
    tables: Callable | None  # positions [S] or [A, S] -> (cos, sin) as the module gives them
    turn: Callable  # x [S, H, D], positions [S] or [A, S] -> [S, H, D], through the file's own apply function
    note: str = ""


def transformers_root() -> Path:
    """Folder of the installed transformers package, without importing it."""
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        raise NotCovered("transformers is not installed")
    return Path(spec.origin).parent


def _group(name: str, body: str) -> str:
    if "Attention" in name:
        return "skip"
    if _SEVERAL_AXES.search(name) or any(word in body for word in _SEVERAL_AXES_BODY):
        return "multi"
    return "one"


def _scan() -> Iterator[tuple[str, str, str]]:
    root = transformers_root()
    for path in sorted((root / "models").glob("*/modeling_*.py")):
        for match in _CLASS.finditer(path.read_text(encoding="utf-8")):
            yield match[1], path.relative_to(root).as_posix(), _group(match[1], match[2])


def rotary_classes() -> list[tuple[str, str, str]]:
    """Every rotary class as (class name, file, group): group "one", "multi" or "skip" (attention classes)."""
    return list(_scan())
