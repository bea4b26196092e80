"""How to ask a function about a position: plainly where it keeps to the rules, around its faults where it does not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .box import Box, BoxFailure

MAX_NUMBERS = 4_000_000  # of one call
FIRST_IDS = (3, 1, 4, 1, 7)  # one position twice, none in its own place


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Which position a token is really turned by, and where turned vectors can be read.

    Attributes:
        kind: "ids": by its own id, as it should be; "arange": by its place in the call; "first": all tokens of a call
            by the first id; "heads": by the number of the head; "head-ids": a head by the id in its own place;
            "constant": none of them matters.
        heads: the heads that turn.
        still_heads: those that do not, while others do.
        heads_alike: whether all heads give the same.
        rows_alike: whether all rows give the same.
    """

    kind: str
    heads: tuple[int, ...]
    still_heads: tuple[int, ...] = ()
    heads_alike: bool
    rows_alike: bool


@dataclass(slots=True)
class Asker:
    """Gives the images of vectors at positions, in whichever manner the function can be asked."""

    box: Box
    manner: Manner
    whole_batches: bool = False

    def images(self, vectors: NDArray[np.float64], ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Give [N, K, D]: what becomes of each of the vectors [N, D] at each position.

        Args:
            vectors: [N, D].
            ids: [K], or [N, K] with the vectors' own positions, or [A, N, K].
        """
        count, places = len(vectors), ids.shape[-1]
        full = np.broadcast_to(ids, (self.box.axes, count, places))
        kind = self.manner.kind
        if kind == "first":
            tokens = len(FIRST_IDS)
            once = [self._grid(vectors, np.repeat(full[..., k : k + 1], tokens, -1))[:, :1] for k in range(places)]
            return np.concatenate(once, axis=1)
        if kind in ("heads", "head-ids"):
            return self._by_head(vectors, full)
        return self._grid(vectors, full)

    def _grid(self, vectors: NDArray[np.float64], ids: NDArray[np.int64]) -> NDArray[np.float64]:
        if not self.manner.rows_alike:
            return np.concatenate(
                [self._call(vectors[n : n + 1, None], ids[:, n : n + 1]) for n in range(len(vectors))]
            )
        heads = len(self.manner.heads)
        step = self.box.batch if self.whole_batches else max(MAX_NUMBERS // (ids.shape[-1] * self._width), 1)
        rows = -(-len(vectors) // heads)
        same = bool((ids == ids[:, :1]).all())
        if not same:  # every vector has positions of its own, and so a row of its own
            heads, rows = 1, len(vectors)
        padded = np.concatenate([vectors, np.zeros((rows * heads - len(vectors), vectors.shape[1]))])
        grouped = padded.reshape(rows, heads, -1)
        out = []
        for start in range(0, rows, step):
            block = grouped[start : start + step]
            places = ids[:, :1] if same else ids[:, start : start + step]
            short = step - len(block) if self.whole_batches else 0
            if short:
                block = np.concatenate([block, np.zeros((short, *block.shape[1:]))])
                places = places if same else np.concatenate([places, np.repeat(places[:, -1:], short, 1)], axis=1)
            try:
                turned = self._call(block, places)
            except BoxFailure as failure:
                if self.whole_batches or failure.failure.kind not in ("raised", "shape") or step == self.box.batch:
                    raise
                self.whole_batches = True
                try:
                    return self._grid(vectors, ids)
                except BoxFailure:
                    self.whole_batches = False
                    raise failure from None
            out.append(turned[: len(turned) - short * heads])
        return np.concatenate(out)[: len(vectors)]

    def _call(self, block: NDArray[np.float64], ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Turn [B, heads used, D] at [A, 1 or B, K] and give [B * heads used, K, D]."""
        rows, used, width = block.shape
        places = ids.shape[-1]
        x = np.zeros((rows, places, self.box.heads, width))
        heads = list(self.manner.heads[:used]) if used > 1 else [self.manner.heads[0]]
        x[:, :, heads] = block[:, None]
        given = np.broadcast_to(ids, (self.box.axes, rows, places))
        if self.box.axes == 1:
            given = given[0, 0] if ids.shape[1] == 1 else given[0]
        out = self.box.turn(x, given)[:, :, heads]
        return out.transpose(0, 2, 1, 3).reshape(rows * used, places, width)

    def _by_head(self, vectors: NDArray[np.float64], ids: NDArray[np.int64]) -> NDArray[np.float64]:
        places, heads = ids.shape[-1], self.box.heads
        x = np.repeat(np.repeat(vectors[:, None, None], heads, 1), heads, 2)
        out = []
        for start in range(0, places, heads):
            group = ids[:, :, start : start + heads]
            short = heads - group.shape[-1]
            group = np.concatenate([group, np.repeat(group[..., -1:], short, -1)], axis=-1)
            turned = self.box.turn(x, group if self.box.axes > 1 else group[0])
            out.append(turned[:, 0, : heads - short])
        return np.concatenate(out, axis=1)

    @property
    def _width(self) -> int:
        return self.box.heads * self.box.head_dim


def find_manner(box: Box, noise: float) -> Manner:
    """Find out by one call of equal vectors which position turns a token, and whether heads and rows are alike."""
    heads = box.heads
    tokens = heads if "tokens" in box.facts else len(FIRST_IDS)
    ids = np.resize(np.array(FIRST_IDS), tokens)
    rng = np.random.default_rng(1)
    vector = rng.integers(1, 9, size=box.head_dim) / 4.0 * rng.choice([-1.0, 1.0], size=box.head_dim)
    x = np.tile(vector, (max(box.batch, 2), tokens, heads, 1))
    out = box.turn(x, ids)
    tolerance = 16 * noise * float(np.abs(out).max() + np.abs(vector).max())

    def same(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
        return bool(np.abs(one - other).max() <= tolerance)

    still = [same(out[:, :, h], x[:, :, h]) for h in range(heads)]
    alike = all(same(out[:, :, h], out[:, :, 0]) for h in range(heads))
    rows = all(same(out[b], out[0]) for b in range(len(out)))
    turning = tuple(h for h in range(heads) if not still[h]) or tuple(range(heads))
    lead = turning[0]
    by_token = not same(out[0, :, lead], out[0, :1, lead])
    if not alike and not by_token:
        kind = "heads" if still[0] else "head-ids"
        return Manner(kind=kind, heads=tuple(range(heads)), heads_alike=False, rows_alike=True)
    kind = "ids"
    if not by_token:
        kind = _without_tokens(box, x, ids, out, same)
    elif tokens == len(FIRST_IDS) and not same(out[0, 1, lead], out[0, 3, lead]):
        kind = "arange"
    usable = turning if alike or len(turning) < heads else (0,)
    resting = tuple(h for h in range(heads) if still[h]) if len(turning) < heads else ()
    return Manner(kind=kind, heads=usable, still_heads=resting, heads_alike=alike, rows_alike=rows)


def _without_tokens(box, x, ids, out, same) -> str:  # type: ignore[no-untyped-def]
    """Tell a call turned by its first id from one that no position changes; slow pairs need a far position."""
    for first in (11, 700):
        try:
            other = box.turn(x, np.full_like(ids, first))
        except BoxFailure:
            break
        if not same(other, out):
            return "first"
    return "constant"
