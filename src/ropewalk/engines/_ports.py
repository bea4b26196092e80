"""The rules of engines that have formats of their own: llama.cpp, mlx-lm and onnxruntime-genai."""

from dataclasses import replace

from ..axes import Sections
from ..scaling import Default, Dynamic, LongRope, Ntk, Proportional, Yarn
from ..scaling._frequencies import magnitude
from ._mlx import MLX_ALIASES, MLX_DEFAULT_THETA
from ._outcome import (
    PHI3,
    Outcome,
    by_lengths,
    or_default,
    own_magnitude,
    proportional_unscaled,
    ratio_of,
    unread,
    weighted,
    without_mscales,
)
from .sources import Source


def llama_cpp(source: Source) -> Outcome:
    """Give what llama.cpp makes of it, converter and runtime together; weights that it permutes count as permuted."""
    rope, scaling = source.rope, source.rope.scaling
    notes = list(unread(source, "attention_factor", "attn_factor", "mscale"))
    hunyuan = (source.model_type or "").startswith("hunyuan")
    if source.label not in (None, "full_attention") and not isinstance(scaling, Default):
        notes.append(f"its converter reads the block of full_attention alone, and of {source.label} only rope_theta")
        return Outcome(rope=rope.replace(scaling=Default()), notes=notes)
    if isinstance(scaling, Dynamic) or (isinstance(scaling, Ntk) and not hunyuan):
        notes.append(f"its converter lets {source.spelled!r} pass and writes no scaling")
        return Outcome(rope=rope.replace(scaling=Default()), notes=notes)
    if source.spelled in ("deepseek_yarn", "telechat3-yarn") or (
        isinstance(scaling, Proportional) and "gemma4" not in (source.model_type or "gemma4")
    ):
        notes.append(f"its converter does not know {source.spelled!r}, warns and writes no scaling")
        return Outcome(rope=rope.replace(scaling=Default()), notes=notes)
    if isinstance(scaling, Yarn):
        if not scaling.truncate:
            notes.append("ignores truncate and rounds")
        if source.scale_softmax:
            notes.append("takes mscale to be mscale_all_dim")
        attention = 1.0 if source.scale_softmax else magnitude(scaling.factor)
        if source.model_type in ("mistral3", "ministral3", "mistral4") and scaling.mscale_all_dim:
            attention = ratio_of(scaling.factor, 1.0, scaling.mscale_all_dim)
        if own_magnitude(source, scaling):
            attention = scaling.cos_sin_factor
        scaling = replace(scaling, truncate=True, attention_factor=attention)
        return weighted(source, rope, scaling, or_default(source.number("extrapolation_factor"), 1.0), notes)
    if isinstance(scaling, LongRope):
        if source.model_type is not None and source.model_type not in PHI3 | {"minicpm", "minicpm3"}:
            notes.append(f"its converter writes no factor lists for {source.model_type}")
            return Outcome(rope=rope.replace(scaling=Default()), notes=notes)
        notes.append("one list for every length, by the context's size; shown as if it were the length")
        return Outcome(
            rope=rope.replace(scaling=without_mscales(by_lengths(source, scaling, notes), notes)), notes=notes
        )
    return Outcome(rope=rope.replace(scaling=proportional_unscaled(scaling, notes)), notes=notes)


def mlx(source: Source) -> Outcome:
    """Give what mlx-lm makes of it."""
    rope, notes = source.rope, []
    kind = MLX_ALIASES.get(source.model_type or "", source.model_type or "")
    if source.home == "rope_parameters" and kind in MLX_DEFAULT_THETA and source.label is None:
        return _mlx_unread(source, kind)
    if source.implied and source.label is None:
        notes.append("reads the file alone, which has no block of rope parameters: no scaling")
        theta = source.top_number("rope_theta") or rope.rope_theta
        return Outcome(rope=rope.replace(rope_theta=theta, scaling=Default()), notes=notes)
    spelled = source.block.get("type") or source.block.get("rope_type") or "default"
    if "type" in source.block and "rope_type" in source.block and source.block["type"] != source.block["rope_type"]:
        notes.append(f"takes type, {spelled!r}, before rope_type")
    scaling = rope.scaling
    if isinstance(rope.axes, Sections):
        notes.append("text only, where every axis has the same position")
    if spelled in ("su", "ntk", "axial", "xdrope", "none") and not (spelled == "su" and source.model_type in PHI3):
        return Outcome(refused=f"it has no rope type {spelled!r}", notes=notes)
    if isinstance(scaling, Ntk) and not source.reads_alpha:
        factor = source.number("factor")
        if factor is None or rope.max_position_embeddings is None:
            return Outcome(refused="dynamic scaling needs factor", notes=[*notes, "ignores alpha"])
        return Outcome(rope=rope.replace(scaling=Dynamic(factor=factor)), notes=[*notes, "ignores alpha"])
    if isinstance(scaling, Yarn):
        notes += unread(source, "attention_factor", "attn_factor", "extrapolation_factor")
        original = source.number("original_max_position_embeddings")
        if original is None:
            notes.append("takes 4096 for an original_max_position_embeddings that its block lacks")
        if not scaling.truncate:
            notes.append("ignores truncate and rounds")
        attention = ratio_of(scaling.factor, or_default(scaling.mscale, 1.0), or_default(scaling.mscale_all_dim, 0.0))
        if own_magnitude(source, scaling):
            attention = scaling.cos_sin_factor
        scaling = replace(
            scaling,
            truncate=True,
            original_max_position_embeddings=int(original or 4096),
            attention_factor=attention,
        )
        return Outcome(rope=rope.replace(scaling=scaling), notes=notes)
    if isinstance(scaling, LongRope):
        scaling = by_lengths(source, scaling, notes)
        if source.model_type != "phimoe":
            scaling = without_mscales(scaling, notes)
        notes.append("takes long_factor at every length")
        scaling = replace(scaling, short_factor=scaling.long_factor, short_mscale=scaling.long_mscale)
        return Outcome(rope=rope.replace(scaling=scaling), notes=notes)
    return Outcome(rope=rope, notes=notes)


def _mlx_unread(source: Source, kind: str) -> Outcome:
    """What mlx-lm makes of rope_parameters in a model file that reads rope_theta and rope_scaling at the top only."""
    file = f"models/{kind}.py reads rope_theta and rope_scaling at the top level"
    theta = source.top_number("rope_theta") or MLX_DEFAULT_THETA[kind]
    if theta is None:
        return Outcome(refused=f"{file}, and needs rope_theta there")
    rope = source.rope.replace(rope_theta=theta, scaling=Default())
    return Outcome(rope=rope, notes=[f"ignores rope_parameters: {file}; rope_theta {theta:g}, no scaling"])


GENAI_LLAMA3 = frozenset({"llama", "nemotron", "smollm3"})
GENAI_MODELS = frozenset(
    """
    chatglm ernie4_5 gemma gemma2 gemma3 gemma3_text gemma4 gemma4_text gemma4_unified gpt_oss granite granitemoehybrid
    hunyuan_v1_dense internlm2 lfm2 lfm2_moe lfm2_vl lfm2_audio llama mistral mistral3 ministral3 nemotron olmo phi phi3
    phi3small phi3_v phi4mm phimoe qwen2 qwen2_5_vl qwen2_5_vl_text qwen3 qwen3_vl qwen3_vl_text qwen3_5 qwen3_5_text
    qwen3_5_moe qwen3_5_moe_text smollm3 videochat_flash_qwen whisper
    """.split()
)


def genai(source: Source) -> Outcome:
    """Give what the model builder of onnxruntime-genai makes of it."""
    rope, scaling = source.rope, source.rope.scaling
    notes = list(unread(source, "attention_factor", "attn_factor", "extrapolation_factor"))
    own = source.model_type or ""
    if own and own not in GENAI_MODELS:
        return Outcome(refused=f"its builder has no class for {own}", notes=notes)
    if isinstance(scaling, Yarn) and source.spelled == "yarn":
        return _genai_yarn(source, scaling, notes)
    allowed = {
        "default": True,
        "linear": True,
        "llama3": own in GENAI_LLAMA3 or not own,
        "longrope": own in PHI3 or not own,
        "dynamic": "alpha" in source.block and (own.startswith("hunyuan") or not own),
        "proportional": own.startswith("gemma4") or not own,
    }
    if not allowed.get("longrope" if source.spelled == "su" else source.spelled, source.spelled == "mrope"):
        where = f" for {own}" if own else ""
        return Outcome(refused=f"its builder does not support {source.spelled!r}{where}", notes=notes)
    if isinstance(scaling, LongRope):
        if source.home and "type" not in source.block:
            return Outcome(refused="its builder reads type beside rope_type in a longrope block", notes=notes)
        notes.append("two caches in the graph, chosen by the total length")
        scaling = by_lengths(source, scaling, notes)
    return Outcome(rope=rope.replace(scaling=proportional_unscaled(scaling, notes)), notes=notes)


def _genai_yarn(source: Source, scaling: Yarn, notes: list[str]) -> Outcome:
    rope = source.rope
    missing = [name for name in ("beta_fast", "beta_slow") if source.number(name) is None]
    if missing:
        return Outcome(refused=f"its builder needs {' and '.join(missing)} in a yarn block (it takes 0)", notes=notes)
    if rope.width != rope.head_dim:
        return Outcome(refused="its yarn turns whole heads only", notes=notes)
    if scaling.truncate:
        notes.append("never rounds the bounds of the ramp")
    scaling = replace(scaling, truncate=False, scale_softmax=False)
    low, high = scaling.bounds(rope.rope_theta, rope.width)
    if not 0 < low < high < rope.head_dim / 2 - 1:
        return Outcome(refused=f"its builder asserts 0 < {low:.4g} < {high:.4g} < D/2 - 1", notes=notes)
    attention = magnitude(scaling.factor)
    if scaling.mscale and scaling.mscale_all_dim:
        attention = ratio_of(scaling.factor, scaling.mscale, scaling.mscale_all_dim)
    elif scaling.mscale:
        attention = scaling.mscale
        notes.append("takes a lone mscale for the multiplier itself")
    return Outcome(rope=rope.replace(scaling=replace(scaling, attention_factor=attention)), notes=notes)
