"""The table of pairs: its columns, its equality, and what it refuses."""

import json
import math

import numpy as np
import pytest

from ropewalk import Pairs, Rope, RopewalkError

TABLE = {"first": [0, 1, 2], "second": [3, 4, 5], "axis": [0, 1, 0], "inv_freq": [1.0, 0.25, 0.0]}


def pairs(**changes):
    return Pairs(**{**TABLE, **changes})


def test_columns_are_typed_and_read_only():
    table = pairs(second_inv_freq=[1, 2, 3])
    assert [column.dtype for column in (table.first, table.second, table.axis)] == [np.int64] * 3
    assert table.inv_freq.dtype == table.second_inv_freq.dtype == np.float64
    for column in (table.first, table.second, table.axis, table.inv_freq, table.second_inv_freq):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7


def test_the_callers_arrays_are_copied():
    inv_freq = np.array([1.0, 0.25, 0.0])
    table = pairs(inv_freq=inv_freq)
    inv_freq[0] = 9
    assert table.inv_freq[0] == 1
    assert inv_freq.flags.writeable


def test_properties():
    table = pairs()
    assert (len(table), table.num_axes, table.is_rotation) == (3, 2, True)
    assert table.wavelength.tolist() == [2 * math.pi, 8 * math.pi, math.inf]


def test_two_angles_are_a_rotation_only_when_equal():
    assert pairs(second_inv_freq=[1.0, 0.25, 0.0]).is_rotation
    assert not pairs(second_inv_freq=[1.0, 0.25, 0.5]).is_rotation


def test_a_backward_pair_has_the_wavelength_of_its_speed():
    assert pairs(inv_freq=[-1.0, 0.5, 1.0]).wavelength[0] == 2 * math.pi


@pytest.mark.parametrize(
    "change",
    [
        {"first": [6, 1, 2]},
        {"second": [3, 4, 6]},
        {"axis": [0, 1, 1]},
        {"inv_freq": [1.0, 0.25, 1e-300]},
        {"cos_sin_factor": 1.1},
        {"softmax_factor": 1.1},
        {"second_inv_freq": [1.0, 0.25, 0.0]},
    ],
)
def test_any_number_that_differs_makes_another_table(change):
    assert pairs() == pairs()
    assert hash(pairs()) == hash(pairs())
    assert pairs(**change) != pairs()
    assert pairs() != "pairs"


def test_json_round_trip_loses_nothing():
    for table in (
        pairs(second_inv_freq=[0.1, 0.2, 0.3], cos_sin_factor=1.25, softmax_factor=1.5),
        Rope(head_dim=96, rope_theta=3e5, pairing="interleaved", direction=-1).pairs(),
        Pairs(first=[], second=[], axis=[], inv_freq=[]),
    ):
        assert Pairs.from_dict(json.loads(json.dumps(table.to_dict()))) == table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": [0, 1]}, r"equally long, got \(2,\), \(3,\)"),
        ({"first": [[0, 1, 2]]}, "one-dimensional"),
        ({"first": [0, 1, 1]}, "channel 1 twice"),
        ({"first": [0, 1, 3]}, "channel 3 twice"),
        ({"first": [0, 1, -1]}, "none may be negative"),
        ({"axis": [0, -1, 0]}, "none may be negative"),
        ({"first": [0.5, 1, 2]}, "first must be a list of whole numbers"),
        ({"first": [False, True, True]}, "first must be a list of whole numbers"),
        ({"second": ["3", "4", "5"]}, "second must be a list of whole numbers"),
        ({"axis": None}, "axis must be a list of whole numbers"),
        ({"axis": [[0], [0, 1], 0]}, "axis must be a list of whole numbers"),
        ({"inv_freq": [1.0, float("nan"), 0.0]}, "finite number of radians"),
        ({"inv_freq": [1.0, float("inf"), 0.0]}, "finite number of radians"),
        ({"inv_freq": [1.0, "0.5", 0.0]}, "inv_freq must be a list of numbers"),
        ({"inv_freq": [1j, 0, 0]}, "inv_freq must be a list of numbers"),
        ({"second_inv_freq": [1.0]}, "equally long"),
        ({"cos_sin_factor": 0}, "cos_sin_factor must be a finite number above 0, got 0"),
        ({"cos_sin_factor": float("nan")}, "cos_sin_factor must be"),
        ({"softmax_factor": -1.0}, "softmax_factor must be"),
        ({"softmax_factor": True}, "softmax_factor must be"),
    ],
)
def test_what_is_no_table_is_refused(change, message):
    with pytest.raises(RopewalkError, match=message):
        pairs(**change)
    with pytest.raises(RopewalkError):
        Pairs.from_dict({"schema": "ropewalk.pairs/1", **TABLE, **change})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "must be an object"),
        ([], "must be an object"),
        (TABLE, r"schema 'ropewalk.pairs/1', got None"),
        ({"schema": "ropewalk.pairs/2", **TABLE}, "got 'ropewalk.pairs/2'"),
        ({"schema": "ropewalk.pairs/1", **TABLE, "_key": 1}, "unknown keys '_key'"),
        ({"schema": "ropewalk.pairs/1", "first": []}, "lacks second, axis, inv_freq. Add them"),
        ({"schema": "ropewalk.pairs/1", **TABLE, "first": range(32769)}, "at most 32768 entries, got 32769"),
        ({"schema": "ropewalk.pairs/1", **TABLE, "first": "012"}, "first must be a list"),
    ],
)
def test_what_is_no_description_of_a_table_is_refused(data, message):
    with pytest.raises(RopewalkError, match=message):
        Pairs.from_dict(data)


def test_f806_slow_pairs_by_wavelength():
    wavelength = Rope(head_dim=96, rope_theta=3e5, pairing="half").pairs().wavelength
    assert wavelength[-1] == pytest.approx(1449420.60, abs=0.005)
    assert (wavelength > 16384).sum() == 18


def test_f612_most_pairs_hardly_turn_over_a_range_of_2():
    wavelength = Rope(head_dim=32, rope_theta=100.0, pairing="half").pairs().wavelength
    assert (2 / wavelength < 1 / 8).sum() == 12
