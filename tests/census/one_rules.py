"""Where a one-axis rotary class of transformers does not follow the common rule: small tables, read by blackbox_one."""

from collections.abc import Callable
from typing import Any


def _per_layer_head_dim(config: Any, label: str | None) -> int:
    """Gemma 4: layers of one type have their own head_dim."""
    return config.per_layer_config[config.layer_types.index(label)].head_dim


def _per_layer_rope_dim(config: Any, label: str | None) -> int:
    return config.per_layer_config[config.layer_types.index(label)].qk_rope_head_dim


def _rope_dim(config: Any, label: str | None) -> int:
    return config.qk_rope_head_dim


def _encoder_heads(config: Any, label: str | None) -> int:
    return config.hidden_size // config.speech_encoder_attention_heads


def _partial(config: Any) -> int:
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(head_dim * config.rope_parameters["partial_rotary_factor"])


def _rotary_dim(config: Any) -> int:
    return config.rotary_dim


def _clvp_width(config: Any) -> int:
    return max(config.projection_dim // (config.num_attention_heads * 2), 32)


def _first_with(key: str) -> Callable[[Any, str | None], int | None]:
    """First layer whose entry in a list of the config is truthy."""

    def first(config: Any, label: str | None) -> int | None:
        return next((index for index, value in enumerate(getattr(config, key)) if value), None)

    return first


def _first_of(kind: str, key: str = "layer_types") -> Callable[[Any, str | None], int | None]:
    """First layer of one type."""

    def first(config: Any, label: str | None) -> int | None:
        kinds = list(getattr(config, key))
        return kinds.index(kind) if kind in kinds else None

    return first


def _deepseek_v4_layer(config: Any, label: str | None) -> int | None:
    wanted = [
        index for index, kind in enumerate(config.layer_types) if (kind == "sliding_attention") == (label == "main")
    ]
    return wanted[0] if wanted else None


def _index_head_dim(config: Any) -> int:
    return config.index_head_dim


def _zero(config: Any) -> int:
    return 0


def _index_tail(config: Any) -> int:
    return config.index_head_dim - config.qk_rope_head_dim


# Sub-config keys whose part is called otherwise.
PARTS: dict[str, str] = {"asr": "audio", "speech": "audio"}

# Rotary class -> parts of a root config that has no sub-config for them.
TOP_PARTS: dict[str, tuple[str, ...]] = {
    "MimiRotaryEmbedding": ("encoder", "decoder"),
    "MoonshineRotaryEmbedding": ("encoder", "decoder"),
    "MoonshineStreamingRotaryEmbedding": ("decoder",),
    "NeuCodecRotaryEmbedding": ("decoder",),
    "PocketTTSAudioTokenizerRotaryEmbedding": ("encoder", "decoder"),
    "SeamlessM4TConformerRotaryPositionalEmbedding": ("speech_encoder",),
    "Wav2Vec2BertRotaryPositionalEmbedding": ("audio",),
    "Wav2Vec2ConformerRotaryPositionalEmbedding": ("audio",),
    "Xcodec2RotaryEmbedding": ("decoder",),
}

# Rotary class -> number of position axes, where it is not one.
AXES: dict[str, int] = {"EsmFold2RotaryEmbedding": 4, "Qwen3OmniMoeTalkerRotaryEmbedding": 3}

# Rotary class -> config classes, where the building code does not annotate them (or annotates another).
CONFIGS: dict[str, tuple[str, ...]] = {
    "ClvpRotaryPositionalEmbedding": ("ClvpEncoderConfig",),
    "SeamlessM4TConformerRotaryPositionalEmbedding": ("SeamlessM4TConfig",),
    "Wav2Vec2BertRotaryPositionalEmbedding": ("Wav2Vec2BertConfig",),
    "Wav2Vec2ConformerRotaryPositionalEmbedding": ("Wav2Vec2ConformerConfig",),
    "T5GemmaRotaryEmbedding": ("T5GemmaModuleConfig",),
    "IdeficsRotaryEmbedding": ("IdeficsConfig",),
    "EsmFold2RotaryEmbedding": ("EsmFold2AtomEncoderConfig",),
    "DiffusionGemmaTextRotaryEmbedding": ("DiffusionGemmaTextConfig",),
}

_DEEPSEEK_V4_LAYERS = ["sliding_attention"] * 2 + ["compressed_sparse_attention", "heavily_compressed_attention"] * 20
_DEEPSEEK_V4_LAYERS += ["compressed_sparse_attention"]

# Root class -> arguments without which its default has no rope, or not all of its ropes.
SWITCH_ON: dict[str, dict[str, Any]] = {
    "EsmConfig": {"position_embedding_type": "rotary"},
    "SeamlessM4TConfig": {"position_embeddings_type": "rotary"},
    "Wav2Vec2BertConfig": {"position_embeddings_type": "rotary"},
    "Wav2Vec2ConformerConfig": {"position_embeddings_type": "rotary"},
    "GraniteMoeHybridConfig": {
        "position_embedding_type": "rope",
        "layer_types": ["linear_attention", "full_attention"] * 16,
    },
    "BambaConfig": {"attn_layer_indices": [9, 18, 27]},
    "Zamba2Config": {"use_mem_rope": True},
    "DeepseekV4Config": {"layer_types": _DEEPSEEK_V4_LAYERS},
    "LagunaConfig": {"layer_types": ["full_attention", *["sliding_attention"] * 3] * 10},
    "MellumConfig": {"layer_types": [*["sliding_attention"] * 3, "full_attention"] * 7},
    "MiniMaxM3VLConfig": {"text_config": {"layer_types": ["full_attention"] * 3 + ["minimax_m3_sparse"] * 57}},
    "Step3p7Config": {"text_config": {"layer_types": ["full_attention", *["sliding_attention"] * 4] * 9}},
    "ZayaConfig": {"layer_types": ["hybrid", "hybrid_sliding"] * 20, "sliding_window": 4096},
}

# Rotary class -> how its file applies the tables (the names of blackbox_one).
APPLY: dict[str, str] = {
    "CodeGenRotaryEmbedding": "sin_first",
    "GPTJRotaryEmbedding": "sin_first",
    "DeepseekV2RotaryEmbedding": "complex_heads_first",
    "Llama4TextRotaryEmbedding": "complex_heads_last",
    "ClvpRotaryPositionalEmbedding": "with_value",
    "SeamlessM4TConformerRotaryPositionalEmbedding": "conformer",
    "Wav2Vec2BertRotaryPositionalEmbedding": "conformer",
    "Wav2Vec2ConformerRotaryPositionalEmbedding": "conformer",
    "Qwen2_5OmniDiTRotaryEmbedding": "deinterleaved",
    "Dots3NoteAudioRotaryEmbedding": "pair",
    "EsmFold2RotaryEmbedding": "atoms",
}

# Rotary class -> width of one head, where it is not head_dim or hidden_size / num_attention_heads.
HEAD_DIM: dict[str, Callable[[Any, str | None], int]] = {
    "DiffusionGemmaTextRotaryEmbedding": _per_layer_head_dim,
    "EmbeddingGemma2RotaryEmbedding": _per_layer_head_dim,
    "Gemma4TextRotaryEmbedding": _per_layer_head_dim,
    "Gemma4UnifiedTextRotaryEmbedding": _per_layer_head_dim,
    "Dots3NoteTextRotaryEmbedding": _per_layer_rope_dim,
    "Mistral4RotaryEmbedding": _rope_dim,
    "SeamlessM4TConformerRotaryPositionalEmbedding": _encoder_heads,
}

# Rotary class -> width that the attention cuts out before it calls the apply function.
SLICED: dict[str, Callable[[Any], int]] = {
    "PhiRotaryEmbedding": _partial,
    "PersimmonRotaryEmbedding": _partial,
    "StableLmRotaryEmbedding": _partial,
    "GPTNeoXJapaneseRotaryEmbedding": _partial,
    "CodeGenRotaryEmbedding": _rotary_dim,
    "GPTJRotaryEmbedding": _rotary_dim,
    "ClvpRotaryPositionalEmbedding": _clvp_width,
}

# Rotary class -> first layer that really turns.
FIRST_ROPE_LAYER: dict[str, Callable[[Any, str | None], int | None]] = {
    "AfmoeRotaryEmbedding": _first_of("sliding_attention"),
    "BailingHybridRotaryEmbedding": _first_of("full_attention"),
    "BambaRotaryEmbedding": _first_of("full_attention"),
    "Cohere2RotaryEmbedding": _first_of("sliding_attention"),
    "Cohere2MoeRotaryEmbedding": _first_of("sliding_attention"),
    "DeepseekV4RotaryEmbedding": _deepseek_v4_layer,
    "Exaone4RotaryEmbedding": _first_of("sliding_attention"),
    "ExaoneMoeRotaryEmbedding": _first_of("sliding_attention"),
    "FlintRotaryEmbedding": _first_of("sliding_attention"),
    "GraniteMoeHybridRotaryEmbedding": _first_of("full_attention"),
    "GraniteMoeSWARotaryEmbedding": _first_with("layer_rope_theta"),
    "GraniteSWARotaryEmbedding": _first_with("layer_rope_theta"),
    "Kolibri1RotaryEmbedding": _first_of("sliding_attention"),
    "LaraMiniRotaryEmbedding": _first_of("sliding_attention"),
    "Lfm2RotaryEmbedding": _first_of("full_attention"),
    "Llama4TextRotaryEmbedding": _first_with("no_rope_layers"),
    "MiniMaxRotaryEmbedding": _first_of("full_attention"),
    "MistralLarge4TextRotaryEmbedding": _first_with("no_rope_layers"),
    "MuseGlimmerTextRotaryEmbedding": _first_with("layer_rope_theta"),
    "MuseSparkTextRotaryEmbedding": _first_with("layer_rope_theta"),
    "OlmoHybridRotaryEmbedding": _first_of("full_attention"),
    "Qwen3NextRotaryEmbedding": _first_of("full_attention"),
    "RecurrentGemmaRotaryEmbedding": _first_of("sliding_attention", "layers_block_type"),
    "SmolLM3RotaryEmbedding": _first_with("no_rope_layers"),
    "Zamba2RotaryEmbedding": _first_of("hybrid", "layers_block_type"),
}

# Rotary class -> (apply family, head_dim, first channel) of the indexer beside the attention.
INDEXER: dict[str, tuple[str, Callable[[Any], int], Callable[[Any], int]]] = {
    "DeepseekV4RotaryEmbedding": ("single", _index_head_dim, _zero),
    "MiniMaxM3VLRotaryEmbedding": ("pair", _index_head_dim, _zero),
    "AXK2RotaryEmbedding": ("pair", _index_head_dim, _zero),
    "DeepseekV32RotaryEmbedding": ("pair", _index_head_dim, _zero),
    "Dots3NoteTextRotaryEmbedding": ("interleave", _index_head_dim, _zero),
    "GlmMoeDsaRotaryEmbedding": ("interleave", _index_head_dim, _zero),
    "HYV4RotaryEmbedding": ("pair", _index_head_dim, _index_tail),
    "MistralLarge4TextRotaryEmbedding": ("interleave", _index_head_dim, _zero),
}

# Rotary class -> the only label whose layers have the indexer.
INDEXER_LABEL: dict[str, str] = {
    "Dots3NoteTextRotaryEmbedding": "indexed_attention",
    "DeepseekV4RotaryEmbedding": "compress",
}

# Rotary class -> first layer with an indexer, where it is not the first layer with rope.
INDEXER_LAYER: dict[str, Callable[[Any, str | None], int | None]] = {
    "DeepseekV4RotaryEmbedding": _first_of("compressed_sparse_attention"),
    "MiniMaxM3VLRotaryEmbedding": _first_of("minimax_m3_sparse"),
}

# Rotary class -> a note; "not covered: " and a reason where there is no case.
NOTES: dict[str, str] = {
    "EsmFold2RotaryEmbedding": "axes x, y, z (theta 20) and a molecule number (theta 10000)",
    "MistralLarge4TextRotaryEmbedding": "frequencies are multiplied by exp(alpha), learned; zero here",
    "NeuCodecRotaryEmbedding": "the position is the index of the attention head",
    "Qwen2_5OmniDiTRotaryEmbedding": "only the first attention head is turned",
    "Wav2Vec2BertRotaryPositionalEmbedding": "turns the hidden states before the q and k projections",
    "Wav2Vec2ConformerRotaryPositionalEmbedding": "turns the hidden states before the q and k projections",
    "SeamlessM4TConformerRotaryPositionalEmbedding": "turns the hidden states before the q and k projections",
    "Xcodec2RotaryEmbedding": "the position is the index of the attention head",
}
