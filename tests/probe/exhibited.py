"""The exhibits of the gallery, called, and what is true for each."""

import numpy as np
import pytest

from ropewalk.probe.gallery import exhibits
from ropewalk.turning import naive

ALL = exhibits(extra=True)
BY_ID = {one.id: one for one in ALL}
MUTANTS = [one for one in ALL if one.slug is not None and not one.extra]
VARIANTS = [one for one in ALL if one.slug is None]
SLUGS = dict(
    enumerate(
        "interleaved-for-half hybrid-repeat hybrid-tile conjugate tables-as-angles cos-sin-swapped "
        "partner-of-full-head leading-for-tail full-for-partial partial-twice proportional-for-ordinary "
        "exponent-over-head exponent-without-2 wrong-theta unscaled factor-pinned llama3-precedence "
        "llama3-ramp-in-wavelength yarn-rounded yarn-clamp-half yarn-ramp-inverted yarn-factor-in-power "
        "yarn-ntk-base magnitude-missing magnitude-twice dynamic-frozen dynamic-sticky longrope-long-always "
        "longrope-off-by-one ids-ignored stale-table head-axis row-0-only double-rotation identity "
        "window-constant table-end-clamped first-head-only bf16-frequencies bf16-positions fp16-angles "
        "tf32-product sine-unreduced mrope-chunked axes-swapped input-mutated float32-out gradient-wrong".split(),
        start=1,
    )
)
X8 = np.array([0.5, -1, 2, 1.5, -0.25, 3, -2, 1])
K8 = np.array([1, 0.5, -1, 2, 0.75, -0.5, 1.5, 0.25])
# right in one call on its own, or in every value: shown by tests of their own
UNSEEN_IN_ONE_CALL = {"M27", "M28", "M29", "M31", "M33", "M40", "M43", "M46", "M47", "M48", "X06"}


def named(names):
    return pytest.mark.parametrize("one", names, ids=lambda one: one.id)


def call(one, x, position_ids, *, fn=None, dtype=None):
    """Give fn's output as [B, S, H, D] float64, whatever it takes."""
    fn = fn or one.make()
    layout = one.options.get("layout", "bshd")
    if layout == "thd":
        rows = np.broadcast_to(position_ids, x.shape[:2])
        return np.stack([fn(row, ids) for row, ids in zip(x, rows, strict=True)])
    given = np.ascontiguousarray(x.swapaxes(1, 2)) if layout == "bhsd" else x.copy()
    if one.needs_torch:
        torch = pytest.importorskip("torch")
        turned = fn(torch.from_numpy(given).to(dtype or torch.float64), torch.from_numpy(position_ids))
        turned = turned.detach().double().numpy()
    else:
        turned = fn(given, position_ids)
    return np.asarray(turned.swapaxes(1, 2) if layout == "bhsd" else turned, dtype=np.float64)


def vectors(one, seq=5, batch=2, seed=1):
    return np.random.default_rng(seed).standard_normal((batch, seq, one.options["heads"], one.options["head_dim"]))


def some_ids(one, last):
    """Unequal rows, not monotone, with one far position; unequal axes where there are several."""
    m = np.array([3, 1, 2, 7, last])
    axes = one.expect.axes.num_axes if one.expect else 1
    return np.stack([m, m[::-1]]) if axes == 1 else np.stack([[m, m + 1], [2 * m, m + 3], [m + 5, m]][:axes])


def truth(one, x, position_ids):
    return naive.rotate(x, position_ids, one.expect, length=int(position_ids.max()) + 1)


def fault(id, **parameters):
    """Give fn of an exhibit with other parameters than its own."""
    return BY_ID[id].factory(**parameters)


def turn_one(fn, vector, position):
    return fn(np.array(vector, dtype=np.float64)[None, None, None], np.array([position]))[0, 0, 0]


def frequencies(fn, firsts, seconds, head_dim, position=1):
    """Give angle and factor of each pair at a small position, by turning unit vectors."""
    angles, factors = [], []
    for a, b in zip(firsts, seconds, strict=True):
        turned = turn_one(fn, np.eye(head_dim)[a], position)
        angles.append(np.arctan2(turned[b], turned[a]))
        factors.append(np.hypot(turned[a], turned[b]))
    return np.array(angles), np.array(factors)


def half_frequencies(fn, head_dim, position=1, rotary_dim=None):
    pairs = (rotary_dim or head_dim) // 2
    return frequencies(fn, range(pairs), range(pairs, 2 * pairs), head_dim, position)


def base_of(fn, head_dim, length):
    """Give theta from the angle of pair 1 at position 1, in a call that reaches a length."""
    x = np.zeros((1, 2, 1, head_dim))
    x[0, 0, 0, 1] = 1
    turned = fn(x, np.array([1, length - 1]))[0, 0, 0]
    return np.arctan2(turned[1 + head_dim // 2], turned[1]) ** (-head_dim / 2)
