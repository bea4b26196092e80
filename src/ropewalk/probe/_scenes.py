"""Calls whose ids a careless function misreads, and what each of them says."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pairs
from ._caller import Caller, Floats, by_head, gap, turned, vectors
from ._readings import readings
from .box import BoxFailure, Failure

Table = Callable[[NDArray], Pairs]

TOKENS = 11  # of an ordinary call: no likely number of heads, rows or cached tokens
GROWN = 239  # of a call longer than any before; its positions are still whole numbers in bfloat16
CLEARLY = 8.0  # how much better than the right reading a wrong one must fit
ROUGH = 0.05  # what bad precision alone may do to numbers of size 1 at these small positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One call and its answer.

    Attributes:
        name: what it is about.
        ids: [A, B, S].
        x: [B, S, H, D].
        out: the answer, or None where there was none.
        failure: why there was none.
    """

    name: str
    ids: NDArray
    x: Floats
    out: Floats | None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """How one scene is explained.

    Attributes:
        scene: the call.
        right: how far its answer is from the right reading of its ids, for numbers of size 1.
        wrong: by fault, how far it is from that reading, and the reading in words; only those that fit clearly better.
    """

    scene: Scene
    right: float
    wrong: dict[str, tuple[float, str]]

    @property
    def fits(self) -> bool:
        """Whether the ids were read as they should."""
        return not self.wrong and self.right <= self.allowed

    @property
    def allowed(self) -> float:
        """What bad precision alone may do here: an angle in bfloat16 is off by 2^-8 of its size, at most."""
        return ROUGH + 2.0**-8 * float(np.abs(self.scene.ids).max(initial=0))


def play(caller: Caller, room: int) -> list[Scene]:
    """Make the calls, in an order in which each could betray a table kept from one before.

    Args:
        caller: what is asked.
        room: positions stay below it.
    """
    scenes = [ask(caller, name, ids, uniform=name in _UNIFORM) for name, ids in _plots(caller, room)]
    again = next(scene for scene in scenes if scene.name == "first")
    return [*scenes, ask(caller, "again", again.ids, uniform=True)]


_UNIFORM = ("grown", "first", "offset")


def ask(caller: Caller, name: str, ids: NDArray, *, uniform: bool = False) -> Scene:
    """Make one call; uniform gives every head of every token the same vector, so that positions alone tell."""
    shape = (caller.batch, ids.shape[2], caller.heads, caller.box.head_dim)
    x = np.array(np.broadcast_to(vectors(shape[-1:]), shape)) if uniform else vectors(shape)
    try:
        return Scene(name=name, ids=ids, x=x, out=caller.turn(x, ids))
    except BoxFailure as failure:
        return Scene(name=name, ids=ids, x=x, out=None, failure=failure.failure)


def _plots(caller: Caller, room: int) -> Iterable[tuple[str, NDArray]]:
    rows = np.arange(caller.batch)[:, None] if caller.per_row else np.zeros((caller.batch, 1), int)

    def shaped(ids: Sequence[int] | NDArray, shift: int) -> NDArray:
        full = np.asarray(ids) + shift * rows
        full = np.where(full < room, full, full % room)
        return np.array(np.broadcast_to(full, (caller.axes, caller.batch, full.shape[1])))

    yield "grown", shaped(17 + np.arange(min(GROWN, max(TOKENS + 1, room - 17))), 0)
    yield "first", shaped(40 + np.arange(TOKENS), 7)
    yield "offset", shaped(3 + np.arange(TOKENS), 19)
    yield "shuffled", shaped([5, 3, 9, 9, 30, 0, 2, 17, 1, 8, 4], 2)
    # the first, last, least and largest id, and the sum, of "shuffled": a table kept under any of these betrays itself
    yield "same ends", shaped([5, 1, 7, 30, 6, 9, 0, 8, 11, 7, 4], 2)
    yield "packed", shaped([0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3], 0)
    yield "window", shaped([9, 10, 11, 12], 5)
    yield "one token", shaped([29], 0)
    if caller.per_row:
        yield "one token a row", shaped([31], 11)
        square = caller.batch if caller.batch > 1 else 2
        yield "rows as tokens", shaped(np.arange(square) * 2 + 6, 13)
    if caller.heads > 1:
        yield "heads as tokens", shaped(np.arange(caller.heads)[::-1] * 3 + 2, 5)
    negative = shaped([7, 0, 9, 3, 12], 0)
    negative[..., [1, 3]] = [-4, -9]
    yield "negative", negative


def react(caller: Caller, scene: Scene, tables: Sequence[Table], offset: float, earlier: Sequence[NDArray]) -> Reaction:
    """Say by which reading of its ids the answer of a scene comes about."""
    assert scene.out is not None
    tokens = scene.ids.shape[2]
    some = np.unique(np.concatenate([np.arange(min(6, tokens)), np.arange(max(0, tokens - 5), tokens)]))
    x, out = scene.x[:, some], scene.out[:, some]
    exact = 1e-4 + 100 * caller.box.resolution
    right, wrong = np.inf, {}
    for reading in readings(scene.ids, caller.heads, offset, earlier):
        if reading.name == "negative-ids" and not (scene.ids < 0).any():
            continue
        far = min(
            (gap(turned(x, table(scene.ids), reading.positions[:, :, some]), out) for table in tables), default=9.0
        )
        if reading.name == "right":
            right = far
            if right <= exact:
                break
        elif far * CLEARLY < right and far < wrong.get(reading.name, (np.inf, ""))[0]:
            wrong[reading.name] = (far, reading.words)
    best = min((far for far, _ in wrong.values()), default=np.inf)
    kept = {name: hit for name, hit in wrong.items() if hit[0] <= 3 * best + exact}
    return Reaction(scene=scene, right=right, wrong=kept)


def constant_offset(caller: Caller, scenes: Sequence[Scene], tables: Sequence[Table]) -> int:
    """Give the constant, up to 64, by which every position seems to be moved; 0 where there is none."""
    calls = [scene for scene in scenes if scene.name in ("first", "offset", "shuffled")]
    few = [(scene, scene.x[:1, :5, :1], scene.out[:1, :5, :1]) for scene in calls if scene.out is not None]

    def miss(shift: int) -> float:
        gaps = [
            max(gap(turned(x, table(s.ids), by_head(s.ids[:, :1, :5] + shift, 1)), out) for s, x, out in few)
            for table in tables
        ]
        return min(gaps)

    if len(few) < 3 or not tables:
        return 0
    unmoved = miss(0)
    if unmoved <= ROUGH:
        return 0
    best = min(range(-64, 65), key=miss)
    return best if miss(best) * CLEARLY < unmoved and miss(best) <= ROUGH else 0


def blame(reactions: Sequence[Reaction]) -> dict[str, list[Reaction]]:
    """Give the fewest faults that explain every misread scene, each with its scenes: what explains most comes first."""
    left = [reaction for reaction in reactions if reaction.wrong]
    found: dict[str, list[Reaction]] = {}
    while left:
        counts = Counter(name for reaction in left for name in reaction.wrong)
        most = max(counts.values())
        total = {
            name: sum(reaction.wrong[name][0] for reaction in left if name in reaction.wrong)
            for name in counts
            if counts[name] == most
        }
        name = min(total, key=lambda one: total[one])
        found[name] = [reaction for reaction in left if name in reaction.wrong]
        left = [reaction for reaction in left if name not in reaction.wrong]
    return found


def without_table(scenes: Sequence[Scene], resolution: float) -> tuple[str, str] | None:
    """Name a fault that shows without any table, from calls that gave every head and token the same vector."""
    calls = {scene.name: scene for scene in scenes if scene.name in _UNIFORM}
    outs = [scene.out for scene in calls.values()]
    if len(outs) < 3 or any(out is None for out in outs):
        return None
    grown, first, offset = (calls[name].out for name in _UNIFORM)
    assert grown is not None and first is not None and offset is not None
    near = 1e-4 + 32 * resolution
    unchanged = [gap(scene.x, scene.out) <= near for scene in calls.values() if scene.out is not None]
    if all(unchanged):
        return "identity", "no token at all"
    if gap(first, offset) <= near:  # other ids, same answer
        if gap(first[:, 1:], first[:, :-1]) <= near and gap(first[:, :, :1], first) > near:
            return "head-axis", "each head by its place"
        if gap(grown[:, : first.shape[1]], first) <= near:
            return "ids-ignored", "each token by its place in the call"
        return "stale-table", "the positions of an earlier call"
    if gap(first[:, 1:], first[:, :-1]) <= near and gap(offset[:, 1:], offset[:, :-1]) <= near:
        return "window-constant", "all tokens of a call by one id"
    if first.shape[2] > 1 and gap(first[:, :, 1:], calls["first"].x[:, :, 1:]) <= near:
        return "first-head-only", "the first head alone"
    return None
