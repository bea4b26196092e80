"""`ropewalk doctor`: what is installed, which paths are active and why not."""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from click.testing import CliRunner

import ropewalk
from ropewalk.cli import doctor, main


def run(*arguments):
    return CliRunner().invoke(main, ["doctor", *arguments], env={"COLUMNS": "80"})


def test_it_names_versions_and_paths():
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"ropewalk {ropewalk.__version__}" in done.stdout
    assert platform.python_version() in done.stdout
    assert version("numpy") in done.stdout
    assert "numpy float64     active: " in done.stdout
    assert "C++ kernel        " in done.stdout
    assert all(len(line) <= 80 or len(line.split()) <= 2 for line in done.stdout.splitlines())


def test_json_holds_the_same():
    document = json.loads(run("--json").stdout)
    assert document == doctor.diagnose()
    assert document["schema"] == "ropewalk.doctor/1"
    assert document["ropewalk"] == ropewalk.__version__
    assert Path(document["location"]) == Path(ropewalk.__file__).parent
    assert document["packages"]["numpy"] == version("numpy")
    assert all(path["why"] for path in document["paths"])
    assert {path["name"]: path["active"] for path in document["paths"]}["numpy float64"] is True


def test_a_package_that_is_absent_is_said_to_be(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", absent)
    packages, ways = run().stdout.split("Ways of turning")
    assert packages.count("not installed") == len(doctor.REQUIRED) + len(doctor.OPTIONAL)
    assert ways.count("not active: torch is not installed") == 2
    assert set(json.loads(run("--json").stdout)["packages"].values()) == {None}


def path(name):
    return next(one for one in json.loads(run("--json").stdout)["paths"] if one["name"] == name)


def test_the_kernel_is_active_where_it_was_built_and_says_why_not_elsewhere(monkeypatch):
    kernel = pytest.importorskip("ropewalk.turning.kernel")
    assert path("C++ kernel") == {"name": "C++ kernel", "active": kernel.module is not None, "why": kernel.why}
    done = subprocess.run(
        [sys.executable, "-m", "ropewalk", "doctor", "--json"],
        capture_output=True, text=True, check=True, env={**os.environ, "ROPEWALK_NO_KERNEL": "1"},
    )  # fmt: skip
    (off,) = [one for one in json.loads(done.stdout)["paths"] if one["name"] == "C++ kernel"]
    assert off["active"] is False
    assert "ROPEWALK_NO_KERNEL" in off["why"]


@pytest.mark.parametrize("options", ["", "'--json'"])
def test_optional_packages_are_looked_up_and_never_imported(options):
    code = (
        f"import sys; from ropewalk.cli import main; main(['doctor', {options}], standalone_mode=False); "
        "assert not {'torch', 'jax', 'transformers', 'triton', 'onnx'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
