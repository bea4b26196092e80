"""What a decoder is asked about its memory: eviction, other sequences before and between, a table that changes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .decoding_asking import Asker, Gap, manner
from .decoding_shifts import gaps, of_steps


def evicted(asker: Asker) -> None:
    """Ask whether tokens taken out of the cache leave the others at their distances.

    What is right is what the same step gives while the tokens are still in the cache and hidden from it by the mask:
    exact at any depth. Without masks or positions to give, only what nobody has seen is taken out: the end, or a
    prefix that was masked from the start.
    """
    caller = asker.caller
    if not caller.has("evict"):
        asker.left.append(("eviction", "no evict was given"))
        return
    name = "eviction-breaks-distances"
    for with_ids in asker.modes():
        words = manner(with_ids, caller)
        road = _road(asker, _rolled_back, with_ids)
        asker.ask(name, f"the last 3 tokens taken back{words}", road)
        if asker.hooks_need_positions and not with_ids:
            continue
        if not caller.both_take("mask"):
            asker.left.append(("eviction of a prefix", "prefill and step do not both take attention_mask"))
        elif caller.both_take("ids") and _hides(asker):
            road = _road(asker, _dropped, with_ids, 0)
            asker.ask(name, f"the first 4 tokens dropped{words}", road)
            road = _road(asker, _dropped, with_ids, 2)
            asker.ask(name, f"2 tokens kept at the start, the 4 after them dropped{words}", road)
        else:
            asker.ask(name, f"a masked prefix of 4 dropped{words}", _road(asker, _dropped_padding, with_ids))
            asker.left.append(("eviction of tokens that were attended to", "step does not take positions and masks"))


def _road(asker: Asker, question: Callable[..., Iterator[Gap]], *given: Any) -> Callable[[int], Iterator[Gap]]:
    return lambda seed: question(asker, seed, *given)


def _hides(asker: Asker) -> bool:
    """Whether a mask given to step hides what is in the cache."""
    tokens = asker.tokens(60)
    both = [_hidden(asker, tokens, hidden, None) for hidden in (np.arange(4), np.arange(0))]
    return float(gaps(*both).max()) > 2 * asker.room


def _hidden(asker: Asker, tokens: NDArray, hidden: NDArray, ids: NDArray | None) -> NDArray:
    """Give the outputs [4, V] of the last 4 tokens, from which tokens in the cache are hidden by the mask."""
    prompt = len(tokens) - 4
    _, cache = asker.prompt(tokens[None], prompt, True)
    places = np.arange(prompt, len(tokens)) if ids is None else ids
    outs = []
    for place in range(4):
        mask = np.ones((1, prompt + place + 1), np.int64)
        mask[0, hidden] = 0
        given = tokens[None, prompt + place : prompt + place + 1]
        out, cache = asker.caller.step(given, cache, mask=mask, ids=places[None, place : place + 1])
        outs.append(out[0])
    return np.concatenate(outs)


def _evict(asker: Asker, cache: Any, keep: NDArray, seen: int) -> tuple[Any, int]:
    """Give the cache without what is not kept, and the position of the next token."""
    answer = asker.caller.hook("evict", cache, keep)
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], int | np.integer):
        return answer[0], int(answer[1])
    return answer, seen


def _rolled_back(asker: Asker, seed: int, with_ids: bool) -> Iterator[Gap]:
    tokens, other = asker.tokens(seed), asker.tokens(seed + 20)
    start = asker.length - 5
    tried = np.concatenate([tokens[:start], other[:3]])[None]
    _, cache = asker.prompt(tried, start + 3, with_ids)
    cache, begin = _evict(asker, cache, np.arange(start), start)
    got = _onward(asker, tokens[None, start:], cache, start, begin if with_ids else None)
    gap = asker.compare(tokens, got[0], start, lambda: _of_evicted(len(tokens), start, 3), from_token=start)
    yield from [gap] if gap is not None else []


def _dropped(asker: Asker, seed: int, with_ids: bool, sinks: int) -> Iterator[Gap]:
    tokens, dropped = asker.tokens(seed), np.arange(sinks, sinks + 4)
    prompt = len(tokens) - 4
    keep = np.delete(np.arange(prompt), dropped)
    _, cache = asker.prompt(tokens[None], prompt, with_ids)
    cache, begin = _evict(asker, cache, keep, prompt)
    if sinks and begin != prompt:  # keys were moved together: what was seen before was another sequence
        return
    got = _onward(asker, tokens[None, prompt:], cache, len(keep), begin if with_ids else None)[0]
    gap = asker.compare(
        tokens[prompt:],
        got,
        0,
        lambda: ((words, ids[prompt:]) for words, ids in _of_evicted(len(tokens), prompt, 4)),
        right=_hidden(asker, tokens, dropped, None),
        whole=lambda ids: _hidden(asker, tokens, dropped, ids),
    )
    yield from [replace(gap, token=gap.token + prompt)] if gap is not None else []


def _dropped_padding(asker: Asker, seed: int, with_ids: bool) -> Iterator[Gap]:
    tokens, prompt = asker.tokens(seed), asker.length - 4
    keep = np.arange(4, prompt)
    mask = (np.arange(prompt)[None] >= 4).astype(np.int64)
    rows = np.arange(prompt)[None] if with_ids else None
    _, cache = asker.caller.prefill(tokens[None, :prompt], mask=mask, ids=rows)
    cache, begin = _evict(asker, cache, keep, prompt)
    got = _onward(asker, tokens[None, prompt:], cache, len(keep), begin if with_ids else None)[0]
    rest = tokens[4:]
    gap = asker.compare(rest, got, len(keep), lambda: _of_evicted(len(rest), len(keep), 4), from_token=len(keep))
    yield from [gap] if gap is not None else []


def _of_evicted(total: int, start: int, dropped: int) -> Iterator[tuple[str, NDArray]]:
    right = np.arange(total)
    after = right >= start
    words = "the rows left in the cache were taken for the position"
    yield f"a shift by -{dropped}: {words}", np.where(after, right - dropped, right)
    yield f"a shift by {dropped}: the tokens taken out are counted on", np.where(after, right + dropped, right)
    yield from of_steps(total, start)


def _onward(asker: Asker, tokens: NDArray, cache: Any, held: int, begin: int | None) -> NDArray:
    """Give the outputs of tokens [1, N], a step each, after a cache of held tokens."""
    outs = []
    for place in range(tokens.shape[1]):
        mask = np.ones((1, held + place + 1), np.int64)
        ids = None if begin is None else np.array([[begin + place]])
        out, cache = asker.caller.step(tokens[:, place : place + 1], cache, mask=mask, ids=ids)
        outs.append(out)
    return np.concatenate(outs, axis=1)


def forgets(asker: Asker, longest: int) -> None:
    """Ask whether a sequence gives the same after others, after a long one, and while another is decoded."""
    for with_ids in asker.modes():
        words = manner(with_ids, asker.caller)
        asker.ask(
            "state-leaks",
            f"one sequence, another of {longest} tokens, the first again{words}",
            lambda seed, with_ids=with_ids: _restarted(asker, seed, with_ids, longest),
        )
        asker.ask(
            "state-leaks",
            f"two sequences decoded in turns{words}",
            lambda seed, with_ids=with_ids: _in_turns(asker, seed, with_ids),
        )


def _restarted(asker: Asker, seed: int, with_ids: bool, longest: int) -> Iterator[Gap]:
    tokens, start = asker.tokens(seed)[: asker.length - 2], asker.length // 2 - 1
    before = asker.caller.whole(tokens)
    long = asker.tokens(seed + 20, longest)[None]
    _, cache = asker.prompt(long, longest - 2, with_ids)
    asker.onward(long, cache, longest - 2, with_ids)
    after = asker.caller.anew(tokens, np.arange(len(tokens)) if with_ids else None)
    gap = asker.compare(tokens, after, 0, right=before, row="all at once: ")
    if gap is None:
        _, cache = asker.prompt(long, longest - 2, with_ids)
        _, cache = asker.prompt(tokens[None], start, with_ids)
        got = asker.onward(tokens[None], cache, start, with_ids)[0]
        gap = asker.compare(
            tokens,
            got,
            start,
            lambda: of_steps(len(tokens), start, earlier=longest - 2),
            right=before,
            from_token=start,
        )
    yield from [gap] if gap is not None else []


def _in_turns(asker: Asker, seed: int, with_ids: bool) -> Iterator[Gap]:
    pair = [asker.tokens(seed), asker.tokens(seed + 20)]
    starts = (asker.length // 2, asker.length // 2 - 4)
    caches = [asker.prompt(one[None], start, with_ids)[1] for one, start in zip(pair, starts, strict=True)]
    outs: list[list[NDArray]] = [[], []]
    for step in range(asker.length - max(starts)):
        for row, (tokens, start) in enumerate(zip(pair, starts, strict=True)):
            place = start + step
            mask = np.ones((1, place + 1), np.int64)
            ids = np.array([[place]]) if with_ids else None
            given = tokens[None, place : place + 1]
            out, caches[row] = asker.caller.step(given, caches[row], mask=mask, ids=ids)
            outs[row].append(out[0])
    for row, (tokens, start) in enumerate(zip(pair, starts, strict=True)):
        got = np.concatenate(outs[row])
        tokens = tokens[: start + len(got)]
        gap = asker.compare(
            tokens,
            got,
            start,
            lambda tokens=tokens, start=start, row=row: _of_turns(len(tokens), start, starts[1 - row]),
            row=f"sequence {row}: ",
            from_token=start,
        )
        yield from [gap] if gap is not None else []


def _of_turns(total: int, start: int, other: int) -> Iterator[tuple[str, NDArray]]:
    right = np.arange(total)
    after = right - start
    shift = other - start
    words = f"the steps take the other sequence's position, a shift by {shift}"
    yield words, np.where(after >= 0, right + shift, right)
    yield "one counter for both sequences", np.where(after >= 0, other + 2 * after, right)
    yield "one counter for both sequences", np.where(after >= 0, other + 2 * after + 1, right)
    yield from of_steps(total, start)


def switched(asker: Asker, switch: int) -> None:
    """Ask what becomes of cached keys where the table changes, and whether it changes back."""
    for with_ids in asker.modes():
        words = manner(with_ids, asker.caller)
        road = _road(asker, _across, with_ids, switch)
        asker.ask("cached-keys-keep-table", f"token by token across {switch} tokens{words}", road)
        # once: where nothing sets it back, what is asked again is as stretched before as after
        road = _road(asker, _set_back, with_ids, switch)
        asker.ask("state-leaks", f"long sequences, then shorter ones{words}", road, once=True)


def _across(asker: Asker, seed: int, with_ids: bool, switch: int) -> Iterator[Gap]:
    tokens, start = asker.tokens(seed, switch + max(2, switch // 2)), switch - 3
    asker.caller.anew(tokens[: switch // 2])
    _, cache = asker.prompt(tokens[None], start, with_ids)
    got = asker.onward(tokens[None], cache, start, with_ids)[0]
    right = asker.caller.anew(tokens, np.arange(len(tokens)) if with_ids else None)
    gap = asker.compare(tokens, got[switch - start :], 0, right=right, from_token=switch)
    yield from [gap] if gap is not None else []


def _set_back(asker: Asker, seed: int, with_ids: bool, switch: int) -> Iterator[Gap]:
    long = asker.tokens(seed + 40, 2 * switch)

    def asked(tokens: NDArray) -> NDArray:
        return asker.caller.anew(tokens, np.arange(len(tokens)) if with_ids else None)

    for size in (switch + max(2, switch // 2), switch):
        tokens = asker.tokens(seed, size)
        asked(tokens[: switch // 2])
        before = asked(tokens)
        asked(long)
        gap = asker.compare(tokens, asked(tokens), 0, right=before, row=f"{size} tokens after {len(long)}: ")
        yield from [gap] if gap is not None else []
