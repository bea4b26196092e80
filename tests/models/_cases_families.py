"""Configurations of other families than Hugging Face's."""

from ._cases import Case

FAMILIES = (
    Case(
        name="form-outside-scope",
        fault={"_class_name": "LTXVideoTransformer3DModel", "num_layers": 4},
        twin={"_class_name": "FluxTransformer2DModel", "num_layers": 4},
        where="transformer: _class_name",
        seen=("LTXVideoTransformer3DModel",),
        right=("one axis",),
        message=("LTXVideoTransformer3DModel", "No rope is described"),
        id="a class",
    ),
    Case(
        name="form-outside-scope",
        fault={"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 10000, "rope_condense_ratio": 2}
        | {"rope_adjustments": {"factor": 4}},
        twin={"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 10000, "rope_condense_ratio": 2},
        where="text: rope_condense_ratio",
        seen=("2", "rope_adjustments"),
        right=("one of the two",),
        message=("two scalings at once",),
        id="two scalings",
    ),
    Case(
        name="scaling-implied",
        fault={"dim": 64, "n_layers": 2, "n_heads": 4, "rope_theta": 5e5, "use_scaled_rope": True},
        twin={"dim": 64, "n_layers": 2, "n_heads": 4, "rope_theta": 5e5, "use_scaled_rope": True}
        | {"rope_scaling_factor": 8},
        where="text: use_scaled_rope",
        seen=("without a factor",),
        right=("factor 8",),
        message=("8", "32", "Llama 3.2"),
    ),
    Case(
        name="scaling-implied",
        fault={"model_type": "gpt_oss"},
        twin={"model_type": "gpt_oss", "rope_parameters": {"rope_type": "default"}},
        where="text: rope_parameters",
        seen=("absent",),
        right=("yarn", "factor 32", "truncate false", "GptOssConfig"),
        message=("GptOssConfig", "4096"),
        id="class",
    ),
    Case(
        name="ramp-inverted",
        fault={"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 10000}
        | {"rope_adjustments": {"factor": 4, "beta_fast": 32, "beta_slow": 1, "original_max_seq_len": 4096}},
        twin={"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 8, "rope_base": 10000}
        | {"rope_adjustments": {"factor": 4}},
        where="text: rope_adjustments.beta_fast",
        seen=("YaRN",),
        right=("fast pairs kept",),
        message=("LitGPT", "wrong way round"),
    ),
    Case(
        name="mlx-pairing",
        fault={"model_type": "llama", "head_dim": 64, "rope_theta": 3e5, "rope_traditional": True},
        twin={"model_type": "llama", "head_dim": 64, "rope_theta": 3e5, "rope_traditional": False},
        where="text: rope_traditional",
        seen=("true",),
        right=("half",),
        message=("mlx-lm", "interleaved"),
    ),
    Case(
        name="indexer-pairing",
        fault={"dim": 64, "n_layers": 2, "inter_dim": 64, "qk_rope_head_dim": 64, "index_head_dim": 128},
        twin={"dim": 64, "n_layers": 2, "inter_dim": 64, "qk_rope_head_dim": 64},
        where="text: index_head_dim",
        seen=("no key",),
        right=("half-split", "interleaved"),
        message=("indexer", "adjacent"),
    ),
)
