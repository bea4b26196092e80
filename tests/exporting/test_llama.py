"""Flags and GGUF keys, computed as ggml's own loops do, give the rope; names are those of llama.cpp and gguf."""

import json
import math
import shlex

import numpy as np
import pytest

from ropewalk import export, preset_names, read
from ropewalk.exporting import Refused, settings
from ropewalk.exporting._llama_names import ARCHITECTURES, FACTORS, FREQS, PERMUTED, WHOLE_HEADS, turns_neighbours
from ropewalk.scaling import Linear, Llama3, LongRope, Ntk, Yarn

from .ropes import ROPES

# common/arg.cpp of llama-cpp-python 0.3.36
FLAGS = {
    *("--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale"),
    *("--yarn-orig-ctx", "--yarn-ext-factor", "--yarn-attn-factor", "--yarn-beta-fast", "--yarn-beta-slow"),
}
ARCHITECTURE_FIXES = {
    "tail": ("rotary_start",),
    "backwards": ("direction",),
    "odd": ("odd",),
    "tiled": ("pairing",),
    "chunked": ("axes",),
    "dealt": ("axes",),
    "alternating": ("axes",),
    "ladders": ("axes",),
    "dynamic": ("scaling",),
    "yarn-loose": ("truncate",),
}
FLAGS_REFUSED = ARCHITECTURE_FIXES | {
    "partial": ("rotary_dim",),
    "partial-interleaved": ("rotary_dim",),
    "third": ("rotary_dim",),
    "yarn-magnitude": ("attention_factor",),
    "yarn-mscales": ("attention_factor",),
    "yarn-softmax": ("mscale_all_dim",),
    "softmax": ("mscale_all_dim",),
    "longrope": ("scaling",),
    "longrope-mscales": ("scaling",),
    "llama3": ("scaling",),
    "proportional": ("scaling",),
    "proportional-factor": ("scaling",),
}
GGUF_REFUSED = ARCHITECTURE_FIXES | {
    "yarn-betas": ("beta_fast", "beta_slow"),
    "yarn-softmax": ("pairing",),
    "longrope-mscales": ("short_mscale", "long_mscale"),
}


def corr_dim(n_dims, n_ctx_orig, n_rot, base):
    """ggml_rope_yarn_corr_dim."""
    return n_dims * math.log(n_ctx_orig / (n_rot * 2 * math.pi)) / (2 * math.log(base))


def ggml(n_dims, base, scale, kind, orig, fast, slow, attn=1.0, log_mul=0.0, deepseek=False, factors=None):
    """The loops of llama_context and ggml_rope_cache_init, one pair after another: angles, magnitude, softmax."""
    ext = 1.0 if kind == "yarn" else 0.0
    if kind == "none":
        scale = 1.0
    mscale = 1.0

    def get_mscale(s, m):
        return 1.0 if s <= 1 else 0.1 * m * math.log(s) + 1.0

    if ext != 0:
        factor = 1 / scale
        if log_mul != 0:
            above = log_mul if deepseek and log_mul != 1 else 1.0
            mscale = get_mscale(factor, above) / get_mscale(factor, log_mul)
        else:
            mscale = get_mscale(factor, 1.0)
        mscale *= 1 / (1 + 0.1 * math.log(factor))
    mscale *= attn
    softmax = 1.0
    if deepseek:
        original = mscale * (1 + 0.1 * math.log(1 / scale))
        kq = original * (1 + 0.1 * log_mul * math.log(1 / scale))
        softmax = kq * kq
    angles = []
    theta = 1.0
    for i0 in range(0, n_dims, 2):
        extrapolated = theta / (1.0 if factors is None else factors[i0 // 2])
        angle = scale * extrapolated
        if ext != 0:
            low = max(0, math.floor(corr_dim(n_dims, orig, fast, base)))
            high = min(n_dims - 1, math.ceil(corr_dim(n_dims, orig, slow, base)))
            y = (i0 / 2 - low) / max(0.001, high - low)
            mix = (1 - min(1, max(0, y))) * ext
            angle = angle * (1 - mix) + extrapolated * mix
        angles.append(angle)
        theta *= base ** (-2.0 / n_dims)
    return np.array(angles), mscale * (1 + 0.1 * math.log(1 / scale) if ext else 1.0), softmax


def same(rope, found, length=None):
    wanted = rope.pairs(length)
    np.testing.assert_allclose(found[0], wanted.inv_freq, rtol=2e-6, atol=2e-30)  # float32 parameters
    assert found[1] == pytest.approx(wanted.cos_sin_factor, rel=1e-6)
    assert found[2] == pytest.approx(wanted.softmax_factor, rel=1e-6)


def by_flags(text, width):
    words = shlex.split(text)
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert set(given) <= FLAGS
    number = {name: float(value) for name, value in given.items() if name != "--rope-scaling"}
    return ggml(
        width,
        number["--rope-freq-base"],
        1 / number.get("--rope-scale", 1.0),
        given["--rope-scaling"],
        number.get("--yarn-orig-ctx", 0),
        number.get("--yarn-beta-fast", 32),
        number.get("--yarn-beta-slow", 1),
    )


@pytest.mark.parametrize("name", ROPES)
def test_flags_turn_as_the_rope_or_are_refused(name):
    rope = ROPES[name]
    if name in FLAGS_REFUSED:
        with pytest.raises(Refused) as caught:
            export(rope, "llama.cpp")
        assert caught.value.lost == FLAGS_REFUSED[name]
        return
    same(rope, by_flags(export(rope, "llama.cpp"), rope.width))


@pytest.mark.parametrize("name", preset_names())
def test_flags_of_a_preset_turn_as_its_rope(name):
    try:
        text = export(name, "llama.cpp")
    except Refused as error:
        assert error.lost or "architecture" in error.reason
        return
    rope = read(name).parts["text"]
    same(*((one := next(layer.rope for layer in rope if layer.rope)), by_flags(text, one.width)))


def test_a_magnitude_of_yarn_is_no_flag_because_the_context_overwrites_it():
    with pytest.raises(Refused, match="overwrites --yarn-attn-factor"):
        export(ROPES["yarn-magnitude"], "llama.cpp")


def test_sliding_layers_are_out_of_reach_of_flags():
    assert "--rope-freq-base 1000000" in export("gemma-3-4b", "llama.cpp", layer=5)
    with pytest.raises(Refused, match="sliding"):
        export("gemma-3-4b", "llama.cpp", layer=0)


gguf = pytest.importorskip("gguf")


def keys_of(kind):
    return {value for name, value in vars(kind).items() if isinstance(value, str) and not name.startswith("_")}


KEYS = keys_of(gguf.Keys.Rope) | keys_of(gguf.Keys.Attention) | keys_of(gguf.Keys.LLM) | keys_of(gguf.Keys.General)


def through_a_file(text, path):
    """Write a real GGUF file with the settings, read it, and give its fields and tensors."""
    document = json.loads(text)
    assert set(document) == {"metadata", "tensors"}
    arch = document["metadata"]["general.architecture"]
    writer = gguf.GGUFWriter(path, arch)
    for key, value in document["metadata"].items():
        if key == "general.architecture":
            continue
        assert key.replace(f"{arch}.", "{arch}.", 1) in KEYS
        write = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        write(key, value)
    for name, values in document["tensors"].items():
        assert name.removesuffix(".weight") in gguf.TENSOR_NAMES.values()
        writer.add_tensor(name, np.array(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = gguf.GGUFReader(path)
    fields = {key: field.contents() for key, field in file.fields.items()}
    return arch, fields, {one.name: np.array(one.data, dtype=np.float64) for one in file.tensors}


def by_file(arch, fields, tensors, length=None):
    def get(name, default):
        return fields.get(f"{arch}.rope.{name}", default)

    betas = arch == "mistral3"  # the only architecture here that loads them
    orig = get("scaling.original_context_length", fields.get(f"{arch}.context_length", 0))
    factors = tensors.get("rope_freqs.weight")
    if factors is None:
        factors = tensors.get(f"rope_factors_{'long' if (length or 0) > orig else 'short'}.weight")
    log_mul = get("scaling.yarn_log_multiplier", 0.0)
    return ggml(
        get("dimension_count", fields.get(f"{arch}.attention.key_length")),
        get("freq_base", 10000.0),
        1 / get("scaling.factor", 1.0),
        get("scaling.type", "linear"),
        orig,
        get("scaling.yarn_beta_fast", 32.0) if betas else 32.0,
        get("scaling.yarn_beta_slow", 1.0) if betas else 1.0,
        get("scaling.attn_factor", 1.0),
        log_mul / 0.1 if arch == "deepseek2" else log_mul,
        arch == "deepseek2",
        factors,
    )


@pytest.mark.parametrize("name", ROPES)
def test_a_gguf_file_turns_as_the_rope_or_is_refused(name, tmp_path):
    rope = ROPES[name]
    if name in GGUF_REFUSED:
        with pytest.raises(Refused) as caught:
            export(rope, "gguf")
        assert caught.value.lost == GGUF_REFUSED[name]
        return
    arch, fields, tensors = through_a_file(export(rope, "gguf"), tmp_path / "rope.gguf")
    assert (rope.pairing == "interleaved") == turns_neighbours(arch)
    for length in (None, 8192, 8193) if name == "longrope" else (None,):
        same(rope, by_file(arch, fields, tensors, length), length)


@pytest.mark.parametrize("name", preset_names())
def test_a_gguf_file_of_a_preset_turns_as_its_ropes(name, tmp_path):
    try:
        text = export(name, "gguf")
    except Refused as error:
        assert error.lost or "architecture" in error.reason
        return
    arch, fields, tensors = through_a_file(text, tmp_path / "rope.gguf")
    ropes = {layer.kind: layer.rope for layer in read(name).layers if layer.rope is not None}
    if len(set(ropes.values())) == 2:
        sliding = ropes.pop("sliding_attention")
        assert fields[f"{arch}.rope.freq_base_swa"] == sliding.rope_theta
        assert fields.get(f"{arch}.rope.dimension_count_swa", sliding.width) == sliding.width
    (rope,) = set(ropes.values())
    for length in (None, 4096, 4097) if rope.scaling.rope_type == "longrope" else (None,):
        same(rope, by_file(arch, fields, tensors, length), length)


def test_deepseek_stores_a_tenth_of_its_multiplier_and_others_none():
    assert '"deepseek2.rope.scaling.yarn_log_multiplier": 0.07' in export(ROPES["softmax"], "gguf")
    assert "yarn_log_multiplier" not in export("ministral-3-8b", "gguf")


def test_yarn_is_never_given_an_extrapolation_factor_other_than_1():
    assert "ext_factor" not in export(ROPES["yarn"], "gguf")
    assert "--yarn-ext-factor 1 " in export(ROPES["yarn"], "llama.cpp")


def test_a_plan_of_layers_without_rope_is_refused():
    for name in ("smollm3-3b", "llama-4-scout"):
        with pytest.raises(Refused, match="which layers have no RoPE") as caught:
            export(name, "gguf")
        assert caught.value.lost == ("layers 3, 7, 11, 15, …",)
    assert json.loads(export("smollm3-3b", "gguf", layer=0))["metadata"]


def test_llama_files_turn_neighbours_and_the_note_says_so():
    assert any("permutes" in note for note in settings("llama-3.1-8b", "gguf").notes)
    assert not any("permutes" in note for note in settings("qwen3-8b", "gguf").notes)


def test_architectures_are_those_of_the_package():
    names = set(gguf.MODEL_ARCH_NAMES.values())
    for known in (ARCHITECTURES.values(), PERMUTED, FREQS, FACTORS, WHOLE_HEADS):
        assert set(known) <= names


def test_a_file_of_mla_reads_back_without_the_width_of_its_whole_heads(tmp_path):
    path = tmp_path / "mla.gguf"
    through_a_file(export("deepseek-v3", "gguf"), path)
    again = read(path)
    assert len(again.layers) == 61
    assert again.rope.pairs().softmax_factor == pytest.approx(read("deepseek-v3").rope.pairs().softmax_factor, rel=1e-6)


@pytest.mark.parametrize(("name", "every"), [("gemma-3-1b", 6), ("gemma-3-4b", 6)])
def test_a_file_with_its_window_reads_as_the_model_layer_by_layer(name, every, tmp_path):
    document = settings(name, "gguf")
    assert any("attention.sliding_window" in note for note in document.notes)
    content = json.loads(document.text)
    content["metadata"]["gemma3.attention.sliding_window"] = 512
    path = tmp_path / "m.gguf"
    through_a_file(json.dumps(content), path)
    model, again = read(name), read(path)
    longest = model.layers[0].rope.max_position_embeddings
    kept = [layer.rope.replace(max_position_embeddings=longest) for layer in again.layers]
    assert kept == [layer.rope for layer in model.layers]
    assert [i for i, rope in enumerate(kept) if rope.rope_theta == 1e6][:2] == [every - 1, 2 * every - 1]


@pytest.mark.parametrize("engine", ["llama.cpp", "gguf"])
@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"scaling": Linear(factor=1e300)}, "scaling"),
        ({"scaling": Linear(factor=1e-46)}, "scaling"),
        ({"scaling": Ntk(factor=1e30)}, "rope_theta"),
        ({"scaling": Yarn(factor=1e100, original_max_position_embeddings=8192)}, "scaling"),
        ({"scaling": Ntk(factor=1e-30), "rope_theta": 1e-30}, "rope_theta"),
    ],
)
def test_numbers_beyond_float32_are_refused_without_a_warning(engine, changes, lost):
    rope = ROPES["default"].replace(**{"rope_theta": 1e30 if lost == "rope_theta" else 5e5, **changes})
    with pytest.raises(Refused, match="holds numbers in float32") as caught:  # warnings are errors in these tests
        export(rope, engine)
    assert caught.value.lost == (lost,)


@pytest.mark.parametrize(
    "scaling",
    [
        Llama3(factor=1e39, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192),
        Llama3(factor=1e-46, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192),
        LongRope(short_factor=(1.0,) * 64, long_factor=(1e39,) * 64, original_max_position_embeddings=8192),
    ],
)
def test_divisors_beyond_float32_are_refused_without_a_warning(scaling):
    with pytest.raises(Refused, match="holds numbers in float32"):
        export(ROPES["default"].replace(scaling=scaling), "gguf")
