"""ropewalk.jax refuses bad input in words, and with both numbers."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from ropewalk import Ladders, RopewalkError  # noqa: E402
from ropewalk.jax import rotate, rotate_qk  # noqa: E402
from ropewalk.scaling import Dynamic  # noqa: E402

from ._jax import EXACT, LONGROPE, off, random, rope, truth  # noqa: E402


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": random(1, 3, 2, 10)}, r"head_dim=8\].*got shape \[1, 3, 2, 10\]"),
        ({"x": random(3, 8)}, r"got shape \[3, 8\]"),
        ({"x": random(1, 3, 2, 8), "layout": "thd"}, r"\[tokens, heads, head_dim=8\] for layout='thd'"),
        ({"layout": "sbhd"}, "layout must be one of 'bshd', 'bhsd', 'thd', got 'sbhd'"),
        ({"layout": "bhsd"}, r"do not fit x \[1, 3, 2, 8\] with layout='bhsd': expected \[seq=2\]"),
        ({"inverse": 1}, "inverse must be true or false"),
        ({"x": np.ones((1, 3, 2, 8), np.int32)}, "got int32. Cast it first"),
        ({"x": np.ones((1, 3, 2, 8), np.complex64)}, "got complex64"),
        ({"x": "text"}, "x must be a JAX array or become one, got 'text'"),
        ({"position_ids": [0, 1]}, r"position_ids \[2\].*do not fit x \[1, 3, 2, 8\].*\[seq=3\] or \[batch=1, seq=3\]"),
        ({"position_ids": np.zeros((2, 3), int)}, r"position_ids \[2, 3\]"),
        ({"position_ids": np.zeros((3, 1, 3), int)}, r"\[seq\] or \[batch, seq\] for this rope, got shape \[3, 1, 3\]"),
        ({"position_ids": 5}, r"got shape \[\]"),
        ({"position_ids": None}, "position_ids must be an array of integers or floats"),
        ({"position_ids": np.array([True, False, True])}, "integers or floats"),
        ({"position_ids": jnp.array([True, False, True])}, "integers or floats"),
        ({"position_ids": [0, 2**53 + 1, 2]}, "must lie within"),
        ({"position_ids": [0.0, np.nan, 2.0]}, "must be finite, got nan"),
        ({"position_ids": jnp.array([0.0, jnp.inf, 2.0])}, "must be finite, got inf"),
        ({"rope": rope(axes=Ladders(widths=(4, 4)))}, r"\[axes=2, batch, seq\] for this rope, got shape \[3\]"),
    ],
)
def test_bad_input_is_refused_with_both_numbers(change, words):
    given = {"x": random(1, 3, 2, 8), "position_ids": [0, 1, 2], "rope": rope()} | change
    with pytest.raises(RopewalkError, match=words):
        rotate(given.pop("x"), given.pop("position_ids"), given.pop("rope"), **given)


def test_bad_input_is_refused_when_a_program_is_traced():
    x = random(1, 3, 2, 8)
    with pytest.raises(RopewalkError, match=r"do not fit q \[1, 3, 2, 8\]"):
        jax.jit(lambda q, ids: rotate_qk(q, q, ids, rope()))(x, np.arange(4))
    with pytest.raises(RopewalkError, match=r"do not fit k \[1, 2, 2, 8\]"):
        jax.jit(lambda q, ids: rotate_qk(q, q[:, 1:], ids, rope()))(x, np.arange(3))
    with pytest.raises(RopewalkError, match="integers or floats, got bool"):
        jax.jit(lambda ids: rotate(x, ids > 0, rope()))(np.arange(3))
    with pytest.raises(RopewalkError, match=r"\[axes=2, batch, seq\]"):
        jax.jit(lambda ids: rotate(x, ids, rope(axes=Ladders(widths=(4, 4)))))(np.zeros((2, 3)))


def test_lengths_that_cannot_be_used_are_refused():
    growing = rope(16, 5e4, scaling=Dynamic(factor=3.0), max_position_embeddings=3072)
    switching = rope(16, 1e4, scaling=LONGROPE, max_position_embeddings=256)
    x = random(2, 3, 2, 16)
    for description, name in ((growing, "dynamic"), (switching, "longrope")):
        with pytest.raises(RopewalkError, match=f"{name} scaling depends on the length.*pass length="):
            rotate(x, [0, 1, 2], description)
        with pytest.raises(RopewalkError, match=r"got 3 lengths for x \[2, 3, 2, 16\]"):
            rotate(x, [0, 1, 2], description, length=[1, 2, 3])
    with pytest.raises(RopewalkError, match=r"dynamic scaling.*got a traced one.*static argument"):
        jax.jit(lambda length: rotate(x, [0, 1, 2], growing, length=length))(7)
    with pytest.raises(RopewalkError, match=r"got 3 lengths for x \[2, 3, 2, 16\]"):
        jax.jit(lambda length: rotate(x, [0, 1, 2], switching, length=length))(np.array([1, 2, 3]))
    with pytest.raises(RopewalkError, match=r"one whole number or one a row, got shape.*float32"):
        jax.jit(lambda length: rotate(x, [0, 1, 2], switching, length=length))(7.0)
    found = jax.jit(lambda length: rotate(x, [0, 1, 2], rope(16), length=length))(7)  # not looked at
    assert off(found, truth(x, [0, 1, 2], rope(16))) < EXACT
