"""ropewalk.jax under the transformations of JAX: gradients, vmap, jit, scan."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from ropewalk import Ladders  # noqa: E402
from ropewalk.jax import rotate  # noqa: E402
from ropewalk.scaling import Yarn  # noqa: E402

from ._jax import EXACT, LONGROPE, enable_x64, matrices, off, random, rope, truth  # noqa: E402

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
