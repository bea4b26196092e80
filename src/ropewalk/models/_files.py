"""Files of unknown origin, opened with care and read through a window, and files that are written whole or not."""

import os
import stat
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..errors import RopewalkError

WINDOW = 2**18


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe, a device or a socket is refused without waiting for it.

    Raises:
        RopewalkError: for anything else than a regular file, and for one that cannot be opened.
    """
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        raise RopewalkError(f"{path} cannot be read: {reason_of(error)}. Check the path and its rights.") from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise RopewalkError(f"{path} is no regular file but a directory, a pipe or a device. Give the model's file.")
    return os.fdopen(number, "rb", buffering=0)


def starts_with(path: Path, magic: bytes) -> bool:
    """Whether a regular file starts with these bytes, whatever its name."""
    with open_regular(path) as stream:
        return read_some(stream, len(magic), path) == magic


def read_some(stream: BinaryIO, count: int, path: Path) -> bytes:
    """Read up to count bytes.

    Raises:
        RopewalkError: where the system refuses, as it does in the middle of a damaged disk or a file of /proc.
    """
    try:
        data: bytes | None = stream.read(count)
    except (OSError, ValueError) as error:
        raise RopewalkError(f"{path} cannot be read: {reason_of(error)}. Check the path and its rights.") from error
    if data is None:  # nothing there yet: a file of /proc that waits
        raise RopewalkError(f"{path} cannot be read: it waits for data. Give the model's file.")
    return data


def as_float64(values: NDArray[Any]) -> NDArray[np.float64]:
    """Widen numbers of a file; a signalling NaN among them stays NaN, and whoever takes the numbers refuses it."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def reason_of(error: Exception) -> str:
    """Say in words why the system refused a path."""
    return getattr(error, "strerror", None) or str(error)


def write_beside(path: Path, body: bytes, *, mode: int | None = None) -> None:
    """Write a file beside and rename it, so that no half of it ever stands under its name.

    Args:
        path: the file.
        body: what it holds.
        mode: its rights; None means that its owner alone reads it.

    Raises:
        OSError: where it cannot be written; nothing is left beside.
    """
    number, beside = tempfile.mkstemp(dir=path.parent, prefix=".ropewalk-")
    try:
        with os.fdopen(number, "wb") as out:
            out.write(body)
        if mode is not None:
            Path(beside).chmod(mode)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


class Window:
    """A file read forward and in jumps, of which only WINDOW bytes are in memory.

    Attributes:
        path: the file.
        size: its bytes.
        at: where the next read starts.
    """

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.path = path
        self.size = os.fstat(stream.fileno()).st_size
        self.at = 0
        self._stream = stream
        self._start = 0
        self._bytes = b""

    def take(self, count: int) -> memoryview:
        """Give the next count bytes, at most WINDOW of them, and step past them.

        Raises:
            RopewalkError: where the file ends before.
        """
        held, offset = self.ahead(count)
        self.at += count
        return memoryview(held)[offset : offset + count]

    def ahead(self, count: int) -> tuple[bytes, int]:
        """Give the bytes in memory and the place among them of the next ones, of which there are at least count."""
        offset = self.at - self._start
        if offset < 0 or offset + count > len(self._bytes):
            self._fill(count)
            offset = 0
        return self._bytes, offset

    def skip(self, count: int) -> None:
        """Step past count bytes without reading them."""
        if count > self.size - self.at:
            raise self.ended(count)
        self.at += count

    def ended(self, count: int) -> RopewalkError:
        """Give the error for a file that promises more than it holds."""
        return RopewalkError(
            f"{self.path} is damaged or cut off: at byte {self.at} it promises {count} more bytes, but only "
            f"{max(self.size - self.at, 0)} are left. Fetch the file again."
        )

    def _fill(self, count: int) -> None:
        if count > min(self.size - self.at, WINDOW):
            raise self.ended(count)
        self._stream.seek(self.at)
        self._bytes = read_some(self._stream, WINDOW, self.path)
        self._start = self.at
        if len(self._bytes) < count:
            raise self.ended(count)
