"""Flat blocks of models whose layer types have bases of their own: which key transformers' classes read them under."""

import copy
import importlib

import numpy as np
import pytest

from ropewalk import read
from ropewalk.engines import read_engines

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "rope_theta": 5e4}
SIZES = {"num_hidden_layers": 6, "hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 4096}
KINDS = {"layer_types": ["sliding_attention"] * 5 + ["full_attention"]}
# θ of the class for full_attention
BY_TYPE = {"gemma3_text": 1e6, "gemma3n_text": 1e6, "olmo3": 5e5, "t5gemma2_text": 1e6, "step3p5": 1e4}


def config(model_type, **keys):
    head_dim = {} if model_type == "olmo3" else {"head_dim": 64}
    return {"model_type": model_type, **SIZES, **head_dim, **KINDS, **keys}


def full(target):
    return read(target).layers[-1].rope


def unused(target):
    return [one for one in read(target).findings if one.name == "key-unused"]


@pytest.mark.parametrize("model_type", BY_TYPE)
def test_a_flat_rope_parameters_scales_no_layer_and_gives_no_base(model_type):
    target = config(model_type, rope_parameters=YARN)
    assert {(rope.scaling.rope_type) for rope in read(target).ropes} == {"default"}
    assert full(target).rope_theta == BY_TYPE[model_type]
    (one,) = unused(target)
    assert (one.where, one.severity) == ("text: rope_parameters", "warning")
    assert "full_attention" in one.right
    assert "yarn" in one.seen


@pytest.mark.parametrize("model_type", BY_TYPE)
def test_the_old_key_scales_the_full_layers_as_it_always_did(model_type):
    block = {name: value for name, value in YARN.items() if name != "rope_theta"}
    target = config(model_type, rope_scaling=block, rope_theta=5e4)
    assert (full(target).scaling.rope_type, full(target).rope_theta) == ("yarn", 5e4)
    assert read(target).layers[0].rope.scaling.rope_type == "default"
    assert unused(target) == []


@pytest.mark.parametrize("key", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("model_type", BY_TYPE)
def test_both_keys_are_read_as_transformers_reads_them(model_type, key):
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.24", exc_type=ImportError)
    block = YARN if key == "rope_parameters" else {name: YARN[name] for name in YARN if name != "rope_theta"}
    target = config(model_type, **{key: block})
    given = copy.deepcopy(target)
    kind = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    made = (kind[model_type] if model_type in kind else _class(transformers, model_type)).from_dict(given)
    code = importlib.import_module(type(made).__module__.replace("configuration_", "modeling_"))
    name = next(one for one in vars(code) if one.endswith("RotaryEmbedding") and "Vision" not in one)
    module = getattr(code, name)(config=made)
    for layer, label in ((0, "sliding_attention"), (5, "full_attention")):
        pairs = read(target).layers[layer].rope.pairs()
        theirs = getattr(module, f"{label}_inv_freq").double().numpy()
        np.testing.assert_allclose(pairs.inv_freq, theirs, rtol=3e-6)
        assert pairs.cos_sin_factor == pytest.approx(getattr(module, f"{label}_attention_scaling"), rel=1e-6)


def _class(transformers, model_type):
    name = {"step3p5": ("step3p7", "Step3p7TextConfig"), "t5gemma2_text": ("t5gemma2", "T5Gemma2TextConfig")}
    folder, wanted = name[model_type]
    return getattr(importlib.import_module(f"transformers.models.{folder}.configuration_{folder}"), wanted)


def test_engines_that_load_through_the_class_scale_nothing_either():
    target = config("gemma3_text", rope_parameters=YARN)
    seen = {one.engine: one for group in read_engines(target).groups for one in group.readings}
    assert seen["transformers"].rope.scaling.rope_type == seen["vLLM"].rope.scaling.rope_type == "default"


@pytest.mark.parametrize("model_type", ["llama", "modernbert"])
def test_other_models_read_a_flat_rope_parameters(model_type):
    target = config(model_type, rope_parameters=YARN)
    assert full(target).scaling.rope_type == "yarn"
    assert unused(target) == []


# --- truncate beside blocks by layer type

NESTED = {kind: {**YARN, "factor": 8.0} for kind in ("full_attention", "sliding_attention")}
READS_BESIDE = ("gemma3_text", "gemma3n_text", "olmo3", "t5gemma2_text", "ultrabert")


def beside(model_type, truncate, inside=None):
    blocks = {kind: {**block, **({} if inside is None else {"truncate": inside})} for kind, block in NESTED.items()}
    return config(model_type, rope_parameters={**blocks, "truncate": truncate})


@pytest.mark.parametrize("inside", [None, True, False])
@pytest.mark.parametrize("truncate", [True, False])
def test_truncate_beside_the_blocks_acts_and_the_one_inside_gives_way(truncate, inside):
    model = read(beside("gemma3_text", truncate, inside))
    assert {rope.scaling.truncate for rope in model.ropes} == {truncate}
    assert model.sources["text.full_attention.truncate"] == "rope_parameters.truncate"
    names = {one.name for one in model.findings}
    assert "key-unused" not in names
    assert ("engines-truncate" in names) == (not truncate or inside is False)


@pytest.mark.parametrize("model_type", [*READS_BESIDE, "step3p5"])
@pytest.mark.parametrize("truncate", [True, False])
def test_truncate_beside_the_blocks_is_read_as_transformers_reads_it(model_type, truncate):
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.24", exc_type=ImportError)
    target = beside(model_type, truncate)
    kind = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    made = (kind[model_type] if model_type in kind else _class(transformers, model_type)).from_dict(
        copy.deepcopy(target)
    )
    code = importlib.import_module(type(made).__module__.replace("configuration_", "modeling_"))
    name = next(one for one in vars(code) if one.endswith("RotaryEmbedding") and "Vision" not in one)
    theirs = getattr(code, name)(config=made).full_attention_inv_freq.double().numpy()
    np.testing.assert_allclose(full(target).pairs().inv_freq, theirs, rtol=3e-6)
    assert full(target).scaling.truncate == (truncate or model_type == "step3p5")
    assert ("key-unused" in {one.name for one in read(target).findings}) == (model_type == "step3p5")


def test_engines_differ_about_truncate_beside_the_blocks():
    seen = {
        one.engine: one
        for group in read_engines(beside("gemma3_text", False)).groups
        for one in group.readings
        if one.rope is not None
    }
    assert seen["transformers"].rope.scaling.truncate is False
    assert seen["vLLM"].rope.scaling.truncate is True
    assert "ignores truncate beside the blocks by layer type" in seen["vLLM"].notes
