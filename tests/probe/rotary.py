"""A right RoPE in NumPy, small enough to be spoiled in one place at a time."""

import numpy as np

from ropewalk import Pairs


def ladder(head_dim, theta=5e5):
    return theta ** (-np.arange(0, head_dim, 2) / head_dim)


def half_pairs(head_dim, theta=5e5, inv_freq=None, **rest):
    half = head_dim // 2
    inv_freq = ladder(head_dim, theta) if inv_freq is None else inv_freq
    return Pairs(first=np.arange(half), second=np.arange(half) + half, axis=[0] * half, inv_freq=inv_freq, **rest)


def turn_by(x, angle, g=1.0):
    """Half-split rotation of x [B, S, H, D] by angle [..., D/2], broadcast against [B, S, H, D/2]."""
    a, b = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle) * g, np.sin(angle) * g
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def make(head_dim=16, theta=5e5, *, places=None, inv_freq=None, angle=None):
    """Give fn(x, ids); places(x, ids) says which position [B, S, H] turns each head of each token."""
    w = ladder(head_dim, theta) if inv_freq is None else inv_freq

    def fn(x, ids):
        ids = np.broadcast_to(np.asarray(ids), x.shape[:2])
        where = ids[:, :, None] if places is None else places(x, ids)
        full = where[..., None] * w if angle is None else angle(where[..., None], w)
        return turn_by(x, full)

    return fn
