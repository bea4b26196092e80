"""Cached keys moved: faults F309 to F313, F318, F320, F322 and F323, judged by turning anew in float64."""

import math

import numpy as np
import pytest

from ropewalk import Ladders, Rope, RopewalkError, Sections
from ropewalk.positions import rerotate
from ropewalk.scaling import Default, Dynamic, Linear, Llama3, LongRope, Yarn
from ropewalk.turning.dispatch import rotate
from ropewalk.turning.naive import rotate as truth

X8 = [0.5, -1, 2, 1.5, -0.25, 3, -2, 1]


def rope(head_dim=96, rope_theta=5e4, pairing="half", **rest):
    return Rope(head_dim=head_dim, rope_theta=rope_theta, pairing=pairing, **rest)


def vectors(*shape, seed=1, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(found, expected, atol=1e-10):
    """Judge float64: an angle is off by 2^-53 of itself, 1.5e-11 radians at position 131072."""
    return np.allclose(found, expected, rtol=0, atol=atol)


# -- one rope, other positions


def test_f311_shifts_add_up():
    eight = rope(8, 500.0)
    k = truth(np.array(X8)[None, None, None], [500], eight)
    for old, new in ((500, 300), (300, 225)):
        k = rerotate(k, eight, old=[old], new=[new])
    golden = [-0.0488640356, 2.2229925194, -2.7975607958, -1.6418989742, -0.5568772809, -2.2490674198, 0.4167176431,
              0.7444244479]  # fmt: skip
    assert k.ravel().tolist() == pytest.approx(golden, rel=1e-9, abs=6e-11)
    assert k[0, 0, 0, 0] != pytest.approx(-0.5101253802, rel=1e-3)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rotary_dim": 48},
        {"rotary_dim": 32, "rotary_start": 64},
        {"direction": -1},
        {"scaling": Yarn(factor=12.0, original_max_position_embeddings=6144)},
    ],
)
def test_keys_stand_as_if_turned_at_their_new_positions(pairing, changes):
    description = rope(pairing=pairing, **changes)
    x = vectors(3, 5, 2, 96)
    old = np.array([[0, 1, 5, 900, 70000], [7, 8, 9, 10, 11], [-3, 0, 3, 6, 131072]])
    new = old[:, ::-1] - np.array([[0], [5], [-12]])
    found = rerotate(truth(x, old, description), description, old=old, new=new)
    assert close(found, truth(x, new, description))


def test_positions_of_one_row_serve_the_batch():
    x, description = vectors(3, 4, 2, 96), rope()
    new = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [1, 1, 2, 9]])
    found = rerotate(truth(x, range(4), description), description, old=range(4), new=new)
    assert close(found, truth(x, new, description))


def test_f318_keys_that_stay_are_not_turned_again():
    description = rope(scaling=Yarn(factor=12.0, original_max_position_embeddings=6144))
    for dtype in (np.float16, np.float32, np.float64):
        k = vectors(2, 7, 3, 96, dtype=dtype)
        found = rerotate(k, description, old=range(7), new=range(7))
        assert np.array_equal(found, k)  # to the last bit, the factor on cos and sin notwithstanding
        assert found is not k
    shifted = rerotate(k, description, old=range(7), new=[0, 1, 2, 3, 14, 15, 16])
    assert np.array_equal(shifted[:, :4], k[:, :4])
    assert not np.allclose(shifted[:, 4:], k[:, 4:])


def test_f312_channels_that_do_not_turn_stay():
    description = rope(80, rotary_dim=32)
    k = vectors(2, 6, 3, 80, dtype=np.float16)
    found = rerotate(k, description, old=range(5, 11), new=range(6))
    assert np.array_equal(found[..., 32:], k[..., 32:])
    assert not np.allclose(found[..., :32], k[..., :32])


def test_f309_f310_a_sink_cache_holds_old_and_new_keys_in_one_frame():
    description, window, sink = rope(), 10, 3
    x = vectors(1, 14, 2, 96)
    seen = 12  # two tokens more than the window holds: rows 3 and 4 go
    kept = [*range(sink), *range(seen - (window - sink), seen)]
    moved = rerotate(truth(x[:, kept], kept, description), description, old=kept, new=range(window))
    joined = np.concatenate([moved, truth(x[:, 12:], [10, 11], description)], axis=1)
    assert close(joined, truth(x[:, [*kept, 12, 13]], range(window + 2), description))
    stay = np.concatenate([moved, truth(x[:, 12:], [12, 13], description)], axis=1)  # F310: the new ones unshifted
    assert not close(stay, truth(x[:, [*kept, 12, 13]], range(window + 2), description), 1e-3)


def test_two_caches_are_merged_behind_each_other():
    description = rope()
    a, b = vectors(1, 4, 2, 96), vectors(1, 3, 2, 96, seed=2)
    behind = rerotate(truth(b, range(3), description), description, old=range(3), new=range(4, 7))
    merged = np.concatenate([truth(a, range(4), description), behind], axis=1)
    assert close(merged, truth(np.concatenate([a, b], axis=1), range(7), description))


def test_real_positions_move_too():
    description = rope(axes=Ladders(widths=(48, 48)))
    x = vectors(1, 4, 2, 96)
    old, new = np.linspace(-1, 1, 8).reshape(2, 1, 4), np.linspace(0.3, 5, 8).reshape(2, 1, 4)
    assert close(rerotate(truth(x, old, description), description, old=old, new=new), truth(x, new, description))


def test_small_and_unsigned_integers_do_not_wrap():
    description = rope()
    k = truth(vectors(1, 2, 2, 96), [200, 250], description)
    for dtype in (np.uint8, np.uint32, np.uint64, np.int8):
        top = 100 if dtype is np.int8 else 200
        old, new = np.array([top, top]), np.array([0, 1])
        found = rerotate(k, description, old=old.astype(dtype), new=new.astype(dtype))
        assert np.array_equal(found, rerotate(k, description, old=old, new=new))


@pytest.mark.parametrize(
    ("layout", "axes"), [("bshd", (0, 1, 2, 3)), ("bhsd", (0, 2, 1, 3))], ids=["bshd", "bhsd"]
)  # fmt: skip
def test_layouts_give_one_result(layout, axes):
    description = rope()
    x = vectors(2, 3, 3, 96)  # as many heads as tokens: nothing can be guessed
    old, new = [4, 5, 6], [[0, 1, 2], [9, 8, 7]]
    k = truth(x, old, description).transpose(axes)
    found = rerotate(k, description, old=old, new=new, layout=layout)
    assert close(found.transpose(axes), truth(x, new, description))


def test_packed_caches_move():
    description = rope()
    x = vectors(5, 2, 96)
    old, new = [0, 1, 2, 0, 1], [3, 4, 5, 0, 1]
    k = truth(x, old, description)
    assert close(rerotate(k, description, old=old, new=new, layout="thd"), truth(x, new, description))


@pytest.mark.parametrize(("dtype", "ulp"), [(np.float16, 2**-11), (np.float32, 2**-23)])
@pytest.mark.parametrize("scaling", [Default(), Linear(factor=4.0)])
def test_half_precision_is_rounded_once(dtype, ulp, scaling):
    before, after = rope(), rope(scaling=scaling)
    x = truth(vectors(2, 8, 3, 96), range(1000, 1008), before).astype(dtype)
    exact = truth(truth(x, range(1000, 1008), before, inverse=True), range(5, 13), after)
    found = rerotate(x, before, old=range(1000, 1008), new=range(5, 13), new_rope=after)
    assert found.dtype == dtype
    allowed = 0.51 if dtype is np.float16 else 2.0  # ulps: half of one where float32 lies between, two turns of float32
    assert np.max(np.abs(found - exact) / np.maximum(np.abs(exact), 1.0)) <= 2 * allowed * ulp


def test_bfloat16_of_numpy_keeps_its_type():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    description = rope()
    k = vectors(1, 3, 2, 96).astype(bfloat16)
    found = rerotate(k, description, old=[5, 6, 7], new=[0, 1, 2], new_rope=rope(scaling=Linear(factor=2.0)))
    assert found.dtype == bfloat16


def test_the_cache_is_left_as_it_was():
    k, description = vectors(1, 3, 2, 96), rope()
    before = k.copy()
    for new_rope in (None, rope(rope_theta=1e6)):
        rerotate(k, description, old=[5, 6, 7], new=[0, 1, 2], new_rope=new_rope)
        assert np.array_equal(k, before)


# -- another scaling


@pytest.mark.parametrize(
    "scaling",
    [
        Linear(factor=4.0),
        Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192),
        Yarn(factor=12.0, original_max_position_embeddings=6144),
        Yarn(factor=12.0, original_max_position_embeddings=6144, attention_factor=1.7),
    ],
)
def test_a_change_of_scaling_brings_its_magnitude(scaling):
    before = rope(scaling=Yarn(factor=3.0, original_max_position_embeddings=6144))
    after = rope(scaling=scaling)
    x, old, new = vectors(2, 4, 2, 96), [5, 900, 4000, 7000], [[5, 900, 4000, 7000], [0, 1, 2, 3]]
    found = rerotate(truth(x, old, before), before, old=old, new=new, new_rope=after)
    assert close(found, truth(x, new, after))


def test_a_change_of_magnitude_alone_keeps_the_angles():
    before, after = (
        rope(scaling=Yarn(factor=3.0, original_max_position_embeddings=6144, attention_factor=g)) for g in (1.0, 1.25)
    )
    k = vectors(1, 3, 2, 96)
    found = rerotate(k, before, old=[1, 2, 3], new=[1, 2, 3], new_rope=after)
    assert close(found, 1.25 * k)


def test_softmax_factors_are_no_matter_of_the_keys():
    yarn = {"factor": 20.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0}
    before, after = (rope(64, scaling=Yarn(**yarn, scale_softmax=on)) for on in (False, True))
    k = vectors(1, 3, 1, 64)
    assert np.array_equal(rerotate(k, before, old=[1, 2, 3], new=[1, 2, 3], new_rope=after), k)


F218 = rope(scaling=Dynamic(factor=3.0), max_position_embeddings=3072)


def test_f320_dynamic_keys_follow_the_base():
    angles = [1800 * F218.pairs(length).inv_freq for length in (3073, 9216)]
    gap = angles[0] - angles[1]
    assert gap[[10, 24]].tolist() == pytest.approx([64.01365812, 5.065615152], rel=1e-9)
    x = vectors(1, 1, 2, 96)
    cached = truth(x, [1800], F218, length=3073)
    found = rerotate(cached, F218, old=[1800], new=[1800], old_length=3073, new_length=9216)
    assert close(found, truth(x, [1800], F218, length=9216))
    assert not close(cached, truth(x, [1800], F218, length=9216), 1e-2)


def test_f321_a_short_sequence_after_a_long_one_goes_back():
    x = vectors(1, 4, 2, 96)
    found = rerotate(
        truth(x, range(4), F218, length=7000), F218, old=range(4), new=range(4), old_length=7000, new_length=10
    )
    assert close(found, truth(x, range(4), F218, length=10))


def test_f322_a_sequence_that_crosses_the_switch_gets_one_table():
    description = rope(
        80,
        scaling=LongRope(short_factor=(1.0,) * 40, long_factor=(2.5,) * 40, original_max_position_embeddings=3072),
        max_position_embeddings=49152,
    )
    assert description.pairs(3072).cos_sin_factor == pytest.approx(1.159859982, rel=1e-9)
    x, ids = vectors(1, 5, 2, 80), [0, 1, 700, 3000, 3071]
    first_chunk = truth(x, ids, description, length=3072)
    found = rerotate(first_chunk, description, old=ids, new=ids, old_length=3072, new_length=4000)
    assert close(found, truth(x, ids, description, length=4000))
    stays = rerotate(first_chunk, description, old=ids, new=ids, old_length=1000, new_length=3072)
    assert np.array_equal(stays, first_chunk)  # the same side of the switch: the same table


def test_longrope_with_a_magnitude_for_each_side_changes_it():
    description = rope(
        8,
        scaling=LongRope(
            short_factor=(1.0,) * 4,
            long_factor=(1.0,) * 4,
            original_max_position_embeddings=16,
            short_mscale=1.25,
            long_mscale=2.0,
        ),
    )
    x = vectors(1, 3, 1, 8)
    k = truth(x, [1, 2, 3], description, length=4)
    found = rerotate(k, description, old=[1, 2, 3], new=[1, 2, 3], old_length=4, new_length=17)
    assert close(found, truth(x, [1, 2, 3], description, length=17))
    moved = rerotate(k, description, old=[1, 2, 3], new=[5, 6, 7], old_length=4, new_length=8)
    assert close(moved, truth(x, [5, 6, 7], description, length=8))


def test_f323_rows_have_their_own_lengths():
    x = vectors(2, 4, 3, 96)
    found = rerotate(
        truth(x, range(4), F218, length=[10, 4500]),
        F218,
        old=range(4),
        new=[[0, 1, 2, 3], [2, 3, 4, 5]],
        old_length=[10, 4500],
        new_length=[10, 7000],
    )
    assert close(found[:1], truth(x[:1], range(4), F218, length=10))
    assert close(found[1:], truth(x[1:], [2, 3, 4, 5], F218, length=7000))
    short = rerotate(x, F218, old=range(4), new=range(2, 6), old_length=[10, 20], new_length=[11, 3072])
    assert close(short, truth(truth(x, range(4), F218, length=1, inverse=True), range(2, 6), F218, length=1))


# -- several axes


MULTI = rope(40, 3e5, axes=Sections(sections=(10, 6, 4)))


def test_several_axes_move_when_each_is_given():
    old = np.array([[[3, 3, 3, 7]], [[3, 4, 5, 7]], [[3, 6, 9, 7]]])
    new = old - np.array([2, 0, 1])[:, None, None]
    x = vectors(1, 4, 2, 40)
    found = rerotate(truth(x, old, MULTI), MULTI, old=old, new=new)
    assert close(found, truth(x, new, MULTI))


@pytest.mark.parametrize(("old", "new"), [(range(6), range(1, 7)), ([[0] * 6], [[5] * 6])])
def test_f313_one_shift_for_several_axes_is_refused(old, new):
    with pytest.raises(RopewalkError, match=r"old must be \[axes=3, batch=1, seq=6\].*Give every axis its own"):
        rerotate(vectors(1, 6, 2, 40), MULTI, old=old, new=new)
    with pytest.raises(RopewalkError, match=r"new must be \[axes=3, batch=1, seq=6\]"):
        rerotate(vectors(1, 6, 2, 40), MULTI, old=np.zeros((3, 1, 6), dtype=int), new=new)


# -- what is not defined


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float8_e4m3fn", "int4", "float4_e2m1fn", "complex64"])
def test_f313_quantised_keys_are_refused(dtype):
    if "4" in dtype and not hasattr(np, dtype):
        dtype = getattr(pytest.importorskip("ml_dtypes"), dtype)
    with pytest.raises(RopewalkError, match=r"quantised keys cannot be turned.*dequantise"):
        rerotate(np.zeros((1, 3, 2, 8)).astype(dtype), rope(8), old=range(3), new=range(3))


def test_f313_a_latent_cache_is_refused():
    with pytest.raises(RopewalkError, match=r"head_dim=64 channels, as its rope has, got 512\. A latent cache \(MLA\)"):
        rerotate(np.zeros((1, 3, 1, 512)), rope(64), old=range(3), new=range(3))


def test_a_map_that_is_no_rotation_is_refused():
    tile = rope(8, pairing="hybrid_tile")
    for first, second in ((tile, None), (rope(8, pairing="interleaved"), tile)):
        with pytest.raises(RopewalkError, match=r"hybrid_tile pairing .* no rotation"):
            rerotate(np.zeros((1, 3, 2, 8)), first, old=range(3), new=range(3), new_rope=second)


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"pairing": "interleaved"}, "pairing='interleaved'"),
        ({"rotary_dim": 48}, "rotary_dim=48"),
        ({"rotary_dim": 48, "rotary_start": 48}, "rotary_start=48"),
        ({"head_dim": 128}, "head_dim=128"),
        ({"axes": Sections(sections=(24, 12, 12))}, "axes=sections"),
    ],
)
def test_another_pairing_or_width_is_refused(changes, seen):
    with pytest.raises(RopewalkError, match=f"must pair the same channels.*pairing='half'.*{seen}"):
        rerotate(vectors(1, 3, 2, 96), rope(), old=range(3), new=range(3), new_rope=rope(**changes))


@pytest.mark.parametrize(
    ("rest", "words"),
    [({}, "pass old_length="), ({"old_length": 7}, "pass new_length="), ({"new_length": 7}, "pass old_length=")],
)
def test_a_length_dependent_rope_needs_both_lengths(rest, words):
    with pytest.raises(RopewalkError, match=f"dynamic scaling depends on the length.*{words}"):
        rerotate(vectors(1, 3, 2, 96), F218, old=range(3), new=range(3), **rest)


def test_only_the_length_dependent_side_needs_its_length():
    x = vectors(1, 3, 2, 96)
    found = rerotate(truth(x, range(3), rope()), rope(), old=range(3), new=range(3), new_rope=F218, new_length=7000)
    assert close(found, truth(x, range(3), F218, length=7000))


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"old": range(4)}, r"old: position_ids \[4\] do not fit x \[2, 3, 2, 96\]: expected \[seq=3\]"),
        ({"new": [[0, 1, 2]] * 3}, r"new: position_ids \[3, 3\] do not fit"),
        ({"old": 5}, "old: position_ids must be"),
        ({"new": [0, 1, math.nan]}, "new: position_ids must be finite"),
        ({"new": [0, 1, 2**53 + 1]}, r"new: integer position_ids must lie within"),
        ({"old": ["a", "b", "c"]}, "old must be integers or floats"),
        ({"layout": "hsbd"}, "layout must be one of"),
        ({"layout": "thd"}, r"k_cache must be \[tokens, heads, head_dim\]"),
        ({"layout": "bhsd"}, r"expected \[seq=2\]"),
        ({"rope": "llama"}, "rope must be a Rope"),
        ({"new_rope": "llama"}, "rope must be a Rope"),
    ],
)
def test_what_does_not_fit_is_refused(rest, words):
    given = {"k_cache": vectors(2, 3, 2, 96), "rope": rope(), "old": range(3), "new": range(3), **rest}
    with pytest.raises(RopewalkError, match=words):
        rerotate(given.pop("k_cache"), given.pop("rope"), **given)


def test_an_empty_cache_stays_empty():
    assert rerotate(np.zeros((2, 0, 3, 96)), rope(), old=[], new=[]).shape == (2, 0, 3, 96)


def test_a_float32_cache_is_turned_by_rotate_itself():
    k = vectors(1, 3, 2, 96, dtype=np.float32)
    found = rerotate(k, rope(), old=[9, 9, 9], new=[0, 5, 70000])
    assert np.array_equal(found, rotate(k, [-9, -4, 69991], rope()))
