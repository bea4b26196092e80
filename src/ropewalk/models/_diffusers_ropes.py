"""The rope of a diffusers class, from the facts about it in diffusers.json and the keys of its file.

The axes are told in one of five ways. ``widths_key`` holds the channels of each axis, ``widths`` their default;
``split`` names the rule that shares a head; ``pairs_key`` holds how many pairs every axis has, ``pairs`` the default.
These are ladders: ``within``, ``arrangement``, ``names`` and ``order`` are those of Ladders. ``sections_keys`` are the
places of an interleaved M-RoPE's sections. ``axes`` is "single" for one axis, of which ``rotary_key`` channels turn
(``rotary`` the default), or the head's share 1 / ``rotary_divisor``. ``ntk_key`` holds a factor for each axis;
``longrope`` the default lengths of two lists in rope_scaling.
"""

import math
from collections.abc import Mapping
from typing import Any

from .._checks import MAX_HEAD_DIM, MAX_POSITION, shown
from ..axes import Axes, Ladders, Sections, Single
from ..errors import RopewalkError
from ..rope import Rope
from ..scaling import Default, Ntk, Scaling
from ._block import Block
from ._longrope import longrope
from ._reading import View
from ._ropes import note_realised
from ._words import Translated

MAX_AXES = 16


def rope_of(view: View, facts: Mapping[str, Any], name: str) -> Rope:
    """Build the rope of a class, or raise UnreadableError with an error finding.

    Args:
        view: the file.
        facts: the class's entry of diffusers.json.
        name: of the class.
    """
    theta = _theta(view, facts, name)
    width = _head_dim(view, facts, name)
    given = _given(view, facts, width, name)
    view.reading.source("pairing", f"default of {name}")
    if "position_note" in facts:
        view.reading.source("position_ids", facts["position_note"])
    scaling, longest = _scaling(view, facts, theta, sum(given), name)
    head = sum(given) if width is None else width
    try:
        return Rope(
            head_dim=head,
            rotary_dim=sum(given),
            rope_theta=theta,
            pairing=facts["pairing"],
            scaling=scaling,
            axes=_axes(view, facts, given),
            max_position_embeddings=longest,
        )
    except RopewalkError as error:
        raise view.reading.fail(
            "scaling-impossible",
            key=facts.get("widths_key", "attention_head_dim"),
            seen=f"head {head}, axes {list(given)}",
            right="values that fit together",
            message=f"the rope cannot be built: {error}",
        ) from error


def _theta(view: View, facts: Mapping[str, Any], name: str) -> float:
    key = facts.get("theta_key", "rope_theta")
    theta = view.number(key, above=0) if "theta_key" in facts else None
    if theta is not None:
        view.reading.source("rope_theta", view.key(key))
        return theta
    theta, fixed = float(facts["theta"]), "theta_key" not in facts
    kind = "a constant in the code of" if fixed else "the default of"
    view.reading.source("rope_theta", f"default of {name}")
    view.reading.find(
        "class-default" if fixed else "theta-default",
        key=view.key(key),
        seen="absent",
        right=f"{theta:g}, {kind} {name}",
        message=f"there is no {key}: {theta:g}, {kind} {name}, is taken.",
    )
    return theta


def _head_dim(view: View, facts: Mapping[str, Any], name: str) -> int | None:
    """Give the width of a head: its own key, the quotient of two, or a default; None where only the axes tell it."""
    defaults: Mapping[str, int] = facts.get("defaults", {})
    own = view.whole("attention_head_dim", at_most=MAX_HEAD_DIM)
    if own is not None or not defaults:
        view.reading.source("head_dim", "attention_head_dim" if own is not None else facts.get("widths_key", ""))
        return own
    values = [_default_whole(view, key, default, name) for key, default in defaults.items()]
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


def _default_whole(view: View, key: str, default: int, name: str, *, at_most: int = 2**40) -> int:
    value = view.whole(key, at_most=at_most)
    if value is None:
        _note_default(view, key, default, name)
    return default if value is None else value


def _note_default(view: View, key: str, default: object, name: str) -> None:
    view.reading.find(
        "class-default",
        key=view.key(key),
        seen="absent",
        right=f"{default}, the default of {name}",
        message=f"there is no {key}: {default}, the default of {name}, is taken.",
    )


def _given(view: View, facts: Mapping[str, Any], width: int | None, name: str) -> tuple[int, ...]:
    """Give the channels that turn, by axis where each has a ladder of its own."""
    if "widths_key" in facts:
        return _widths(view, facts, width, name)
    assert width is not None  # every class without widths has the keys of a head
    if "pairs_key" in facts:
        key = facts["pairs_key"]
        pairs = _default_whole(view, key, facts["pairs"], name, at_most=MAX_HEAD_DIM)
        view.reading.source("axes", view.key(key) if key in view else f"default of {name}")
        return (2 * pairs,) * len(facts["names"])
    if "rotary_key" in facts:
        key = facts["rotary_key"]
        view.reading.source("rotary_dim", view.key(key) if key in view else f"default of {name}")
        return (_default_whole(view, key, facts["rotary"], name, at_most=MAX_HEAD_DIM),)
    if "rotary_divisor" in facts:
        view.reading.source("rotary_dim", f"default of {name}")
        return (width // facts["rotary_divisor"],)
    if "split" in facts:
        view.reading.source("axes", f"default of {name}")
        return _SPLITS[facts["split"]](width)
    return (width,)


def _widths(view: View, facts: Mapping[str, Any], width: int | None, name: str) -> tuple[int, ...]:
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


def _axes(view: View, facts: Mapping[str, Any], given: tuple[int, ...]) -> Axes:
    if facts.get("axes") == "single":
        return Single()
    if "sections_keys" in facts:
        return _sections(view, facts, given[0] // 2)
    names = tuple(facts.get("names", ("t", "h", "w")))
    if len(names) != len(given):
        names = tuple(f"axis{number}" for number in range(len(given)))
    return Ladders(
        widths=given,
        pairing_within=facts.get("within", "axis"),
        arrangement=facts.get("arrangement", "blocks"),
        names=names,
        order=facts.get("order"),
    )


def _sections(view: View, facts: Mapping[str, Any], pairs: int) -> Sections:
    """Read an interleaved M-RoPE's sections; the first axis takes every pair that the others leave."""
    key, declared = "default of the class", tuple(facts["sections"])
    for path in facts["sections_keys"]:
        *homes, last = path.split(".")
        home = view.sub(homes[0]) if homes else view
        found = home.numbers(last, at_most=MAX_AXES, above=-1) if home is not None else None
        if found is not None:
            key, declared = path, found
            break
    view.reading.source("axes", key)
    others = declared[1:]
    if len(declared) != 3 or any(entry != int(entry) for entry in declared) or math.fsum(others) > pairs:
        raise view.reading.fail(
            "sections-sum",
            key=key,
            seen=shown(list(declared)),
            right=f"three whole numbers whose sum is {pairs}",
            message=f"{key} must hold three whole numbers of pairs, the last two not more than the {pairs} there are, "
            f"got {shown(list(declared))}. Correct it or the head width.",
        )
    whole = tuple(int(entry) for entry in declared)
    first = pairs - sum(whole[1:])
    axes = Sections(sections=(first, *whole[1:]), arrangement="interleaved", names=tuple(facts["names"]))
    note_realised(view.reading, axes, whole, 2 * pairs, key)
    return axes


def _scaling(
    view: View, facts: Mapping[str, Any], theta: float, rotary_dim: int, name: str
) -> tuple[Scaling, int | None]:
    """Give the scaling, and the longest sequence where the class states one."""
    if "longrope" in facts:
        return _longrope(view, facts["longrope"], theta, rotary_dim, name)
    return _ntk(view, facts), None


def _longrope(
    view: View, lengths: Mapping[str, int], theta: float, rotary_dim: int, name: str
) -> tuple[Scaling, int | None]:
    """Read the two lists of rope_scaling, the only keys that the class takes from it."""
    longest = _default_whole(view, "max_position_embeddings", lengths["longest"], name, at_most=MAX_POSITION)
    outer = "original_max_position_embeddings"
    original = view.whole(outer)
    block = view.sub("rope_scaling")
    lists = {} if block is None else {key: block.data.get(key) for key in ("short_factor", "long_factor")}
    scaling = longrope(
        Block(
            view=Translated(lists, view.reading, {outer: outer}, "rope_scaling"),
            rope_type="longrope",
            beside=None,
            spelled="longrope",
            rope_theta=theta,
            rotary_dim=rotary_dim,
            max_position_embeddings=longest,
            top_original=(lengths["original"], f"default of {name}") if original is None else (original, outer),
            nested=False,
            nests=False,
            scale_softmax=False,
            attention_factor=None,
            described=f"default of {name}",
            partial_rotary_factor=None,
            reads_alpha=False,
            label=None,
        )
    )
    view.reading.source("scaling", "rope_scaling")
    return scaling, longest


def _ntk(view: View, facts: Mapping[str, Any]) -> Scaling:
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
