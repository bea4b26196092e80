"""ropewalk.jax at every kind of position and length, known or traced."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from ropewalk import Ladders, Sections, Strided  # noqa: E402
from ropewalk.jax import rotate, rotate_qk  # noqa: E402
from ropewalk.scaling import Dynamic, LongRope  # noqa: E402
from ropewalk.turning import jax_ops  # noqa: E402

from ._jax import EXACT, LONGROPE, off, random, rope, truth  # noqa: E402

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
