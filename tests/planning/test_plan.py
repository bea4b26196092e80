"""The plan as a whole: its data, its engines and its recommendation."""

import json

import pytest

import ropewalk
from ropewalk import Rope, read
from ropewalk.exporting import ENGINES
from ropewalk.planning import METHODS, extend
from ropewalk.planning.evidence import EVIDENCE


@pytest.fixture(scope="module")
def plan():
    return extend("smollm2-135m", 16384)


def support(plan, name):
    return {engine.engine: engine.support for engine in plan.method(name).engines}


def test_extend_is_public():
    assert ropewalk.extend is extend


def test_every_method_but_longrope_is_planned(plan):
    assert [method.name for method in plan.methods] == [name for name in METHODS if name != "longrope"]
    assert [refusal.name for refusal in plan.refused] == ["longrope"]


def test_every_pair_is_kept_blended_or_stretched_once(plan):
    for method in plan.methods:
        assert sorted(method.kept + method.blended + method.stretched) == list(range(32))


def test_a_plan_is_frozen(plan):
    with pytest.raises(AttributeError):
        plan.to = 5


def test_a_plan_writes_itself_as_json_without_nan(plan):
    data = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert data["schema"] == "ropewalk.plan/1"
    assert (data["trained"], data["to"], data["factor"]) == (8192, 16384, 2.0)
    for written, method in zip(data["methods"], plan.methods, strict=True):
        assert Rope.from_dict(written["rope"]) == method.rope
        assert written["evidence"] and written["sources"]
    assert data["refused"][0]["name"] == "longrope"
    assert data["bases"]["schema"] == "ropewalk.bases/1"


def test_one_method_stands_beside_untouched():
    plan = extend("smollm2-135m", 16384, method="yarn")
    assert [method.name for method in plan.methods] == ["untouched", "yarn"]
    assert [method.name for method in extend("smollm2-135m", 16384, method="untouched").methods] == ["untouched"]


def test_engines_read_linear_ntk_and_llama3_alike(plan):
    for name in ("untouched", "linear", "ntk", "llama3"):
        assert set(support(plan, name).values()) == {"yes"}


def test_dynamic_is_followed_by_transformers_and_mlx_alone(plan):
    assert support(plan, "dynamic") == {
        "transformers": "yes",
        "vLLM": "no",
        "SGLang": "differs",
        "llama.cpp": "no",
        "mlx-lm": "yes",
        "onnxruntime-genai": "no",
    }
    words = {engine.engine: engine.words for engine in plan.method("dynamic").engines}
    assert "do nothing" in words["vLLM"]
    assert "writes no scaling" in words["llama.cpp"]


def test_yarn_without_rounding_is_said_to_differ_where_engines_round():
    own = {
        "model_type": "gpt_oss",
        "head_dim": 64,
        "num_hidden_layers": 1,
        "rope_theta": 150000,
        "max_position_embeddings": 131072,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 32,
            "beta_fast": 32,
            "beta_slow": 1,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        },
    }
    plan = extend(own, 2**19, method="yarn")
    assert plan.method("yarn").rope.scaling.truncate is False
    assert {name: said for name, said in support(plan, "yarn").items() if said != "yes"} == {
        "llama.cpp": "differs",
        "mlx-lm": "differs",
    }


@pytest.mark.parametrize("name", ["linear", "ntk", "dynamic", "yarn", "llama3"])
def test_settings_for_transformers_are_read_back_as_the_method(plan, name):
    method = plan.method(name)
    assert read(json.loads(method.settings["transformers"])).rope == method.rope


def test_settings_of_a_model_with_local_layers_read_back_with_both_ropes():
    method = extend("gemma-3-1b", 2**19, method="yarn").method("yarn")
    back = read(json.loads(method.settings["transformers"]))
    assert back.layers[5].rope.pairs() == method.rope.pairs()
    assert back.layers[0].rope.pairs() == read("gemma-3-1b").layers[0].rope.pairs()


def test_an_engine_that_cannot_say_a_method_gets_a_reason_instead_of_settings(plan):
    dynamic = plan.method("dynamic")
    assert {"vllm", "llama.cpp", "gguf"} <= set(dynamic.unwritten)
    assert set(dynamic.settings).isdisjoint(dynamic.unwritten)
    assert set(dynamic.settings) | set(dynamic.unwritten) == set(ENGINES)
    assert "no dynamic scaling" in dynamic.unwritten["llama.cpp"]


def test_a_bare_rope_has_settings_too():
    rope = Rope(head_dim=64, rope_theta=10000.0, pairing="half", max_position_embeddings=2048)
    text = extend(rope, 4096, method="linear").method("linear").settings["llama.cpp"]
    assert text.split() == ["--rope-scaling", "linear", "--rope-scale", "2", "--rope-freq-base", "10000"]


def test_an_unscaled_model_is_recommended_dynamic_and_with_training_yarn(plan):
    advice = plan.recommendation
    assert (advice.method, advice.trained) == ("dynamic", "yarn")
    assert "ropewalk extend … --measure FILE" in advice.evidence


def test_where_dynamic_does_not_exist_yarn_is_recommended():
    rope = Rope(head_dim=2, rope_theta=10000.0, pairing="half", max_position_embeddings=64)
    assert extend(rope, 128).recommendation.method == "yarn"


def test_every_method_has_evidence_with_a_source():
    assert set(EVIDENCE) == set(METHODS)
    assert all(one.words and one.sources for one in EVIDENCE.values())
