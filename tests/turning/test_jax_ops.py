"""ropewalk.jax against the float64 truth: every form, layout and dtype, and the laws of turning."""

import math

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from ropewalk import Ladders, RopewalkError  # noqa: E402
from ropewalk.jax import rotate  # noqa: E402
from ropewalk.scaling import Ntk, Proportional, Yarn  # noqa: E402
from ropewalk.turning import jax_ops  # noqa: E402

from ._jax import EXACT, enable_x64, off, random, rope, truth  # noqa: E402

# -- forms, layouts, dtypes


WIDTHS = [(6, 2), (6, 6), (48, 6), (48, 32), (48, 48), (96, 2), (96, 48), (96, 64), (128, 32), (128, 64), (128, 128)]


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize(("width", "turned"), WIDTHS)
def test_every_width_and_layout_equals_the_truth(width, turned, pairing):
    heads, seq = (5, 1) if turned in (6, 48) else (3, 7)
    start = (width - turned) // 2 if turned == 32 else width - turned if turned == 48 else 0  # middle, tail, lead
    description = rope(width, 3e5, pairing, rotary_dim=turned, rotary_start=start)
    ids = np.random.default_rng(width).integers(-(2**30), 2**30, (2, seq))
    for layout, shape in (("bshd", (2, seq, heads, width)), ("bhsd", (2, heads, seq, width))):
        x = random(*shape)
        found = np.asarray(rotate(x, ids, description, layout=layout))
        assert off(found, truth(x, ids, description, layout)) < EXACT
        still = np.r_[0:start, start + turned : width]
        assert (found[..., still] == x[..., still]).all()  # to the last bit
    if turned in (6, 48):
        packed = random(seq, heads, width)
        found = rotate(packed, ids[0], description, layout="thd")
        assert off(found, truth(packed, ids[0], description)) < EXACT


@pytest.mark.parametrize("backend", ["cpu", "other"])
@pytest.mark.parametrize(
    "description",
    [
        rope(12, 1e4),
        rope(12, 1e4, "interleaved", direction=-1),
        rope(11, 1e4, odd="pass", scaling=Ntk(factor=5.0)),
        rope(48, 1e4, rotary_dim=20, rotary_start=8, scaling=Yarn(factor=12, original_max_position_embeddings=4096)),
        rope(40, 2e5, scaling=Proportional(partial_rotary_factor=0.3, factor=4)),
        rope(24, 1e4, "hybrid_tile"),
    ],
    ids=lambda description: f"{description.scaling.rope_type}-{description.pairing}-{description.head_dim}",
)
def test_the_form_for_the_cpu_and_the_one_for_other_devices(description, backend, monkeypatch):
    monkeypatch.setattr(jax_ops.jax, "default_backend", lambda: backend)
    x, ids = random(2, 5, 3, description.head_dim), np.array([[0, 1, -7, 4096, 70_001], [9, 8, 7, 6, 5]])
    assert off(rotate(x, ids, description), truth(x, ids, description)) < EXACT
    back = rotate(x, ids, description, inverse=True)
    expected = truth(x, ids, description, inverse=True)
    assert off(back, expected) < EXACT * max(1, np.abs(expected).max() / 5)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_bfloat16_is_within_one_last_place_of_float64(pairing):
    description, ids = rope(128, 5e5, pairing), np.array([8000, 262_144, 1_000_003, -5])
    x = jnp.asarray(random(2, 4, 6, 128), jnp.bfloat16)
    found = rotate(x, ids, description)
    assert found.dtype == jnp.bfloat16
    expected = truth(x, ids, description)
    last_place = 2.0 ** (np.floor(np.log2(np.abs(expected))) - 7)
    assert (np.abs(np.asarray(found).astype(np.float64) - expected) <= 0.5 * last_place + EXACT).all()


def test_float16_keeps_its_dtype_and_tells_neighbouring_positions_apart():
    x = random(1, 2, 3, 128, dtype=np.float16)
    x[:, 1] = x[:, 0]
    ids = [262_144, 262_145]
    found = rotate(x, ids, rope(128, 5e5))
    assert found.dtype == jnp.float16
    assert off(found, truth(x, ids, rope(128, 5e5))) < 2e-3  # half a unit in the last place at 4
    assert (np.asarray(found)[:, 0] != np.asarray(found)[:, 1]).any()


def test_float64_under_x64():
    ids = np.array([0, -3, 16_777_215, 2**40])
    x = random(2, 4, 3, 12, dtype=np.float64)
    with enable_x64(True):
        for description in (rope(12, 1e4), rope(12, 1e4, "hybrid_tile")):
            for position_ids in (ids, jnp.asarray(ids), ids / 3):
                found = rotate(x, position_ids, description)
                assert found.dtype == np.float64
                assert off(found, truth(x, position_ids, description)) < 1e-14
                traced = jax.jit(rotate, static_argnums=2)(x, position_ids, description)
                assert off(traced, truth(x, position_ids, description)) < 1e-14
        single = rotate(x.astype(np.float32), ids, rope(12, 1e4))
        assert single.dtype == np.float32
        assert off(single, truth(x.astype(np.float32), ids, rope(12, 1e4))) < EXACT


def test_numpy_and_lists_are_converted():
    assert rotate(random(3, 2, 8, dtype=np.float64), [0, 1, 2], rope()).dtype == jnp.float32
    found = rotate([[[1.0, 0.0, 0.0, 0.0]]], [2], rope(4))
    assert isinstance(found, jax.Array)
    assert found[0, 0, 0] == pytest.approx(-0.4161468365, abs=1e-7)


def test_nan_and_infinity_stay_in_their_own_pair():
    for pairing, pairs in (("half", ((1, 5), (2, 6))), ("interleaved", ((2, 3), (4, 5)))):
        x = random(1, 3, 2, 10)
        x[0, 1, 1, pairs[0][0]], x[0, 2, 0, pairs[1][1]] = np.nan, np.inf
        found = np.asarray(rotate(x, [5, 6, 7], rope(10, 500, pairing, rotary_dim=8)))
        bad = {tuple(place) for place in np.argwhere(~np.isfinite(found)).tolist()}
        assert bad == {(0, 1, 1, c) for c in pairs[0]} | {(0, 2, 0, c) for c in pairs[1]}


def test_the_input_is_not_changed_and_empty_ones_pass():
    x = random(2, 3, 2, 8)
    before = x.copy()
    array = jnp.asarray(x)
    rotate(array, [1, 2, 3], rope())
    assert (np.asarray(array) == before).all()
    for shape, ids in (((2, 0, 3, 8), np.zeros(0, int)), ((0, 4, 3, 8), [0, 1, 2, 3]), ((2, 4, 0, 8), [0, 1, 2, 3])):
        assert rotate(jnp.zeros(shape), ids, rope()).shape == shape


# -- the map that is no rotation


def test_hybrid_tile_and_its_inverse_known_and_traced():
    axes = Ladders(widths=(8, 8), pairing_within="axis")
    description = rope(20, 1e4, "hybrid_tile", rotary_dim=16, axes=axes)
    x, ids = random(2, 3, 4, 20), np.array([[[1, 2, 3]] * 2, [[3, 1, 4]] * 2])
    for turn in (rotate, jax.jit(rotate, static_argnums=2, static_argnames="inverse")):
        assert off(turn(x, ids, description), truth(x, ids, description)) < EXACT
        expected = truth(x, ids, description, inverse=True)
        assert off(turn(x, ids, description, inverse=True), expected) < EXACT * np.abs(expected).max()


def test_a_map_without_an_inverse_is_an_error_or_nan():
    tile = rope(4, 100, "hybrid_tile")
    quarter = math.pi / 2 / (1 - 0.1)  # the angles m and 0.1·m are a quarter turn apart
    x = random(1, 1, 1, 4)
    with pytest.raises(RopewalkError, match="no inverse at these positions"):
        rotate(x, [quarter], tile, inverse=True)
    traced = jax.jit(lambda x, m: rotate(x, m, tile, inverse=True))(x, np.array([quarter], np.float32))
    assert np.isnan(traced).all()


# -- laws


def test_turning_adds_up_and_undoes_itself():
    description = rope(48, 1e4, rotary_dim=36, scaling=Yarn(factor=12, original_max_position_embeddings=4096))
    plain = description.replace(scaling=rope().scaling)
    x = random(1, 3, 2, 48)
    once = rotate(rotate(x, [5, 900, 70_000], plain), [-3, 100, 1], plain)
    assert off(once, truth(x, [2, 1000, 70_001], plain)) < 2 * EXACT
    back = rotate(rotate(x, [5, 900, 70_000], description), [5, 900, 70_000], description, inverse=True)
    assert off(back, x.astype(np.float64)) < 2 * EXACT
