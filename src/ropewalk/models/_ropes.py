"""The ropes of one part: blocks of rope parameters, flat or by layer type, to Rope descriptions."""

from collections.abc import Mapping
from typing import Any

from .._checks import MAX_POSITION
from ..axes import Axes, Ladders, Sections, Single, Strided
from ..errors import RopewalkError
from ..rope import Rope
from ..scaling import Default, Scaling
from ._block import Block, rope_type_of
from ._homes import Blocks
from ._numbers import fraction_of, rotary_dim_of, theta_of
from ._reading import Reading, UnreadableError, View
from ._scaling import read_scaling
from ._sizes import head_dim, size
from .architectures import Architecture, Label


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
    default_type = arch.rope_type
    rope_type, spelled = rope_type_of(block, arch, default_type, label) if scaled else ("default", "default")
    if not scaled:
        reading.source("scaling", arch.described(), label)
    theta = theta_of(view, block, arch, facts, label, nested=nested, scaled=scaled)
    keys = facts.head_dim_keys or arch.head_dim_keys or ("head_dim", "kv_channels", "attention_head_dim")
    if facts.head_dim is not None and view.first(keys) is None:
        width, width_origin = facts.head_dim, arch.described()
        reading.source("head_dim", width_origin, label)
    else:
        width, width_origin = head_dim(view, arch, keys, label)
    fraction, fraction_origin = fraction_of(view, block, arch, facts, alone=nested and blocks.implied)
    if rope_type == "proportional":
        rotary_dim = width
        reading.source("partial_rotary_factor", fraction_origin, label)
        reading.source("rotary_dim", width_origin, label)
    else:
        rotary_dim = rotary_dim_of(view, arch, width, width_origin, fraction, fraction_origin, label)
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
                beside=blocks.flat if nested and not arch.drops_beside else None,
                nests=arch.nests and not nested,
                scale_softmax=arch.scale_softmax,
                attention_factor=facts.attention_factor
                if facts.attention_factor is not None
                else arch.attention_factor,
                described=arch.described(),
                partial_rotary_factor=fraction,
                reads_alpha=arch.reads_alpha,
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
            ("rope_traditional", "interleaved", "half"),
        ):
            value = view.flag(name)
            if value is not None:
                reading.source("pairing", view.key(name), label)
                return when_true if value else when_false
    reading.source("pairing", arch.described() if arch.known else "missing", label)
    if arch.known and "rope_traditional" in view:
        _hold_against_mlx(view, arch.pairing)
    return arch.pairing


def _hold_against_mlx(view: View, pairing: str) -> None:
    """Say where mlx-lm, which alone reads rope_traditional, pairs channels otherwise."""
    value = view.flag("rope_traditional")
    theirs = "interleaved" if value else "half"
    if value is not None and theirs != pairing:
        view.reading.find(
            "mlx-pairing",
            key=view.key("rope_traditional"),
            seen=str(value).lower(),
            right=f"{pairing}, as the model's own code pairs",
            message=f"rope_traditional is {str(value).lower()}, by which mlx-lm pairs channels {theirs}; the model's "
            f"own code does not read it and pairs them {pairing}, which is described. Correct it for MLX, or keep it "
            "if the weights were permuted.",
        )


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
    return _sections(view, block, arch, template, rotary_dim, label) or Single()


def _sections(
    view: View, block: View, arch: Architecture, template: Mapping[str, Any], rotary_dim: int, label: str | None
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
        sections, origin = tuple(template["sections"]), arch.described()
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
    note_realised(reading, axes, sections, rotary_dim, origin)
    return axes


def note_realised(reading: Reading, axes: Sections, declared: tuple[int, ...], rotary_dim: int, origin: str) -> None:
    """Warn where the interleaved rule gives an axis another number of pairs than is declared."""
    realised = axes.realised(rotary_dim)
    if realised != declared:
        reading.find(
            "sections-realised",
            key=origin,
            seen=f"declared {list(declared)}",
            right=f"realised {list(realised)}",
            message=f"the sections {list(declared)} are declared, but the interleaved rule gives the axes "
            f"{list(realised)} pairs. What the rule gives is described here.",
        )
