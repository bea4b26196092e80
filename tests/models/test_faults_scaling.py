"""Faults seen in the wild: what a declared scaling does to frequencies and magnitudes.

Each test carries the id of its fault and numbers worked out beside the library.
"""

import math

import numpy as np
import pytest

import ropewalk
from ropewalk.models.model import QueryScale
from ropewalk.scaling import Dynamic, Ntk, Yarn

from ._faults import LLAMA3, RTOL, close, config, divisors, dynamic, finding, inv_freq, longrope, names, rope_of, yarn

# --- YaRN: lengths, factors, magnitudes


def test_f130_the_stated_factor_wins_and_the_ratio_is_reported():
    target = yarn({"factor": 6, "original_max_position_embeddings": 20000}, max_position_embeddings=30000)
    assert rope_of(target).scaling.factor == 6
    assert "1.5" in finding(target, "factor-ratio").message


def test_f131_an_original_length_says_where_it_comes_from():
    inside = yarn({"original_max_position_embeddings": 4096})
    outside = {**inside, "original_max_position_embeddings": 8192}
    absent = config({"rope_type": "yarn", "factor": 12}, max_position_embeddings=8192)
    origins = [ropewalk.read(one).sources["text.original_max_position_embeddings"] for one in (inside, outside, absent)]
    lengths = [rope_of(one).scaling.original_max_position_embeddings for one in (inside, outside, absent)]
    key = "original_max_position_embeddings"
    assert origins == [f"rope_parameters.{key}", key, "max_position_embeddings"]
    assert lengths == [4096, 8192, 8192]
    assert {"original-length-conflict"} <= names(outside, "warning")
    assert {"original-length-default"} <= names(absent, "warning")


def test_f131_a_class_default_of_the_original_length_is_named():
    block = {"rope_type": "longrope", "short_factor": [1] * 48, "long_factor": [2] * 48}
    model = ropewalk.read(config(block, model_type="phi3", max_position_embeddings=131072))
    assert model.rope.scaling.original_max_position_embeddings == 4096
    assert model.sources["text.original_max_position_embeddings"] == "default of Phi3Config"
    notes = [one for one in model.findings if one.name == "class-default"]
    assert any("4096" in one.right and "original_max_position_embeddings" in one.where for one in notes)


def test_f132_the_ramp_uses_the_original_length():
    rope = rope_of(yarn())
    assert rope.scaling.bounds(250000, 80) == (11, 23)
    longer = Yarn(factor=12, original_max_position_embeddings=73728)
    assert longer.bounds(250000, 80) == (19, 31)
    stretched = rope.replace(scaling=longer).pairs().inv_freq[23]
    assert stretched / rope.pairs().inv_freq[23] == close(8.333333333333334)


@pytest.mark.parametrize("spelled", ["deepseek_yarn", "telechat3-yarn"])
def test_f133_the_context_of_a_vendors_yarn_is_not_multiplied_again(spelled):
    target = yarn(
        {"rope_type": spelled, "factor": 5, "original_max_position_embeddings": 4096}, max_position_embeddings=20480
    )
    rope = rope_of(target)
    assert (rope.max_position_embeddings, rope.scaling.factor) == (20480, 5)
    assert names(target, "warning") == set()
    magnitude = 0.07 * math.log(5) + 1 if spelled.startswith("tele") else 0.1 * math.log(5) + 1
    assert rope.pairs().cos_sin_factor == close(magnitude)


def test_f135_attn_factor_gives_both_readings():
    target = yarn({"factor": 6, "attn_factor": 0.8480498627958061}, max_position_embeddings=36864)
    assert rope_of(target).pairs().cos_sin_factor == close(1.179175947)
    message = finding(target, "attn-factor").message
    assert "1.17917595" in message
    assert "(1)" in message


# --- scaling, as a file declares it


def test_f201_f204_declared_llama3_bands_are_there():
    rope = rope_of(config(LLAMA3))
    right = [1.228669046, 1.760351773, 2.638197642, 4.278988540, 8.200951039]
    found = divisors(rope)
    assert found[20:25].tolist() == close(right)
    assert found[:20].tolist() == close([1.0] * 20)
    assert found[25:].tolist() == close([16.0] * 23)
    speeds = rope.pairs().inv_freq
    assert (speeds[20], speeds[24]) == (close(4.250413936e-3), close(2.226256259e-4))


def test_f205_equal_bands_are_a_step():
    target = config({**LLAMA3, "high_freq_factor": 1})
    assert "ramp-empty" in names(target, "warning")
    found = divisors(rope_of(target))
    assert found.tolist() == close([1.0] * 25 + [16.0] * 23)


@pytest.mark.parametrize(
    ("block", "bounds", "speed"),
    [
        ({}, (11, 23), 1.715925148e-4),
        ({"truncate": True}, (11, 23), 1.715925148e-4),
        ({"truncate": False}, (11.00509719, 22.15861113), 1.035309897e-4),
    ],
    ids=["default", "true", "false"],
)
def test_f206_bounds_are_rounded_unless_truncate_is_false(block, bounds, speed):
    rope = rope_of(yarn(block))
    assert rope.scaling.bounds(250000, 80) == close(bounds)
    assert rope.pairs().inv_freq[22] == close(speed)
    assert rope.pairs().cos_sin_factor == close(1.248490665)


def test_f207_the_upper_bound_may_lie_past_the_last_pair():
    block = {"factor": 6, "original_max_position_embeddings": 65536}
    rope = rope_of(yarn(block, head_dim=48, theta=5000, max_position_embeddings=393216))
    assert rope.scaling.bounds(5000, 48) == (16, 27)
    assert divisors(rope)[23] < 6


def test_f209_swapped_betas_are_an_error():
    target = yarn({"beta_fast": 1, "beta_slow": 32})
    assert ropewalk.read(target).ropes == ()
    assert "swapped" in finding(target, "betas-swapped").message


def test_f210_a_lower_bound_of_zero_is_fine():
    block = {"factor": 4, "original_max_position_embeddings": 200}
    target = yarn(block, head_dim=48, theta=20000, max_position_embeddings=800)
    assert rope_of(target).scaling.bounds(20000, 48) == (0, 9)
    assert names(target) == set()


def test_f210_equal_betas_of_kimi_k2_make_a_step():
    block = {"factor": 32, "original_max_position_embeddings": 4096, "beta_fast": 1, "beta_slow": 1}
    keys = {"model_type": "kimi_k2", "qk_rope_head_dim": 64, "max_position_embeddings": 131072}
    rope = rope_of(yarn({**block, "mscale": 1, "mscale_all_dim": 1}, head_dim=None, theta=5e4, **keys))
    assert divisors(rope).tolist() == close([1.0] * 20 + [32.0] * 12)


def test_f211_f212_fast_pairs_are_kept_and_slow_ones_divided():
    assert inv_freq(yarn())[1] == close(0.7329114386)
    found = divisors(rope_of(yarn()))
    assert found[[0, 10, 15, 20, 25, 39]].tolist() == close([1, 1, 1.44, 3.2, 12, 12])


@pytest.mark.parametrize(
    ("block", "cos_sin", "softmax"),
    [
        ({"factor": 20, "mscale": 1.0, "mscale_all_dim": 0.5}, 1.130273402, 1.322009257),
        ({"factor": 25, "mscale": 0.8, "mscale_all_dim": 0.8}, 1.0, 1.581331566),
    ],
    ids=["f213", "f214"],
)
def test_f213_f214_mla_has_a_magnitude_on_cos_and_sin_and_one_on_the_softmax(block, cos_sin, softmax):
    keys = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64}
    length = 4096 * block["factor"]
    target = yarn({**block, "original_max_position_embeddings": 4096}, max_position_embeddings=length, **keys)
    pairs = rope_of(target).pairs()
    assert (pairs.cos_sin_factor, pairs.softmax_factor) == (close(cos_sin), close(softmax))
    assert names(target) == set()


def test_f216_an_equal_pair_outside_mla_is_reported_with_both_values():
    target = yarn({"mscale": 1.0, "mscale_all_dim": 1.0})
    pairs = rope_of(target).pairs()
    assert (pairs.cos_sin_factor, pairs.softmax_factor) == (1.0, 1.0)
    one = finding(target, "mscale-inert")
    assert one.right.startswith("1 ")
    assert "1.24849066" in one.message


@pytest.mark.parametrize("block", [{"mscale": 0.8}, {"mscale": 0.8, "mscale_all_dim": 0}], ids=str)
def test_f216_a_lone_mscale_is_reported_with_both_values(block):
    assert rope_of(yarn(block)).pairs().cos_sin_factor == close(1.248490665)
    message = finding(yarn(block), "engines-mscale").message
    assert "1.24849066" in message
    assert "0.8" in message


def test_f217_an_explicit_magnitude_is_taken_verbatim():
    block = {"factor": 50, "attention_factor": 1.0}
    target = yarn(block, max_position_embeddings=307200)
    assert rope_of(target).pairs().cos_sin_factor == 1.0
    assert "1.3912" in finding(target, "engines-attention-factor").message


@pytest.mark.parametrize(
    ("length", "theta"),
    [(10, 5e4), (3072, 5e4), (3073, 50049.86754), (4500, 121971.6882), (7000, 250042.6554), (15000, 667504.9284)],
)
def test_f218_f219_the_base_of_dynamic_ntk_follows_the_length(length, theta):
    rope = rope_of(dynamic())
    assert rope.scaling == Dynamic(factor=3)
    right = theta ** (-np.arange(48) / 48)
    np.testing.assert_allclose(rope.pairs(length).inv_freq, right, rtol=RTOL)


def test_f218_an_original_length_plays_no_part_in_dynamic_ntk():
    target = dynamic()
    target["rope_parameters"]["original_max_position_embeddings"] = 1024
    assert rope_of(target) == rope_of(dynamic())
    assert "key-unused" in names(target, "warning")


def test_f221_positions_are_not_multiplied():
    target = config({"rope_type": "dynamic", "factor": 6})
    assert 7 * inv_freq(target)[0] == 7.0


@pytest.mark.parametrize(("length", "speed"), [(10, 1.0), (3072, 1.0), (3073, 0.4)])
def test_f223_f224_longrope_is_short_up_to_the_original_length(length, speed):
    pairs = rope_of(longrope()).pairs(length)
    assert pairs.inv_freq[0] == speed
    assert pairs.cos_sin_factor == close(1.159859982)


def test_f226_linear_stays_linear_at_any_length():
    target = config({"rope_type": "linear", "factor": 5})
    assert inv_freq(target, 3 * 4096).tolist() == inv_freq(target).tolist()
    assert inv_freq(target).tolist() == close((inv_freq(config()) / 5).tolist())


def test_f228_query_temperatures_are_a_field_of_the_layer():
    llama4 = ropewalk.read(config(model_type="llama4_text", num_hidden_layers=4, head_dim=128)).layers
    assert [layer.query_scale for layer in llama4[:3]] == [None] * 3
    scale = llama4[3].query_scale
    assert scale == QueryScale(attn_scale=0.1, floor_scale=8192, offset=1)
    steps = math.floor((20000 + scale.offset) / scale.floor_scale)
    assert 1 + scale.attn_scale * math.log1p(steps) == close(1.109861229)
    ministral = ropewalk.read(yarn({"llama_4_scaling_beta": 0.1}, model_type="ministral3")).layers
    assert {layer.query_scale for layer in ministral} == {QueryScale(attn_scale=0.1, floor_scale=6144, offset=0)}


def test_f230_the_factor_of_proportional_divides_the_pairs_that_turn():
    block = {"rope_type": "proportional", "partial_rotary_factor": 0.3}
    keys = {"head_dim": 160, "theta": 2e5}
    plain, divided = inv_freq(config(block, **keys)), inv_freq(config({**block, "factor": 4}, **keys))
    assert divided.tolist() == close((plain / 4).tolist())
    assert np.count_nonzero(divided) == 24


def test_f231_the_name_ntk_is_reported_as_several_formulas():
    target = config({"rope_type": "ntk", "factor": 5}, theta=5e4)
    rope = rope_of(target)
    assert rope.scaling == Ntk(factor=5, method="aware")
    vllm = rope.replace(scaling=Ntk(factor=5, method="vllm")).pairs().inv_freq / rope.pairs().inv_freq
    assert (vllm[0], vllm[-1]) == (close(0.9670259421), close(1.0))
    assert "vLLM" in finding(target, "engines-ntk").message


@pytest.mark.parametrize(
    ("block", "magnitude"),
    [({}, 1.159859982), ({"factor": 8}, 1.122032256), ({"attention_factor": 1.0}, 1.0)],
    ids=["ratio of lengths", "factor", "attention_factor"],
)
def test_f232_magnitude_of_longrope_takes_what_is_stated_first(block, magnitude):
    assert rope_of(longrope(**block)).pairs().cos_sin_factor == close(magnitude)


def test_f232_short_and_long_magnitudes_are_separate():
    rope = rope_of(longrope(short_mscale=1.1, long_mscale=1.3))
    assert (rope.pairs(3072).cos_sin_factor, rope.pairs(3073).cos_sin_factor) == (1.1, 1.3)
