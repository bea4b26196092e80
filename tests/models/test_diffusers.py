"""diffusers' transformers: ladders by class, negatives, and forms that are refused."""

import numpy as np
import pytest

from ropewalk import RopewalkError, read
from ropewalk.axes import Single
from ropewalk.models.diffusers import classes
from ropewalk.scaling import LongRope, Ntk


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


# class, blocks, head, base, widths, pairing, by reading the defaults of the class in diffusers 0.42.1
BY_DEFAULT = [
    ("FluxTransformer2DModel", 57, 128, 10_000, (16, 56, 56), "interleaved"),
    ("ChromaTransformer2DModel", 57, 128, 10_000, (16, 56, 56), "interleaved"),
    ("BriaTransformer2DModel", 57, 128, 10_000, (16, 56, 56), "interleaved"),
    ("BriaFiboTransformer2DModel", 57, 128, 10_000, (16, 56, 56), "interleaved"),
    ("BriaFibo2Transformer2DModel", 44, 128, 256, (32, 48, 48), "interleaved"),
    ("LongCatImageTransformer2DModel", 57, 128, 10_000, (16, 56, 56), "interleaved"),
    ("OvisImageTransformer2DModel", 33, 128, 10_000, (16, 56, 56), "interleaved"),
    ("Flux2Transformer2DModel", 56, 128, 2000, (32, 32, 32, 32), "interleaved"),
    ("Flux3Transformer2DModel", 33, 128, 10_000, (32, 32, 32, 32), "interleaved"),
    ("Krea2Transformer2DModel", 28, 128, 1000, (32, 48, 48), "interleaved"),
    ("QwenImageTransformer2DModel", 60, 128, 10_000, (16, 56, 56), "interleaved"),
    ("QwenImage21Transformer2DModel", 32, 128, 10_000, (16, 56, 56), "interleaved"),
    ("NucleusMoEImageTransformer2DModel", 24, 128, 10_000, (16, 56, 56), "interleaved"),
    ("HiDreamImageTransformer2DModel", 48, 128, 10_000, (32, 32), "interleaved"),
    ("PRXTransformer2DModel", 16, 64, 10_000, (32, 32), "interleaved"),
    ("Lumina2Transformer2DModel", 26, 96, 10_000, (32, 32, 32), "interleaved"),
    ("LuminaNextDiT2DModel", 32, 72, 10_000, (36, 36), "interleaved"),
    ("ZImageTransformer2DModel", 30, 128, 256, (32, 48, 48), "interleaved"),
    ("HunyuanVideoTransformer3DModel", 60, 128, 256, (16, 56, 56), "interleaved"),
    ("HunyuanVideoFramepackTransformer3DModel", 60, 128, 256, (16, 56, 56), "interleaved"),
    ("HunyuanVideo15Transformer3DModel", 54, 128, 256, (16, 56, 56), "interleaved"),
    ("HunyuanImageTransformer2DModel", 60, 128, 256, (64, 64), "interleaved"),
    ("HunyuanDiT2DModel", 28, 88, 10_000, (44, 44), "interleaved"),
    ("MotifVideoTransformer3DModel", 60, 128, 256, (16, 56, 56), "interleaved"),
    ("JoyImageEditTransformer3DModel", 20, 128, 256, (16, 56, 56), "interleaved"),
    ("JoyImageEditPlusTransformer3DModel", 20, 128, 256, (16, 56, 56), "interleaved"),
    ("WanTransformer3DModel", 40, 128, 10_000, (44, 42, 42), "interleaved"),
    ("WanVACETransformer3DModel", 40, 128, 10_000, (44, 42, 42), "interleaved"),
    ("WanAnimateTransformer3DModel", 40, 128, 10_000, (44, 42, 42), "interleaved"),
    ("WanAnimate2Transformer3DModel", 40, 128, 10_000, (44, 42, 42), "interleaved"),
    ("WanModel", 32, 128, 10_000, (44, 42, 42), "interleaved"),
    ("SkyReelsV2Transformer3DModel", 32, 128, 10_000, (44, 42, 42), "interleaved"),
    ("ChronoEditTransformer3DModel", 40, 128, 10_000, (44, 42, 42), "interleaved"),
    ("AnyFlowTransformer3DModel", 40, 128, 10_000, (44, 42, 42), "interleaved"),
    ("AnyFlowFARTransformer3DModel", 40, 128, 10_000, (44, 42, 42), "interleaved"),
    ("SanaVideoTransformer3DModel", 20, 112, 10_000, (40, 36, 36), "interleaved"),
    ("SanaWMTransformer3DModel", 20, 112, 10_000, (40, 36, 36), "interleaved"),
    ("HeliosTransformer3DModel", 40, 128, 10_000, (44, 42, 42), "interleaved"),
    ("EasyAnimateTransformer3DModel", 48, 64, 10_000, (16, 24, 24), "interleaved"),
    ("Kandinsky5Transformer3DModel", 32, 64, 10_000, (16, 24, 24), "interleaved"),
    ("Kandinsky6Transformer3DModel", 60, 128, 10_000, (32, 48, 48), "interleaved"),
    ("Kandinsky6SRTransformer3DModel", 32, 64, 10_000, (16, 24, 24), "interleaved"),
    ("AllegroTransformer3DModel", 32, 96, 10_000, (32, 32, 32), "half"),
    ("CogView4Transformer2DModel", 30, 40, 10_000, (20, 20), "half"),
    ("GlmImageTransformer2DModel", 30, 40, 10_000, (20, 20), "half"),
    ("MiniMaxH3Transformer3DModel", 50, 128, 10_000, (32, 32, 32), "half"),
    # one axis, or one ladder dealt out to three: the channels that turn
    ("AceStepTransformer1DModel", 24, 128, 1_000_000, (128,), "half"),
    ("LongCatAudioDiTTransformer", 24, 64, 100_000, (64,), "half"),
    ("StableAudioDiTModel", 24, 64, 10_000, (32,), "half"),
    ("StableAudio3DiTModel", 24, 64, 10_000, (32,), "half"),
    ("MiniMaxMusic3Transformer1DModel", 36, 64, 10_000, (32,), "half"),
    ("Cosmos3OmniTransformer", 36, 128, 5_000_000, (128,), "half"),
    ("Ideogram4Transformer2DModel", 34, 256, 5_000_000, (256,), "half"),
]


@pytest.mark.parametrize(("name", "blocks", "head", "theta", "widths", "pairing"), BY_DEFAULT)
def test_a_class_named_alone_is_its_defaults(name, blocks, head, theta, widths, pairing):
    model = read({"_class_name": name})
    rope = model.rope
    assert (len(model.layers), rope.head_dim, rope.rotary_dim) == (blocks, head, sum(widths))
    assert (rope.rope_theta, rope.pairing) == (theta, pairing)
    by_ladder = rope.pairs().inv_freq
    if name == "LuminaNextDiT2DModel":  # whose axes take turns
        by_ladder = np.concatenate([by_ladder[0::2], by_ladder[1::2]])
    np.testing.assert_allclose(by_ladder, ladders(theta, *widths), rtol=1e-13)


def test_the_table_of_defaults_has_every_class_that_its_name_alone_describes():
    needs_more = {"CogVideoXTransformer3DModel", "ConsisIDTransformer3DModel", "CosmosTransformer3DModel"}
    described = {name for name, facts in classes().items() if "theta" in facts} - needs_more
    assert described == {row[0] for row in BY_DEFAULT} | {"OmniGenTransformer2DModel"}


def test_the_layers_of_a_class_can_be_named_otherwise():
    assert len(read({"_class_name": "Kandinsky5Transformer3DModel", "num_visual_blocks": 3}).layers) == 3
    assert len(read({"_class_name": "StableAudio3DiTModel", "depth": 5}).layers) == 5
    assert len(read({"_class_name": "LongCatAudioDiTTransformer", "dit_depth": 7}).layers) == 7


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("FluxTransformer2DModel", [0, 2, 4], [1, 3, 5]),  # neighbours
        ("AllegroTransformer3DModel", [0, 1, 2], [16, 17, 18]),  # halves of each axis's own third
        ("CogView4Transformer2DModel", [0, 1, 2], [20, 21, 22]),  # halves of the whole head
        ("GlmImageTransformer2DModel", [0, 1, 2], [20, 21, 22]),
        ("MiniMaxH3Transformer3DModel", [0, 1, 2], [48, 49, 50]),  # halves of the 96 channels that turn
        ("StableAudioDiTModel", [0, 1, 2], [16, 17, 18]),  # of 32 of 64
        ("LuminaNextDiT2DModel", [0, 2, 4], [1, 3, 5]),
    ],
)
def test_pairing_is_that_of_the_class(name, first, second):
    pairs = read({"_class_name": name}).rope.pairs()
    assert pairs.first.tolist()[:3] == first
    assert pairs.second.tolist()[:3] == second


def test_hunyuan_dit_gives_the_first_half_of_a_head_to_the_columns():
    rope = read({"_class_name": "HunyuanDiT2DModel"}).rope
    assert rope.axes.names == ("h", "w")
    assert rope.pairs().axis.tolist() == [1] * 22 + [0] * 22


def test_lumina_next_deals_rows_and_columns_in_turn():
    assert read({"_class_name": "LuminaNextDiT2DModel"}).rope.pairs().axis.tolist() == [0, 1] * 18


@pytest.mark.parametrize(
    ("keys", "rotary"),
    [
        ({"_class_name": "StableAudioDiTModel", "attention_head_dim": 96}, 48),
        ({"_class_name": "StableAudio3DiTModel", "embed_dim": 1024, "num_heads": 8}, 64),
        ({"_class_name": "MiniMaxMusic3Transformer1DModel", "rotary_dim": 48}, 48),
        ({"_class_name": "AceStepTransformer1DModel", "head_dim": 64, "rope_theta": 10_000}, 64),
    ],
)
def test_sound_has_one_axis(keys, rotary):
    rope = read(keys).rope
    assert rope.axes == Single()
    np.testing.assert_allclose(rope.pairs().inv_freq, ladders(1e4, rotary), rtol=1e-13)


def test_minimax_h3_states_pairs_for_each_axis():
    rope = read({"_class_name": "MiniMaxH3Transformer3DModel", "rope_freq_dim": 8}).rope
    assert (rope.head_dim, rope.rotary_dim, rope.axes.widths) == (128, 48, (16, 16, 16))


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_axes_dim": [24, 20, 20]},
        {"rope_scaling": {"mrope_section": [24, 20, 20]}},
        {"rope_axes_dim": [24, 20, 20], "rope_scaling": {"mrope_section": [8, 28, 28]}},
        {},
    ],
)
def test_cosmos_3_deals_one_ladder_to_three_axes(keys):
    model = read({"_class_name": "Cosmos3OmniTransformer", **keys})
    axis = model.rope.pairs().axis
    assert axis.tolist()[:7] == [0, 1, 2, 0, 1, 2, 0]
    assert axis.tolist()[57:] == [0, 1, 2, 0, 0, 0, 0]
    assert "sections-realised" not in names(model)


def test_ideogram_4_leaves_the_rest_of_a_wide_head_to_the_first_axis():
    model = read({"_class_name": "Ideogram4Transformer2DModel"})
    assert np.bincount(model.rope.pairs().axis).tolist() == [88, 20, 20]
    assert "sections-realised" in names(model)
    narrow = read({"_class_name": "Ideogram4Transformer2DModel", "attention_head_dim": 128})
    assert "sections-realised" not in names(narrow)


@pytest.mark.parametrize("sections", [[24, 20], [24, 20.5, 20], [0, 100, 29], ["x", 1, 2], [24, -1, 20], "abc", []])
def test_sections_that_do_not_fit_are_errors(sections):
    model = read({"_class_name": "Ideogram4Transformer2DModel", "mrope_section": sections})
    assert model.ropes == ()
    assert any(finding.severity == "error" for finding in model.findings)


OMNIGEN = {"_class_name": "OmniGenTransformer2DModel", "hidden_size": 3072, "num_attention_heads": 32, "num_layers": 2}
SHORT, LONG = [1 + i / 48 for i in range(48)], [1 + i for i in range(48)]


def test_omnigen_has_the_two_lists_of_longrope():
    lists = {"short_factor": SHORT, "long_factor": LONG, "type": "su"}
    model = read({**OMNIGEN, "rope_base": 10_000, "rope_scaling": lists})
    rope = model.rope
    assert rope.scaling == LongRope(
        short_factor=tuple(SHORT), long_factor=tuple(LONG), original_max_position_embeddings=4096
    )
    assert (rope.pairing, rope.max_position_embeddings) == ("half", 131_072)
    for length, divisors in ((4096, SHORT), (4097, LONG)):
        pairs = rope.pairs(length)
        np.testing.assert_allclose(pairs.inv_freq, ladders(1e4, 96) / divisors, rtol=1e-13)
        assert pairs.cos_sin_factor == pytest.approx(np.sqrt(1 + np.log(32) / np.log(4096)), rel=1e-14)
    switch = next(finding for finding in model.findings if finding.name == "longrope-switch")
    assert switch.where == "transformer: original_max_position_embeddings"  # the class reads it beside the block
    stated = read({**OMNIGEN, "rope_scaling": lists, "original_max_position_embeddings": 64})
    assert stated.rope.scaling.original_max_position_embeddings == 64


def test_omnigen_reads_no_other_key_of_its_scaling():
    lists = {"short_factor": SHORT, "long_factor": LONG}
    more = {"factor": 2.0, "attention_factor": 3.0, "original_max_position_embeddings": 7}
    assert read({**OMNIGEN, "rope_scaling": lists | more}).rope == read({**OMNIGEN, "rope_scaling": lists}).rope


@pytest.mark.parametrize(
    ("scaling", "name"),
    [
        (None, "key-missing"),
        ({"short_factor": SHORT}, "key-missing"),
        ({"short_factor": SHORT, "long_factor": LONG[1:]}, "list-length"),
        ({"short_factor": SHORT, "long_factor": "abc"}, "value-unusable"),
    ],
)
def test_omnigen_cannot_do_without_its_lists(scaling, name):
    model = read({**OMNIGEN, "rope_scaling": scaling})
    assert model.ropes == ()
    assert name in names(model)


def test_sana_wm_turns_unless_it_is_told_not_to():
    assert read({"_class_name": "SanaWMTransformer3DModel", "use_pe": True}).rope is not None
    off = read({"_class_name": "SanaWMTransformer3DModel", "use_pe": False})
    assert (off.ropes, off.positions["transformer"]) == ((), "none")


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


@pytest.mark.parametrize(
    "name",
    [
        "SD3Transformer2DModel",
        "PixArtTransformer2DModel",
        "AuraFlowTransformer2DModel",
        "CogView3PlusTransformer2DModel",
        "SanaTransformer2DModel",
        "PriorTransformer",
    ],
)
def test_models_without_rope_say_what_they_use(name):
    model = read({"_class_name": name})
    assert model.ropes == ()
    assert model.positions["transformer"]
    assert model.findings == ()


@pytest.mark.parametrize(
    "name",
    [
        "LTXVideoTransformer3DModel",
        "LTX2VideoTransformer3DModel",
        "MochiTransformer3DModel",
        "ErnieImageTransformer2DModel",
    ],
)
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
    assert model.ropes or model.positions or {"form-outside-scope", "key-missing"} & set(names(model))
