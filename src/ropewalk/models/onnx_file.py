"""ONNX graphs: the tables of cos and sin that RotaryEmbedding nodes read, taken back to a base and a scaling."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import MAX_HEAD_DIM, MAX_LAYERS
from ..errors import RopewalkError
from ..fitting.rows import Recovered, recover
from ._files import WINDOW, Window, as_float64, open_regular
from ._reading import Reading
from .model import Layer, Model
from .tables import rope_of

MAX_GRAPH_BYTES = 64 * 2**20  # graphs keep their weights outside
MAX_ROWS = 2048  # of a table
# by operator: the places of its tables among its inputs, the attribute for interleaved pairs
_OPERATORS: Mapping[tuple[str, str], tuple[int, int, str]] = {
    ("", "RotaryEmbedding"): (1, 2, "interleaved"),
    ("ai.onnx", "RotaryEmbedding"): (1, 2, "interleaved"),
    ("com.microsoft", "RotaryEmbedding"): (2, 3, "interleaved"),
    ("com.microsoft", "GroupQueryAttention"): (7, 8, "rotary_interleaved"),
}
_FLOATS = {1: "<f4", 10: "<f2", 11: "<f8", 16: "<u2"}


class _Table(NamedTuple):
    """What the leading rows of a pair of tables turn by, and how long the tables are."""

    seen: Recovered
    length: int


def read_onnx(path: Path, *, target: str = "") -> Model:
    """Read the rotary tables of an ONNX graph; the extra `onnx` is needed.

    Args:
        path: the graph; its external data is read for the leading rows of each table only.
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
            ropes[key] = _layer(reading, path, tables[names], names, interleaved=key[1])
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
    rows = [_leading_rows(path, one, int(shape[0]), int(shape[1])) for one in (cos, sin)]
    try:
        return _Table(recover(*rows), int(shape[0]))
    except RopewalkError as error:
        raise RopewalkError(f"{path}, {cos.name[:80]} and {sin.name[:80]}: {error}") from error


def _leading_rows(path: Path, tensor: Any, length: int, pairs: int) -> NDArray[np.float64]:
    """Give the leading rows of a table, at least two, from the graph or from the file beside it."""
    if tensor.data_type not in _FLOATS:
        raise RopewalkError(
            f"{path}: the table {tensor.name[:80]} is of type {tensor.data_type}, no floating-point one."
        )
    dtype = np.dtype(_FLOATS[tensor.data_type])
    rows = max(min(length, MAX_ROWS, WINDOW // (pairs * dtype.itemsize)), 2)
    step = rows * pairs * dtype.itemsize
    if tensor.data_location == 1:
        told = {entry.key: entry.value for entry in tensor.external_data}
        name, offset = told.get("location", ""), told.get("offset", "0")
        if Path(name).name != name or not offset.isdecimal() or len(offset) > 18:
            raise RopewalkError(f"{path}: the table {tensor.name[:80]} points to {name[:80]!r}, which is not followed.")
        with open_regular(path.with_name(name)) as stream:
            window = Window(stream, path.with_name(name))
            window.skip(int(offset))
            raw = bytes(window.take(step))
    elif tensor.raw_data:
        raw = tensor.raw_data[:step]
    elif dtype.str == "<f4":
        raw = np.array(tensor.float_data[: rows * pairs], dtype="<f4").tobytes()
    else:
        raw = b""
    if len(raw) != step:
        raise RopewalkError(f"{path}: the table {tensor.name[:80]} is shorter than its shape. Export the model again.")
    values = np.frombuffer(raw, dtype=dtype)
    if tensor.data_type == 16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return as_float64(values).reshape(rows, pairs)


def _layer(reading: Reading, path: Path, found: _Table, names: tuple[str, str], *, interleaved: bool) -> Layer:
    pairing = "interleaved" if interleaved else "half"
    try:
        rope = rope_of(
            reading, found.seen, length=found.length, pairing=pairing, key=names[0][:80], form="an ONNX graph"
        )
    except RopewalkError as error:
        raise RopewalkError(f"{path}, {names[0][:80]}: {error}") from error
    return Layer(ropes={"attention": rope})
