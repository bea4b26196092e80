"""Passkey retrieval: a five-digit key hidden in a long text, asked for at its end."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .._checks import real, whole
from ..errors import RopewalkError
from .curves import Ropes, checked_ids

if TYPE_CHECKING:
    from torch import Tensor, nn

SCHEMA = "ropewalk.passkey/1"
GUESSING = math.log(10)  # nats a digit, for one who knows that digits come and nothing else
DEPTHS = (0.1, 0.5, 0.9)
HIDDEN = "\n\nThe pass key is {key}. Remember it. {key} is the pass key.\n\n"
ASKED = "\n\nWhat is the pass key? The pass key is"

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One key in one text.

    Attributes:
        length: tokens of the whole text, question and answer included.
        depth: where the key stands, 0 the beginning and 1 the end.
        key: the digits.
        loss: mean loss of the key's tokens given the text and the question, nats a token.
        ranks: for each of them, how many tokens the model holds likelier.
    """

    length: int
    depth: float
    key: str
    loss: float
    ranks: tuple[int, ...]

    @property
    def found(self) -> bool:
        """Whether the likeliest token is the right one at every step: what greedy decoding would answer."""
        return not any(self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """Give the trial as plain values."""
        return {
            "length": self.length,
            "depth": self.depth,
            "key": self.key,
            "loss": self.loss,
            "ranks": list(self.ranks),
            "found": self.found,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """What one method was measured to find.

    Attributes:
        name: the method.
        trials: one for each length and depth.
        seconds: what they took.
    """

    name: str
    trials: tuple[Trial, ...]
    seconds: float

    def at(self, length: int) -> tuple[Trial, ...]:
        """Give the trials of one length."""
        return tuple(one for one in self.trials if one.length == length)

    def to_dict(self) -> dict[str, Any]:
        """Give the outcome as plain values."""
        return {
            "name": self.name,
            "trials": [one.to_dict() for one in self.trials],
            "found": sum(one.found for one in self.trials),
            "seconds": round(self.seconds, 3),
        }


def passkeys(
    model: "nn.Module",
    tokenizer: Any,
    filler: "Sequence[int] | Tensor",
    ropes: Ropes,
    *,
    lengths: Sequence[int],
    depths: Sequence[float] = DEPTHS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Iterator[Passkey]:
    """Hide a key at several depths of texts of several lengths, and see whether the model gives it back.

    The key is not generated: its tokens are put after the question, and the model is asked in one pass how likely it
    holds each, which tells what greedy decoding would answer. All methods are asked for the same keys.

    Args:
        model: a causal language model of transformers, in eval mode.
        tokenizer: its tokenizer.
        filler: [N] token ids of the text that the key is hidden in; its beginning is taken.
        ropes: as for `measure`.
        lengths: tokens of the texts, question and answer included.
        depths: where the key stands, from 0 to 1.
        seed: of the keys.
        progress: called with a method's name and the share of it that is done.

    Raises:
        RopewalkError: for a filler that is too short, or a length that does not hold key and question.

    Source: Mohtashami and Jaggi 2023, Landmark Attention, section 4.2, with a text of one's own for their filler.
    """
    from ..compat.transformers import use

    texts = list(_texts(model, tokenizer, filler, lengths, depths, seed))
    work = sum(len(text.ids) * (1 + len(text.ids) / 4096) for text in texts)
    for name, rope in ropes.items():
        start, done, trials = perf_counter(), 0.0, []
        with use(model, rope if not hasattr(rope, "items") else dict(rope)):  # type: ignore[arg-type, call-overload]
            for text in texts:
                trials.append(_trial(model, text))
                done += len(text.ids) * (1 + len(text.ids) / 4096)
                if progress is not None:
                    progress(name, done / work)
        yield Passkey(name=name, trials=tuple(trials), seconds=perf_counter() - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    ids: "Tensor"
    answer: int  # tokens of the key, the last ones
    depth: float
    key: str


def _texts(
    model: "nn.Module",
    tokenizer: Any,
    filler: "Sequence[int] | Tensor",
    lengths: Sequence[int],
    depths: Sequence[float],
    seed: int,
) -> Iterator[_Text]:
    import torch

    hay = checked_ids(model, filler)
    draw = random.Random(seed)
    for length in lengths:
        length = whole("length", length, at_least=1)
        for depth in depths:
            depth = real("depth", depth, at_least=0)
            if depth > 1:
                raise RopewalkError(f"depth must be from 0 to 1, got {depth:g}.")
            key = f"{draw.randrange(10_000, 100_000)}"
            needle, question = _ids(tokenizer, HIDDEN.format(key=key)), _ids(tokenizer, ASKED)
            answer = _ids(tokenizer, f"{ASKED} {key}")[len(question) :]
            room = length - len(needle) - len(question) - len(answer)
            if room < 0:
                raise RopewalkError(f"a text of {length} tokens has no room for key and question ({length - room}).")
            if room > len(hay):
                raise RopewalkError(f"the text has {len(hay)} tokens, and {room} are needed to hide a key among.")
            before = round(depth * room)
            parts = (hay[:before], needle, hay[before:room], question, answer)
            ids = torch.cat([torch.as_tensor(part, dtype=torch.int64) for part in parts])
            yield _Text(ids=checked_ids(model, ids), answer=len(answer), depth=depth, key=key)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False).input_ids)


def _trial(model: "nn.Module", text: _Text) -> Trial:
    import torch

    from ._losses import logits_by_rows, wide_products

    at = torch.arange(len(text.ids) - text.answer - 1, len(text.ids) - 1)
    with torch.inference_mode(), wide_products(model):
        device = next(model.parameters()).device
        ((_, logits),) = logits_by_rows(model, text.ids.to(device), at, rows=text.answer)
        likely = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1).cpu()
    right = likely.gather(1, text.ids[at + 1, None])
    return Trial(
        length=len(text.ids),
        depth=text.depth,
        key=text.key,
        loss=float(-right.double().mean()),
        ranks=tuple(int(n) for n in (likely > right).sum(dim=1)),
    )
