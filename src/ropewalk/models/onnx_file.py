"""ONNX graphs: the tables of cos and sin that RotaryEmbedding nodes read, taken back to a base and a scaling."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import MAX_HEAD_DIM, MAX_LAYERS
from ..errors import RopewalkError
from ..rope import Rope
from ..scaling._frequencies import ladder
from ._files import Window, open_regular
from ._reading import Reading
from .gguf_divisors import scaling_of, table
from .model import Layer, Model

MAX_GRAPH_BYTES = 64 * 2**20  # graphs keep their weights outside
# by operator: the places of its tables among its inputs, the attribute for interleaved pairs
_OPERATORS: Mapping[tuple[str, str], tuple[int, int, str]] = {
    ("", "RotaryEmbedding"): (1, 2, "interleaved"),
    ("ai.onnx", "RotaryEmbedding"): (1, 2, "interleaved"),
    ("com.microsoft", "RotaryEmbedding"): (2, 3, "interleaved"),
    ("com.microsoft", "GroupQueryAttention"): (7, 8, "rotary_interleaved"),
}
_FLOATS = {1: "<f4", 10: "<f2", 11: "<f8", 16: "<u2"}


class _Table(NamedTuple):
    """Two rows of a pair of tables: what position 1 turns by, and how long the tables are."""

    angles: NDArray[np.float64]
    magnitude: float
    length: int


def read_onnx(path: Path, *, target: str = "") -> Model:
    """Read the rotary tables of an ONNX graph; the extra `onnx` is needed.

    Args:
        path: the graph; its external data is read for two rows of each table only.
        target: what was read, in words, for the Model.

    Raises:
        RopewalkError: for a file that is no graph, is too large, or turns nothing in a way that can be read.
    """
    graph = _graph(path)
    reading = Reading("text")
    constants = {one.name: one for one in graph.initializer}
    tables: dict[tuple[str, str], _Table] = {}
    layers: list[Layer] = []
    ropes: dict[tuple[Any, ...], Layer] = {}
    for node in graph.node[: 100 * MAX_LAYERS]:
        operator = _OPERATORS.get((node.domain, node.op_type))
        if operator is None:
            continue
        attributes = {one.name: one.i for one in node.attribute}
        cos, sin, flag = operator
        if len(node.input) <= max(cos, sin) or (
            node.op_type == "GroupQueryAttention" and not attributes.get("do_rotary")
        ):
            continue
        names = (node.input[cos], node.input[sin])
        if names not in tables:
            if not all(name in constants for name in names):
                continue  # computed inside the graph
            tables[names] = _table(path, constants[names[0]], constants[names[1]])
        key = (names, bool(attributes.get(flag, 0)))
        if key not in ropes:
            ropes[key] = Layer(ropes={"attention": _rope(reading, tables[names], interleaved=key[1])})
            reading.source("rope_theta", f"{names[0]}, row 1")
            reading.source("pairing", f"{node.op_type}.{flag}")
        layers.append(ropes[key])
    if not layers:
        raise RopewalkError(
            f"{path} has no RotaryEmbedding or GroupQueryAttention node whose tables are constants, so its RoPE cannot "
            "be read. Give the model's config.json."
        )
    # queries and keys have a node each
    shared = all(layer is layers[number ^ 1] for number, layer in enumerate(layers[:-1] if len(layers) % 2 else layers))
    fused = any(node.op_type == "GroupQueryAttention" for node in graph.node)
    halved = layers[::2] if shared and not fused and len(layers) % 2 == 0 else layers
    return Model(
        parts={"text": tuple(halved[:MAX_LAYERS])},
        model_type="onnx",
        target=target or str(path),
        findings=tuple(reading.findings),
        sources=reading.sources,
    )


def _graph(path: Path) -> Any:
    with open_regular(path) as stream:
        size = Window(stream, path).size
        if size > MAX_GRAPH_BYTES:
            raise RopewalkError(
                f"{path} has {size // 2**20} MiB; graphs up to {MAX_GRAPH_BYTES // 2**20} MiB are read, with their "
                "weights outside. Give the model's config.json."
            )
        try:
            import onnx
        except ImportError as error:
            raise RopewalkError(f"{path} is an ONNX graph; to read it, install ropewalk[onnx].") from error
        model = onnx.ModelProto()
        try:
            model.ParseFromString(stream.read())
        except Exception as error:  # protobuf's DecodeError, whose package is not declared
            raise RopewalkError(f"{path} is no ONNX graph, or a damaged one. Fetch the file again.") from error
    return model.graph


def _table(path: Path, cos: Any, sin: Any) -> _Table:
    shape = tuple(cos.dims)
    if (
        shape != tuple(sin.dims)
        or len(shape) != 2
        or not 2 <= shape[0] <= 2**40
        or not 1 <= shape[1] <= MAX_HEAD_DIM // 2
    ):
        raise RopewalkError(
            f"{path}: the tables {cos.name[:80]} and {sin.name[:80]} have shapes {list(shape)} and {list(sin.dims)}; "
            "two equal ones [positions, pairs] are expected."
        )
    rows = [_second_row(path, one, int(shape[1])) for one in (cos, sin)]
    magnitude = np.hypot(*rows)
    if not np.isfinite(rows).all() or not magnitude.min() > 0 or not np.allclose(magnitude, magnitude[0], rtol=1e-2):
        raise RopewalkError(
            f"{path}: the tables {cos.name[:80]} and {sin.name[:80]} are no cos and sin of one magnitude."
        )
    return _Table(np.arctan2(rows[1], rows[0]), float(magnitude.mean()), int(shape[0]))


def _second_row(path: Path, tensor: Any, pairs: int) -> NDArray[np.float64]:
    """Give row 1 of a table, from the graph or from the file beside it."""
    if tensor.data_type not in _FLOATS:
        raise RopewalkError(
            f"{path}: the table {tensor.name[:80]} is of type {tensor.data_type}, no floating-point one."
        )
    dtype = np.dtype(_FLOATS[tensor.data_type])
    step = pairs * dtype.itemsize
    if tensor.data_location == 1:
        told = {entry.key: entry.value for entry in tensor.external_data}
        name, offset = told.get("location", ""), told.get("offset", "0")
        if Path(name).name != name or not offset.isdecimal() or len(offset) > 18:
            raise RopewalkError(f"{path}: the table {tensor.name[:80]} points to {name[:80]!r}, which is not followed.")
        with open_regular(path.with_name(name)) as stream:
            window = Window(stream, path.with_name(name))
            window.skip(int(offset) + step)
            raw = bytes(window.take(step))
    elif tensor.raw_data:
        raw = tensor.raw_data[step : 2 * step]
    elif dtype.str == "<f4":
        raw = np.array(tensor.float_data[pairs : 2 * pairs], dtype="<f4").tobytes()
    else:
        raw = b""
    if len(raw) != step:
        raise RopewalkError(f"{path}: the table {tensor.name[:80]} is shorter than its shape. Export the model again.")
    values = np.frombuffer(raw, dtype=dtype)
    if tensor.data_type == 16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64)


def _rope(reading: Reading, seen: _Table, *, interleaved: bool) -> Rope:
    """Find the base and the scaling of a table. Its width stands for the head's: a graph need not say more."""
    width = 2 * len(seen.angles)
    theta = 10000.0
    if len(seen.angles) > 1 and seen.angles.min() > 0:
        ratio = float(seen.angles[1] / seen.angles[0])
        with np.errstate(all="ignore"):
            exact = ratio ** (-width / 2) if 0 < ratio < 1 else 0.0
        theta = float(f"{exact:.4g}") if 1 < exact < 1e15 and math.isfinite(exact) else theta
    angles = np.where(seen.angles > 0, seen.angles, 1e-30)
    divisors = ladder(theta, width) / angles
    scaling, how = scaling_of(divisors, theta, length=seen.length, original=None)
    if not math.isclose(seen.magnitude, 1.0, rel_tol=1e-3):
        scaling, how = table(divisors, seen.length, float(f"{seen.magnitude:.6g}")), "kept as a table"
    reading.source("scaling", f"row 1 of the tables, {how}")
    reading.source("max_position_embeddings", "rows of the tables")
    reading.find(
        "frequencies-fitted",
        key="cos_cache",
        seen=f"{len(angles)} angles of position 1",
        right=f"base {theta:g}, {how}",
        message="an ONNX graph holds tables of cos and sin, not parameters: the base and the scaling shown are fitted "
        "to their second row, and the width of the tables is taken for that of the head.",
    )
    return Rope(
        head_dim=width,
        rotary_dim=width,
        rope_theta=theta,
        pairing="interleaved" if interleaved else "half",
        scaling=scaling,
        max_position_embeddings=seen.length,
    )
