"""The position battery: tables kept from other calls, counters, chance, and the end of a table."""

import numpy as np
import pytest

from ropewalk.probe.battery import run
from ropewalk.probe.box import Box

from .rotary import ladder, make, turn_by
from .turned_rows import PAIRS, ROPE, D, faults, rows


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
