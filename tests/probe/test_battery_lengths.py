"""The position battery: tables that follow the length, several axes, and what torch adds."""

import numpy as np
import pytest

from ropewalk import Ladders, Rope, Sections
from ropewalk.probe.battery import first_calls, run
from ropewalk.probe.box import Box
from ropewalk.scaling import Dynamic, LongRope
from ropewalk.turning import naive

from .rotary import ladder, make, turn_by
from .turned_rows import D, faults

DYNAMIC = Rope(head_dim=96, rope_theta=5e4, pairing="half", scaling=Dynamic(factor=3), max_position_embeddings=3072)
LONG = Rope(
    head_dim=80, rope_theta=1e4, pairing="half", max_position_embeddings=49_152,
    scaling=LongRope(short_factor=(1.0,) * 40, long_factor=(2.5,) * 40, original_max_position_embeddings=3072),
)  # fmt: skip


def by_length(rope, length_of):
    def fn(x, ids):
        ids = np.asarray(ids)
        pairs = rope.pairs(length_of(int(ids.max()) + 1))
        full = np.broadcast_to(ids, x.shape[:2])[:, :, None, None] * pairs.inv_freq
        return turn_by(x, full, pairs.cos_sin_factor)

    return fn


def sticky(rope):
    longest = [0]

    def longest_so_far(length):
        longest[0] = max(longest[0], length)
        return longest[0]

    return by_length(rope, longest_so_far)


def length_faults(fn, rope, **options):
    box = Box(fn, head_dim=rope.head_dim, heads=2, max_position=70_000)
    return {one.name: one for one in run(box, rope.pairs(), expect=rope, **options) if not one.ok}


@pytest.mark.parametrize("rope", [DYNAMIC, LONG], ids=["dynamic", "longrope"])
def test_a_length_that_switches_and_switches_back_is_right(rope):
    assert length_faults(by_length(rope, lambda length: length), rope) == {}


@pytest.mark.parametrize("rope", [DYNAMIC, LONG], ids=["dynamic", "longrope"])
def test_a_length_for_every_row_is_right_too(rope):
    def fn(x, ids):
        ids = np.broadcast_to(ids, x.shape[:2])
        lengths = [int(row.max()) + 1 for row in ids]
        return naive.rotate(x, ids, rope, length=lengths).astype(x.dtype)

    assert length_faults(fn, rope) == {}


def test_a_switch_beyond_the_positions_that_may_be_asked_for_is_not_missed():
    box = Box(by_length(DYNAMIC, lambda _: 1), head_dim=96, max_position=3071)
    assert [one.name for one in run(box, DYNAMIC.pairs(), expect=DYNAMIC) if not one.ok] == []


def test_a_length_taken_from_the_whole_sequence_in_one_call_is_right():
    def fn(x, ids):
        pairs = DYNAMIC.pairs(x.shape[1])
        return turn_by(x, np.broadcast_to(ids, x.shape[:2])[:, :, None, None] * pairs.inv_freq)

    assert length_faults(fn, DYNAMIC) == {}


@pytest.mark.parametrize("length", [9216, 20_000])
def test_a_base_of_the_longest_length_at_every_length_is_frozen(length):
    found = length_faults(by_length(DYNAMIC, lambda _: length), DYNAMIC)
    assert set(found) == {"dynamic-frozen"}
    # F218's formula, by hand: theta (s L / Lmax - (s - 1))^(R / (R - 2))
    theta = 5e4 * (3 * length / 3072 - 2) ** (96 / 94)
    assert found["dynamic-frozen"].detail["theta"] == pytest.approx(theta, rel=1e-4)


@pytest.mark.parametrize("rope", [DYNAMIC, LONG], ids=["dynamic", "longrope"])
def test_a_length_that_never_switches_is_unscaled(rope):
    assert set(length_faults(by_length(rope, lambda _: 1), rope)) == {"unscaled"}


@pytest.mark.parametrize("rope", [DYNAMIC, LONG], ids=["dynamic", "longrope"])
def test_a_base_that_never_shrinks_again_is_sticky(rope):
    box = Box(sticky(rope), head_dim=rope.head_dim)
    before = first_calls(box, rope)
    assert {one.name for one in before if not one.ok} == {"dynamic-sticky"}
    assert "dynamic-sticky" in {one.name for one in run(box, rope.pairs(), expect=rope, before=before) if not one.ok}


def test_a_base_already_stuck_is_told_from_a_frozen_one_by_a_still_longer_call():
    fn = sticky(DYNAMIC)
    Box(fn, head_dim=96).turn(np.ones((1, 1, 2, 96)), [30_000])
    assert set(length_faults(fn, DYNAMIC)) == {"dynamic-sticky"}


def test_the_long_list_at_every_length_is_named():
    assert set(length_faults(by_length(LONG, lambda _: 4000), LONG)) == {"longrope-long-always"}


@pytest.mark.parametrize("shift", [1, -1])
def test_a_switch_one_token_early_or_late_is_named(shift):
    found = length_faults(by_length(LONG, lambda length: length + shift), LONG)
    assert set(found) == {"longrope-off-by-one"}


def test_a_crash_one_token_above_the_switch_is_the_same_fault():
    def fn(x, ids):
        if np.max(ids) == 3072:
            raise IndexError("index 3072 is out of bounds")
        return by_length(LONG, lambda length: length)(x, ids)

    found = length_faults(fn, LONG)
    assert set(found) == {"longrope-off-by-one"} and "out of bounds" in found["longrope-off-by-one"].seen


def test_the_first_position_of_the_long_half_read_from_row_0_is_the_same_fault():
    def fn(x, ids):
        ids = np.broadcast_to(ids, x.shape[:2])
        pairs = LONG.pairs(int(ids.max()) + 1)
        places = np.where(ids == 3072, 0, ids)
        return turn_by(x, places[:, :, None, None] * pairs.inv_freq, pairs.cos_sin_factor)

    assert set(length_faults(fn, LONG)) == {"longrope-off-by-one"}


MROPE = Rope(head_dim=40, rope_theta=3e5, pairing="half", axes=Sections(sections=(10, 6, 4), arrangement="interleaved"))
CHUNKED = MROPE.replace(axes=Sections(sections=(10, 6, 4)))


def axes_faults(fn, rope):
    box = Box(fn, head_dim=40, heads=2, axes=3, max_position=4000)
    return {one.name: one for one in run(box, rope.pairs(), expect=rope) if not one.ok}


def by_rope(rope, change=lambda ids: ids):
    return lambda x, ids: naive.rotate(x, change(np.array(ids)), rope).astype(x.dtype)


@pytest.mark.parametrize("rope", [MROPE, CHUNKED], ids=["interleaved", "chunked"])
def test_several_axes_as_declared_are_right(rope):
    assert axes_faults(by_rope(rope), rope) == {}


def test_independent_ladders_are_right_and_their_axes_exchanged_are_not():
    rope = MROPE.replace(axes=Ladders(widths=(8, 16, 16), names=("t", "h", "w")))
    assert axes_faults(by_rope(rope), rope) == {}
    assert set(axes_faults(by_rope(rope, lambda ids: ids[[0, 2, 1]]), rope)) == {"axes-swapped"}


@pytest.mark.parametrize(("made", "declared"), [(CHUNKED, MROPE), (MROPE, CHUNKED)])
def test_the_other_arrangement_of_the_sections_is_named(made, declared):
    found = axes_faults(by_rope(made), declared)
    assert set(found) == {"mrope-chunked"}
    assert made.axes.arrangement in found["mrope-chunked"].seen


def _zeroed(ids):
    ids[1] = 0
    return ids


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ids: ids[[0, 2, 1]], "w for h, h for w"),
        (lambda ids: ids[[1, 0, 2]], "h for t, t for h"),
        (_zeroed, "h taken as 0"),
        (lambda ids: ids[[0, 0, 0]], "t for every axis"),
        (lambda ids: ids[[0, 1, 1]], "h for w"),
    ],
)
def test_axes_exchanged_or_lost_are_named(change, words):
    found = axes_faults(by_rope(MROPE, change), MROPE)
    assert set(found) == {"axes-swapped"} and words in found["axes-swapped"].seen


def test_half_precision_that_comes_back_as_float32_is_named():
    torch = pytest.importorskip("torch")

    def fn(x, ids, keep=False):
        angle = ids.to(torch.float32)[..., None, None] * torch.tensor(ladder(D), dtype=torch.float32)
        cos, sin = torch.cos(angle), torch.sin(angle)
        a, b = x.chunk(2, -1)
        out = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        return out.to(x.dtype) if keep else out

    assert set(faults(fn)) == {"float32-out"}
    assert faults(lambda x, ids: fn(x, ids, keep=True)) == {}


@pytest.mark.parametrize(
    ("how", "back"),
    [
        ("forward", lambda grad, turn, transpose: turn(grad)),
        ("untouched", lambda grad, turn, transpose: grad),
        ("zero", lambda grad, turn, transpose: grad * 0),
        (None, lambda grad, turn, transpose: transpose(grad)),
    ],
)
def test_a_gradient_that_is_not_the_transpose_is_named(how, back):
    torch = pytest.importorskip("torch")
    w = torch.tensor(ladder(D), dtype=torch.float32)

    def by(x, ids, sign):
        angle = sign * ids.to(torch.float32)[..., None, None] * w
        cos, sin = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    class Turn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, ids):
            ctx.ids = ids
            return by(x, ids, 1)

        @staticmethod
        def backward(ctx, grad):
            return back(grad, lambda g: by(g, ctx.ids, 1), lambda g: by(g, ctx.ids, -1)), None

    found = faults(Turn.apply)
    assert set(found) == ({"gradient-wrong"} if how else set())
    assert how is None or found["gradient-wrong"].detail["how"] == how


def test_no_gradient_at_all_is_named():
    torch = pytest.importorskip("torch")

    def fn(x, ids):
        return torch.from_numpy(make()(x.detach().float().numpy(), ids.numpy())).to(x.dtype)

    assert faults(fn, box={"backend": "torch"})["gradient-wrong"].detail["how"] == "missing"
