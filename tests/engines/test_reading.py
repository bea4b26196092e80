"""One configuration as every engine reads it: groups, references, documents."""

import json

import pytest

from ropewalk import RopewalkError, read
from ropewalk.engines import ENGINES, read_engines

PLAIN = {
    "model_type": "llama",
    "head_dim": 64,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "rope_theta": 10000,
}
NTK = {**PLAIN, "rope_scaling": {"rope_type": "ntk", "factor": 4}}


def test_a_plain_configuration_is_read_alike():
    seen = read_engines(PLAIN)
    assert seen.equal
    (group,) = seen.groups
    assert [one.engine for one in group.readings] == [engine.name for engine in ENGINES]
    assert (group.place, group.reference) == ("text: layers 0-1", "transformers")
    assert group.readings[0].words == "the reference"
    assert {one.words for one in group.readings[1:]} == {"the same pairs"}


def test_every_rule_says_its_version_and_where_it_was_read():
    for engine in ENGINES:
        assert engine.version and engine.files and engine.verified in ("run", "read")


def test_where_transformers_refuses_ropewalk_is_the_reference():
    (group,) = read_engines(NTK).groups
    assert group.reference == "ropewalk"
    by_name = {one.engine: one for one in group.readings}
    assert by_name["transformers"].words == "does not load it: it has no rope_type 'ntk'"
    # F231: vLLM's formula at s 4, D 64: 4^(-2(i+1)/64) of the plain speed, ropewalk's 4^(-2i/62)
    row = by_name["vLLM"].result.first
    assert row.pair == 0 and row.ratio == pytest.approx(4 ** (-2 / 64), rel=1e-12)


def test_engines_that_refuse_are_no_difference_by_themselves():
    block = {"rope_type": "yarn", "factor": 12, "original_max_position_embeddings": 4096}
    seen = read_engines({**PLAIN, "max_position_embeddings": 49152, "rope_scaling": block})
    refused = [one.engine for one in seen.groups[0].readings if one.refused]
    assert (seen.equal, refused) == (True, ["onnxruntime-genai"])


def test_ropes_by_layer_type_are_groups():
    places = [group.place for group in read_engines("gemma-3-4b").groups]
    assert len(places) == 2 and places[1] == "text: layers 5, 11 … 29 (every 6)"


def test_the_language_model_alone_is_covered():
    for part in (None, "text"):
        assert [group.place for group in read_engines("qwen2-vl-7b", part=part).groups] == ["text: layers 0-27"]
    with pytest.raises(RopewalkError, match="not for 'vision'"):
        read_engines("qwen2-vl-7b", part="vision")


def test_a_magnitude_of_the_architecture_itself_is_left_to_every_engine():
    seen = read_engines("deepseek-v4-flash")
    factors = {one.pairs.cos_sin_factor for group in seen.groups for one in group.readings if one.pairs is not None}
    assert factors == {1.0}


def test_a_rope_and_a_model_are_written_as_keys_first():
    model = read({**PLAIN, "rope_scaling": {"rope_type": "linear", "factor": 5}})
    for target in (model, model.rope):
        seen = read_engines(target)
        assert seen.equal
        assert {one.pairs.inv_freq[0] for one in seen.groups[0].readings} == {0.2}


def test_a_reading_that_cannot_be_computed_is_said_of_that_engine_alone():
    # factor 1 needs no ramp, and a base of 1 has none: ln 1 = 0
    block = {
        "rope_type": "yarn",
        "factor": 1,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 4096,
    }
    by_name = {
        one.engine: one for one in read_engines({**PLAIN, "rope_theta": 1, "rope_scaling": block}).groups[0].readings
    }
    assert "cannot be computed" in by_name["onnxruntime-genai"].refused
    assert by_name["vLLM"].words == "the same pairs"


def test_what_cannot_be_read_is_an_error():
    with pytest.raises(RopewalkError, match="cannot be described whole"):
        read_engines({**PLAIN, "rope_scaling": {"rope_type": "spiral"}})
    with pytest.raises(RopewalkError, match="no RoPE for engines"):
        read_engines({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2})


def test_readings_are_one_json_document():
    document = json.loads(json.dumps(read_engines("gpt-oss-20b").to_dict(), allow_nan=False))
    assert (document["schema"], document["equal"]) == ("ropewalk.engines/1", False)
    (group,) = document["groups"]
    mlx = next(one for one in group["readings"] if one["engine"] == "mlx-lm")
    assert (mlx["differs"], mlx["version"], mlx["verified"]) == (True, "0.32.2", "run")
    assert mlx["files"] and mlx["pairs"]["schema"] == "ropewalk.pairs/1"


@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v4-flash", "chatglm-6b", "llama-4-scout", "qwen3-next-80b"])
def test_every_kind_of_preset_can_be_read_by_engines(name):
    assert read_engines(name).groups
