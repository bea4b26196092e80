"""verify(): the number gate. Two roads to the same score must meet, and four golden cases must hold."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import RopewalkError
from .rope import Rope
from .simulation import DEFAULT_KEY, DEFAULT_QUERY, default_rope
from .turning.naive import rotate

SCHEMA = "ropewalk.verify/1"
POSITIONS = (0, 1, 2, 7, 17, 128, 2047)
SHIFTS = (-1000, -1, 1, 100, 4096)
TOLERANCE = 1e-12
Turn = Callable[[Sequence[float], int], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCase:
    """One case of the gate.

    Attributes:
        name: what must hold, in words.
        checks: how many comparisons it made.
        deviation: the largest difference seen.
        tolerance: the largest difference allowed.
    """

    name: str
    checks: int
    deviation: float
    tolerance: float = TOLERANCE

    @property
    def ok(self) -> bool:
        """Whether every comparison was within the tolerance (and a number)."""
        return self.deviation <= self.tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The result of the number gate."""

    cases: tuple[GateCase, ...]

    @property
    def ok(self) -> bool:
        """Whether every case holds."""
        return all(case.ok for case in self.cases)

    @property
    def deviation(self) -> float:
        """The largest difference of all cases."""
        return max(case.deviation for case in self.cases)

    def to_dict(self) -> dict[str, Any]:
        """Give the result as plain values for JSON; a deviation that is no finite number is null."""
        return {
            "schema": SCHEMA,
            "ok": self.ok,
            "deviation": _finite(self.deviation),
            "cases": [
                {
                    "name": case.name,
                    "ok": case.ok,
                    "checks": case.checks,
                    "deviation": _finite(case.deviation),
                    "tolerance": case.tolerance,
                }
                for case in self.cases
            ],
        }


def verify(turn: Turn | None = None) -> Gate:
    """Check that turning does what it must, at the lesson's defaults (8 channels, base 10000, neighbours paired).

    Four golden cases: turning by 0 returns the vector; by m then n equals m + n; by m then -m returns the vector;
    length is kept. And the invariance on 245 triples (m, n, s): the score of the vectors turned by m + s and n + s
    against an independent formula, which turns nothing and sees m - n alone.

    Args:
        turn: the implementation under test, a function of a vector of 8 numbers and a position; None takes
            ropewalk's own truth.

    Returns:
        The Gate, with the largest deviation of every case.

    Raises:
        RopewalkError: where turn does not give 8 numbers.

    >>> verify().ok
    True
    >>> verify(lambda x, m: x).ok
    False
    """
    turn = turn or turn_with(default_rope())
    vectors = (DEFAULT_QUERY, DEFAULT_KEY)
    grid = [(x, m, n) for x in vectors for m in POSITIONS for n in POSITIONS]
    cases = (
        _case("turning by 0 returns the vector", [(turn(x, 0), x) for x in vectors]),
        _case(
            "turning by m, then by n, is turning by m + n", [(turn(turn(x, m), n), turn(x, m + n)) for x, m, n in grid]
        ),
        _case(
            "turning by m, then by -m, returns the vector",
            [(turn(turn(x, m), -m), x) for x in vectors for m in POSITIONS],
        ),
        _case(
            "turning keeps the length",
            [([math.hypot(*turn(x, m))], [math.hypot(*x)]) for x in vectors for m in (*POSITIONS, *SHIFTS)],
        ),
        _case(
            "the score sees only the distance",
            [
                ([_dot(turn(DEFAULT_QUERY, m + s), turn(DEFAULT_KEY, n + s))], [expected_score(m - n)])
                for m in POSITIONS
                for n in POSITIONS
                for s in SHIFTS
            ],
        ),
    )
    return Gate(cases=cases)


def expected_score(distance: int) -> float:
    """Give the lesson's score by the road of its own: Python's math, the angle of the distance, no vector turned.

    >>> round(expected_score(5), 9), round(expected_score(-5), 9)
    (-0.709554095, 1.587136657)
    """
    q, k, total = DEFAULT_QUERY, DEFAULT_KEY, 0.0
    for pair in range(4):
        phi = distance / 10000.0 ** (pair / 4)
        a, b = 2 * pair, 2 * pair + 1
        total += (q[a] * k[a] + q[b] * k[b]) * math.cos(phi) + (q[a] * k[b] - q[b] * k[a]) * math.sin(phi)
    return total


def turn_with(rope: Rope, *, still: int | None = None) -> Turn:
    """Give a turn function for one rope; still names a pair to leave unturned, a fault to try the gate on."""
    pairs = rope.pairs()

    def turn(x: Sequence[float], m: int) -> list[float]:
        turned = rotate(np.asarray(x, dtype=np.float64)[None, None], [m], rope)[0, 0].tolist()
        if still is not None:
            for channel in (int(pairs.first[still]), int(pairs.second[still])):
                turned[channel] = x[channel]
        return turned

    return turn


def sabotages() -> dict[str, Turn]:
    """Give the four faults that the gate must catch, each as a turn function."""
    rope = default_rope()
    return {
        "direction": turn_with(rope.replace(direction=-1)),
        "theta": turn_with(rope.replace(rope_theta=500000.0)),
        "pairing": turn_with(rope.replace(pairing="half")),
        "still": turn_with(rope, still=1),
    }


def _case(name: str, pairs: list[tuple[Sequence[float], Sequence[float]]]) -> GateCase:
    deviation = 0.0
    for seen, right in pairs:
        if len(seen) != len(right):
            raise RopewalkError(f"turn must give as many numbers as it is given, {len(right)}, got {len(seen)}.")
        for one, other in zip(seen, right, strict=True):
            difference = abs(one - other)
            deviation = max(deviation, difference if difference == difference else math.inf)
    return GateCase(name=name, checks=len(pairs), deviation=deviation)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
