"""`ropewalk extend`, as a user meets it."""

import json
import sys
import types
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from ropewalk import Rope
from ropewalk.cli import main
from ropewalk.planning import Plan, extend

PLANNED, COULD_NOT_RUN = 0, 2
CONFIG = {
    "model_type": "llama",
    "head_dim": 16,
    "num_hidden_layers": 2,
    "rope_theta": 10000,
    "max_position_embeddings": 128,
}


def run(*arguments, columns=120):
    return CliRunner().invoke(main, ["extend", *map(str, arguments)], env={"COLUMNS": str(columns)})


def seen(*arguments, columns=120):
    """The output of a run that plans: nothing on stderr, no traceback."""
    done = run(*arguments, columns=columns)
    assert (done.exit_code, done.stderr) == (PLANNED, ""), done.output
    return done.stdout


def refused(*arguments):
    """The one line on stderr of a run that could not be done."""
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (COULD_NOT_RUN, ""), done.output
    (line,) = done.stderr.splitlines()
    assert line.startswith("ropewalk: ")
    return line


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    return path


def test_the_table_has_one_row_for_each_method(config):
    lines = seen(config, "--to", 512).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("method "))
    names = [line.split()[0] for line in lines[start + 1 : start + 7]]
    assert names == ["untouched", "linear", "ntk", "dynamic", "yarn", "llama3"]
    assert "128 (pair 3)" in lines[start + 1]  # within 128 tokens pair 2 turns once, pair 3 does not
    assert lines[start + 2].split()[:5] == ["linear", "-", "-", "0-7", "4"]


def test_every_part_of_the_plan_is_printed(config):
    out = seen(config, "--to", 512)
    for heading in ("Engines, reading", "longrope: not planned", "Bases, for a context of 512", "Recommendation"):
        assert heading in out
    assert "Without training: dynamic." in out
    assert "--trained N" in out


def test_settings_are_printed_for_the_recommended_method_or_the_one_asked_for(config):
    out = seen(config, "--to", 512)
    assert "Settings for dynamic" in out and '"rope_type": "dynamic"' in out
    out = seen(config, "--to", 512, "--method", "linear")
    assert "Settings for linear" in out and "--rope-scaling linear --rope-scale 4" in out


def test_one_method_is_printed_beside_untouched(config):
    out = seen(config, "--to", 512, "--method", "yarn")
    assert "yarn: pairs up to" in out
    assert "linear:" not in out and "not planned" not in out


def test_json_is_the_plan(config):
    assert json.loads(seen(config, "--to", 512, "--json")) == extend(str(config), 512).to_dict()


def test_theta_beside_a_plan_tells_its_context(config):
    data = json.loads(seen(config, "--to", 512, "--theta", 1e6, "--json"))
    assert (data["bases"]["theta"], data["bases"]["to"]) == (1e6, 512)


def test_theta_alone_tells_the_bases_alone(config):
    out = seen("llama-2-7b", "--theta", "1e6")
    assert out.startswith("Bases, for a base of 1000000 (trained: 4096 tokens)")
    assert [line.split() for line in out.splitlines()[2:5]] == [
        ["turns", "381162"],
        ["critical", "129026"],
        ["similarity", "27115"],
    ]
    data = json.loads(seen("llama-2-7b", "--theta", "1e6", "--json"))
    assert (data["schema"], data["to"]) == ("ropewalk.bases/1", None)


def test_proportional_ropes_have_no_bases():
    assert "no rule counts with the still pairs" in seen("gemma-4-26b", "--theta", "1e6")


def test_the_trained_length_may_be_given(config):
    data = json.loads(seen(config, "--to", 128, "--trained", 64, "--json"))
    assert (data["trained"], data["trained_from"], data["factor"]) == (64, "given", 2.0)


def test_a_narrow_terminal_cuts_no_cell(config):
    def cells(text):
        return [line.split() for line in text.splitlines() if line.startswith(("ntk", "method"))]

    assert cells(seen(config, "--to", 512, columns=40))[:2] == cells(seen(config, "--to", 512))[:2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say how many tokens are wished, --to N"),
        (["--to", 128], "to must be above the trained length, got to=128 and 128 trained tokens"),
        (["--to", -5], "to must be a whole number from 1"),
        (["--to", "nan"], "'nan' is not a valid integer"),
        (["--to", 10**30], "to must be a whole number"),
        (["--to", 512, "--trained", 0], "trained must be a whole number from 1"),
        (["--to", 512, "--method", "longrope"], "longrope cannot be planned"),
        (["--to", 512, "--method", "ntk-aware"], "is not one of"),
        (["--to", 512, "--theta", "nan"], "theta must be a finite number above 1"),
        (["--theta", "1"], "theta must be a finite number above 1, got 1"),
        (["--theta", "1e6", "--plot", "x.png"], "--plot needs a plan"),
        (["--to", 512, "--plot", "plan.txt"], "a plot is a .png or .svg file"),
        (["--to", 512, "--tokens", 100], "--tokens belongs to --measure FILE"),
        (["--to", 512, "--model", "x"], "--model belongs to --measure FILE"),
        (["--to", 512, "--passkey"], "--passkey belongs to --measure FILE"),
        (["--to", 512, "--measure", "no-such-file"], "does not exist"),
        (["--to", 512, "--layer", 9], "layers 0 to 1, got layer 9"),
        (["--to", 512, "--part", "vision"], "no part 'vision'"),
    ],
)
def test_what_cannot_be_done_is_one_line(config, arguments, words):
    assert words in refused(config, *arguments)


def test_a_model_without_rope_is_one_line(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gpt2", "n_head": 12, "n_embd": 768, "n_layer": 2}), encoding="utf-8")
    assert "has no RoPE" in refused(path, "--to", 4096)


def test_measuring_is_handed_the_plan_and_its_options(config, tmp_path, monkeypatch):
    calls = []
    stand_in = types.ModuleType("ropewalk.cli._measure")
    stand_in.measure_command = lambda plan, **given: calls.append((plan, given))
    monkeypatch.setitem(sys.modules, "ropewalk.cli._measure", stand_in)
    text = tmp_path / "text.txt"
    text.write_text("words", encoding="utf-8")
    options = ["--model", "weights", "--tokens", 300, "--bucket", 64, "--dtype", "float32", "--passkey", "--json"]
    assert seen(config, "--to", 512, "--measure", text, *options) == ""
    assert seen(config, "--to", 512, "--method", "yarn", "--measure", text) == ""
    (plan, given), (one, plain) = calls
    assert isinstance(plan, Plan) and all(isinstance(method.rope, Rope) for method in plan.methods)
    assert given == {
        "file": text,
        "model": "weights",
        "tokens": 300,
        "bucket": 64,
        "dtype": "float32",
        "passkey": True,
        "as_json": True,
        "plot": None,
    }
    assert [method.name for method in one.methods] == ["untouched", "yarn"]
    assert (plain["model"], plain["passkey"], plain["tokens"]) == (str(config), False, None)


def test_a_plot_is_drawn_and_said_on_stderr(config, tmp_path):
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        done = run(config, "--to", 512, "--method", "linear", "--plot", tmp_path / name)
        assert (done.exit_code, done.stderr.strip()) == (PLANNED, f"drawn: {tmp_path / name}")
    drawn = (tmp_path / "a.svg").read_bytes()
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert drawn == (tmp_path / "b.svg").read_bytes()  # one plan, one picture


def test_a_rope_with_still_pairs_can_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    done = run("gemma-4-26b", "--to", 262144, "--plot", tmp_path / "plan.png")
    assert done.exit_code == PLANNED, done.output
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
