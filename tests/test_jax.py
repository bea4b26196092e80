"""The public face ropewalk.jax: what it offers, its example, and what happens where JAX is missing."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs" / "jax.md"


def test_it_offers_rotate_and_rotate_qk():
    pytest.importorskip("jax")
    from ropewalk import jax as face

    assert face.__all__ == ["rotate", "rotate_qk"]
    assert all(callable(getattr(face, name)) for name in face.__all__)


def test_the_example_of_the_documentation_runs():
    pytest.importorskip("jax")
    failures, tries = doctest.testfile(str(DOCS), module_relative=False)
    assert tries > 5
    assert not failures


def test_without_jax_the_error_says_what_to_install():
    code = "import sys; sys.modules['jax'] = None\ntry: import ropewalk.jax\nexcept ImportError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "ropewalk.jax needs JAX: pip install 'ropewalk[jax]'\n"
