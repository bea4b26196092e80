"""`ropewalk check`: the exit codes, the three outputs, and that what is not asked for does not happen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import ropewalk
from ropewalk.cli import main

CODE = '''"""A rope as somebody writes it, and some that are wrong."""

import numpy as np


def turned(x, position_ids, theta, adjacent=False):
    speed = theta ** (-np.arange(0, 16, 2) / 16)
    angles = (np.asarray(position_ids, dtype=np.float64)[..., None] * speed)[..., None, :]
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = (x[..., 0::2], x[..., 1::2]) if adjacent else np.split(x, 2, axis=-1)
    out = [a * cos - b * sin, b * cos + a * sin]
    out = np.stack(out, axis=-1).reshape(x.shape) if adjacent else np.concatenate(out, axis=-1)
    return out.astype(x.dtype)


def right(x, position_ids):
    print("a line that somebody left in")
    return turned(x, position_ids, 500000.0)


def adjacent(x, position_ids):
    return turned(x, position_ids, 500000.0, adjacent=True)


def theta(x, position_ids):
    return turned(x, position_ids, 10000.0)


def both(q, k, position_ids):
    return right(q, position_ids), theta(k, position_ids)


def raises(x, position_ids):
    raise ValueError("no table, 100% gone: see\\nthe log")
'''
CONFIG = {
    "model_type": "llama",
    "hidden_size": 96,
    "num_attention_heads": 6,
    "num_hidden_layers": 2,
    "rope_theta": 500000.0,
    "max_position_embeddings": 8192,
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some_rope.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    yield tmp_path
    sys.modules.pop("some_rope", None)


def run(*arguments, columns=100):
    return CliRunner().invoke(main, ["check", *arguments], env={"COLUMNS": str(columns)})


def against_config(attribute, *more):
    return run(f"some_rope.py:{attribute}", "--expect", "config.json", *more)


def test_a_right_function_exits_0_and_the_code_that_runs_is_named_on_stderr(here):
    done = against_config("right", "--head-dim", "16")
    assert done.exit_code == 0
    assert "some_rope.py is imported and its code run" in done.stderr
    assert "some_rope.py:right: no error" in done.stdout and "θ 500000, half, 16 of 16 channels" in done.stdout
    assert "No findings." in done.stdout


def test_what_the_code_prints_goes_to_stderr(here):
    done = against_config("right", "--json")
    assert "a line that somebody left in" in done.stderr
    assert json.loads(done.stdout)["ok"] is True


@pytest.mark.parametrize(
    ("attribute", "slug", "words"),
    [("adjacent", "interleaved-for-half", "0, 1"), ("theta", "wrong-theta", "theta 10000 for 500000")],
)
def test_a_fault_exits_1_and_is_named(here, attribute, slug, words):
    done = against_config(attribute)
    assert done.exit_code == 1
    assert "error RW" in done.stdout and slug in done.stdout and words in done.stdout


def test_without_expect_another_convention_is_no_fault(here):
    for attribute in ("right", "adjacent", "theta"):
        assert run(f"some_rope.py:{attribute}", "--head-dim", "16").exit_code == 0


def test_keys_that_are_turned_otherwise_are_a_fault(here):
    done = against_config("both")
    assert done.exit_code == 1 and "turned differently" in " ".join(done.stdout.split())
    assert against_config("both", "--of", "q").exit_code == 0
    assert "wrong-theta" in against_config("both", "--of", "k").stdout


def test_json_is_one_document_with_the_report(here):
    document = json.loads(against_config("theta", "--json").stdout)
    assert (document["schema"], document["ok"], document["left"]) == ("ropewalk.checks/1", False, [])
    (one,) = document["checks"]
    assert one["name"] == "some_rope.py:theta" and one["schema"] == "ropewalk.check/1"
    assert [finding["name"] for finding in one["findings"]] == ["wrong-theta"]
    assert one["explanation"]["rope_theta"] == pytest.approx(10000.0, rel=1e-5)


def test_github_annotations_name_file_and_line_and_escape_what_would_end_them(here):
    done = against_config("raises", "--format", "github")
    line = CODE.splitlines().index("def raises(x, position_ids):") + 1
    (told,) = done.stdout.splitlines()
    assert done.exit_code == 1
    assert told.startswith(f"::error file=some_rope.py,line={line},title=RW")
    assert "100%25 gone" in told


def test_head_dim_auto_takes_that_of_expect(here):
    assert against_config("right", "--head-dim", "auto").exit_code == 0
    done = run("some_rope.py:right", "--head-dim", "auto")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Missing option '--head-dim'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing argument 'TARGET'"),
        (("some_rope.py:absent", "--head-dim", "16"), "has no absent; it has"),
        (("some_rope.py:right", "--head-dim", "many"), "neither a number of channels"),
        (("some_rope.py:right", "--head-dim", "16", "--layer", "0"), "give --expect"),
        (("some_rope.py:right", "--expect", "no-such-preset"), "neither an existing path, nor a hub id"),
        (("some_rope.py:right", "--expect", "config.json", "--layer", "7"), "has 2 layers there, from 0 to 1; got 7"),
        (("some_rope.py:right", "--expect", "config.json", "--part", "vision"), "has no part vision; it has text"),
        (("some_rope.py:right", "--expect", "config.json", "--head-dim", "32"), "expect describes heads of 16"),
        (("some_rope.py:right", "--head-dim", "16", "--dtype", "int3"), "dtype"),
    ],
)
def test_what_cannot_be_run_exits_2_with_one_line(here, arguments, words):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr.splitlines()[-1]
    assert all(line.startswith("ropewalk: ") for line in done.stderr.splitlines())


def test_part_and_layer_choose_the_rope_of_a_model_with_several(here):
    target = "some_rope.py:right"
    several = run(target, "--head-dim", "16", "--expect", "gemma-3-4b")
    assert several.exit_code == 2 and "ropes" in several.stderr
    chosen = run(target, "--expect", "gemma-3-4b", "--part", "text", "--layer", "0")
    assert "expected" in chosen.stdout and "256 channels" in chosen.stdout


def test_a_model_type_is_checked_by_layer_type_and_what_cannot_be_asked_is_told():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    done = run("transformers:llama4")
    assert "Llama4TextRotaryEmbedding" in done.stdout and "Llama4VisionRotaryEmbedding" in done.stdout
    some = run("transformers:glm4v_moe")
    assert "not asked: language_model.rotary_emb (Glm4vMoeTextRotaryEmbedding)" in some.stdout
    nothing = run("transformers:bert")
    assert nothing.exit_code == 2 and "BertModel has no rotary module" in nothing.stderr


def test_one_room_of_the_gallery_shows_its_code_and_its_report():
    done = run("--gallery", "M14")
    assert done.exit_code == 0
    assert "def " in done.stdout and "wrong-theta" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("as meant.")


def test_the_gallery_as_a_document():
    document = json.loads(run("--gallery", "V01", "--json").stdout)
    assert document["schema"] == "ropewalk.gallery/1"
    assert {(one["slug"], one["as_meant"]) for one in document["exhibits"]} == {(None, True)}


def test_a_room_that_does_not_exist_exits_2():
    done = run("--gallery", "M99")
    assert done.exit_code == 2 and "M01 to M48" in done.stderr


def test_a_hanging_function_ends_the_process(tmp_path):
    file = tmp_path / "hanging.py"
    file.write_text("import time\n\n\ndef turn(x, position_ids):\n    time.sleep(60)\n", encoding="utf-8")
    command = [sys.executable, "-m", "ropewalk", "check", f"{file}:turn", "--head-dim", "16", "--timeout", "1"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=50, check=False)
    assert done.returncode == 1 and "no answer within 1 s" in done.stdout


LOUD = """
import os

from some_rope import right


def writes(x, position_ids):
    os.write(1, b"a line from code that is not Python")
    return right(x, position_ids)


def never(x, position_ids):
    while True:
        print("again")
        os.write(1, b"and again")
"""


@pytest.mark.parametrize(("name", "code"), [("writes", 0), ("never", 1)])
def test_the_document_is_whole_whatever_foreign_code_prints(here, name, code):
    (here / "loud_here.py").write_text(LOUD, encoding="utf-8")
    command = [sys.executable, "-m", "ropewalk", "check", f"loud_here.py:{name}", "--head-dim", "16", "--json"]
    paths = [str(Path(ropewalk.__file__).parents[1]), *sys.path]  # PYTHONPATH may be relative to where tests began
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([*command, "--timeout", "1"], capture_output=True, check=False, env=environment)
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"]) == (code, code == 0)
    assert b"again" in done.stderr or code == 0
