"""rotate and rotate_qk against the float64 truth: every kind of rope, type, width, layout and length."""

import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ropewalk import rotate, rotate_qk
from ropewalk.turning import kernel

from ._cases import (
    DTYPES,
    LENGTH,
    ROPES,
    Watched,
    assert_turned,
    cold_and_warm,
    length_of,
    open_road,
    positions,
    random,
    rope,
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ROPES)
def test_every_rope_turns_as_the_truth_and_back(road, kind, dtype):
    description, length = ROPES[kind], length_of(ROPES[kind])
    x = road.give(random(2, 7, 5, description.head_dim), dtype)
    before, ids = road.bits(x), positions(description, 2, 7)
    for _ in cold_and_warm(road, description, length):
        for inverse in (False, True):
            found = rotate(x, road.ids(ids), description, inverse=inverse, length=length)
            assert found.dtype == x.dtype
            assert_turned(road.take(found), road.take(x), ids, description, dtype, inverse=inverse, length=length)
    assert road.bits(x) == before


@pytest.mark.parametrize("seq", [1, 63, 1000])
@pytest.mark.parametrize("kind", ["half", "interleaved", "yarn-tail-interleaved", "mrope-interleaved", "hybrid"])
def test_odd_lengths(road, kind, seq):
    description = ROPES[kind]
    ids = positions(description, 1, seq)
    for dtype in ("float32", "bfloat16"):
        x = road.give(random(1, seq, 3, description.head_dim), dtype)
        assert_turned(road.take(rotate(x, road.ids(ids), description)), road.take(x), ids, description, dtype)


class Framed:
    """A contiguous view into a flat buffer of NaN, which holds 37 more values before and 41 after."""

    def __init__(self, road, shape, dtype):
        self.road, self.size = road, math.prod(shape)
        self.flat = road.give(np.full(37 + self.size + 41, np.nan), dtype)
        self.view = self.flat[37 : 37 + self.size].reshape(shape)

    def frame(self):
        return self.road.bits(self.flat[:37]), self.road.bits(self.flat[37 + self.size :])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize(
    ("head_dim", "rotary_dim"),
    [(d, r) for d in (6, 48, 96, 128) for r in (2, 6, 32, 48, 64) if r <= d],
)
def test_f021_width_grid_with_nan_around_the_buffers(road, head_dim, rotary_dim, pairing):
    description = rope(head_dim, pairing, 5e5, rotary_dim=rotary_dim)
    for heads in (1, 3, 5):
        for seq in (1, 7):
            for dtype in ("float32", "bfloat16"):
                ids = positions(description, 2, seq)
                x, out = (Framed(road, (2, seq, heads, head_dim), dtype) for _ in range(2))
                x.view[...] = road.give(random(2, seq, heads, head_dim), dtype)
                frames = x.frame(), out.frame()
                returned = rotate(x.view, road.ids(ids), description, out=out.view)
                assert returned is out.view
                assert_turned(road.take(out.view), road.take(x.view), ids, description, dtype)
                assert (x.frame(), out.frame()) == frames


@pytest.mark.parametrize("shape", [(0, 3, 2, 8), (2, 0, 2, 8), (2, 3, 0, 8), (0, 0, 0, 8), (0, 2, 8), (3, 0, 8)])
def test_empty_tensors_give_empty_tensors(road, shape):
    x = road.give(np.zeros(shape))
    for description in (rope(8), rope(8, "interleaved", rotary_dim=4)):
        assert rotate(x, road.ids(np.arange(shape[-3])), description).shape == shape


def test_leading_dimensions_may_be_none_or_several(road):
    description = rope(10, rotary_dim=6)
    x = random(2, 3, 4, 5, 10)  # [N, B, S, H, D]
    ids = np.array([[0, 5, 70_000, 9], [3, 3, 2, -1], [9, 8, 7, 1]])
    found = rotate(road.give(x), road.ids(ids), description)
    assert_turned(road.take(found), road.take(road.give(x)), ids, description, "float32")
    found = rotate(road.give(x), road.ids(ids[0]), description)
    assert_turned(road.take(found), road.take(road.give(x)), ids[0], description, "float32")
    found = rotate(road.give(x[0, 0]), road.ids(ids[1]), description)
    assert_turned(road.take(found), road.take(road.give(x[0, 0])), ids[1], description, "float32")


# -- who turns


@pytest.mark.parametrize("kind", ROPES)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_kernel_turns_where_it_is_there(library, kind, monkeypatch):
    with open_road(f"{library}-kernel") as road:
        description = ROPES[kind]
        ids = road.ids(positions(description, 2, 3))
        for dtype in DTYPES:
            watched = Watched(kernel.module)
            with monkeypatch.context() as patch:
                patch.setattr(kernel, "module", watched)
                rotate(road.give(random(2, 3, 2, description.head_dim), dtype), ids, description, length=LENGTH)
            assert watched.taken, dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ROPES)
def test_every_variant_of_the_kernel_turns_as_the_truth(kind, dtype):
    description, length = ROPES[kind], length_of(ROPES[kind])
    with open_road("numpy-kernel") as road:
        active, variants = kernel.module.active_variant(), kernel.module.variants()
        assert "baseline" in variants
        try:
            for variant in variants:
                kernel.module.use_variant(variant)
                for seq in (1, 7):
                    ids, x = positions(description, 2, seq), road.give(random(2, seq, 3, description.head_dim), dtype)
                    for inverse in (False, True):
                        found = rotate(x, ids, description, inverse=inverse, length=length)
                        assert_turned(found.astype(float), road.take(x), ids, description, dtype, inverse=inverse,
                                      length=length)  # fmt: skip
        finally:
            kernel.module.use_variant(active)


def test_many_threads_of_python_turn_at_once(road):
    description = rope(64, theta=12_345)  # its tables are not built yet
    ids = [np.random.default_rng(n).integers(0, 2**24, 700) for n in range(24)]
    given = [road.give(random(700, 2, 64, seed=n)) for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda x, m: rotate(x, road.ids(m), description), given, ids))
    for x, m, one in zip(given, ids, found, strict=True):
        assert_turned(road.take(one), road.take(x), m, description, "float32")


SCRIPT = """
import sys
import numpy as np
from ropewalk import Rope, rotate, rotate_qk
from ropewalk.turning import kernel, naive
rope = Rope(head_dim=96, rope_theta=5e5, pairing="interleaved", rotary_dim=64)
q, k = (np.random.default_rng(h).standard_normal((2, 5, h, 96)).astype(np.float32) for h in (6, 2))
ids = np.array([0, 1, 1500, 70001, 16777217])
for found, x in zip((rotate(q, ids, rope), *rotate_qk(q, k, ids, rope)), (q, q, k)):
    assert abs(found - naive.rotate(x, ids, rope)).max() < 2e-6
print(kernel.module is None, sorted({"torch", "jax", "triton"} & set(sys.modules)))
"""


@pytest.mark.parametrize("without_kernel", [False, True])
def test_numpy_arrays_turn_without_loading_torch(without_kernel):
    environment = {name: value for name, value in os.environ.items() if name != "ROPEWALK_NO_KERNEL"}
    if without_kernel:
        environment["ROPEWALK_NO_KERNEL"] = "1"
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    no_kernel, loaded = done.stdout.strip().split(" ", 1)
    assert loaded == "[]"
    if without_kernel:
        assert no_kernel == "True"


# -- layouts


@pytest.mark.parametrize("kind", ["half", "tail-interleaved", "mrope-chunked", "chatglm", "longrope"])
def test_f018_the_layouts_agree(road, kind):
    description, length = ROPES[kind], length_of(ROPES[kind])
    for batch, seq, heads in ((2, 5, 3), (1, 4, 4), (4, 4, 4)):  # S = H hides a guess
        x, ids = random(batch, seq, heads, description.head_dim), positions(description, batch, seq)
        expected = road.take(rotate(road.give(x), road.ids(ids), description, length=length))
        assert_turned(expected, road.take(road.give(x)), ids, description, "float32", length=length)
        by_head = rotate(road.give(x.swapaxes(1, 2).copy()), road.ids(ids), description, layout="bhsd", length=length)
        assert (road.take(by_head).swapaxes(1, 2) == expected).all()
        viewed = rotate(road.give(x).swapaxes(1, 2), road.ids(ids), description, layout="bhsd", length=length)
        assert (road.take(viewed).swapaxes(1, 2) == expected).all()
        for row in range(batch):
            packed_ids = ids[row] if ids.ndim == 2 else ids[:, row : row + 1]
            packed = rotate(road.give(x[row]), road.ids(packed_ids), description, layout="thd", length=length)
            assert (road.take(packed) == expected[row]).all()


def test_packed_sequences_restart(road):
    description, x = ROPES["half"], random(7, 3, 96)
    ids = np.array([0, 1, 2, 0, 1, 2, 3])  # F315: cu_seqlens [0, 3, 7]
    found = rotate(road.give(x), road.ids(ids), description, layout="thd")
    assert_turned(road.take(found), road.take(road.give(x)), ids, description, "float32")


# -- queries and keys


@pytest.mark.parametrize("layout", ["bshd", "bhsd", "thd"])
@pytest.mark.parametrize("kind", ["half", "interleaved", "yarn", "mrope-interleaved", "hybrid-yarn", "dynamic"])
def test_queries_and_keys_of_unequal_head_counts_turn_as_each_alone(road, kind, layout):
    description, length = ROPES[kind], length_of(ROPES[kind])
    ids = positions(description, 1, 9)
    given_ids = road.ids(ids[0] if layout == "thd" and ids.ndim == 2 else ids)
    for dtype in ("float32", "bfloat16"):
        q, k = (road.give(random(1, 9, heads, description.head_dim, seed=heads), dtype) for heads in (32, 4))
        placed = {"bshd": (q, k), "bhsd": (q.swapaxes(1, 2), k.swapaxes(1, 2)), "thd": (q[0], k[0])}[layout]
        found = rotate_qk(*placed, given_ids, description, length=length, layout=layout)
        alone = [rotate(one, given_ids, description, length=length, layout=layout) for one in placed]
        for one, other in zip(found, alone, strict=True):
            assert road.bits(one) == road.bits(other)
        for one, x in zip(found, (q, k), strict=True):
            values = road.take(one)
            values = {"bshd": values, "bhsd": values.swapaxes(-2, -3), "thd": values[None]}[layout]
            assert_turned(values, road.take(x), ids, description, dtype, length=length)
        back = rotate_qk(*found, given_ids, description, inverse=True, length=length, layout=layout)
        for one, x in zip(back, placed, strict=True):
            assert abs(road.take(one) - road.take(x)).max() < (2e-6 if dtype == "float32" else 0.07)


# -- rows


def test_f022_equal_rows_turn_equally_in_decode(road):
    for description in (rope(128), rope(128, "interleaved")):
        x = road.give(np.repeat(random(1, 1, 4, 128), 2, axis=0))
        for ids in (np.array([5]), np.array([[5], [5]])):
            found = road.take(rotate(x, road.ids(ids), description))
            assert (found[0] == found[1]).all()
            assert_turned(found, road.take(x), ids, description, "float32")


@pytest.mark.parametrize("seq", [1, 3])
def test_f023_offsets_are_of_rows(road, seq):
    ids = np.array([[50], [20]]) + np.arange(seq)
    x, description = road.give(random(2, seq, 4, 96)), ROPES["half"]
    assert_turned(road.take(rotate(x, road.ids(ids), description)), road.take(x), ids, description, "float32")


def test_batched_decode_with_ragged_positions(road):
    ids = np.random.default_rng(2).integers(0, 131_072, (32, 1))
    for dtype in ("float32", "bfloat16"):
        for description in (ROPES["interleaved"], ROPES["half"]):
            x = road.give(random(32, 1, 8, description.head_dim), dtype)
            assert_turned(road.take(rotate(x, road.ids(ids), description)), road.take(x), ids, description, dtype)


def test_f015_the_second_call_does_not_repeat_the_first(road):
    x = road.give(random(1, 4, 2, 128))
    for width, theta, offset in ((128, 1e4, 0), (128, 5e5, 0), (128, 5e5, 5), (64, 5e5, 5), (128, 1e4, 5)):
        description = rope(128, theta=theta, rotary_dim=width)
        ids = np.arange(4) + offset
        assert_turned(road.take(rotate(x, road.ids(ids), description)), road.take(x), ids, description, "float32")
