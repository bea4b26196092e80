"""`ropewalk explore`: pages without a server, one file for everything, a server, and errors in one line."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
from click.testing import CliRunner

from ropewalk.cli import main

pytest.importorskip("starlette")


def run(*arguments):
    return CliRunner().invoke(main, ["explore", *arguments])


def test_get_prints_a_page_without_a_server():
    result = run("--get", "/en/?m=3")
    assert result.exit_code == 0
    assert result.stdout.startswith("<!doctype html>")
    assert 'name="m" value="3"' in result.stdout


def test_get_prints_the_json_of_the_same_address():
    result = run("--get", "/en/.json?m=3")
    document = json.loads(result.stdout)
    assert document["schema"] == "ropewalk.explorer/1"
    assert document["state"]["m"] == 3


def test_get_of_the_root_takes_the_language():
    assert 'lang="vi"' in run("--lang", "vi", "--get", "/").stdout


@pytest.mark.parametrize(("path", "code"), [("/en/nosuch", 1), ("/en/.json?d=-1", 1), ("en/", 2)])
def test_get_of_what_is_not_there_fails(path, code):
    result = run("--get", path)
    assert result.exit_code == code
    assert result.stderr.startswith("ropewalk: ")
    assert result.stderr.count("\n") == 1


def test_a_model_can_be_given_at_start(tmp_path):
    config = {"model_type": "llama", "head_dim": 32, "num_hidden_layers": 2, "rope_theta": 20000}
    (tmp_path / "config.json").write_text(json.dumps(config))
    document = json.loads(run(str(tmp_path), "--get", "/en/.json?model=start").stdout)
    assert document["rope"]["head_dim"] == 32
    assert document["rope"]["rope_theta"] == 20000


FAMILIES = {
    "params.json": {"dim": 64, "n_layers": 2, "n_heads": 2, "rope_theta": 500000.0, "vocab_size": 9, "norm_eps": 1e-5},
    "transformer/config.json": {"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56, 56]},
    "config.json": {
        "model_type": "gemma3_text", "head_dim": 64, "num_hidden_layers": 12, "rope_theta": 1e6,
        "rope_local_base_freq": 1e4, "sliding_window_pattern": 6,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_a_directory_of_every_family_can_be_given_at_start(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(json.dumps(FAMILIES[name]))
    document = json.loads(run(str(tmp_path), "--get", "/en/.json?model=start").stdout)
    assert document["description_message"] == ""
    assert run(str(tmp_path), "--get", "/en/?model=start").exit_code == 0


def test_a_table_and_a_hub_id_of_the_offline_cache_can_be_given_at_start(tmp_path, monkeypatch):
    angles = np.arange(64)[:, None] * 20000.0 ** (-np.arange(8) / 8)
    np.savez(tmp_path / "t.npz", cos=np.cos(angles), sin=np.sin(angles))
    document = json.loads(run(str(tmp_path / "t.npz"), "--get", "/en/.json?model=start").stdout)
    assert document["rope"]["rope_theta"] == 20000
    home = tmp_path / "models--org--name"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("a" * 40)
    (home / "snapshots" / ("a" * 40)).mkdir(parents=True)
    config = {"model_type": "llama", "head_dim": 32, "num_hidden_layers": 2, "rope_theta": 30000}
    (home / "snapshots" / ("a" * 40) / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    document = json.loads(run("org/name", "--get", "/en/.json?model=start").stdout)
    assert document["rope"]["rope_theta"] == 30000


def test_a_model_of_several_ropes_says_that_one_is_chosen_on_the_page(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FAMILIES["config.json"]))
    result = run(str(tmp_path), "--once")
    assert result.exit_code == 0 and "several ropes" in result.stderr and "answered 200" in result.stderr


def test_a_model_without_rope_is_one_line(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 2}))
    result = run(str(tmp_path), "--once")
    assert result.exit_code == 2 and "no RoPE to show" in result.stderr and result.stderr.count("\n") == 1


def test_a_query_string_names_no_file_and_no_hub_id(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "head_dim": 32, "rope_theta": 20000}')
    for name in (str(tmp_path), "org/name", "hf://org/name", "../config.json"):
        document = json.loads(run("--get", f"/en/.json?model={name}").stdout)
        assert document["messages"][0]["kind"] == "model" and document["rope"]["rope_theta"] == 10000


def test_export_writes_one_file_that_asks_for_nothing(tmp_path):
    file = tmp_path / "page.html"
    result = run("--export", str(file))
    assert result.exit_code == 0, result.stderr
    text = file.read_text(encoding="utf-8")
    assert "data-exported" in text
    for outside in ('src="', "http://", "https://", 'href="/', "url(/"):
        assert outside not in text.replace("http://www.w3.org/", ""), outside
    assert text.count("<template data-main=") == 3
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_export_to_nowhere_is_one_line_and_leaves_nothing(tmp_path):
    result = run("--export", str(tmp_path / "no" / "page.html"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_taken_port_is_one_line(unused_port_holder):
    result = run("--port", str(unused_port_holder), "--once")
    assert result.exit_code == 2
    assert "cannot listen" in result.stderr


@pytest.fixture
def unused_port_holder():
    import socket

    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def test_the_server_prints_its_address_answers_and_stops():
    command = [sys.executable, "-m", "ropewalk", "explore", "--lang", "zh"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        for _ in range(100):
            try:
                with urllib.request.urlopen(address, timeout=10) as answer:
                    assert answer.status == 200
                    assert b'lang="zh-Hans"' in answer.read()
                break
            except ConnectionError:
                pass
            except OSError as error:
                if "refused" not in str(error):
                    raise
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode in (0, 130, -signal.SIGINT)
