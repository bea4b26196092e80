"""LongRoPE blocks: two lists of divisors, a switch between them, and a magnitude."""

import math

from .._checks import MAX_HEAD_DIM
from ..scaling import LongRope, Scaling
from ._block import Block, check_ratio, missing, optional, or_none, original_length

LONGROPE_KEYS = frozenset(
    {
        "short_factor",
        "long_factor",
        "original_max_position_embeddings",
        "factor",
        "attention_factor",
        "short_mscale",
        "long_mscale",
    }
)


def longrope(block: Block) -> Scaling:
    """Read a longrope block."""
    original, stated = original_length(block)
    lists: dict[str, tuple[float, ...]] = {}
    for name in ("short_factor", "long_factor"):
        values = block.view.numbers(name, at_most=MAX_HEAD_DIM, above=0)
        if values is None:
            raise missing(block, name)
        block.taken(name)
        if len(values) != block.rotary_dim // 2:
            raise block.reading.fail(
                "list-length",
                key=block.view.key(name),
                seen=f"{len(values)} entries",
                right=f"rotary_dim/2 = {block.rotary_dim // 2} entries",
                message=f"{block.view.key(name)} has {len(values)} entries; it needs one for each pair, "
                f"rotary_dim/2 = {block.rotary_dim // 2}. Check the list and the rotary width.",
            )
        lists[name] = values
    factor = optional(block, "factor", above=0)
    if factor is not None:
        check_ratio(block, factor, original, stated)
    attention_factor = optional(block, "attention_factor", above=0)
    mscales = {name: optional(block, name, above=0) for name in ("short_mscale", "long_mscale")}
    if attention_factor is not None and not any(mscales.values()) and original > 1:
        derived = _derived_magnitude(block, factor, original)
        if derived is not None and not math.isclose(attention_factor, derived):
            block.reading.find(
                "engines-attention-factor",
                key=block.view.key("attention_factor"),
                seen=f"{attention_factor:g}",
                right=f"{attention_factor:g} on cos and sin, verbatim",
                message=f"attention_factor {attention_factor:g} is taken verbatim; vLLM does not read it in longrope "
                f"scaling and applies {derived:.9g}.",
            )
    if lists["short_factor"] != lists["long_factor"]:
        block.reading.find(
            "longrope-switch",
            key=block.view.key("original_max_position_embeddings"),
            seen=f"switch at {original} tokens",
            right="one list for a whole sequence",
            message=f"a sequence that grows past {original} tokens switches from short_factor to long_factor: keys "
            "cached before the switch were turned with the other list. Turn them anew, or start with the long list.",
        )
    if any(mscales.values()):
        block.reading.find(
            "engines-longrope",
            key=block.view.key("long_mscale"),
            seen=f"short_mscale {or_none(mscales['short_mscale'])}, long_mscale {or_none(mscales['long_mscale'])}",
            right="these factors on cos and sin",
            message="short_mscale and long_mscale set the factor on cos and sin for short and long sequences in "
            "Phi-3.5-MoE's code and vLLM; other engines ignore them and take sqrt(1 + ln s / ln L0).",
        )
    return LongRope(
        short_factor=lists["short_factor"],
        long_factor=lists["long_factor"],
        original_max_position_embeddings=original,
        factor=factor,
        attention_factor=attention_factor,
        **mscales,
    )


def _derived_magnitude(block: Block, factor: float | None, original: int) -> float | None:
    """Give the magnitude of LongRoPE that stands where none is stated, None where the lengths do not tell it."""
    if factor is None and block.max_position_embeddings is not None:
        factor = block.max_position_embeddings / original
    if factor is None:
        return None
    return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
