"""The position battery: ids misread, and right functions that pass."""

import numpy as np
import pytest

from ropewalk import Rope
from ropewalk.probe.battery import run
from ropewalk.probe.box import Box
from ropewalk.scaling import Linear, Proportional

from .rotary import half_pairs, ladder, make, turn_by
from .turned_rows import PAIRS, ROPE, STILL, D, faults, rows


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
