"""GGUF files: scaling, and the divisors that are fitted back to one."""

import math

import numpy as np
import pytest

from ropewalk import Rope, read
from ropewalk.scaling import Default, Linear, Llama3, LongRope, Ntk, Proportional, Yarn

gguf = pytest.importorskip("gguf")
from ._gguf import codes, llama3_divisors, named  # noqa: E402

# --- scaling ----------------------------------------------------------------------------------------------------------


def test_f145_no_scaling_type_is_unscaled(file):
    model = read(file())
    assert (model.rope.scaling, codes(model), model.sources["text.scaling"]) == (Default(), set(), "missing")


@pytest.mark.parametrize("key", ["rope__scaling__factor", "rope__scale_linear"])
def test_f141_a_factor_without_a_type_is_linear(file, key):
    assert read(file(**{key: 5.0})).rope.scaling == Linear(factor=5.0)


@pytest.mark.parametrize(
    "keys",
    [
        {"rope__scaling__type": "yarn", "rope__scaling__original_context_length": 1024},
        {"rope__scaling__type": "linear"},
        {"rope__scaling__type": "longrope"},
        {"rope__scaling__original_context_length": 1024},
    ],
)
def test_f141_a_lost_scale_is_reported(file, keys):
    (one,) = named(read(file(**keys)), "gguf-scale-lost")
    assert one.right == "unscaled, as llama.cpp turns it"


def test_f116_a_missing_base_is_never_filled_in_silence(file):
    model = read(file(rope__freq_base=None))
    assert model.rope.rope_theta == 10000.0 and "RW103" in codes(model)
    assert model.sources["text.rope_theta"].startswith("default of llama.cpp")


def test_yarn_with_everything(file):
    model = read(
        file(
            "mistral3",
            rope__scaling__type="yarn",
            rope__scaling__factor=16.0,
            context_length=262144,
            rope__scaling__original_context_length=16384,
            rope__scaling__yarn_beta_fast=24.0,
            rope__scaling__yarn_log_multiplier=1.0,
            attention__temperature_scale=0.1,
        )
    )
    assert model.rope.scaling == Yarn(
        factor=16.0, original_max_position_embeddings=16384, beta_fast=24.0, mscale=1.0, mscale_all_dim=1.0
    )
    assert (model.layers[0].query_scale.attn_scale, model.layers[0].query_scale.floor_scale) == (0.1, 16384.0)
    assert codes(model) == set()


def test_f136_a_factor_in_the_extrapolation_field(file):
    keys = {"rope__scaling__type": "yarn", "rope__scaling__factor": 24.0, "rope__scaling__original_context_length": 256}
    (one,) = named(read(file(**keys, rope__scaling__yarn_ext_factor=24.0)), "gguf-ext-factor")
    assert one.seen == "24"
    assert named(read(file(**keys, rope__scaling__yarn_ext_factor=1.0)), "gguf-ext-factor") == []


@pytest.mark.parametrize(
    ("name", "stored", "meant", "odd"),
    [
        ("deepseek2", 0.08, 0.8, False),
        ("mistral3", 0.8, 0.8, False),
        ("deepseek2", 0.8, 8.0, True),
        ("mistral3", 0.08, 0.08, True),
    ],
)
def test_f143_the_log_multiplier_is_scaled_by_architecture(file, name, stored, meant, odd):
    model = read(
        file(
            name,
            rope__scaling__type="yarn",
            rope__scaling__factor=8.0,
            rope__scaling__original_context_length=512,
            rope__scaling__yarn_log_multiplier=stored,
        )
    )
    assert model.rope.scaling.mscale_all_dim == pytest.approx(meant, rel=1e-12)
    assert bool(named(model, "gguf-log-multiplier")) is odd


@pytest.mark.parametrize("key", ["yarn_beta_fast", "yarn_attn_factor", "yarn_log_multiplier"])
def test_a_key_that_llama_cpp_does_not_read_is_taken_and_said(file, key):
    keys = {"rope__scaling__type": "yarn", "rope__scaling__factor": 8.0, "rope__scaling__original_context_length": 512}
    model = read(file("qwen3", **keys, **{f"rope__scaling__{key}": 1.5 if key != "yarn_beta_fast" else 16.0}))
    (one,) = named(model, "gguf-engine")
    assert "does not read this key for qwen3" in one.message


def test_a_magnitude_that_follows_from_the_factor_is_no_news(file):
    keys = {"rope__scaling__type": "yarn", "rope__scaling__factor": 8.0, "rope__scaling__original_context_length": 512}
    model = read(file("olmo2", **keys, rope__scaling__yarn_attn_factor=0.1 * math.log(8) + 1))
    assert model.rope.scaling.attention_factor == 0.1 * math.log(8) + 1
    assert codes(model) == set()


def test_gpt_oss_is_described_as_llama_cpp_turns_it(file):
    model = read(
        file(
            "gpt-oss",
            rope__freq_base=150000.0,
            rope__scaling__type="yarn",
            rope__scaling__factor=32.0,
            rope__scaling__original_context_length=4096,
            attention__sliding_window=128,
        )
    )
    assert {rope.scaling for rope in model.ropes} == {Yarn(factor=32.0, original_max_position_embeddings=4096)}
    assert named(model, "gguf-engine")


@pytest.mark.parametrize(
    ("kind", "alone", "message"),
    [("spiral", "RW101", "knows none, linear"), ("yarn", "RW109", "swapped")],
)
def test_scaling_that_cannot_be_described_leaves_no_rope(file, kind, alone, message):
    model = read(
        file(
            rope__scaling__type=kind,
            rope__scaling__factor=4.0,
            rope__scaling__original_context_length=512,
            rope__scaling__yarn_beta_fast=1.0,
            rope__scaling__yarn_beta_slow=32.0,
        )
    )
    assert model.ropes == ()
    assert [one.code for one in model.findings if one.severity == "error"] == [alone]
    assert message in next(one.message for one in model.findings if one.code == alone)


def test_f137_alpha_raises_the_base_where_the_architecture_reads_it(file):
    assert read(file("hunyuan_vl", rope__scaling__alpha=50.0)).rope.scaling == Ntk(factor=50.0)
    assert read(file("llama", rope__scaling__alpha=50.0)).rope.scaling == Default()


# --- divisors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "theta", "parameters"),
    [
        (128, 5e5, (8.0, 1.0, 4.0, 8192)),
        (64, 5e5, (32.0, 1.0, 4.0, 8192)),
        (96, 3e5, (16.0, 1.0, 4.0, 4096)),
        (128, 1.2e7, (8.0, 1.0, 4.0, 8192)),
        (80, 25e4, (6.0, 1.0, 3.0, 6144)),
        (128, 5e5, (4.0, 1.0, 8.0, 16384)),
    ],
)
def test_f144_llama3_is_fitted_back_from_its_divisors(file, width, theta, parameters):
    divisors = llama3_divisors(width, theta, *parameters)
    model = read(
        file(
            rope__freq_base=theta,
            attention__key_length=width,
            rope__dimension_count=width,
            tensors={"rope_freqs.weight": divisors},
        )
    )
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    assert model.rope.scaling == Llama3(**dict(zip(names, parameters, strict=True)))
    assert model.sources["text.scaling"] == "tensor rope_freqs.weight, fitted, llama3"
    assert codes(model) == {"RW178"}


def test_f144_llama4_step_is_fitted_back(file):
    plain = 5e5 ** (-np.arange(64) / 64)
    divisors = np.where(8192 * plain / (2 * math.pi) > 1, 1.0, 16.0)
    model = read(
        file(
            "llama4",
            rope__freq_base=5e5,
            attention__key_length=128,
            block_count=8,
            interleave_moe_layer_step=1,
            tensors={"rope_freqs.weight": divisors},
        )
    )
    assert {rope.scaling for rope in model.ropes} == {
        Llama3(factor=16.0, low_freq_factor=1.0, high_freq_factor=1.0, original_max_position_embeddings=8192)
    }


def test_f144_proportional_keeps_pairs_still(file):
    model = read(
        file(
            "gemma4",
            attention__key_length=512,
            attention__key_length_swa=256,
            rope__dimension_count=512,
            rope__dimension_count_swa=256,
            rope__freq_base=1e6,
            rope__freq_base_swa=1e4,
            attention__sliding_window=512,
            attention__sliding_window_pattern=[True, True, False, True],
            context_length=131072,
            tensors={"rope_freqs.weight": [1.0] * 64 + [1e30] * 192},
        )
    )
    full = Rope(
        head_dim=512,
        rope_theta=1e6,
        pairing="half",
        scaling=Proportional(partial_rotary_factor=0.25),
        max_position_embeddings=131072,
    )
    local = Rope(head_dim=256, rope_theta=1e4, pairing="half", max_position_embeddings=131072)
    assert [layer.rope for layer in model.layers] == [local, local, full, local]


def test_divisors_of_no_known_scaling_are_kept_as_a_table(file):
    divisors = np.linspace(1, 7, 64) ** 1.3
    model = read(file(tensors={"rope_freqs.weight": divisors}))
    stored = divisors.astype(np.float32).astype(np.float64)
    assert isinstance(model.rope.scaling, LongRope) and codes(model) == {"RW177"}
    for length in (1, 4096, 10**6):
        pairs = model.rope.pairs(length)
        np.testing.assert_allclose(pairs.inv_freq, 1e4 ** (-np.arange(64) / 64) / stored, rtol=1e-12)
        assert pairs.cos_sin_factor == 1.0


def test_a_magnitude_without_yarn_is_kept(file):
    pairs = read(
        file(rope__scaling__type="linear", rope__scaling__factor=4.0, rope__scaling__attn_factor=1.25)
    ).rope.pairs(5)
    assert pairs.cos_sin_factor == 1.25
    np.testing.assert_allclose(pairs.inv_freq, 1e4 ** (-np.arange(64) / 64) / 4, rtol=1e-12)


@pytest.mark.parametrize("values", [[1.0] * 63, [1.0] * 65, [0.0] * 64, [math.nan] * 64, [-1.0] * 64])
def test_divisors_that_do_not_fit_leave_no_rope(file, values):
    model = read(file(tensors={"rope_freqs.weight": values}))
    assert model.ropes == () and codes(model) <= {"RW106", "RW110"} and codes(model)
