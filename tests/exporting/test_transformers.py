"""transformers' own classes load what is exported to them, in both spellings, and come to the same frequencies."""

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest

from ropewalk import export, preset_names, read
from ropewalk.exporting import Refused, settings
from ropewalk.scaling import Default, Dynamic, Linear, LongRope, Yarn

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5.24", exc_type=ImportError)

from .ropes import ROPES  # noqa: E402

# what no class of transformers can say, with what would be lost
REFUSED = {
    "tail": ("rotary_start",),
    "odd": ("odd",),
    "tiled": ("pairing",),
    "ladders": ("axes",),
    "ntk-vllm": ("scaling",),
    "ntk-base": ("scaling",),
}
V4_REFUSED = {**REFUSED, "proportional": ("scaling",), "proportional-factor": ("scaling",)}


def module_of(settings):
    """The rotary embedding of the class that the settings name, and the configuration of its part."""
    config = transformers.AutoConfig.for_model(**settings)
    text = config.get_text_config(decoder=True) if hasattr(config, "text_config") else config
    code = importlib.import_module(type(text).__module__.replace("configuration_", "modeling_"))
    part = type(text).__name__.removesuffix("Config")
    names = [f"{part}RotaryEmbedding", *(name for name in vars(code) if name.endswith("RotaryEmbedding"))]
    names = [name for name in names if hasattr(code, name) and "Vision" not in name]
    return getattr(code, names[0])(config=text)


def check(module, rope, label=None, length=None):
    """Compare frequencies and factor with the float64 table; the longest position tells a class the length."""
    prefix, wanted = f"{label}_" if label else "", rope.pairs(length)
    factor = getattr(module, f"{prefix}attention_scaling")
    if rope.length_dependent:
        cos, _ = module(torch.zeros(1, 1, 8), torch.tensor([[0, (length or 2) - 1]]))
        factor = cos[0, 0, 0].item()  # position 0: the factor itself
    found = getattr(module, f"{prefix}inv_freq").double().numpy()
    if rope.axes.kind == "sections" and rope.axes.arrangement == "alternating":  # Ernie's class deals them itself
        found = np.sort(found)[::-1]
    # float32 of transformers: exponent, power and product, a few ulp
    np.testing.assert_allclose(found, np.abs(wanted.inv_freq), rtol=2e-6, atol=0)
    assert factor == pytest.approx(wanted.cos_sin_factor, rel=1e-6)


@pytest.mark.parametrize("engine", ["transformers", "transformers-v4"])
@pytest.mark.parametrize("name", ROPES)
def test_every_rope_that_can_be_said_loads_with_the_same_frequencies(name, engine):
    rope, refused = ROPES[name], REFUSED if engine == "transformers" else V4_REFUSED
    if name in refused:
        with pytest.raises(Refused) as caught:
            export(rope, engine)
        assert caught.value.lost == refused[name] and caught.value.engine == engine
        return
    settings = json.loads(export(rope, engine))
    again = read(settings).rope
    assert again.replace(max_position_embeddings=rope.max_position_embeddings) == rope
    module = module_of(settings)
    check(module, rope)
    if rope.length_dependent:
        for length in (40000, 100, 9000):
            check(module, rope, length=length)


@pytest.mark.parametrize("engine", ["transformers", "transformers-v4"])
@pytest.mark.parametrize("name", preset_names())
def test_every_preset_that_can_be_said_loads_with_the_same_frequencies(name, engine):
    model = read(name)
    try:
        settings = json.loads(export(name, engine))
    except Refused:
        assert name == "chatglm-6b" or (engine == "transformers-v4" and name in ("gemma-4-26b", "mistral-small-4"))
        return
    if settings["model_type"] == "gptj":  # its sinusoids are a constant of the code
        assert transformers.AutoConfig.for_model(**settings).rotary_dim == model.rope.width
        return
    module = module_of(settings)
    labels = [key.removesuffix("_inv_freq") for key in dict(module.named_buffers()) if key.endswith("_inv_freq")]
    labels = [label for label in labels if not label.endswith("original")]
    if not labels:
        check(module, next(layer.rope for layer in model.layers if layer.rope is not None))
    for label in labels:
        kinds = {"main": "sliding_attention", "compress": "compressed_sparse_attention"}
        rope = next(layer.rope for layer in model.layers if layer.kind == kinds.get(label, label))
        check(module, rope, label)


def scaled(model_type, scaling, **changes):
    """A model of that type with its class's defaults, every rope of it scaled, no query."""
    model = read({"model_type": model_type})
    layers = []
    for one in model.layers:
        ropes = {use: rope.replace(scaling=scaling, **changes) for use, rope in one.ropes.items()}
        layers.append(replace(one, ropes=ropes, query_scale=None))
    part = next(name for name, found in model.parts.items() if found is model.layers)
    return replace(model, parts={**model.parts, part: tuple(layers)})


MSCALES = LongRope(short_factor=(1.0,) * 64, long_factor=(2.0,) * 64, original_max_position_embeddings=1024)


@pytest.mark.parametrize("engine", ["transformers", "transformers-v4"])
@pytest.mark.parametrize(
    ("model_type", "scaling"),
    [
        ("phi3", Linear(factor=2.0)),
        ("phi3", Yarn(factor=2.0, original_max_position_embeddings=1024)),
        ("phi4_multimodal", Dynamic(factor=2.0)),
        ("phimoe", Linear(factor=2.0)),
        ("phimoe", MSCALES),
        ("ernie4_5_vl_moe_text", Linear(factor=2.0)),
        ("recurrent_gemma", Linear(factor=2.0)),
        ("clvp_encoder", Linear(factor=2.0)),
    ],
)
def test_scaling_that_a_class_does_not_load_or_read_is_refused(model_type, scaling, engine):
    with pytest.raises(Refused) as caught:
        export(scaled(model_type, scaling), engine)
    assert caught.value.lost == ("scaling",)


@pytest.mark.parametrize(
    "model_type", ["apertus", "cwm", "gpt_oss", "higgs_audio_v2", "ministral3", "openai_privacy_filter"]
)
def test_an_old_block_says_that_nothing_is_scaled_where_the_class_scales_by_itself(model_type):
    part = json.loads(export(scaled(model_type, Default()), "transformers-v4"))
    assert part["rope_scaling"] == {"rope_type": "default"}
    config = transformers.AutoConfig.for_model(part.pop("model_type"), **part)
    assert config.rope_parameters["rope_type"] == "default"
    assert config.rope_parameters["rope_theta"] == part["rope_theta"]


def test_layers_that_the_class_deals_out_itself_are_not_written():
    assert "layer_types" not in json.loads(export({"model_type": "recurrent_gemma"}, "transformers"))
    export({"model_type": "lfm3_vl_vision"}, "transformers")


def test_a_layer_type_without_rope_gets_a_null_which_the_class_looks_up():
    settings = json.loads(export({"model_type": "beam"}, "transformers"))
    assert settings["rope_parameters"]["full_attention"] is None
    module = module_of(settings)
    assert not hasattr(module, "full_attention_inv_freq")
    check(module, read({"model_type": "beam"}).layers[0].rope, "sliding_attention")
    assert not [found for found in read(settings).findings if "belongs to no layer" in found.message]


@pytest.mark.parametrize(
    ("model_type", "kinds"),
    [
        ("ultrabert", ["full_attention", "full_attention"]),  # it looks up the block of sliding layers too
        ("modernbert", ["full_attention", "conv"]),  # its blocks are typed, and no null among them
        ("falcon_h1", ["full_attention", "full_attention"]),  # its layer_types are a property
        ("gemma3_text", ["full_attention", "chunked_attention"]),  # the class keeps blocks for two types alone
        ("llama", ["full_attention", "foo"]),  # no class of transformers loads such a type
    ],
)
def test_a_layer_type_that_the_class_does_not_load_is_refused(model_type, kinds):
    config = {"model_type": model_type, "layer_types": kinds * 2, "num_hidden_layers": 4, "rope_theta": 1e4}
    with pytest.raises(Refused) as caught:
        export(config, "transformers")
    assert caught.value.lost == ("layer_types",)


def test_a_last_layer_that_the_class_makes_another_is_refused():
    model = read({"model_type": "gemma4_text", "num_hidden_layers": 4})
    sliding, full = model.layers[0], model.layers[-1]
    assert (sliding.kind, full.kind) == ("sliding_attention", "full_attention")
    with pytest.raises(Refused, match="makes its last layer full_attention"):
        export(replace(model, parts={"text": (full, sliding)}), "transformers")


def test_several_ropes_in_a_class_that_has_one_are_refused():
    blocks = {"full_attention": {"rope_theta": 2e4}, "sliding_attention": {"rope_theta": 1e4}}
    kinds = ["full_attention", "sliding_attention"]
    config = {"model_type": "qwen3", "layer_types": kinds * 2, "num_hidden_layers": 4, "rope_parameters": blocks}
    with pytest.raises(Refused, match="Qwen3Config has one rope for all layers") as caught:
        export(config, "transformers")
    assert caught.value.lost == ("ropes",)


@pytest.mark.parametrize("model_type", ["olmo3", "mimo_v2_flash"])
def test_the_old_spelling_is_refused_where_a_class_needs_every_type_of_layer_for_it(model_type):
    config = {"model_type": model_type, "layer_types": ["sliding_attention"] * 4, "num_hidden_layers": 4}
    rope = read(config).layers[0].rope
    check(module_of(json.loads(export(config, "transformers"))), rope, "sliding_attention")
    with pytest.raises(Refused, match="where every type of layer is there"):
        export(config, "transformers-v4")


def test_a_base_that_a_class_reads_at_the_top_is_written_there():
    config = {"model_type": "dinov3_vit", "rope_theta": 1e4}
    written = json.loads(export(config, "transformers"))
    assert transformers.AutoConfig.for_model(**written).rope_theta == 1e4 and "rope_parameters" not in written


def test_a_key_that_the_class_does_not_load_without_is_named():
    config = {"model_type": "zaya", "layer_types": ["hybrid", "hybrid_sliding"] * 2, "num_hidden_layers": 4}
    found = settings(config, "transformers")
    written = json.loads(found.text)
    with pytest.raises(Exception, match="`sliding_window` must be set"):
        transformers.AutoConfig.for_model(**written)
    assert "sliding_window must stand in the file: ZayaConfig does not load without it" in found.notes
    module = module_of({**written, "sliding_window": 512})
    for number, label in enumerate(("hybrid", "hybrid_sliding")):
        check(module, read(config).layers[number].rope, label)


@pytest.mark.parametrize("engine", ["transformers", "transformers-v4"])
def test_a_class_that_stands_in_has_as_many_layers(engine):
    config = {"model_type": "foo", "head_dim": 64, "rope_theta": 5e5, "num_hidden_layers": 3}
    config["max_position_embeddings"] = 4096
    found = settings(config, engine)
    written = json.loads(found.text)
    assert written["model_type"] == "llama"
    assert transformers.AutoConfig.for_model(**written).num_hidden_layers == 3
    assert [layer.rope for layer in read(written).layers] == [layer.rope for layer in read(config).layers]
    assert any("stands for any class" in note for note in found.notes)


def test_layers_without_rope_that_a_class_standing_in_would_turn_are_named():
    found = settings(
        {"model_type": "plamo2", "num_hidden_layers": 6, "head_dim": 64, "rope_theta": 1e4}, "transformers"
    )
    assert json.loads(found.text)["num_hidden_layers"] == 6
    assert [note for note in found.notes if note.endswith("no RoPE there, which no key here says")]


def test_a_rope_by_itself_has_no_number_of_layers():
    assert "num_hidden_layers" not in json.loads(export(ROPES["linear"], "transformers"))
