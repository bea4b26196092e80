"""`ropewalk compare`, as a user meets it."""

import builtins
import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from ropewalk.cli import main

EQUAL, DIFFER, COULD_NOT_RUN = 0, 1, 2
# F204: D = 96, theta 3e5, factor 16, low 1, high 4, L0 4096
PLAIN = {
    "model_type": "llama",
    "head_dim": 96,
    "num_hidden_layers": 2,
    "max_position_embeddings": 65536,
    "rope_theta": 300000,
}
BLOCK = {
    "rope_type": "llama3",
    "factor": 16,
    "low_freq_factor": 1,
    "high_freq_factor": 4,
    "original_max_position_embeddings": 4096,
}


def run(*arguments, columns=120):
    return CliRunner().invoke(main, ["compare", *map(str, arguments)], env={"COLUMNS": str(columns)})


def seen(*arguments, code, columns=120):
    """The output of a run that ends as it should: nothing on stderr, no traceback."""
    done = run(*arguments, columns=columns)
    assert (done.exit_code, done.stderr) == (code, ""), done.output
    return done.stdout


def refused(*arguments):
    """The one line on stderr of a run that could not be done."""
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (COULD_NOT_RUN, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ropewalk: ")
    return line


@pytest.fixture
def files(tmp_path):
    """A config with llama3 scaling and one without."""
    paths = tmp_path / "scaled.json", tmp_path / "plain.json"
    for path, data in zip(paths, ({**PLAIN, "rope_scaling": BLOCK}, PLAIN), strict=True):
        path.write_text(json.dumps(data), encoding="utf-8")
    return paths


def test_the_first_pair_that_differs_is_told_in_words(files):
    output = seen(*files, code=DIFFER)
    assert f"A  {files[0]}" in output and f"B  {files[1]}" in output
    assert "In B, pair 20 of 48 turns 1.22867 times too fast: llama3 scaling is missing." in output
    assert output.endswith("A and B differ.\n")


def test_pairs_that_differ_are_listed_and_the_rest_counted(files):
    output = seen(*files, code=DIFFER)
    rows = [line.split() for line in output.splitlines() if re.match(r" +\d+  \d+, ", line)]
    assert [row[0] for row in rows] == [str(pair) for pair in range(20, 32)]
    assert rows[0][-2:] == ["1.228669", "frequency"]  # the divisor of F204
    assert "16 more differ" in output
    every = seen(*files, "--all-pairs", code=DIFFER)
    assert len(re.findall(r"^ +\d+  \d+, ", every, re.MULTILINE)) == 48
    assert "more differ" not in every


def test_angles_are_shown_at_the_distances_asked_for(files):
    output = seen(*files, "--distances", "1,1_000", code=DIFFER)
    table = output[output.index("distance") :]
    assert [line.split()[0] for line in table.splitlines()[1:3]] == ["1", "1000"]
    assert "131072" not in output


def test_both_magnitudes_are_shown(tmp_path):
    # F206 and F217
    yarn = {"rope_type": "yarn", "factor": 12, "original_max_position_embeddings": 6144}
    paths = tmp_path / "a.json", tmp_path / "b.json"
    for path, more in zip(paths, ({}, {"attention_factor": 1.0}), strict=True):
        block = {**yarn, **more}
        path.write_text(json.dumps({**PLAIN, "max_position_embeddings": 73728, "rope_scaling": block}))
    output = seen(*paths, code=DIFFER)
    assert re.search(r"cos and sin +× 1\.248490\d+ in A, × 1 in B", output)
    assert "softmax scale  × 1 in both" in output


def test_equal_descriptions_exit_0_and_say_so(files):
    assert "The same description." in seen(files[1], files[1], code=EQUAL)
    output = seen("llama-3.1-8b", "llama-3.1-70b", code=EQUAL)
    assert "RW352" in output
    assert output.endswith("A and B are equal: every pair turns alike.\n")


def test_json_is_one_document_with_the_same_exit_code(files):
    document = json.loads(seen(*files, "--json", code=DIFFER))
    assert (document["schema"], document["equal"]) == ("ropewalk.compare/1", False)
    assert json.loads(seen(files[0], files[0], "--json", code=EQUAL))["equal"] is True


def test_a_length_is_told(tmp_path):
    path = tmp_path / "dynamic.json"
    path.write_text(json.dumps({**PLAIN, "rope_scaling": {"rope_type": "dynamic", "factor": 3}}))
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps(PLAIN))
    seen(path, plain, "--length", 65536, code=EQUAL)
    assert "For a sequence of 70000 tokens, in B, pair 1" in seen(path, plain, "--length", 70000, code=DIFFER)


def test_one_part_alone_can_be_compared():
    assert "vision" in seen("qwen2-vl-7b", "qwen2.5-7b", code=DIFFER)
    assert "RW308" not in seen("qwen2-vl-7b", "qwen2.5-7b", "--part", "text", code=DIFFER)


def test_engines_read_one_configuration(files):
    output = seen(files[0], "--engines", code=EQUAL)
    for name in ("transformers", "vLLM", "SGLang", "llama.cpp", "mlx-lm", "onnxruntime-genai"):
        assert name in output
    assert "5.24.0: modeling_rope_utils.py" in output
    assert output.endswith("Every engine that loads it turns alike.\n")


def test_engines_that_differ_exit_1_and_say_what_they_ignore():
    output = seen("gpt-oss-20b", "--engines", code=DIFFER)
    assert re.search(r"^ +mlx-lm +pair 9 of 32 turns 1\.00269 times too slow;", output, re.MULTILINE)
    assert "ignores truncate and rounds" in output
    assert output.endswith("The engines differ.\n")


def test_engines_as_json(files):
    document = json.loads(seen(files[0], "--engines", "--json", code=EQUAL))
    assert document["schema"] == "ropewalk.engines/1"
    both = json.loads(seen(*files, "--engines", "--json", code=DIFFER))
    assert both["schema"] == "ropewalk.compare/1"
    assert [one["target"] for one in both["engines"]] == [str(path) for path in files]


def test_a_second_side_is_needed_without_engines(files):
    assert "give B as well, or --engines" in refused(files[0])
    assert "give B as well" in refused(files[0], "--engines", "--plot", "x.svg")


@pytest.mark.parametrize("given", ["", "1,x", "1;2"])
def test_distances_that_are_none_are_refused(files, given):
    assert "whole numbers joined by commas" in refused(*files, "--distances", given)


def test_what_cannot_be_read_exits_2(files, tmp_path):
    assert "neither an existing path, nor a hub id" in refused(files[0], "no-such-preset")
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({**PLAIN, "rope_scaling": {"rope_type": "spiral"}}))
    assert "B, " in refused(files[0], broken)
    assert "no part 'vision'" in refused(*files, "--part", "vision")


def test_a_plot_needs_a_name_that_it_can_be_written_under(files, tmp_path):
    assert ".png or .svg" in refused(*files, "--plot", tmp_path / "x.jpg")


def test_a_plot_without_matplotlib_says_what_to_install(files, tmp_path, monkeypatch):
    monkeypatch.setattr("ropewalk.cli._plot.find_spec", lambda name: None)
    assert "pip install 'ropewalk[plot]'" in refused(*files, "--plot", tmp_path / "x.svg")
    assert not (tmp_path / "x.svg").exists()


def test_nothing_but_a_plot_asks_for_matplotlib(files, monkeypatch):
    real = builtins.__import__

    def spy(name, *rest, **named):
        assert not name.startswith("matplotlib")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", spy)
    seen(*files, code=DIFFER)


@pytest.mark.parametrize(("name", "start"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml")])
def test_a_plot_is_drawn_and_its_bytes_are_the_same_again(files, tmp_path, name, start):
    pytest.importorskip("matplotlib")
    drawn = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / name
        done = run(*files, "--plot", path)
        assert (done.exit_code, done.stderr) == (DIFFER, f"drawn: {path}\n")
        drawn.append(path.read_bytes())
    assert drawn[0].startswith(start) and len(drawn[0]) > 10_000
    assert drawn[0] == drawn[1]


def test_a_plot_of_equal_sides_is_drawn_too(files, tmp_path):
    pytest.importorskip("matplotlib")
    assert run(files[0], files[0], "--plot", tmp_path / "x.svg").exit_code == EQUAL
    assert (tmp_path / "x.svg").exists()


def test_a_plot_that_cannot_be_written_exits_2(files, tmp_path):
    pytest.importorskip("matplotlib")
    assert "cannot be written" in refused(*files, "--plot", tmp_path / "nowhere" / "x.svg")


@pytest.mark.parametrize("columns", [40, 80])
def test_words_fit_a_narrow_terminal(files, columns):
    output = seen(*files, code=DIFFER, columns=columns)
    said = output[output.index("Findings") :].splitlines()
    assert len(said) > 5 and all(len(line) <= columns for line in said)


def test_a_process_answers_as_the_runner_does(files):
    command = [sys.executable, "-W", "error", "-m", "ropewalk", "compare", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8")
    assert (done.returncode, done.stderr) == (DIFFER, "")
    assert "llama3 scaling is missing" in done.stdout


ROTARY = """
import numpy as np

print("loud at import")


def turn(x, position_ids, theta=300000.0):
    print("loud in a call")
    angle = (np.asarray(position_ids)[..., None] * theta ** (-np.arange(0, 96, 2) / 96))[..., None, :]
    a, b = x[..., :48], x[..., 48:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def other(x, position_ids):
    return turn(x, position_ids, 10000.0)


def heads_first(x, position_ids):
    return np.moveaxis(turn(np.moveaxis(x, 1, 2), position_ids), 1, 2)


def raises(x, position_ids):
    raise KeyError("cos")


number = 3
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A file of functions, named from where the command runs."""
    (tmp_path / "rotary_here.py").write_text(ROTARY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return "rotary_here.py"


def test_a_function_is_compared_with_a_description(files, code):
    done = run(files[1], f"{code}:turn")
    assert (done.exit_code, done.stderr.splitlines()[:2]) == (
        EQUAL,
        [
            f"ropewalk: compare runs code that is not its own: {code}:turn",
            "loud at import",
        ],
    )
    assert "loud" not in done.stdout
    assert "RW353" in done.stdout and "known to (rad)" in done.stdout
    assert "softmax scale  × 1 in A; not to be seen in B" in done.stdout
    assert done.stdout.endswith("A and B are equal, as far as was measured: every pair turns alike.\n")


def test_a_function_that_differs_is_named_with_its_cause(files, code):
    done = run(f"{code}:other", files[1], "--json")
    document = json.loads(done.stdout)
    assert (done.exit_code, document["a"], document["equal"]) == (DIFFER, f"{code}:other", False)
    assert document["groups"][0]["words"].endswith("too slow: A has theta 10000 for 300000")
    assert document["groups"][0]["measured"]["a"]["until"] == 1_048_576


def test_two_functions_are_compared_for_a_given_head_dim(code):
    sides = f"{code}:turn", f"{code}:other"
    assert run(*sides, "--head-dim", 96).exit_code == DIFFER
    assert run(sides[0], sides[0], "--head-dim", 96).exit_code == EQUAL
    done = run(*sides, "--head-dim", "auto")
    assert done.exit_code == COULD_NOT_RUN
    assert done.stderr.splitlines()[-1].endswith("nothing says it. Give head_dim (--head-dim).")


def test_a_functions_layout_and_arrays_are_told(files, code):
    target = f"{code}:heads_first"
    assert run(files[1], target, "--layout", "bhsd", "--backend", "numpy").exit_code == EQUAL
    assert run(files[1], target).exit_code != EQUAL


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rotary_here.py:raises", "B, rotary_here.py:raises, cannot be measured: raised, KeyError: 'cos'"),
        ("rotary_here.py:absent", "has no absent; it has turn"),
        ("rotary_here.py:number", "cannot be called"),
        ("nowhere.py:turn", "there is no file nowhere.py"),
        ("no_such_module:turn", "cannot be imported"),
        ("nowhere.onnx", "there is no file nowhere.onnx"),
        ("transformers:", "must be followed by a model type"),
        (":", "is no target"),
    ],
)
def test_a_function_that_cannot_be_measured_is_one_line(files, code, name, said):
    done = run(files[1], name)
    assert (done.exit_code, done.stdout) == (COULD_NOT_RUN, "")
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("ropewalk: ") and said in line


def test_engines_read_configurations_and_no_functions(code):
    assert "--engines says how engines read a configuration" in refused(f"{code}:turn", "--engines")


def test_a_model_of_transformers_is_compared(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    done = run("llama-2-7b", "transformers:llama")
    assert done.exit_code == EQUAL
    assert "transformers:llama: rotary_emb (LlamaRotaryEmbedding)" in done.stdout
    several = run("llama-2-7b", "transformers:gemma3_text")
    assert several.exit_code == COULD_NOT_RUN
    assert "compare takes one" in several.stderr


def test_a_path_with_a_colon_in_it_is_a_path(tmp_path):
    path = tmp_path / "a:b.json"
    try:
        path.write_text(json.dumps(PLAIN), encoding="utf-8")
    except OSError:
        pytest.skip("this file system has no such names")
    assert run(path, path).exit_code == EQUAL


def test_what_is_adapted_is_asked_in_its_own_layout(files, monkeypatch):
    from ropewalk import Rope, rotate
    from ropewalk.probe.targets import Target, Targets

    rope = Rope(head_dim=96, rope_theta=3e5, pairing="half")
    found = Target(name="x.onnx", fn=lambda x, position_ids: rotate(x, position_ids, rope), options={})
    monkeypatch.setattr("ropewalk.probe.targets.resolve", lambda target, *, layout: Targets(found=(found,)))
    assert run(files[1], "x.onnx", "--layout", "bhsd").exit_code == EQUAL
