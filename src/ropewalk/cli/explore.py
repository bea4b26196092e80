"""`ropewalk explore`: the page that turns."""

import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..models.model import Model

LANGUAGES = ("en", "vi", "zh")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


@click.command(
    "explore",
    short_help="Show RoPE turning, on a page in three languages.",
    epilog="""\b
Examples:
  ropewalk explore llama-3.1-8b --open
  ropewalk explore --get "/en/.json?d=128&window=8192"
""",
)
@click.argument("target", required=False)
@click.option("--port", type=click.IntRange(0, 65_535), default=0, metavar="N", help="Port; 0 takes a free one.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address to listen on; loopback by default.")
@click.option("--open/--no-open", "browser", default=False, help="Open the page in a browser.")
@click.option("--lang", type=click.Choice(LANGUAGES), help="Language; else the browser's.")
@click.option("--get", "path", metavar="PATH", help="Print one page, or its .json, without a server.")
@click.option(
    "--export", "file", metavar="FILE", type=click.Path(dir_okay=False), help="Write one self-contained page."
)
@click.option("--once", is_flag=True, hidden=True, help="Answer one request of its own, then exit.")
def command(
    target: str | None,
    port: int,
    host: str,
    browser: bool,
    lang: str | None,
    path: str | None,
    file: str | None,
    once: bool,
) -> None:
    """Show RoPE turning, on a page of its own: simulator and lessons in English, Vietnamese and Chinese.

    TARGET is a model to start with, as `ropewalk inspect` takes it; without one the lesson's example of 8 dimensions
    opens. The page is served on this machine only, and loads nothing from any other.
    """
    _require_web()
    start = _start(target) if target else None
    if path is not None:
        _print_page(path, lang, start)
    elif file is not None:
        _write_file(Path(file), lang, start)
    else:
        _serve(host, port, lang, browser, once, start)


def _start(target: str) -> "Model":
    """Read the model to start with; the page never reads one itself."""
    from ..errors import RopewalkError
    from ..models.targets import read

    model = read(target)
    shown = [layer for layers in model.parts.values() for layer in layers if layer.rope is not None]
    if not shown:
        errors = [one.message for one in model.findings if one.severity == "error"]
        reason = errors[0] if errors else f"its positions are {model.positions}." if model.positions else "it has none."
        raise RopewalkError(f"{model.target} has no RoPE to show: {reason} `ropewalk inspect` says more.")
    if len({layer.rope for layer in shown}) > 1:
        click.echo(f"{model.target} has several ropes; part and layer are chosen on the page.", err=True)
    return model


def _require_web() -> None:
    from ..errors import RopewalkError

    try:
        import babel  # noqa: F401
        import jinja2  # noqa: F401
        import latex2mathml  # noqa: F401
        import markdown_it  # noqa: F401
        import mdit_py_plugins  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise RopewalkError(
            f"the page needs the extra web, and {error.name} is not installed: pip install 'ropewalk[web]'."
        ) from error


def _print_page(path: str, lang: str | None, start: "Model | None") -> None:
    from ..errors import RopewalkError
    from ..explorer.app import get

    place, _, query = path.partition("?")
    if not place.startswith("/"):
        raise RopewalkError(f"--get takes a path that starts with /, such as /en/ or /en/.json?d=128, got {path!r}.")
    if place == "/":
        place = f"/{lang or 'en'}/"
    status, text = get(f"{place}?{query}" if query else place, start)
    click.echo(text)
    if status >= 400:
        click.echo(f"ropewalk: {path} answers {status}.", err=True)
        raise SystemExit(1)


def _write_file(file: Path, lang: str | None, start: "Model | None") -> None:
    from ..errors import RopewalkError
    from ..explorer.export import export
    from ..explorer.state import Side, State

    state = State(a=Side(model="start")) if start is not None else State()
    text = export(state, lang or "en", start)
    beside = file.with_name(f".{file.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise RopewalkError(
            f"{file} cannot be written: {error.strerror or error}. Give a path in a folder that exists."
        ) from error
    click.echo(f"{file}: {len(text.encode()) // 1024} KiB")


def _serve(host: str, port: int, lang: str | None, browser: bool, once: bool, start: "Model | None") -> None:
    import uvicorn

    from ..errors import RopewalkError
    from ..explorer.app import make_app

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # with its name asyncio sends at once
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise RopewalkError(
            f"cannot listen on {host} port {port}: {error.strerror or error}. Give another --port, or 0 for a free one."
        ) from error
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listener.getsockname()[1]}/{f'{lang}/' if lang else ''}{'?model=start' if start else ''}"
    hosts = LOOPBACK | {name}
    server = uvicorn.Server(uvicorn.Config(make_app(start, hosts=hosts), log_level="warning", access_log=False))
    click.echo(address)
    sys.stdout.flush()
    if once:
        _ask_once(server, listener, address)
        return
    click.echo("Ctrl-C stops it.", err=True)
    if browser:
        import webbrowser

        webbrowser.open(address)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def _ask_once(server: Any, listener: socket.socket, address: str) -> None:
    """Serve in a thread, ask for the page once, and stop."""
    import threading
    import time
    from urllib.request import urlopen

    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    with urlopen(address, timeout=30) as answer:  # the address is our own
        click.echo(f"answered {answer.status}, {len(answer.read())} bytes", err=True)
    server.should_exit = True
    thread.join(timeout=10)
