"""How a decoder is asked: outputs on two roads compared, twice where they part, and wrong positions tried on them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._evidence import Evidence
from .decoding_calls import Caller
from .decoding_shifts import gaps, named

Candidates = Iterable[tuple[str, NDArray]]
RIGHT = {
    "stepwise-differs": "tokens given one by one, or in windows, give what they give all at once",
    "padding-shifts-positions": "a padded row gives what it gives alone",
    "rows-share-positions": "each row of a batch goes on from its own length",
    "merged-cache-differs": "rows merged into one batch go on as each did alone",
    "eviction-breaks-distances": "what stays in the cache keeps its distance to the tokens that come",
    "state-leaks": "a sequence gives the same whatever was decoded before or meanwhile",
    "cached-keys-keep-table": "one table for all keys of a sequence: keys cached before, turned again",
}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """One row on two roads: where the outputs part, by how much, and the positions that would explain it."""

    row: str
    token: int
    size: float
    tokens: int
    of: int
    got: NDArray = field(repr=False)
    searched: bool = False
    words: str = ""
    ids: tuple[int, ...] = ()

    def seen(self) -> str:
        """Say it in words."""
        share = "every token" if self.tokens == self.of else f"{self.tokens} of {self.of} tokens"
        told = f"{self.row}outputs part at token {self.token}, {share} from there, by up to {self.size:.3g}"
        if self.words:
            return f"{told}; as if {self.words}"
        return f"{told}; no one shift of positions explains it" if self.searched else told


@dataclass(kw_only=True)
class Asker:
    """The questions put to one decoder; `asked` holds the evidence, `left` what could not be asked.

    Args:
        caller: the decoder.
        room: the largest gap of rounding, relative to the outputs.
        vocab: tokens are below it.
        pad: the token that pads.
        length: tokens of a sequence.
        hooks_need_positions: after a hook positions are always given.
        searching: whether positions that explain a gap are looked for.
    """

    caller: Caller
    room: float
    vocab: int
    pad: int
    length: int
    hooks_need_positions: bool = False
    searching: bool = True
    asked: list[Evidence] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    seeds: int = 0
    largest: float = 0.0
    broken: set[bool] = field(default_factory=set)
    rows_broken: set[bool] = field(default_factory=set)

    def modes(self) -> list[bool]:
        """Give the ways of giving positions in which one row alone is right: none given, and given by us."""
        own = [] if self.caller.needs("ids") else [False]
        ways = own + ([True] if self.caller.both_take("ids") else [])
        return [one for one in ways if one not in self.broken]

    def tokens(self, seed: int, length: int | None = None) -> NDArray:
        """Give one sequence of tokens, none the padding, neighbours unlike."""
        chosen = np.random.default_rng(1000 + seed).permutation(np.delete(np.arange(self.vocab), self.pad % self.vocab))
        return np.resize(chosen, self.length if length is None else length).astype(np.int64)

    def ask(
        self,
        name: str,
        question: str,
        road: Callable[[int], Iterator[Gap]],
        *,
        severity: str | None = None,
        once: bool = False,
    ) -> bool:
        """Ask on one road, and where it differs again with other tokens; keep the evidence, give whether it is fine."""
        self.largest = 0.0
        gap = next(road(self.seeds), None)
        largest = self.largest
        if gap is not None and not once:  # a single token may fall on the other side of a router's or an argmax's edge
            again = next(road(self.seeds + 7), None)
            gap = None if again is None else gap if gap.words or not again.words else again
        detail: dict[str, Any] = {"question": question, "gap": largest}
        if severity is not None:
            detail["severity"] = severity
        seen = "as it should"
        if gap is not None:
            detail |= {"token": gap.token, "gap": gap.size, "as_if": gap.words, "ids": list(gap.ids)}
            seen = gap.seen()
            if not gap.words and name != "cached-keys-keep-table":
                name, seen = self._told_twice(name, seen, road)
        self.seeds += 1
        self.asked.append(Evidence(name=name, ok=gap is None, seen=seen, right=RIGHT[name], detail=detail))
        return gap is None

    def _told_twice(self, name: str, seen: str, road: Callable[[int], Iterator[Gap]]) -> tuple[str, str]:
        """Tell a gap that is not the same twice, which lies in a state, from one that is."""
        first, second = (next(road(self.seeds), None) for _ in range(2))
        if first is None or second is None:
            return "state-leaks", f"{seen}; when it is asked again, it does not"
        if first.got.shape == second.got.shape:
            apart = float(gaps(first.got, second.got).max())
            if apart > self.room:
                return "state-leaks", f"{seen}; the same calls made twice differ by {apart:.3g}"
        return name, seen

    def compare(
        self,
        tokens: NDArray,
        got: NDArray,
        start: int,
        candidates: Callable[[], Candidates] | None = None,
        *,
        row: str = "",
        right: NDArray | None = None,
        from_token: int = 0,
        ids: NDArray | None = None,
        whole: Callable[[NDArray], NDArray] | None = None,
    ) -> Gap | None:
        """Give the gap between outputs [S, V] and those of the same tokens alone, or None.

        Args:
            tokens: the sequence [S].
            got: the decoder's outputs, from from_token on.
            start: the first token that candidates differ at.
            candidates: wrong positions that may explain a gap.
            row: which row of a batch it is, in words.
            right: what is right; None: the outputs of the tokens alone.
            from_token: the place of got's first token in the sequence.
            ids: the positions that are right; None: 0, 1, 2 ….
            whole: gives the outputs [S, V] at other ids; None: of the tokens alone.
        """
        at = whole or (lambda ids: self.caller.whole(tokens, ids))
        right = (self.caller.whole(tokens, ids) if right is None else right)[from_token:]
        apart = gaps(got, right)
        self.largest = max(self.largest, float(apart.max()))
        wrong = np.flatnonzero(apart > self.room)
        if not wrong.size:
            return None
        first = int(wrong[0])
        found = None
        searched = self.searching and candidates is not None and "ids" in self.caller.prefill_takes.names
        if searched and candidates is not None:
            skipped = max(start - from_token, 0)
            found = named(got, skipped, candidates(), lambda ids: at(ids.astype(np.int64))[from_token:], self.room)
        words, seen = found if found is not None else ("", np.arange(0))
        return Gap(
            row=row,
            token=first + from_token,
            size=float(apart.max()),
            tokens=int(wrong.size),
            of=len(apart) - first,
            got=got,
            searched=searched,
            words=words,
            ids=tuple(int(one) for one in seen),
        )

    def onward(
        self, tokens: NDArray, cache: Any, start: int, with_ids: bool, *, window: int = 1, by_prefill: bool = False
    ) -> NDArray:
        """Give the outputs [B, S - start, V] of the tokens [B, S] from start on, one window at a time."""
        outs = []
        for begin in range(start, tokens.shape[1], window):
            end = min(begin + window, tokens.shape[1])
            rows = np.broadcast_to(np.arange(begin, end), (len(tokens), end - begin)) if with_ids else None
            mask = np.ones((len(tokens), end), np.int64)
            if by_prefill:
                out, cache = self.caller.prefill(tokens[:, begin:end], cache=cache, mask=mask, ids=rows)
            else:
                out, cache = self.caller.step(tokens[:, begin:end], cache, mask=mask, ids=rows)
            outs.append(out)
        return np.concatenate(outs, axis=1)

    def prompt(self, tokens: NDArray, start: int, with_ids: bool) -> tuple[NDArray, Any]:
        """Give prefill's answer to the first tokens of [B, S]."""
        rows = np.broadcast_to(np.arange(start), (len(tokens), start)) if with_ids else None
        return self.caller.prefill(tokens[:, :start], ids=rows)


def manner(with_ids: bool, caller: Caller) -> str:
    """Say how positions are given, where there are two ways."""
    return "" if not caller.both_take("ids") else ", position_ids given" if with_ids else ", no position_ids given"
