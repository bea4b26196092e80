"""What a decoder is asked: the same tokens on two roads that must agree, and which wrong positions explain a gap."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..positions.text import from_mask, next_positions
from ._evidence import Evidence
from .decoding_calls import Caller
from .decoding_shifts import gaps, named, of_steps

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
    """

    caller: Caller
    room: float
    vocab: int
    pad: int
    length: int
    hooks_need_positions: bool = False
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
            if not gap.words and gap.searched:
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
        if candidates is not None and "ids" in self.caller.prefill_takes.names:
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
            searched=candidates is not None and "ids" in self.caller.prefill_takes.names,
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


def stepwise(asker: Asker) -> None:
    """Ask whether one token at a time gives what all at once do."""
    for with_ids in asker.modes():
        for start in (asker.length // 2 - 2, 1):

            def road(seed: int, start: int = start, with_ids: bool = with_ids) -> Iterator[Gap]:
                tokens = asker.tokens(seed)
                _, cache = asker.prompt(tokens[None], start, with_ids)
                got = asker.onward(tokens[None], cache, start, with_ids)[0]
                gap = asker.compare(tokens, got, start, lambda: of_steps(len(tokens), start), from_token=start)
                yield from [gap] if gap is not None else []

            question = f"prefill {start}, then one token a step{manner(with_ids, asker.caller)}"
            if not asker.ask("stepwise-differs", question, road):
                asker.broken.add(with_ids)


def windows(asker: Asker, sizes: Iterable[int]) -> None:
    """Ask whether windows of several tokens give what all at once do."""
    ways = [("step", False)] + ([("prefill", True)] if "cache" in asker.caller.prefill_takes.names else [])
    for way, by_prefill in ways:
        for with_ids in asker.modes():
            for size in sizes:
                if by_prefill is False and not _takes_windows(asker, size, with_ids):
                    asker.left.append((f"windows of {size} tokens by step", "step takes one token at a time"))
                    break

                def road(
                    seed: int, size: int = size, by_prefill: bool = by_prefill, with_ids: bool = with_ids
                ) -> Iterator[Gap]:
                    tokens = asker.tokens(seed)
                    _, cache = asker.prompt(tokens[None], 3, with_ids)
                    got = asker.onward(tokens[None], cache, 3, with_ids, window=size, by_prefill=by_prefill)
                    if got.shape[1] != len(tokens) - 3:  # the last token of each window alone
                        ends = [min(end, len(tokens)) - 1 for end in range(3 + size, len(tokens) + size, size)]
                        right = asker.caller.whole(tokens)
                        gap = asker.compare(tokens[ends], got[0], 0, right=right[ends])
                    else:
                        gap = asker.compare(
                            tokens, got[0], 3, lambda: of_steps(len(tokens), 3, window=size), from_token=3
                        )
                    yield from [gap] if gap is not None else []

                question = f"prefill 3, then windows of {size} by {way}{manner(with_ids, asker.caller)}"
                asker.ask("stepwise-differs", question, road)


def _takes_windows(asker: Asker, size: int, with_ids: bool) -> bool:
    from .box import BoxFailure

    tokens = asker.tokens(99)[None]
    try:
        _, cache = asker.prompt(tokens, 3, with_ids)
        out = asker.onward(tokens[:, : 3 + size], cache, 3, with_ids, window=size)
    except BoxFailure:
        return False
    return out.shape[1] in (1, size)


def rows_together(asker: Asker) -> None:
    """Ask whether rows of one length, prefilled and stepped together, give what each does alone."""
    for with_ids in asker.modes():

        def road(seed: int, with_ids: bool = with_ids) -> Iterator[Gap]:
            rows = np.stack([asker.tokens(seed + 20 * row) for row in range(3)])
            start = asker.length // 2
            out, cache = asker.prompt(rows, start, with_ids)
            got = asker.onward(rows, cache, start, with_ids)
            for row, tokens in enumerate(rows):
                words, begin = f"row {row} of 3: ", start if out.shape[1] != start else 0
                both = got[row] if begin else np.concatenate([out[row], got[row]])
                gap = asker.compare(
                    tokens, both, start, lambda tokens=tokens: of_steps(len(tokens), start), row=words, from_token=begin
                )
                yield from [gap] if gap is not None else []

        question = f"three rows of one length together{manner(with_ids, asker.caller)}"
        if not asker.ask("rows-share-positions", question, road):
            asker.rows_broken.add(with_ids)


def padded(asker: Asker, *, right: bool = False) -> None:
    """Ask whether rows of unlike length, padded to one, give what each does alone: the prompt, then each step."""
    caller, side = asker.caller, "right" if right else "left"
    if not caller.both_take("mask"):
        asker.left.append((f"{side} padding", "prefill and step do not both take attention_mask"))
        return
    total = asker.length - 4
    lengths = (total - 3, total, total - 5)
    told = caller.both_take("ids")
    for with_ids in asker.modes():
        if with_ids in asker.rows_broken or (right and told and not with_ids):
            continue
        severity = "warning" if told and not with_ids else None
        words = f"rows of {', '.join(map(str, lengths))} tokens, {side}-padded{manner(with_ids, caller)}"

        def prompt(seed: int, with_ids: bool = with_ids) -> Iterator[Gap]:
            rows, mask = _padded_rows(asker, lengths, seed, right)
            out, _ = caller.prefill(rows, mask=mask, ids=from_mask(mask) if with_ids else None)
            if out.shape[1] != rows.shape[1]:
                out = np.where(np.arange(total)[None, :, None] == total - 1, out, np.nan)
            for row, kept in enumerate(mask.astype(bool)):
                place = np.flatnonzero(kept)
                got = out[row, place]
                begin = 0 if np.isfinite(got).all() or not np.isnan(out).any() else len(place) - 1
                if begin and right:
                    continue
                gap = asker.compare(
                    asker.tokens(seed + 20 * row)[: lengths[row]],
                    got[begin:],
                    0,
                    lambda row=row, mask=mask: _of_prompt(mask, row),
                    row=f"row {row} ({total - lengths[row]} padding): ",
                    from_token=begin,
                )
                if gap is not None and not gap.words:
                    ids = from_mask(mask)[row]
                    gap = _attended(asker, rows[row], ids, kept, got[begin:], gap)
                yield from [gap] if gap is not None else []

        def steps(seed: int, with_ids: bool = with_ids) -> Iterator[Gap]:
            rows, mask = _padded_rows(asker, lengths, seed, right)
            _, cache = caller.prefill(rows, mask=mask, ids=from_mask(mask) if with_ids else None)
            more = np.stack([asker.tokens(seed + 20 * row)[size : size + 4] for row, size in enumerate(lengths)])
            got = _steps(asker, more, cache, mask, with_ids)
            yield from _against_alone(asker, lengths, seed, got, total)

        fine = asker.ask("padding-shifts-positions", words, prompt, severity=severity)
        if fine:  # steps after a prompt that is wrong tell nothing
            asker.ask("rows-share-positions", f"{words}, then one token a step", steps, severity=severity)


def merged(asker: Asker) -> None:
    """Ask whether caches of sequences decoded alone, merged, go on as each did alone."""
    caller = asker.caller
    if not caller.has("merge"):
        asker.left.append(("merged caches", "no merge was given"))
        return
    lengths = (asker.length - 5, asker.length - 9)
    for with_ids in asker.modes():
        if with_ids in asker.rows_broken or (asker.hooks_need_positions and not with_ids):
            continue

        def road(seed: int, with_ids: bool = with_ids) -> Iterator[Gap]:
            caches, all_tokens = [], [asker.tokens(seed + 20 * row) for row in range(2)]
            for tokens, size in zip(all_tokens, lengths, strict=True):
                _, cache = asker.prompt(tokens[None], size - 2, with_ids)
                for place in (size - 2, size - 1):
                    mask = np.ones((1, place + 1), np.int64)
                    ids = np.array([[place]]) if with_ids else None
                    _, cache = caller.step(tokens[None, place : place + 1], cache, mask=mask, ids=ids)
                caches.append(cache)
            width = max(lengths)
            mask = (np.arange(width)[None] >= width - np.array(lengths)[:, None]).astype(np.int64)
            more = np.stack([tokens[size : size + 4] for tokens, size in zip(all_tokens, lengths, strict=True)])
            got = _steps(asker, more, caller.hook("merge", caches), mask, with_ids)
            yield from _against_alone(asker, lengths, seed, got, width)

        question = f"sequences of {lengths[0]} and {lengths[1]} tokens, merged{manner(with_ids, caller)}"
        asker.ask("merged-cache-differs", question, road)


def _steps(asker: Asker, more: NDArray, cache: Any, mask: NDArray, with_ids: bool) -> NDArray:
    """Give the outputs [B, N, V] of the tokens [B, N] that follow rows of unlike length, a step each."""
    outs = []
    for place in range(more.shape[1]):
        ids = next_positions(mask) if with_ids else None
        mask = np.concatenate([mask, np.ones((len(mask), 1), np.int64)], axis=1)
        out, cache = asker.caller.step(more[:, place : place + 1], cache, mask=mask, ids=ids)
        outs.append(out)
    return np.concatenate(outs, axis=1)


def _against_alone(asker: Asker, lengths: tuple[int, ...], seed: int, got: NDArray, width: int) -> Iterator[Gap]:
    for row, size in enumerate(lengths):
        tokens = asker.tokens(seed + 20 * row)[: size + got.shape[1]]
        pad = width - size
        gap = asker.compare(
            tokens,
            got[row],
            size,
            lambda tokens=tokens, size=size, pad=pad: _of_rows(len(tokens), size, pad, lengths),
            row=f"row {row} ({size} tokens, {pad} padding): ",
            from_token=size,
        )
        yield from [gap] if gap is not None else []


def _of_rows(total: int, size: int, pad: int, lengths: tuple[int, ...]) -> Iterator[tuple[str, NDArray]]:
    right = np.arange(total)
    longest = max(lengths)
    for other, words in (
        (longest, "the longest row's"),
        (lengths[0], "the first row's"),
        (min(lengths), "the shortest"),
    ):
        if other != size:
            ids = np.where(right >= size, right + other - size, right)
            yield f"the steps take {words} position, a shift by {other - size}, for every row", ids
    yield from of_steps(total, size, pad=pad)


def _padded_rows(asker: Asker, lengths: tuple[int, ...], seed: int, right: bool) -> tuple[NDArray, NDArray]:
    width = max(lengths)
    rows = np.full((len(lengths), width), asker.pad, np.int64)
    mask = np.zeros_like(rows)
    for row, size in enumerate(lengths):
        place = slice(0, size) if right else slice(width - size, width)
        rows[row, place], mask[row, place] = asker.tokens(seed + 20 * row)[:size], 1
    return rows, mask


def _of_prompt(mask: NDArray, row: int) -> Iterator[tuple[str, NDArray]]:
    """Give what the positions of a padded prompt may have been mistaken for."""
    kept = mask[row].astype(bool)
    for other in range(len(mask)):
        if other != row:
            yield f"the row has the positions of row {other}", from_mask(mask[other : other + 1])[0][kept]
    size = int(kept.sum())
    yield "all its tokens share a position", np.zeros(size, np.int64)
    yield "positions run backwards", np.arange(size)[::-1].copy()


def _attended(asker: Asker, tokens: NDArray, ids: NDArray, kept: NDArray, got: NDArray, gap: Gap) -> Gap:
    """Say whether the padding was attended to, where no positions explain the gap."""
    for given in [None] + ([ids] if "ids" in asker.caller.prefill_takes.names else []):
        everything = asker.caller.whole(tokens, given)[kept][-len(got) :]
        if gaps(got, everything).max() <= 2 * asker.room:
            return replace(gap, words="the padding were tokens: it is not masked")
    return gap
