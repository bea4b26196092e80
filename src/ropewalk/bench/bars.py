"""The bars that ropewalk holds itself to, each beside what was measured."""

import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from ..rope import Rope
from ..torch import Rotary
from ..turning import naive
from .contenders import OURS, SEED
from .measuring import Measurement
from .plan import CASES, PAIRINGS, STANDARD

THREADS = 2  # that the timed bars are stated for
FARTHEST = 2**24  # positions of the precision bar
THETAS = (1e4, 5e5, 1e6, 1e7)
MILLION = 2**20  # positions of the memory bar

Sense = Literal["at most", "at least"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A ratio that a measurement must hold, at the standard shape and on two threads.

    Attributes:
        case: a name of CASES.
        dtype: of q and k.
        pairing: of the rope.
        row: whose row is looked at.
        ratio: the field of the row.
        sense: "at most" or "at least".
        limit: the bar.
        aim: what is aimed at rather than promised.
    """

    case: str
    dtype: str
    pairing: str
    row: str
    ratio: Literal["to_clone", "to_copy", "to_ours"]
    sense: Sense
    limit: float
    aim: bool = False

    @property
    def words(self) -> str:
        """What it says, for people."""
        over = {"to_clone": "torch.clone", "to_copy": "copy_", "to_ours": OURS}[self.ratio]
        return f"{self.case}, {self.dtype}, {self.pairing}: {self.row} ÷ {over}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One bar and what was measured.

    Attributes:
        words: what the bar says.
        sense: "at most" or "at least".
        limit: the bar.
        value: what was measured; None where it was not.
        ok: whether it holds; None where that cannot be said.
        why: why it cannot be said; else empty.
        aim: what is aimed at rather than promised.
    """

    words: str
    sense: Sense
    limit: float
    value: float | None
    ok: bool | None
    why: str = ""
    aim: bool = False


def _bars() -> tuple[Bar, ...]:
    def bar(case: str, dtype: str, pairing: str, row: str, ratio: Any, sense: Sense, limit: float, **rest: Any) -> Bar:
        return Bar(case=case, dtype=dtype, pairing=pairing, row=row, ratio=ratio, sense=sense, limit=limit, **rest)

    against_clone = (
        ("float32", "half", 1.25, 0.35),
        ("float32", "interleaved", 1.25, 0.35),
        ("bfloat16", "half", 1.5, 0.6),
        ("bfloat16", "interleaved", 1.6, 0.5),
    )
    against_peers = (
        ("out-of-place", "transformers", 4.5, 8.0),
        ("out-of-place", "torch-compile", 2.0, 2.5),
        ("backward", "transformers", 3.5, 8.0),
        ("decode", "transformers", 3.0, 3.0),
        ("decode-ragged", "transformers", 5.0, 5.0),
    )
    found = []
    for dtype, pairing, out_of_place, in_place in against_clone:
        found.append(bar("out-of-place", dtype, pairing, OURS, "to_clone", "at most", out_of_place))
        found.append(bar("in-place", dtype, pairing, OURS, "to_clone", "at most", in_place))
        found.append(bar("in-place", dtype, pairing, OURS, "to_copy", "at most", 1.0, aim=True))
    for case, row, float32, bfloat16 in against_peers:
        found.append(bar(case, "float32", "half", row, "to_ours", "at least", float32))
        found.append(bar(case, "bfloat16", "half", row, "to_ours", "at least", bfloat16))
    return tuple(found)


BARS = _bars()


def judge(measurements: Iterable[Measurement]) -> list[Verdict]:
    """Hold measurements against every bar, the timed ones and those that need no clock."""
    by_kind = {(one.case, one.dtype, one.pairing): one for one in measurements}
    timed = [_judge_one(bar, by_kind.get((bar.case, bar.dtype, bar.pairing))) for bar in BARS]
    return timed + [_verdict(words, limit, worked_out()) for words, limit, worked_out in WITHOUT_CLOCK]


def _judge_one(bar: Bar, measured: Measurement | None) -> Verdict:
    row = measured.row(bar.row) if measured else None
    spread = getattr(row, bar.ratio) if row else None
    value, ok, why = None, None, ""
    if measured is None:
        why = "not measured in this run"
    elif spread is None:
        why = measured.skipped.get(bar.row, "no number: parity is red" if row else "not asked for")
    else:
        value, threads = spread.median, torch.get_num_threads()
        shape = CASES[bar.case].shape(STANDARD)
        if (list(measured.q), list(measured.k)) != (shape.q, shape.k):
            why = f"stated for q {shape.q} and k {shape.k}"
        elif threads != THREADS:
            why = f"stated for {THREADS} threads, measured on {threads}"
        else:
            ok = value <= bar.limit if bar.sense == "at most" else value >= bar.limit
    return Verdict(words=bar.words, sense=bar.sense, limit=bar.limit, value=value, ok=ok, why=why, aim=bar.aim)


def _verdict(words: str, limit: float, value: float) -> Verdict:
    return Verdict(words=words, sense="at most", limit=limit, value=value, ok=value <= limit)


def farthest_error() -> float:
    """Give the largest absolute error of float32 output against float64, over positions to 16,777,216."""
    far = np.geomspace(1, FARTHEST, 240).astype(np.int64)
    ids = np.unique(np.concatenate([np.arange(32), far, np.arange(FARTHEST - 240, FARTHEST + 1)]))
    x = torch.randn(1, len(ids), 3, 128, generator=torch.Generator().manual_seed(SEED))
    worst = 0.0
    for theta in THETAS:
        for pairing in PAIRINGS:
            rope = Rope(head_dim=128, rope_theta=theta, pairing=pairing)
            with torch.no_grad():
                turned, _ = Rotary(rope)(x, x, torch.from_numpy(ids)[None])
            off = np.abs(turned.double().numpy() - naive.rotate(x.double().numpy(), ids, rope))
            worst = max(worst, float(off.max()))
    return worst


def table_megabytes() -> float:
    """Give what is kept, in MB, after tokens at positions all over 0 … 1,048,575 were turned by a rope never seen."""
    ids = torch.randperm(MILLION, generator=torch.Generator().manual_seed(SEED))[None, :4096].contiguous()
    ids[0, -1] = MILLION - 1
    x = torch.ones(1, 4096, 1, 128)
    seen, unseen = 1e6, 1e6 + float(np.random.default_rng().uniform(1, 1e5))

    def turn(theta: float) -> None:
        rotary = Rotary(Rope(head_dim=128, rope_theta=theta, pairing="half"))
        with torch.no_grad():
            for _ in range(3):  # tables are built once the work is worth them
                rotary(x, x, ids)

    running = tracemalloc.is_tracing()
    turn(seen)  # whatever is loaded or cached on a first call
    if not running:
        tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        turn(unseen)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        if not running:
            tracemalloc.stop()
    return (after - before) / 1e6


def saved_bytes() -> float:
    """Give the bytes that autograd keeps for the backward pass, beside the positions themselves."""
    ids = torch.arange(64)[None]
    q, k = (torch.ones(1, 64, heads, 128, requires_grad=True) for heads in (4, 2))
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    rotary = Rotary(Rope(head_dim=128, rope_theta=1e4, pairing="half"))
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        rotary(q, k, ids)
    return float(sum(one.numel() * one.element_size() for one in kept if one.data_ptr() != ids.data_ptr()))


WITHOUT_CLOCK: tuple[tuple[str, float, Callable[[], float]], ...] = (
    ("float32 against float64, positions to 16,777,216, theta 1e4 to 1e7: largest error", 1e-6, farthest_error),
    ("table memory of 1,048,576 positions, head_dim 128: MB", 8.0, table_megabytes),
    ("saved for backward: bytes beside the positions", 0.0, saved_bytes),
)


def missed(verdicts: Sequence[Verdict]) -> bool:
    """Whether a bar is missed (aims do not count), or no timed bar could be judged at all."""
    promised = [one for one in verdicts if not one.aim]
    return any(one.ok is False for one in promised) or all(one.ok is None for one in promised[: -len(WITHOUT_CLOCK)])
