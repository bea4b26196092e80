"""`ropewalk verify`: the gate's result, and that it can fail."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from ropewalk.cli import main
from ropewalk.cli.verify import FAULTS
from ropewalk.gate import sabotages


def run(*arguments, columns=80):
    return CliRunner().invoke(main, ["verify", *arguments], env={"COLUMNS": str(columns)})


def test_it_passes_and_prints_its_largest_deviation():
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == ["ok"] * 5
    assert lines[5].split()[-2] == "245"
    assert lines[-1].startswith("The numbers hold: largest deviation ")
    assert lines[-1].endswith("e-14, tolerance 1e-12.")
    assert all(len(line) <= 80 for line in lines)


def test_sabotages_on_offer_are_those_of_the_gate():
    assert set(FAULTS) == set(sabotages())


@pytest.mark.parametrize("fault", FAULTS)
def test_it_exits_1_for_each_sabotage_and_says_which_case_failed(fault):
    done = run("--sabotage", fault)
    assert (done.exit_code, done.stderr) == (1, "")
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert len(failed) == 1
    assert "the score sees only the distance" in failed[0]
    assert "The numbers do not hold" in done.stdout


def test_json_is_one_document():
    document = json.loads(run("--json").stdout)
    assert (document["schema"], document["ok"]) == ("ropewalk.verify/1", True)
    broken = run("--json", "--sabotage", "theta")
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["ok"] is False


def test_an_unknown_sabotage_lists_the_known():
    done = run("--sabotage", "gremlin")
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert all(fault in line for fault in FAULTS)


def test_a_process_fails_for_a_sabotage():
    command = [sys.executable, "-W", "error", "-m", "ropewalk", "verify"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    done = subprocess.run([*command, "--sabotage", "pairing"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
