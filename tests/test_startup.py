"""What starting loads. How long it takes is measured by benchmarks/startup.py, not asserted here."""

import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "jax", "transformers", "gguf", "matplotlib", "starlette"}


def loaded(code, *options):
    """The names in sys.modules after some code, which may print what it likes."""
    code += "\nimport json, sys\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_loads_neither_numpy_nor_a_command_line_nor_a_framework():
    modules = loaded("import ropewalk")
    assert modules & (HEAVY | {"click", "rich", "numpy"}) == set()


def test_using_the_library_loads_no_command_line_and_no_framework():
    modules = loaded("import ropewalk; ropewalk.read('llama-3.1-8b').rope; ropewalk.verify()")
    assert "numpy" in modules
    assert modules & (HEAVY | {"click", "rich"}) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["inspect", "--help"], ["verify", "--help"]])
def test_help_and_version_load_neither_numpy_nor_rich(arguments):
    code = f"from ropewalk.cli import main\nmain({arguments!r}, standalone_mode=False)"
    modules = loaded(code)
    assert "click" in modules
    assert modules & (HEAVY | {"numpy", "rich"}) == set()


def test_json_output_loads_no_rich():
    modules = loaded(
        "from ropewalk.cli import main\n"
        "try: main(['inspect', 'llama-3.1-8b', '--json'], standalone_mode=False)\n"
        "except SystemExit: pass"
    )
    assert "numpy" in modules
    assert modules & (HEAVY | {"rich"}) == set()
