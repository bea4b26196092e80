"""One measurement: contenders are built, pass the gate, take their rounds, and pass the gate again."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import torch

from . import contenders
from .contenders import CLONE, COPY, OURS, Contender, Inputs, Unavailable
from .parity import Parity, Truth
from .plan import CASES, Case, Plan
from .timing import Spread, calls_in_a_sample, time_rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one contender did.

    Attributes:
        name: the contender's.
        parity: what the gate saw; None for a copy.
        seconds: of one call; None, like every number below, where the gate is red.
        to_clone: the ratio to torch.clone of q and k in the same round.
        to_copy: the ratio to copy_ of q and k.
        to_ours: the ratio to our way; above 1, ours is faster.
    """

    name: str
    parity: Parity | None = None
    seconds: Spread | None = None
    to_clone: Spread | None = None
    to_copy: Spread | None = None
    to_ours: Spread | None = None

    @property
    def ok(self) -> bool:
        """Whether the gate is green, or there is none."""
        return self.parity is None or self.parity.ok


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One case for one dtype and pairing.

    Attributes:
        case: a name of CASES.
        dtype: of q and k.
        pairing: of the rope.
        q: [B, S, H, D].
        k: [B, S, KV, D].
        rounds: timed rounds.
        calls: calls in one sample.
        rows: copies, then ours, then peers.
        skipped: peers that took no part, each with its reason.
    """

    case: str
    dtype: str
    pairing: str
    q: tuple[int, ...]
    k: tuple[int, ...]
    rounds: int
    calls: int
    rows: tuple[Row, ...]
    skipped: dict[str, str]

    @property
    def ok(self) -> bool:
        """Whether every contender passed the gate."""
        return all(row.ok for row in self.rows)

    def row(self, name: str) -> Row | None:
        """Give one contender's row."""
        return next((row for row in self.rows if row.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Give the measurement as plain values for JSON; a deviation that is no finite number is null."""
        data = asdict(self)
        data |= {name: list(data[name]) for name in ("q", "k", "rows")}
        for row in data["rows"]:
            for key, value in (row["parity"] or {}).items():
                if isinstance(value, float) and not isfinite(value):
                    row["parity"][key] = None
        return data


def measure(plan: Plan) -> Iterator[Measurement]:
    """Carry out a plan, one measurement at a time.

    Raises:
        RopewalkError: where the tensors cannot be made.
    """
    for name in plan.cases:
        for dtype in plan.dtypes:
            for pairing in plan.pairings:
                yield _measure_one(plan, CASES[name], dtype, pairing)


def _measure_one(plan: Plan, case: Case, dtype: str, pairing: str) -> Measurement:
    def made() -> Inputs:
        return contenders.make_inputs(case, plan.shape, dtype, pairing)

    inputs = made()
    truth = Truth(inputs.rope, inputs.position_ids, inputs.tensors, inputs.grads)
    with torch.set_grad_enabled(case.backward):
        entered, skipped = _enter(plan, inputs, case)
        parities: dict[str, Parity] = {}
        timed = {one.name: one for one in contenders.references(inputs)}
        for one in entered:
            try:
                parities[one.name] = _gate(one, inputs, truth)
            except Exception as error:  # whatever another library raises; ours must not
                if one.name == OURS:
                    raise
                skipped[one.name] = contenders.first_words(error)
                continue
            if parities[one.name].ok:
                timed[one.name] = one
            _restore(inputs, truth, made)
        yardstick = timed.get(OURS) or timed[CLONE]
        calls = calls_in_a_sample(yardstick.call)
        seconds = time_rounds({name: one.call for name, one in timed.items()}, rounds=plan.rounds, repeat=calls)
        for one in entered:  # again: caches have filled since, tables were built, and what was timed must be right
            if one.name in timed:
                _restore(inputs, truth, made)
                after = _gate(one, inputs, truth)
                parities[one.name] = after if not after.ok else parities[one.name]
    seconds = {name: taken for name, taken in seconds.items() if name not in parities or parities[name].ok}
    rows = [_row(name, parities.get(name), seconds) for name in (CLONE, COPY, *parities)]
    return Measurement(
        case=case.name,
        dtype=dtype,
        pairing=pairing,
        q=tuple(inputs.q.shape),
        k=tuple(inputs.k.shape),
        rounds=plan.rounds,
        calls=calls,
        rows=tuple(rows),
        skipped=skipped,
    )


def _enter(plan: Plan, inputs: Inputs, case: Case) -> tuple[list[Contender], dict[str, str]]:
    """Build ours and the peers that can take part; give them and why the others cannot."""
    entered, skipped = [contenders.ours(inputs, case)], {}
    for name in plan.peers:
        try:
            entered.append(contenders.peer(name, inputs, case))
        except Unavailable as reason:
            skipped[name] = str(reason)
        except Exception as error:  # another version of a library may do anything
            skipped[name] = contenders.first_words(error)
    return entered, skipped


def _gate(one: Contender, inputs: Inputs, truth: Truth) -> Parity:
    """Judge one call, made as the timed ones are."""
    assert one.precision is not None
    one.reset()
    parity = truth.judge(one.call(), one.precision)
    if parity.ok and not truth.untouched(inputs.tensors):
        return Parity(ok=False, error=parity.error, share=parity.share, why="it wrote over the tensors it was given")
    return parity


def _restore(inputs: Inputs, truth: Truth, made: Callable[[], Inputs]) -> None:
    """Undo what a contender did to tensors that are not its own: others must not be blamed for it."""
    if not truth.untouched(inputs.tensors):
        with torch.no_grad():
            for given, again in zip(inputs.tensors, made().tensors, strict=True):
                given.copy_(again)


def _row(name: str, parity: Parity | None, seconds: dict[str, list[float]]) -> Row:
    """Summarise a contender's rounds, which are absent where its gate is red."""
    if name not in seconds:
        return Row(name=name, parity=parity)
    own, is_peer = seconds[name], name not in (CLONE, COPY, OURS)
    return Row(
        name=name,
        parity=parity,
        seconds=Spread.of(own),
        to_clone=Spread.of_ratios(own, seconds[CLONE]),
        to_copy=Spread.of_ratios(own, seconds[COPY]),
        to_ours=Spread.of_ratios(own, seconds[OURS]) if is_peer and OURS in seconds else None,
    )
