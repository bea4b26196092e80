"""Safetensors checkpoints: the configuration beside them, and the frequencies that some of them carry."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RopewalkError
from ..findings import Finding
from ._files import WINDOW, Window, as_float64, open_regular
from .model import Model

MAX_HEADER_BYTES = 64 * 2**20
MAX_STORED = 512  # one a layer
MAX_PAIRS = 32_768
_STORED = re.compile(rb'"([^"\\]{0,200}\binv_freq)"\s*:\s*(\{[^{}]{0,500}\})')
_LAYER = re.compile(r"\.(\d+)\.")
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_KEPT = {"F64": 1e-9, "F32": 2e-6, "F16": 6e-4, "BF16": 5e-3}  # what rounding to that type alone may do


def config_beside(path: Path) -> Path:
    """Give the configuration that belongs to a checkpoint: config.json in its directory, or one of its own name.

    Raises:
        RopewalkError: where there is none.
    """
    stem = re.sub(r"-\d{5}-of-\d{5}$", "", path.stem)
    for name in (f"{path.stem}.config.json", f"{stem}.config.json", f"{stem}.json", "config.json", "params.json"):
        beside = path.with_name(name)
        if beside.is_file():
            return beside
    raise RopewalkError(
        f"{path} is a checkpoint of weights, which does not say how they are turned, and no config.json lies beside "
        "it. Give the model's config.json."
    )


def with_stored_frequencies(model: Model, path: Path) -> Model:
    """Compare the frequencies that a checkpoint carries with those of its configuration; a difference is a finding.

    Args:
        model: as the configuration has it.
        path: the .safetensors file; only its header and the small inv_freq tensors are read.

    Raises:
        RopewalkError: for a file that is damaged.
    """
    for name, dtype, stored in _stored(path):
        layer = _LAYER.search(name)
        layers = model.layers
        rope = layers[int(layer[1]) % len(layers)].rope if layer and layers else None
        ropes = [rope] if rope is not None else list(model.ropes)
        same = [rope for rope in ropes if rope.num_pairs == len(stored)]
        if not same:
            continue
        gaps = [np.abs(stored / np.where((w := rope.pairs().inv_freq) == 0, np.inf, w) - 1).max() for rope in same]
        if not min(gaps) <= _KEPT[dtype]:
            finding = Finding.of(
                "stored-frequencies",
                where=f"text: {name}",
                seen=f"{dtype} frequencies up to {min(gaps):.3g} away from the configuration's",
                right="the configuration's, which transformers computes anew",
                message=f"the checkpoint carries frequencies ({name}) that differ from those of its configuration by "
                f"up to {min(gaps):.3g}, more than rounding to {dtype} explains. transformers ignores them; code that "
                "loads them turns by them. What the configuration says is described.",
            )
            return replace(model, findings=(*model.findings, finding))
    return model


def _stored(path: Path) -> Iterator[tuple[str, str, np.ndarray]]:
    """Give every stored inv_freq: its name, its type, and its values as float64."""
    with open_regular(path) as stream:
        window = Window(stream, path)
        if window.size < 8:
            raise RopewalkError(f"{path} is damaged: a safetensors file has at least 8 bytes, this one {window.size}.")
        length = int.from_bytes(window.take(8), "little")
        if length > min(window.size - 8, MAX_HEADER_BYTES):
            raise RopewalkError(
                f"{path} is damaged: it promises a header of {length} bytes; the file has {window.size}, and at most "
                f"{MAX_HEADER_BYTES} are read."
            )
        for name, entry in _entries(window, length):
            shape, (begin, end), dtype = entry
            count = shape[0] if len(shape) == 1 else -1
            width = np.dtype(_DTYPES[dtype]).itemsize
            if not 1 <= count <= MAX_PAIRS or end - begin != count * width or 8 + length + end > window.size:
                raise RopewalkError(f"{path} is damaged: tensor {name} has shape {shape} and {end - begin} bytes.")
            window.at = 8 + length + begin
            values = np.frombuffer(bytes(window.take(end - begin)), dtype=_DTYPES[dtype])
            if dtype == "BF16":
                values = (values.astype(np.uint32) << 16).view(np.float32)
            yield name, dtype, as_float64(values)


def _entries(window: Window, length: int) -> list[tuple[str, tuple[list[int], list[int], str]]]:
    """Find the entries of stored frequencies in a header without building the whole of it."""
    entries: list[tuple[str, tuple[list[int], list[int], str]]] = []
    rest, seen = b"", 0
    while seen < length and len(entries) < MAX_STORED:
        step = min(length - seen, WINDOW)
        text = rest + bytes(window.take(step))
        seen += step
        cut = 0
        for match in _STORED.finditer(text):
            cut = match.end()
            entry = _entry(match[2])
            if entry is not None:
                entries.append((match[1].decode("utf-8", errors="replace"), entry))
        rest = text[max(cut, len(text) - 1024) :]
    return entries


def _entry(text: bytes) -> tuple[list[int], list[int], str] | None:
    try:
        entry: Any = json.loads(text)
        shape, places, dtype = entry["shape"], entry["data_offsets"], entry["dtype"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    whole = isinstance(shape, list) and isinstance(places, list) and len(places) == 2 and len(shape) <= 8
    if not whole or not all(type(number) is int and 0 <= number <= 2**60 for number in (*shape, *places)):
        return None
    return (shape, places, dtype) if isinstance(dtype, str) and dtype in _DTYPES else None
