"""Trees of configurations and safe repairs, as `ropewalk inspect --recursive` and `--fix` do them."""

import json
import shutil
import time

import pytest
from click.testing import CliRunner

from ropewalk import RopewalkError, read
from ropewalk.cli import main
from ropewalk.models.fixing import fix
from ropewalk.models.tree import files_in

LLAMA = {"model_type": "llama", "head_dim": 64, "num_hidden_layers": 2, "max_position_embeddings": 8192,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000}}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}


def run(*arguments):
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)])


@pytest.fixture
def tree(tmp_path):
    def put(name, data):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    put("a/config.json", LLAMA)
    put("a/tokenizer.json", "{}")
    put("a/generation_config.json", {"temperature": 1})
    put("b/config.json", {**LLAMA, "rope_parameters": {"rope_type": "spiral", "rope_theta": 1e4}})
    put("c/params.json", {"dim": 4096, "n_layers": 2, "n_heads": 32})
    put("d/gpt2.json", {"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 64})
    put("d/settings.json", {"colour": "red"})
    tmp_path.joinpath("a", "loop").symlink_to(tmp_path)
    tmp_path.joinpath("again").symlink_to(tmp_path / "a")
    return tmp_path


def test_a_tree_is_walked_once_whatever_links_say(tree):
    names = [str(path.relative_to(tree)) for path in files_in(tree)]
    assert names == ["a/config.json", "b/config.json", "c/params.json", "d/gpt2.json", "d/settings.json"]


def test_recursive_prints_a_line_each_and_a_summary(tree):
    done = run(tree, "--recursive")
    lines = done.stdout.splitlines()
    assert done.exit_code == 1 and done.stderr == ""
    assert lines[0] == "a/config.json: llama, θ=10000 default half"
    assert lines[1].startswith("b/config.json: llama, no RoPE [1 error: RW101]")
    assert lines[3].startswith("d/gpt2.json: gpt2, learned absolute")
    assert lines[5] == "4 configurations, 0 not readable, 1 other JSON file skipped"
    assert lines[6].startswith("findings: 1 error, ")


def test_json_lines_are_one_document_a_line_and_the_summary_last(tree):
    done = run(tree, "--recursive", "--json-lines")
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["schema"] for one in documents] == ["ropewalk.inspect.line/1"] * 4 + ["ropewalk.inspect.summary/1"]
    assert documents[-1]["files"] == 4 and documents[-1]["findings"]["error"] == 1
    assert documents[-1]["rope_types"] == {"default": 2, "none": 2}
    assert documents[0]["ropes"] == [read(LLAMA).rope.to_dict()]


def test_a_broken_file_is_a_line_and_an_error(tree):
    (tree / "a" / "config.json").write_text("{")
    done = run(tree / "a", "--recursive")
    assert done.exit_code == 1 and "config.json: not readable: " in done.stdout


def test_exit_codes_of_a_tree(tree, tmp_path):
    assert run(tree / "a", "--recursive").exit_code == 1  # by its loop it holds b
    for name in ("a/loop", "b"):
        (tree / name).unlink() if name == "a/loop" else shutil.rmtree(tree / name)
    assert run(tree / "a", "--recursive").exit_code == 0
    (tree / "a" / "config.json").write_text(json.dumps({"model_type": "llama", "head_dim": 64, "num_hidden_layers": 1}))
    assert run(tree / "a", "--recursive").exit_code == 0
    assert run(tree / "a", "--recursive", "--strict").exit_code == 1
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty", "--recursive").exit_code == 2
    assert run(tree / "a" / "config.json", "--recursive").exit_code == 2


@pytest.mark.parametrize(
    "options",
    [["--json-lines"], ["--write"], ["--fix", "--recursive"], ["--recursive", "--json"], ["--fix", "--all-pairs"]],
)
def test_options_without_meaning_together_are_refused(tree, options):
    assert run(tree, *options).exit_code == 2


@pytest.mark.slow
def test_ten_thousand_configurations_in_a_minute(tmp_path):
    kinds = [LLAMA, {**LLAMA, "rope_scaling": YARN}, {"model_type": "gemma3_text", "num_hidden_layers": 26}]
    for number in range(10_000):
        path = tmp_path / f"{number % 100}" / f"m{number}" / "config.json"
        path.parent.mkdir(parents=True)
        path.write_text(
            json.dumps({**kinds[number % 3], "hidden_size": 1024 + number % 7 * 64, "num_attention_heads": 8})
        )
    started = time.perf_counter()
    done = run(tmp_path, "--recursive", "--json-lines")
    seconds = time.perf_counter() - started
    print(f"10,000 configurations in {seconds:.1f} s")
    assert json.loads(done.stdout.splitlines()[-1])["files"] == 10_000
    assert seconds < 60


# --- repairs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": "500000"}}, "rope_theta", 500000),
        ({"rope_parameters": {**YARN, "rope_theta": 1e4, "factor": "4.5"}}, "factor", 4.5),
        ({"rope_parameters": {**YARN, "rope_theta": 1e4, "beta_fast": 1, "beta_slow": 32}}, "beta_fast", 32),
        ({"rope_parameters": {"type": "linear", "factor": 2.0, "rope_theta": 1e4}}, "rope_type", "linear"),
        ({"rope_parameters": {**YARN, "rope_theta": 1e4, "factor": None}}, "factor", 4.0),
    ],
)  # fmt: skip
def test_what_has_one_right_answer_is_repaired(changes, key, value):
    fixed = fix({**LLAMA, **changes})
    assert fixed.config["rope_parameters"][key] == value and len(fixed.done) == 1
    assert fixed.model.ropes
    assert set(read({**LLAMA, **changes}).ropes) <= set(fixed.model.ropes)


def test_su_is_called_longrope_today():
    ones = [1.0] * 32
    config = {**LLAMA, "model_type": "phi3", "original_max_position_embeddings": 4096, "rope_parameters": None,
              "rope_theta": 1e4, "rope_scaling": {"type": "su", "short_factor": ones, "long_factor": ones}}  # fmt: skip
    fixed = fix(config)
    assert fixed.config["rope_scaling"]["rope_type"] == "longrope" and fixed.config["rope_scaling"]["type"] == "su"
    assert fixed.model.rope == read(config).rope


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_parameters": {"rope_type": "default"}},  # the base was trained, nobody knows it
        {"rope_parameters": {"rope_type": "linear", "type": "yarn", "rope_theta": 1e4, "factor": 2.0}},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4}},
        {"rope_parameters": {**YARN, "rope_theta": 1e4, "factor": 3.0}},
    ],
)
def test_what_has_no_single_answer_is_not_touched(changes):
    config = {**LLAMA, **changes}
    fixed = fix(config)
    assert fixed.config == config and fixed.done == () and fixed.left


def test_a_clean_configuration_stays_as_it_is():
    assert fix(LLAMA).done == () and fix(LLAMA).left == () and fix(LLAMA).config == LLAMA


def test_other_families_are_refused():
    with pytest.raises(RopewalkError, match="only those are repaired"):
        fix({"dim": 4096, "n_layers": 2, "n_heads": 32})


def test_fix_prints_and_write_keeps_a_backup(tmp_path):
    path = tmp_path / "config.json"
    old = json.dumps({**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": "500000"}}, indent=4)
    path.write_text(old)
    done = run(path, "--fix")
    assert done.exit_code == 0 and path.read_text() == old
    assert json.loads(done.stdout)["rope_parameters"]["rope_theta"] == 500000
    assert 'rope_theta: "500000" as text becomes the number 500000' in done.stderr
    assert done.stdout.startswith('{\n    "model_type"')
    assert run(path, "--fix", "--write").exit_code == 0
    assert path.read_text() == done.stdout and (tmp_path / "config.json.bak").read_text() == old
    path.write_text(old)
    run(path, "--fix", "--write")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["config.json", "config.json.bak", "config.json.bak1"]


def test_write_leaves_a_clean_file_and_a_link_alone(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert run(path, "--fix", "--write").exit_code == 0
    assert [one.name for one in tmp_path.iterdir()] == ["config.json"]
    path.write_text(json.dumps({**LLAMA, "rope_theta": "3"}))
    (tmp_path / "link.json").symlink_to(path)
    assert run(tmp_path / "link.json", "--fix", "--write").exit_code == 2


def test_errors_that_remain_end_with_1(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "rope_parameters": {"rope_type": "spiral", "rope_theta": 1}}))
    done = run(path, "--fix")
    assert done.exit_code == 1 and "not touched, there is no single right answer: 1" in done.stderr


def test_half_a_character_survives_a_repair(tmp_path):
    path = tmp_path / "config.json"
    old = json.dumps({**LLAMA, "s": "\ud800", "rope_parameters": {"rope_type": "default", "rope_theta": "10000"}})
    path.write_text(old)
    assert run(path, "--fix", "--write").exit_code == 0
    assert json.loads(path.read_text())["s"] == "\ud800"
    assert (tmp_path / "config.json.bak").read_text() == old


def test_a_backup_never_goes_through_a_link(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": "10000"}}))
    (tmp_path / "config.json.bak").symlink_to(tmp_path / "elsewhere")
    done = run(path, "--fix", "--write")
    assert done.exit_code == 0 and "is in config.json.bak1 beside it" in done.stderr
    assert not (tmp_path / "elsewhere").exists()


def test_nesting_that_cannot_be_written_is_one_error(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(
        '{"model_type": "llama", "head_dim": 8, "rope_theta": "1e4", "x": ' + '{"a":' * 900 + "1" + "}" * 901
    )
    done = run(path, "--fix")
    assert done.exit_code == 2 and "too deeply nested" in done.stderr
