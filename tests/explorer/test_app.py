"""The server's side of the pages: paths, languages, headers, and what it refuses."""

import asyncio
import http.client
import json
import random
from html.parser import HTMLParser
from urllib.parse import quote, urlsplit

import pytest
from markupsafe import escape

from ropewalk import preset_names
from ropewalk.explorer import app as web
from ropewalk.explorer import lessons, pages
from ropewalk.explorer.app import HEADERS, MAX_QUERY, STATIC, get, make_app
from ropewalk.explorer.data import document
from ropewalk.explorer.i18n import LANGUAGES
from ropewalk.explorer.state import State


class Answer:
    """What the application answers: status, headers by lower-case name, body."""

    def __init__(self, path, *, method="GET", host="127.0.0.1:8000", query=None, headers=()):
        target, _, rest = path.partition("?")
        query = rest.encode() if query is None else query
        scope = {"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": target}
        scope |= {"raw_path": target.encode(), "query_string": query, "root_path": ""}
        scope |= {"server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 1)}
        given = [(b"host", host.encode())] if host is not None else []
        scope["headers"] = [*given, *((name.encode(), value.encode()) for name, value in headers)]
        self.status, self.headers, body = None, {}, []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            if message["type"] == "http.response.start":
                self.status = message["status"]
                names = [name.decode().lower() for name, _ in message["headers"]]
                assert len(names) == len(set(names)), "a header is sent twice"
                self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            else:
                body.append(message.get("body", b""))

        try:
            asyncio.run(make_app()(scope, receive, send))
        except RuntimeError as error:  # what a page fails of is raised again for the server's log
            self.raised = error
        self.body = b"".join(body)
        self.text = self.body.decode("utf-8", "replace")


# --- Paths and languages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("path", ["", "models", *(f"learn/{name}" for name in ("", *lessons.COURSE))])
def test_every_page_answers_in_every_language(path, lang):
    seen = Answer(f"/{lang}/{path}")
    assert seen.status == 200
    assert seen.headers["content-type"] == "text/html; charset=utf-8"
    tag = {"en": "en", "vi": "vi", "zh": "zh-Hans"}[lang]
    assert f'<html lang="{tag}"' in seen.text
    for other in LANGUAGES:
        assert f'href="/{other}/{path}"' in seen.text


@pytest.mark.parametrize(
    ("header", "place"),
    [("vi", "/vi/"), ("zh-TW,en;q=0.5", "/zh/"), ("fr", "/en/"), ("fr;q=1,vi;q=0.1", "/vi/")],
)
def test_the_first_page_is_in_the_readers_language(header, place):
    seen = Answer("/", headers=[("accept-language", header)])
    assert (seen.status, seen.headers["location"]) == (302, place)
    assert "accept-language" in seen.headers["vary"].lower()


def test_the_first_page_keeps_the_state():
    assert Answer("/?d=128&pair=3").headers["location"] == "/en/?d=128&pair=3"
    assert Answer("/").headers["location"] == "/en/"


@pytest.mark.parametrize("query", ["%0d%0aset-cookie:x=1", "//evil.example/", "%2f%2fevil.example"])
def test_the_first_page_leads_nowhere_else(query):
    seen = Answer(f"/?{query}")
    assert seen.headers["location"].startswith("/en/?")
    assert "set-cookie" not in seen.headers


@pytest.mark.parametrize(
    "path",
    "/fr/ /fr/.json /EN/ /en/nothing /en/learn/nothing /en/learn/pitfalls /static/ /en/learn/x/y /favicon.ico /en// // "
    "/en/learn/learn.md /en/learn/%2e%2e".split(),
)
def test_other_paths_are_404_pages(path):
    seen = Answer(path)
    assert seen.status == 404
    assert "<h1>404</h1>" in seen.text or path.endswith(".json")


def test_a_404_speaks_the_language_of_its_path():
    assert '<html lang="vi"' in Answer("/vi/nothing").text
    assert '<html lang="en"' in Answer("/fr/nothing").text


def test_a_missing_slash_is_added():
    seen = Answer("/en?d=4")
    assert seen.status == 307
    place = urlsplit(seen.headers["location"])
    assert (place.path, place.query) == ("/en/", "d=4")
    for path in ("/en/learn/../", "//evil.example", "/en/learn/order/"):  # a redirect stays on this machine
        seen = Answer(path)
        assert seen.status == 404 or urlsplit(seen.headers["location"]).netloc == "127.0.0.1:8000"


# --- The data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_same_address_with_json_gives_the_data(lang):
    seen = Answer(f"/{lang}/.json?d=16&m=5")
    assert (seen.status, seen.headers["content-type"]) == (200, "application/json")
    assert json.loads(seen.text) == json.loads(json.dumps(document(State.parse("d=16&m=5")[0]).to_dict()))


def test_a_bad_address_is_a_400_in_json_with_the_messages_and_the_rest():
    seen = Answer("/en/.json?d=1&m=5&zzz=1")
    assert seen.status == 400
    data = json.loads(seen.text)
    first, second = data["messages"]
    assert (first["parameter"], first["kind"], first["low"], first["high"]) == ("d", "whole", 2, 1024)
    assert (second["parameter"], second["kind"]) == ("zzz", "unknown")
    assert data["state"]["m"] == 5


def test_a_missing_page_of_data_is_json_too():
    assert json.loads(Answer("/fr/.json").text) == {"schema": "ropewalk.explorer/1", "error": 404}


def test_get_answers_without_a_server():
    assert get("/en/")[0] == 200
    status, text = get("/vi/.json?m=3&n=9")
    assert (status, json.loads(text)["score"]["distance"]) == (200, -6)
    assert get("/nowhere")[0] == 404
    assert get("/en/.json?d=1")[0] == 400
    assert get("/static/icon.svg")[1].startswith("<svg")


def test_get_needs_no_event_loop_of_its_own():
    async def inside():
        return get("/en/.json")[0]

    assert asyncio.run(inside()) == 200


# --- Headers ---------------------------------------------------------------------------------------------------------

ANSWERS = [
    ("/en/", {}, 200),
    ("/en/.json", {}, 200),
    ("/en/.json?d=x", {}, 400),
    ("/vi/learn/order", {}, 200),
    ("/static/explorer.js", {}, 200),
    ("/", {}, 302),
    ("/en", {}, 307),
    ("/nothing", {}, 404),
    ("/en/", {"method": "POST"}, 405),
    ("/en/", {"host": "evil.example"}, 421),
    ("/en/", {"query": b"m=1&" * MAX_QUERY}, 414),
]


@pytest.mark.parametrize(("path", "options", "status"), ANSWERS)
def test_every_answer_has_the_strict_headers(path, options, status):
    seen = Answer(path, **options)
    assert seen.status == status
    assert {name: seen.headers.get(name) for name in HEADERS} == dict(HEADERS)


def test_the_policy_lets_nothing_in_from_elsewhere_and_nothing_inline():
    policy = dict(part.strip().split(" ", 1) for part in HEADERS["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert policy["base-uri"] == "'none'"
    assert "unsafe" not in HEADERS["content-security-policy"]
    assert "http" not in HEADERS["content-security-policy"]
    assert HEADERS["x-content-type-options"] == "nosniff"


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8123", True),
        ("localhost:80", True),
        ("LOCALHOST", True),
        ("[::1]:8000", True),
        ("[::1]", True),
        ("evil.example", False),
        ("evil.example:8000", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example@127.0.0.1", False),
        ("127.0.0.1:80:80", False),
        ("0.0.0.0", False),
        ("", False),
        (None, False),
    ],
)
def test_only_this_machines_own_names_are_answered(host, allowed):
    assert Answer("/en/", host=host).status == (200 if allowed else 421)


def test_a_name_given_at_start_is_answered():
    scope_host = make_app(hosts=frozenset({"lab.local"}))
    assert scope_host.hosts == {"lab.local"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_only_reading_is_allowed(method):
    seen = Answer("/en/", method=method)
    assert (seen.status, seen.headers["allow"]) == (405, "GET, HEAD")


def test_head_answers_like_get():
    for path in ("/en/", "/en/.json", "/static/explorer.css", "/vi/models", "/vi/learn/order"):
        asked, head = Answer(path), Answer(path, method="HEAD")
        assert (head.status, head.headers["content-length"]) == (200, asked.headers["content-length"])


def test_an_endless_query_is_refused():
    assert Answer("/en/", query=b"q=" + b"1" * MAX_QUERY).status == 414
    assert Answer("/en/", query=b"q=" + b"1" * (MAX_QUERY - 2)).status == 200


@pytest.mark.parametrize(("name", "kind"), STATIC.items())
def test_static_files_are_served_by_name(name, kind):
    seen = Answer(f"/static/{name}")
    assert (seen.status, seen.headers["content-type"]) == (200, kind)
    assert seen.body


@pytest.mark.parametrize(
    "name",
    [
        "../app.py",
        "..%2fapp.py",
        "%2e%2e/app.py",
        "fonts/../../app.py",
        "./explorer.js",
        "/etc/passwd",
        "//etc/passwd",
        "explorer.js/",
        "explorer.js%00.css",
        "..\\app.py",
        "fonts",
        "fonts/",
        "EXPLORER.JS",
        "__init__.py",
        "explorer.js\x00",
    ],
)
def test_no_other_name_is_opened(name, monkeypatch):
    opened = []
    monkeypatch.setattr(web, "asset", lambda asked: opened.append(asked) or b"")
    assert Answer(f"/static/{name}").status == 404
    assert opened == []


@pytest.mark.parametrize("query", [b"m=\xff\xfe", b"\x00=\x01", b"d=%ff", b"q=%E2%80%AE1", "m=٧".encode()])
def test_bytes_that_are_no_text_are_a_message_not_a_failure(query):
    assert Answer("/en/", query=query).status == 200
    assert Answer("/en/.json", query=query).status in (200, 400)


@pytest.mark.parametrize("lang", ["en", "vi", "xx"])
def test_a_failure_is_a_page_without_a_traceback(lang, monkeypatch):
    def fail(*arguments, **named):
        raise RuntimeError("the secret of /home/somebody")

    monkeypatch.setattr(pages, "document", fail)
    monkeypatch.setattr(web, "document", fail)
    monkeypatch.setattr(pages, "lesson", fail)
    for path in ("/", "/.json", "/learn/order"):
        seen = Answer(f"/{lang}{path}")
        assert seen.status == (500 if lang != "xx" else 404)
        assert {name: seen.headers.get(name) for name in HEADERS} == dict(HEADERS)
        for word in ("Traceback", "secret", "somebody", "RuntimeError", ".py"):
            assert word not in seen.text
        if path != "/.json":
            assert f"<h1>{seen.status}</h1>" in seen.text


def test_a_failure_without_a_server_is_an_answer_too(monkeypatch):
    monkeypatch.setattr(web, "document", lambda *arguments: 1 / 0)
    assert get("/en/.json") == (500, '{"schema":"ropewalk.explorer/1","error":500}')


# --- Over the wire ---------------------------------------------------------------------------------------------------


def ask(server, target, method="GET", headers=None):
    place = urlsplit(server)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    try:
        connection.request(method, target, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_a_real_server_answers(server):
    status, headers, body = ask(server, "/en/?d=16")
    assert status == 200 and b"</html>" in body
    assert {name: headers.get(name) for name in HEADERS} == dict(HEADERS)
    assert ask(server, "/en/", "HEAD")[2] == b""
    assert ask(server, "/en/", "POST")[0] == 405
    assert ask(server, "/en/", headers={"Host": "evil.example"})[0] == 421
    assert ask(server, "/static/../app.py")[0] == 404
    assert ask(server, "/en/?q=" + ",".join(["-0.0625"] * 1024))[0] == 200


# --- Fuzz ------------------------------------------------------------------------------------------------------------

NUMBERS = (
    "0 1 -1 7 2 3 8 9.5 1e3 1e-9 1e308 1e999 nan inf -0 +5 0x10 999999999999999999999 1_000 ٧ ½ 1,2,3 ,,, 1e6,-1e6"
).split()
WORDS = ["", " ", *"half interleaved yarn linear dynamic llama3 ntk proportional default all start".split()]
NASTY = [
    "<script>alert(1)</script>",
    "</script><b>",
    "\"'><img src=x onerror=1>",
    "javascript:1",
    "{{7*7}}",
    "{m}",
    "{0.__class__}",
    "%s%n",
    "]]>",
    "<!--",
    "\x00",
    "\r\nset-cookie: a=b",
    "a&b=c",
    "../../x",
    "é" * 50,
    "\u202e",
    "💥",
]
PARAMETERS = [name for name in State().to_dict() if name != "b"]


def fuzzed(chance):
    """Give a query string of known and unknown parameters with sound and unsound values."""
    parts = []
    for _ in range(chance.randrange(1, 9)):
        name = chance.choice(PARAMETERS)
        name = chance.choice([name, name, name, f"b.{name}", chance.choice(NASTY)])
        kind = chance.random()
        if kind < 0.5:
            value = str(chance.choice([chance.randrange(-20, 80), chance.random() * 100, chance.choice(NUMBERS)]))
        elif kind < 0.75:
            value = chance.choice([*WORDS, chance.choice(preset_names())])
        else:
            value = chance.choice(NASTY)
        encode = chance.choice([quote, quote, str])
        parts.append(f"{encode(name)}{chance.choice(['=', '=', '=', '', '=='])}{encode(value)}")
    return chance.choice(["&", "&", "&", "&&", ";"]).join(parts)


class Elements(HTMLParser):
    """The elements and attributes that a browser would see."""

    def __init__(self, text):
        super().__init__()
        self.seen = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.seen |= {name for name, _ in attrs if name.startswith("on") or name == "style"}
        self.seen |= {
            "a script address" for name, value in attrs if name == "href" and (value or "").startswith("java")
        }
        if tag == "script":
            self.seen.add(("script", dict(attrs).get("type"), dict(attrs).get("src")))


def fuzz(count, seed):
    chance = random.Random(seed)
    sound = set()
    for query in ("", "d=7&m=x&b.scaling=linear&base=1&rows=x&embed=1", "d=128&model=start", "model=gemma-3-4b&m=x"):
        sound |= Elements(get(f"/en/?{query}")[1]).seen
    for number in range(count):
        query = fuzzed(chance)
        state, messages = State.parse(query)
        text = pages.simulator(state, messages, chance.choice(list(LANGUAGES)))
        assert State.parse(state.query()) == (state, ()), query
        assert "<script>alert" not in text and "<img" not in text, query
        for message in messages:
            given = message.parameter if message.kind == "unknown" else message.given
            assert str(escape(given)) in text, query
        if number % 10 == 0:
            assert Elements(text).seen <= sound, query
            status = Answer("/en/.json", query=query.encode("utf-8", "replace")).status
            assert status == (400 if messages else 200), query


def test_no_query_string_fails_or_is_reflected_unescaped():
    fuzz(1500, seed=3)


@pytest.mark.slow
def test_ten_thousand_query_strings_neither_fail_nor_are_reflected_unescaped():
    fuzz(10_000, seed=4)
