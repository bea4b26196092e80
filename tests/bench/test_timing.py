"""Rounds: who is called when, and what becomes of the seconds. Nothing here asserts how long anything takes."""

import gc

import pytest

from ropewalk.bench import timing
from ropewalk.bench.timing import WARMUPS, Spread, calls_in_a_sample, time_rounds


def recorder(order, name):
    return lambda: order.append(name)


def test_each_contender_is_called_once_a_round_in_an_order_that_moves_on():
    order = []
    seconds = time_rounds({name: recorder(order, name) for name in "abc"}, rounds=4, repeat=1)
    rounds = [order[start : start + 3] for start in range(0, len(order), 3)]
    assert len(rounds) == WARMUPS + 4
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert rounds[WARMUPS:] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["a", "b", "c"]]
    assert {name: len(taken) for name, taken in seconds.items()} == {"a": 4, "b": 4, "c": 4}


def test_a_sample_repeats_the_call_and_gives_seconds_of_one(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    order = []
    seconds = time_rounds({"a": recorder(order, "a")}, rounds=3, repeat=5)
    assert len(order) == (WARMUPS + 3) * 5
    assert seconds == {"a": [0.2, 0.2, 0.2]}  # a clock that moves on by a second at each look


@pytest.mark.parametrize("repeat", [1, 3])
def test_a_result_is_freed_before_the_next_call(repeat):
    alive = []

    class Result:
        def __init__(self):
            assert not alive
            alive.append("one")

        def __del__(self):
            alive.clear()

    time_rounds({"a": Result, "b": Result}, rounds=2, repeat=repeat)
    assert not alive


@pytest.mark.parametrize("collecting", [True, False])
def test_the_garbage_collector_waits_and_is_left_as_it_was(collecting):
    seen = []
    was = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        time_rounds({"a": lambda: seen.append(gc.isenabled())}, rounds=1, repeat=1)
        assert set(seen) == {False}
        assert gc.isenabled() is collecting
        with pytest.raises(ZeroDivisionError):
            time_rounds({"a": lambda: 1 / 0}, rounds=1, repeat=1)
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.parametrize(("step", "calls"), [(1e-7, 1000), (2**-13, 17), (2**-10, 3), (1.0, 1)])
def test_a_short_call_is_repeated_until_the_clock_can_see_it(monkeypatch, step, calls):
    ticks = iter(range(100))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: step * next(ticks))
    assert calls_in_a_sample(lambda: None) == calls


def test_a_spread_is_the_median_with_its_quartiles():
    assert Spread.of([5.0, 1.0, 4.0, 2.0, 3.0]) == Spread(median=3.0, low=2.0, high=4.0)
    assert Spread.of([7.0]) == Spread(median=7.0, low=7.0, high=7.0)


def test_ratios_are_taken_within_a_round():
    # a machine that works three times slower for one contender's neighbourhood: every round says 2 all the same
    assert Spread.of_ratios([2.0, 6.0, 2.0], [1.0, 3.0, 1.0]) == Spread(median=2.0, low=2.0, high=2.0)
    assert Spread.of_ratios([2.0, 30.0], [1.0, 10.0]).median == 2.5
