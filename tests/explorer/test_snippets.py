"""Copy as: each form is run or parsed, and gives the rope that the page shows."""

import json
import shlex

import pytest

from ropewalk import Rope, preset_names, read
from ropewalk.explorer.app import get
from ropewalk.explorer.data import document
from ropewalk.explorer.snippets import all_of
from ropewalk.explorer.state import State

TYPED = [
    "",
    "d=7",
    "d=128&window=8192",
    "pairing=half&base=1",
    "d=64&pairing=half&scaling=linear&factor=8",
    "d=64&scaling=ntk&factor=2.5",
    "d=64&pairing=half&scaling=dynamic&original=2048&length=10000",
    "d=64&pairing=half&scaling=yarn&factor=40&beta_fast=16&truncate=0",
    "d=128&base=500000&pairing=half&scaling=llama3&factor=8&original=8192",
    "d=256&pairing=half&scaling=proportional&fraction=0.25",
]
PRESETS = [f"model={name}" for name in preset_names()]
QUERIES = [*TYPED, *PRESETS, "model=qwen3-vl-2b&part=vision", "model=gemma-3-4b&layer=5"]


def seen(query):
    state, messages = State.parse(query)
    assert messages == ()
    return document(state)


@pytest.mark.parametrize("query", QUERIES)
def test_python_builds_the_same_rope(query):
    page = seen(query)
    space: dict[str, object] = {}
    exec(all_of(page)["Python"].text, space)
    assert space["rope"] == page.rope
    assert isinstance(space["rope"], Rope)


@pytest.mark.parametrize("query", QUERIES)
def test_transformers_settings_read_as_the_same_rope(query):
    page = seen(query)
    for name in ("transformers", "MLX"):
        text = all_of(page)[name].text
        if text is None:
            continue  # the next test says where that is right
        again = read(json.loads(text)).rope
        for length in (None, 100_000) if page.rope.length_dependent else (None,):
            assert again.pairs(length) == page.rope.pairs(length)
        assert again.axes == page.rope.axes


SAID = {
    "": ("transformers", "vLLM", "llama.cpp", "MLX"),
    "d=7": (),
    "d=64&scaling=ntk&pairing=half": ("transformers", "vLLM", "llama.cpp", "MLX"),
    "d=64&pairing=half&scaling=dynamic&original=2048": ("transformers", "MLX"),
    "d=64&pairing=half&scaling=yarn&factor=40&truncate=0": ("transformers", "vLLM"),
    "model=llama-3.1-8b": ("transformers", "vLLM", "MLX"),
    "model=qwen2-vl-7b": ("transformers", "vLLM"),
    "model=gpt-neox-20b": ("transformers", "vLLM", "MLX"),
}


@pytest.mark.parametrize("query", SAID)
def test_settings_are_offered_only_where_they_say_the_rope_and_else_the_reason(query):
    forms = all_of(seen(query))
    engines = ("transformers", "vLLM", "llama.cpp", "MLX")
    assert tuple(name for name in engines if forms[name].text is not None) == SAID[query]
    for name in engines:
        assert bool(forms[name].text) != bool(forms[name].reason)


def test_the_page_says_why_an_engine_has_no_settings():
    status, text = get("/en/?d=64&pairing=half&scaling=dynamic&original=2048")
    assert status == 200 and "vLLM cannot say this rope:" in text
    assert "it has no dynamic scaling" in text
    assert get("/vi/?d=7")[1].count('class="unsaid"') == 4


@pytest.mark.parametrize("query", [*TYPED, "model=llama-3.1-8b&b.scaling=linear&m=-5&q=1,2"])
def test_the_command_answers_with_the_same_page(query):
    page = seen(query)
    words = shlex.split(all_of(page)["CLI"].text)
    assert words[:3] == ["ropewalk", "explore", "--get"]
    status, text = get(words[3].replace("/en/", "/en/.json", 1))
    assert (status, json.loads(text)) == (200, json.loads(json.dumps(page.to_dict())))
