"""`ropewalk inspect` on bad input: one line on stderr that says what to do."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ropewalk

from ._inspecting import ERROR, FINE, LLAMA, refused, seen


def test_a_missing_file(tmp_path):
    assert "there is no file" in refused(tmp_path / "gone.json")


def test_a_file_that_is_not_json(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("model_type: llama\n")
    assert f"{path} is not JSON" in refused(path)


def test_an_empty_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("")
    assert "is empty" in refused(path)


@pytest.mark.parametrize("text", ["[1, 2]", "3", "null", '"llama"', "true"])
def test_json_that_is_no_object(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    assert "must hold a JSON object" in refused(path)


@pytest.mark.parametrize("text", ["{}", '{"a": 1}'])
def test_an_object_that_describes_no_model(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    assert "describes no model" in refused(path)


def test_a_binary_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(bytes(range(1, 256)) * 8)
    assert "is not text" in refused(path)
    path.write_bytes(bytes(range(256)) * 8)
    assert "NUL bytes" in refused(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m.gguf", "is no GGUF file"),
        ("m.safetensors", "checkpoint of weights.*config\\.json"),
        ("m.bin", "pickle, which ropewalk never loads"),
        ("m.pt", "pickle, which ropewalk never loads"),
    ],
)
def test_a_file_of_weights(tmp_path, name, words):
    path = tmp_path / name
    path.write_bytes(b"\x80\x02}q\x00.")
    assert re.search(words, refused(path))


def test_a_directory_without_a_config(tmp_path):
    assert "has no config.json" in refused(tmp_path)


def test_a_directory_of_another_family_is_read(tmp_path):
    (tmp_path / "params.json").write_text('{"dim": 4096, "n_layers": 32, "n_heads": 32, "rope_theta": 500000.0}')
    assert "RoPE of text: layers 0-31" in seen(tmp_path)
    assert "RoPE of text: layers 0-31" in seen(tmp_path / "params.json")


def test_a_directory_with_a_config_is_read(config):
    assert "RoPE of text: layers 0-1" in seen(config().parent)


def test_an_unreadable_file(tmp_path):
    if os.name == "nt" or os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    path.chmod(0)
    assert "cannot be read" in refused(path)


def test_a_directory_named_config_json(tmp_path):
    (tmp_path / "config.json").mkdir()
    assert "has no config.json" in refused(tmp_path)


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(200 * 2**20)  # sparse: takes no room
    assert "has more than 4 MiB" in refused(path)


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"text_config":', "}")])
def test_deeply_nested_json(tmp_path, left, right):
    path = tmp_path / "config.json"
    path.write_text(left * 100_000 + "1" + right * 100_000)
    assert "too deeply nested" in refused(path)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_an_error_finding(tmp_path, literal):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA).replace("10000", literal))
    assert "error RW110 value-unusable" in seen(path, code=ERROR)
    document = seen(path, "--json", code=ERROR)
    json.loads(document, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("llama-3.1-8bb", "llama-3.1-8b"), ("Llama-3.1-8B", "llama-3.1-8b"), ("gemma3-4b", "gemma-3-4b")],
)
def test_an_unknown_preset_names_the_nearest(name, nearest):
    assert re.search(rf"nearest presets are {re.escape(nearest)}\b", refused(name))


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "hf://meta-llama/Llama-3.1-8B", "a/b@main"])
def test_a_hub_id_is_not_asked_for_offline(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert re.search(r"there is no config\.json .* HF_HUB_OFFLINE forbids", refused(name))


def test_code_beside_a_config_is_never_run(tmp_path, config):
    witness = tmp_path / "ran"
    code = f"import pathlib\npathlib.Path({str(witness)!r}).write_text('')\n"
    for name in ("configuration_evil.py", "modeling_evil.py", "__init__.py", "json.py", "numpy.py"):
        (tmp_path / name).write_text(code)
    auto = {"AutoConfig": "configuration_evil.EvilConfig", "AutoModel": "modeling_evil.EvilModel"}
    path = config(model_type="evil", auto_map=auto, trust_remote_code=True)
    assert "RW156 remote-code" in seen(path)
    # -P: else Python itself, not ropewalk, would take its modules from the folder that it is started in
    command = [sys.executable, "-P", "-m", "ropewalk", "inspect", "."]
    package = str(Path(ropewalk.__file__).parents[1])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env={**os.environ, "PYTHONPATH": package})
    assert (done.returncode, done.stderr) == (FINE, b"")
    assert not witness.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--part", "video"], "no part 'video'; its parts are text"),
        (["--layer", "32"], "layers 0 to 31, got layer 32"),
        (["--layer", "-1"], "layers 0 to 31, got layer -1"),
        (["--layer", "first"], "'first' is not a valid integer"),
        (["--window", "0"], "0 is not in the range x>=1"),
        (["--window", "1e3"], "'1e3' is not a valid integer"),
        (["--window", "9" * 30], "window must be a whole number"),
        (["--length", "-5"], "-5 is not in the range x>=1"),
        (["--colour"], "No such option"),
        (["another"], "unexpected extra argument (another)"),
    ],
)
def test_a_choice_that_cannot_be_met(options, message):
    assert message in refused("llama-3.1-8b", *options)


def test_a_missing_target_points_to_the_help():
    assert refused() == "ropewalk: Missing argument 'TARGET'. See ropewalk inspect --help."


def test_a_files_words_cannot_command_the_terminal(config):
    path = config(model_type="\x1b[31mred\r\n[bold]x[/bold]\u202e")
    output = seen(path)
    assert "\x1b" not in output
    assert "\u202e" not in output
    assert r"(\x1b[31mred\r\n[bold]x[/bold]\u202e)" in output
    assert "\x1b" not in refused("\x1b[31m")


def test_half_a_surrogate_pair_in_a_file_can_be_shown(config):
    path = config(model_type="half\ud800")
    assert r"(half\ud800)" in seen(path)
    assert json.loads(seen(path, "--json"))["model"]["model_type"] == "half\ud800"
