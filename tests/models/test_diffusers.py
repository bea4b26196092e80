"""diffusers' transformers: ladders by class, negatives, and forms that are refused."""

import numpy as np
import pytest

from ropewalk import RopewalkError, read
from ropewalk.models.diffusers import classes
from ropewalk.scaling import Ntk


def ladders(theta, *widths):
    return np.concatenate([theta ** (-2 * np.arange(width // 2) / width) for width in widths])


def names(model):
    return [finding.name for finding in model.findings]


# class, its keys, blocks, base, widths, by reading the class in diffusers
DESCRIBED = [
    ("FluxTransformer2DModel", {"num_layers": 2, "num_single_layers": 3}, 5, 1e4, (16, 56, 56)),
    ("FluxTransformer2DModel", {}, 57, 1e4, (16, 56, 56)),
    ("FluxTransformer2DModel", {"axes_dims_rope": [8, 12, 12], "attention_head_dim": 32}, 57, 1e4, (8, 12, 12)),
    ("Flux2Transformer2DModel", {"rope_theta": 2000}, 56, 2000, (32, 32, 32, 32)),
    ("QwenImageTransformer2DModel", {"axes_dims_rope": [16, 56, 56]}, 60, 1e4, (16, 56, 56)),
    ("HunyuanVideoTransformer3DModel", {"rope_axes_dim": [16, 56, 56], "rope_theta": 256.0}, 60, 256, (16, 56, 56)),
    ("HunyuanImageTransformer2DModel", {}, 60, 256, (64, 64)),
    ("Lumina2Transformer2DModel", {"hidden_size": 2304, "num_attention_heads": 24}, 26, 1e4, (32, 32, 32)),
    ("ZImageTransformer2DModel", {"dim": 3840, "n_heads": 30, "n_layers": 4}, 4, 256, (32, 48, 48)),
    ("WanTransformer3DModel", {"num_layers": 30}, 30, 1e4, (44, 42, 42)),
    ("WanModel", {"dim": 1536, "num_heads": 12, "num_layers": 30}, 30, 1e4, (44, 42, 42)),
    ("AllegroTransformer3DModel", {"attention_head_dim": 96}, 32, 1e4, (32, 32, 32)),
    ("CogView4Transformer2DModel", {"attention_head_dim": 128, "num_layers": 28}, 28, 1e4, (64, 64)),
    ("HiDreamImageTransformer2DModel", {"axes_dims_rope": [64, 32, 32]}, 48, 1e4, (64, 32, 32)),
]


@pytest.mark.parametrize(("name", "keys", "blocks", "theta", "widths"), DESCRIBED)
def test_each_axis_has_its_own_ladder(name, keys, blocks, theta, widths):
    model = read({"_class_name": name, **keys})
    assert len(model.layers) == blocks
    assert model.rope.axes.widths == widths
    np.testing.assert_allclose(model.rope.pairs().inv_freq, ladders(theta, *widths), rtol=1e-14)
    assert model.model_type == name


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("FluxTransformer2DModel", [0, 2, 4], [1, 3, 5]),  # neighbours
        ("AllegroTransformer3DModel", [0, 1, 2], [16, 17, 18]),  # halves of each axis's own third
        ("CogView4Transformer2DModel", [0, 1, 2], [20, 21, 22]),  # halves of the whole head
    ],
)
def test_pairing_is_that_of_the_class(name, first, second):
    pairs = read({"_class_name": name}).rope.pairs()
    assert pairs.first.tolist()[:3] == first
    assert pairs.second.tolist()[:3] == second


def test_hidream_with_narrow_axes_leaves_the_rest_of_the_head():
    rope = read({"_class_name": "HiDreamImageTransformer2DModel"}).rope
    assert (rope.head_dim, rope.rotary_dim) == (128, 64)


def test_a_base_that_the_file_could_give_is_reported_as_a_default():
    model = read({"_class_name": "Flux2Transformer2DModel"})
    assert model.rope.rope_theta == 2000
    assert "theta-default" in names(model)
    assert model.sources["transformer.rope_theta"] == "default of Flux2Transformer2DModel"


def test_cogvideox_is_told_by_its_switch_where_the_class_is_left_out():
    data = {"attention_head_dim": 64, "in_channels": 16, "out_channels": 16, "num_layers": 3}
    on = read({**data, "use_rotary_positional_embeddings": True})
    np.testing.assert_allclose(on.rope.pairs().inv_freq, ladders(1e4, 16, 24, 24), rtol=1e-14)
    assert on.sources["transformer.class"] == "told by the file's keys"
    off = read({**data, "use_rotary_positional_embeddings": False})
    assert (len(off.layers), off.ropes, off.positions["transformer"]) == (3, (), "sinusoidal absolute (3D sincos)")


@pytest.mark.parametrize("name", ["SD3Transformer2DModel", "PixArtTransformer2DModel", "AuraFlowTransformer2DModel"])
def test_models_without_rope_say_what_they_use(name):
    model = read({"_class_name": name})
    assert model.ropes == ()
    assert model.positions["transformer"]
    assert model.findings == ()


@pytest.mark.parametrize("name", ["LTXVideoTransformer3DModel", "MochiTransformer3DModel"])
def test_forms_that_cannot_be_described_are_named_not_guessed(name):
    model = read({"_class_name": name, "num_layers": 2})
    assert model.ropes == ()
    assert names(model) == ["form-outside-scope"]


def test_cosmos_has_a_rope_only_where_all_axes_share_one_base():
    cosmos = {"_class_name": "CosmosTransformer3DModel", "attention_head_dim": 128, "num_layers": 2}
    assert "form-outside-scope" in names(read(cosmos))
    assert "form-outside-scope" in names(read({**cosmos, "rope_scale": [1.0, 3.0, 3.0]}))
    rope = read({**cosmos, "rope_scale": [3.0, 3.0, 3.0]}).rope
    assert rope.scaling == Ntk(factor=3)
    bases = {width: 1e4 * 3 ** (width / (width - 2)) for width in (44, 42)}
    right = np.concatenate([ladders(bases[width], width) for width in (44, 42, 42)])
    np.testing.assert_allclose(rope.pairs().inv_freq, right, rtol=1e-13)
    assert rope.pairs().second.tolist()[:2] == [64, 65]


def test_an_unknown_class_with_flux_axes_is_read_as_flux_and_said():
    model = read({"_class_name": "NewTransformer2DModel", "axes_dims_rope": [16, 56, 56], "num_layers": 2})
    assert model.rope == read({"_class_name": "FluxTransformer2DModel"}).rope
    assert "architecture-unknown" in names(model)


def test_an_unknown_class_without_a_rope_key_is_unknown():
    model = read({"_class_name": "NewTransformer2DModel", "num_layers": 2})
    assert model.positions == {"transformer": "unknown"}
    assert names(model) == ["positions-unknown"]


@pytest.mark.parametrize("axes", [[16, 56, 57], [64, 64, 64], [16.5, 2], ["x"], [], "abc", [0, 128]])
def test_axes_that_do_not_fit_are_errors(axes):
    model = read({"_class_name": "FluxTransformer2DModel", "attention_head_dim": 128, "axes_dims_rope": axes})
    assert model.ropes == ()
    assert any(finding.severity == "error" for finding in model.findings)


def test_the_index_of_a_pipeline_describes_no_layers():
    with pytest.raises(RopewalkError, match=r"FluxPipeline.*transformer/config\.json"):
        read({"_class_name": "FluxPipeline", "_diffusers_version": "0.30.0", "transformer": ["diffusers", "x"]})


@pytest.mark.parametrize("name", classes())
def test_every_class_of_the_table_reads_from_its_name_alone(name):
    model = read({"_class_name": name, "_diffusers_version": "0.35.0"})
    wanted = {"source", "layers"} | ({"positions"} if not model.ropes and model.positions else set())
    assert wanted <= set(classes()[name])
    assert model.ropes or model.positions or "form-outside-scope" in names(model)
