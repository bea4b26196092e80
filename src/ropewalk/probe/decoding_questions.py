"""What a decoder is asked about one sequence: one token at a time, and windows of several, against all at once."""

from collections.abc import Iterable, Iterator

from .box import BoxFailure
from .decoding_asking import Asker, Gap, manner
from .decoding_shifts import of_steps


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
    tokens = asker.tokens(99)[None]
    try:
        _, cache = asker.prompt(tokens, 3, with_ids)
        out = asker.onward(tokens[:, : 3 + size], cache, 3, with_ids, window=size)
    except BoxFailure:
        return False
    return out.shape[1] in (1, size)
