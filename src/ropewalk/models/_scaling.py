"""Blocks of rope parameters to scalings, one reader for each type."""

from collections.abc import Callable, Mapping

from ..errors import RopewalkError
from ..scaling import Default, Dynamic, Linear, Llama3, Ntk, Proportional, Scaling
from ._block import Block, check_below_one, missing, note_unused, optional, or_none, original_length, required
from ._longrope import LONGROPE_KEYS, longrope
from ._yarn import YARN_KEYS, yarn


def read_scaling(block: Block) -> Scaling:
    """Give the scaling of a block, or raise with an error finding."""
    reader, used = READERS[block.rope_type]
    try:
        scaling = reader(block)
        if block.rope_type == "dynamic" and isinstance(scaling, Ntk):
            used = used | {"alpha"}
        note_unused(block, used)
        scaling.frequencies(block.rope_theta, block.rotary_dim, max_position_embeddings=block.max_position_embeddings)
    except RopewalkError as error:
        raise block.reading.fail(
            "scaling-impossible",
            key=block.view.path or "rope",
            seen=block.rope_type,
            right="values that the formula is defined for",
            message=f"the {block.rope_type} scaling cannot be computed: {error}",
        ) from error
    return scaling


def _default(block: Block) -> Scaling:
    return Default()


def _linear(block: Block) -> Scaling:
    factor = required(block, "factor", above=0)
    check_below_one(block, factor)
    return Linear(factor=factor)


def _ntk(block: Block) -> Scaling:
    factor = required(block, "factor", above=0)
    check_below_one(block, factor)
    block.reading.find(
        "engines-ntk",
        key=block.type_key,
        seen=f"{block.spelled}, factor {factor:g}",
        right="theta·factor^(R/(R-2))",
        message="'ntk' names several formulas. It is read as NTK-aware scaling, theta·factor^(R/(R-2)); vLLM takes "
        "theta·factor and divides every frequency by factor^(2/R); transformers has no such type.",
    )
    return Ntk(factor=factor)


def _dynamic(block: Block) -> Scaling:
    alpha = optional(block, "alpha", above=0)
    if alpha is not None:
        if not block.reads_alpha:
            block.reading.find(
                "engines-ntk",
                key=block.view.key("alpha"),
                seen=f"{alpha:g}",
                right="theta·alpha^(R/(R-2)) at every length",
                message=f"alpha {alpha:g} makes dynamic scaling static for vLLM, SGLang and Hunyuan's own code, and is "
                "read so here; transformers reads alpha in its Hunyuan classes only and changes the base by length.",
            )
        return Ntk(factor=alpha)
    factor = required(block, "factor", above=0)
    if block.max_position_embeddings is None:
        raise missing(block, "max_position_embeddings")
    check_below_one(block, factor)
    where = {"key": block.type_key, "seen": f"dynamic, factor {factor:g}"}
    block.reading.find(
        "dynamic-cached-keys",
        **where,
        right="turn cached keys anew when the base changes",
        message="dynamic NTK changes the base as the sequence grows, so keys that a cache holds rotated keep the old "
        f"base and stop matching past {block.max_position_embeddings} tokens.",
    )
    block.reading.find(
        "engines-dynamic",
        **where,
        right="the base for the current length, as transformers computes it",
        message="engines read dynamic NTK differently: transformers recomputes the base by length, vLLM computes it "
        "once (at its default length: no scaling at all), SGLang takes the base of max_position_embeddings·factor, "
        "llama.cpp has no such type.",
    )
    if factor == 1:
        block.reading.find(
            "dynamic-factor-one",
            key=block.view.key("factor"),
            seen="1",
            right="no scaling, if none is meant",
            message="dynamic NTK with factor 1 still raises the base beyond max_position_embeddings (by the ratio of "
            "the lengths). Remove the block if no scaling is meant.",
        )
    return Dynamic(factor=factor)


def _llama3(block: Block) -> Scaling:
    low = required(block, "low_freq_factor", above=0)
    high = required(block, "high_freq_factor", above=0)
    factor = required(block, "factor", above=0)
    check_below_one(block, factor)
    original, _ = original_length(block, may_default=False)
    if low == high:
        block.reading.find(
            "ramp-empty",
            key=block.view.key("high_freq_factor"),
            seen=f"low_freq_factor = high_freq_factor = {low:g}",
            right=f"a hard step at a wavelength of {original / low:g} positions",
            message=f"low_freq_factor and high_freq_factor are both {low:g}, so there is no ramp: pairs are kept or "
            "divided by the whole factor. The formula divides by their difference; code without a guard gets NaN on a "
            "pair that lies on the border.",
        )
    return Llama3(factor=factor, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=original)


def _proportional(block: Block) -> Scaling:
    factor = optional(block, "factor", above=0)
    fraction = block.partial_rotary_factor
    block.reading.find(
        "engines-partial",
        key=block.view.key("partial_rotary_factor"),
        seen=or_none(fraction),
        right="pairs (i, i + D/2), exponents over D, the rest still",
        message="partial_rotary_factor has two meanings: in proportional scaling the pairs and exponents are those of "
        "the whole head and the rest keeps still; elsewhere the width itself shrinks. Engines that read it the other "
        "way turn the wrong channels; vLLM and SGLang ignore factor here.",
    )
    return Proportional(
        partial_rotary_factor=1.0 if fraction is None else fraction, factor=1.0 if factor is None else factor
    )


READERS: Mapping[str, tuple[Callable[[Block], Scaling], frozenset[str]]] = {
    "default": (_default, frozenset()),
    "linear": (_linear, frozenset({"factor"})),
    "ntk": (_ntk, frozenset({"factor"})),
    "dynamic": (_dynamic, frozenset({"factor"})),
    "yarn": (yarn, YARN_KEYS),
    "longrope": (longrope, LONGROPE_KEYS),
    "llama3": (
        _llama3,
        frozenset({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}),
    ),
    "proportional": (_proportional, frozenset({"factor"})),
}
