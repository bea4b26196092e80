"""The server: loopback, a Host check, strict headers, no path from a request ever opened, errors as pages."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..models.model import Model
from . import pages
from .data import SCHEMA, document
from .i18n import LANGUAGES, negotiate
from .state import State

HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
# every file that is served, by the name that a request may say; nothing else can be asked for
STATIC: Mapping[str, str] = {
    "explorer.css": "text/css; charset=utf-8",
    "explorer.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "fonts/math.woff2": "font/woff2",
}
MAX_QUERY = 65_536
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


def make_app(start: Model | None = None, *, hosts: frozenset[str] = LOOPBACK) -> "_Guard":
    """Make the application; start is the model that was named on the command line."""

    async def home(request: Request) -> Response:
        lang = negotiate(request.headers.get("accept-language"))
        query = _query(request)
        target = f"/{lang}/?{query}" if query else f"/{lang}/"
        return RedirectResponse(target, status_code=302, headers={"vary": "accept-language"})

    async def simulator(request: Request) -> Response:
        lang = _lang(request)
        state, messages = State.parse(_query(request))
        return _html(pages.simulator(state, messages, lang, start))

    async def data(request: Request) -> Response:
        state, messages = State.parse(_query(request))
        seen = document(state, messages, start)
        return JSONResponse(seen.to_dict(), status_code=400 if messages else 200)

    async def learn(request: Request) -> Response:
        lang, query = _lang(request), _query(request)
        state, _ = State.parse(query)
        text = pages.lesson(request.path_params.get("name") or "learn", lang, state, query)
        if text is None:
            raise HTTPException(404)
        return _html(text)

    async def models(request: Request) -> Response:
        state, messages = State.parse(_query(request))
        return _html(pages.models(_lang(request), state, messages))

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404)
        return Response(asset(name), media_type=STATIC[name], headers={"cache-control": "max-age=60"})

    async def failed(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if request.scope["path"].endswith(".json"):
            return JSONResponse({"schema": SCHEMA, "error": status}, status_code=status)
        return _html(pages.problem(status, _lang(request)), status)

    routes = [Route("/", home), Route("/static/{name:path}", static)]
    for lang in LANGUAGES:
        routes += [
            Route(f"/{lang}/", simulator),
            Route(f"/{lang}/.json", data),
            Route(f"/{lang}/models", models),
            Route(f"/{lang}/learn/", learn),
            Route(f"/{lang}/learn/{{name}}", learn),
        ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: failed, Exception: failed})
    return _Guard(app, hosts)  # around everything, so that the page of a failure has the headers too


class _Guard:
    """Refuse foreign hosts, other methods and endless queries; put the headers on every answer."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": headers}
            await send(message)

        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        app: ASGIApp = self.app
        if name.lower() not in self.hosts:
            app = _html(pages.problem(421, "en"), 421)
        elif scope["method"] not in ("GET", "HEAD"):
            app = _html(pages.problem(405, "en"), 405, {"allow": "GET, HEAD"})
        elif len(scope["query_string"]) > MAX_QUERY:
            app = _html(pages.problem(414, "en"), 414)
        await app(scope, receive, with_headers)


@cache
def asset(name: str) -> bytes:
    """Give one of the files that the page loads."""
    return (files("ropewalk.explorer") / "static").joinpath(*name.split("/")).read_bytes()


def get(path: str, start: Model | None = None) -> tuple[int, str]:
    """Answer one path without a server: the status and the text of the page, or of its JSON."""
    target, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(target),
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1")],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    status, body = None, b""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body += message.get("body", b"")

    # nothing in the application waits for anything, so no event loop is needed, and one that runs is not in the way
    try:
        make_app(start)(scope, receive, send).send(None)
    except StopIteration:
        pass
    except Exception:
        if status is None:  # else it has been answered, and is raised again for a server's log alone
            raise
    assert status is not None
    return status, body.decode("utf-8")


def _query(request: Request) -> str:
    return request.scope["query_string"].decode("utf-8", "replace")


def _lang(request: Request) -> str:
    """Give the language of a path, English where it has none of ours."""
    lang = request.scope["path"].strip("/").split("/")[0]
    return lang if lang in LANGUAGES else "en"


def _html(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status_code=status, headers=headers, media_type="text/html; charset=utf-8")
