"""docs/compat.md: its examples run, and it names every public function."""

import ast
import doctest
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compat.md"


def test_every_example_of_the_page_runs():
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    text = PAGE.read_text(encoding="utf-8").replace("```python\n", "\n").replace("\n```", "\n")
    example = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(example)
    assert runner.tries > 25 and runner.failures == 0


@pytest.mark.parametrize("name", ["transformers", "chatglm", "meta", "flash_attn", "flashinfer", "vllm"])
def test_the_page_names_every_public_function(name):
    tree = ast.parse((ROOT / "src" / "ropewalk" / "compat" / f"{name}.py").read_text(encoding="utf-8"))
    own = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    public = [one for one in own if not one.startswith("_")]
    page = PAGE.read_text(encoding="utf-8")
    assert public and [one for one in public if f"`{one}`" not in page] == []


def test_importing_the_package_loads_no_torch():
    code = "import sys, ropewalk.compat; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["transformers", "chatglm", "meta", "flash_attn", "flashinfer", "vllm"])
def test_importing_a_module_does_not_load_the_library_it_stands_in_for(name):
    pytest.importorskip("torch")
    code = (
        f"import sys, ropewalk.compat.{name}; "
        "sys.exit(bool({'transformers', 'flash_attn', 'flashinfer', 'vllm'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
