"""ropewalk.jax against the float64 truth: every form, layout, kind of position, and transformation of JAX."""

import math

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from ropewalk import Ladders, Rope, RopewalkError, Sections, Strided  # noqa: E402
from ropewalk.jax import rotate, rotate_qk  # noqa: E402
from ropewalk.scaling import Dynamic, LongRope, Ntk, Proportional, Yarn  # noqa: E402
from ropewalk.turning import jax_ops, naive  # noqa: E402

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


# -- positions


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("theta", [1e4, 1e7])
def test_positions_of_every_size_and_sign(theta, traced):
    ids = [0, 1, -1, 1023, 1024, -4097, 1_048_575, 16_777_215, 16_777_216, -(2**30) + 1, 2**30 - 1]
    x, description = random(1, len(ids), 3, 96), rope(96, theta)
    turn = jax.jit(rotate, static_argnums=2) if traced else rotate
    assert off(turn(x, np.array(ids), description), truth(x, ids, description)) < EXACT
    halves = np.array(ids[:9]) + np.float32(0.5)
    expected = truth(x[:, :9], halves.astype(np.float32), description)
    assert off(turn(x[:, :9], halves.astype(np.float32), description), expected) < EXACT


def test_known_positions_beyond_32_bits_are_exact_in_float64():
    ids = [2**31, -(2**40), 2**53]
    x = random(1, 3, 2, 8)
    assert off(rotate(x, ids, rope()), truth(x, ids, rope())) < EXACT
    times = np.array([1_700_000_000.125, 0.1, 2**52 + 0.5])
    assert off(rotate(x, times, rope()), truth(x, times, rope())) < EXACT


def test_known_positions_may_be_those_of_a_program_being_traced():
    x, ids = random(1, 4, 2, 8), np.array([3, 4, 5, 9])
    for position_ids in (ids, ids.tolist(), jnp.asarray(ids), ids / 7):
        found = jax.jit(lambda x, position_ids=position_ids: rotate(x, position_ids, rope()))(x)
        assert off(found, truth(x, position_ids, rope())) < EXACT


def test_a_list_may_hold_traced_positions():
    x = random(1, 2, 3, 8)
    found = jax.jit(lambda x, m: rotate(x, [m, m + 1], rope()))(x, 41)
    assert off(found, truth(x, [41, 42], rope())) < EXACT


def test_each_row_has_its_own_offset_in_decoding():
    x = np.repeat(random(1, 1, 4, 128), 3, axis=0)
    for step in (1, 3):
        rows = np.repeat(x, step, axis=1)
        ids = np.array([[50], [20], [70_001]]) + np.arange(step)
        found = jax.jit(rotate, static_argnums=2)(rows, ids, rope(128, 1e4))
        assert off(found, truth(rows, ids, rope(128, 1e4))) < EXACT
    assert off(rotate(x, [5], rope(128, 1e4)), truth(x, [5], rope(128, 1e4))) < EXACT
    same = np.asarray(rotate(x, [[5]], rope(128, 1e4)))
    assert (same[0] == same[1]).all()


def test_queries_and_keys_of_unlike_heads_turn_alike():
    q, k = random(2, 5, 6, 48), jnp.asarray(random(2, 5, 2, 48), jnp.bfloat16)
    ids = np.array([[0, 1, 2, 3, 4], [900, 7, 7, -2, 8000]])
    for layout in ("bshd", "bhsd"):
        if layout == "bhsd":
            q, k = q.swapaxes(1, 2), k.swapaxes(1, 2)
        turned_q, turned_k = rotate_qk(q, k, ids, rope(48, 1e4), layout=layout)
        assert (np.asarray(turned_q) == np.asarray(rotate(q, ids, rope(48, 1e4), layout=layout))).all()
        assert off(turned_q, truth(q, ids, rope(48, 1e4), layout)) < EXACT
        assert turned_k.dtype == jnp.bfloat16
        assert (np.asarray(turned_k) == np.asarray(rotate(k, ids, rope(48, 1e4), layout=layout))).all()


AXES = {
    "chunked": (20, Sections(sections=(5, 3, 2))),
    "interleaved": (20, Sections(sections=(4, 3, 3), arrangement="interleaved")),
    "alternating": (20, Sections(sections=(2, 4, 4), arrangement="alternating", names=("t", "h", "w"))),
    "blocks": (22, Ladders(widths=(8, 6, 8), pairing_within="axis", names=("t", "h", "w"))),
    "over the head": (20, Ladders(widths=(8, 4, 8), names=("t", "h", "w"))),
    "dealt": (24, Strided(axes=3, names=("t", "h", "w"))),
}


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("kind", AXES)
def test_unequal_positions_on_three_axes(kind, pairing):
    width, axes = AXES[kind]
    description = rope(width + 4, 1e4, pairing, rotary_dim=width, axes=axes)
    ids = np.random.default_rng(2).integers(-50, 90_000, (3, 2, 5))
    x = random(2, 5, 3, width + 4)
    assert off(rotate(x, ids, description), truth(x, ids, description)) < EXACT
    places = (ids / 7).astype(np.float32)
    expected = truth(x, places, description)
    assert off(rotate(x, places, description), expected) < EXACT
    if pairing == "half":
        assert off(jax.jit(rotate, static_argnums=2)(x, places, description), expected) < EXACT
        packed = jax.jit(lambda x, ids: rotate(x, ids, description, layout="thd"))(x[0], ids[:, :1])
        assert off(packed, truth(x[0], ids[:, :1], description)) < EXACT


def test_text_has_one_position_on_every_section():
    description = rope(20, 1e4, axes=Sections(sections=(5, 3, 2)))
    x, ids = random(2, 3, 2, 20), np.array([[0, 9, 70_001], [4, 5, 6]])
    for position_ids in (ids, ids[0]):
        assert off(rotate(x, position_ids, description), truth(x, position_ids, rope(20, 1e4))) < EXACT


def test_chatglms_two_halves():
    axes = Ladders(widths=(48, 48), pairing_within="axis", names=("position", "block"))
    description = rope(96, 1e4, axes=axes)
    ids = np.array([[[0, 1, 2, 3], [0, 1, 5, 5]], [[0, 0, 1, 2], [0, 0, 0, 1]]])
    x = random(2, 4, 3, 96)
    found = rotate(x, ids, description)
    for part, row in ((slice(0, 48), 0), (slice(48, 96), 1)):
        assert off(found[..., part], truth(x[..., part], ids[row], rope(48, 1e4))) < EXACT
    assert jax_ops._regions(description.pairs()) == ((0, 96, 24, 0),)


# -- lengths


def test_lengths_known_or_one_a_row():
    growing = rope(16, 5e4, scaling=Dynamic(factor=3.0), max_position_embeddings=3072)
    switching = rope(16, 1e4, scaling=LONGROPE, max_position_embeddings=256)
    x, ids = random(3, 4, 2, 16), np.array([1, 50, 3000, 6999])
    for description, lengths in ((growing, [10, 7000, 3072]), (switching, [64, 65, 9])):
        for length in (lengths[0], lengths[1], lengths, np.array(lengths), jnp.array(lengths)):
            plain = np.asarray(length).tolist()
            for position_ids, inverse in ((ids, True), (ids + np.array([[0], [5], [11]]), False), (ids / 3, True)):
                found = rotate(x, position_ids, description, length=length, inverse=inverse)
                assert off(found, truth(x, position_ids, description, length=plain, inverse=inverse)) < EXACT


@pytest.mark.parametrize("inverse", [False, True])
def test_longrope_takes_a_traced_length(inverse):
    description = rope(16, 1e4, scaling=LONGROPE, max_position_embeddings=256)
    x, ids = random(3, 4, 2, 16), np.array([1, 50, 60, 63])
    traces = []

    @jax.jit
    def turn(x, ids, length):
        traces.append(1)
        return rotate(x, ids, description, length=length, inverse=inverse)

    for length in (1, 64, 65, 4096):
        assert off(turn(x, ids, length), truth(x, ids, description, length=length, inverse=inverse)) < EXACT
    assert len(traces) == 1
    for lengths in ([64, 65, 7], [65, 3, 1000]):
        expected = truth(x, ids, description, length=lengths, inverse=inverse)
        assert off(turn(x, ids, np.array(lengths)), expected) < EXACT
        known = jax.jit(lambda x, length: rotate(x, ids / 2, description, length=length, inverse=inverse))
        expected = truth(x, ids / 2, description, length=lengths, inverse=inverse)
        assert off(known(x, np.array(lengths)), expected) < EXACT


def test_a_switch_beyond_32_bits_is_never_reached_by_a_traced_length():
    late = LongRope(short_factor=[1.0] * 4, long_factor=[9.0] * 4, original_max_position_embeddings=2**40, factor=2.0)
    description = rope(8, 1e4, scaling=late)
    x = random(1, 2, 3, 8)
    found = jax.jit(lambda length: rotate(x, [5, 7], description, length=length))(2**31 - 1)
    assert off(found, truth(x, [5, 7], description, length=5)) < EXACT


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


# -- transformations


MAPS = [
    rope(10, 500, rotary_dim=6, rotary_start=4),
    rope(8, 500, "interleaved", scaling=Yarn(factor=12, original_max_position_embeddings=4096)),
    rope(12, 500, axes=Ladders(widths=(6, 6), pairing_within="axis")),
    rope(8, 500, "hybrid_tile"),
]


@pytest.mark.parametrize("description", MAPS, ids=lambda one: f"{one.pairing}-{one.head_dim}")
@pytest.mark.parametrize("inverse", [False, True])
def test_jvp_is_the_map_and_vjp_its_transpose(description, inverse):
    ids = np.array([1, 5, 77])
    position_ids = np.stack([ids[None], 2 * ids[None] - 1]) if description.axes.num_axes == 2 else ids
    by_hand = matrices(position_ids, description, inverse=inverse)
    by_hand = by_hand.reshape(-1, *by_hand.shape[-2:])
    x, moved, back = (random(1, 3, 2, description.head_dim, seed=seed) for seed in (1, 2, 3))
    scale = np.abs(by_hand).max()

    def turn(x):
        return rotate(x, position_ids, description, inverse=inverse)

    value, tangent = jax.jit(lambda x, moved: jax.jvp(turn, (x,), (moved,)))(x, moved)
    assert off(value, np.einsum("sij,bshj->bshi", by_hand, x)) < EXACT * scale
    assert off(tangent, np.einsum("sij,bshj->bshi", by_hand, moved)) < EXACT * scale
    (gradient,) = jax.jit(lambda x, back: jax.vjp(turn, x)[1](back))(x, back)
    assert off(gradient, np.einsum("sji,bshj->bshi", by_hand, back)) < EXACT * scale


def test_gradients_keep_the_dtype_and_round_once():
    x = jnp.asarray(random(1, 3, 2, 16), jnp.bfloat16)
    back = jnp.asarray(random(1, 3, 2, 16, seed=6), jnp.bfloat16)
    ids = jnp.array([9, 8000, -3])
    (gradient,) = jax.vjp(lambda x: rotate(x, ids, rope(16, 1e4)), x)[1](back)
    assert gradient.dtype == jnp.bfloat16
    assert (np.asarray(gradient) == np.asarray(rotate(back, ids, rope(16, 1e4), inverse=True))).all()


@pytest.mark.parametrize("description", [rope(12, 50), rope(12, 50, "hybrid_tile", direction=-1)])
def test_gradient_with_respect_to_float_positions(description):
    x, back = random(2, 4, 3, 12), random(2, 4, 3, 12, seed=7)
    ids = np.array([[0.25, 3.0, -17.5, 70_001.125], [2.0, 1e-3, 4096.5, -1.0]], np.float32)

    def loss(ids):
        return (rotate(x, ids, description) * back).sum()

    def loss64(ids):
        return (truth(x, ids, description) * back).sum(axis=(-1, -2))

    h = 1e-4
    slope = (loss64(ids.astype(np.float64) + h) - loss64(ids.astype(np.float64) - h)) / (2 * h)
    assert off(jax.jit(jax.grad(loss))(ids), slope) < 1e-5
    h = 3e-3  # of the second difference: larger, since the truth's own rounding is divided by its square
    curvature = (loss64(ids.astype(np.float64) + h) - 2 * loss64(ids) + loss64(ids.astype(np.float64) - h)) / h**2
    ones = jnp.ones_like(ids)
    along = jax.jit(lambda ids: jax.jvp(jax.grad(loss), (ids,), (ones,))[1])(ids)
    assert off(along, curvature) < 2e-5 * np.abs(curvature).max()
    if description.pairing == "half":
        with enable_x64(True):
            assert off(jax.jit(jax.grad(loss))(ids.astype(np.float64)), slope) < 1e-6


def test_integer_positions_need_no_gradient():
    x, ids = random(1, 3, 2, 8), jnp.array([1, 2, 3])
    value, tangent = jax.jvp(lambda x: rotate(x, ids, rope()), (x,), (x,))
    assert (np.asarray(value) == np.asarray(tangent)).all()
    gradient = jax.grad(lambda x, ids: rotate(x, ids, rope()).sum(), argnums=(0, 1), allow_int=True)(x, ids)
    assert off(gradient[0], np.einsum("sji,bshj->bshi", matrices([1, 2, 3], rope()), np.ones_like(x))) < EXACT


def test_vmap_over_batch_heads_and_positions():
    x, ids = random(3, 4, 5, 10), np.array([[0, 1, 2, 3], [9, 8, 7, 70_001], [-1, -2, -3, -4]])
    description = rope(10, 1e4)
    expected = truth(x, ids, description)
    rows = jax.vmap(lambda x, ids: rotate(x, ids, description))
    assert off(rows(x, ids), expected) < EXACT
    assert off(jax.jit(rows)(x, ids), expected) < EXACT
    heads = jax.vmap(lambda x: rotate(x[..., None, :], ids, description)[..., 0, :], in_axes=2, out_axes=2)
    assert off(heads(x), expected) < EXACT
    shifts = jax.vmap(lambda shift: rotate(x, ids + shift, description))(jnp.array([0, 5, -1000]))
    assert off(shifts[2], truth(x, ids - 1000, description)) < EXACT
    slopes = jax.jit(jax.vmap(jax.grad(lambda shift: rotate(x, ids + shift, description)[0, 1, 2, 3])))
    one = [jax.jit(jax.grad(lambda m: rotate(x[:1, 1:2], m[None], description)[0, 0, 2, 3]))(m) for m in (1.0, 1.5)]
    assert np.asarray(slopes(jnp.array([0.0, 0.5]))) == pytest.approx(np.array(one), abs=EXACT)
    tokens = jax.vmap(lambda x, m: rotate(x[:, None], m[:, None], description)[:, 0], in_axes=1, out_axes=1)
    assert off(tokens(x, ids), expected) < EXACT


def test_vmap_over_traced_lengths():
    description = rope(16, 1e4, scaling=LONGROPE, max_position_embeddings=256)
    x, ids = random(2, 4, 3, 16), np.array([1, 50, 60, 63])
    found = jax.vmap(lambda x, length: rotate(x, ids, description, length=length))(x, jnp.array([64, 65]))
    assert off(found, truth(x, ids, description, length=[64, 65])) < EXACT


def test_one_trace_serves_every_position_and_every_equal_rope():
    traces = []

    def turn(x, ids, description):
        traces.append(description)
        return rotate(x, ids, description)

    compiled = jax.jit(turn, static_argnums=2)
    x = random(1, 3, 2, 8)
    for start in (0, 7, 2**30):
        ids = np.arange(start, start + 3)
        assert off(compiled(x, ids, rope()), truth(x, ids, rope())) < EXACT
    assert len(traces) == 1
    compiled(x, ids, rope(rope_theta=501))
    assert len(traces) == 2


def test_a_scan_over_decoding_steps_with_a_donated_cache():
    description, steps = rope(16, 1e4, "interleaved"), 6
    keys = random(steps, 2, 1, 3, 16)

    def decode(cache, keys):
        def step(cache, at):
            place, key = at
            turned = rotate(key, place[None], description)
            return jax.lax.dynamic_update_slice_in_dim(cache, turned, place, axis=1), None

        return jax.lax.scan(step, cache, (jnp.arange(steps), keys))[0]

    cache = jax.jit(decode, donate_argnums=0)(jnp.zeros((2, steps, 3, 16)), keys)
    assert off(cache, truth(keys[:, :, 0].swapaxes(0, 1), np.arange(steps), description)) < EXACT


def test_a_program_may_leave_batch_and_sequence_open():
    export = pytest.importorskip("jax.export")
    batch, seq = export.symbolic_shape("batch, seq")
    description = rope(12, 1e4, rotary_dim=8)
    shapes = (
        jax.ShapeDtypeStruct((batch, seq, 3, 12), jnp.float32),
        jax.ShapeDtypeStruct((batch, seq), jnp.int32),
    )
    program = export.export(jax.jit(lambda x, ids: rotate(x, ids, description)))(*shapes)
    x, ids = random(2, 3, 3, 12), np.array([[1, 2, 70_001], [-4, 5, 6]], np.int32)
    assert off(program.call(x, ids), truth(x, ids, description)) < EXACT


def test_no_tracer_leaks_and_no_promotion_is_left_to_chance():
    x, ids = random(2, 3, 4, 12), np.array([1, 2, 3])
    axes = Ladders(widths=(6, 6), pairing_within="axis")
    cases = [
        (rope(12, 1e4), ids, {}),
        (rope(12, 1e4), ids.astype(np.float32), {}),
        (rope(12, 1e4, "hybrid_tile"), ids, {"inverse": True}),
        (rope(12, 1e4, axes=axes), np.stack([ids[None], ids[None]]), {}),
    ]
    x = jnp.asarray(x, jnp.bfloat16)
    with jax.checking_leaks(), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        for description, position_ids, rest in cases:
            traced = jax.jit(rotate, static_argnums=2, static_argnames="inverse").lower(
                x, position_ids, description, **rest
            )
            assert traced.out_info.dtype == jnp.bfloat16
        assert rotate(x, ids / 2, rope(12, 1e4)).dtype == jnp.bfloat16


def test_compiled_programs_hold_no_tables():
    ids = np.arange(4096)
    program = jax.jit(lambda x: rotate(x, ids, rope(128, 1e4)))
    text = program.lower(jax.ShapeDtypeStruct((1, 4096, 2, 128), jnp.bfloat16)).as_text()
    assert len(text) < 100_000  # positions and speeds alone; a table would be 64 numbers a token


# -- laws


def test_turning_adds_up_and_undoes_itself():
    description = rope(48, 1e4, rotary_dim=36, scaling=Yarn(factor=12, original_max_position_embeddings=4096))
    plain = description.replace(scaling=rope().scaling)
    x = random(1, 3, 2, 48)
    once = rotate(rotate(x, [5, 900, 70_000], plain), [-3, 100, 1], plain)
    assert off(once, truth(x, [2, 1000, 70_001], plain)) < 2 * EXACT
    back = rotate(rotate(x, [5, 900, 70_000], description), [5, 900, 70_000], description, inverse=True)
    assert off(back, x.astype(np.float64)) < 2 * EXACT


# -- bad input


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
