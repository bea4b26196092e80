"""Where a configuration keeps its rope parameters: one block or two, flat or by layer type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._checks import shown
from ._reading import View

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
        implied: whether the file has no block and the architecture's class puts this one in its place.
    """

    flat: View
    nested: Mapping[str, View | None]
    implied: bool = False


def find_blocks(view: View, keys: tuple[str, ...] = ()) -> Blocks:
    """Find rope_parameters or rope_scaling, merge them where both are given, and tell flat from nested."""
    found: dict[str, View] = {}
    for name in keys or BLOCK_KEYS:
        value = object_under(view, name)
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


def object_under(view: View, name: str) -> Mapping[str, Any] | None:
    """Give the object under a key, None where absent or null; anything else is an error finding."""
    value = view.data.get(name)
    if value is None:
        if name in view.data:
            view.note_null(name)
        return None
    if not isinstance(value, Mapping):
        raise view.reading.fail(
            "value-unusable",
            key=view.key(name),
            seen=value,
            right="an object",
            message=f"{view.key(name)} must be an object, got {shown(value)}. Correct it in the file.",
        )
    return value


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
