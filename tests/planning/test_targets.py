"""Which rope of a target is planned, what is refused, and what the plan says it leaves alone."""

import json
import math

import pytest

from ropewalk import Layer, Model, Rope, RopewalkError, read
from ropewalk.planning import extend
from ropewalk.planning.targets import choose, planned

CONFIG = {
    "model_type": "llama",
    "head_dim": 16,
    "num_hidden_layers": 2,
    "rope_theta": 10000,
    "max_position_embeddings": 128,
}


def rope(**changes):
    return Rope(**{"head_dim": 16, "rope_theta": 10000.0, "pairing": "half", "max_position_embeddings": 128, **changes})


def caveats(target, to, **given):
    return " ".join(extend(target, to, method="linear", **given).caveats)


@pytest.mark.parametrize("form", ["rope", "rope dict", "model", "config"])
def test_every_form_of_one_rope_gives_one_plan(form):
    targets = {"rope": rope(), "rope dict": rope().to_dict(), "model": read(CONFIG), "config": CONFIG}
    plan = extend(targets[form], 256)
    assert plan.rope == rope()
    assert [method.rope for method in plan.methods] == [method.rope for method in extend(rope(), 256).methods]


def test_of_local_and_global_layers_the_global_rope_is_planned():
    plan = extend("gemma-3-1b", 2**19, method="linear")
    assert plan.rope.rope_theta == 1e6
    assert plan.place == "text: layers 5, 11 … 23 (every 6)"
    assert "(sliding_attention) have a rope of their own and stay as they are" in " ".join(plan.caveats)


def test_a_layer_may_be_named_against_that():
    assert extend("gemma-3-1b", 2**19, method="linear", layer=0).rope.rope_theta == 1e4


def test_several_ropes_without_a_local_kind_are_listed():
    layers = tuple(Layer(ropes={"attention": rope(rope_theta=theta)}) for theta in (1e4, 5e5))
    with pytest.raises(RopewalkError, match=r"2 ropes \(layer 0: θ=10000, default; layer 1: θ=500000.*--layer N"):
        extend(Model(parts={"text": layers}), 256)


def test_settings_replace_the_chosen_rope_and_leave_the_pairs_of_the_others():
    chosen = choose("gemma-3-1b")
    model = planned(chosen, rope(max_position_embeddings=2**19))
    for before, after in zip(read("gemma-3-1b").layers, model.layers, strict=True):
        assert after.kind == before.kind
        assert after.rope.max_position_embeddings == 2**19  # a configuration has one
        local = before.kind == "sliding_attention"
        assert after.rope.pairs() == (before.rope.pairs() if local else rope().pairs())


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("gemma-2-9b", "share this rope"),
        ("smollm3-3b", "Layers 3, 7 … 35 (every 4) have no RoPE"),
        ("llama-4-scout", "temperature that grows with the position"),
        ("deepseek-v3", "MLA: this is the rope part of the head alone"),
        ("glm-5", "indexer"),
        ("qwen2-vl-7b", "M-RoPE: the plan counts text tokens"),
        ("phi-2", "32 of 80 channels of a head turn"),
        ("llama-2-7b", "max_position_embeddings"),
    ],
)
def test_what_the_plan_leaves_alone_is_said(target, words):
    assert words in caveats(target, 2**24)


def test_layers_that_are_all_local_gain_nothing():
    layers = tuple(Layer(ropes={"attention": rope()}, kind="chunked_attention") for _ in range(2))
    assert "every layer with rope has chunked attention" in caveats(Model(parts={"text": layers}), 256).lower()


def test_positions_beyond_float32_are_warned_of():
    assert "16,777,216" in caveats(rope(), 2**24 + 1)
    assert "16,777,216" not in caveats(rope(), 2**24)


def test_yarn_for_mla_goes_on_the_softmax_scale():
    yarn = extend("deepseek-v3", 2**19, method="yarn").method("yarn")
    g = 0.1 * math.log(2**19 / 4096) + 1
    assert yarn.magnitude == (pytest.approx(1.0), pytest.approx(g * g))


def test_yarn_for_an_unscaled_mla_model_takes_deepseeks_magnitudes():
    yarn = extend("glm-5", 2**20, method="yarn").method("yarn")
    scaling = yarn.rope.scaling
    assert (scaling.mscale, scaling.mscale_all_dim, scaling.scale_softmax) == (1.0, 1.0, True)
    assert yarn.magnitude.cos_sin_factor == 1.0


@pytest.mark.parametrize(
    ("target", "given", "words"),
    [
        ("chatglm-6b", {}, "position, block_position"),
        ("qwen2-vl-7b", {"part": "vision"}, "axes h, w"),
        ("gemma-3-4b", {"part": "vision"}, "has no RoPE"),
        ("llama-4-scout", {"layer": 3}, "layer 3 of part text has no RoPE"),
        ("llama-2-7b", {"layer": 32}, "layers 0 to 31, got layer 32"),
        ("llama-2-7b", {"layer": -1}, "layers 0 to 31, got layer -1"),
        ("llama-2-7b", {"part": "vision"}, "no part 'vision'"),
        (rope(), {"layer": 0}, "no parts and layers"),
        (rope(pairing="hybrid_tile"), {}, "no rotation"),
        (rope(max_position_embeddings=None), {}, "--trained N"),
        ({"model_type": "gpt2", "n_head": 12, "n_embd": 768}, {}, "learned absolute"),
        ("gemma-3-4b", {}, "already has linear scaling by 8"),
        (None, {}, "a target must be"),
        ("no-such-model", {}, "preset"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_reason(target, given, words):
    with pytest.raises(RopewalkError, match=words.replace("(", r"\(")):
        extend(target, 10**6, **given)


@pytest.mark.parametrize("to", [math.nan, math.inf, -math.inf, True, "256", None, 256.5, 0, -1, 2**53 + 2, 10**400])
def test_a_length_that_is_none_is_refused(to):
    with pytest.raises(RopewalkError, match="to must be"):
        extend(rope(), to)


@pytest.mark.parametrize("to", [1, 127, 128])
def test_a_length_within_the_trained_one_needs_no_plan(to):
    with pytest.raises(RopewalkError, match=f"got to={to} and 128 trained tokens"):
        extend(rope(), to)


@pytest.mark.parametrize("trained", [0, -1, math.nan, "128", 1.5])
def test_a_trained_length_that_is_none_is_refused(trained):
    with pytest.raises(RopewalkError, match="trained must be"):
        extend(rope(), 256, trained=trained)


@pytest.mark.parametrize("method", ["YARN", "", None, 1, "ntk-aware"])
def test_an_unknown_method_is_refused_with_the_list(method):
    with pytest.raises(RopewalkError, match="'all', 'untouched', 'linear', 'ntk', 'dynamic', 'yarn'"):
        extend(rope(), 256, method=method)


def test_a_single_method_that_cannot_be_planned_is_an_error():
    with pytest.raises(RopewalkError, match=r"longrope cannot be planned for a rope: .*search"):
        extend(rope(), 256, method="longrope")


@pytest.mark.parametrize("name", ["glm-5", "deepseek-v4-flash"])
def test_an_indexer_that_reads_the_same_keys_follows_and_the_settings_are_written(name):
    plan = extend(name, 4_194_304, method="yarn")
    assert set(plan.method("yarn").settings) >= {"transformers", "python"}
    (indexer,) = {
        layer.ropes["indexer"]
        for layer in read(json.loads(plan.method("yarn").settings["transformers"])).layers
        if "indexer" in layer.ropes
    }
    assert indexer.scaling == plan.method("yarn").rope.scaling
