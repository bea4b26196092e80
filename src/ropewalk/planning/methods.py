"""Each method's rope for a wished length, or why there is none."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..errors import RopewalkError
from ..inspection import number_words
from ..rope import Rope
from ..scaling import Dynamic, Linear, Llama3, LongRope, Proportional, Yarn
from ..scaling._frequencies import stretched_theta
from .plan import METHODS, Refusal
from .targets import Chosen, unscaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A method's rope.

    Attributes:
        name: the method.
        rope: what it comes to.
        full: what the pairs that it slows wholly are divided by at the wished length; None where each has its own.
        how: the formula with its numbers.
        notes: what else to know.
    """

    name: str
    rope: Rope
    full: float | None
    how: str
    notes: tuple[str, ...] = ()


def build(name: str, chosen: Chosen, trained: int, to: int) -> Built | Refusal:
    """Give a method's rope for a length, or the reason that there is none."""
    try:
        return _MAKERS[name](chosen, trained, to)
    except RopewalkError as error:
        return Refusal(name=name, reason=str(error))


def _untouched(chosen: Chosen, trained: int, to: int) -> Built:
    rope = chosen.rope
    own = rope.scaling
    full = None if isinstance(own, LongRope) else getattr(own, "factor", None)
    how = "the model as it is" if full is None else f"the model as it is, with its own {own.rope_type} scaling"
    if isinstance(own, Dynamic):
        full = own.factor * max(to / (rope.max_position_embeddings or to), 1) - (own.factor - 1)
    return Built(name="untouched", rope=rope, full=full, how=how)


def _linear(chosen: Chosen, trained: int, to: int) -> Built:
    factor, base = to / trained, unscaled(chosen.rope, trained)
    scaling = Linear(factor=factor)
    if isinstance(base.scaling, Proportional):
        scaling = replace(base.scaling, factor=factor)
    return Built(
        name="linear",
        rope=base.replace(scaling=scaling, max_position_embeddings=to),
        full=factor,
        how=f"every speed / {number_words(factor)}: positions are squeezed into the trained length",
        notes=("neighbouring tokens come closer together in angle than training has shown them.",),
    )


def _ntk(chosen: Chosen, trained: int, to: int) -> Built:
    factor, base = to / trained, _ordinary(chosen, trained)
    theta = stretched_theta(base.rope_theta, factor, base.width, "ntk")
    return Built(
        name="ntk",
        rope=base.replace(rope_theta=theta, max_position_embeddings=to),
        full=factor,
        how=f"a larger base for every length: {number_words(base.rope_theta)}·{number_words(factor)}^(R/(R-2)) = "
        f"{number_words(theta)}, R = {base.width}",
        notes=("written as rope_theta, which every engine reads; the same as NTK-aware scaling by the factor.",),
    )


def _dynamic(chosen: Chosen, trained: int, to: int) -> Built:
    factor, base = to / trained, _ordinary(chosen, trained)
    ratio = factor * to / trained - (factor - 1)
    return Built(
        name="dynamic",
        rope=base.replace(scaling=Dynamic(factor=factor)),
        full=ratio,
        how=f"beyond {trained} tokens the base grows with the length L, by ({number_words(factor)}·L/{trained} - "
        f"{number_words(factor - 1)})^(R/(R-2)); at {to} tokens the slowest pair is {number_words(ratio)} times slower",
        notes=(
            f"max_position_embeddings stays {trained}: it is the length from which the base grows.",
            "at its full length it slows the slow pairs more than ntk by the same factor: so transformers has it.",
            "keys in a cache keep the base they were turned with, unless the engine turns them again: a prompt read at "
            "once and the same text generated token by token differ.",
        ),
    )


def _yarn(chosen: Chosen, trained: int, to: int) -> Built:
    factor, base, own = to / trained, _ordinary(chosen, trained), chosen.rope.scaling
    notes: list[str] = []
    if isinstance(own, Yarn):
        scaling = replace(own, factor=factor, original_max_position_embeddings=trained)
        notes.append("betas, truncate and magnitudes are the model's own; only the factor changes.")
    else:
        scaling = Yarn(factor=factor, original_max_position_embeddings=trained)
        if chosen.scales_softmax:
            scaling = replace(scaling, mscale=1.0, mscale_all_dim=1.0, scale_softmax=True)
            notes.append("mscale and mscale_all_dim 1, as DeepSeek-V3 has them: the magnitude is on the softmax scale.")
    low, high = scaling.bounds(base.rope_theta, base.width)
    how = (
        f"pairs up to {number_words(low)} kept, from {number_words(high)} on / {number_words(factor)}, a ramp between "
    )
    how += f"(betas {number_words(scaling.beta_fast)} and {number_words(scaling.beta_slow)})"
    notes.append("its magnitude acts on short prompts too.")
    return Built(
        name="yarn",
        rope=base.replace(scaling=scaling, max_position_embeddings=to),
        full=factor,
        how=how,
        notes=tuple(notes),
    )


def _longrope(chosen: Chosen, trained: int, to: int) -> Built:
    rope, own = chosen.rope, chosen.rope.scaling
    if not isinstance(own, LongRope):
        raise RopewalkError(
            "LongRoPE's divisors come from a search that runs the model, one for each pair, and cannot be derived; "
            "this rope carries none."
        )
    longest = rope.max_position_embeddings
    if longest is None or to > longest:
        raise RopewalkError(
            f"the lists of this rope were searched for {longest or 'an unknown number of'} tokens; for {to} they would "
            "have to be searched again."
        )
    return Built(
        name="longrope",
        rope=rope,
        full=None,
        how=f"the model's own lists: the short one up to {own.original_max_position_embeddings} tokens, the long one "
        "beyond",
        notes=("keys in a cache keep the list they were turned with when a text grows past the switch.",),
    )


def _llama3(chosen: Chosen, trained: int, to: int) -> Built:
    factor, base, own = to / trained, _ordinary(chosen, trained), chosen.rope.scaling
    if isinstance(own, Llama3):
        scaling = replace(own, factor=factor, original_max_position_embeddings=trained)
    else:
        scaling = Llama3(
            factor=factor, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=trained
        )
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    return Built(
        name="llama3",
        rope=base.replace(scaling=scaling, max_position_embeddings=to),
        full=factor,
        how=f"pairs with more than {number_words(high)} turns within {trained} tokens kept, with fewer than "
        f"{number_words(low)} / {number_words(factor)}, blended between",
    )


def _ordinary(chosen: Chosen, trained: int) -> Rope:
    """Give the unscaled rope, or raise where a description cannot say two scalings at once."""
    if isinstance(chosen.rope.scaling, Proportional):
        raise RopewalkError(
            "proportional RoPE leaves part of the pairs still, and its settings take one factor for all pairs that "
            "turn: no engine reads it together with another scaling."
        )
    return unscaled(chosen.rope, trained)


_MAKERS: dict[str, Callable[[Chosen, int, int], Built]] = dict(
    zip(METHODS, (_untouched, _linear, _ntk, _dynamic, _yarn, _longrope, _llama3), strict=True)
)
