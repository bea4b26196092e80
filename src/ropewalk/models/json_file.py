"""JSON configurations from files of unknown origin: bounded, and told by name when they are something else."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .._checks import shown
from ..errors import RopewalkError
from ._files import open_regular, read_some

MAX_JSON_BYTES = 4 * 2**20  # with the names of 22,000 classes about 2 MiB; brackets take 40 times their bytes
MAX_DEPTH = 32  # how deep repeated keys are looked for
MAX_LOOKED_AT = 50_000  # and in how many objects and lists
_BOMS = {
    b"\xef\xbb\xbf": "UTF-8 with a byte order mark, which JSON must not have",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_MAGICS = (
    (b"GGUF", "a GGUF file"),
    (b"PK\x03\x04", "a zip archive, as PyTorch's pickled checkpoints are"),
    (b"\x80\x02", "a Python pickle, which ropewalk never loads"),
    (b"\x80\x03", "a Python pickle, which ropewalk never loads"),
    (b"\x80\x04", "a Python pickle, which ropewalk never loads"),
    (b"\x80\x05", "a Python pickle, which ropewalk never loads"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x89HDF", "an HDF5 file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself: run `git lfs pull`"),
    (b"%PDF", "a PDF"),
)


class Repeating(dict[str, Any]):
    """An object of a file that names a key more than once; the last value stands, as everywhere in Python.

    Attributes:
        given: by repeated key, its values in the order of the file.
    """

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        values: dict[str, list[Any]] = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value)
        self.given = {name: tuple(one) for name, one in values.items() if len(one) > 1}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else Repeating(pairs)


def repeats(data: object) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Give every key that an object, or one inside it, repeats: its path and its values.

    >>> list(repeats(parse_json(b'{"a": {"b": 1, "b": 2}}', "these bytes")))
    [('a.b', (1, 2))]
    """
    left, seen = [("", data, 0)], {id(data)}
    while left:
        path, inner, depth = left.pop()
        if isinstance(inner, Repeating):
            yield from ((f"{path}{name}", values) for name, values in inner.given.items())
        if depth == MAX_DEPTH:
            continue
        entries = inner.items() if isinstance(inner, Mapping) else enumerate(inner) if isinstance(inner, list) else ()
        for name, value in entries:
            if isinstance(value, Mapping | list) and id(value) not in seen:  # an object may contain itself
                if len(seen) == MAX_LOOKED_AT:
                    break
                seen.add(id(value))
                left.append((f"{path}{name}.", value, depth + 1))


def read_json(path: Path, *, at_most: int = MAX_JSON_BYTES) -> Mapping[str, Any]:
    """Read the JSON object in a file.

    Args:
        path: a regular file.
        at_most: bytes that it may have.

    Raises:
        RopewalkError: for anything that is no JSON object of that size, with a word about what it seems to be.
    """
    with open_regular(path) as stream:
        raw = read_some(stream, at_most + 1, path)
        while 0 < len(raw) <= at_most and (more := read_some(stream, at_most + 1 - len(raw), path)):
            raw += more
    return parse_json(raw, str(path), at_most=at_most)


def parse_json(raw: bytes, what: str, *, at_most: int = MAX_JSON_BYTES) -> Mapping[str, Any]:
    """Give the JSON object in some bytes, or say why there is none; what names the bytes in errors.

    >>> parse_json(b'{"model_type": "llama"}', "these bytes")
    {'model_type': 'llama'}
    """
    if len(raw) > at_most:
        raise RopewalkError(
            f"{what} has more than {at_most // 2**20} MiB, too much for a configuration. Give the model's config.json."
        )
    if not raw.strip():
        raise RopewalkError(f"{what} is empty. Give the model's config.json.")
    for mark, words in _BOMS.items():
        if raw.startswith(mark):
            raise RopewalkError(f"{what} is {words}. Save it as UTF-8 without one.")
    disguise = next((words for magic, words in _MAGICS if raw.startswith(magic)), None)
    if disguise is not None:
        raise RopewalkError(f"{what} is no JSON but {disguise}. Give the model's config.json.")
    if b"\0" in raw:
        raise RopewalkError(f"{what} holds NUL bytes, so it is no text. Give the model's config.json.")
    try:
        data = json.loads(raw.decode("utf-8"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise RopewalkError(f"{what} is not text ({error}). Give the model's config.json.") from error
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else f"{error}{_looks(raw)}"
        raise RopewalkError(f"{what} is not JSON ({reason}). Give the model's config.json.") from error
    if not isinstance(data, Mapping):
        raise RopewalkError(f"{what} must hold a JSON object, got {shown(data)}. Give the model's config.json.")
    return data


def _looks(raw: bytes) -> str:
    """Say what some text that is no JSON looks like, where that is plain."""
    head = raw[:4096].lstrip().lower()
    if head.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "; it looks like an HTML page, perhaps an error page saved under this name"
    if head.startswith(b"---") or re.match(rb"[a-z_][\w .-]*:\s", head):
        return "; it looks like YAML"
    return ""
