"""`ropewalk inspect`, as a script meets it: JSON, exit codes, a real process."""

import json
import os
import subprocess
import sys

import pytest

from ropewalk import Model, read

from ._inspecting import COULD_NOT_RUN, ERROR, FINE, seen

# --- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llama-3.1-8b", "gemma-3-4b", "qwen2-vl-7b", "phi-3-mini-128k"])
def test_json_is_one_document_that_gives_the_model_back(target):
    document = json.loads(seen(target, "--json"))
    assert document["schema"] == "ropewalk.inspect/1"
    assert Model.from_dict(document["model"]) == read(target)


def test_json_holds_every_pair_and_what_the_table_says():
    (rope,) = json.loads(seen("llama-3.1-8b", "--json", "--window", 8192))["ropes"]
    assert [row["pair"] for row in rope["pairs"]] == list(range(64))
    assert rope["slowest"] == rope["pairs"][63]
    assert rope["window"] == 8192
    assert rope["slower_than_window"] == sum(row["wavelength"] > 8192 for row in rope["pairs"])
    assert (rope["cos_sin_factor"], rope["softmax_factor"]) == (1, 1)


def test_json_of_a_part_and_of_a_layer_holds_their_ropes_only():
    (vision,) = json.loads(seen("llama-4-scout", "--json", "--part", "vision"))["ropes"]
    assert vision["places"] == ["vision: layers 0-33"]
    assert json.loads(seen("smollm3-3b", "--json", "--layer", 3))["ropes"] == []


def test_json_is_printed_with_an_error_finding_too(config):
    document = json.loads(seen(config(rope_parameters={"rope_type": "spiral"}), "--json", code=ERROR))
    assert "RW101" in {finding["code"] for finding in document["findings"]}


# --- exit codes ------------------------------------------------------------------------------------------------------


def test_exit_code_is_0_with_warnings_1_with_errors_and_strict_minds_warnings(config):
    warned = config(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000})
    assert "warning RW" in seen(warned, code=FINE)
    seen(warned, "--strict", code=ERROR)
    seen(warned, "--strict", "--json", code=ERROR)
    noted = config(rope_parameters=None, rope_theta=10000, rope_scaling=None)
    assert "note RW" in seen(noted, "--strict", code=FINE)
    broken = config(rope_parameters={"rope_type": "spiral", "rope_theta": 10000})
    assert "error RW101" in seen(broken, code=ERROR)
    assert "No RoPE could be read: the errors below say why." in seen(broken, code=ERROR)


# --- a real process --------------------------------------------------------------------------------------------------


def process(*arguments, **environment):
    command = [sys.executable, "-W", "error", "-m", "ropewalk", "inspect", *arguments]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environment}, check=False)


def test_a_process_prints_data_on_stdout_and_errors_on_stderr():
    fine = process("llama-3.1-8b", "--json")
    assert (fine.returncode, fine.stderr) == (FINE, b"")
    assert json.loads(fine.stdout)["schema"] == "ropewalk.inspect/1"
    bad = process("gone.json")
    assert (bad.returncode, bad.stdout, bad.stderr.count(b"\n")) == (COULD_NOT_RUN, b"", 1)


def test_an_ascii_terminal_gets_escapes_and_no_traceback():
    done = process("llama-3.1-8b", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (FINE, b"")
    assert rb"\u03b8=500000" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_one_line_and_no_traceback(options):
    command = [sys.executable, "-m", "ropewalk", "inspect", "llama-3.1-8b", *options]
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == COULD_NOT_RUN
    assert done.stderr.startswith(b"ropewalk: the output cannot be written")
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_leaves_early_sees_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ropewalk", "inspect", "llama-3.1-8b", "--json"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert b"Traceback" not in done.stderr
