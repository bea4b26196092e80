"""Every fault of positions, state and interface is named, each apart from its neighbours, and right functions pass."""

import numpy as np
import pytest

from ropewalk import Ladders, Rope, Sections
from ropewalk.probe.battery import first_calls, run
from ropewalk.probe.box import Box
from ropewalk.scaling import Dynamic, Linear, LongRope, Proportional
from ropewalk.turning import naive

from .rotary import half_pairs, ladder, make, turn_by

D = 16
ROPE = Rope(head_dim=D, rope_theta=5e5, pairing="half")
PAIRS = ROPE.pairs()
STILL = half_pairs(D, inv_freq=np.zeros(D // 2))


def faults(fn, pairs=PAIRS, expect=ROPE, *, box=None, **options):
    box = {"head_dim": D, "heads": 3, "max_position": 70_000, **(box or {})}
    return {one.name: one for one in run(Box(fn, **box), pairs, expect=expect, **options) if not one.ok}


def rows(x, ids):
    return np.broadcast_to(ids[:, :, None], x.shape[:3])


# ---------------------------------------------------------------- misread ids
def ids_ignored(x, ids):
    return rows(x, np.broadcast_to(np.arange(x.shape[1]), x.shape[:2]))


def counted_from_the_first(x, ids):
    return rows(x, ids[:, :1] + np.arange(x.shape[1]))


def first_of_window(x, ids):
    return rows(x, np.broadcast_to(ids[:, :1], x.shape[:2]))


def last_of_window(x, ids):
    return rows(x, np.broadcast_to(ids[:, -1:], x.shape[:2]))


def by_head(x, ids):
    return np.broadcast_to(np.arange(x.shape[2]), x.shape[:3])


def only_first_head(x, ids):
    return rows(x, ids) * (np.arange(x.shape[2]) == 0)


def only_first_row_of_one_token(x, ids):
    keep = (np.arange(len(x)) == 0) if x.shape[1] == 1 else np.ones(len(x), bool)
    return rows(x, ids) * keep[:, None, None]


def only_first_row(x, ids):
    return rows(x, ids) * (np.arange(len(x)) == 0)[:, None, None]


def ids_of_row_0(x, ids):
    return rows(x, np.broadcast_to(ids[:1], x.shape[:2]))


def rows_by_place(x, ids):
    return rows(x, np.broadcast_to(np.arange(len(x))[:, None], x.shape[:2]))


def one_token_ahead(x, ids):
    return rows(x, ids + (x.shape[1] == 1))


def sorted_ids(x, ids):
    return rows(x, np.sort(ids, axis=1))


def twice(x, ids):
    return rows(x, 2 * ids)


def never(x, ids):
    return rows(x, 0 * ids)


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("ids-ignored", ids_ignored),
        ("ids-ignored", counted_from_the_first),
        ("window-constant", first_of_window),
        ("window-constant", last_of_window),
        ("head-axis", by_head),
        ("first-head-only", only_first_head),
        ("row-0-only", only_first_row_of_one_token),
        ("row-0-only", only_first_row),
        ("ids-ignored", ids_of_row_0),
        ("per-row-ids", rows_by_place),
        ("positions", one_token_ahead),
        ("non-monotone", sorted_ids),
        ("double-rotation", twice),
        ("identity", never),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("pairs", [PAIRS, STILL, None], ids=["recovered", "still", "nothing-recovered"])
def test_a_misreading_of_the_ids_is_named_and_no_other(name, places, pairs):
    assert set(faults(make(places=places), pairs)) == {name}


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("ids-ignored", ids_ignored),
        ("window-constant", first_of_window),
        ("head-axis", by_head),
        ("first-head-only", only_first_head),
    ],
)
def test_some_misreadings_show_without_any_table(name, places):
    assert set(faults(make(places=places), None, None)) == {name}


def test_a_double_rotation_recovered_as_such_is_told_by_the_description():
    fn = make(places=twice)
    doubled = half_pairs(D, inv_freq=2 * PAIRS.inv_freq)
    assert set(faults(fn, doubled)) == {"double-rotation"}
    assert faults(fn, doubled, None) == {}


def test_turning_nothing_as_declared_is_right():
    still = ROPE.replace(scaling=Proportional(partial_rotary_factor=1e-9))
    assert not still.pairs().inv_freq.any()
    assert faults(make(places=never), None, still) == {}


def test_turning_nothing_is_a_fault_only_where_something_was_declared():
    fn = make(places=never)
    assert faults(fn, STILL, None) == {} == faults(fn, None, None)
    (note,) = [one for one in run(Box(fn, head_dim=D), None) if one.name == "identity"]
    assert note.ok and note.detail["note"] == "turns nothing"


def test_heads_by_the_ids_of_tokens_of_that_number_are_the_head_axis():
    def fn(x, ids):
        ids = np.broadcast_to(ids, x.shape[:2])
        if x.shape[1] == x.shape[2]:  # the sequence axis is guessed from a shape
            return turn_by(x, (ids[:, None, :, None] * ladder(D)))
        return turn_by(x, ids[:, :, None, None] * ladder(D))

    assert set(faults(fn)) == {"head-axis"}


def test_the_same_fault_of_the_keys_alone_is_seen_with_their_number_of_heads():
    right, wrong = make(), make(places=first_of_window)
    found = faults(lambda x, ids: (right if x.shape[2] == 4 else wrong)(x, ids), box={"heads": 4, "kv_heads": 2})
    assert set(found) == {"window-constant"} and "with 2 heads" in found["window-constant"].seen


# ---------------------------------------------------------------- state
def cached(key, *, rows=False):
    tables = {}

    def fn(x, ids):
        ids = np.broadcast_to(ids, x.shape[:2])
        name = key(x, ids)
        if name not in tables:
            tables[name] = (ids if rows else ids[:1])[:, :, None, None] * ladder(D)
        return turn_by(x, tables[name])

    return fn


def test_a_table_kept_by_the_number_of_tokens_is_stale():
    assert "stale-table" in faults(cached(lambda x, ids: x.shape[1]))


@pytest.mark.parametrize(
    "end", [np.ndarray.max, np.ndarray.min, np.ndarray.sum, lambda ids: ids[0, 0], lambda ids: ids[0, -1]]
)
def test_a_table_kept_by_the_number_of_tokens_and_one_number_of_the_ids_is_stale(end):
    found = faults(cached(lambda x, ids: (ids.shape, int(end(ids))), rows=True))
    assert "stale-table" in found and "ids-ignored" not in found


def test_a_table_kept_by_the_number_of_tokens_is_stale_without_any_table_of_pairs():
    assert "stale-table" in faults(cached(lambda x, ids: x.shape[1]), None, None)


def test_a_table_kept_from_the_longest_call_is_stale():
    kept = []

    def fn(x, ids):
        ids = np.broadcast_to(ids, x.shape[:2])
        if not kept or kept[0].shape[1] < x.shape[1]:
            kept[:] = [ids[:1, :, None, None] * ladder(D)]
        return turn_by(x, kept[0][:, : x.shape[1]])

    make_it_warm = Box(fn, head_dim=D, heads=3)
    make_it_warm.turn(np.ones((2, 64, 3, D)), np.arange(64))
    assert "stale-table" in faults(fn)


def test_a_table_of_another_theta_kept_for_some_lengths_is_stale():
    right, other = make(theta=5e5), make(theta=1e4)
    found = faults(lambda x, ids: (other if x.shape[1] == 11 else right)(x, ids))
    assert "stale-table" in found


@pytest.mark.parametrize(("local_theta", "warm_up"), [(1e4, 50), (2e4, 1000), (1e6, 20_000)])
@pytest.mark.parametrize("pairs", [PAIRS, None], ids=["recovered", "nothing-recovered"])
def test_a_table_of_another_theta_kept_for_one_power_of_two_is_stale(local_theta, warm_up, pairs):
    tables = {}

    def by(theta):
        def fn(x, ids):
            rows = 1 << int(np.max(ids)).bit_length()
            angle = tables.setdefault(rows, np.arange(rows)[:, None] * ladder(D, theta))[np.maximum(ids, 0)]
            return turn_by(x, np.broadcast_to(angle, (*x.shape[:2], D // 2))[:, :, None])

        return fn

    by(local_theta)(np.zeros((1, warm_up, 1, D)), np.arange(warm_up)[None])
    assert "stale-table" in faults(by(5e5), pairs)


def test_an_undeclared_dependence_on_the_length_is_no_stale_table():
    def fn(x, ids):
        return make(theta=5e5 * max(1.0, np.max(ids) / 500))(x, ids)

    assert "length-rule" in faults(fn) and "stale-table" not in faults(fn)
    assert faults(fn, PAIRS, None) == {}


def test_a_counter_is_kept_state():
    count = [0]

    def fn(x, ids):
        count[0] += 1
        return turn_by(x, (np.broadcast_to(ids, x.shape[:2])[:, :, None, None] + count[0]) * ladder(D))

    assert "keeps-state" in faults(fn)


def test_chance_is_named():
    rng = np.random.default_rng(3)
    assert "random" in faults(lambda x, ids: make()(x, ids) * rng.normal(1, 0.2))


def test_a_long_call_that_changes_short_ones_is_sticky_without_a_description():
    longest = [0]

    def fn(x, ids):
        longest[0] = max(longest[0], int(np.max(ids)))
        theta = 5e5 if longest[0] < 4096 else 8e6
        return make(theta=theta)(x, ids)

    assert set(faults(fn, PAIRS, None)) == {"dynamic-sticky"}


# ---------------------------------------------------------------- the end of the table
@pytest.mark.parametrize("size", [2048, 3000, 65_536])
def test_the_last_row_reused_is_a_clamped_table(size):
    found = faults(make(places=lambda x, ids: rows(x, np.minimum(ids, size - 1))))
    assert set(found) == {"table-end-clamped"}
    assert found["table-end-clamped"].detail["how"] == "clamped"
    assert found["table-end-clamped"].detail["last_row"] == size - 1


def test_a_clamped_table_shows_without_a_table_of_pairs():
    assert set(faults(make(places=lambda x, ids: rows(x, np.minimum(ids, 4095))), None, None)) == {"table-end-clamped"}


@pytest.mark.parametrize("size", [2048, 5000])
def test_positions_that_wrap_round_are_named_with_the_number_of_rows(size):
    found = faults(make(places=lambda x, ids: rows(x, ids % size)))
    assert set(found) == {"table-end-clamped"}
    assert found["table-end-clamped"].detail == {"how": "wrapped", "rows": size, "last_row": size - 1}


def test_an_error_at_the_end_of_the_table_is_fine_and_says_where():
    def fn(x, ids):
        if np.max(ids) >= 4096:
            raise IndexError("position beyond the table of 4096 rows")
        return make()(x, ids)

    evidence = run(Box(fn, head_dim=D, heads=3), PAIRS, expect=ROPE)
    assert [one.name for one in evidence if not one.ok] == []
    (end,) = [one for one in evidence if one.name == "table-end"]
    assert end.detail["last_answered"] == 2062 and "4096 rows" in end.seen


def test_not_a_number_beyond_the_table_is_no_error_and_a_fault():
    def fn(x, ids):
        return np.where(np.broadcast_to(ids, x.shape[:2])[..., None, None] < 4096, make()(x, ids), np.nan)

    assert set(faults(fn)) == {"not-finite"}


# ---------------------------------------------------------------- lengths
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


# ---------------------------------------------------------------- axes
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


# ---------------------------------------------------------------- right functions
def shared_only(x, ids):
    if ids.ndim != 1:
        raise ValueError("positions must be [S]")
    return make()(x, ids)


def rows_only(x, ids):
    if ids.ndim != 2 or len(ids) != len(x):
        raise ValueError("positions must be [B, S]")
    return make()(x, ids)


def gathered(rows, dtype=np.float32):
    angle = np.arange(rows)[:, None] * ladder(D)
    cos, sin = np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)

    def fn(x, ids):
        a, b = np.split(x, 2, axis=-1)
        c, s = (table[ids].astype(np.float32)[..., None, :] for table in (cos, sin))
        return np.concatenate([a * c - b * s, b * c + a * s], -1)

    return fn


def rounded_to_bf16(rows):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    return gathered(rows, ml_dtypes.bfloat16)


def float32_angles(x, ids):
    ids = np.broadcast_to(ids, x.shape[:2]).astype(np.float32)
    return turn_by(x, ids[:, :, None, None] * ladder(D).astype(np.float32))


RIGHT = {
    "plain": make(),
    "shared-only": shared_only,
    "rows-only": rows_only,
    "gathered": gathered(80_000),
    "short-table": gathered(3000),
    "bf16-tables": lambda x, ids: rounded_to_bf16(80_000)(x, ids),
    "float32-angles": float32_angles,
}


@pytest.mark.parametrize("expect", [ROPE, None], ids=["declared", "undeclared"])
@pytest.mark.parametrize("fn", RIGHT.values(), ids=RIGHT)
def test_a_right_function_passes(fn, expect):
    assert faults(fn, PAIRS, expect) == {}


@pytest.mark.parametrize("layout", ["bhsd", "thd"])
def test_other_layouts_pass(layout):
    def bhsd(x, ids):
        return make()(x.transpose(0, 2, 1, 3), ids).transpose(0, 2, 1, 3)

    def thd(x, ids):
        return make()(x[None], ids[None])[0]

    assert faults({"bhsd": bhsd, "thd": thd}[layout], box={"layout": layout}) == {}


@pytest.mark.parametrize("offset", [1, -7])
def test_positions_moved_by_a_constant_pass_and_are_noted(offset):
    fn = make(places=lambda x, ids: rows(x, ids + offset))
    assert faults(fn) == {} == faults(fn, offset=float(offset))
    (note,) = [one for one in run(Box(fn, head_dim=D), PAIRS, expect=ROPE) if one.name == "ids-ignored"]
    assert note.detail["offset"] == offset


def test_an_output_in_another_order_of_channels_passes_when_the_order_is_known():
    order = np.random.default_rng(0).permutation(D)
    fn = make()
    assert faults(lambda x, ids: fn(x, ids)[..., order], output_order=tuple(order)) == {}


def test_an_overwritten_input_is_named_also_where_it_is_given_back():
    def in_place(x, ids):
        x[...] = make()(x, ids)
        return x

    def spoils(x, ids):
        out = make()(x, ids)
        x[..., 0] = 0
        return out

    for fn, given_back in ((in_place, True), (spoils, False)):
        found = faults(fn)
        assert set(found) == {"input-mutated"}
        assert ("given back" in found["input-mutated"].seen) is given_back
    assert faults(lambda x, ids: in_place(x.copy(), ids)) == {}


def test_slow_pairs_alone_are_told_apart_as_well():
    rope = Rope(head_dim=D, rope_theta=1e4, pairing="half", scaling=Linear(factor=64))
    w = rope.pairs().inv_freq
    assert faults(make(inv_freq=w), rope.pairs(), rope) == {}
    assert set(faults(make(inv_freq=w, places=first_of_window), rope.pairs(), rope)) == {"window-constant"}
    assert set(faults(make(inv_freq=w, places=ids_ignored), rope.pairs(), rope)) == {"ids-ignored"}


def test_it_takes_few_calls_and_little_time():
    box = Box(make(64), head_dim=64)
    run(box, Rope(head_dim=64, rope_theta=5e5, pairing="half").pairs())
    assert box.calls < 40


# ---------------------------------------------------------------- torch
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
