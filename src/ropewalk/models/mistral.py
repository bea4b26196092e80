"""Mistral's params.json: text models, MLA models, and the vision and audio encoders beside them.

Source: mistralai/mistral-inference 2557e12 `src/mistral_inference/{args,rope,transformer,vision_encoder}.py`;
for yarn, llama_4_scaling and MLA, which mistral-inference does not run, vLLM's `transformers_utils/configs/mistral.py`.
Adjacent channels turn, in the vision encoder too.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._checks import MAX_LAYERS
from ._homes import object_under
from ._reading import UnreadableError, View
from ._words import Part, Words, adapted, model_of, read_part, without_rope
from .architectures import Architecture
from .model import Model, QueryScale

TEXT_WORDS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "head_dim": "head_dim",
    "qk_rope_head_dim": "qk_rope_head_dim",
    "rope_theta": "rope_theta",
    "max_position_embeddings": "max_position_embeddings",
    "max_seq_len": "max_position_embeddings",
    "yarn": "yarn",
    "llama_4_scaling": "llama_4_scaling",
}
VISION_WORDS = {
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "rope_theta": "rope_theta",
}
YARN_WORDS = {
    "factor": "factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "beta": "beta_fast",
    "alpha": "beta_slow",
}

_TEXT = Architecture(config_class="mistral-inference's Transformer", pairing="interleaved", theta=1_000_000.0)
# before mistral-inference had rope_theta, a sliding window went with 10,000: Mistral-7B-v0.1
_WINDOWED = replace(_TEXT, config_class="mistral-inference for models with a sliding window", theta=10_000.0)
_VISION = Architecture(
    config_class="mistral-inference's VisionEncoderArgs",
    pairing="interleaved",
    theta=10_000.0,
    axes={"kind": "strided"},
)


def read_mistral(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read a params.json of Mistral's own form.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    >>> params = {"dim": 64, "n_layers": 2, "n_heads": 4, "head_dim": 16, "hidden_dim": 256, "rope_theta": 1e6}
    >>> read_mistral(params).rope.rope_theta
    1000000.0
    """
    words = Words().take(data, TEXT_WORDS)
    window = next((key for key in ("sliding_window", "_sliding_window") if data.get(key) is not None), None)
    if window is not None and isinstance(data[window], list | tuple):
        words.put("layer_types", _kinds(data[window], data.get("n_layers")), window)
    arch = _TEXT if window is None else _WINDOWED
    if data.get("qk_rope_head_dim") is not None:
        arch = replace(arch, head_dim_keys=("qk_rope_head_dim",))
    text = read_part("text", words, arch, _yarn)
    text = _with_temperature(text, words)
    return model_of([text, *_encoders(data)], target=target)


def _kinds(windows: list[Any] | tuple[Any, ...], count: object) -> list[Any]:
    """Give the layer types of a list of windows, which repeats over the layers; null is a layer without a window."""
    kinds = ["full_attention" if window is None else "sliding_attention" for window in windows[:MAX_LAYERS]]
    if not isinstance(count, int) or isinstance(count, bool) or not kinds or not 0 < count <= MAX_LAYERS:
        return kinds
    return kinds * (count // len(kinds)) if count % len(kinds) == 0 else kinds


def _yarn(view: View, arch: Architecture) -> tuple[Words, Architecture]:
    block = object_under(view, "yarn")
    if not block:
        return Words(), arch
    words = Words().take(block, YARN_WORDS, "yarn")
    words.put("rope_type", "yarn", "yarn").put("path", "yarn", "")
    words.data |= {str(key): value for key, value in block.items() if key not in (*YARN_WORDS, "apply_scale")}
    inner = Words().take(block, {"apply_scale": "apply_scale"}, "yarn").view(view.reading, "yarn")
    applied = inner.flag("apply_scale")
    latent = "qk_rope_head_dim" in arch.head_dim_keys
    if applied is None:
        view.reading.find(
            "class-default",
            key=inner.key("apply_scale"),
            seen="absent",
            right="true, the default of vLLM",
            message="there is no yarn.apply_scale: true, the default of vLLM, is taken. It decides whether YaRN's "
            "magnitude is applied.",
        )
    where = inner.key("apply_scale") if applied is not None else "default of vLLM"
    if applied is False:
        words.put("attention_factor", 1.0, where)
    elif latent:  # vLLM puts the magnitude of an MLA model on the softmax scale alone
        words.put("mscale", 1.0, where).put("mscale_all_dim", 1.0, where)
        arch = replace(arch, scale_softmax=True)
    return words, arch


def _with_temperature(part: Part, words: Words) -> Part:
    """Add llama_4_scaling, the temperature of the queries, to all layers."""
    reading = part.reading
    view = words.view(reading)
    try:
        block = object_under(view, "llama_4_scaling")
        if not block:
            return part
        inner = View(block, reading, "llama_4_scaling")
        beta, length = inner.number("beta"), inner.whole("original_max_position_embeddings")
        lacking = "beta" if beta is None else "original_max_position_embeddings" if length is None else None
        if beta is None or length is None:
            reading.find(
                "key-missing",
                key=inner.key(lacking or ""),
                seen="absent",
                right=f"a value for {lacking}",
                message=f"llama_4_scaling needs {lacking}, which the file does not give. Add it.",
            )
            return part
    except UnreadableError:
        return part
    reading.source("query_scale", inner.key("beta"))
    scale = QueryScale(attn_scale=beta, floor_scale=length)
    return replace(part, layers=adapted(part.layers, lambda layer: replace(layer, query_scale=scale)))


def _encoders(data: Mapping[str, Any]) -> list[Part]:
    """Give the vision and audio encoders that stand beside the text model, under old and new names."""
    multimodal = data.get("multimodal") if isinstance(data.get("multimodal"), Mapping) else {}
    homes = [(data.get("vision_encoder"), "vision_encoder")]
    homes += [(multimodal.get("vision_encoder_args"), "multimodal.vision_encoder_args")] if multimodal else []
    parts = [
        read_part("vision", Words().take(home, VISION_WORDS, path), _VISION)
        for home, path in homes
        if isinstance(home, Mapping)
    ][:1]
    whisper = multimodal.get("whisper_model_args") if multimodal else None
    encoder = whisper.get("encoder_args") if isinstance(whisper, Mapping) else None
    if isinstance(encoder, Mapping):
        path = "multimodal.whisper_model_args.encoder_args"
        words = Words().take(encoder, {"dim": "hidden_size", "n_layers": "num_hidden_layers"}, path)
        parts.append(_audio(words, encoder, path))
    return parts


def _audio(words: Words, encoder: Mapping[str, Any], path: str) -> Part:
    """Give the audio encoder: Whisper's, with sinusoidal positions, unless the file gives it a base of its own."""
    if encoder.get("rope_theta") is None:
        return without_rope("audio", words, _TEXT, "sinusoidal", "Whisper's encoder, which vLLM loads")
    part = without_rope("audio", words, _TEXT, "unknown", f"{path}.rope_theta")
    part.reading.find(
        "positions-unknown",
        key=f"{path}.rope_theta",
        seen=str(encoder["rope_theta"])[:80],
        right="an encoder whose code ropewalk has facts about",
        message="the audio encoder has a rope_theta, and the code that would use it is not known here, so its RoPE is "
        "not described.",
    )
    return part
