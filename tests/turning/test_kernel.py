"""The compiled kernel itself: its variants, its plans, what it refuses, and its working beside or without torch."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from ropewalk import Ladders, Pairs, Rope, Sections, rotate, rotate_qk
from ropewalk.scaling import Dynamic, Proportional, Yarn
from ropewalk.turning import kernel, naive
from ropewalk.turning.tables import split_tables

pytestmark = pytest.mark.skipif(kernel.module is None, reason=f"the kernel is not there: {kernel.why}")
VARIANTS = kernel.module.variants() if kernel.module else []
ROPES = {
    "half": Rope(head_dim=128, rope_theta=5e5, pairing="half"),
    "interleaved": Rope(head_dim=96, rope_theta=1e4, pairing="interleaved"),
    "partial": Rope(head_dim=80, rotary_dim=34, rope_theta=1e4, pairing="half"),
    "tail": Rope(head_dim=48, rotary_dim=18, rotary_start=30, rope_theta=1e4, pairing="interleaved"),
    "odd run": Rope(head_dim=14, rope_theta=1e4, pairing="half"),
    "proportional": Rope(head_dim=64, rope_theta=1e4, pairing="half", scaling=Proportional(partial_rotary_factor=0.25)),
    "factor": Rope(
        head_dim=64, rope_theta=1e4, pairing="half", scaling=Yarn(factor=8.0, original_max_position_embeddings=512)
    ),
    "M-RoPE": Rope(
        head_dim=40, rope_theta=3e5, pairing="half", axes=Sections(sections=(10, 6, 4), arrangement="interleaved")
    ),
    "blocks": Rope(head_dim=128, rope_theta=1e4, pairing="half", axes=Ladders(widths=(64, 64), pairing_within="axis")),
    "two angles": Rope(head_dim=24, rope_theta=1e4, pairing="hybrid_tile"),
}


@pytest.fixture(params=VARIANTS)
def variant(request):
    """Each variant that this processor has, the best one put back behind."""
    kernel.module.use_variant(request.param)
    yield request.param
    kernel.module.use_variant(VARIANTS[0])


def random(*shape, dtype=np.float32, seed=3):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def ids_for(rope, batch, seq, *, reach=2_000_000, seed=4):
    axes = rope.axes.num_axes
    shape = (batch, seq) if axes == 1 else (axes, batch, seq)
    return np.random.default_rng(seed).integers(-reach, reach, shape)


@pytest.mark.parametrize("name", ROPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, "bfloat16"])
def test_every_variant_turns_as_the_truth_does(variant, name, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    rope = ROPES[name]
    x = random(2, 21, 3, rope.head_dim, dtype=dtype)
    ids = ids_for(rope, 2, 21)
    expected = naive.rotate(x.astype(np.float64), ids, rope)
    got = rotate(x, ids, rope)
    # two steps of the type at the largest value; in float64 an angle of two million radians is off by 2^-32 itself
    step = {"float64": 2.0**-32, "float32": 2.0**-23, "float16": 2.0**-11, "bfloat16": 2.0**-8}[np.dtype(dtype).name]
    assert np.abs(got.astype(np.float64) - expected).max() <= 2 * step * np.abs(expected).max()


def test_bfloat16_and_float16_are_rounded_to_the_nearest_once(variant):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for pairing in ("half", "interleaved"):
        rope = Rope(head_dim=64, rope_theta=1e4, pairing=pairing)
        for dtype in (np.float16, ml_dtypes.bfloat16):
            x = random(1, 200, 2, 64, dtype=dtype)
            exact = naive.rotate(x.astype(np.float64), np.arange(200) * 37, rope)
            got = rotate(x, np.arange(200) * 37, rope)
            # only what float32's last bit pushes over a border may differ, and then by one step
            differing = (got != exact.astype(np.float32).astype(dtype)).mean()
            assert differing < 2e-3
            distance = np.abs(got.view(np.int16).astype(int) - exact.astype(dtype).view(np.int16).astype(int))
            assert distance.max() <= 1


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_every_bit_pattern_of_16_bits_survives_a_turn_by_0(variant, kind, pairing):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.float16 if kind == "float16" else ml_dtypes.bfloat16
    rope = Rope(head_dim=64, rope_theta=1e4, pairing=pairing)
    patterns = np.arange(65536, dtype=np.uint16)
    x = patterns.view(dtype).reshape(1, 1024, 1, 64)
    turned = rotate(x, np.zeros(1024, dtype=np.int64), rope).ravel()
    given = x.ravel()
    finite = np.isfinite(given.astype(np.float32))
    partner_finite = finite.reshape(-1, 2, 32)[:, ::-1].ravel() if pairing == "half" else finite ^ False
    if pairing == "interleaved":
        partner_finite = finite.reshape(-1, 2)[:, ::-1].ravel()
    kept = finite & partner_finite  # infinity times sin 0 is no number, in its own pair
    assert kept.sum() > 60_000
    zero = given.astype(np.float32) == 0
    assert np.array_equal(turned.view(np.uint16)[kept & ~zero], patterns[kept & ~zero])
    assert np.all(turned.astype(np.float32)[kept & zero] == 0)
    assert np.all(np.isnan(turned.astype(np.float32)[np.isnan(given.astype(np.float32))]))


def test_float16_overflows_to_infinity_and_keeps_subnormal_numbers(variant):
    rope = Rope(head_dim=16, rope_theta=1e4, pairing="half")
    x = np.full((1, 1, 1, 16), 60000, dtype=np.float16)
    x[..., 8:] = -60000
    quarter = rotate(x, np.array([np.pi / 4]), rope)  # pair 0: a·cos - b·sin = 60000·sqrt 2
    assert np.isposinf(quarter[0, 0, 0, 0])
    tiny = np.full((1, 1, 1, 16), 6e-8, dtype=np.float16)
    exact = naive.rotate(tiny.astype(np.float64), [3.0], rope)
    assert np.array_equal(rotate(tiny, [3.0], rope), exact.astype(np.float16))


def test_variants_agree_bit_for_bit_in_pairs_that_do_not_turn():
    rope = ROPES["tail"]
    x = random(1, 9, 2, rope.head_dim)
    for name in VARIANTS:
        kernel.module.use_variant(name)
        assert np.array_equal(rotate(x, range(9), rope)[..., :30], x[..., :30])
    kernel.module.use_variant(VARIANTS[0])


@pytest.mark.parametrize(
    ("name", "runs"), [("half", 1), ("interleaved", 1), ("partial", 1), ("tail", 1), ("blocks", 2), ("M-RoPE", 1)]
)
def test_neighbouring_pairs_become_one_run(name, runs):
    rope = ROPES[name]
    assert kernel.plan_of(rope, rope.pairs()).run_count == runs


def test_any_table_of_pairs_turns_even_a_shuffled_one():
    rng = np.random.default_rng(0)
    order = rng.permutation(20)
    pairs = Pairs(first=order[:8], second=order[8:16], axis=[0] * 8, inv_freq=rng.random(8))
    plan = kernel.module.Plan(20, 1, pairs.first, pairs.second, pairs.axis, pairs.inv_freq)
    x, out = random(1, 5, 2, 20, dtype=np.float64), np.full((1, 5, 2, 20), np.nan)
    ids = np.arange(5) * 7
    entry = (x.ctypes.data, out.ctypes.data, x.shape, (200, 40, 20, 1), (200, 40, 20, 1))
    status = kernel.module.turn(plan, (entry,), (ids.ctypes.data, 1, (5,), (1,)), 1, False, False, 2.0, False, False)
    assert status == kernel.OK
    expected = x.copy()
    angle = ids[None, :, None, None] * pairs.inv_freq
    a, b = x[..., pairs.first], x[..., pairs.second]
    expected[..., pairs.first] = 2 * (a * np.cos(angle) - b * np.sin(angle))
    expected[..., pairs.second] = 2 * (b * np.cos(angle) + a * np.sin(angle))
    assert out == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("columns", [([0, 1], [2, 9]), ([0, 0], [1, 2]), ([-1, 1], [2, 3])])
def test_a_plan_refuses_channels_outside_the_head_or_twice(columns):
    first, second = (np.array(column) for column in columns)
    with pytest.raises(ValueError, match="outside the head, or in two pairs"):
        kernel.module.Plan(4, 1, first, second, np.zeros(2, dtype=np.int64), np.ones(2))


def call(x, out=None, *, shape=None, strides=None, positions=None, dtype=0, tensors=None):
    rope = Rope(head_dim=8, rope_theta=1e4, pairing="half")
    plan = kernel.plan_of(rope, rope.pairs())
    out = x if out is None else out
    strides = strides or (x.size, 16, 8, 1)
    entry = (x.ctypes.data, out.ctypes.data, shape or x.shape, strides, strides)
    return kernel.module.turn(plan, tensors or (entry,), positions, dtype, False, False, 1.0, False, False)


def test_what_does_not_fit_is_answered_by_a_number_and_nothing_is_written():
    x = random(1, 3, 2, 8)
    before = x.copy()
    ids = np.arange(3)
    far = np.array([0, 2**60, 1])
    assert call(x, shape=(1, 3, 2, 9)) == kernel.MISFIT  # another width
    assert call(x, strides=(48, 16, 8, 2)) == kernel.MISFIT  # the last stride is not 1
    assert call(x, shape=(3, 8), strides=(8, 1)) == kernel.MISFIT
    assert call(x, positions=(ids.ctypes.data, 1, (4,), (1,))) == kernel.MISFIT
    assert call(x, positions=(ids.ctypes.data, 1, (2, 3), (3, 1))) == kernel.MISFIT  # two rows for one
    assert call(x, positions=(ids.ctypes.data, 9, (3,), (1,))) == kernel.MISFIT  # no such type
    assert call(x, dtype=7) == kernel.MISFIT
    assert call(x, tensors=((1, 2, 3),)) == kernel.MISFIT
    assert call(x, positions=(far.ctypes.data, 1, (3,), (1,))) == kernel.BAD_POSITION
    assert np.array_equal(x, before)
    assert call(x, positions=(ids.ctypes.data, 1, (3,), (1,))) == kernel.OK
    assert not np.array_equal(x, before)


def test_integers_turn_alike_whatever_their_type_and_whenever_they_are_asked():
    rope = Rope(head_dim=32, rope_theta=12_345.0, pairing="half")
    x = random(1, 700, 2, 32)
    ids = np.arange(700) * 1499 - 500_000
    first = rotate(x, ids, rope)
    for kind in (np.int64, np.int32, np.float64, np.float32):
        assert np.array_equal(rotate(x, ids.astype(kind), rope), first)
    assert np.array_equal(rotate(x[:, 17:18], ids[17:18], rope), first[:, 17:18])


def test_dynamic_ntk_builds_no_tables():
    rope = Rope(head_dim=32, rope_theta=1e4, pairing="half", scaling=Dynamic(factor=2.0), max_position_embeddings=64)
    before = split_tables.cache_info().misses
    for length in range(100, 130):
        x = random(1, 1, 2, 32)
        expected = naive.rotate(x.astype(np.float64), [length - 1], rope, length=length)
        assert np.abs(rotate(x, [length - 1], rope, length=length) - expected).max() < 1e-6
    assert split_tables.cache_info().misses == before


def test_tables_of_another_shape_are_refused():
    rope = Rope(head_dim=32, rope_theta=1e4, pairing="half")
    other = split_tables(Rope(head_dim=16, rope_theta=1e4, pairing="half").pairs())
    with pytest.raises(ValueError, match="1024 rows"):
        kernel.plan_of(rope, rope.pairs()).set_tables(*other.fine, *other.coarse)


def test_threads_of_python_turn_at_the_same_time_and_alike():
    rope = Rope(head_dim=64, rope_theta=777.0, pairing="half")
    x = random(1, 600, 4, 64)
    expected = naive.rotate(x, range(600), rope)
    wrong = []

    def work():
        for _ in range(20):
            if np.abs(rotate(x, range(600), rope) - expected).max() > 1e-6:
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_q_and_k_of_unlike_heads_turn_in_one_call():
    rope = ROPES["half"]
    q, k = random(2, 33, 32, 128), random(2, 33, 4, 128, seed=8)
    ids = ids_for(rope, 2, 33)
    both = rotate_qk(q, k, ids, rope)
    assert np.array_equal(both[0], rotate(q, ids, rope))
    assert np.array_equal(both[1], rotate(k, ids, rope))


def python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_can_be_switched_off():
    code = "from ropewalk.turning import kernel; print(kernel.module, '|', kernel.why)"
    assert python(code, ROPEWALK_NO_KERNEL="1").startswith("None | switched off by ROPEWALK_NO_KERNEL=1")


@pytest.mark.parametrize("first", ["torch", "ropewalk.turning.kernel"])
def test_one_openmp_runtime_serves_both_whichever_is_loaded_first(first):
    pytest.importorskip("torch")
    if sys.platform != "linux":
        pytest.skip("reads /proc/self/maps")
    code = (
        f"import {first}, torch, ropewalk.turning.kernel as kernel\n"
        "maps = {line.split()[-1] for line in open('/proc/self/maps') if 'gomp' in line or 'omp5' in line}\n"
        "print(len(maps), kernel.module is not None)"
    )
    assert python(code) == "1 True"


def test_turning_numpy_arrays_imports_no_torch():
    code = (
        "import sys, numpy as np, ropewalk\n"
        "rope = ropewalk.Rope(head_dim=8, rope_theta=1e4, pairing='half')\n"
        "ropewalk.rotate(np.ones((3, 2, 8), dtype=np.float32), [0, 1, 2], rope)\n"
        "print('torch' in sys.modules, 'jax' in sys.modules)"
    )
    assert python(code) == "False False"
