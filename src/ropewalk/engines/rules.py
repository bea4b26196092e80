"""The rule of each engine: what it makes of a block of rope parameters, and what it does not read.

Each rule starts from the rope that ropewalk reads (its channels, width and base) and says how the engine's scaling
differs. The files that it was read from, with their version, stand in ENGINES.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..axes import Sections, Single
from ..pairs import Pairs
from ..rope import Rope
from ..scaling import Default, Dynamic, LongRope, Ntk, Proportional, Scaling, Yarn
from ..scaling._frequencies import ladder, magnitude
from ._mlx import MLX_ALIASES, MLX_DEFAULT_THETA
from .sources import Source

TRANSFORMERS_TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "mrope", "axial")
PHI3 = frozenset({"phi3", "phi3_v", "phi4mm", "phi4_multimodal", "phimoe"})


@dataclass(slots=True)
class Outcome:
    """What an engine makes of a source.

    Attributes:
        rope: the description that amounts to its reading, or None.
        pairs: the table itself, where no description has it.
        refused: why it does not load the configuration, or None.
        notes: keys that it does not read, and what else it does otherwise.
    """

    rope: Rope | None = None
    pairs: Pairs | None = None
    refused: str | None = None
    notes: list[str] = field(default_factory=list)


class Engine(NamedTuple):
    """An engine and where its rule was read.

    Attributes:
        name: "vLLM".
        version: of the release or snapshot that was read.
        files: what was read, relative to the engine's own source tree.
        verified: "run": the engine's own code was run beside the rule; "read": the source was only read.
        rule: from a source to an outcome.
    """

    name: str
    version: str
    files: tuple[str, ...]
    verified: str
    rule: Callable[[Source], Outcome]


# --- transformers ---------------------------------------------------------------------------------------------------


def transformers(source: Source) -> Outcome:
    """Give what transformers makes of it: ropewalk's own reading follows it, but for what it overlooks."""
    rope, scaling, spelled = source.rope, source.rope.scaling, source.spelled
    notes = list(_unread(source, "attn_factor", "extrapolation_factor"))
    if spelled not in TRANSFORMERS_TYPES and spelled not in source.aliases:
        return Outcome(refused=f"it has no rope_type {spelled!r}", notes=notes)
    if isinstance(scaling, Ntk) and not source.reads_alpha:
        factor = source.number("factor")
        if factor is None or rope.max_position_embeddings is None:
            return Outcome(refused=f"{spelled!r} scaling needs factor", notes=[*notes, "ignores alpha"])
        return Outcome(rope=rope.replace(scaling=Dynamic(factor=factor)), notes=[*notes, "ignores alpha"])
    if isinstance(scaling, Yarn) and source.label is not None and not scaling.truncate:
        scaling = replace(scaling, truncate=True)
        notes.append(f"ignores truncate inside the block of {source.label} and rounds")
    if isinstance(scaling, LongRope) and source.model_type != "phimoe":
        scaling = _without_mscales(scaling, notes)
    return Outcome(rope=rope.replace(scaling=scaling), notes=notes)


# --- vLLM -----------------------------------------------------------------------------------------------------------


def vllm(source: Source) -> Outcome:
    """VLLM's rule."""
    rope, scaling = source.rope, source.rope.scaling
    notes = list(_unread(source, "attn_factor", "extrapolation_factor"))
    if source.spelled == "dynamic" and not isinstance(scaling, Ntk):
        return _vllm_dynamic(source, notes)
    if isinstance(scaling, Ntk) and source.spelled == "ntk":
        return Outcome(rope=rope.replace(scaling=Ntk(factor=scaling.factor, method="vllm")), notes=notes)
    if isinstance(scaling, Yarn):
        if _is_deepseek(source):
            scaling = _deepseek(source, scaling, notes, multiplied=1.0)
        return Outcome(rope=rope.replace(scaling=scaling), notes=notes)
    if isinstance(scaling, LongRope):
        if rope.pairing != "half":
            return Outcome(refused="its longrope turns half-split channels only", notes=notes)
        notes.append("one list for every length, by the server's max_model_len; shown as if it were the length")
        return Outcome(rope=rope.replace(scaling=_by_lengths(source, scaling, notes)), notes=notes)
    return Outcome(rope=rope.replace(scaling=_proportional_unscaled(scaling, notes)), notes=notes)


def _vllm_dynamic(source: Source, notes: list[str]) -> Outcome:
    rope, factor = source.rope, source.number("factor")
    longest, trained = rope.max_position_embeddings, source.number("max_trained_positions")
    if factor is None or longest is None:
        return Outcome(refused="dynamic scaling needs factor or alpha", notes=notes)
    ratio = factor * longest / (trained or longest) - (factor - 1)
    notes.append(f"one base for every length, that of {longest} tokens{'' if trained else ': no scaling'}")
    scaling: Scaling = Default() if ratio == 1 else Ntk(factor=ratio)
    return Outcome(rope=rope.replace(scaling=scaling), notes=notes)


# --- SGLang ---------------------------------------------------------------------------------------------------------


def sglang(source: Source) -> Outcome:
    """Give what SGLang makes of it."""
    rope, scaling, notes = source.rope, source.rope.scaling, list(_unread(source, "max_trained_positions"))
    if source.spelled in ("ntk", "telechat3-yarn", "axial", "xdrope"):
        return Outcome(refused=f"it has no rope_type {source.spelled!r}", notes=notes)
    if isinstance(scaling, Dynamic):
        # the table is built once, for max_position_embeddings · factor tokens
        ratio = scaling.factor * scaling.factor - (scaling.factor - 1)
        notes.append(f"one base for every length, that of max_position_embeddings·{scaling.factor:g} tokens")
        return Outcome(rope=rope.replace(scaling=Default() if ratio == 1 else Ntk(factor=ratio)), notes=notes)
    if isinstance(scaling, Yarn):
        multiplied = _default(source.number("attn_factor"), 1.0)
        if _is_deepseek(source):
            scaling = _deepseek(source, scaling, notes, multiplied=multiplied)
        else:
            pair = (scaling.mscale, scaling.mscale_all_dim)
            factor = _ratio(scaling.factor, *pair) if None not in pair else magnitude(scaling.factor)
            notes += _unread(source, "attention_factor")
            if not _own_magnitude(source, scaling):
                scaling = replace(scaling, attention_factor=factor * multiplied)
        return _weighted(source, rope, scaling, _default(source.number("extrapolation_factor"), 1.0), notes)
    if isinstance(scaling, LongRope):
        if rope.pairing != "half":
            return Outcome(refused="its longrope turns half-split channels only", notes=notes)
        notes.append("one list for a whole batch; the token at the switch itself takes row 0 of the long table")
        return Outcome(rope=rope.replace(scaling=_by_lengths(source, scaling, notes)), notes=notes)
    return Outcome(rope=rope.replace(scaling=_proportional_unscaled(scaling, notes)), notes=notes)


# --- llama.cpp ------------------------------------------------------------------------------------------------------


def llama_cpp(source: Source) -> Outcome:
    """Give what llama.cpp makes of it, converter and runtime together; weights that it permutes count as permuted."""
    rope, scaling = source.rope, source.rope.scaling
    notes = list(_unread(source, "attention_factor", "attn_factor", "mscale"))
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
            attention = _ratio(scaling.factor, 1.0, scaling.mscale_all_dim)
        if _own_magnitude(source, scaling):
            attention = scaling.cos_sin_factor
        scaling = replace(scaling, truncate=True, attention_factor=attention)
        return _weighted(source, rope, scaling, _default(source.number("extrapolation_factor"), 1.0), notes)
    if isinstance(scaling, LongRope):
        if source.model_type is not None and source.model_type not in PHI3 | {"minicpm", "minicpm3"}:
            notes.append(f"its converter writes no factor lists for {source.model_type}")
            return Outcome(rope=rope.replace(scaling=Default()), notes=notes)
        notes.append("one list for every length, by the context's size; shown as if it were the length")
        return Outcome(
            rope=rope.replace(scaling=_without_mscales(_by_lengths(source, scaling, notes), notes)), notes=notes
        )
    return Outcome(rope=rope.replace(scaling=_proportional_unscaled(scaling, notes)), notes=notes)


# --- mlx-lm ---------------------------------------------------------------------------------------------------------


def mlx(source: Source) -> Outcome:
    """Give what mlx-lm makes of it."""
    rope, notes = source.rope, []
    kind = MLX_ALIASES.get(source.model_type or "", source.model_type or "")
    if source.home == "rope_parameters" and kind in MLX_DEFAULT_THETA and source.label is None:
        return _mlx_unread(source, kind)
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
        notes += _unread(source, "attention_factor", "attn_factor", "extrapolation_factor")
        original = source.number("original_max_position_embeddings")
        if original is None:
            notes.append("takes 4096 for an original_max_position_embeddings that its block lacks")
        if not scaling.truncate:
            notes.append("ignores truncate and rounds")
        attention = _ratio(scaling.factor, _default(scaling.mscale, 1.0), _default(scaling.mscale_all_dim, 0.0))
        if _own_magnitude(source, scaling):
            attention = scaling.cos_sin_factor
        scaling = replace(
            scaling,
            truncate=True,
            original_max_position_embeddings=int(original or 4096),
            attention_factor=attention,
        )
        return Outcome(rope=rope.replace(scaling=scaling), notes=notes)
    if isinstance(scaling, LongRope):
        scaling = _by_lengths(source, scaling, notes)
        if source.model_type != "phimoe":
            scaling = _without_mscales(scaling, notes)
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


# --- onnxruntime-genai ----------------------------------------------------------------------------------------------

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
    notes = list(_unread(source, "attention_factor", "attn_factor", "extrapolation_factor"))
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
        scaling = _by_lengths(source, scaling, notes)
    return Outcome(rope=rope.replace(scaling=_proportional_unscaled(scaling, notes)), notes=notes)


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
        attention = _ratio(scaling.factor, scaling.mscale, scaling.mscale_all_dim)
    elif scaling.mscale:
        attention = scaling.mscale
        notes.append("takes a lone mscale for the multiplier itself")
    return Outcome(rope=rope.replace(scaling=replace(scaling, attention_factor=attention)), notes=notes)


# --- shared ---------------------------------------------------------------------------------------------------------


def _unread(source: Source, *names: str) -> Iterator[str]:
    for name in names:
        if source.number(name) is not None:
            yield f"ignores {name}"


def _default(value: float | None, default: float) -> float:
    return default if value is None else value


def _ratio(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    return magnitude(factor, mscale or 0.0) / magnitude(factor, mscale_all_dim or 0.0)


def _own_magnitude(source: Source, scaling: Yarn) -> bool:
    """Say whether the magnitude comes from the architecture's own code (DeepSeek-V4), which an engine has to copy."""
    return scaling.attention_factor is not None and source.spelled == "yarn" and "attention_factor" not in source.block


def _is_deepseek(source: Source) -> bool:
    return source.scale_softmax or source.spelled == "deepseek_yarn"


def _deepseek(source: Source, scaling: Yarn, notes: list[str], *, multiplied: float) -> Yarn:
    """The yarn of vLLM's and SGLang's DeepSeek classes: mscale 1 and mscale_all_dim 0 where absent, always rounded."""
    notes += _unread(source, "attention_factor")
    if not scaling.truncate:
        notes.append("ignores truncate and rounds")
    ratio = _ratio(scaling.factor, _default(scaling.mscale, 1.0), _default(scaling.mscale_all_dim, 0.0))
    return replace(scaling, truncate=True, attention_factor=ratio * multiplied)


def _weighted(source: Source, rope: Rope, scaling: Yarn, weight: float, notes: list[str]) -> Outcome:
    """Give a yarn rope whose kept pairs are weighted by extrapolation_factor."""
    described = rope.replace(scaling=scaling)
    if weight == 1 or scaling.factor == 1 or not isinstance(rope.axes, Single | Sections):
        return Outcome(rope=described, notes=notes)
    low, high = scaling.bounds(rope.rope_theta, rope.width)
    ramp = np.clip((np.arange(rope.num_pairs) - low) / ((high - low) or 0.001), 0, 1)
    kept = (1 - ramp) * weight
    plain = ladder(rope.rope_theta, rope.width)
    pairs = described.pairs()
    table = Pairs(
        first=pairs.first,
        second=pairs.second,
        axis=pairs.axis,
        inv_freq=rope.direction * (plain / scaling.factor * (1 - kept) + plain * kept),
        cos_sin_factor=pairs.cos_sin_factor,
        softmax_factor=pairs.softmax_factor,
    )
    return Outcome(pairs=table, notes=[*notes, f"weights kept pairs with extrapolation_factor {weight:g}"])


def _by_lengths(source: Source, scaling: LongRope, notes: list[str]) -> LongRope:
    """LongRoPE with the magnitude of max_position_embeddings over the original length, whatever the block says."""
    longest = source.rope.max_position_embeddings
    if longest is None:
        return scaling
    notes += _unread(source, "factor", "attention_factor")
    stretch = longest / scaling.original_max_position_embeddings
    return replace(scaling, factor=max(stretch, 1.0), attention_factor=None)


def _without_mscales(scaling: LongRope, notes: list[str]) -> LongRope:
    if scaling.short_mscale is None and scaling.long_mscale is None:
        return scaling
    notes.append("ignores short_mscale and long_mscale")
    return replace(scaling, short_mscale=None, long_mscale=None)


def _proportional_unscaled(scaling: Scaling, notes: list[str]) -> Scaling:
    if not isinstance(scaling, Proportional) or scaling.factor == 1:
        return scaling
    notes.append("ignores factor in proportional scaling")
    return replace(scaling, factor=1.0)


ENGINES: tuple[Engine, ...] = (
    Engine("transformers", "5.24.0", ("modeling_rope_utils.py",), "run", transformers),
    Engine(
        "vLLM",
        "0.33.0",
        ("vllm/model_executor/layers/rotary_embedding/", "vllm/transformers_utils/config.py"),
        "run",
        vllm,
    ),
    Engine("SGLang", "0.5.23", ("sglang/srt/layers/rotary_embedding/",), "run", sglang),
    Engine(
        "llama.cpp",
        "converter 00bd27a, runtime of llama-cpp-python 0.3.36",
        ("conversion/base.py", "src/llama-context.cpp", "ggml/src/ggml-cpu/ops.cpp"),
        "read",
        llama_cpp,
    ),
    Engine("mlx-lm", "0.32.2", ("mlx_lm/models/rope_utils.py", "mlx_lm/models/"), "run", mlx),
    Engine("onnxruntime-genai", "0.18.0", ("onnxruntime_genai/models/builders/",), "run", genai),
)
