"""Interleaved rounds: every contender once a round, so that a busy moment of the machine hits all alike."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WARMUPS = 2  # rounds that are thrown away: caches fill, the allocator finds its state
SAMPLE = 0.002  # seconds that one sample of the yardstick should last, so that the clock's grain does not show
MOST_CALLS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A median with its quartiles.

    Attributes:
        median: the middle value.
        low: a quarter of the values lie below it.
        high: a quarter of the values lie above it.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Summarise values, at least one.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.5, high=2.5)
        """
        if len(values) == 1:
            return cls(median=values[0], low=values[0], high=values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median=median, low=low, high=high)

    @classmethod
    def of_ratios(cls, values: Sequence[float], bases: Sequence[float]) -> "Spread":
        """Summarise values over bases, each pair taken in the same round.

        >>> Spread.of_ratios([2.0, 30.0], [1.0, 10.0]).median
        2.5
        """
        return cls.of([value / base for value, base in zip(values, bases, strict=True)])


def calls_in_a_sample(call: Callable[[], Any]) -> int:
    """Give how many calls make a sample long enough for the clock, judged by the quickest of a few."""
    quickest = min(_sample(call, 1) for _ in range(5))
    return max(1, min(MOST_CALLS, math.ceil(SAMPLE / max(quickest, 1e-9))))


def time_rounds(calls: Mapping[str, Callable[[], Any]], *, rounds: int, repeat: int) -> dict[str, list[float]]:
    """Time each contender once a round, in an order that moves on by one every round.

    Args:
        calls: what to time, by name.
        rounds: how many rounds count; WARMUPS more come first.
        repeat: calls in one sample.

    Returns:
        Seconds a call, one for each round, by name.

    The garbage collector waits meanwhile. A result is freed before the next call starts; the last one of a sample, so
    that of a long call always, after the clock has stopped.
    """
    names = list(calls)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for number in range(-WARMUPS, rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                taken = _sample(calls[name], repeat)
                if number >= 0:
                    seconds[name].append(taken / repeat)
    finally:
        if collecting:
            gc.enable()
    return seconds


def _sample(call: Callable[[], Any], repeat: int) -> float:
    result = None
    start = time.perf_counter()
    for _ in range(repeat):
        result = None  # the allocator gets the old result back before it is asked for a new one
        result = call()
    taken = time.perf_counter() - start
    del result
    return taken
