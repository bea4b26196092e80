"""Facts about llama.cpp's architectures: their names, and what they load.

Source: llama-cpp-python 0.3.36, vendor/llama.cpp: conversion/*.py (which architecture a class becomes),
src/models/*.cpp (tensors that are loaded). Pairing, betas and windows are those of the reader's own table.
"""

from collections.abc import Mapping

from ..models.gguf_facts import gguf_facts

ARCHITECTURES: Mapping[str, str] = {
    "apertus": "apertus",
    "arcee": "arcee",
    "bitnet": "bitnet",
    "chatglm": "chatglm",
    "cohere": "command-r",
    "cohere2": "cohere2",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "ernie4_5": "ernie4_5",
    "exaone4": "exaone4",
    "falcon": "falcon",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "gemma3n_text": "gemma3n",
    "gemma4_text": "gemma4",
    "glm": "chatglm",
    "glm4": "glm4",
    "glm4_moe": "glm4moe",
    "glm_moe_dsa": "glm-dsa",
    "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "hunyuan_v1_dense": "hunyuan-dense",
    "kimi_k2": "deepseek2",
    "llama": "llama",
    "llama4_text": "llama4",
    "minimax_m2": "minimax-m2",
    "ministral3": "mistral3",
    "mistral": "llama",
    "mistral4": "mistral4",
    "mixtral": "llama",
    "modernbert": "modern-bert",
    "nemotron": "nemotron",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "olmo3": "olmo2",
    "olmoe": "olmoe",
    "phi": "phi2",
    "phi3": "phi3",
    "phimoe": "phimoe",
    "qwen2": "qwen2",
    "qwen2_5_vl_text": "qwen2vl",
    "qwen2_moe": "qwen2moe",
    "qwen2_vl_text": "qwen2vl",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
    "qwen3_vl_text": "qwen3vl",
    "seed_oss": "seed_oss",
    "smollm3": "smollm3",
    "stablelm": "stablelm",
    "starcoder2": "starcoder2",
}

# architectures of consecutive channels whose converter permutes the weights of half-split models
PERMUTED = frozenset("arcee granite granitemoe llama mistral3 olmo smollm3".split())
# architectures whose graph takes rope_freqs
FREQS = frozenset("apertus arcee exaone4 gemma4 granite llama llama4 mistral3".split())
# architectures whose graph takes rope_factors_long and rope_factors_short
FACTORS = frozenset("apertus granite llama mistral3 phi3".split())
# n_rot must be the whole head
WHOLE_HEADS = frozenset("falcon llama".split())


def turns_neighbours(arch: str) -> bool:
    """Say whether an architecture's pairs are consecutive channels."""
    facts = gguf_facts(arch)
    return facts is not None and facts.rope == "norm"


def reads_betas(arch: str) -> bool:
    """Say whether an architecture reads yarn_beta_fast and yarn_beta_slow from the file."""
    facts = gguf_facts(arch)
    return facts is not None and facts.reads_yarn


def slides(arch: str) -> bool:
    """Say whether an architecture reads freq_base_swa and scales no sliding layer."""
    facts = gguf_facts(arch)
    return facts is not None and facts.window is not None and not facts.window.scaled
