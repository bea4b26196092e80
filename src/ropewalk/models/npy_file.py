"""Arrays of NumPy's files, .npy and .npz: nothing is unpickled, and the header says how much is read."""

import io
import math
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RopewalkError
from ._files import open_regular

MAX_BYTES = 32 * 2**20  # of an array; of a longer one the leading rows are read
MAX_MEMBERS = 256
_MAGIC = b"\x93NUMPY"
_HEADER = 10_000  # bytes; NumPy writes 128
_END = 22  # bytes of a zip archive's last record
_CHUNK = 2**18


class Array:
    """The leading rows of an array, and the shape of all of it.

    Attributes:
        values: the rows.
        shape: of the whole array.
    """

    def __init__(self, values: NDArray[Any], shape: tuple[int, ...]) -> None:
        self.values = values
        self.shape = shape


def read_npy(path: Path) -> Array:
    """Read the array of a .npy file.

    Raises:
        RopewalkError: for anything else, objects, and files that end before their header says.
    """
    with open_regular(path) as stream:
        return _array(stream, str(path), np.iinfo(np.int64).max)


def read_npz(path: Path, wanted: tuple[tuple[str, ...], ...]) -> dict[str, Array]:
    """Read the first wanted set of arrays that a .npz holds, else its only array.

    Args:
        path: the file.
        wanted: names of arrays that belong together.

    Raises:
        RopewalkError: for anything else, and where the file holds neither.
    """
    with open_regular(path) as stream:
        _check_directory(stream, path)
        try:
            with zipfile.ZipFile(stream) as archive:
                members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
                names = next((names for names in wanted if all(name in members for name in names)), None)
                if names is None and len(members) == 1:
                    names = tuple(members)
                if names is None:
                    held = ", ".join(name[:40] for name in list(members)[:6]) or "no arrays"
                    raise RopewalkError(
                        f"{path} holds {held}; cos and sin are expected, or cos_cached and sin_cached, or one array of "
                        "both. Save it with numpy.savez(file, cos=cos, sin=sin)."
                    )
                arrays = {}
                for name in names:
                    with archive.open(members[name]) as member:
                        arrays[name] = _array(member, f"{path}, {name[:80]}", members[name].file_size)
                return arrays
        except RopewalkError:
            raise
        except Exception as error:  # zipfile and zlib raise many kinds
            raise RopewalkError(f"{path} is no .npz file, or a damaged one. Save it again.") from error


def _check_directory(stream: IO[bytes], path: Path) -> None:
    """Refuse an archive whose directory is long, before zipfile reads all of it."""
    size = stream.seek(0, 2)
    start = max(size - _END - 2**16, 0)
    stream.seek(start)
    tail = stream.read(size - start)
    at = tail.rfind(b"PK\x05\x06")
    record = tail[at : at + _END]
    if at < 0 or len(record) < _END:
        raise RopewalkError(f"{path} is no .npz file, or one cut off. Save it again.")
    members, directory = int.from_bytes(record[10:12], "little"), int.from_bytes(record[12:16], "little")
    if members > MAX_MEMBERS or directory > 2**20 or tail[max(at - 20, 0) : at].startswith(b"PK\x06\x07"):
        raise RopewalkError(
            f"{path} holds {members} arrays or more; up to {MAX_MEMBERS} are looked through. Save cos and sin alone."
        )
    stream.seek(0)


def _array(stream: IO[bytes], words: str, size: int) -> Array:
    """Read one array: its header, and of its data no more than MAX_BYTES."""
    shape, fortran, dtype = _header(stream, words)
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise RopewalkError(f"{words} holds {dtype}, no plain numbers, and is not unpickled. Save cos and sin alone.")
    bits16 = dtype.kind == "V" and dtype.itemsize == 2  # how NumPy writes bfloat16
    if not (bits16 or dtype.kind in "fc") or dtype.itemsize > 16:
        raise RopewalkError(f"{words} is of type {dtype}; floating-point numbers are expected.")
    row = math.prod(shape[1:]) * dtype.itemsize if shape else 0
    if len(shape) < 2 or len(shape) > 8 or min(shape) < 1 or row > MAX_BYTES // 2:
        raise RopewalkError(f"{words} has shape {list(shape)[:8]}; a table [positions, pairs] is expected.")
    total = row * shape[0]
    if total > size:
        raise RopewalkError(f"{words} is damaged: its header promises {total} bytes, it holds at most {size}.")
    squeezed = [extent for extent in shape if extent > 1]
    if total > MAX_BYTES and (fortran or shape[0] == 1 or len(squeezed) > 2):
        raise RopewalkError(
            f"{words} takes {total // 2**20} MiB and its rows do not lie one after the other; up to "
            f"{MAX_BYTES // 2**20} MiB are read. Save [positions, pairs] in C order."
        )
    rows = min(shape[0], MAX_BYTES // row)
    data = bytearray()
    while len(data) < rows * row:
        piece = stream.read(min(_CHUNK, rows * row - len(data)))
        if not piece:
            raise RopewalkError(f"{words} is cut off: {rows * row} bytes are expected, {len(data)} are there.")
        data += piece
    values = np.frombuffer(data, dtype="<u2" if bits16 else dtype)
    if bits16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    held = (rows, *shape[1:])
    return Array(values.reshape(held, order="F" if fortran else "C"), shape)


def _header(stream: IO[bytes], words: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read a header of at most _HEADER bytes; NumPy's own reader takes as many as the file claims."""
    problem = RopewalkError(f"{words} has no header of a .npy file that can be read. Save it again.")
    start = stream.read(len(_MAGIC) + 2)
    count = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}.get(start[len(_MAGIC) :])
    length = b"" if count is None else stream.read(count)
    size = int.from_bytes(length, "little")
    if not start.startswith(_MAGIC) or count is None or len(length) < count or size > _HEADER:
        raise problem
    text = stream.read(size)
    try:
        with warnings.catch_warnings():  # a header of Python 2
            warnings.simplefilter("ignore")
            read = np.lib.format.read_array_header_1_0 if count == 2 else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(io.BytesIO(length + text))
    except Exception as error:  # the header is Python text: its parser raises many kinds
        raise problem from error
    if any(extent > 2**62 for extent in shape):
        raise problem
    return shape, fortran, dtype
