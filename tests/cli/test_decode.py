"""`ropewalk check --decode`: an object with prefill and step, a transformers configuration, the outputs, the codes."""

import json
import sys

import pytest
from click.testing import CliRunner

from ropewalk.cli import main

CODE = '''"""A decoder whose outputs are a running sum, and one that forgets it."""

import numpy as np


class Right:
    vocab = 20

    def prefill(self, tokens):
        print("a line that somebody left in")
        return np.cumsum(tokens, axis=1)[..., None] * 1.0, tokens.sum(axis=1, keepdims=True)

    def step(self, tokens, cache):
        total = cache + np.cumsum(tokens, axis=1)
        return total[..., None] * 1.0, total[:, -1:]


class Forgets(Right):
    def step(self, tokens, cache):
        return super().step(tokens, cache)[0], cache


decoder = Right()
nothing = 3
'''
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "vocab_size": 50,
    "max_position_embeddings": 4096,
    "rope_parameters": {"rope_type": "dynamic", "factor": 4, "rope_theta": 10000},
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some_decoder.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    yield tmp_path
    sys.modules.pop("some_decoder", None)


def run(*arguments):
    return CliRunner().invoke(main, ["check", *arguments, "--decode"], env={"COLUMNS": "110"})


@pytest.mark.parametrize("attribute", ["Right", "decoder"])
def test_a_right_decoder_exits_0_and_says_what_was_not_asked(here, attribute):
    done = run(f"some_decoder.py:{attribute}")
    assert done.exit_code == 0, done.output
    assert f"some_decoder.py:{attribute}: no error" in done.stdout and "No findings." in done.stdout
    assert "not asked: merged caches: no merge was given" in done.stdout
    assert "a line that somebody left in" not in done.stdout


def test_a_faulty_one_exits_1_with_its_finding_as_text_json_and_annotation(here):
    done = run("some_decoder.py:Forgets")
    assert done.exit_code == 1 and "error RW293 stepwise-differs" in done.stdout
    done = run("some_decoder.py:Forgets", "--json")
    document = json.loads(done.stdout)
    assert done.exit_code == 1 and document["schema"] == "ropewalk.decoder/1" and document["ok"] is False
    assert document["findings"][0]["code"] == "RW293" and document["target"] == "some_decoder.py:Forgets"
    done = run("some_decoder.py:Forgets", "--format", "github")
    assert done.stdout.startswith("::error title=RW293 stepwise-differs::some_decoder.py%3AForgets") or (
        done.stdout.startswith("::error title=RW293 stepwise-differs::some_decoder.py:Forgets")
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("some_decoder.py:nothing",), "has no prefill"),
        (("some_decoder.py",), "is no target"),
        (("some_decoder.py:Right", "--head-dim", "8"), "--head-dim says nothing about a decoder"),
        (("transformers:",), "must be followed by a model type"),
    ],
)
def test_what_cannot_be_run_exits_2_with_one_line(here, arguments, words):
    done = run(*arguments)
    assert done.exit_code == 2 and words in done.stderr and not done.stdout


def test_a_dynamic_configuration_shows_its_switch_as_a_warning_and_the_base_that_stays_as_an_error(here):
    pytest.importorskip("transformers")
    done = run("transformers:config.json", "--json")
    document = json.loads(done.stdout)
    named = {one["name"]: one["severity"] for one in document["findings"]}
    assert named == {"state-leaks": "error", "cached-keys-keep-table": "warning"} and done.exit_code == 1
    assert any("max_position_embeddings 4096 → 16" in note for note in document["notes"])
    assert any("RW127 dynamic-cached-keys" in note for note in document["notes"])
