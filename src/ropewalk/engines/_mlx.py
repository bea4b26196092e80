"""Facts about mlx-lm 0.32.2: which of its model files read rope_theta and rope_scaling at the top level only.

Source: mlx_lm/models/*.py, the field rope_theta of each ModelArgs in a file that does not name rope_parameters, and
MODEL_REMAPPING of mlx_lm/utils.py.
"""

from collections.abc import Mapping

MLX_ALIASES: Mapping[str, str] = {
    "mistral": "llama",
    "kimi_k2": "deepseek_v3",
    "minimax_m2": "minimax",
    "iquestcoder": "llama",
    "xverse": "llama",
    "deepseek_v41_text": "deepseek_v41",
}

# model files without a default: they refuse a configuration without rope_theta at the top level
_NEEDED = """
    Klear apertus baichuan_m1 bailing_hybrid bailing_moe bailing_moe_linear dots1 ernie4_5 ernie4_5_moe exaone
    exaone4 gemma3n glm4 glm4_moe granite granitemoe helium hunyuan kimi_linear lille-130m llama4 llama4_text
    longcat_flash longcat_flash_ngram mimo_v2_flash minimax olmo3 qwen3_moe qwen3_next recurrent_gemma solar_open
    stablelm telechat3
""".split()

# the base that a model file takes where the top level has none
_DEFAULTS: Mapping[float, str] = {
    10_000.0: (
        "afmoe bitnet deepseek deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v41 gemma gemma2 glm "
        "hunyuan_v1_dense internlm2 internlm3 kimi_vl llama mimo nanbeige nanochat nemotron olmo olmo2 olmoe "
        "phi phi3 phimoe plamo seed_oss step3p5 "
    ),
    50_000.0: "afm7 cohere2",
    100_000.0: "starcoder2",
    150_000.0: "gpt_oss",
    500_000.0: "iquestloopcoder nemotron-nas",
    1_000_000.0: "gear gemma3_text glm4_moe_lite minicpm minicpm3 mixtral plamo3 qwen2 qwen2_moe talkie",
    1_600_000.0: "youtu_llm",
    6_000_000.0: "bailing_moe_v3",
    8_000_000.0: "cohere",
    100_000_000_000.0: "falcon_h1",
}

MLX_DEFAULT_THETA: Mapping[str, float | None] = {
    **dict.fromkeys(_NEEDED),
    **{kind: theta for theta, kinds in _DEFAULTS.items() for kind in kinds.split()},
}
