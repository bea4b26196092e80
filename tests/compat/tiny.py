"""Small random models of transformers, whose attention really looks at positions, and the truth of their tables."""

from collections.abc import Callable
from typing import Any

import torch
import transformers

from ropewalk import Rope
from ropewalk.turning.naive import tables

transformers.logging.set_verbosity_error()

COMMON = {
    "hidden_size": 96,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 53,
    "max_position_embeddings": 8192,
    "initializer_range": 0.35,  # scores of some units: attention that is far from an average
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MLA = {
    **COMMON,
    "num_key_value_heads": 6,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 8,
    "v_head_dim": 12,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 3,  # no experts: their grouped product has no float64
    "n_shared_experts": 1,
}
VISION = {
    "depth": 1,
    "embed_dim": 32,
    "hidden_size": 96,
    "num_heads": 2,
    "mlp_ratio": 2,
    "patch_size": 4,
    "in_channels": 3,
    "initializer_range": 0.2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 1024,
}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + 0.1 * i for i in range(8)],
    "long_factor": [2.0 + i for i in range(8)],
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "mscale": 1.0,
    "mscale_all_dim": 0.5,
    "original_max_position_embeddings": 1024,
    "beta_fast": 32,
    "beta_slow": 1,
}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LAYERS = ["sliding_attention", "sliding_attention", "full_attention"]


def _causal(name: str, **more: Any) -> Callable[[], Any]:
    def build() -> Any:
        return transformers.AutoModelForCausalLM.from_config(getattr(transformers, name)(**{**COMMON, **more}))

    return build


def _qwen2_vl() -> Any:
    text = {**COMMON, "rope_parameters": {**PLAIN, "mrope_section": [2, 3, 3]}}
    config = transformers.Qwen2VLConfig(text_config=text, vision_config=VISION)
    return transformers.Qwen2VLForConditionalGeneration(config)


BUILDERS: dict[str, Callable[[], Any]] = {
    "llama": _causal("LlamaConfig", rope_parameters=LLAMA3),
    "qwen2_vl": _qwen2_vl,
    "gemma3": _causal(
        "Gemma3TextConfig",
        layer_types=LAYERS,
        sliding_window=64,
        query_pre_attn_scalar=4,
        head_dim=24,
        rope_parameters={
            "sliding_attention": PLAIN,
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        },
    ),
    "glm": _causal("GlmConfig", head_dim=48, rope_parameters={**PLAIN, "partial_rotary_factor": 0.5}),
    "deepseek_v3": _causal("DeepseekV3Config", **{**MLA, "rope_parameters": YARN}),
    "phi3": _causal("Phi3Config", original_max_position_embeddings=32, rope_parameters=LONG),
    "dynamic": _causal(
        "LlamaConfig",
        max_position_embeddings=32,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
    ),
    "deepseek_v2": _causal("DeepseekV2Config", **MLA),
    "llama4": _causal("Llama4TextConfig", head_dim=16, num_local_experts=2, intermediate_size_mlp=32),
    "gpt_oss": _causal("GptOssConfig", head_dim=16, num_local_experts=2, num_experts_per_tok=1, layer_types=LAYERS),
    "cohere": _causal("CohereConfig"),
    "olmo2": _causal("Olmo2Config"),
    "nanochat": _causal("NanoChatConfig"),
    "gpt_neox": _causal("GPTNeoXConfig"),
    "gptj": _causal("GPTJConfig", n_embd=96, n_head=6, n_layer=3, rotary_dim=8, n_positions=8192),
}
# how each model's rotary module returns its tables [..., P], where it is not (cos, sin), both doubled
_FORMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "deepseek_v2": torch.complex,
    "llama4": torch.complex,
    "gpt_oss": lambda cos, sin: (cos, sin),
    "cohere": lambda cos, sin: (cos.repeat_interleave(2, dim=-1), sin.repeat_interleave(2, dim=-1)),
    "nanochat": lambda cos, sin: _doubled(cos, -sin),  # its rope turns the other way, its table does not
    "gptj": lambda cos, sin: (sin, cos),
}


def _doubled(cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)


def build(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """A model in double precision: what changes its logits are its tables, not its rounding."""
    torch.manual_seed(11)
    return BUILDERS[name]().to(dtype).eval()


def rotary_of(model: Any) -> tuple[str, Any]:
    """Path and module of the text part's rotary embedding."""
    found = [(path, one) for path, one in model.named_modules() if path.endswith("rotary_emb")]
    assert len(found) == 1
    return found[0]


def truth(name: str, rope: Rope, ids: torch.Tensor) -> Any:
    """What the model's rotary module should return, from naive float64 tables and its form written out here."""
    length = int(ids.max()) + 1 if rope.length_dependent else None
    cos, sin = (torch.from_numpy(part) for part in tables(rope, ids.numpy(), length=length))
    return _FORMS.get(name, _doubled)(cos, sin)


def parts(tables_of_module: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Two real tables of what a module returned."""
    if isinstance(tables_of_module, torch.Tensor):
        return tables_of_module.real, tables_of_module.imag
    return tables_of_module
