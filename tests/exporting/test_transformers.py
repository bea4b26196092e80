"""transformers' own classes load what is exported to them, in both spellings, and come to the same frequencies."""

import importlib
import json

import numpy as np
import pytest

from ropewalk import export, preset_names, read
from ropewalk.exporting import Refused

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
