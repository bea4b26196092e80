"""What a configuration without a block of rope parameters reads as: the block that transformers' class has itself."""

import copy

import pytest

from ropewalk import read
from ropewalk.engines import read_engines
from ropewalk.scaling import Default, Llama3, Yarn

# θ and scaling, stated a second time from the __post_init__ of transformers 5.24's configuration classes
BY_EIGHT = Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
BY_SIXTEEN = Llama3(factor=16, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
BY_THIRTY_TWO = Llama3(factor=32, low_freq_factor=0.125, high_freq_factor=0.5, original_max_position_embeddings=1024)
UNROUNDED = Yarn(factor=32, original_max_position_embeddings=4096, beta_fast=32, beta_slow=1, truncate=False)
BLOCKS = {
    "apertus": (1.2e7, BY_EIGHT),
    "apertus1p5_text": (1.2e7, BY_EIGHT),
    "cwm": (1e6, BY_SIXTEEN),
    "gpt_oss": (1.5e5, UNROUNDED),
    "higgs_audio_v2": (5e5, BY_THIRTY_TWO),
    "ministral3": (1e6, Yarn(factor=16, original_max_position_embeddings=16384, mscale=1, mscale_all_dim=1)),
    "mistral4": (
        1e4,
        Yarn(factor=128, original_max_position_embeddings=8192, mscale=1, mscale_all_dim=1, scale_softmax=True),
    ),
    "mistral_large4_text": (1e4, Yarn(factor=2048, original_max_position_embeddings=512, attention_factor=1)),
    "openai_privacy_filter": (1.5e5, UNROUNDED),
}
# θ where the block is there and has none: the class's default_theta, which for some is not the base of its own block
EMPTY = {"ministral3": 1e4, "higgs_audio_v2": 1e4}
NUMBERS = """
    factor original_max_position_embeddings low_freq_factor high_freq_factor beta_fast beta_slow truncate
    attention_factor mscale mscale_all_dim
""".split()
ABSENT = ({}, {"rope_parameters": None}, {"rope_scaling": None}, {"rope_scaling": {}})


def plain(scaling):
    """The numbers of a scaling that transformers' blocks state; those for the softmax scale stand elsewhere."""
    return scaling.rope_type, {name: getattr(scaling, name) for name in NUMBERS if hasattr(scaling, name)}


@pytest.mark.parametrize("absent", ABSENT, ids=repr)
@pytest.mark.parametrize(("model_type", "block"), BLOCKS.items(), ids=BLOCKS)
def test_without_a_block_the_class_takes_its_own(model_type, block, absent):
    model = read({"model_type": model_type, **absent})
    ropes = [rope for rope in model.ropes if rope.max_position_embeddings]
    assert {(rope.rope_theta, plain(rope.scaling)[0]) for rope in ropes} == {(block[0], block[1].rope_type)}
    assert plain(ropes[0].scaling) == plain(block[1])
    implied = [one for one in model.findings if one.name == "scaling-implied"]
    assert [one.where for one in implied] == ["text: rope_parameters"]
    assert f"factor {block[1].factor:g}" in implied[0].right
    assert model.sources["text.scaling"].startswith("default of ")
    assert model.sources["text.factor"] == model.sources["text.scaling"]
    assert model.sources["text.rope_theta"] == model.sources["text.scaling"]
    assert "theta-default" in {one.name for one in model.findings}


@pytest.mark.parametrize("model_type", BLOCKS)
def test_an_empty_block_is_one_and_scales_nothing(model_type):
    model = read({"model_type": model_type, "rope_parameters": {}})
    assert {rope.scaling for rope in model.ropes} == {Default()}
    assert model.ropes[0].rope_theta == EMPTY.get(model_type, BLOCKS[model_type][0])
    assert "scaling-implied" not in {one.name for one in model.findings}


@pytest.mark.parametrize("model_type", BLOCKS)
@pytest.mark.parametrize("keys", [*ABSENT, {"rope_parameters": {}}, {"rope_theta": 777.0}], ids=repr)
def test_it_is_what_transformers_makes_of_the_same_keys(model_type, keys):
    transformers = pytest.importorskip("transformers", minversion="5.24", exc_type=ImportError)
    made = transformers.AutoConfig.for_model(model_type, **copy.deepcopy(keys)).rope_parameters
    rope = read({"model_type": model_type, **keys}).ropes[0]
    rope_type, numbers = plain(rope.scaling)
    assert made["rope_type"] == rope_type
    assert made["rope_theta"] == rope.rope_theta
    assert {name: made[name] for name in numbers if name in made} == {
        name: value for name, value in numbers.items() if name in made
    }


def test_a_base_beside_no_block_gives_way_to_the_one_in_the_class_s_block():
    model = read({"model_type": "apertus", "rope_theta": 777})
    assert model.rope.rope_theta == 1.2e7
    (conflict,) = [one for one in model.findings if one.name == "theta-conflict"]
    assert "777 at rope_theta" in conflict.seen
    assert read({"model_type": "gpt_oss", "rope_theta": 777}).rope.rope_theta == 777  # its block has no base


def test_ministral_scales_its_queries_by_the_class_s_block_too():
    scale = read({"model_type": "ministral3"}).layers[0].query_scale
    assert (scale.attn_scale, scale.floor_scale) == (0.1, 16384)


def test_engines_see_the_class_s_block():
    readings = [one for group in read_engines({"model_type": "gpt_oss"}).groups for one in group.readings]
    seen = {one.engine: one.rope.scaling for one in readings if one.rope is not None}
    assert seen["transformers"] == seen["vLLM"] == UNROUNDED
    assert seen["mlx-lm"] == Default()  # it reads the file alone


# --- blocks by layer type, and rotated fractions that stand in the class's block alone

# by layer type: θ and rotated fraction, stated a second time from the classes
BY_TYPE = {
    "laguna": {"full_attention": (5e5, 0.5), "sliding_attention": (1e4, 1.0)},
    "mellum": {"full_attention": (5e5, 1.0), "sliding_attention": (1e4, 1.0)},
    "zaya": {"hybrid": (5e6, 0.5), "hybrid_sliding": (1e4, 0.5)},
    "dory": {"full_attention": (1e7, 1.0), "sliding_attention": (1e4, 1.0)},
    "embedding_gemma2_text": {"full_attention": (1e6, 1.0), "sliding_attention": (1e4, 1.0)},
}
PROPORTIONAL = {"gemma4_text": 0.25, "gemma4_unified_text": 0.25, "diffusion_gemma_text": 0.25, "lfm3": 0.5}


def layers(model_type, **keys):
    kinds = list(BY_TYPE.get(model_type, {"full_attention": 0, "sliding_attention": 0}))[::-1]  # a full layer ends
    config = {"model_type": model_type, "num_hidden_layers": 2, "layer_types": kinds, "head_dim": 128, **keys}
    return dict(zip(kinds, read(config).layers, strict=True)), read(config)


@pytest.mark.parametrize("keys", [{}, {"rope_parameters": None}, {"rope_theta": 777.0}], ids=repr)
@pytest.mark.parametrize("model_type", BY_TYPE)
def test_the_class_s_block_by_layer_type_stands_for_an_absent_one(model_type, keys):
    found, model = layers(model_type, **keys)
    for kind, (theta, fraction) in BY_TYPE[model_type].items():
        rope = found[kind].rope
        assert (rope.rope_theta, rope.width) == (theta, int(rope.head_dim * fraction))
        assert model.sources[f"text.{kind}.rope_theta"].startswith("default of ")
    names = [one.name for one in model.findings]
    assert ("theta-conflict" in names) == ("rope_theta" in keys)
    assert ("theta-default" in names) == ("rope_theta" not in keys)
    assert "scaling-implied" not in names


@pytest.mark.parametrize("model_type", ["laguna", "zaya"])
def test_a_block_that_is_there_takes_no_rotated_fraction_from_the_class(model_type):
    block = {kind: {"rope_type": "default", "rope_theta": 5e4} for kind in BY_TYPE[model_type]}
    found, _ = layers(model_type, rope_parameters=block)
    assert {(layer.rope.rope_theta, layer.rope.width) for layer in found.values()} == {(5e4, 128)}


@pytest.mark.parametrize("model_type", PROPORTIONAL)
def test_proportional_scaling_stands_in_the_class_s_block_alone(model_type):
    found, model = layers(model_type)
    assert found["full_attention"].rope.scaling.partial_rotary_factor == PROPORTIONAL[model_type]
    assert found["sliding_attention"].rope.scaling == Default()
    (one,) = [one for one in model.findings if one.name == "scaling-implied"]
    assert "full_attention: rope_type proportional" in one.right
    block = {kind: {"rope_theta": 5e4} for kind in ("full_attention", "sliding_attention")}
    found, _ = layers(model_type, rope_parameters=block)
    assert {layer.rope.scaling.rope_type for layer in found.values()} == {"default"}


@pytest.mark.parametrize(("model_type", "width"), [("moonshine_streaming", 32), ("laguna", 64)])
def test_a_fraction_of_the_class_s_block_is_noted(model_type, width):
    model = read({"model_type": model_type})
    assert model.ropes[0].width == width
    assert "partial_rotary_factor" in "".join(one.message for one in model.findings if one.name == "class-default")


@pytest.mark.parametrize("model_type", [*BY_TYPE, *PROPORTIONAL])
def test_blocks_by_layer_type_are_those_of_transformers(model_type):
    transformers = pytest.importorskip("transformers", minversion="5.24", exc_type=ImportError)
    made = transformers.AutoConfig.for_model(model_type).rope_parameters
    found, _ = layers(model_type)
    for kind, layer in found.items():
        rope = layer.rope
        assert made[kind]["rope_theta"] == rope.rope_theta
        assert made[kind]["rope_type"] == rope.scaling.rope_type
        if rope.scaling == Default():
            assert int(rope.head_dim * made[kind].get("partial_rotary_factor", 1.0)) == rope.width


@pytest.mark.parametrize(
    ("part", "inner", "theta"),
    [("decoder_config", "dia_decoder", 1e4), ("text_config", "voxtral_realtime_text", 1e6), (None, "csm", 5e5)],
)
def test_a_part_without_a_base_takes_its_class_s(part, inner, theta):
    sizes = {"model_type": inner, "num_hidden_layers": 2, "head_dim": 64}
    model = read(sizes if part is None else {"model_type": inner.rpartition("_")[0], part: sizes})
    assert {rope.rope_theta for rope in model.ropes} == {theta}


def test_t5gemma2_s_decoder_has_two_bases():
    config = {"model_type": "t5gemma2", "decoder": {"model_type": "t5gemma2_decoder", "num_hidden_layers": 6}}
    ropes = [layer.rope for layer in read(config).parts["decoder"]]
    assert [rope.rope_theta for rope in ropes] == [1e4] * 5 + [1e6]
