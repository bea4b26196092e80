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


def test_the_general_rotate_takes_jax_arrays_and_refuses_out():
    jax = pytest.importorskip("jax")
    import numpy as np

    import ropewalk
    from ropewalk.turning import naive

    rope = ropewalk.Rope(head_dim=8, rope_theta=1e4, pairing="half")
    x = np.random.default_rng(0).standard_normal((1, 5, 3, 8)).astype(np.float32)
    given = jax.numpy.asarray(x)
    assert isinstance(ropewalk.rotate(given, range(5), rope), jax.Array)
    traced = jax.jit(lambda x: ropewalk.rotate_qk(x, x, np.arange(5), rope)[1])(given)
    assert np.abs(np.asarray(traced) - naive.rotate(x, range(5), rope)).max() < 1e-6
    with pytest.raises(ropewalk.RopewalkError, match="JAX arrays do not change"):
        ropewalk.rotate(given, range(5), rope, out=given)
