"""Faults seen in the wild: where a key stands, how it is spelled, and what is taken where it is absent.

Each test carries the id of its fault and numbers worked out beside the library.
"""

import numpy as np
import pytest

import ropewalk
from ropewalk import RopewalkError
from ropewalk.axes import Ladders
from ropewalk.rope import Rope
from ropewalk.scaling import Default, Linear, Llama3, LongRope, Ntk, Yarn

from ._faults import LLAMA3, YARN, close, config, errors, finding, inv_freq, names, rope_of, yarn

# --- the base


def test_f107_base_in_rope_parameters_is_taken_and_its_home_named():
    model = ropewalk.read(config(theta=3e5))
    assert model.rope.pairs().inv_freq[1] == close(0.7689415118)
    assert model.sources["text.rope_theta"] == "rope_parameters.rope_theta"


def test_f107_missing_base_is_a_class_default_that_is_named():
    model = ropewalk.read(config(theta=None))
    assert model.rope.pairs().inv_freq[1] == close(0.8254041853)
    assert model.sources["text.rope_theta"] == "default of LlamaConfig"
    assert finding(config(theta=None), "theta-default").severity == "warning"


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_theta": 250000, "rope_scaling": None},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 250000}},
        {"rope_scaling": {"type": "default", "rope_theta": 250000}},
        {"rope_theta": "250000"},
        {"rope_parameters": {"rope_theta": 250000}, "rope_scaling": {"rope_type": "default"}},
    ],
)
def test_f108_five_homes_of_the_base_give_one_description(keys):
    model = ropewalk.read({"model_type": "llama", "head_dim": 96, "num_hidden_layers": 2, **keys})
    right = Rope(head_dim=96, rope_theta=250000, pairing="half", max_position_embeddings=2048)
    assert model.rope == right
    assert errors({"model_type": "llama", "head_dim": 96, **keys}) == []


def test_f108_yarn_under_either_key_alone_is_read():
    new = yarn()
    old = {**{key: value for key, value in new.items() if key != "rope_parameters"}, "rope_theta": 250000}
    for block in ({**YARN}, {"type": "yarn", **{key: value for key, value in YARN.items() if key != "rope_type"}}):
        assert rope_of({**old, "rope_scaling": block}) == rope_of(new)


def test_f108_scaling_beside_an_unscaled_block_is_read_and_the_pair_reported():
    both = config({"rope_type": "default"}, rope_scaling={"type": "linear", "factor": 3})
    assert rope_of(both).scaling == Linear(factor=3)
    assert rope_of(both).rope_theta == 3e5
    assert "blocks-conflict" in names(both, "warning")
    sources = ropewalk.read(both).sources
    assert (sources["text.factor"], sources["text.rope_theta"]) == ("rope_scaling.factor", "rope_parameters.rope_theta")


def test_f109_default_is_not_scaling():
    rope = rope_of(config({"rope_type": "default", "rope_theta": 3e5}))
    assert rope.scaling == Default()
    assert names(config({"rope_type": "default", "rope_theta": 3e5})) == set()


def test_f110_type_beside_an_equal_rope_type_is_fine_and_beside_another_an_error():
    equal = config({"type": "linear", "rope_type": "linear", "factor": 3})
    assert rope_of(equal).scaling == Linear(factor=3)
    assert names(equal) == set()
    differing = config({"type": "linear", "rope_type": "yarn", "factor": 3})
    assert ropewalk.read(differing).ropes == ()
    assert "rope-type-conflict" in names(differing, "error")


@pytest.mark.parametrize(("type_", "rope_type"), [("su", "longrope"), ("mrope", "default")])
def test_f110_two_spellings_of_one_type_do_not_conflict(type_, rope_type):
    block = {"short_factor": [1.0] * 48, "long_factor": [2.5] * 48, "original_max_position_embeddings": 1024}
    block = {"type": type_, "rope_type": rope_type, **(block if type_ == "su" else {"mrope_section": [24, 12, 12]})}
    assert names(config(block), "error") == set()


def test_f111_llama3_is_read_whole_and_a_key_missing_or_unknown_is_reported():
    block = {**LLAMA3, "factor": 8, "original_max_position_embeddings": 8192}
    right = Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
    assert rope_of(config(block)).scaling == right
    for name in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"):
        lacking = config({key: value for key, value in block.items() if key != name})
        assert finding(lacking, "key-missing").where == f"text: rope_parameters.{name}"
        assert ropewalk.read(lacking).ropes == ()
    noted = config({**block, "note": 1})
    assert rope_of(noted).scaling == right
    assert finding(noted, "key-unused").where == "text: rope_parameters.note"


def test_f112_truncate_false_is_read():
    rope = rope_of(yarn({"truncate": False}))
    assert rope.scaling == Yarn(factor=12, original_max_position_embeddings=6144, truncate=False)


def test_f113_null_is_absent():
    assert rope_of(config({"rope_type": "default", "factor": None})) == rope_of(config())
    assert finding(config({"rope_type": "linear", "factor": None}), "key-missing").severity == "error"
    derived = yarn({"factor": None})
    assert rope_of(derived) == rope_of(yarn())
    assert "max_position_embeddings" in ropewalk.read(derived).sources["text.factor"]


@pytest.mark.parametrize(
    "block",
    [
        {"rope_type": "default"},
        YARN,
        {"rope_type": "dynamic", "factor": 3},
        {"rope_type": "longrope", "short_factor": [1] * 48, "long_factor": [2] * 48, "factor": 2},
    ],
    ids=lambda block: block["rope_type"],
)
def test_f113_null_head_dim_is_hidden_size_over_heads(block):
    rope = rope_of(config(block, head_dim=None, hidden_size=384, num_attention_heads=4))
    assert rope.head_dim == 96


def test_f114_numbers_as_text_are_read_and_words_are_not():
    assert rope_of(config(theta="300000")).rope_theta == 3e5
    assert rope_of(config({"rope_type": "linear", "factor": "3"})).scaling == Linear(factor=3)
    wrong = config({"rope_type": "linear", "factor": "x"})
    assert ropewalk.read(wrong).ropes == ()
    assert "'x'" in finding(wrong, "value-unusable").message


def test_f115_the_file_wins_over_the_class_default():
    assert rope_of(config(model_type="gpt_oss", theta=3e5)).rope_theta == 3e5
    block = {"rope_type": "longrope", "short_factor": [1] * 48, "long_factor": [2] * 48}
    stated = config({**block, "original_max_position_embeddings": 2048}, model_type="phi3")
    assert rope_of(stated).scaling.original_max_position_embeddings == 2048


def test_f116_a_long_context_base_is_carried_to_the_last_pair():
    assert inv_freq(config(theta=3e5))[-1] == close(4.334963430e-6)
    assert inv_freq(config(theta=1e4))[-1] == close(1.211527659e-4)


# --- other spellings and types


@pytest.mark.parametrize("model_type", ["hunyuan_v1_dense", "hunyuan_v1_moe"])
def test_f137_alpha_raises_the_base(model_type):
    block = {"type": "dynamic", "alpha": 50, "factor": 1}
    rope = rope_of(config(block, theta=2e4, model_type=model_type))
    assert rope.scaling == Ntk(factor=50)
    raised = rope.replace(rope_theta=1086796.667, scaling=Default()).pairs().inv_freq
    np.testing.assert_allclose(rope.pairs().inv_freq, raised, rtol=1e-9)
    ignored = rope.replace(scaling=Default()).pairs().inv_freq
    assert np.abs(rope.pairs().inv_freq - ignored).max() == pytest.approx(0.1240657, abs=5e-8)
    narrow = config(block, theta=2e4, model_type=model_type, head_dim=2)
    assert ropewalk.read(narrow).ropes == ()
    assert "rotary_dim=2" in finding(narrow, "scaling-impossible").message


def test_f138_rope_ratio_multiplies_the_base_of_chatglm():
    model = ropewalk.read({"model_type": "chatglm", "kv_channels": 128, "num_layers": 2, "rope_ratio": 25})
    assert model.rope.rope_theta == 250000
    assert model.sources["text.rope_theta"] == "rope_ratio"


@pytest.mark.parametrize("spelled", ["su", "yarn", "longrope"])
def test_f139_old_type_names_of_phi3_mean_longrope(spelled):
    block = {"type": spelled, "short_factor": [1.0] * 48, "long_factor": [2.5] * 48}
    target = config(block, model_type="phi3", original_max_position_embeddings=2048)
    right = LongRope(short_factor=(1.0,) * 48, long_factor=(2.5,) * 48, original_max_position_embeddings=2048)
    assert rope_of(target).scaling == right
    assert names(target, "error") == set()


def test_f140_an_unknown_type_is_an_error_that_names_the_known_ones():
    target = config({"type": "spiral"})
    assert ropewalk.read(target).ropes == ()
    message = finding(target, "rope-type-unknown").message
    assert all(word in message for word in ("spiral", "linear", "yarn", "longrope", "llama3"))
    with pytest.raises(RopewalkError, match="spiral"):
        rope_of(target)


def test_f142_a_family_with_lists_reads_plain_without_a_block():
    target = {"model_type": "phi3", "hidden_size": 384, "num_attention_heads": 4, "rope_theta": 1e4}
    assert rope_of(target).scaling == Default()
    assert names(target) <= {"class-default"}


def test_f146_class_defaults_are_named_as_such():
    sources = ropewalk.read({"model_type": "glm", "head_dim": 96}).sources
    for value in ("rope_theta", "rotary_dim", "layers", "max_position_embeddings"):
        assert sources[f"text.{value}"] == "default of GlmConfig"
    assert {"theta-default", "class-default"} <= names({"model_type": "glm", "head_dim": 96})


def test_f147_chatglm_6b_has_two_positions_of_half_a_head_each():
    keys = {"model_type": "chatglm", "position_encoding_2d": True, "num_layers": 2}
    rope = rope_of({**keys, "hidden_size": 768, "num_attention_heads": 8})
    assert rope.axes == Ladders(widths=(48, 48), pairing_within="axis", names=("position", "block_position"))
    assert rope.pairing == "half"
    pairs = rope.pairs()
    assert pairs.inv_freq[1] == close(0.6812920691)
    assert pairs.inv_freq.tolist() == [*pairs.inv_freq[:24], *pairs.inv_freq[:24]]
    assert pairs.axis.tolist() == [0] * 24 + [1] * 24
    assert (pairs.second[0], pairs.first[24], pairs.second[24]) == (24, 48, 72)
