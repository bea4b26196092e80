"""DeepSeek's inference configurations: V2, V3 and V3.2, whose YaRN stands in the code's defaults.

Source: deepseek-ai/DeepSeek-V3 9b4e978 and deepseek-ai/DeepSeek-V3.2-Exp 3b99a53, both `inference/model.py`
(ModelArgs, precompute_freqs_cis, apply_rotary_emb on adjacent channels, MLA's softmax_scale, Indexer).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._checks import shown
from ._reading import View
from ._words import Words, model_of, read_part
from .architectures import Architecture
from .model import Model

TEXT_WORDS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "qk_rope_head_dim": "qk_rope_head_dim",
    "index_head_dim": "index_head_dim",
    "rope_theta": "rope_theta",
    "max_seq_len": "max_position_embeddings",
    "original_seq_len": "original_max_position_embeddings",
    "rope_factor": "factor",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "mscale": "mscale",
}
# the defaults of ModelArgs
CONSTANTS = {
    "original_max_position_embeddings": 4096,
    "factor": 40.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
}
MAX_SEQ_LEN = 16_384
INDEXER_KEYS = ("index_head_dim", "index_n_heads", "index_topk")

_TEXT = Architecture(
    config_class="DeepSeek's ModelArgs",
    pairing="interleaved",
    theta=10_000.0,
    defaults={"qk_rope_head_dim": 64, "num_hidden_layers": 27},
    head_dim_keys=("qk_rope_head_dim",),
    scale_softmax=True,
)


def read_deepseek(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read a configuration of DeepSeek's inference code.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    >>> read_deepseek({"dim": 2048, "n_layers": 2, "inter_dim": 10944, "qk_rope_head_dim": 64}).rope.scaling.factor
    40.0
    """
    arch = _TEXT
    if any(data.get(key) is not None for key in INDEXER_KEYS):
        arch = replace(arch, indexer={"pairing": "half", "defaults": {"index_head_dim": 128}})
    part = read_part("text", Words().take(data, TEXT_WORDS), arch, _yarn)
    if any("indexer" in layer.ropes for layer in part.layers[:1]):
        part.reading.find(
            "indexer-pairing",
            key="index_head_dim",
            seen="no key that names the indexer's pairing",
            right="half-split in the indexer, interleaved in the attention beside it",
            message="the indexer pairs its channels half-split and the attention beside it adjacent channels; no key "
            "says so. DeepSeek's first inference code for V3.2-Exp turned adjacent channels in both.",
        )
    return model_of([part], target=target)


def _yarn(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    longest = view.whole("max_position_embeddings")
    original = view.whole("original_max_position_embeddings")
    reached = MAX_SEQ_LEN if longest is None else longest
    trained = int(CONSTANTS["original_max_position_embeddings"]) if original is None else original
    if reached <= trained:
        view.reading.source("scaling", view.key("max_position_embeddings"))
        return Words(), arch
    words, implied = Words(), []
    for name, default in CONSTANTS.items():
        words.origins[name] = view.key(name)
        if view.data.get(name) is not None:
            words.data[name] = view.data[name]
        else:
            implied.append(f"{view.key(name)} {default:g}")
        words.put(name, default, arch.described())
    words.put("mscale_all_dim", words.data["mscale"], words.origins["mscale"])
    if view.number("mscale", at_least=0) == 0:  # 0 means no magnitude at all, not an absent one
        words.put("attention_factor", 1.0, words.origins["mscale"])
    if implied:
        view.reading.find(
            "scaling-implied",
            key=view.key("factor"),
            seen=f"no {', no '.join(entry.split()[0] for entry in implied)}",
            right=", ".join(implied),
            message=f"YaRN is not, or not wholly, in the file: {', '.join(implied)} are the defaults of DeepSeek's "
            f"ModelArgs. Its code applies them where max_seq_len ({shown(reached)}"
            f"{', the default' if longest is None else ''}) exceeds original_seq_len.",
        )
    return words.put("rope_type", "yarn", "DeepSeek's precompute_freqs_cis"), arch
