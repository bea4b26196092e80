"""export(): what it takes, what it refuses with which words, and that what comes out says the same as what went in."""

import json

import pytest

import ropewalk
from ropewalk import Layer, Model, Rope, RopewalkError, export, preset_names, read
from ropewalk.exporting import ENGINES, Refused, settings
from ropewalk.exporting._ggml import Parameters
from ropewalk.scaling import Linear, Yarn

from .ropes import PLAIN, ROPES

NESTED = {
    "model_type": "gemma3_text",
    "num_hidden_layers": 12,
    "head_dim": 64,
    "rope_parameters": {
        "full_attention": {
            **{"rope_type": "yarn", "rope_theta": 1e6, "factor": 8.0, "truncate": False},
            "original_max_position_embeddings": 4096,
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}


def test_it_is_public():
    assert ropewalk.export is export and "export" in ropewalk.__all__
    assert ENGINES == ("transformers", "transformers-v4", "vllm", "llama.cpp", "gguf", "mlx", "python")


@pytest.mark.parametrize("name", ROPES)
def test_python_builds_the_rope(name):
    space = {}
    exec(export(ROPES[name], "python"), space)
    assert space["rope"] == ROPES[name]


@pytest.mark.parametrize("name", preset_names())
def test_python_builds_every_rope_of_a_preset(name):
    space = {}
    exec(export(name, "python"), space)
    found = [space["rope"]] if "rope" in space else list(space["ropes"].values())
    layers = read(name).layers
    assert found == list(dict.fromkeys(rope for layer in layers for rope in layer.ropes.values()))


@pytest.mark.parametrize("engine", ["transformers", "transformers-v4", "mlx"])
@pytest.mark.parametrize("name", preset_names())
def test_a_model_written_and_read_is_the_same_layer_by_layer(name, engine):
    model = read(name)
    try:
        again = read(json.loads(export(model, engine)))
    except Refused:
        return
    carried = again.model_type != model.model_type  # under another class, which reads the one rope alike
    wanted = [layer for layer in model.layers if layer.ropes][:1] if carried else list(model.layers)
    assert len(again.layers) == len(wanted) or carried
    for one, other in zip(wanted, again.layers, strict=not carried):
        for use, rope in one.ropes.items():
            found = other.ropes[use]
            if rope.max_position_embeddings is None:
                found = found.replace(max_position_embeddings=None)
            assert found == rope
        assert (one.query_scale, one.output_inverse) == (other.query_scale, other.output_inverse) or carried


@pytest.mark.parametrize("engine", ENGINES)
def test_settings_end_in_a_line_break_and_name_the_version(engine):
    found = settings(PLAIN["default"], engine)
    assert found.text == export(PLAIN["default"], engine)
    assert found.text.endswith("\n") and not found.text.endswith("\n\n")
    assert found.engine == engine and found.version.split()[-1] in found.notes[0]


def test_a_nested_truncate_is_refused_by_transformers_and_said_by_vllm():
    """transformers 5.24 reads truncate outside the block of a layer type only."""
    for engine in ("transformers", "transformers-v4"):
        with pytest.raises(Refused, match="truncate"):
            export(NESTED, engine)
    assert '"truncate": false' in export(NESTED, "vllm")
    flat = {**NESTED, "model_type": "llama", "rope_parameters": NESTED["rope_parameters"]["full_attention"]}
    assert '"truncate": false' in export(flat, "transformers")


def test_a_refusal_lists_what_would_be_lost():
    with pytest.raises(Refused) as caught:
        export("gpt-oss-20b", "mlx")
    assert caught.value.lost == ("truncate",) and caught.value.engine == "mlx"
    assert str(caught.value) == "mlx cannot say this: ignores truncate and rounds. Lost: truncate."


def test_the_layers_of_one_type_must_share_a_rope():
    slow, fast = (Rope(head_dim=64, rope_theta=theta, pairing="half") for theta in (1e4, 1e6))
    layers = (Layer(ropes={"attention": slow}), Layer(ropes={"attention": fast}))
    model = Model(parts={"text": layers}, model_type="llama")
    for engine in ("transformers", "vllm", "mlx", "gguf", "llama.cpp"):
        with pytest.raises(Refused):
            export(model, engine)
    assert "ropes = {" in export(model, "python")


def test_a_constant_of_the_code_is_no_setting():
    rope = Rope(head_dim=256, rotary_dim=64, rope_theta=5e4, pairing="interleaved", max_position_embeddings=2048)
    model = Model(parts={"text": (Layer(ropes={"attention": rope}),)}, model_type="gptj")
    with pytest.raises(Refused, match="a constant of its code") as caught:
        export(model, "transformers")
    assert caught.value.lost == ("rope_theta",)


def test_a_class_that_turns_whole_heads_gets_no_part():
    rope = Rope(head_dim=128, rotary_dim=64, rope_theta=1e4, pairing="half", max_position_embeddings=2048)
    model = Model(parts={"text": (Layer(ropes={"attention": rope}),)}, model_type="llama")
    with pytest.raises(Refused, match="turns whole heads") as caught:
        export(model, "transformers")
    assert caught.value.lost == ("rotary_dim",)
    assert json.loads(export(rope, "transformers"))["model_type"] == "glm4_moe"  # a bare rope goes to a class that can


def test_an_extended_rope_of_a_model_keeps_its_place_in_the_configuration():
    model = read("gemma-3-4b")
    longer = {rope: rope.replace(scaling=Linear(factor=16.0)) for rope in model.ropes if rope.rope_theta == 1e6}
    layers = tuple(
        Layer(ropes={"attention": longer.get(layer.rope, layer.rope)}, kind=layer.kind) for layer in model.layers
    )
    found = json.loads(export(Model(parts={"text": layers}, model_type="gemma3"), "transformers"))
    assert found["text_config"]["rope_parameters"]["full_attention"]["factor"] == 16.0


def test_parts_layers_and_engines_that_are_not_there_are_named():
    with pytest.raises(RopewalkError, match="no parts and layers"):
        export(PLAIN["default"], "vllm", layer=0)
    with pytest.raises(RopewalkError, match="it has text"):
        export("llama-2-7b", "vllm", part="vision")
    with pytest.raises(RopewalkError, match="layers 0 to 31, got layer 32"):
        export("llama-2-7b", "vllm", layer=32)
    with pytest.raises(RopewalkError, match=r"layer 3 .* has no RoPE"):
        export("smollm3-3b", "vllm", layer=3)
    with pytest.raises(RopewalkError, match="engine must be one of"):
        export("llama-2-7b", "tgi")
    with pytest.raises(RopewalkError, match=r"has no RoPE \(learned absolute\)"):
        export({"model_type": "bert", "num_hidden_layers": 2}, "vllm")
    with pytest.raises(RopewalkError, match="cannot be described whole"):
        export({"model_type": "llama", "num_hidden_layers": 2, "rope_theta": "fast", "head_dim": 64}, "vllm")


def test_a_composite_whose_text_part_may_be_anything_gives_its_one_rope():
    inner = {"model_type": "mistral", "head_dim": 64, "num_hidden_layers": 2, "rope_theta": 5e5}
    config = {"model_type": "llava", "text_config": {**inner, "max_position_embeddings": 4096}}
    found = json.loads(export(config, "transformers"))
    assert (found["model_type"], read(found).rope) == ("llama", read(config).layers[0].rope)


def test_layers_named_by_number_are_written_by_number():
    inner = {"model_type": "mllama_text_model", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 4}
    inner |= {"cross_attention_layers": [1], "rope_theta": 5e5, "max_position_embeddings": 4096}
    model = read({"model_type": "mllama", "text_config": inner})
    found = json.loads(export(model, "transformers"))
    assert found["text_config"]["cross_attention_layers"] == [1]
    assert [bool(layer.ropes) for layer in read(found).layers] == [True, False, True, True]


def test_a_vision_part_is_python_and_no_engines():
    text = export("qwen2-vl-7b", "python", part="vision")
    assert "'kind': 'ladders'" in text
    for engine in ("transformers", "vllm", "mlx", "llama.cpp", "gguf"):
        with pytest.raises(Refused):
            export("qwen2-vl-7b", engine, part="vision")


def test_what_an_engine_would_compute_otherwise_is_never_shown(monkeypatch):
    """The guard itself: settings that come out wrong are refused, whoever wrote them."""
    from ropewalk.exporting import _llama, _writing

    monkeypatch.setattr(_llama, "_short", lambda number: f"{number * 1.001:.9g}")
    with pytest.raises(Refused, match="other numbers"):
        export(PLAIN["linear"], "llama.cpp")
    monkeypatch.undo()
    monkeypatch.setattr(_writing, "scaling_to_dict", lambda scaling: {"rope_type": "linear", "factor": 3.0})
    for engine in ("transformers", "vllm", "mlx"):
        with pytest.raises(Refused) as caught:
            export(PLAIN["linear"], engine)
        assert caught.value.lost == ("factor",)


def test_a_yarn_of_factor_1_keeps_every_pair_in_ggml():
    found = Parameters(n_dims=64, freq_base=1e4, scaling="yarn", orig_ctx=4096).turning()
    assert found.cos_sin_factor == 1 and found.inv_freq[0] == 1
    rope = Rope(
        head_dim=64,
        rope_theta=1e4,
        pairing="half",
        scaling=Yarn(factor=1.0, **{"original_max_position_embeddings": 4096}),
    )
    assert "yarn" in export(rope, "llama.cpp")
