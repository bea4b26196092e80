"""Ropes, random input and the float64 truth for the tests of ropewalk.jax."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")


from ropewalk import Rope  # noqa: E402
from ropewalk.scaling import LongRope  # noqa: E402
from ropewalk.turning import naive  # noqa: E402

enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else pytest.importorskip("jax.experimental").enable_x64
AXIS = {"bshd": -3, "thd": -3, "bhsd": -2}
# Of unit-normal float32 input, at most about 5: three roundings of the sum, and cos and sin off by 1.2e-7 at most.
EXACT = 1e-6
LONGROPE = LongRope(
    short_factor=[1.1] * 8, long_factor=[3.0 + i for i in range(8)], original_max_position_embeddings=64, factor=4.0
)


def rope(head_dim=8, rope_theta=500, pairing="half", **rest):
    return Rope(head_dim=head_dim, rope_theta=rope_theta, pairing=pairing, **rest)


def random(*shape, seed=5, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def truth(x, position_ids, description, layout="bshd", **rest):
    """Turn in NumPy float64, whatever the layout and the dtype."""
    x = np.asarray(x).astype(np.float64)
    if layout != "bhsd":
        return naive.rotate(x, np.asarray(position_ids), description, **rest)
    return naive.rotate(x.swapaxes(-2, -3), np.asarray(position_ids), description, **rest).swapaxes(-2, -3)


def matrices(position_ids, description, **rest):
    """The map of every position as a matrix [S, D, D], float64: column j is what becomes of unit vector j."""
    unit = np.broadcast_to(np.eye(description.head_dim), (np.shape(position_ids)[-1],) + (description.head_dim,) * 2)
    return naive.rotate(unit, position_ids, description, **rest).swapaxes(-1, -2)


def off(found, expected):
    assert found.shape == expected.shape
    return np.abs(np.asarray(found).astype(np.float64) - expected).max(initial=0)
