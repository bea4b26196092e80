"""check_decoder(): whether a stateful decoder's positions are the same on every road to the same tokens."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._checks import choice, whole
from ..errors import RopewalkError
from ..findings import Finding
from ._evidence import Evidence
from ._settling import settled
from .box import BoxFailure
from .decoding_asking import Asker, manner
from .decoding_calls import ROOMS, Caller, OutOfTime
from .decoding_memory import evicted, forgets, switched
from .decoding_questions import stepwise, windows
from .decoding_report import DecoderReport
from .decoding_rows import merged, padded, rows_together
from .decoding_shifts import gaps
from .verdicts import verdict

__all__ = ["DecoderReport", "check_decoder"]

SHORTEST = 14
# a fault that others follow from, which are left out
FOLLOWS = {"state-leaks": ("stepwise-differs",), "rows-share-positions": ("merged-cache-differs",)}


def check_decoder(
    step: Any,
    prefill: Any,
    *,
    merge: Any = None,
    evict: Any = None,
    vocab: int = 32,
    pad_token: int = 0,
    length: int = 16,
    longest: int = 64,
    window_sizes: Iterable[int] = range(2, 9),
    right_padding: bool = False,
    hooks_need_positions: bool = False,
    switch: int | None = None,
    dtype: str | None = None,
    room: float | None = None,
    device: Any = None,
    backend: str = "auto",
    timeout: float = 120.0,
) -> DecoderReport:
    """Say whether a decoder with a cache gives the same outputs on every road to the same tokens.

    One token at a time and windows of several against all at once; padded rows against each alone; rows of unlike
    length stepping together; caches merged; tokens evicted; another sequence before or in between. Where outputs part
    and prefill takes position_ids, the wrong positions that would give the same are looked for and named.

    Args:
        step: step(tokens, cache, attention_mask=None, position_ids=None) -> (outputs, cache). tokens are [B, 1], or
            [B, W] for a decoder that takes windows; attention_mask [B, cached + 1] is 1 for tokens, those in the
            cache included; position_ids [B, 1]. The last two are passed by name, where step has them.
        prefill: prefill(tokens, attention_mask=None, position_ids=None, cache=None) -> (outputs, cache). tokens
            [B, S]; outputs [B, S, V], logits or hidden states, or those of the last token alone, [B, V]. All but
            tokens may be missing; with cache it also takes windows.
        merge: merge(caches) -> cache, one batch of sequences decoded alone; the shorter ones are padded on the left.
        evict: evict(cache, keep) -> cache, or (cache, next_position) where keys were moved. keep [K] are the places in
            the cache that stay, ascending.
        vocab: tokens are below it.
        pad_token: what pads.
        length: tokens of most sequences, at least 14.
        longest: tokens of the longest.
        window_sizes: of the windows.
        right_padding: rows padded on the right are asked too; a decoder need not take them.
        hooks_need_positions: after merge and evict the caller always gives position_ids (as with the caches of
            transformers, which count their rows).
        switch: tokens beyond which the rope changes its table (dynamic NTK, LongRoPE), where it does.
        dtype: what the decoder computes in: "float64", "float32", "tf32", "float16", "bfloat16"; None: told from its
            weights or outputs.
        room: the largest gap that is rounding, relative to the outputs (root of the mean square over one token's);
            None: 2e-4 for float32, 0.1 for bfloat16, 0.02 for float16 and TF32.
        device: of the tokens, for torch.
        backend: "numpy", "torch", "jax", or "auto": what tokens are given as.
        timeout: seconds for all calls together.

    Returns:
        The DecoderReport. A decoder that raises or hangs is a finding; what its functions do not take is not asked,
        and stands in `left`.

    Raises:
        RopewalkError: for functions that cannot be called so, with what is missing, and options that do not exist.

    >>> def prefill(tokens):
    ...     return np.cumsum(tokens, axis=1)[..., None] * 1.0, tokens.sum(axis=1, keepdims=True)
    >>> def step(tokens, cache):
    ...     return (cache + tokens)[..., None] * 1.0, cache + tokens
    >>> check_decoder(step, prefill, window_sizes=()).ok
    True
    """
    choice("backend", backend, ("auto", "numpy", "torch", "jax"))
    sizes = {"vocab": (vocab, 4), "length": (length, SHORTEST), "longest": (longest, length)}
    for name, (value, least) in sizes.items():
        whole(name, value, at_least=least)
    if dtype is not None:
        choice("dtype", dtype, tuple(ROOMS))
    if switch is not None and whole("switch", switch, at_least=1) < length:
        raise RopewalkError(f"switch must be at least length={length}, got {switch}: most is asked below the switch.")
    caller = Caller(step, prefill, merge=merge, evict=evict, backend=backend, device=device, timeout=timeout)
    asker = Asker(
        caller=caller,
        room=room or 0.0,
        vocab=vocab,
        pad=pad_token,
        length=length,
        hooks_need_positions=hooks_need_positions and caller.both_take("ids"),
    )
    findings: list[Finding] = []
    try:
        if _settled(asker, findings, dtype):
            _all(asker, findings, tuple(window_sizes), longest, right_padding, switch)
    except BoxFailure as failure:
        findings.append(_of_failure(failure))
    except OutOfTime:
        words = f"{caller.calls} calls took {caller.seconds:.3g} s of {timeout:g} s; give more by timeout"
        asker.left.append(("what comes after the questions above", words))
    return DecoderReport(
        findings=settled([*_of_evidence(asker.asked), *findings]),
        evidence=tuple(asker.asked),
        left=tuple(dict.fromkeys(asker.left)),
        dtype=dtype or caller.dtype,
        room=asker.room,
        calls=caller.calls,
        seconds=caller.seconds,
    )


def _settled(asker: Asker, findings: list[Finding], dtype: str | None) -> bool:
    """Ask twice for the same; set how far rounding may go, and tell whether anything can be compared."""
    tokens = asker.tokens(50)
    first = asker.caller.anew(tokens)
    asker.room = asker.room or ROOMS.get(dtype or asker.caller.dtype, ROOMS["float32"])
    apart = float(gaps(asker.caller.anew(tokens), first).max())
    if not np.isfinite(first).all():
        right = "finite outputs"
        findings.append(verdict("not-finite", seen="outputs are not finite", right=right, where="prefill(tokens)"))
        return False
    if apart > asker.room:
        again = float(gaps(asker.caller.anew(tokens), first).max())
        name = "random" if abs(again - apart) > 1e-12 else "state-leaks"
        seen = f"the same prompt asked twice differs by {apart:.3g}"
        findings.append(verdict(name, seen=seen, right="equal calls give equal answers", where="prefill(tokens)"))
        return False
    return True


def _all(
    asker: Asker,
    findings: list[Finding],
    window_sizes: tuple[int, ...],
    longest: int,
    right_padding: bool,
    switch: int | None,
) -> None:
    _sensitive(asker)
    questions = [
        lambda: stepwise(asker),
        lambda: windows(asker, window_sizes),
        lambda: rows_together(asker),
        lambda: padded(asker),
        *([lambda: padded(asker, right=True)] if right_padding else []),
        lambda: merged(asker),
        lambda: evicted(asker),
        lambda: forgets(asker, longest if switch is None else min(longest, switch)),
        *([lambda: switched(asker, switch)] if switch is not None else []),
    ]
    for question in questions:
        try:
            question()
        except BoxFailure as failure:
            findings.append(_of_failure(failure))
            if failure.failure.kind == "hang":
                return
    if asker.broken:
        told = manner(len(asker.broken) == 1 and True in asker.broken, asker.caller)
        where = "" if len(asker.broken) == 2 else told
        asker.left.append((f"windows, batches, caches and memory{where}", "one row alone already differs"))


def _sensitive(asker: Asker) -> None:
    """Say where positions hardly reach the outputs, so that faults of positions could not be seen."""
    if "ids" not in asker.caller.prefill_takes.names:
        asker.left.append(("which positions explain a gap", "prefill does not take position_ids"))
        return
    tokens = asker.tokens(51)
    ids = np.arange(len(tokens))
    moved = np.where(ids >= len(ids) // 3, ids + 1, ids)  # not where a window or a chunk may begin
    reach = float(gaps(asker.caller.anew(tokens, moved), asker.caller.whole(tokens)).max())
    if reach <= 2 * asker.room:
        words = f"one position more changes the outputs by {reach:.2g}; rounding may by {asker.room:.2g}"
        asker.left.append(("faults by single positions", words))
        asker.searching = False


def _of_failure(failure: BoxFailure) -> Finding:
    one = failure.failure
    return verdict(one.kind, seen=one.message, right="an answer to every call", where=one.where)


def _of_evidence(evidence: Iterable[Evidence]) -> list[Finding]:
    """Give one finding for each fault: what the first question showed, and how many others show it too."""
    found: dict[str, list[Evidence]] = {}
    for one in evidence:
        if not one.ok:
            found.setdefault(one.name, []).append(one)
    for name, followers in FOLLOWS.items():
        for follower in followers if name in found else ():
            found.pop(follower, None)
    findings = []
    for name, hits in found.items():
        hits.sort(key=lambda one: (one.detail.get("severity") == "warning", not one.detail["as_if"]))
        first, more = hits[0], len(hits) - 1
        seen = first.seen + (f" ({more} more question{'s show' if more > 1 else ' shows'} it)" if more else "")
        findings.append(
            verdict(
                name,
                seen=seen,
                right=first.right,
                where=first.detail["question"],
                severity=first.detail.get("severity"),
            )
        )
    return findings
