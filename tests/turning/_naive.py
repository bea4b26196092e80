"""Rotation written anew with Python's math, and the vectors of shared/faults.md."""

import math

import numpy as np
import pytest

from ropewalk import Rope
from ropewalk.turning.naive import rotate

X8 = [0.5, -1, 2, 1.5, -0.25, 3, -2, 1]
K8 = [1, 0.5, -1, 2, 0.75, -0.5, 1.5, 0.25]
Y12 = [1, -2, 3, 0.5, -1.5, 2, 0.25, -1, 4, -0.5, 1.5, -3]


def rope(head_dim=8, rope_theta=500, pairing="half", **rest):
    return Rope(head_dim=head_dim, rope_theta=rope_theta, pairing=pairing, **rest)


def one(x, position, description, **rest):
    """Turn one vector by one position."""
    return rotate(np.array(x, dtype=float)[None, None], [position], description, **rest)[0, 0].tolist()


def turned_by_hand(x, position, pairs, inv_freq, g=1.0):
    """Turn each (a, b) of pairs by position·inv_freq radians, in Python's math."""
    out = list(map(float, x))
    for (a, b), w in zip(pairs, inv_freq, strict=True):
        cos, sin = g * math.cos(position * w), g * math.sin(position * w)
        out[a], out[b] = x[a] * cos - x[b] * sin, x[a] * sin + x[b] * cos
    return out


def ladder(theta, width):
    return [theta ** (-2 * i / width) for i in range(width // 2)]


def close(values):
    """Ten printed decimals, or 1e-9 relative."""
    return pytest.approx(values, rel=1e-9, abs=6e-11)


def random(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape)
