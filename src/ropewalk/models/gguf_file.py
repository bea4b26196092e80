"""The header of a GGUF file: its metadata and where its tensors lie, walked through without trusting one count.

The `gguf` package's reader maps the whole file and builds an object for every token of the vocabulary; its loops run
as often as the file says. Here every length is held against the size of the file before anything is read, the
vocabulary is stepped over, and memory stays at one window.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import MAX_HEAD_DIM, MAX_LAYERS
from ..errors import RopewalkError
from ._files import Window, as_float64, open_regular

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_KEYS = 16_384
MAX_TENSORS = 32_768
MAX_WALKED = 1_500_000  # strings in arrays: the largest vocabularies and their merges have 850,000
MAX_METADATA = 2**28
MAX_NAME = 65_535  # bytes of a key, as the format says
MAX_WORD = 256  # bytes of a string that is kept
MAX_DEPTH = 3
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_FLOAT_TENSORS = {0: "f4", 1: "f2", 28: "f8", 30: "u2"}  # F32, F16, F64, BF16
LONG = "a long string"


class TensorPlace(NamedTuple):
    """Where a tensor lies.

    Attributes:
        shape: innermost dimension first, as in the file.
        kind: ggml's number of the data type.
        offset: bytes from the start of the data.
    """

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GGUFHeader:
    """What stands before the weights.

    Attributes:
        path: the file.
        metadata: by key; arrays of strings and long arrays are left out, long strings are only named.
        tensors: by name.
        data_start: the byte where the tensors' data begins.
        order: "<" or ">", the byte order.
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorPlace]
    data_start: int
    order: str

    def floats(self, name: str) -> NDArray[np.float64] | None:
        """Give a small tensor of one dimension as float64; None where the file has no tensor of that name.

        Raises:
            RopewalkError: for a tensor that is quantized, too long, or outside the file.
        """
        place = self.tensors.get(name)
        if place is None:
            return None
        count = math.prod(place.shape)
        if place.kind not in _FLOAT_TENSORS or not 1 <= count <= MAX_HEAD_DIM or max(place.shape, default=0) != count:
            raise RopewalkError(
                f"{self.path}: {name} must be a row of 1 to {MAX_HEAD_DIM} floating-point numbers, got shape "
                f"{list(place.shape)} of ggml type {place.kind}. Convert the model again."
            )
        dtype = np.dtype(self.order + _FLOAT_TENSORS[place.kind])
        with open_regular(self.path) as stream:
            window = Window(stream, self.path)
            window.skip(self.data_start + place.offset)
            values = np.concatenate(
                [
                    np.frombuffer(window.take(min(step, count - start) * dtype.itemsize), dtype=dtype)
                    for step in (16_384,)
                    for start in range(0, count, step)
                ]
            )
        if place.kind == 30:
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return as_float64(values)


def read_header(path: Path) -> GGUFHeader:
    """Read what stands before the weights of a GGUF file.

    Args:
        path: the file; versions 2 and 3, in either byte order.

    Raises:
        RopewalkError: for another kind of file, and for one whose counts or lengths do not fit its size.
    """
    with open_regular(path) as stream:
        return _Walk(Window(stream, path)).header()


class _Walk:
    """One pass over a header."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.path = window.path
        self.order = "<"
        self.walked = 0

    def header(self) -> GGUFHeader:
        window = self.window
        if window.size < 24 or bytes(window.take(4)) != MAGIC:
            raise RopewalkError(f"{self.path} is no GGUF file: it does not start with GGUF and a header of 24 bytes.")
        version = self.number("I")
        if version > 65_535:
            self.order = ">"
            version = int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in VERSIONS:
            raise RopewalkError(
                f"{self.path} is a GGUF of version {version}; versions {VERSIONS[0]} and {VERSIONS[1]} are read. "
                "Convert the model again."
            )
        tensor_count, key_count = self.number("Q"), self.number("Q")
        self.bound("metadata keys", key_count, MAX_KEYS, 13)
        metadata: dict[str, Any] = {}
        for _ in range(key_count):
            key = self.name()
            if key in metadata:
                raise RopewalkError(f"{self.path} is damaged: the key {key} stands in it twice.")
            metadata[key] = self.value(self.number("I"), keep=not key.startswith("tokenizer."), depth=0)
            self.metadata_size()
        self.bound("tensors", tensor_count, MAX_TENSORS, 24)
        tensors = dict(self.tensor() for _ in range(tensor_count))
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 1 <= alignment <= 2**20:
            raise RopewalkError(f"{self.path} is damaged: general.alignment is {alignment}, not a small whole number.")
        return GGUFHeader(
            path=self.path,
            metadata={key: value for key, value in metadata.items() if value is not None},
            tensors=tensors,
            data_start=-(-window.at // alignment) * alignment,
            order=self.order,
        )

    def number(self, code: str) -> Any:
        return struct.unpack(self.order + code, self.window.take(struct.calcsize("<" + code)))[0]

    def bound(self, what: str, count: int, at_most: int, least_bytes: int) -> None:
        room = (self.window.size - self.window.at) // least_bytes
        if count > min(at_most, room):
            raise RopewalkError(
                f"{self.path} is damaged: it promises {count} {what}; its size has room for {room}, and a model has "
                f"at most {at_most}. Fetch the file again."
            )

    def name(self) -> str:
        length = self.number("Q")
        if length > MAX_NAME:
            raise RopewalkError(f"{self.path} is damaged: at byte {self.window.at} stands a name of {length} bytes.")
        return bytes(self.window.take(length)).decode("utf-8", errors="backslashreplace")

    def tensor(self) -> tuple[str, TensorPlace]:
        name = self.name()
        dimensions = self.number("I")
        if dimensions > 8:
            raise RopewalkError(f"{self.path} is damaged: tensor {name[:80]} has {dimensions} dimensions.")
        shape = tuple(self.number("Q") for _ in range(dimensions))
        return name, TensorPlace(shape, self.number("I"), self.number("Q"))

    def value(self, kind: int, *, keep: bool, depth: int) -> Any:
        """Give a value, or None for one that is stepped over."""
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            length = self.number("Q")
            if length <= MAX_WORD and keep:
                return bytes(self.window.take(length)).decode("utf-8", errors="backslashreplace")
            self.window.skip(length)
            return LONG
        if kind != _ARRAY or depth >= MAX_DEPTH:
            raise RopewalkError(
                f"{self.path} is damaged: at byte {self.window.at} stands a value of unknown type {kind}"
                f"{', an array too deeply nested' if kind == _ARRAY else ''}."
            )
        inner, count = self.number("I"), self.number("Q")
        if inner in _SCALARS:
            return self.array(_SCALARS[inner], count, keep=keep)
        self.bound("entries of an array", count, MAX_WALKED - self.walked, 8)
        self.walked += count
        if inner == _STRING:
            self.strings(count)
        else:
            for _ in range(count):
                self.value(inner, keep=False, depth=depth + 1)
        return None

    def array(self, code: str, count: int, *, keep: bool) -> list[Any] | None:
        width = struct.calcsize("<" + code)
        if count > (self.window.size - self.window.at) // width:
            raise self.window.ended(count * width)
        if not keep or count > MAX_LAYERS:
            self.window.skip(count * width)
            return None
        return list(struct.unpack(f"{self.order}{count}{code}", self.window.take(count * width)))

    def strings(self, count: int) -> None:
        """Step over strings: the only loop that a file can make long, and so the only one that is written for speed."""
        window, unpack = self.window, struct.Struct(self.order + "Q").unpack_from
        while count:
            held, offset = window.ahead(8)
            begun, last = offset, len(held) - 8
            while count and offset <= last:
                offset += 8 + unpack(held, offset)[0]
                count -= 1
            if offset - begun > window.size - window.at:
                raise window.ended(offset - begun)
            window.at += offset - begun
            self.metadata_size()

    def metadata_size(self) -> None:
        if self.window.at > MAX_METADATA:
            raise RopewalkError(
                f"{self.path} claims more than {MAX_METADATA // 2**20} MiB of metadata; a model has a few. It is "
                "damaged, or made to harm."
            )
