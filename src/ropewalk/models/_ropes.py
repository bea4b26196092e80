"""The ropes of one part: blocks of rope parameters, flat or by layer type, to Rope descriptions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._checks import MAX_POSITION, shown
from ..axes import Axes, Ladders, Sections, Single, Strided
from ..errors import RopewalkError
from ..rope import Rope
from ..scaling import Default, Scaling
from ._reading import UnreadableError, View
from ._scaling import Block, read_scaling, rope_type_of
from ._sizes import head_dim, size
from .architectures import Architecture, Label

THETA_KEYS = (
    "rope_theta",
    "rotary_emb_base",
    "rope_embedding_base",
    "global_rope_theta",
    "rotary_base",
    "rope_base",
    "rope_freq_base",
)
THETA_HOMES = ("attn_config",)  # objects that carry theta in place of the top level (DBRX, MPT)
FRACTION_KEYS = (
    "partial_rotary_factor",
    "rotary_pct",
    "rope_pct",
    "rope_percent",
    "rotary_percent",
    "rotary_emb_fraction",
)
ROTARY_DIM_KEYS = ("rotary_dim", "rope_dim")
LAYER_TYPES = frozenset({"full_attention", "sliding_attention", "chunked_attention", "main", "compress"})
BLOCK_KEYS = ("rope_parameters", "rope_scaling")
TYPE_KEYS = frozenset({"rope_type", "type"})
PARAMETER_NAMES = frozenset(
    {"rope_type", "type", "rope_theta", "factor", "partial_rotary_factor", "mrope_section", "attention_factor"}
    | {"original_max_position_embeddings", "low_freq_factor", "high_freq_factor", "short_factor", "long_factor"}
    | {"beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "alpha", "mrope_interleaved"}
    | {"attn_factor", "short_mscale", "long_mscale", "xdrope_section", "llama_4_scaling_beta"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The rope parameters of a part as the file gives them.

    Attributes:
        flat: the one block, possibly empty.
        nested: by layer type, None for a type that the file says has no rope; empty where the block is flat.
    """

    flat: View
    nested: Mapping[str, View | None]


def find_blocks(view: View, keys: tuple[str, ...] = ()) -> Blocks:
    """Find rope_parameters or rope_scaling, merge them where both are given, and tell flat from nested."""
    found: dict[str, View] = {}
    for name in keys or BLOCK_KEYS:
        value = view.data.get(name)
        if value is None:
            if name in view.data:
                view.note_null(name)
            continue
        if not isinstance(value, Mapping):
            raise view.reading.fail(
                "value-unusable",
                key=view.key(name),
                seen=value,
                right="an object",
                message=f"{view.key(name)} must be an object, got {shown(value)}. Correct it in the file.",
            )
        if value:
            found[name] = View(value, view.reading, view.key(name))
    if "rope_scaling" in found and "rope_parameters" not in found:
        view.reading.find(
            "old-spelling",
            key=view.key("rope_scaling"),
            seen="rope_scaling",
            right="rope_parameters",
            message="rope_scaling is the spelling before transformers 5; rope_parameters, with rope_theta inside, is "
            "today's. It is read the same.",
        )
    block = _merged(view, found) if len(found) == 2 else next(iter(found.values()), View({}, view.reading))
    names = [name for name in block.data if isinstance(name, str)]
    if not any(isinstance(block.data[name], Mapping) for name in names if name not in PARAMETER_NAMES):
        if not (names and all(block.data[name] is None and name in LAYER_TYPES for name in names)):
            return Blocks(flat=block, nested={})
    nested = {
        name: block.sub(name)
        for name in names
        if name not in PARAMETER_NAMES and isinstance(block.data[name], Mapping | None)
    }
    rest = {name: value for name, value in block.data.items() if name not in nested}
    return Blocks(flat=View(rest, view.reading, block.path, block.homes), nested=nested)


def _merged(view: View, found: Mapping[str, View]) -> View:
    new, old = found["rope_parameters"], found["rope_scaling"]
    types = [next((place.data[name] for name in sorted(TYPE_KEYS) if name in place), None) for place in (new, old)]
    differing = sorted(str(name) for name in new.data if name in old.data and not _same(new.data[name], old.data[name]))
    if None not in types and not _same(*types) and "rope_type" not in differing:
        differing.append("rope_type")
    lost = sorted(str(name) for name in new.data if name not in old.data and name not in TYPE_KEYS)
    if differing or lost:
        view.reading.find(
            "blocks-conflict",
            key=view.key("rope_scaling"),
            seen=f"both blocks; differing: {', '.join(differing) or 'none'}; only in rope_parameters: "
            f"{', '.join(lost) or 'none'}",
            right="one block, rope_parameters",
            message="both rope_parameters and rope_scaling are given. They are read as one, rope_scaling winning where "
            "they differ; transformers drops rope_parameters whole, with what only it says. Keep one block.",
        )
    kept = {name: value for name, value in new.data.items() if name not in TYPE_KEYS or not TYPE_KEYS & set(old.data)}
    homes = {name: old.path if name in old.data else new.path for name in (*kept, *old.data) if isinstance(name, str)}
    return View({**kept, **old.data}, view.reading, old.path, homes)


def _same(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except RecursionError:
        return False


def read_rope(view: View, blocks: Blocks, arch: Architecture, label: str | None) -> Rope | None:
    """Read the rope of a part, or of one layer type; None where it cannot be read (an error finding says why)."""
    try:
        return _read_rope(view, blocks, arch, label)
    except UnreadableError:
        return None


def _read_rope(view: View, blocks: Blocks, arch: Architecture, label: str | None) -> Rope:
    reading = view.reading
    facts = arch.labels.get(label or "", Label())
    nested = label is not None and label in blocks.nested
    block = (blocks.nested.get(label or "") if nested else blocks.flat) or View({}, reading, blocks.flat.path)
    scaled = nested or facts.scaled
    default_type = facts.rope_type or arch.rope_type
    rope_type, spelled = rope_type_of(block, arch.aliases, default_type, label) if scaled else ("default", "default")
    if not scaled:
        reading.source("scaling", "default of the layer type", label)
    theta = _theta(view, block, arch, facts, label, nested=nested, scaled=scaled)
    keys = facts.head_dim_keys or arch.head_dim_keys or ("head_dim", "kv_channels", "attention_head_dim")
    if facts.head_dim is not None and view.first(keys) is None:
        width, width_origin = facts.head_dim, arch.described()
        reading.source("head_dim", width_origin, label)
    else:
        width, width_origin = head_dim(view, arch, keys, label)
    fraction, fraction_origin = _fraction(view, block, arch, facts)
    if rope_type == "proportional":
        rotary_dim = width
        reading.source("partial_rotary_factor", fraction_origin, label)
        reading.source("rotary_dim", width_origin, label)
    else:
        rotary_dim = _rotary_dim(view, arch, width, width_origin, fraction, fraction_origin, label)
    longest, longest_origin = size(view, arch, "max_position_embeddings", at_most=MAX_POSITION)
    reading.source("max_position_embeddings", longest_origin, label)
    scaling: Scaling = Default()
    if scaled:
        scaling = read_scaling(
            Block(
                view=block,
                rope_type=rope_type,
                spelled=spelled,
                rope_theta=theta,
                rotary_dim=rotary_dim,
                max_position_embeddings=longest,
                top_original=_top_original(view, block, arch),
                nested=nested,
                scale_softmax=arch.scale_softmax,
                attention_factor=facts.attention_factor
                if facts.attention_factor is not None
                else arch.attention_factor,
                partial_rotary_factor=fraction,
                label=label,
            )
        )
    if arch.position_note is not None:
        reading.source("position_ids", arch.position_note, label)
    if theta == 1:
        reading.find(
            "theta-one",
            key=reading.sources[".".join(filter(None, (reading.part, label, "rope_theta")))],
            seen="1",
            right="a base above 1, unless this is meant",
            message="rope_theta is 1, so that every pair turns at one speed. That is legal, and rarely meant.",
        )
    try:
        return Rope(
            head_dim=width,
            rotary_dim=rotary_dim,
            rotary_start=width - rotary_dim if arch.rotary_tail else 0,
            rope_theta=theta,
            pairing=_pairing(view, arch, label),
            direction=arch.direction,
            scaling=scaling,
            axes=_axes(view, block, arch, rotary_dim, label),
            max_position_embeddings=longest,
        )
    except RopewalkError as error:
        raise reading.fail(
            "scaling-impossible",
            key=block.path or "rope",
            seen=rope_type,
            right="values that fit together",
            message=f"the rope cannot be built: {error}",
        ) from error


def _top_original(view: View, block: View, arch: Architecture) -> tuple[int, str] | None:
    """Give L0 and its origin where it stands outside the block; a class default only where the block has none."""
    length, origin = size(view, arch, "original_max_position_embeddings", at_most=MAX_POSITION)
    if length is None or (origin.startswith("default") and "original_max_position_embeddings" in block):
        return None
    return length, origin


def _theta(
    view: View, block: View, arch: Architecture, facts: Label, label: str | None, *, nested: bool, scaled: bool
) -> float:
    reading = view.reading
    candidates: list[tuple[float, str]] = []
    if scaled or nested:
        candidates += _thetas_in(block, ("rope_theta",))
    candidates += _thetas_in(view, facts.theta_keys)
    if not facts.theta_keys and not (nested and candidates):
        candidates += _thetas_in(view, (*arch.theta_keys, *THETA_KEYS))
        for home in THETA_HOMES:
            inner = view.sub(home)
            candidates += _thetas_in(inner, THETA_KEYS) if inner else []
    if not candidates and arch.ratio_key:
        ratio = view.number(arch.ratio_key, above=0)
        if ratio is not None:
            candidates.append((10000.0 * ratio, view.key(arch.ratio_key)))
    if candidates:
        theta, origin = candidates[0]
        for other, other_origin in candidates[1:]:
            if not math.isclose(other, theta, rel_tol=1e-9):
                reading.find(
                    "theta-conflict",
                    key=other_origin,
                    seen=f"{theta:g} at {origin}, {other:g} at {other_origin}",
                    right=f"{theta:g}, from {origin}",
                    message=f"two bases: {theta:g} at {origin} and {other:g} at {other_origin}. The first is taken, as "
                    "transformers takes it. Remove the wrong one.",
                )
        reading.source("rope_theta", origin, label)
        return theta
    default = facts.theta if facts.theta is not None else arch.theta
    where = block.key("rope_theta") if block.path else view.key("rope_theta")
    if default is None:
        reading.source("rope_theta", "missing", label)
        raise reading.fail(
            "theta-missing",
            key=where,
            seen="absent",
            right="the base that the model was trained with",
            message="there is no rope_theta, and the architecture's own default is not known here. Add rope_theta to "
            "the file; a guess would turn every pair at a wrong speed.",
        )
    reading.source("rope_theta", arch.described(), label)
    kind = f" of {label}" if label else ""
    if arch.theta_fixed:
        reading.find(
            "class-default",
            key=where,
            seen="absent",
            right=f"{default:g}, a constant of the model's code",
            message=f"rope_theta{kind} is {default:g}, a constant in the code of {arch.config_class}, not in the file.",
        )
    else:
        reading.find(
            "theta-default",
            key=where,
            seen="absent",
            right=f"{default:g}, the default of {arch.config_class}",
            message=f"there is no rope_theta{kind}: the default of {arch.config_class}, {default:g}, is taken. The "
            "checkpoint may have been trained with another; add rope_theta to the file.",
        )
    return default


def _thetas_in(view: View, names: tuple[str, ...]) -> list[tuple[float, str]]:
    found = []
    for name in dict.fromkeys(names):
        value = view.number(name, above=0)
        if value is not None:
            found.append((value, view.key(name)))
            if name in ("rotary_emb_base", "rope_embedding_base", "rotary_base", "rope_base"):
                _old_key(view, name, "rope_theta")
    return found


def _old_key(view: View, name: str, today: str) -> None:
    view.reading.find(
        "old-spelling",
        key=view.key(name),
        seen=name,
        right=today,
        message=f"{view.key(name)} is another spelling of {today}; it is read as that.",
    )


def _fraction(view: View, block: View, arch: Architecture, facts: Label) -> tuple[float | None, str]:
    """Give the rotated fraction of the head and where it came from."""
    value = block.number("partial_rotary_factor", above=0)
    if value is not None:
        return value, block.key("partial_rotary_factor")
    if arch.ignore_partial:
        return None, "default of the architecture"
    name = view.first(FRACTION_KEYS)
    if name is not None:
        if name != "partial_rotary_factor":
            _old_key(view, name, "partial_rotary_factor")
        return view.number(name, above=0), view.key(name)
    default = facts.partial_rotary_factor if facts.partial_rotary_factor is not None else arch.partial_rotary_factor
    return default, arch.described()


def _rotary_dim(
    view: View,
    arch: Architecture,
    width: int,
    width_origin: str,
    fraction: float | None,
    fraction_origin: str,
    label: str | None,
) -> int:
    reading = view.reading
    name = view.first((*arch.rotary_dim_keys, *(() if arch.ignore_rotary_dim else ROTARY_DIM_KEYS)))
    stated = None if name is None else view.whole(name)
    by_fraction = None if fraction is None or arch.ignore_partial else int(min(width * fraction, MAX_POSITION))
    from_default = fraction_origin.startswith("default")
    if stated is not None and name is not None:
        if by_fraction is not None and by_fraction != stated and not from_default:
            reading.find(
                "width-conflict",
                key=view.key(name),
                seen=f"{stated} at {view.key(name)}, int({width} · {fraction:g}) = {by_fraction} by {fraction_origin}",
                right=f"{stated} channels, as {name} says",
                message=f"{view.key(name)} says {stated} rotated channels, {fraction_origin} says {by_fraction}. The "
                "first is taken. Make them agree.",
            )
        rotary_dim, origin = stated, view.key(name)
    elif by_fraction is not None:
        rotary_dim, origin = by_fraction, fraction_origin
        if from_default:
            reading.find(
                "class-default",
                key=view.key("partial_rotary_factor"),
                seen="absent",
                right=f"{fraction:g}, the default of {arch.config_class}",
                message=f"partial_rotary_factor is absent: the default of {arch.config_class}, {fraction:g}, is taken.",
            )
    elif arch.rotary_dim is not None:
        rotary_dim, origin = arch.rotary_dim, arch.described()
    elif arch.axes is not None and arch.axes.get("kind") == "ladders":
        unit = 2 * sum(
            arch.axes.get("split", (1, 1))
        )  # every axis takes an even width; the rest of the head keeps still
        rotary_dim, origin = width // unit * unit, width_origin
    else:
        rotary_dim, origin = width, width_origin
    if rotary_dim % 2 or not 2 <= rotary_dim <= width:
        raise reading.fail(
            "width-odd",
            key=origin,
            seen=f"rotary_dim {rotary_dim}, head_dim {width}",
            right="an even width from 2 to head_dim",
            message=f"rotary_dim must be even and at most head_dim, got rotary_dim={rotary_dim}, head_dim={width} "
            f"(from {origin}). Correct the head width or partial_rotary_factor.",
        )
    reading.source("rotary_dim", origin, label)
    return rotary_dim


def _pairing(view: View, arch: Architecture, label: str | None) -> str:
    reading = view.reading
    if arch.pairing_key is not None:
        value = view.flag(arch.pairing_key)
        if value is not None:
            reading.source("pairing", view.key(arch.pairing_key), label)
            return "interleaved" if value else "half"
    if not arch.known:
        for name, when_true, when_false in (
            ("rope_interleave", "interleaved", "half"),
            ("rope_interleaved", "interleaved", "half"),
            ("is_neox_style", "half", "interleaved"),
        ):
            value = view.flag(name)
            if value is not None:
                reading.source("pairing", view.key(name), label)
                return when_true if value else when_false
    reading.source("pairing", arch.described() if arch.known else "missing", label)
    return arch.pairing


def _axes(view: View, block: View, arch: Architecture, rotary_dim: int, label: str | None) -> Axes:
    template: Mapping[str, Any] = arch.axes or {}
    kind = template.get("kind", "single")
    if kind == "ladders":
        parts = template.get("split", (1, 1))
        unit = rotary_dim // sum(parts)
        return Ladders(
            widths=tuple(unit * part for part in parts),
            pairing_within=template.get("pairing_within", "head"),
            arrangement=template.get("arrangement", "blocks"),
            names=tuple(template.get("names", ("h", "w"))),
            order=tuple(template["order"]) if "order" in template else None,
        )
    if template.get("shares"):  # equal shares of the pairs, which no key states
        share = rotary_dim // 2 // sum(template["shares"])
        template = {**template, "sections": [share * part for part in template["shares"]]}
    if kind == "strided":
        return Strided(axes=template.get("axes", 2), names=tuple(template.get("names", ("h", "w"))))
    return _sections(view, block, template, rotary_dim, label) or Single()


def _sections(
    view: View, block: View, template: Mapping[str, Any], rotary_dim: int, label: str | None
) -> Sections | None:
    reading = view.reading
    home = next((place for place in (block, view) if "mrope_section" in place), None)
    given = None if home is None else home.numbers("mrope_section", at_most=16, above=-1)
    if home is not None and given is not None:
        origin = home.key("mrope_section")
        reading.source("axes", origin, label)
        sections = tuple(int(entry) for entry in given)
        if any(entry != int(entry) for entry in given):
            raise reading.fail(
                "sections-sum", key=origin, seen=list(given), right="whole numbers of pairs",
                message=f"{origin} must hold whole numbers of pairs, got {list(given)}.",
            )  # fmt: skip
    elif template.get("sections"):
        sections, origin = tuple(template["sections"]), "default of the architecture"
        reading.source("axes", origin, label)
    else:
        return None
    if "order" in template and len(sections) == len(template["order"]):  # sections stand in another order in files
        sections = tuple(sections[place] for place in template["order"])
    interleaved = block.flag("mrope_interleaved")
    arrangement = template.get("arrangement", "interleaved" if interleaved else "chunked")
    names = tuple(template.get("names", ("t", "h", "w", "e")[: len(sections)]))
    if len(names) != len(sections):
        names = tuple(f"axis{number}" for number in range(len(sections)))
    if sum(sections) * 2 != rotary_dim:
        raise reading.fail(
            "sections-sum",
            key=origin,
            seen=f"{list(sections)}, sum {sum(sections)}",
            right=f"a sum of rotary_dim/2 = {rotary_dim // 2}",
            message=f"the sections {list(sections)} sum to {sum(sections)}, but there are rotary_dim/2 = "
            f"{rotary_dim // 2} pairs. Correct {origin} or the rotary width.",
        )
    axes = Sections(sections=sections, arrangement=arrangement, names=names)
    realised = axes.realised(rotary_dim)
    if realised != sections:
        reading.find(
            "sections-realised",
            key=origin,
            seen=f"declared {list(sections)}",
            right=f"realised {list(realised)}",
            message=f"the sections {list(sections)} are declared, but the interleaved rule gives the axes "
            f"{list(realised)} pairs. What the rule gives is described here.",
        )
    return axes
