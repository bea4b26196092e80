"""What a decoder is asked about several rows: of one length, padded to one, and merged from caches of their own."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..positions.text import from_mask, next_positions
from .decoding_asking import Asker, Gap, manner
from .decoding_shifts import gaps, of_steps


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
