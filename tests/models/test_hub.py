"""Hub ids against a small hub on this machine: what is asked for, what is kept, and how misbehaviour ends."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ropewalk import RopewalkError, read
from ropewalk.models import _hub_client, hub
from ropewalk.models.hub import HubId, find_config, hub_id, locate

pytest.importorskip("huggingface_hub")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {"model_type": "llama", "head_dim": 64, "num_hidden_layers": 2, "rope_theta": 500000}
LIMIT_S = 2.0


class Hub(ThreadingHTTPServer):
    """A hub with files by path; `behave` may answer a request in its own way and says whether it did."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = {}
        self.asked = []
        self.tokens = []
        self.behave = lambda handler: False
        self.stop = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """A client that has seen enough hangs up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", **headers):
        self.send_response(status)
        named = {"X_Repo_Commit": COMMIT, "ETag": '"e1"', "Content_Length": str(len(body)), **headers}
        for name, value in named.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer(self):
        self.server.asked.append(f"{self.command} {self.path}")
        self.server.tokens.append(self.headers.get("Authorization"))
        if self.server.behave(self):
            return None
        body = self.server.files.get(self.path)
        if body is None:
            return self.send(404, X_Error_Code="EntryNotFound")
        return self.send(200, body)

    do_GET = do_HEAD = answer  # the names that http.server calls


@pytest.fixture
def server(tmp_path, monkeypatch):
    one = Hub()
    thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", one.url)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield one
    one.stop.set()
    one.shutdown()
    one.server_close()
    thread.join()


def put(server, name="config.json", data=CONFIG, repo="org/name", revision="main"):
    server.files[f"/{repo}/resolve/{revision}/{name}"] = data if isinstance(data, bytes) else json.dumps(data).encode()


def kept(tmp_path):
    return sorted(str(path.relative_to(tmp_path / "home")) for path in (tmp_path / "home").rglob("*") if path.is_file())


def refused(name="org/name"):
    """The error of a name, which must come in time."""
    started = time.perf_counter()
    with pytest.raises(RopewalkError) as told:
        read(name)
    assert time.perf_counter() - started < LIMIT_S
    return str(told.value)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("org/name", HubId("org/name", "main", None)),
        ("Qwen/Qwen2.5-7B@v1.0", HubId("Qwen/Qwen2.5-7B", "v1.0", None)),
        ("org/name@refs/pr/1", HubId("org/name", "refs/pr/1", None)),
        ("hf://org/name", HubId("org/name", "main", None)),
        ("hf://org/name@abc/transformer/config.json", HubId("org/name", "abc", "transformer/config.json")),
        ("hf://org/name@refs%2Fpr%2F1/config.json", HubId("org/name", "refs/pr/1", "config.json")),
        ("llama-3.1-8b", None),
        ("org/name/config.json", None),
        ("models/config.json", None),
        ("dir/model.gguf", None),
        ("./org", None),
        ("../name", None),
        ("/org/name", None),
        ("hf://org/../etc", None),
        ("hf://datasets/org/name", None),
        ("org/na me", None),
    ],
)
def test_what_a_hub_id_is(name, right):
    found = hub_id(name)
    assert found == right or (right is None and name.startswith("hf://datasets"))


def test_a_configuration_is_fetched_kept_and_named(server, tmp_path):
    put(server)
    model = read("org/name")
    assert model.rope.rope_theta == 500000 and model.target == "config.json of org/name (hub)"
    folder = "hub/models--org--name"
    assert kept(tmp_path) == [f"{folder}/blobs/e1", f"{folder}/refs/main", f"{folder}/snapshots/{COMMIT}/config.json"]
    assert (tmp_path / "home" / folder / "refs" / "main").read_text() == COMMIT
    assert [one.split()[0] for one in server.asked] == ["HEAD", "GET"]
    read("org/name")
    assert [one.split()[0] for one in server.asked] == ["HEAD", "GET", "HEAD"]  # the file is there, the branch may move


def test_what_is_kept_is_what_huggingface_hub_finds(server, tmp_path):
    from huggingface_hub import try_to_load_from_cache

    put(server)
    path = find_config("org/name")
    assert str(path) == try_to_load_from_cache("org/name", "config.json", cache_dir=tmp_path / "home" / "hub")


def test_a_revision_is_asked_for_and_a_commit_is_not_asked_for_twice(server):
    put(server, revision="v1.0")
    assert read("org/name@v1.0").target == "config.json of org/name@v1.0 (hub)"
    put(server, revision=COMMIT)
    read(f"org/name@{COMMIT}")
    assert len(server.asked) == 2  # the commit is in the cache already


def test_other_places_are_tried_in_order(server):
    put(server, "params.json", {"dim": 4096, "n_layers": 2, "n_heads": 32, "rope_theta": 500000.0})
    assert read("org/name").rope.pairing == "interleaved"
    assert read("hf://org/name/params.json").rope.pairing == "interleaved"


def test_the_token_goes_to_the_hub(server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    put(server)
    read("org/name")
    assert set(server.tokens) == {"Bearer hf_secret"}


def test_the_token_does_not_follow_a_redirect_elsewhere(server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    elsewhere = Hub()
    thread = threading.Thread(target=elsewhere.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    put(elsewhere)
    for commands in (("HEAD", "GET"), ("GET",)):
        put(server)
        moved = f"{elsewhere.url}/org/name/resolve/main/config.json"
        server.behave = lambda h, c=commands, m=moved: h.command in c and (h.send(302, Location=m) or True)
        assert "redirects config.json of org/name to another host" in refused()
    assert elsewhere.asked == []
    elsewhere.shutdown()
    elsewhere.server_close()
    thread.join()


def test_a_redirect_within_the_hub_is_followed(server):
    put(server, repo="org/newname")

    def behave(handler):
        if "/org/name/" not in handler.path:
            return False
        handler.send(307, Location=handler.path.replace("/org/name/", "/org/newname/"))
        return True

    server.behave = behave
    assert read("org/name").rope.rope_theta == 500000


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (401, {}, "set HF_TOKEN"),
        (401, {"X_Error_Code": "GatedRepo"}, "gated"),
        (403, {"X_Error_Code": "GatedRepo"}, "gated"),
        (403, {}, "forbids"),
        (404, {"X_Error_Code": "RepoNotFound"}, "no repository"),
        (404, {"X_Error_Code": "RevisionNotFound"}, "no such revision"),
        (404, {"X_Error_Code": "EntryNotFound"}, "holds none of config.json"),
        (404, {}, "holds none of config.json"),
        (500, {}, "answers 500"),
        (503, {}, "answers 503"),
    ],
)
def test_refusals_are_one_clear_error(server, tmp_path, status, headers, words):
    server.behave = lambda handler: handler.send(status, **headers) or True
    assert words in refused()
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<!DOCTYPE html><html>sign in</html>", "looks like an HTML page"),
        (b'{"model_type": "lla', "is not JSON"),
        (b"", "is empty"),
        (b"\x80\x04K\x01.", "pickle"),
        (b"[1]", "must hold a JSON object"),
        (b"[" * 100_000, "too deeply nested"),
        (b" " * (4 * 2**20 + 1), "4194305 bytes"),
    ],
)
def test_garbage_is_one_clear_error_and_is_not_kept(server, tmp_path, body, words):
    put(server, data=body)
    assert words in refused()
    assert kept(tmp_path) == []


def test_a_gigabyte_that_is_claimed_is_not_fetched(server, tmp_path):
    server.behave = lambda handler: handler.send(200, b"{}", Content_Length=str(2**30)) or True
    assert "1073741824 bytes" in refused()
    assert kept(tmp_path) == [] and [one.split()[0] for one in server.asked] == ["HEAD"]


def test_a_body_without_end_is_cut_off(server, tmp_path):
    def behave(handler):
        if handler.command == "HEAD":
            return False
        handler.send(200, b"", Content_Length=None, Connection="close")
        handler.close_connection = True
        while not handler.server.stop.is_set():
            handler.wfile.write(b" " * 2**16)
        return True

    put(server)
    server.behave = behave
    assert "sends more than 4 MiB" in refused()
    assert kept(tmp_path) == []


@pytest.mark.parametrize("command", ["HEAD", "GET"])
@pytest.mark.parametrize("drip", [False, True])
def test_a_server_that_hangs(server, tmp_path, command, drip):
    def behave(handler):
        if handler.command != command:
            return False
        if drip:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not handler.server.stop.wait(0.05):
            if drip:
                handler.wfile.write(b"X-A: b\r\n")
        handler.close_connection = True
        return True

    put(server)
    server.behave = behave
    assert "does not answer within" in refused() or drip
    assert kept(tmp_path) == []


@pytest.mark.parametrize("command", ["HEAD", "GET"])
def test_redirects_without_end_share_one_clock(server, command):
    def behave(handler):
        if handler.command != command:
            return False
        handler.server.stop.wait(0.7)
        handler.send(302, Location=handler.path + "x", X_Repo_Commit=None)
        return True

    put(server)
    server.behave = behave
    assert "does not answer within" in refused()
    server.behave = lambda h: h.command == command and (h.send(302, Location=h.path + "x", X_Repo_Commit=None) or True)
    assert "without end" in refused()


def test_a_slash_in_a_branch_is_named(server):
    put(server, revision="feat%2Fx")
    assert read("hf://org/name@feat%2Fx").rope.rope_theta == 500000
    assert "For the branch feat/x, write hf://org/name@feat%2Fx." in refused("hf://org/name@feat/x")
    server.behave = lambda handler: handler.send(404, X_Error_Code="RevisionNotFound") or True
    assert "written %2F after hf://" in refused("hf://org/name@feat/x/config.json")


def test_a_server_that_is_no_hub(server):
    put(server)
    server.behave = lambda handler: handler.send(200, b"{}", X_Repo_Commit=None) or True
    assert "does not answer as a hub" in refused()


@pytest.mark.parametrize("commit", ["../../evil", "a/b", ""])
def test_a_commit_that_would_leave_the_cache_is_refused(server, tmp_path, commit):
    put(server)
    server.behave = lambda handler: handler.send(200, b"{}", X_Repo_Commit=commit) or True
    assert "does not answer as a hub" in refused()
    assert kept(tmp_path) == []


def test_a_hub_that_is_down_leaves_the_cache(server, monkeypatch):
    put(server)
    read("org/name")
    server.behave = lambda handler: handler.send(503) or True
    assert read("org/name").target == "config.json of org/name (hub, from the cache)"
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert read("org/name").rope.rope_theta == 500000
    assert "cannot be asked" in refused("org/other")


def test_a_repository_of_ggufs_says_what_to_do(server):
    listing = {"siblings": [{"rfilename": "README.md"}, {"rfilename": "m-Q4_K_M.gguf"}]}
    server.files["/api/models/org/name/revision/main"] = json.dumps(listing).encode()
    assert "1 GGUF file, and weights are not downloaded. Run `hf download org/name m-Q4_K_M.gguf`" in refused()
    assert "Run `hf download org/name m.gguf`" in refused("hf://org/name/m.gguf")
    assert not any("gguf" in one for one in server.asked)


def test_offline_nothing_is_asked(server, monkeypatch):
    put(server)
    read("org/name")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    server.asked.clear()
    assert read("org/name").rope.rope_theta == 500000
    assert "HF_HUB_OFFLINE forbids" in refused("org/other")
    assert server.asked == []


def test_the_cache_is_read_without_the_extra(server, monkeypatch):
    put(server)
    read("org/name")
    monkeypatch.setattr(hub, "installed", lambda: False)
    server.asked.clear()
    assert locate("org/name").words == "config.json of org/name (hub, from the cache)"
    assert "install ropewalk[hub]" in refused("org/other")
    assert server.asked == []


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"])
def test_the_cache_is_where_the_environment_says(server, tmp_path, monkeypatch, variable):
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv(variable, str(tmp_path / "there"))
    put(server)
    where = tmp_path / "there" / ("huggingface/hub" if variable == "XDG_CACHE_HOME" else "")
    assert find_config("org/name").is_relative_to(where)


def test_an_existing_path_wins_over_a_hub_id(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    (tmp_path / "org" / "name" / "config.json").write_text(json.dumps({**CONFIG, "rope_theta": 20000}))
    put(server)
    assert read("org/name").rope.rope_theta == 20000
    assert server.asked == []


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-8bb", "config.json", "dir/config.json", "dir/m.gguf"])
def test_other_names_never_ask_the_hub(server, name):
    try:
        read(name)
    except RopewalkError as error:
        assert "hub" not in str(error) or "preset" in str(error)
    assert server.asked == []


def test_what_is_no_hub_id_is_refused_by_name():
    with pytest.raises(RopewalkError, match="is no hub id"):
        find_config("a b")


def test_loading_huggingface_hub_is_not_held_against_the_server(server, monkeypatch):
    put(server)
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "0.5")
    monkeypatch.setattr(_hub_client, "_load", lambda what: time.sleep(0.7))  # a cold disk
    assert read("org/name").rope.rope_theta == 500000


def test_a_redirect_elsewhere_without_a_hubs_words_is_named(server):
    def elsewhere(handler):
        handler.send(302, Location="//elsewhere.invalid/config.json", X_Repo_Commit=None, ETag=None)
        return True

    server.behave = elsewhere
    assert "redirects config.json of org/name to another host, elsewhere.invalid" in refused()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hf://datasets/org/config.json", "datasets, which describe no model"),
        ("hf://spaces/org/name/config.json", "spaces, which describe no model"),
        ("datasets/org", "there is no file"),
        ("hf://org", "Write org/name"),
        ("HF://org/name", "Write org/name"),
        ("https://huggingface.co/org/name", "Write org/name"),
        ("org/name\n", "there is no file"),
        ("org/n\u540d", "there is no file"),
        ("org/" + "n" * 5000, "there is no file"),
    ],
)
def test_names_that_only_look_like_a_hub_id_are_refused_unasked(server, name, words):
    said = refused(name)
    assert words in said and len(said) < 300
    assert server.asked == []
