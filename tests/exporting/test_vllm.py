"""vLLM's overrides: the keys that its own get_rope takes, and what its rule makes of a model that they are put upon."""

import json
import shlex

import pytest

from ropewalk import export, preset_names, read
from ropewalk.engines import read_engines
from ropewalk.exporting import Refused
from ropewalk.models.targets import preset

from .ropes import PLAIN, ROPES

# what get_rope and the classes behind it take in 0.33.0; rope_parameters of a type are passed on whole
KEYS = {
    "default": {"mrope_section", "mrope_interleaved"},
    "linear": {"factor"},
    "ntk": {"factor"},
    "dynamic": {"factor", "alpha"},
    "yarn": {
        *("factor", "original_max_position_embeddings", "beta_fast", "beta_slow"),
        *("mscale", "mscale_all_dim", "attention_factor", "truncate", "llama_4_scaling_beta"),
    },
    "longrope": {
        *("short_factor", "long_factor", "original_max_position_embeddings", "short_mscale", "long_mscale"),
    },
    "llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
    "proportional": set(),
}
REFUSED = {
    "ntk-base": ("scaling",),
    "dynamic": ("scaling",),
    "proportional-factor": ("factor",),
    "tail": ("rotary_start",),
    "backwards": ("direction",),
    "odd": ("odd",),
    "tiled": ("pairing",),
    "alternating": ("axes",),
    "ladders": ("axes",),
}


def overrides_of(text):
    flag, value = shlex.split(text)
    assert flag == "--hf-overrides" and text.count("\n") == 1
    return json.loads(value)


def blocks_of(parameters):
    return list(parameters.values()) if "rope_type" not in parameters else [parameters]


def check_keys(parameters):
    for block in blocks_of(parameters):
        # the block replaces the model's own after all patching: base and type must be there
        extra = set(block) - {"rope_type", "rope_theta", "partial_rotary_factor"}
        assert {"rope_type", "rope_theta"} <= set(block) and extra <= KEYS[block["rope_type"]]


@pytest.mark.parametrize("name", ROPES)
def test_every_rope_is_said_in_keys_of_vllm_or_refused(name):
    if name in REFUSED:
        with pytest.raises(Refused) as caught:
            export(ROPES[name], "vllm")
        assert caught.value.lost == REFUSED[name]
        return
    found = overrides_of(export(ROPES[name], "vllm"))
    check_keys(found["rope_parameters"])
    assert found["rope_parameters"]["rope_theta"] == ROPES[name].rope_theta
    assert set(found) <= {"rope_parameters", "max_position_embeddings"}


@pytest.mark.parametrize("name", preset_names())
def test_overrides_upon_the_model_itself_change_nothing(name):
    try:
        found = overrides_of(export(name, "vllm"))
    except Refused as error:
        assert "chatglm" in name or "glm-4" in name
        assert "ChatGLM" in error.reason
        return
    config = json.loads(json.dumps(preset(name)["config"]))
    model = read(name)
    for key, value in found.items():  # as ModelConfig._apply_dict_overrides does
        if isinstance(value, dict) and isinstance(config.get(key), dict) and key.endswith("_config"):
            config[key] |= value
        elif key == "text_config":  # a flat file, which transformers itself nests
            config |= value
        else:
            config[key] = value
    inner = config.get("text_config", config)
    check_keys(inner["rope_parameters"])
    inner.pop("rope_scaling", None)
    inner.pop("rope_theta", None)
    assert [layer.ropes for layer in read(config).layers] == [layer.ropes for layer in model.layers]
    readings = [group.readings[1] for group in read_engines(config).groups]
    assert all(reading.engine == "vLLM" and not reading.differs for reading in readings)


def test_the_length_of_the_server_is_not_multiplied_twice():
    assert "max_position_embeddings" not in overrides_of(export(PLAIN["linear"], "vllm"))
    assert overrides_of(export(PLAIN["yarn"], "vllm"))["max_position_embeddings"] == 32768


def test_vllms_own_ntk_is_a_type_of_its_own():
    block = {"rope_type": "ntk", "rope_theta": 500000.0, "factor": 4.0}
    assert overrides_of(export(PLAIN["ntk-vllm"], "vllm"))["rope_parameters"] == block


def test_a_temperature_stays_in_the_block_that_is_replaced():
    assert overrides_of(export("ministral-3-8b", "vllm"))["rope_parameters"]["llama_4_scaling_beta"] == 0.1
