"""YaRN blocks: the ramp, the magnitude, and what engines make of both."""

import math

from ..scaling import Scaling, Yarn
from ..scaling._frequencies import magnitude
from ._block import Block, check_below_one, check_ratio, missing, optional, or_none, original_length
from ._reading import View

YARN_KEYS = frozenset(
    {
        "factor",
        "original_max_position_embeddings",
        "beta_fast",
        "beta_slow",
        "truncate",
        "attention_factor",
        "attn_factor",
        "extrapolation_factor",
        "mscale",
        "mscale_all_dim",
        "llama_4_scaling_beta",
    }
)


def yarn(block: Block) -> Scaling:
    """Read a yarn block."""
    original, stated = original_length(block)
    factor = block.view.number("factor", above=0)
    if factor is None:
        if "factor" not in block.view.data or block.max_position_embeddings is None:
            raise missing(block, "factor")
        factor = block.max_position_embeddings / original
        block.reading.source("factor", "max_position_embeddings / original_max_position_embeddings", block.label)
    else:
        block.taken("factor")
        check_ratio(block, factor, original, stated)
    check_below_one(block, factor)
    beta_fast = optional(block, "beta_fast", at_least=0) or 32.0
    beta_slow = optional(block, "beta_slow", at_least=0) or 1.0
    if beta_fast < beta_slow:
        raise block.reading.fail(
            "betas-swapped",
            key=block.view.key("beta_fast"),
            seen=f"beta_fast {beta_fast:g}, beta_slow {beta_slow:g}",
            right="beta_fast at least beta_slow",
            message=f"beta_fast = {beta_fast:g} is below beta_slow = {beta_slow:g}: the ramp would run backwards. "
            "They look swapped.",
        )
    scaling = Yarn(
        factor=factor,
        original_max_position_embeddings=original,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        truncate=_truncate(block),
        attention_factor=_attention_factor(block, factor),
        mscale=optional(block, "mscale", at_least=0),
        mscale_all_dim=optional(block, "mscale_all_dim", at_least=0),
        scale_softmax=block.scale_softmax,
    )
    _note_magnitudes(block, scaling)
    _note_bounds(block, scaling)
    _note_extrapolation(block)
    return scaling


def _note_extrapolation(block: Block) -> None:
    weight = block.view.number("extrapolation_factor")
    if weight is None or weight == 1:
        return
    block.reading.find(
        "engines-extrapolation",
        key=block.view.key("extrapolation_factor"),
        seen=f"{weight:g}",
        right="1, the weight that transformers and vLLM give the kept pairs",
        message=f"extrapolation_factor {weight:g} is read by SGLang and YaRN's reference code, which weight the kept "
        "pairs with it; transformers, vLLM and MLX do not read it. It is left out here; 1 is the same everywhere.",
    )


def _note_bounds(block: Block, scaling: Yarn) -> None:
    low, high = (0, 1) if scaling.factor == 1 else scaling.bounds(block.rope_theta, block.rotary_dim)
    if low != high:
        return
    block.reading.find(
        "ramp-empty",
        key=block.view.key("beta_slow"),
        seen=f"both bounds of the ramp at pair {low:g}",
        right=f"a hard step behind pair {low:g}",
        message=f"the ramp starts and ends at pair {low:g}, so there is none: pairs are kept or divided by the whole "
        "factor. Code that does not guard the difference of the bounds divides by zero.",
    )


def _truncate(block: Block) -> bool:
    truncate = block.view.flag("truncate")
    if block.beside is not None and "truncate" in block.beside:
        return _truncate_beside(block, block.beside, truncate)
    if truncate is None:
        return True
    block.taken("truncate")
    if not truncate:
        where = "transformers 5.24 ignores it in a block nested by layer type and rounds; " if block.nested else ""
        if block.nests:
            where = "transformers 5.24 nests this block by layer type as it loads, ignores it there and rounds; "
        block.reading.find(
            "engines-truncate",
            key=block.view.key("truncate"),
            seen="false",
            right="bounds of the ramp not rounded",
            message=f"truncate false leaves the bounds of the ramp as they are. {where}llama.cpp and MLX always round "
            "them to whole pairs, so middle pairs turn at another speed there.",
        )
    return truncate


def _truncate_beside(block: Block, beside: View, inside: bool | None) -> bool:
    """Give the truncate beside the blocks by layer type, which alone transformers' _compute_yarn_parameters reads."""
    truncate = bool(beside.flag("truncate"))
    key, words = beside.key("truncate"), str(truncate).lower()
    block.reading.source("truncate", key, block.label)
    if not truncate or inside is False:
        block.reading.find(
            "engines-truncate",
            key=key,
            seen=f"{words} beside the blocks, {'absent' if inside is None else str(inside).lower()} inside",
            right=f"{words}, as transformers takes it",
            message=f"truncate {words} stands beside the blocks by layer type, where transformers 5.24 reads it for "
            "all of them; vLLM reads it inside each block alone, and llama.cpp and MLX always round the bounds of the "
            "ramp to whole pairs, so middle pairs turn at another speed there.",
        )
    return truncate


def _attention_factor(block: Block, factor: float) -> float | None:
    stated = optional(block, "attention_factor", above=0)
    if stated is not None:
        if not math.isclose(stated, magnitude(factor)):
            block.reading.find(
                "engines-attention-factor",
                key=block.view.key("attention_factor"),
                seen=f"{stated:g}",
                right=f"{stated:g} on cos and sin, verbatim",
                message=f"attention_factor {stated:g} is taken verbatim; SGLang, MLX and llama.cpp's converter do not "
                f"read it and apply {magnitude(factor):g}.",
            )
        return stated
    if block.attention_factor is not None:
        block.reading.source("attention_factor", block.described, block.label)
        return block.attention_factor
    if block.spelled == "telechat3-yarn":
        return 0.07 * math.log(factor) + 1 if factor > 1 else 1.0
    return None


def _note_magnitudes(block: Block, scaling: Yarn) -> None:
    g = magnitude(scaling.factor)
    attn_factor = block.view.number("attn_factor", above=0)
    if attn_factor is not None and not math.isclose(scaling.cos_sin_factor, g * attn_factor):
        block.reading.find(
            "attn-factor",
            key=block.view.key("attn_factor"),
            seen=f"{attn_factor:g}",
            right=f"{scaling.cos_sin_factor:.9g} on cos and sin, as transformers computes it",
            message=f"attn_factor {attn_factor:g} is read in two ways: transformers and vLLM ignore it (cos and sin "
            f"times {scaling.cos_sin_factor:.9g}), SGLang multiplies by it ({g * attn_factor:.9g}). Write "
            "attention_factor, which has one meaning.",
        )
    if scaling.attention_factor is not None or (scaling.mscale is None and scaling.mscale_all_dim is None):
        return
    if scaling.mscale and scaling.mscale_all_dim:
        if scaling.scale_softmax or scaling.factor <= 1:
            return
        if scaling.mscale == scaling.mscale_all_dim:
            block.reading.find(
                "mscale-inert",
                key=block.view.key("mscale"),
                seen=f"mscale = mscale_all_dim = {scaling.mscale:g}",
                right="1 on cos and sin, as transformers computes the ratio",
                message=f"mscale and mscale_all_dim are equal, so their ratio is 1 and they do nothing here, in "
                f"SGLang neither; llama.cpp ignores the pair and puts {g:.9g} on cos and sin instead. Only MLA models "
                "use the pair further, on the softmax scale.",
            )
            return
        block.reading.find(
            "engines-mscale",
            key=block.view.key("mscale"),
            seen=f"mscale {scaling.mscale:g}, mscale_all_dim {scaling.mscale_all_dim:g}",
            right=f"{scaling.cos_sin_factor:.9g} on cos and sin, as transformers computes the ratio",
            message=f"the ratio of mscale and mscale_all_dim gives {scaling.cos_sin_factor:.9g} on cos and sin, in "
            f"SGLang too; llama.cpp ignores the pair outside MLA and puts {g:.9g} there. Write attention_factor, and "
            "check it in the engine that you use.",
        )
        return
    lone = "mscale" if scaling.mscale_all_dim is None else "mscale_all_dim" if scaling.mscale is None else "mscale pair"
    block.reading.find(
        "engines-mscale",
        key=block.view.key("mscale_all_dim" if scaling.mscale is None else "mscale"),
        seen=f"mscale {or_none(scaling.mscale)}, mscale_all_dim {or_none(scaling.mscale_all_dim)}",
        right=f"{scaling.cos_sin_factor:.9g} on cos and sin, as transformers computes it",
        message=f"a {lone} that is alone or 0 is unused by transformers (cos and sin times "
        f"{scaling.cos_sin_factor:.9g}); Megatron counts 0 as given, the ONNX Runtime builder takes a lone mscale as "
        f"the multiplier itself ({or_none(scaling.mscale)}). Give both, or attention_factor.",
    )
