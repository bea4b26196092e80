"""diffusers' transformers: images and videos, each axis with a ladder of its own; facts by class in diffusers.json.

An entry has ``source``; ``layers`` (keys whose sum is the number of blocks, with the class's defaults); ``defaults``
(of the keys of the head width); and one of three: ``positions`` (what it uses without RoPE), ``outside`` (why its
RoPE cannot be described), or ``theta`` with ``pairing``, ``names`` of the axes, and the widths under ``widths_key`` or
by the rule ``split``. ``toggle`` names the key that switches RoPE on; ``ntk_key`` one factor for each axis.
"""

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from .._checks import MAX_HEAD_DIM, MAX_LAYERS, shown
from ..axes import Ladders
from ..errors import RopewalkError
from ..rope import Rope
from ..scaling import Default, Ntk, Scaling
from ._reading import Reading, UnreadableError, View
from ._words import Part, model_of
from .model import Layer, Model

MAX_AXES = 16
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
        off = "toggle" in facts and not view.flag(facts["toggle"])
    except UnreadableError:
        return Part(name=PART, reading=reading, layers=_plain(view, facts))
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
        rope = _rope(view, facts, name)
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


def _rope(view: View, facts: Mapping[str, Any], name: str) -> Rope:
    reading = view.reading
    key = facts.get("theta_key", "rope_theta")
    theta = view.number(key, above=0) if "theta_key" in facts else None
    if theta is None:
        theta, fixed = float(facts["theta"]), "theta_key" not in facts
        kind = "a constant in the code of" if fixed else "the default of"
        reading.source("rope_theta", f"default of {name}")
        reading.find(
            "class-default" if fixed else "theta-default",
            key=view.key(key),
            seen="absent",
            right=f"{theta:g}, {kind} {name}",
            message=f"there is no {key}: {theta:g}, {kind} {name}, is taken.",
        )
    else:
        reading.source("rope_theta", view.key(key))
    width = _head_dim(view, facts, name)
    widths = _widths(view, facts, width, name)
    width = sum(widths) if width is None else width
    reading.source("pairing", f"default of {name}")
    if "position_note" in facts:
        reading.source("position_ids", facts["position_note"])
    names = tuple(facts.get("names", ("t", "h", "w")))
    if len(names) != len(widths):
        names = tuple(f"axis{number}" for number in range(len(widths)))
    try:
        return Rope(
            head_dim=width,
            rotary_dim=sum(widths),
            rope_theta=theta,
            pairing=facts["pairing"],
            scaling=_scaling(view, facts),
            axes=Ladders(widths=widths, pairing_within=facts.get("within", "axis"), names=names),
        )
    except RopewalkError as error:
        raise reading.fail(
            "scaling-impossible",
            key=facts.get("widths_key", "attention_head_dim"),
            seen=f"head {width}, axes {list(widths)}",
            right="values that fit together",
            message=f"the rope cannot be built: {error}",
        ) from error


def _head_dim(view: View, facts: Mapping[str, Any], name: str) -> int | None:
    """Give the width of a head: its own key, the quotient of two, or a default; None where only the axes tell it."""
    defaults: Mapping[str, int] = facts.get("defaults", {})
    own = view.whole("attention_head_dim", at_most=MAX_HEAD_DIM)
    if own is not None or not defaults:
        view.reading.source("head_dim", "attention_head_dim" if own is not None else facts.get("widths_key", ""))
        return own
    values = []
    for key, default in defaults.items():
        value = view.whole(key, at_most=2**40)
        if value is None:
            _note_default(view, key, default, name)
        values.append(default if value is None else value)
    stated = all(key in view for key in defaults)
    view.reading.source("head_dim", " / ".join(defaults) if stated else f"default of {name}")
    width = values[0] if len(values) == 1 else values[0] // values[1]
    if not 2 <= width <= MAX_HEAD_DIM:
        raise view.reading.fail(
            "width-too-large" if width > 2 else "value-unusable",
            key=" / ".join(defaults),
            seen=str(width),
            right=f"a head of 2 to {MAX_HEAD_DIM} channels",
            message=f"a head of {width} channels, from {' / '.join(defaults)}, cannot turn. Check these keys.",
        )
    return width


def _note_default(view: View, key: str, default: object, name: str) -> None:
    view.reading.find(
        "class-default",
        key=view.key(key),
        seen="absent",
        right=f"{default}, the default of {name}",
        message=f"there is no {key}: {default}, the default of {name}, is taken.",
    )


def _widths(view: View, facts: Mapping[str, Any], width: int | None, name: str) -> tuple[int, ...]:
    if "split" in facts:
        assert width is not None
        view.reading.source("axes", f"default of {name}")
        return _SPLITS[facts["split"]](width)
    key = facts["widths_key"]
    given = view.numbers(key, at_most=MAX_AXES, above=0)
    if given is None:
        view.reading.source("axes", f"default of {name}")
        _note_default(view, key, facts["widths"], name)
        return tuple(facts["widths"])
    view.reading.source("axes", view.key(key))
    odd = any(entry != int(entry) or entry % 2 for entry in given)
    total = math.fsum(given)
    if odd or total > (width or MAX_HEAD_DIM):
        raise view.reading.fail(
            "sections-sum",
            key=view.key(key),
            seen=f"{shown(list(given))}, sum {total:g}",
            right=f"even numbers of channels whose sum is at most {width or MAX_HEAD_DIM}",
            message=f"{key} must hold even numbers of channels that fit into a head of {width or MAX_HEAD_DIM}, got "
            f"{shown(list(given))}, sum {total:g}. Correct it or the head width.",
        )
    return tuple(int(entry) for entry in given)


# how classes that state no widths share a head among their axes
_SPLITS = {
    "sixths": lambda width: (width - 4 * (width // 6), 2 * (width // 6), 2 * (width // 6)),
    "quarter": lambda width: (width // 4, width // 8 * 3, width // 8 * 3),
    "thirds": lambda width: (width // 3,) * 3,
    "halves": lambda width: (width // 2,) * 2,
}


def _scaling(view: View, facts: Mapping[str, Any]) -> Scaling:
    """Give NTK-aware scaling with one factor for all axes; different factors for different axes are out of scope."""
    if "ntk_key" not in facts:
        return Default()
    key = facts["ntk_key"]
    given = view.numbers(key, at_most=MAX_AXES, above=0)
    factors = tuple(facts["ntk"]) if given is None else given
    view.reading.source("scaling", view.key(key) if given is not None else "default of the class")
    if len(set(factors)) > 1:
        raise view.reading.fail(
            "form-outside-scope",
            key=view.key(key),
            seen=shown(list(factors)),
            right="one factor for all axes",
            message=f"{key} = {shown(list(factors))} gives every axis a base of its own (θ·factor^(d/(d-2))), which a "
            "description with one base cannot hold. No rope is described.",
        )
    return Default() if factors[0] == 1 else Ntk(factor=factors[0])
