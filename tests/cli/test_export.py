"""`ropewalk export`: settings alone on stdout, the version on stderr, files replaced only when asked."""

import json
import shlex
import stat

import pytest
from click.testing import CliRunner

from ropewalk import RopewalkError, export, read
from ropewalk.cli import main
from ropewalk.cli.export import ENGINES
from ropewalk.exporting import ENGINES as ALL


def run(*arguments):
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_the_engines_on_offer_are_those_of_the_package():
    assert ENGINES == ALL


@pytest.mark.parametrize("engine", ["transformers", "transformers-v4", "mlx"])
def test_stdout_is_a_configuration_that_reads_as_the_model(engine):
    done = run("llama-3.1-8b", "--to", engine)
    assert done.exit_code == 0
    assert read(json.loads(done.stdout)).rope == read("llama-3.1-8b").rope


def test_stdout_is_one_line_of_flags():
    done = run("qwen3-8b", "--to", "vllm")
    (line,) = done.stdout.splitlines()
    flag, value = shlex.split(line)
    assert flag == "--hf-overrides"
    assert json.loads(value) == {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "max_position_embeddings": 40960,
    }


def test_stderr_names_the_version_that_was_verified():
    for engine, version in (("vllm", "vLLM 0.33.0"), ("llama.cpp", "0.3.36"), ("gguf", "gguf 0.19.0")):
        assert version in run("llama-2-7b", "--to", engine).stderr


def test_python_on_stdout_runs():
    space = {}
    exec(run("llama-3.1-8b", "--to", "python").stdout, space)
    assert space["rope"] == read("llama-3.1-8b").rope


def test_a_refusal_exits_1_with_the_reason_and_nothing_on_stdout():
    done = run("gpt-oss-20b", "--to", "llama.cpp")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "truncate" in done.stderr and "rounds" in done.stderr


def test_one_layer_of_several_is_exported():
    done = run("gemma-3-4b", "--to", "llama.cpp", "--layer", 5)
    assert done.stdout == "--rope-scaling linear --rope-scale 8 --rope-freq-base 1000000\n"
    assert run("gemma-3-4b", "--to", "llama.cpp").exit_code == 1
    assert run("gemma-3-4b", "--to", "llama.cpp", "--layer", 0).exit_code == 1  # no flag reaches sliding layers


def test_a_file_is_written_whole_and_replaced_only_by_force(tmp_path):
    out = tmp_path / "rope.json"
    assert run("llama-3.1-8b", "--to", "transformers", "--out", out).exit_code == 0
    assert read(json.loads(out.read_text())).rope == read("llama-3.1-8b").rope
    assert stat.S_IMODE(out.stat().st_mode) & 0o044 == 0o044  # as readable as any new file
    again = run("llama-2-7b", "--to", "transformers", "--out", out)
    assert again.exit_code == 2 and "--force" in again.stderr
    assert read(json.loads(out.read_text())).rope == read("llama-3.1-8b").rope
    assert run("llama-2-7b", "--to", "transformers", "--out", out, "--force").exit_code == 0
    assert read(json.loads(out.read_text())).rope == read("llama-2-7b").rope
    assert [path.name for path in tmp_path.iterdir()] == ["rope.json"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("llama-3.1-8b", "--to", "tgi"), "tgi"),
        (("llama-3.1-8b",), "--to"),
        (("no-such-model", "--to", "vllm"), "no-such-model"),
        (("llama-3.1-8b", "--to", "vllm", "--part", "vision"), "vision"),
        (("llama-3.1-8b", "--to", "vllm", "--layer", "32"), "layers 0 to 31"),
    ],
)
def test_what_cannot_run_is_one_line_and_exit_2(arguments, words):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "") and words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    done = run("llama-2-7b", "--to", "gguf", "--out", tmp_path / "none" / "file")
    assert done.exit_code == 2 and len(done.stderr.splitlines()) <= 3


def test_out_names_a_file_and_not_a_directory_or_a_device(tmp_path):
    for given in (str(tmp_path), "/dev/null", str(tmp_path / "no" / "x.json")):
        result = run("llama-2-7b", "--to", "python", "--out", given, "--force")
        assert result.exit_code == 2


def test_out_writes_through_a_link(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    run("llama-2-7b", "--to", "python", "--out", str(tmp_path / "link.json"), "--force")
    assert (tmp_path / "link.json").is_symlink() and "Rope" in (tmp_path / "real.json").read_text()


def test_links_that_lead_in_a_circle_or_nowhere_are_one_line(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "lost").symlink_to("nothing")
    for name in ("a", "a/config.json"):
        done = run(tmp_path / name, "--to", "transformers")
        assert done.exit_code == 2 and done.stderr.count("\n") == 1
        assert f"{name} runs through symbolic links that lead in a circle" in done.stderr
        with pytest.raises(RopewalkError, match="in a circle"):
            export(tmp_path / name, "transformers")
    assert "a symbolic link to what is not there" in run(tmp_path / "lost", "--to", "transformers").stderr
    done = run("llama-2-7b", "--to", "gguf", "--out", tmp_path / "a")
    assert done.exit_code == 2 and "--out" in done.stderr and done.stderr.count("\n") == 1


def test_a_link_is_not_taken_for_a_hub_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "name").symlink_to("name")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "in a circle" in run("org/name", "--to", "transformers").stderr


def test_an_engine_that_is_none_is_named_before_anything_is_read():
    with pytest.raises(RopewalkError, match=r"engine must be one of 'transformers'.*, got True"):
        export("no such target", True)
