"""Frequencies that depend on the length of the sequence: when they switch, and whether they switch back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..pairs import Pairs
from ..rope import Rope
from ..scaling import Dynamic, LongRope
from ._caller import Caller, Floats, by_head, gap, turned, vectors
from ._evidence import Evidence
from .box import BoxFailure

SHORT = 10  # tokens of a prompt that nothing may stretch
WINDOW = 8  # tokens of a call; the last ones of the sequence
WHOLE = 4_000_000  # numbers in a call that gives the whole sequence
FITS = 0.03  # numbers of size 1: far above float32 angles at these positions, far below another table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A sequence of some length, by its last tokens, and the table that explains the answer."""

    length: int
    table: str | None
    words: str
    failure: str | None = None
    theta: float | None = None


def switch_of(rope: Rope) -> int:
    """Give the longest length at which nothing is stretched: Lmax for dynamic NTK, L0 for LongRoPE."""
    if isinstance(rope.scaling, LongRope):
        return rope.scaling.original_max_position_embeddings
    assert rope.max_position_embeddings is not None
    return rope.max_position_embeddings


def switching(caller: Caller, rope: Rope, offset: float = 0.0) -> list[Evidence]:
    """Ask for a short sequence, one at the switch, one just above, a long one, and the short one again."""
    at = switch_of(rope)
    short, long = min(SHORT, at), min(int(2.28 * at) + 3, caller.box.max_position + 1)
    lengths = _Lengths(caller, rope, offset, at)
    if long <= at + 1:  # the switch lies beyond the positions that may be asked for
        return []
    calls = [lengths.call(length) for length in (short, at, at + 1, long)]
    again = lengths.call(short)
    first, exact, above, far = calls
    numbers = {"lengths": [short, at, at + 1, long, short], "tables": [c.table for c in (*calls, again)]}
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    kind = "longrope" if isinstance(rope.scaling, LongRope) else "dynamic"

    if first.table not in ("short", None) or (first.table is None and first.theta is not None):
        sticky = kind == "dynamic" and lengths.grows(first)
        name = "dynamic-sticky" if sticky else "longrope-long-always" if kind == "longrope" else "dynamic-frozen"
        found[name] = (f"at length {short}: {first.words}", {"theta": first.theta})
    elif first.table == "short":
        if again.table != "short" and again.failure is None:
            found["dynamic-sticky"] = (f"length {short} after {long}: {again.words}", {"theta": again.theta})
        if kind == "longrope" and exact.table == "long":
            found["longrope-off-by-one"] = (f"at length {at} the long list already", {"switch": at})
        if far.table == "right" and (above.failure or above.table != "right"):
            name = "longrope-off-by-one" if kind == "longrope" else "length-off-by-one"
            found[name] = (f"at length {at + 1}: {above.failure or above.words}", {"switch": at})
        if far.table == "short" and not lengths.whole(long):
            found["unscaled"] = (f"at length {long}: {far.words}", {"length": long})
        elif far.table in ("length-1", "length+1"):
            found["length-off-by-one"] = (f"at length {long}: {far.words}", {"length": long})
        elif far.table is None and far.failure is None:
            found["length-rule"] = (f"at length {long}: {far.words}", {"theta": far.theta})
        elif far.table in ("long", "maximum", "switch"):
            found["dynamic-frozen"] = (f"at length {long}: {far.words}", {"theta": far.theta})
    names = ["dynamic-sticky", "unscaled", "length-rule"]
    names += (
        ["longrope-long-always", "longrope-off-by-one"]
        if kind == "longrope"
        else ["dynamic-frozen", "length-off-by-one"]
    )
    judged = first.table is not None or bool(found)
    return [_evidence(name, found.get(name), at, numbers, judged) for name in names] + lengths.notes(short, long)


def _evidence(
    name: str, hit: tuple[str, Mapping[str, Any]] | None, at: int, numbers: Mapping[str, Any], judged: bool
) -> Evidence:
    right = f"unstretched at lengths to {at}, stretched by its own length beyond, and back again"
    if hit is not None:
        return Evidence(name=name, ok=False, seen=hit[0], right=right, detail={**numbers, **hit[1]})
    seen = "as it should" if judged else "no table of the description explains the answers"
    return Evidence(name=name, ok=True, seen=seen, right=right, detail={**numbers, "judged": judged})


class _Lengths:
    """Asks for sequences by their last tokens and finds the table, of those the description has, that was used."""

    def __init__(self, caller: Caller, rope: Rope, offset: float, at: int) -> None:
        self.caller, self.rope, self.offset, self.at = caller, rope, offset, at
        self._longest = 0

    def call(self, length: int) -> _Call:
        """Ask for a sequence of that many tokens."""
        ids = np.arange(max(0, length - WINDOW), length)
        try:
            x, out = self._ask(ids)
        except BoxFailure as failure:
            return _Call(length=length, table=None, words=str(failure), failure=str(failure))
        tables = self._tables(length)
        self._longest = max(self._longest, length)
        gaps = {name: self._gap(x, out, ids, table) for name, (table, _) in tables.items()}
        best = min(gaps, key=lambda name: gaps[name])
        if gaps[best] <= FITS:
            same = [name for name in gaps if gaps[name] <= max(2 * gaps[best], 1e-4)]
            best = next(name for name in ("right", *tables) if name in same)
            if tables[best][0] == tables["short"][0]:
                best = "short"
            return _Call(length=length, table=best, words=tables[best][1], theta=self._theta(tables[best][0]))
        if _row_zero(x, out, ids, tables["right"][0], self.caller, self.offset):
            return _Call(length=length, table="row zero", words=f"position {length - 1} turned as position 0")
        theta = self._fitted(x, out, ids)
        words = "no table of the description" if theta is None else f"the base {theta:.9g}"
        return _Call(length=length, table=None, words=words, theta=theta)

    def grows(self, first: _Call) -> bool:
        """Whether a longer call than any before changes the base that a short one gets: it then only ever grows."""
        longer = 3 * max(self.caller.box.max_position, self.at) + 11
        if self.call(longer).failure is not None:
            longer = self._longest
        again = self.call(first.length)
        return None not in (again.theta, first.theta) and abs(again.theta / first.theta - 1) > 1e-3  # type: ignore[operator]

    def whole(self, length: int) -> bool:
        """Whether a call that gives every token of the sequence is stretched: the length is then its tokens."""
        size = length * self.caller.batch * self.caller.heads * self.caller.box.head_dim
        if size > WHOLE:
            return False
        ids = np.arange(length)
        try:
            x, out = self._ask(ids)
        except BoxFailure:
            return False
        last = slice(length - WINDOW, length)
        return self._gap(x[:, last], out[:, last], ids[last], self.rope.pairs(length)) <= FITS

    def notes(self, short: int, long: int) -> list[Evidence]:
        """Say whether a long row stretches the short rows of its batch."""
        if not self.caller.per_row:
            return []
        ids = np.arange(short)[None, None] + np.where(np.arange(self.caller.batch) == 0, 0, long - short)[None, :, None]
        ids = np.array(np.broadcast_to(ids, (self.caller.axes, self.caller.batch, short)))
        x = vectors((self.caller.batch, short, self.caller.heads, self.caller.box.head_dim))
        try:
            out = self.caller.turn(x, ids)
        except BoxFailure:
            return []
        own, batch = (self._gap(x[:1], out[:1], ids[0, 0], self.rope.pairs(n)) for n in (short, long))
        seen = "each row by its own length" if own <= batch else "all rows by the longest"
        detail = {} if own <= batch else {"note": "a long row changes the short rows of its batch"}
        return [Evidence(name="length-of-rows", ok=True, seen=seen, right="each row by its own length", detail=detail)]

    def _ask(self, ids: np.ndarray) -> tuple[Floats, Floats]:
        caller = self.caller
        full = np.array(np.broadcast_to(ids, (caller.axes, caller.batch, len(ids))))
        x = vectors((caller.batch, len(ids), caller.heads, caller.box.head_dim))
        return x, caller.turn(x, full)

    def _gap(self, x: Floats, out: Floats, ids: np.ndarray, table: Pairs) -> float:
        full = np.broadcast_to(ids + self.offset, (self.caller.axes, x.shape[0], len(ids)))
        return gap(turned(x, table, by_head(full, self.caller.heads)), out)

    def _tables(self, length: int) -> dict[str, tuple[Pairs, str]]:
        rope = self.rope
        tables = {
            "right": (rope.pairs(length), f"the table of length {length}"),
            "short": (rope.pairs(), "the unstretched table"),
        }
        if isinstance(rope.scaling, LongRope):
            return {**tables, "long": (rope.pairs(self.at + 1), "the long list")}
        assert isinstance(rope.scaling, Dynamic)
        most = int(self.at * rope.scaling.factor)
        for name, other in (
            ("maximum", most),
            ("length-1", length - 1),
            ("length+1", length + 1),
            ("before", self._longest),
        ):
            tables[name] = (rope.pairs(max(1, other)), f"the table of length {other}")
        return tables

    def _theta(self, table: Pairs) -> float | None:
        """Give the base of a stretched ladder."""
        return None if isinstance(self.rope.scaling, LongRope) else _base(table.inv_freq, self.rope.width)

    def _fitted(self, x: Floats, out: Floats, ids: np.ndarray) -> float | None:
        """Give the base that explains the answer, or None."""
        if isinstance(self.rope.scaling, LongRope):
            return None
        plain = self.rope.replace(scaling=Dynamic(factor=1.0))

        def miss(log: float) -> float:
            return self._gap(x, out, ids, plain.replace(rope_theta=float(np.exp(log))).pairs())

        logs = np.log(self.rope.rope_theta) + np.linspace(-3, 25, 560)
        center = float(min(logs, key=miss))
        for width in (0.05, 0.005, 5e-4, 5e-5, 5e-6):
            center = float(min(np.linspace(center - width, center + width, 41), key=miss))
        return float(np.exp(center)) if miss(center) <= FITS else None


def _row_zero(x: Floats, out: Floats, ids: np.ndarray, table: Pairs, caller: Caller, offset: float) -> bool:
    """Whether the last token was turned by position 0 of the right table, the row where the long half starts."""
    positions = np.full((caller.axes, x.shape[0], 1, caller.heads), offset)
    return gap(turned(x[:, -1:], table, positions), out[:, -1:]) <= FITS


def _base(inv_freq: Floats, width: int) -> float | None:
    moving = np.abs(inv_freq[inv_freq != 0])
    if len(moving) < 2:
        return None
    return float((moving[0] / moving[1]) ** (width / 2))
