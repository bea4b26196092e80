"""Settings of llama.cpp: flags of its programs, and the metadata and tensors of a GGUF file."""

import json
import math
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..axes import Sections, Single
from ..errors import RopewalkError
from ..models._layers import WITHOUT_ATTENTION
from ..rope import Rope
from ..scaling import Default, Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Yarn
from ..scaling._frequencies import ladder, magnitude
from ._ggml import Parameters, single
from ._hugging import as_json
from ._llama_names import ARCHITECTURES, FACTORS, FREQS, PERMUTED, WHOLE_HEADS, reads_betas, slides, turns_neighbours
from ._settings import Settings
from ._subject import Refused, Subject

VERSION = "llama-cpp-python 0.3.36"
STILL = 1e30  # the divisor of a pair that does not turn, as gemma's converter writes it


def flags(subject: Subject) -> Settings:
    """Give the flags that llama-cli, llama-server and their kin take."""
    rope = subject.single
    if rope is None:
        places = "; ".join(group.words for group in subject.groups) or "an indexer"
        raise Refused(
            "llama.cpp",
            "its flags set one rope, that of full-attention layers, and others keep what the file says",
            ("ropes",),
            f"Take one with a layer: {places}.",
        )
    if subject.kind == "sliding_attention":
        raise Refused("llama.cpp", "no flag reaches sliding layers: their base is that of the file", ("rope_theta",))
    _check_architecture(subject, rope, "llama.cpp")
    if subject.model_type is None:
        _check_plain(rope, "llama.cpp", "no flag", partial=False)
    if isinstance(rope.scaling, Yarn) and rope.scaling.scale_softmax:
        raise Refused("llama.cpp", "the scale of the softmax is metadata, no flag", ("mscale_all_dim",), _GGUF)
    words = _flag_words(rope)
    text = " ".join(shlex.quote(word) for word in words) + "\n"
    _prove(rope, lambda length: _of_flags(words, rope.width), "llama.cpp")
    notes = [f"verified against {VERSION} (common/arg.cpp, src/llama-context.cpp): source read"]
    notes.append("pairing, width and tensors such as rope_freqs stay those of the file")
    if isinstance(rope.scaling, Ntk):
        notes.append("the raised base says it whole: there is no scaling besides")
    return Settings(engine="llama.cpp", version=VERSION, text=text, notes=tuple(notes))


_GGUF = "A GGUF file can say it: export to gguf."


def _flag_words(rope: Rope) -> list[str]:
    kind, factor, theta = _numbers(rope, "llama.cpp")
    words = ["--rope-scaling", kind]
    if kind != "none":
        words += ["--rope-scale", _short(factor)]
    words += ["--rope-freq-base", _short(theta)]
    scaling = rope.scaling
    if isinstance(scaling, Yarn):
        if not math.isclose(scaling.cos_sin_factor, magnitude(scaling.factor), rel_tol=1e-6):
            raise Refused(
                "llama.cpp",
                f"it computes the factor on cos and sin itself, {magnitude(scaling.factor):.6g} for this factor, and "
                "overwrites --yarn-attn-factor",
                ("attention_factor",),
                _GGUF,
            )
        words += ["--yarn-orig-ctx", str(scaling.original_max_position_embeddings), "--yarn-ext-factor", "1"]
        words += ["--yarn-beta-fast", _short(scaling.beta_fast), "--yarn-beta-slow", _short(scaling.beta_slow)]
    return words


def _numbers(rope: Rope, engine: str) -> tuple[str, float, float]:
    """Give the type, factor and base that say a scaling, or refuse."""
    scaling, theta, width = rope.scaling, rope.rope_theta, rope.width
    if isinstance(scaling, Dynamic):
        raise Refused(engine, "it has no dynamic scaling: its base is one for every length", ("scaling",))
    if isinstance(scaling, Llama3 | LongRope | Proportional) and engine == "llama.cpp":
        tensor = "rope_factors_long" if isinstance(scaling, LongRope) else "rope_freqs"
        raise Refused(engine, f"its divisors are the tensor {tensor} of the file, no flag", ("scaling",), _GGUF)
    if isinstance(scaling, Yarn):
        if not scaling.truncate and scaling.factor != 1:
            raise Refused(engine, "it always rounds the bounds of the ramp", ("truncate",))
        return "yarn", scaling.factor, theta
    if isinstance(scaling, Linear):
        return "linear", scaling.factor, theta
    if isinstance(scaling, Ntk):
        s = scaling.factor
        if scaling.method == "aware":
            return "none", 1.0, theta * s ** (width / (width - 2)) if s != 1 else theta
        return ("none", 1.0, theta * s) if scaling.method == "base" else ("linear", s ** (2 / width), theta * s)
    return "none", 1.0, theta


def _short(number: float) -> str:
    """Give a number with the digits that float32 keeps."""
    return f"{number:.9g}"


def _of_flags(words: list[str], width: int) -> Parameters:
    """Read flags as llama.cpp does."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    return Parameters(
        engine="llama.cpp",
        n_dims=width,
        freq_base=float(given["--rope-freq-base"]),
        freq_scale=1 / float(given.get("--rope-scale", "1")),
        scaling=given["--rope-scaling"],
        orig_ctx=int(given.get("--yarn-orig-ctx", "0")),
        beta_fast=float(given.get("--yarn-beta-fast", "32")),
        beta_slow=float(given.get("--yarn-beta-slow", "1")),
    )


def _check_architecture(subject: Subject, rope: Rope, engine: str) -> None:
    if subject.model_type is not None and subject.model_type not in ARCHITECTURES:
        raise Refused(
            engine, f"no architecture of it is known here for model_type {subject.model_type}", ("model_type",)
        )
    if subject.model_type is not None and not isinstance(rope.axes, Single | Sections):
        raise Refused(engine, "it deals no pairs to axes of their own", ("axes",))


def _check_plain(rope: Rope, engine: str, no_key: str, *, partial: bool) -> None:
    """Refuse what the architecture of a file fixes."""
    for lost, odd in (
        ("rotary_start", rope.rotary_start != 0),
        ("direction", rope.direction < 0),
        ("pairing", rope.pairing == "hybrid_tile"),
        ("axes", not isinstance(rope.axes, Single)),
        ("odd", rope.width % 2 != 0),
        ("rotary_dim", not partial and rope.width != rope.head_dim),
    ):
        if odd:
            raise Refused(engine, f"{no_key} says it: the architecture of the file does", (lost,))


def _prove(rope: Rope, parameters: Any, engine: str) -> None:
    """Compute what llama.cpp makes of the settings, and refuse where that is not the rope."""
    lengths: list[int | None] = [None]
    if isinstance(rope.scaling, LongRope):
        original = rope.scaling.original_max_position_embeddings
        lengths += [original, original + 1]
    for length in lengths:
        wanted, found = rope.pairs(length), parameters(length).turning()
        lost = []
        if not np.allclose(rope.direction * found.inv_freq, wanted.inv_freq, rtol=1e-6, atol=2 / STILL):
            lost.append("scaling")
        if not math.isclose(found.cos_sin_factor, wanted.cos_sin_factor, rel_tol=1e-6):
            lost.append("attention_factor")
        if not math.isclose(found.softmax_factor, wanted.softmax_factor, rel_tol=1e-6):
            lost.append("mscale_all_dim")
        if lost:
            raise Refused(engine, "its runtime would compute other numbers from these settings", lost)


def gguf(subject: Subject) -> Settings:
    """Give the metadata and tensors of a GGUF file: {"metadata": {key: value}, "tensors": {name: values}}."""
    off = [number for number in subject.without_rope if subject.layers[number].kind not in WITHOUT_ATTENTION]
    if off:
        some = ", ".join(map(str, off[:4])) + (", …" if len(off) > 4 else "")
        raise Refused("gguf", "no key says which layers have no RoPE: the architecture does", (f"layers {some}",))
    if any(set(layer.ropes) - {"attention"} for layer in subject.layers):
        raise Refused("gguf", "no key holds the rope of an indexer: the architecture does", ("indexer",))
    by_label = {group.label: group.rope for group in subject.groups}
    if len(by_label) < len(subject.groups):
        raise Refused("gguf", "it has one rope for full attention and one for sliding attention", ("ropes",))
    main = by_label.pop("full_attention", None) or (by_label.pop(None, None) if None in by_label else None)
    if main is None and len(by_label) == 1:
        main = by_label.popitem()[1]
    if main is None or (by_label and set(by_label) != {"sliding_attention"}):
        raise Refused("gguf", "it knows full and sliding attention alone", ("ropes",))
    sliding = by_label.get("sliding_attention")
    arch = _arch_of(subject, main)
    data, tensors = _metadata(arch, main)
    if subject.part:
        data[f"{arch}.block_count"] = len(subject.layers)
    if sliding is not None:
        _put_sliding(data, arch, main, sliding)
    scale = next((layer.query_scale for layer in subject.layers if layer.query_scale is not None), None)
    if scale is not None:
        if arch != "mistral3" or scale.floor_scale != data.get(f"{arch}.rope.scaling.original_context_length"):
            raise Refused("gguf", f"the temperature of the queries is not written for {arch}", ("query_scale",))
        data[f"{arch}.attention.temperature_scale"] = scale.attn_scale
    document: dict[str, Any] = {"metadata": data, "tensors": tensors}
    _prove(main, lambda length: of_metadata(document, length), "gguf")
    notes = [f"keys and names of the package gguf 0.19.0; read as {VERSION} reads them: source read"]
    if f"{arch}.rope.freq_base_swa" in data:
        notes.append(
            f"a window, {arch}.attention.sliding_window, must stand in the file: without it no layer is a sliding one"
        )
    neighbours = turns_neighbours(arch)
    if main.pairing == "interleaved" and not neighbours:
        raise Refused("gguf", f"a file of architecture {arch} turns halves", ("pairing",))
    if main.pairing == "half" and neighbours and (subject.model_type is None or arch not in PERMUTED):
        raise Refused("gguf", f"a file of architecture {arch} turns neighbours", ("pairing",))
    if subject.model_type is None:
        notes.append(f"architecture {arch} stands for any that pairs channels like it and loads the same tensors")
    elif main.pairing == "half" and neighbours:
        notes.append(f"a file of architecture {arch} turns neighbours: its converter permutes the weights")
    return Settings(engine="gguf", version="gguf 0.19.0", text=as_json(document), notes=tuple(notes))


def _arch_of(subject: Subject, rope: Rope) -> str:
    _check_architecture(subject, rope, "gguf")
    if subject.model_type is not None:
        return ARCHITECTURES[subject.model_type]
    _check_plain(rope, "gguf", "no key", partial=True)
    scaling, half, partial = rope.scaling, rope.pairing == "half", rope.width != rope.head_dim
    if isinstance(scaling, Yarn) and scaling.scale_softmax:
        return "deepseek2"
    if isinstance(scaling, Llama3 | Proportional):
        return "apertus" if half else "llama"
    if isinstance(scaling, LongRope):
        return "phi3" if half else "llama"
    if partial:
        return "stablelm" if half else "chatglm"
    return "qwen2" if half else "llama"


def _metadata(arch: str, rope: Rope) -> tuple[dict[str, Any], dict[str, list[float]]]:
    if rope.width != rope.head_dim and arch in WHOLE_HEADS:
        raise Refused("gguf", f"a file of architecture {arch} turns whole heads", ("rotary_dim",))
    if not isinstance(rope.axes, Single):
        raise Refused("gguf", "the order of its sections is the architecture's code", ("axes",))
    data: dict[str, Any] = {"general.architecture": arch}
    tensors: dict[str, list[float]] = {}
    if rope.max_position_embeddings is not None:
        data[f"{arch}.context_length"] = rope.max_position_embeddings
    if arch not in ("deepseek2", "glm-dsa", "mistral4"):  # the heads of MLA are wider than their rope part
        data[f"{arch}.attention.key_length"] = rope.head_dim
    scaling = rope.scaling
    kind, factor, theta = _numbers(rope, "gguf")
    put = {"dimension_count": rope.width, "freq_base": float(theta)}
    if isinstance(scaling, Llama3 | Proportional):
        if arch not in FREQS:
            raise Refused("gguf", f"an architecture {arch} loads no rope_freqs", ("scaling",))
        plain, found = ladder(rope.rope_theta, rope.width), rope.pairs().inv_freq * rope.direction
        turning = found > 0
        divisors = np.where(turning, plain / np.where(turning, found, 1.0), STILL)
        tensors["rope_freqs.weight"] = _float32(divisors)
    elif isinstance(scaling, LongRope):
        put |= _longrope(arch, rope, scaling, tensors)
    elif kind != "none":
        put |= {"scaling.type": kind, "scaling.factor": float(factor)}
    if isinstance(scaling, Yarn):
        put |= _yarn(arch, scaling)
    return {**data, **{f"{arch}.rope.{name}": value for name, value in put.items()}}, tensors


def _float32(values: Any) -> list[float]:
    """Give numbers rounded to float32, in the fewest digits."""
    return [float(str(value)) for value in single(values, "gguf", "scaling").astype(np.float32)]


def _longrope(arch: str, rope: Rope, scaling: LongRope, tensors: dict[str, list[float]]) -> dict[str, Any]:
    if arch not in FACTORS:
        raise Refused("gguf", f"an architecture {arch} loads no rope_factors_long", ("scaling",))
    original = scaling.original_max_position_embeddings
    short, long = rope.pairs().cos_sin_factor, rope.pairs(original + 1).cos_sin_factor
    if short != long:
        raise Refused("gguf", "it has one factor on cos and sin for both lists", ("short_mscale", "long_mscale"))
    tensors["rope_factors_long.weight"] = _float32(scaling.long_factor)
    tensors["rope_factors_short.weight"] = _float32(scaling.short_factor)
    return {
        "scaling.type": "longrope",
        "scaling.original_context_length": original,
        "scaling.attn_factor": float(single(long, "gguf", "attention_factor")),
    }


def _yarn(arch: str, scaling: Yarn) -> dict[str, Any]:
    put: dict[str, Any] = {"scaling.original_context_length": scaling.original_max_position_embeddings}
    betas = (scaling.beta_fast, scaling.beta_slow)
    if betas != (32.0, 1.0):
        if not reads_betas(arch):
            raise Refused("gguf", f"an architecture {arch} has betas of 32 and 1", ("beta_fast", "beta_slow"))
        put |= {"scaling.yarn_beta_fast": betas[0], "scaling.yarn_beta_slow": betas[1]}
    if scaling.scale_softmax and arch != "deepseek2":
        raise Refused("gguf", f"the softmax scale of {arch} is not known here", ("mscale_all_dim",))
    if scaling.scale_softmax and scaling.mscale_all_dim:
        # deepseek2's loader divides the key by 0.1
        put["scaling.yarn_log_multiplier"] = float(f"{0.1 * scaling.mscale_all_dim:.9g}")
    else:
        attention = scaling.cos_sin_factor / magnitude(scaling.factor)
        if not math.isclose(attention, 1, rel_tol=1e-9):
            put["scaling.attn_factor"] = float(f"{attention:.9g}")
    return put


def _put_sliding(data: dict[str, Any], arch: str, main: Rope, sliding: Rope) -> None:
    if not slides(arch):
        raise Refused("gguf", f"the sliding layers of {arch} take no base of their own without the scale", ("ropes",))
    if not isinstance(sliding.scaling, Default) or isinstance(main.scaling, Yarn | LongRope):
        raise Refused("gguf", "no key scales sliding layers", ("scaling",))
    if sliding.max_position_embeddings != main.max_position_embeddings:
        raise Refused("gguf", "a file has one context_length", ("max_position_embeddings",))
    data[f"{arch}.rope.freq_base_swa"] = float(sliding.rope_theta)
    if sliding.head_dim != main.head_dim or sliding.width != main.width:
        data[f"{arch}.attention.key_length_swa"] = sliding.head_dim
        data[f"{arch}.rope.dimension_count_swa"] = sliding.width


def of_metadata(document: Mapping[str, Any], length: int | None = None) -> Parameters:
    """Read metadata and tensors as llama.cpp's loader does; a length stands for the size of the context.

    Raises:
        RopewalkError: for a document without metadata.
    """
    data, tensors = document.get("metadata"), document.get("tensors", {})
    if not isinstance(data, Mapping):
        raise RopewalkError("a GGUF document holds metadata and tensors, got neither.")
    arch = data["general.architecture"]

    def get(name: str, default: Any) -> Any:
        return data.get(f"{arch}.rope.{name}", default)

    orig = get("scaling.original_context_length", data.get(f"{arch}.context_length", 0))
    divisors = tensors.get("rope_freqs.weight")
    if divisors is None:
        long = length is not None and length > orig
        divisors = tensors.get(f"rope_factors_{'long' if long else 'short'}.weight")
    betas = reads_betas(arch)
    log_mul = get("scaling.yarn_log_multiplier", 0.0)
    return Parameters(
        n_dims=get("dimension_count", data.get(f"{arch}.attention.key_length")),
        freq_base=get("freq_base", 10000.0),
        freq_scale=1 / get("scaling.factor", 1.0),
        scaling=get("scaling.type", "linear"),
        orig_ctx=orig,
        beta_fast=get("scaling.yarn_beta_fast", 32.0) if betas else 32.0,
        beta_slow=get("scaling.yarn_beta_slow", 1.0) if betas else 1.0,
        attn_factor=get("scaling.attn_factor", 1.0),
        log_mul=log_mul / 0.1 if arch == "deepseek2" else log_mul,
        mla=arch == "deepseek2",
        divisors=None if divisors is None else tuple(divisors),
    )


def parsed(text: str) -> Mapping[str, Any]:
    """Read the JSON of an export to gguf."""
    return json.loads(text)
