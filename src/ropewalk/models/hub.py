"""Hub ids: the configuration of a model on the Hugging Face hub, from the cache or by download. Never its weights."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from .._checks import shown
from ..errors import RopewalkError
from ._hub_client import AbsentError, UnreachableError, fetch, installed, list_files

# where a repository keeps the configuration of its model, in the order in which they are asked for
PLACES = ("config.json", "params.json", "transformer/config.json", "original/params.json", "lit_config.json")
_PLAIN = re.compile(
    r"^(?P<repo>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95})(?:@(?P<revision>[\w./-]{1,200}))?\Z", re.ASCII
)
_LONG = re.compile(
    r"^hf://(?:models/)?(?P<repo>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95})"
    r"(?:@(?P<revision>refs/(?:pr|convert)/[\w.-]+|[\w.%-]{1,200}))?(?:/(?P<path>[\w./-]{1,500}))?\Z",
    re.ASCII,
)
_NO_MODEL = re.compile(r"^(?:hf://)?(?P<kind>datasets|spaces)/")
_FILES = (".json", ".gguf", ".safetensors", ".bin", ".onnx", ".pt", ".pth", ".yaml", ".yml", ".toml", ".txt", ".py")
_COMMIT = re.compile(r"^[0-9a-f]{40}$")


class HubId(NamedTuple):
    """What a hub id names: a repository, a revision, and perhaps one file in it."""

    repo: str
    revision: str
    path: str | None

    def __str__(self) -> str:
        """The id as a user would write it."""
        return f"{self.repo}@{self.revision}" if self.revision != "main" else self.repo


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A configuration that a hub id led to.

    Attributes:
        path: the file in the cache.
        name: its path in the repository.
        words: where it came from, for the output.
    """

    path: Path
    name: str
    words: str


def hub_id(name: str) -> HubId | None:
    """Read a hub id, `org/name[@revision]` or `hf://org/name[@revision][/path]`; None where name is none.

    >>> hub_id("Qwen/Qwen2.5-7B@main"), hub_id("qwen2.5-7b")
    (HubId(repo='Qwen/Qwen2.5-7B', revision='main', path=None), None)
    """
    if name.startswith("hf://"):
        match = _LONG.match(name.rstrip("/"))
    else:
        match = None if name.lower().endswith(_FILES) else _PLAIN.match(name)
    if match is None or ".." in name or _NO_MODEL.match(name):
        return None
    parts: Mapping[str, str | None] = match.groupdict()
    revision = (parts["revision"] or "main").replace("%2F", "/").replace("%2f", "/")
    return HubId(str(parts["repo"]), revision, parts.get("path"))


def meant_for_hub(name: str) -> str | None:
    """Say what is wrong with a name that can only mean the hub but is no hub id; None for any other name.

    >>> meant_for_hub("hf://datasets/org/name")
    "'hf://datasets/org/name' names one of the hub's datasets, which describe no model. Write hf://org/name."
    """
    lowered = name.lower()
    if kind := _NO_MODEL.match(lowered):
        if lowered.startswith("hf://"):
            return f"{shown(name)} names one of the hub's {kind['kind']}, which describe no model. Write hf://org/name."
    elif lowered.startswith(("hf:", "http://", "https://")):
        return f"{shown(name)} is no hub id. Write org/name, org/name@revision or hf://org/name/path/config.json."
    return None


def find_config(name: str) -> Path:
    """Give the local path of the configuration that a hub id names; see locate.

    Raises:
        RopewalkError: where there is none, or the hub cannot be asked.
    """
    return locate(name).path


def locate(name: str) -> HubFile:
    """Find the configuration of a model on the hub: in the cache, or by one small download into it.

    HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE count as in huggingface_hub. Without the extra
    `hub`, and offline, the cache alone is read.

    Args:
        name: `org/name[@revision]` or `hf://org/name[@revision][/path]`.

    Raises:
        RopewalkError: for no hub id, no configuration there, no access, or a server that misbehaves.
    """
    found = hub_id(name)
    if found is None:
        raise RopewalkError(
            meant_for_hub(name)
            or f"{shown(name)} is no hub id. Write org/name, org/name@revision or hf://org/name/path/config.json."
        )
    if found.path is not None and not found.path.endswith(".json"):
        branch = f"{found.revision}/{found.path}"
        hint = f" For the branch {branch}, write hf://{found.repo}@{quote(branch, safe='')}." if "@" in name else ""
        raise RopewalkError(
            f"{name} names {found.path}; only configurations (.json) are fetched from the hub, never weights. Run "
            f"`hf download {found.repo} {found.path}` and give the path of the file.{hint}"
        )
    places = PLACES if found.path is None else (found.path,)
    if _offline() or not installed():
        return _cached_or_refused(found, places)
    if _COMMIT.match(found.revision) and (cached := _cached(found, places)) is not None:
        return cached
    return _downloaded(found, places)


def cache_root() -> Path:
    """Give the directory of huggingface_hub's cache, as the environment has it now."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"]).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "huggingface" / "hub"


def _offline() -> bool:
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in names)


def _folder(found: HubId) -> Path:
    return cache_root() / f"models--{found.repo.replace('/', '--')}"


def _cached(found: HubId, places: tuple[str, ...]) -> HubFile | None:
    """Find a configuration in the cache as huggingface_hub lays it out, with or without that library."""
    folder = _folder(found)
    commit = found.revision
    try:
        reference = folder / "refs" / found.revision
        if not _COMMIT.match(commit) and reference.is_file():
            commit = reference.read_bytes()[:64].decode("ascii", errors="replace").strip()
        if not re.fullmatch(r"[\w.-]{1,64}", commit):
            return None
        for place in places:
            path = folder / "snapshots" / commit / place
            if path.is_file():
                return HubFile(path=path, name=place, words=f"{place} of {found} (hub, from the cache)")
    except (OSError, ValueError):
        return None
    return None


def _cached_or_refused(found: HubId, places: tuple[str, ...]) -> HubFile:
    cached = _cached(found, places)
    if cached is not None:
        return cached
    wanted = " or ".join(places[:2])
    if _offline():
        raise RopewalkError(
            f"there is no {wanted} of {found} in the cache {cache_root()}, and HF_HUB_OFFLINE forbids to ask the hub. "
            "Unset it, or give the path of the file."
        )
    raise RopewalkError(
        f"there is no file {found}, and no {wanted} of that hub id in the cache {cache_root()}. To fetch it, install "
        "ropewalk[hub]; or give the path of the file."
    )


def _downloaded(found: HubId, places: tuple[str, ...]) -> HubFile:
    for place in places:
        try:
            path = fetch(found.repo, found.revision, place, _folder(found))
        except AbsentError:
            continue
        except UnreachableError as error:
            cached = _cached(found, places)
            if cached is None:
                raise RopewalkError(str(error)) from error
            return cached
        return HubFile(path=path, name=place, words=f"{place} of {found} (hub)")
    raise RopewalkError(_nothing_there(found, places))


def _nothing_there(found: HubId, places: tuple[str, ...]) -> str:
    """Say what a repository without a configuration holds, and what to do with it."""
    if len(places) == 1:
        return f"the hub has no {places[0]} in {found}. Check the path at {_page(found)}."
    files = list_files(found.repo, found.revision)
    ggufs = [name for name in files if name.lower().endswith(".gguf")]
    if ggufs:
        return (
            f"{found} holds no config.json but {len(ggufs)} GGUF file{'s' * (len(ggufs) > 1)}, and weights are not "
            f"downloaded. Run `hf download {found.repo} {ggufs[0][:200]}` and give the path of the file."
        )
    return f"{found} holds none of {', '.join(places)}. Give the path of the model's configuration; see {_page(found)}."


def _page(found: HubId) -> str:
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    return f"{endpoint.rstrip('/')}/{found.repo}/tree/{quote(found.revision, safe='')}"
