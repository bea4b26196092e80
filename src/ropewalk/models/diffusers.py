"""diffusers' transformers: images and videos, each axis with a ladder of its own; facts by class in diffusers.json.

An entry has ``source``; ``layers`` (keys whose sum is the number of blocks, with the class's defaults); ``defaults``
(of the keys of the head width); and one of three: ``positions`` (what it uses without RoPE), ``outside`` (why its
RoPE cannot be described), or ``theta``, ``pairing`` and what _diffusers_ropes reads. ``toggle`` names the key that
switches RoPE on, ``toggle_default`` what holds without that key.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from .._checks import MAX_LAYERS, shown
from ..errors import RopewalkError
from ._diffusers_ropes import rope_of
from ._reading import Reading, UnreadableError, View
from ._words import Part, model_of
from .model import Layer, Model

PART = "transformer"
# the class that keys give away where _class_name was left out
BY_KEY = {"use_rotary_positional_embeddings": "CogVideoXTransformer3DModel"}
UNHEARD = {
    "theta": 10_000,
    "pairing": "interleaved",
    "widths_key": "axes_dims_rope",
    "layers": {"num_layers": None, "num_single_layers": 0},
}


@cache
def classes() -> dict[str, dict[str, Any]]:
    """Give the facts about every class of diffusers that the table has."""
    return json.loads((files("ropewalk.models") / "diffusers.json").read_text(encoding="utf-8"))


def read_diffusers(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read the config.json of a diffusers transformer.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    Raises:
        RopewalkError: for the index of a pipeline, which describes no layers.

    >>> read_diffusers({"_class_name": "FluxTransformer2DModel", "num_layers": 1}).rope.axes.widths
    (16, 56, 56)
    """
    named = data.get("_class_name")
    name = named if isinstance(named, str) else next((BY_KEY[key] for key in BY_KEY if key in data), None)
    if name is not None and name.endswith("Pipeline"):
        raise RopewalkError(
            f"{target or 'this object'} is the index of a diffusers pipeline ({shown(name)}), which describes no "
            "layers. Give its directory, or transformer/config.json in it."
        )
    reading = Reading(PART)
    view = View(data, reading)
    facts = classes().get(name or "")
    if facts is None:
        part = _unheard_of(view, name)
    else:
        reading.source("class", "_class_name" if isinstance(named, str) else "told by the file's keys")
        part = _known(view, facts, name or "")
    return model_of([part], target=target, model_type=name)


def _unheard_of(view: View, name: str | None) -> Part:
    seen = shown(name) if name else "absent"
    if view.first(("axes_dims_rope",)) is None:
        view.reading.find(
            "positions-unknown",
            key="_class_name",
            seen=seen,
            right="a class of diffusers that ropewalk has facts about",
            message="the class is not known here and the file has no rope key, so whether it uses RoPE cannot be told.",
        )
        return Part(name=PART, reading=view.reading, layers=_plain(view, UNHEARD), positions="unknown")
    view.reading.find(
        "architecture-unknown",
        key="_class_name",
        seen=seen,
        right="a class of diffusers that ropewalk has facts about",
        message=f"the class {seen} is not known here: adjacent channels, independent ladders and base 10000 are "
        "assumed, as in Flux, where axes_dims_rope comes from. Compare with the class's own code.",
    )
    return _known(view, UNHEARD, name or "the class")


def _known(view: View, facts: Mapping[str, Any], name: str) -> Part:
    reading = view.reading
    try:
        flag = view.flag(facts["toggle"]) if "toggle" in facts else True
    except UnreadableError:
        return Part(name=PART, reading=reading, layers=_plain(view, facts))
    off = not (facts.get("toggle_default", False) if flag is None else flag)
    if off or ("positions" in facts and "toggle" not in facts):
        reading.source("rope", view.key(facts["toggle"]) if off and facts["toggle"] in view.data else name)
        return Part(name=PART, reading=reading, layers=_plain(view, facts), positions=facts["positions"])
    if "outside" in facts:
        reading.find(
            "form-outside-scope",
            key="_class_name",
            seen=name,
            right="ladders θ^(-2i/d), each driven by one axis",
            message=f"{name} uses RoPE of a form that cannot be described here: {facts['outside']}. No rope is "
            "described.",
        )
        return Part(name=PART, reading=reading, layers=_plain(view, facts))
    layers = _plain(view, facts)
    try:
        rope = rope_of(view, facts, name)
    except UnreadableError:
        return Part(name=PART, reading=reading, layers=layers)
    return Part(name=PART, reading=reading, layers=(Layer(ropes={"attention": rope}),) * len(layers))


def _plain(view: View, facts: Mapping[str, Any]) -> tuple[Layer, ...]:
    count, found = 0, []
    for key, default in facts["layers"].items():
        try:
            number = view.whole(key, at_least=0, at_most=MAX_LAYERS)
        except UnreadableError:
            continue
        if number is not None:
            found.append(key)
        count += default or 0 if number is None else number
    view.reading.source("layers", " + ".join(found) or "default of the class")
    if not found and count == 0:
        view.reading.find(
            "layers-unknown",
            key="num_layers",
            seen="no usable number",
            right="the number of layers",
            message="the file does not say how many layers there are; one is described, which stands for all.",
        )
    return (Layer(),) * min(max(count, 1), MAX_LAYERS)
