"""Ropes of every kind, the roads that turn, and how far a result may lie from the float64 truth."""

import math
import os
from contextlib import ExitStack
from unittest import mock

import numpy as np
import pytest

from ropewalk import Ladders, Rope, Sections, Strided
from ropewalk.scaling import Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Yarn
from ropewalk.turning import naive

LENGTH = 1000  # tokens; beyond every switch below
DTYPES = ("float32", "float64", "bfloat16", "float16")
ROADS = ("numpy-kernel", "numpy-plain", "torch-kernel", "torch-plain")
# before, on and after every edge of the tables, and far past them
EDGES = [0, 1, 7, 1023, 1024, 1025, 65_535, 2**20 - 1, 2**20, 2**20 + 1, 2**24 - 1, 2**24, 2**24 + 1, 2**30 - 1, 2**30]


def rope(head_dim, pairing="half", theta=1e4, **rest):
    return Rope(head_dim=head_dim, rope_theta=theta, pairing=pairing, **rest)


def _yarn(**rest):
    return Yarn(factor=12, original_max_position_embeddings=4096, **rest)


def _longrope(pairs, **rest):
    short, long = [1.0 + 0.1 * i for i in range(pairs)], [2.5 + 0.2 * i for i in range(pairs)]
    return LongRope(short_factor=short, long_factor=long, original_max_position_embeddings=64, factor=8, **rest)


_LLAMA3 = Llama3(factor=16, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=4096)
_THW = ("t", "h", "w")
ROPES = {
    "half": rope(96, theta=5e5),
    "interleaved": rope(128, "interleaved", 1e7),
    "smallest": rope(2),
    "half-6": rope(6, theta=500),
    "interleaved-10": rope(10, "interleaved", 500),
    "leading-half": rope(80, rotary_dim=32),
    "leading-interleaved": rope(48, "interleaved", rotary_dim=36),
    "tail-half": rope(10, rotary_dim=4, rotary_start=6),
    "tail-interleaved": rope(96, "interleaved", rotary_dim=64, rotary_start=32),
    "middle-odd-start-half": rope(96, rotary_dim=48, rotary_start=5),
    "middle-odd-start-interleaved": rope(96, "interleaved", rotary_dim=66, rotary_start=7),
    "backward": rope(48, theta=3e5, rotary_dim=36, rotary_start=8, direction=-1),
    "odd-pass": rope(11, odd="pass"),
    "odd-pass-interleaved": rope(16, "interleaved", rotary_dim=7, rotary_start=4, odd="pass"),
    "one-speed": rope(12, theta=1),
    "linear": rope(64, scaling=Linear(factor=3.7)),
    "ntk": rope(96, "interleaved", scaling=Ntk(factor=5)),
    "llama3": rope(96, theta=3e5, scaling=_LLAMA3),
    "yarn": rope(96, scaling=_yarn()),
    "yarn-tail-interleaved": rope(96, "interleaved", rotary_dim=48, rotary_start=48, scaling=_yarn()),
    "yarn-small-factor": rope(12, scaling=_yarn(attention_factor=0.37)),
    "dynamic": rope(96, theta=5e4, scaling=Dynamic(factor=3), max_position_embeddings=64),
    "longrope": rope(80, scaling=_longrope(40)),
    "longrope-mscale": rope(12, "interleaved", scaling=_longrope(6, short_mscale=1.1, long_mscale=1.3)),
    "proportional": rope(160, theta=2e5, scaling=Proportional(partial_rotary_factor=0.3, factor=4)),
    "mrope-chunked": rope(128, theta=1e6, axes=Sections(sections=(16, 24, 24))),
    "mrope-interleaved": rope(40, theta=3e5, axes=Sections(sections=(10, 6, 4), arrangement="interleaved")),
    "mrope-partial-interleaved-pairs": rope(96, "interleaved", rotary_dim=40, axes=Sections(sections=(4, 8, 8))),
    "mrope-alternating": rope(48, "interleaved", axes=Sections(sections=(8, 8, 8), arrangement="alternating")),
    "chatglm": rope(96, axes=Ladders(widths=(48, 48), pairing_within="axis", names=("position", "block"))),
    "ladders-head": rope(40, axes=Ladders(widths=(16, 24))),
    "ladders-alternate": rope(24, "interleaved", axes=Ladders(widths=(12, 12), arrangement="alternate", order=(1, 0))),
    "ladders-flux": rope(64, "interleaved", axes=Ladders(widths=(8, 28, 28), pairing_within="axis", names=_THW)),
    "strided": rope(64, axes=Strided()),
    "hybrid": rope(24, "hybrid_tile"),
    "hybrid-yarn": rope(48, "hybrid_tile", rotary_dim=32, rotary_start=10, scaling=_yarn()),
    "hybrid-3-axes": rope(
        64, "hybrid_tile", rotary_dim=60, axes=Ladders(widths=(20,) * 3, pairing_within="axis", names=_THW)
    ),
    "hybrid-that-rotates": rope(8, "hybrid_tile", 1),
}


def length_of(description):
    """The length that a rope needs: one past its switch, or None."""
    return LENGTH if description.length_dependent else None


def random(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape)


def positions(description, batch, seq, *, seed=3, low=-300_000, high=2**24):
    """Unequal integer positions: [B, S], or [A, B, S] for several axes; the first row holds edges too."""
    axes = description.axes.num_axes
    ids = np.random.default_rng(seed).integers(low, high, (axes, batch, seq))
    if description.pairing == "hybrid_tile":  # its inverse is steep near a quarter turn between the two angles
        ids = ids % 9
    elif batch and seq > 3:
        ids[:, 0, :4] = [0, 1, 1024, -1025]
    return ids if axes > 1 else ids[0]


# -- the truth, and how near to it


def truth(x, ids, description, **rest):
    return naive.rotate(x, ids, description, **rest)


def _columns(description, ids, length):
    """Positions as [A, ..., S], then for each pair the angle of its first and of its second channel."""
    table = description.pairs(length)
    ids = np.asarray(ids, np.float64)
    if description.axes.num_axes == 1:
        ids = ids[None]
    elif ids.ndim < 3:
        ids = np.broadcast_to(ids, (description.axes.num_axes, *ids.shape))
    of_pair = np.moveaxis(ids[table.axis], 0, -1)[..., None, :]
    second = table.inv_freq if table.second_inv_freq is None else table.second_inv_freq
    return table, of_pair * table.inv_freq, of_pair * second


def transposed(x, ids, description, *, inverse=False, length=None):
    """The transposed map in float64, from its matrix: what a gradient has to be turned by."""
    table, alpha, beta = _columns(description, ids, length)
    g, a, b = table.cos_sin_factor, x[..., table.first], x[..., table.second]
    # rows of the map: (m00 m01) gives the first channel, (m10 m11) the second
    m00, m01, m10, m11 = g * np.cos(alpha), -g * np.sin(alpha), g * np.sin(beta), g * np.cos(beta)
    if inverse:
        det = m00 * m11 - m01 * m10
        m00, m01, m10, m11 = m11 / det, -m01 / det, -m10 / det, m00 / det
    out = np.array(x, np.float64)
    out[..., table.first] = a * m00 + b * m10
    out[..., table.second] = a * m01 + b * m11
    return out


def tolerance(x, ids, description, dtype, *, inverse=False, length=None):
    """What may lie between a result and the truth: [..., S, H, D].

    cos and sin rounded to float32, a product, and a sum are three roundings of at most the pair's length times g; one
    more is granted. A float64 angle is off by its own size times 2^-53, here and in the truth. 16-bit types add the
    one rounding at the end.
    """
    table, alpha, beta = _columns(description, ids, length)
    g = table.cos_sin_factor
    lengths = np.hypot(x[..., table.first], x[..., table.second]) * (1 / g if inverse else g)
    if not table.is_rotation and inverse:
        lengths = lengths / np.cos(alpha - beta) ** 2  # the map's determinant, which has errors of its own
    unit = 2.0**-53 if dtype == "float64" else 2.0**-24
    reach = lengths * (4 * unit + 2.0**-52 * np.maximum(abs(alpha), abs(beta)))
    out = np.zeros(np.shape(x))
    out[..., table.first] = out[..., table.second] = reach
    return out


def half_ulp(values, dtype):
    """Half the distance between neighbours of a 16-bit type at these values; 0 for the wider types."""
    if dtype not in ("bfloat16", "float16"):
        return 0.0
    bits, lowest = (7, -126) if dtype == "bfloat16" else (10, -14)
    exponent = np.maximum(np.frexp(np.abs(values))[1] - 1, lowest)
    return np.ldexp(1.0, exponent - bits - 1)


def assert_turned(found, x, ids, description, dtype, **rest):
    """Check values [..., S, H, D], widened to float64, against the truth; channels in no pair must be equal."""
    x = np.asarray(x, np.float64)
    expected = truth(x, ids, description, **rest)
    assert found.shape == expected.shape
    allowed = tolerance(x, ids, description, dtype, **rest)
    pairs = description.pairs(rest.get("length"))
    turning = np.zeros(description.head_dim, bool)
    turning[pairs.first] = turning[pairs.second] = True
    allowed[..., turning] += half_ulp(expected[..., turning], dtype)
    wrong = ~(np.abs(found - expected) <= allowed)
    if wrong.any():
        where = tuple(np.argwhere(wrong)[0].tolist())
        raise AssertionError(
            f"{wrong.sum()} of {wrong.size} values are off; first at {where}: got {found[where]!r}, "
            f"truth {expected[where]!r}, allowed ±{allowed[where]:.3g}"
        )


def cold_and_warm(road, description, length=None):
    """Two passes: as things are, and after so many tokens that a path may have built tables for its angles."""
    from ropewalk import rotate

    yield "cold"
    axes, tokens = description.axes.num_axes, 2100
    ids = np.arange(tokens) if axes == 1 else np.arange(axes * tokens).reshape(axes, 1, tokens)
    rotate(road.give(np.zeros((1, tokens, 1, description.head_dim))), road.ids(ids), description, length=length)
    yield "warm"


# -- roads


class Road:
    """One way to turn: NumPy or torch, by the kernel or without it. Uninitialised memory is poisoned with NaN."""

    def __init__(self, name):
        self.name = name
        self.library, self.by = name.split("-")
        self._stack = ExitStack()

    def __enter__(self):
        from ropewalk.turning import kernel

        if self.by == "kernel" and kernel.module is None:
            assert os.environ.get("CI") != "true", "CI builds the kernel, and it is not there"
            pytest.skip("the kernel is not built here")
        if self.by == "plain":
            self._stack.enter_context(mock.patch.object(kernel, "module", None))
        return self

    def __exit__(self, *error):
        self._stack.close()

    def ids(self, values):
        return np.asarray(values)


class NumpyRoad(Road):
    def __enter__(self):
        super().__enter__()
        for name in ("empty", "empty_like"):
            self._stack.enter_context(mock.patch.object(np, name, _poisoned(getattr(np, name))))
        return self

    def dtype(self, name):
        if name != "bfloat16":
            return np.dtype(name)
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)

    def give(self, values, dtype="float32"):
        return np.asarray(values, np.float64).astype(self.dtype(dtype))

    def take(self, array):
        return array.astype(np.float64)

    def bits(self, array):
        return array.tobytes()

    def same_memory(self, a, b):
        return a.__array_interface__["data"] == b.__array_interface__["data"]


class TorchRoad(Road):
    def __enter__(self):
        self.torch = pytest.importorskip("torch")
        super().__enter__()
        self.torch.use_deterministic_algorithms(True)  # fills what torch.empty gives with NaN
        self._stack.callback(self.torch.use_deterministic_algorithms, False)
        return self

    def dtype(self, name):
        return getattr(self.torch, name)

    def give(self, values, dtype="float32"):
        return self.torch.from_numpy(np.array(values, np.float64)).to(self.dtype(dtype))

    def take(self, tensor):
        return tensor.detach().double().numpy()

    def ids(self, values):
        return self.torch.from_numpy(np.array(values, order="C"))

    def bits(self, tensor):
        return tensor.detach().contiguous().view(self.torch.uint8).numpy().tobytes()

    def same_memory(self, a, b):
        return a.data_ptr() == b.data_ptr()


def open_road(name):
    return (NumpyRoad if name.startswith("numpy") else TorchRoad)(name)


def _poisoned(make):
    def poison(*args, **kwargs):
        array = make(*args, **kwargs)
        if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
            array.fill(math.nan)
        return array

    return poison


class Watched:
    """The compiled module, with the names taken from it noted."""

    def __init__(self, module):
        self._module, self.taken = module, []

    def __getattr__(self, name):
        self.taken.append(name)
        return getattr(self._module, name)
