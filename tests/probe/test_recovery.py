"""Recovery: the pairs, frequencies and conventions of functions that the tests write themselves."""

import numpy as np
import pytest

from ropewalk import Ladders, Rope, Sections
from ropewalk.probe._phases import grow, offset_of, unwrap, wrapped
from ropewalk.probe._structure import structure_of
from ropewalk.probe.box import Box, BoxFailure
from ropewalk.probe.recovery import recover, turned_by
from ropewalk.scaling import Dynamic, Proportional, Yarn
from ropewalk.turning.naive import rotate

D = 16
W = 5e5 ** (-np.arange(8) / 8.0)  # θ^(-2i/16)


def rope(**changes):
    return Rope(**{"head_dim": D, "rope_theta": 5e5, "pairing": "half", **changes})


def of(one, **options):
    """A function that turns as a rope says."""
    return lambda x, ids: rotate(x, ids, one, **options).astype(x.dtype)


def angles(ids, w=W):
    return (np.asarray(ids)[..., None] * w)[..., None, :]


def halves(x, cos, sin, cos_b=None, sin_b=None):
    """The half-split map, each half by its own cos and sin."""
    a, b = x[..., :8], x[..., 8:]
    cos_b, sin_b = (cos if cos_b is None else cos_b), (sin if sin_b is None else sin_b)
    return np.concatenate([a * cos - b * sin, b * cos_b + a * sin_b], -1).astype(x.dtype)


def half(x, ids):
    return halves(x, np.cos(angles(ids)), np.sin(angles(ids)))


def seen(fn, head_dim=D, heads=3, **options):
    return recover(Box(fn, head_dim=head_dim, heads=heads, **options))


@pytest.mark.parametrize(
    "one",
    [
        rope(),
        rope(pairing="interleaved"),
        rope(pairing="hybrid_tile"),
        rope(direction=-1),
        rope(rotary_dim=6),
        rope(rotary_dim=6, rotary_start=10, pairing="interleaved"),
        rope(rotary_dim=9, odd="pass"),
        rope(scaling=Yarn(factor=12.0, original_max_position_embeddings=6144)),
        Rope(head_dim=96, rope_theta=3e5, pairing="half", rotary_dim=72),
        Rope(head_dim=128, rope_theta=1e7, pairing="interleaved"),
        Rope(head_dim=6, rope_theta=100.0, pairing="half"),
        Rope(head_dim=2, rope_theta=100.0, pairing="half"),
    ],
    ids=str,
)
def test_pairs_and_frequencies_are_found_to_the_resolution_of_float32(one):
    found, right = seen(of(one), one.head_dim), one.pairs()
    assert found.kind == "rotation"
    assert (found.pairs.first.tolist(), found.pairs.second.tolist()) == (right.first.tolist(), right.second.tolist())
    off = np.abs(found.pairs.inv_freq - right.inv_freq)
    assert (off <= found.inv_freq_error).all()
    assert (off <= np.maximum(1e-6 * np.abs(right.inv_freq), 2.0**-22 / 1_048_576)).all()
    assert found.pairs.cos_sin_factor == pytest.approx(right.cos_sin_factor, rel=1e-6)
    assert found.pairs.is_rotation is right.is_rotation
    assert found.residual < 1e-6 and found.identity_at_zero and found.offset == 0 and found.output_order is None


def test_float64_functions_are_found_to_a_billionth():
    one = Rope(head_dim=128, rope_theta=1e6, pairing="half")
    found = seen(of(one), 128, dtype="float64")
    np.testing.assert_allclose(found.pairs.inv_freq, one.pairs().inv_freq, rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_functions_are_found_coarsely(dtype):
    pytest.importorskip("ml_dtypes")
    found = seen(of(rope()), dtype=dtype)
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-4)
    assert found.noise >= {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]


def test_pairs_of_any_permutation_are_found():
    order = np.random.default_rng(8).permutation(D)

    def fn(x, ids):
        out = np.empty_like(x)
        out[..., order] = half(x[..., order], ids)
        return out

    found = seen(fn)
    want = {frozenset(pair) for pair in zip(order[:8].tolist(), order[8:].tolist(), strict=True)}
    pairs = found.pairs
    assert {frozenset(pair) for pair in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)} == want
    assert (found.pairs.first < found.pairs.second).all()
    signs = {int(a): np.sign(w) for a, w in zip(found.pairs.first, found.pairs.inv_freq, strict=True)}
    assert all(signs[min(a, b)] == (1 if a < b else -1) for a, b in zip(order[:8], order[8:], strict=True))


def test_still_channels_are_no_pairs():
    one = rope(scaling=Proportional(partial_rotary_factor=0.5))
    found = seen(of(one))
    assert found.pairs.first.tolist() == [0, 1, 2, 3]
    assert found.still == (4, 5, 6, 7, 12, 13, 14, 15)
    assert found.still_factor == 1.0


def test_channels_that_are_scaled_and_do_not_turn_are_noticed():
    one = rope(rotary_dim=8)
    assert seen(lambda x, ids: 1.25 * of(one)(x, ids)).still_factor == 1.25


def test_a_slow_pair_is_not_taken_for_a_still_one():
    one = Rope(head_dim=8, rope_theta=1e9, pairing="half")
    found = seen(of(one), 8)
    assert len(found.pairs) == 4
    np.testing.assert_allclose(found.pairs.inv_freq, one.pairs().inv_freq, rtol=1e-4)


def test_output_in_another_order_is_told_from_another_pairing():
    one = rope(pairing="interleaved")

    def fn(x, ids):
        out = of(one)(x, ids)
        return np.concatenate([out[..., ::2], out[..., 1::2]], -1)

    found = seen(fn)
    assert found.output_order == (0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)
    assert found.pairs.second.tolist() == list(range(1, 16, 2))
    assert found.residual < 1e-6


@pytest.mark.parametrize("constant", [1, -7, 17, 0.5])
def test_a_constant_offset_is_found(constant):
    found = seen(lambda x, ids: half(x, np.asarray(ids) + constant))
    assert found.offset == pytest.approx(constant, abs=1e-4)
    assert not found.identity_at_zero
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-6)


def test_two_angles_in_a_pair_are_found():
    doubled = np.repeat(W, 2)

    def fn(x, ids):
        a, b = angles(ids, doubled[:8]), angles(ids, doubled[8:])
        return halves(x, np.cos(a), np.sin(a), np.cos(b), np.sin(b))

    pairs = seen(fn).pairs
    assert not pairs.is_rotation
    np.testing.assert_allclose(pairs.inv_freq, doubled[:8], rtol=1e-6)
    np.testing.assert_allclose(pairs.second_inv_freq, doubled[8:], rtol=1e-6)


def test_exchanged_cos_and_sin_are_a_quarter_turn_backwards():
    found = seen(lambda x, ids: halves(x, np.sin(angles(ids)), np.cos(angles(ids))))
    assert found.quarter and not found.identity_at_zero
    np.testing.assert_allclose(found.pairs.inv_freq, -W, rtol=1e-6)


def test_tables_taken_as_angles_are_recognised_and_still_give_the_frequencies():
    found = seen(lambda x, ids: halves(x, np.cos(np.cos(angles(ids))), np.sin(np.sin(angles(ids)))))
    assert (found.kind, found.tables_as_angles) == ("linear", True)
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-6)


def test_a_reflection_is_no_rotation():
    def fn(x, ids):
        a, b, cos, sin = x[..., :8], x[..., 8:], np.cos(angles(ids)), np.sin(angles(ids))
        return np.concatenate([a * cos + b * sin, a * sin - b * cos], -1).astype(x.dtype)

    assert seen(fn).kind == "reflection"


def test_a_stretching_map_is_linear_without_being_a_rotation():
    found = seen(lambda x, ids: half(x, ids) * (1 + 0.1 * np.sin(angles(ids, np.ones(1)))).astype(x.dtype))
    assert found.kind == "linear"
    assert "lengths are not kept" in found.notes[0]


def test_channels_that_mix_freely_have_no_pairs():
    matrix = np.linalg.qr(np.random.default_rng(1).standard_normal((D, D)))[0]
    found = seen(lambda x, ids: (x @ matrix).astype(x.dtype))
    assert (found.kind, found.pairs) == ("linear", None)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda x, ids: half(x / np.linalg.norm(x + 1e-9, axis=-1, keepdims=True), ids), "normalised"),
        (lambda x, ids: half(x, ids) + np.float32(0.5), "added"),
        (lambda x, ids: np.tanh(x), "sum"),
    ],
)
def test_what_is_not_linear_is_said(fn, words):
    found = seen(fn)
    assert found.kind == "nonlinear"
    assert words in found.notes[0]


def test_nothing_turned_is_the_identity_as_far_as_it_was_asked():
    found = seen(lambda x, ids: x.copy())
    assert (found.kind, found.pairs, found.largest) == ("identity", None, 1_048_576)


@pytest.mark.parametrize(
    ("fn", "manner"),
    [
        (lambda x, ids: half(x, np.arange(x.shape[1])), "arange"),
        (lambda x, ids: half(x, np.atleast_2d(ids)[:, :1] + np.arange(x.shape[1])), "arange"),
        (lambda x, ids: half(x, np.broadcast_to(np.atleast_2d(ids)[:, :1], (1, x.shape[1]))), "first"),
        (lambda x, ids: np.swapaxes(half(np.swapaxes(x, 1, 2), np.arange(x.shape[2])), 1, 2), "heads"),
        (half, "ids"),
    ],
)
def test_functions_that_misread_positions_are_asked_around_their_fault(fn, manner):
    found = seen(fn)
    assert found.manner == manner
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-5)


def test_a_function_that_wants_as_many_tokens_as_heads_is_asked_so():
    one = rope()

    def fn(x, ids):  # heads and tokens exchanged: the table of tokens meets the axis of heads
        if x.shape[1] != x.shape[2]:
            raise ValueError("operands could not be broadcast together")
        return np.swapaxes(of(one)(np.swapaxes(x, 1, 2), ids), 1, 2)

    found = seen(fn)
    assert found.manner == "head-ids"
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-5)


def test_heads_that_do_not_turn_are_left_aside():
    def fn(x, ids):
        out = x.copy()
        out[:, :, 1:2] = half(np.ascontiguousarray(x[:, :, 1:2]), ids)
        return out

    found = seen(fn)
    assert (found.turned_heads, found.still_heads, found.heads_alike) == ((1,), (0, 2), False)
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-6)


def test_rows_that_do_not_turn_are_left_aside():
    def fn(x, ids):
        out = x.copy()
        out[:1] = half(x[:1], np.atleast_2d(ids)[:1])
        return out

    found = seen(fn)
    assert not found.rows_alike
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-6)


def test_a_function_of_one_batch_size_is_asked_in_it():
    def fn(x, ids):
        assert x.shape[0] == 2
        return half(x, ids)

    np.testing.assert_allclose(seen(fn).pairs.inv_freq, W, rtol=1e-6)


@pytest.mark.parametrize(
    "axes",
    [
        Sections(sections=(10, 6, 4)),
        Sections(sections=(10, 6, 4), arrangement="interleaved"),
        Ladders(widths=(20, 20), pairing_within="axis", names=("h", "w")),
    ],
    ids=["chunked", "interleaved", "ladders"],
)
def test_the_axis_of_every_pair_is_found(axes):
    one = Rope(head_dim=40, rope_theta=3e5, pairing="half", axes=axes)
    found, right = seen(of(one), 40, axes=axes.num_axes), one.pairs()
    order = np.argsort(right.first)
    assert found.pairs.axis.tolist() == right.axis[order].tolist()
    np.testing.assert_allclose(found.pairs.inv_freq, right.inv_freq[order], rtol=1e-6)


def test_a_pair_of_two_axes_is_noted():
    def fn(x, ids):
        return halves(x, np.cos(angles(ids[0]) + angles(ids[1])), np.sin(angles(ids[0]) + angles(ids[1])))

    assert "more than one axis" in seen(fn, axes=2).notes[0]


def test_the_end_of_a_table_stops_nothing():
    table = np.arange(3000)[:, None] * W

    def fn(x, ids):
        picked = table[ids][..., None, :]
        return halves(x, np.cos(picked), np.sin(picked))

    found = seen(fn)
    assert 1024 <= found.largest < 3000
    assert "IndexError" in found.limit
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-6)


def test_a_clamped_table_is_used_as_far_as_it_grows():
    found = seen(lambda x, ids: half(x, np.minimum(ids, 1000)))
    assert 500 <= found.linear_until <= 1000 < found.largest
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-6)


def test_a_table_that_follows_the_length_is_read_short_and_long():
    one = rope(scaling=Dynamic(factor=3.0), max_position_embeddings=3072)

    def fn(x, ids):
        return rotate(x, ids, one, length=int(np.max(ids)) + 1).astype(x.dtype)

    box = Box(fn, head_dim=D)
    found = recover(box)
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-6)
    short, changed = found.length_change
    assert short <= 3072 < changed
    far = recover(box, beyond=changed - 1)
    np.testing.assert_allclose(far.pairs.inv_freq, one.pairs(changed).inv_freq, rtol=1e-5)


def test_angles_rounded_to_ten_bits_are_followed_as_far_as_they_go():
    def fn(x, ids):
        picked = np.clip(angles(ids), 0, 60_000).astype(np.float16).astype(np.float64)
        return halves(x, np.cos(picked), np.sin(picked))

    found = seen(fn)
    np.testing.assert_allclose(found.pairs.inv_freq, W, rtol=1e-3)
    assert (np.abs(found.pairs.inv_freq - W) <= 4 * found.inv_freq_error).all()


def test_few_calls_are_made():
    box = Box(half, head_dim=D)
    recover(box)
    assert box.calls <= 30


def test_the_own_road_turns_as_the_function_does():
    def fn(x, ids):
        return halves(x, 1.5 * np.cos(angles(ids)), 1.5 * np.sin(angles(ids)))[..., ::-1].copy()

    box = Box(fn, head_dim=D, dtype="float64")
    found = recover(box)
    x = np.random.default_rng(0).standard_normal((1, 4, 2, D))
    ids = np.array([[5, 0, 77, 31]])
    assert found.output_order == tuple(range(15, -1, -1))
    np.testing.assert_allclose(turned_by(found, x, ids[None]), box.turn(x, ids), atol=1e-8)


def test_a_function_that_fails_at_once_is_a_failure():
    def fn(x, ids):
        raise RuntimeError("no table")

    with pytest.raises(BoxFailure, match="no table"):
        seen(fn)


def test_positions_to_grow_by_have_few_bits():
    grown = grow(1_048_576)
    assert grown[:8].tolist() == [0, 1, 2, 3, 4, 6, 8, 12]
    assert grown[-1] == 1_048_576
    assert all(m >> (int(m).bit_length() - 2) << (int(m).bit_length() - 2) == m for m in grown[4:].tolist())


def test_unwrapping_gives_up_where_angles_stop_growing():
    positions = grow(4096)
    phases = wrapped(np.minimum(positions, 200)[:, None] * np.array([0.9, 0.01]))
    ladder = unwrap(positions, phases, 2.0**-24)
    np.testing.assert_allclose(ladder.inv_freq, [0.9, 0.01], rtol=1e-9)
    assert ladder.until.tolist() == [192, 192]


def test_no_offset_is_invented():
    speeds = np.array([1.0, 0.1, 0.01])
    assert offset_of(wrapped(12.0 * speeds), speeds, 2.0**-24) == pytest.approx(12)
    assert offset_of(np.array([0.3, 1.0, -0.2]), speeds, 2.0**-24) is None


def test_a_shared_partner_is_crowded():
    images = np.tile(np.eye(4)[:, None], (1, 3, 1))
    images[0, 1:, 1] = images[0, 1:, 2] = 0.5
    assert 0 in structure_of(images, 2.0**-24).crowded


def test_a_function_whose_tables_grow_too_large_is_not_asked_further(monkeypatch):
    longest = 0

    def growing(x, ids):  # as if it kept cos and sin for every position, 4 kB each
        nonlocal longest
        longest = max(longest, int(ids.max()))
        return half(x, ids)

    monkeypatch.setattr("ropewalk.probe._climbing.peak_memory", lambda: 4096 * longest)
    box = Box(growing, head_dim=D)
    found = recover(box)
    assert longest == box.max_position == 131_072
    assert "131072: large" in found.limit
    assert found.pairs.inv_freq == pytest.approx(W, rel=1e-6)


def test_what_a_library_loads_at_first_is_no_growing_table(monkeypatch):
    calls = 0

    def counted():
        nonlocal calls
        calls += 1
        return calls << 29  # half a GiB more at every look, whatever the position

    monkeypatch.setattr("ropewalk.probe._climbing.peak_memory", counted)
    box = Box(half, head_dim=D)
    assert recover(box).limit == ""
    assert box.max_position == 1_048_576


def test_lengths_lost_far_out_alone_leave_a_rotation_and_lost_near_by_do_not():
    def failing(limit):
        def fn(x, ids):
            angle = angles(ids)
            return halves(x, np.cos(angle), np.sin(np.where(angle > limit, 1.0005 * angle, angle)))

        return fn

    far, near = seen(failing(48_000)), seen(failing(300))
    assert far.kind == "rotation" and far.largest < 60_000
    assert far.pairs.inv_freq == pytest.approx(W, rel=1e-5)
    assert near.kind == "linear"


def test_a_slow_function_with_a_long_table_is_not_asked_beyond_either(monkeypatch):
    longest = 0

    def fn(x, ids):
        nonlocal longest
        longest = max(longest, int(np.max(ids)) + 1)
        return half(x, ids)

    monkeypatch.setattr("ropewalk.probe._climbing.peak_memory", lambda: 4096 * longest)
    monkeypatch.setattr("ropewalk.probe._climbing.time.perf_counter", lambda: 2.0 * (longest > 20_000) * longest)
    box = Box(fn, head_dim=D, heads=3)
    found = recover(box)
    assert "slow" in found.limit and box.max_position == 32_768
