"""The rules of transformers, and of the servers that read its configurations: vLLM and SGLang."""

from dataclasses import replace

from ..scaling import Default, Dynamic, LongRope, Ntk, Scaling, Yarn
from ..scaling._frequencies import magnitude
from ._outcome import (
    Outcome,
    by_lengths,
    deepseek,
    is_deepseek,
    or_default,
    own_magnitude,
    proportional_unscaled,
    ratio_of,
    unread,
    weighted,
    without_mscales,
)
from .sources import Source

# configurations of transformers that take LongRoPE alone, and call yarn by its name too
LONGROPE_ONLY = frozenset({"phi3", "phi4_multimodal"})
TRANSFORMERS_TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "mrope", "axial")


def transformers(source: Source) -> Outcome:
    """Give what transformers makes of it: ropewalk's own reading follows it, but for what it overlooks."""
    rope, scaling, spelled = source.rope, source.rope.scaling, source.spelled
    notes = list(unread(source, "attn_factor", "extrapolation_factor"))
    if spelled not in TRANSFORMERS_TYPES and spelled not in source.aliases:
        return Outcome(refused=f"it has no rope_type {spelled!r}", notes=notes)
    if source.model_type in LONGROPE_ONLY and not isinstance(scaling, Default | LongRope):
        return Outcome(refused=f"its {source.model_type} loads no scaling but longrope", notes=notes)
    if isinstance(scaling, Ntk) and not source.reads_alpha:
        factor = source.number("factor")
        if factor is None or rope.max_position_embeddings is None:
            return Outcome(refused=f"{spelled!r} scaling needs factor", notes=[*notes, "ignores alpha"])
        return Outcome(rope=rope.replace(scaling=Dynamic(factor=factor)), notes=[*notes, "ignores alpha"])
    overlooked = source.nests or (source.label is not None and source.beside.get("truncate") is None)
    if isinstance(scaling, Yarn) and overlooked and not scaling.truncate:
        scaling = replace(scaling, truncate=True)
        block = f"inside the block of {source.label}" if source.label is not None else "once its class nests the block"
        notes.append(f"ignores truncate {block} and rounds")
    if isinstance(scaling, LongRope) and source.model_type != "phimoe":
        scaling = without_mscales(scaling, notes)
    return Outcome(rope=rope.replace(scaling=scaling), notes=notes)


def vllm(source: Source) -> Outcome:
    """VLLM's rule."""
    rope, scaling = source.rope, source.rope.scaling
    notes = list(unread(source, "attn_factor", "extrapolation_factor"))
    if source.spelled == "dynamic" and not isinstance(scaling, Ntk):
        return _vllm_dynamic(source, notes)
    if isinstance(scaling, Ntk) and source.spelled == "ntk":
        return Outcome(rope=rope.replace(scaling=Ntk(factor=scaling.factor, method="vllm")), notes=notes)
    if isinstance(scaling, Yarn):
        if source.beside.get("truncate") is not None:
            notes.append("ignores truncate beside the blocks by layer type")
            scaling = replace(scaling, truncate=source.block.get("truncate") is not False)
        if is_deepseek(source):
            scaling = deepseek(source, scaling, notes, multiplied=1.0)
        return Outcome(rope=rope.replace(scaling=scaling), notes=notes)
    if isinstance(scaling, LongRope):
        if rope.pairing != "half":
            return Outcome(refused="its longrope turns half-split channels only", notes=notes)
        notes.append("one list for every length, by the server's max_model_len; shown as if it were the length")
        return Outcome(rope=rope.replace(scaling=by_lengths(source, scaling, notes)), notes=notes)
    return Outcome(rope=rope.replace(scaling=proportional_unscaled(scaling, notes)), notes=notes)


def _vllm_dynamic(source: Source, notes: list[str]) -> Outcome:
    rope, factor = source.rope, source.number("factor")
    longest, trained = rope.max_position_embeddings, source.number("max_trained_positions")
    if factor is None or longest is None:
        return Outcome(refused="dynamic scaling needs factor or alpha", notes=notes)
    ratio = factor * longest / (trained or longest) - (factor - 1)
    notes.append(f"one base for every length, that of {longest} tokens{'' if trained else ': no scaling'}")
    scaling: Scaling = Default() if ratio == 1 else Ntk(factor=ratio)
    return Outcome(rope=rope.replace(scaling=scaling), notes=notes)


def sglang(source: Source) -> Outcome:
    """Give what SGLang makes of it."""
    rope, scaling, notes = source.rope, source.rope.scaling, list(unread(source, "max_trained_positions"))
    if source.spelled in ("ntk", "telechat3-yarn", "axial", "xdrope"):
        return Outcome(refused=f"it has no rope_type {source.spelled!r}", notes=notes)
    if isinstance(scaling, Dynamic):
        # the table is built once, for max_position_embeddings · factor tokens
        ratio = scaling.factor * scaling.factor - (scaling.factor - 1)
        notes.append(f"one base for every length, that of max_position_embeddings·{scaling.factor:g} tokens")
        return Outcome(rope=rope.replace(scaling=Default() if ratio == 1 else Ntk(factor=ratio)), notes=notes)
    if isinstance(scaling, Yarn):
        multiplied = or_default(source.number("attn_factor"), 1.0)
        if is_deepseek(source):
            scaling = deepseek(source, scaling, notes, multiplied=multiplied)
        else:
            pair = (scaling.mscale, scaling.mscale_all_dim)
            factor = ratio_of(scaling.factor, *pair) if None not in pair else magnitude(scaling.factor)
            notes += unread(source, "attention_factor")
            if not own_magnitude(source, scaling):
                scaling = replace(scaling, attention_factor=factor * multiplied)
        return weighted(source, rope, scaling, or_default(source.number("extrapolation_factor"), 1.0), notes)
    if isinstance(scaling, LongRope):
        if rope.pairing != "half":
            return Outcome(refused="its longrope turns half-split channels only", notes=notes)
        notes.append("one list for a whole batch; the token at the switch itself takes row 0 of the long table")
        return Outcome(rope=rope.replace(scaling=by_lengths(source, scaling, notes)), notes=notes)
    return Outcome(rope=rope.replace(scaling=proportional_unscaled(scaling, notes)), notes=notes)
