"""An ONNX file as a function of (x, k, position_ids), run by onnxruntime."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RopewalkError

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
_POSITIONS = ("pos", "ids")


def graph(path: Path) -> Callable[..., Any]:
    """Load a graph; give it as a function of q and position_ids, and of k where it has one.

    Raises:
        RopewalkError: where onnxruntime is missing, the file does not load, or its inputs are others.
    """
    try:
        onnxruntime = import_module("onnxruntime")
    except ImportError as error:
        raise RopewalkError("an ONNX file is run by onnxruntime, which is missing: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own classes, which differ by version
        raise RopewalkError(f"{path} cannot be loaded by onnxruntime: {str(error).splitlines()[0]}") from error
    inputs = session.get_inputs()
    ids = [one for one in inputs if "int" in one.type or any(word in one.name.lower() for word in _POSITIONS)]
    vectors = [one for one in inputs if one not in ids]
    known = all(one.type in _TYPES for one in inputs)
    if len(ids) != 1 or len(vectors) not in (1, 2) or not known:
        listed = ", ".join(f"{one.name}: {one.type}{one.shape}" for one in inputs)
        raise RopewalkError(
            f"{path} must take x (or q and k) in floats and one integer input of positions, got {listed}. Cut the "
            "graph so that these are its inputs."
        )

    own = {np.dtype(kind): name for name, kind in _TYPES.items()}

    def run(*arrays: Any) -> list[Any]:
        arrays = tuple(np.asarray(one) for one in arrays)
        named = zip((*vectors, ids[0]), arrays, strict=True)
        out = session.run(None, {one.name: _as(one, array) for one, array in named})
        same = vectors[0].type == own.get(arrays[0].dtype)
        return out if same else [np.asarray(one, dtype=arrays[0].dtype) for one in out]

    if len(vectors) == 2:
        return lambda q, k, position_ids: tuple(run(q, k, position_ids)[:2])
    return lambda x, position_ids: run(x, position_ids)[0]


def _as(wanted: Any, array: Any) -> np.ndarray:
    """Give an array in the type and rank that the graph states."""
    given = np.asarray(array)
    if "int" in wanted.type and given.dtype.kind == "f" and (given != np.round(given)).any():
        raise RopewalkError(f"the graph takes whole positions ({wanted.type}), got fractions.")
    if wanted.shape and len(wanted.shape) == 2 and given.ndim == 1:
        given = given[None]
    return np.ascontiguousarray(given, dtype=_TYPES[wanted.type])
