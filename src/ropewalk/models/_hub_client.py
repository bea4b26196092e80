"""Asking the hub for one small file: through huggingface_hub, but bounded in bytes, time and hosts."""

import json
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from .._version import __version__
from ..errors import RopewalkError
from ._files import reason_of, write_beside
from .json_file import MAX_JSON_BYTES, parse_json

SILENCE_S = 1.2  # without an answer, unless HF_HUB_DOWNLOAD_TIMEOUT says otherwise
MAX_REDIRECTS = 4
_CHUNK = 2**16


class AbsentError(Exception):
    """The repository is there, the file is not."""


class UnreachableError(Exception):
    """The hub cannot be asked, or does not answer as a hub: a copy in the cache will do."""


class Head(NamedTuple):
    """What the hub says of a file: which version it is, how large, and where it lies."""

    commit: str
    etag: str
    size: int | None
    url: str


def installed() -> bool:
    """Whether huggingface_hub is there, without loading it."""
    return find_spec("huggingface_hub") is not None


def fetch(repo: str, revision: str, name: str, folder: Path) -> Path:
    """Download one configuration into the cache, unless that version is in it, and give its path there.

    Args:
        repo: org/name.
        revision: a branch, a tag or a commit.
        name: path in the repository.
        folder: the repository's folder in the cache.

    Raises:
        AbsentError: the file is not in the repository.
        UnreachableError: no answer, or none of a hub.
        RopewalkError: no such repository or revision, no access, a redirect elsewhere, or no JSON object.
    """
    url = f"{endpoint()}/{repo}/resolve/{quote(revision, safe='')}/{quote(name)}"
    what = f"{name} of {repo}"
    _load(what)
    head = _patient(lambda _: _head(url, what), what)
    commit, etag = head.commit, head.etag
    if not (re.fullmatch(r"[\w.-]{1,80}", commit) and re.fullmatch(r"[\w.:-]{1,128}", etag)):
        raise UnreachableError(
            f"{endpoint()} does not answer as a hub: no usable X-Repo-Commit and ETag with {what}. Check HF_ENDPOINT "
            "and the proxy."
        )
    if head.size is not None and head.size > MAX_JSON_BYTES:
        raise RopewalkError(
            f"{what} has {head.size} bytes on the hub, a configuration at most {MAX_JSON_BYTES}. Give the path of the "
            "model's configuration."
        )
    path = folder / "snapshots" / commit / name
    if not path.is_file():
        body = _patient(lambda told: _body(head.url, what, told), what)
        parse_json(body, f"what {endpoint()} sent as {what}")
        _store(folder, commit, etag, name, body)
    if commit != revision:
        _write(folder / "refs" / revision, commit.encode("ascii"))
    return path


def list_files(repo: str, revision: str) -> list[str]:
    """Give the names of a repository's files, none where the hub does not say."""
    url = f"{endpoint()}/api/models/{repo}/revision/{quote(revision, safe='')}"
    try:
        data = json.loads(_patient(lambda told: _body(url, "the list of files", told), "the list of files"))
        return [entry["rfilename"] for entry in data["siblings"][:100_000] if isinstance(entry["rfilename"], str)]
    except (AbsentError, UnreachableError, RopewalkError, ValueError, KeyError, TypeError, RecursionError):
        return []


def endpoint() -> str:
    """Give the address of the hub."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def _load(what: str) -> None:
    """Load huggingface_hub before any clock runs: on a cold disk that alone takes longer than a hub may be silent."""
    try:
        from huggingface_hub import get_token  # noqa: F401
        from huggingface_hub.utils import get_session, hf_raise_for_status  # noqa: F401
    except ImportError as error:
        raise _translated(error, what) from error


def _silence() -> float:
    with suppress(ValueError):
        return min(max(float(os.environ.get("HF_HUB_DOWNLOAD_TIMEOUT", "")), 0.1), 600.0)
    return SILENCE_S


def _patient(work: Callable[[Callable[[], None]], Any], what: str) -> Any:
    """Do some work beside, and give up when nothing is heard of it: no library bounds the whole of a request.

    The work is given a function to call when it has got ahead; from then on it has the same time once more.
    """
    heard: queue.Queue[tuple[str, Any]] = queue.Queue()

    def run() -> None:
        try:
            heard.put(("done", work(lambda: heard.put(("ahead", None)))))
        except Exception as error:  # whatever it is, it belongs to the caller
            heard.put(("failed", error))

    threading.Thread(target=run, name="ropewalk-hub", daemon=True).start()
    while True:
        try:
            word, value = heard.get(timeout=_silence())
        except queue.Empty:
            raise _silent(what) from None
        if word == "done":
            return value
        if word == "failed":
            raise _translated(value, what)


def _silent(what: str) -> UnreachableError:
    return UnreachableError(
        f"{endpoint()} does not answer within {_silence():g} s when asked for {what}. Check the network, raise "
        "HF_HUB_DOWNLOAD_TIMEOUT, or give the path of the file."
    )


def _head(url: str, what: str) -> Head:
    """Ask for one file without its body; redirects within the hub are followed."""
    for _ in range(MAX_REDIRECTS):
        with _opened("HEAD", url) as response:
            _raise_for(response)
            headers, where = response.headers, response.headers.get("Location")
            url = _moved(url, where, what)
            commit = headers.get("X-Repo-Commit")
            if where is None or commit:  # the hub names the version where it sends one to the file's own place
                etag = (headers.get("X-Linked-Etag") or headers.get("ETag") or "").removeprefix("W/").strip('"')
                size = headers.get("X-Linked-Size") or (headers.get("Content-Length") if where is None else None)
                return Head(commit or "", etag, int(size) if size and re.fullmatch(r"\d{1,20}", size) else None, url)
    raise _endless(what)


def _body(url: str, what: str, told: Callable[[], None]) -> bytes:
    """Give the body of a GET, at most MAX_JSON_BYTES, from the hub's own host alone."""
    for _ in range(MAX_REDIRECTS):
        with _opened("GET", url) as response:
            _raise_for(response)
            where = response.headers.get("Location")
            if where is None or response.status_code < 300:
                told()
                return _read(response, what)
            url = _moved(url, where, what)
    raise _endless(what)


def _opened(method: str, url: str) -> Any:
    """Ask, through huggingface_hub's session; for its versions on requests and on httpx alike.

    The headers are not its own: to name the program that asks, it would send a request without any bound first.
    """
    from huggingface_hub import constants, get_token
    from huggingface_hub.utils import get_session

    headers = {"User-Agent": f"ropewalk/{__version__}", "Accept-Encoding": "identity"}
    token = None if getattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False) else get_token()
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    session: Any = get_session()
    if hasattr(session, "stream"):
        return session.stream(method, url, headers=headers, timeout=_silence(), follow_redirects=False)
    return session.request(method, url, headers=headers, timeout=_silence(), allow_redirects=False, stream=True)


def _raise_for(response: Any) -> None:
    from huggingface_hub.utils import hf_raise_for_status

    if response.status_code >= 400:
        hf_raise_for_status(response)


def _moved(url: str, where: str | None, what: str) -> str:
    """Give where a redirect leads, or refuse another host."""
    if where is None:
        return url
    _same_host(url, where, what)
    return urljoin(url, where)


def _endless(what: str) -> UnreachableError:
    return UnreachableError(f"{endpoint()} redirects {what} without end. Check HF_ENDPOINT.")


def _read(response: Any, what: str) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise RopewalkError(f"{endpoint()} sent {what} compressed, though asked not to. Give the path of the file.")
    chunks = response.iter_raw(_CHUNK) if hasattr(response, "iter_raw") else response.raw.stream(_CHUNK)
    return _limited(chunks, what, time.monotonic() + _silence())


def _limited(chunks: Iterator[bytes], what: str, until: float) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > MAX_JSON_BYTES:
            raise RopewalkError(
                f"{endpoint()} sends more than {MAX_JSON_BYTES // 2**20} MiB as {what}, too much for a configuration. "
                "Nothing was kept; give the path of the file."
            )
        if time.monotonic() > until:
            raise UnreachableError(f"{endpoint()} sends {what} too slowly. Try again, or give the path of the file.")
    return bytes(body)


def _same_host(url: str, where: str, what: str) -> None:
    """Refuse another host: a configuration is served by the hub itself, and a token goes nowhere else."""
    own, other = urlsplit(url), urlsplit(urljoin(url, where))
    moved = (other.scheme, other.netloc) != (own.scheme, own.netloc)
    if moved and not (other.hostname == own.hostname and other.scheme == "https" and own.scheme == "http"):
        raise RopewalkError(
            f"{own.netloc} redirects {what} to another host, {other.netloc[:100]}, which is not followed. Check "
            "HF_ENDPOINT, or fetch the file yourself and give its path."
        )


def _translated(error: Exception, what: str) -> Exception:
    """Put what huggingface_hub raises into one sentence."""
    if isinstance(error, RopewalkError | AbsentError | UnreachableError):
        return error
    names = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(getattr(error, "response", None), "status_code", None)
    if names & {"TimeoutException", "Timeout", "TimeoutError"}:  # of httpx, requests and sockets: the same limit
        return _silent(what)
    if names & {"GatedRepoError"}:
        return RopewalkError(
            f"{what} is gated: {endpoint()} lets only those read it who accepted its terms. Accept them on its page, "
            "set HF_TOKEN, or give the path of the file."
        )
    if "RevisionNotFoundError" in names:
        return RopewalkError(
            f"{endpoint()} has no such revision when asked for {what}. Check what stands after @; a "
            "slash in a branch's name is written %2F after hf://."
        )
    if "EntryNotFoundError" in names and "LocalEntryNotFoundError" not in names:
        return AbsentError(what)
    if "RepositoryNotFoundError" in names or status == 401:
        return RopewalkError(
            f"{endpoint()} has no repository to read, asked for {what} (it answers {status}): the name is wrong, or "
            "it is private and HF_TOKEN is missing or not allowed. Check the name, or set HF_TOKEN."
        )
    if status == 403:
        return RopewalkError(f"{endpoint()} forbids to read {what} (403). Check the rights of HF_TOKEN.")
    if status == 404:
        return AbsentError(what)
    if status is not None:
        return UnreachableError(f"{endpoint()} answers {status} when asked for {what}. Try again later.")
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return UnreachableError(
        f"{endpoint()} cannot be asked for {what} ({reason}). Check the network and HF_ENDPOINT, or give the path of "
        "the file."
    )


def _store(folder: Path, commit: str, etag: str, name: str, body: bytes) -> None:
    """Put a file into the cache as huggingface_hub does: the bytes under their etag, and a link in the snapshot."""
    blob = folder / "blobs" / etag.replace(":", "-")
    if not blob.is_file():
        _write(blob, body)
    pointer = folder / "snapshots" / commit / name
    try:
        pointer.parent.mkdir(parents=True, exist_ok=True)
        pointer.symlink_to(os.path.relpath(blob, pointer.parent))
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        _write(pointer, body)


def _write(path: Path, body: bytes) -> None:
    """Write beside and rename, so that no half of a file ever stands under its name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_beside(path, body)
    except OSError as error:
        raise RopewalkError(f"the cache cannot be written at {path}: {reason_of(error)}. Check HF_HOME.") from error
