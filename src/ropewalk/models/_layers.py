"""The plan of a part: how many layers, of which type each, and which of them turn."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._checks import MAX_LAYERS, shown
from ..rope import Rope
from ._kinds import KIND_LISTS, layer_kinds, off_layers
from ._reading import UnreadableError, View
from ._ropes import Blocks, read_rope
from ._sizes import head_dim, size
from .architectures import Architecture
from .model import Layer, QueryScale

# layer types that hold no softmax attention, and so nothing to turn
WITHOUT_ATTENTION = frozenset(
    {"linear_attention", "mamba", "mamba2", "conv", "recurrent", "mlp", "moe", "cross_attention", "rwkv", "ssm"}
)


def read_layers(view: View, arch: Architecture, blocks: Blocks) -> tuple[Layer, ...]:
    """Read every layer of a part that has RoPE."""
    kinds = layer_kinds(view, arch)
    thetas = _layer_thetas(view, arch, len(kinds))
    off = off_layers(view, arch, len(kinds)) | {number for number, theta in thetas.items() if theta == 0}
    labels = arch.labels or dict.fromkeys(blocks.nested)
    ropes: dict[str | None, Rope | None] = {}
    shared = _shared_indexers(view, arch)
    layers: dict[tuple[str | None, bool, float | None, bool], Layer] = {}
    plan = []
    for number, kind in enumerate(kinds):
        key = (kind, number in off, thetas.get(number), number in shared)
        if key not in layers:
            layer = _layer(view, arch, blocks, kind, labels, ropes, off=number in off)
            layers[key] = _adapted(layer, thetas.get(number), keeps_indexer=number not in shared)
        plan.append(layers[key])
    _note_unread_blocks(view, arch, blocks, {_label_of(kind, arch, labels) for kind in kinds}, kinds)
    return tuple(plan)


def plain_layers(view: View, arch: Architecture) -> tuple[Layer, ...]:
    """Give layers without RoPE, as many as the file says."""
    try:
        count, origin = size(view, arch, "num_hidden_layers", at_most=MAX_LAYERS)
    except UnreadableError:
        count, origin = None, "missing"
    if count is None:
        named = next((name for name in KIND_LISTS if isinstance(view.data.get(name), list)), None)
        count, origin = (0, origin) if named is None else (min(len(view.data[named]), MAX_LAYERS), view.key(named))
    view.reading.source("layers", origin)
    return (Layer(),) * count


def _note_unread_blocks(
    view: View, arch: Architecture, blocks: Blocks, used: Collection[str | None], kinds: Collection[str | None]
) -> None:
    """Warn of a block by layer type that no layer of the plan belongs to, and of keys beside such blocks."""
    there = ", ".join(sorted({kind for kind in kinds if kind})) or "not named"
    if blocks.nested and all(label in blocks.nested for label in used):
        acting = _acting_beside(arch, blocks)
        for name, value in blocks.flat.data.items():
            if value is not None and isinstance(name, str) and name not in acting:
                view.reading.find(
                    "key-unused",
                    key=blocks.flat.key(name),
                    seen=shown(value),
                    right=f"a key inside one of the blocks {', '.join(blocks.nested)}",
                    message=f"{blocks.flat.key(name)} stands beside blocks by layer type, which are read alone. Move "
                    "it into the blocks that it is meant for, or delete it.",
                )
    for label, block in () if blocks.implied else blocks.nested.items():
        if label not in used and block is not None:
            key = blocks.flat.key(label)
            view.reading.find(
                "key-unused",
                key=key,
                seen=f"a block for {label}",
                right=f"the type of a layer ({there})",
                message=f"{key} belongs to no layer: the types are {there}. Add layer_types, or delete the block.",
            )


def _acting_beside(arch: Architecture, blocks: Blocks) -> frozenset[str]:
    """Give the keys that act beside blocks by layer type: transformers' YaRN takes truncate there."""
    types = [block.data.get(name) for block in blocks.nested.values() if block for name in ("rope_type", "type")]
    return frozenset({"truncate"} if "yarn" in types and not arch.drops_beside else ())


def _layer_thetas(view: View, arch: Architecture, count: int) -> dict[int, float]:
    """Give θ by layer where the architecture reads a list of them; 0 stands for a layer without RoPE."""
    facts = arch.off_layers or {}
    name = facts.get("theta_list")
    if name is None:
        return {}
    try:
        given = view.numbers(name, at_most=MAX_LAYERS, above=-1)
    except UnreadableError:
        return {}
    if given is None:
        every = facts.get("from_last")
        return {number: 0.0 for number in range(count) if every and (count - 1 - number) % every == 0}
    view.reading.source("rope_theta", view.key(name), "layer")
    keep = facts.get("values", True)
    return {number: theta for number, theta in enumerate(given[:count]) if keep or theta == 0}


def _adapted(layer: Layer, theta: float | None, *, keeps_indexer: bool) -> Layer:
    """Give a layer its own θ, where the list has one, and drop the indexer of a layer that shares another's."""
    ropes = {use: rope for use, rope in layer.ropes.items() if use != "indexer" or keeps_indexer}
    if theta and layer.rope is not None and layer.rope.rope_theta != theta:
        ropes = {use: rope.replace(rope_theta=theta) for use, rope in ropes.items()}
    return layer if ropes == layer.ropes else replace(layer, ropes=ropes)


def _shared_indexers(view: View, arch: Architecture) -> frozenset[int]:
    """Give the layers that reuse the selection of an earlier layer's indexer and so have none of their own."""
    given = view.data.get("indexer_types") if arch.indexer is not None else None
    if not isinstance(given, Sequence) or isinstance(given, str):
        return frozenset()
    return frozenset(number for number, kind in enumerate(given[:MAX_LAYERS]) if kind == "shared")


def _layer(
    view: View,
    arch: Architecture,
    blocks: Blocks,
    kind: str | None,
    labels: Mapping[str, Any],
    ropes: dict[str | None, Rope | None],
    *,
    off: bool,
) -> Layer:
    label = _label_of(kind, arch, labels)
    off_kinds = arch.off_kinds if arch.off_kinds_need is None or arch.off_kinds_need in view else ()
    turns = not off and kind not in off_kinds and kind not in WITHOUT_ATTENTION
    if label is not None and label in blocks.nested and blocks.nested[label] is None:
        view.reading.source("rope", f"{blocks.flat.path}.{label}", label)
        turns = False
    scale = _query_scale(view, arch, blocks, turns=turns, attends=kind not in WITHOUT_ATTENTION)
    if not turns:
        return Layer(kind=kind, query_scale=scale)
    if label not in ropes:
        ropes[label] = read_rope(view, blocks, arch, label)
    rope = ropes[label]
    if rope is None:
        return Layer(kind=kind, query_scale=scale)
    uses = {"attention": rope}
    indexer = _indexer(view, arch, rope, kind)
    if indexer is not None:
        uses["indexer"] = indexer
    return Layer(ropes=uses, kind=kind, query_scale=scale, output_inverse=arch.output_inverse)


def _label_of(kind: str | None, arch: Architecture, labels: Mapping[str, Any]) -> str | None:
    """Give the label whose rope a layer of some type uses; None where the part has one rope for all."""
    if not labels:
        return None
    wanted = arch.kinds.get(kind or "", kind)
    if wanted in labels:
        return wanted
    return "full_attention" if "full_attention" in labels else next(iter(labels))


def _query_scale(view: View, arch: Architecture, blocks: Blocks, *, turns: bool, attends: bool) -> QueryScale | None:
    facts = arch.query_scale
    if facts is None or not attends or (facts["layers"] == "off" and turns):
        return None
    try:
        if facts["form"] == "llama4":
            tuned = view.flag("attn_temperature_tuning")
            if not (facts["default"] if tuned is None else tuned):
                return None
            scale = view.number("attn_scale")
            floor = view.number("floor_scale", above=0)
            view.reading.source("query_scale", view.key("attn_scale") if scale is not None else arch.described())
            return QueryScale(
                attn_scale=facts["attn_scale"] if scale is None else scale,
                floor_scale=facts["floor_scale"] if floor is None else floor,
                offset=facts["offset"],
            )
        beta = blocks.flat.number("llama_4_scaling_beta")
        length = blocks.flat.whole("original_max_position_embeddings")
        if beta is None or length is None:
            return None
        view.reading.source("query_scale", blocks.flat.key("llama_4_scaling_beta"))
        return QueryScale(attn_scale=beta, floor_scale=length, offset=facts.get("offset", 0))
    except UnreadableError:
        return None


def _indexer(view: View, arch: Architecture, rope: Rope, kind: str | None) -> Rope | None:
    """Give the rope of a sparse-attention indexer, which turns part of a wider head with the layer's own angles."""
    facts = arch.indexer
    if facts is None or ("kinds" in facts and kind not in facts["kinds"]):
        return None
    try:
        width, origin = head_dim(
            view, replace(arch, defaults=facts.get("defaults", {})), (facts.get("key", "index_head_dim"),), "indexer"
        )
        pairing = facts["pairing"]
        flag = view.flag(facts["pairing_key"]) if "pairing_key" in facts else None
        if flag is not None:
            pairing = "interleaved" if flag else "half"
    except UnreadableError:
        return None
    view.reading.source("indexer.pairing", view.key(facts["pairing_key"]) if flag is not None else arch.described())
    if width < rope.width:
        view.reading.find(
            "width-odd",
            key=origin,
            seen=f"index_head_dim {width}, rotary_dim {rope.width}",
            right="an indexer at least as wide as the rotated part",
            message=f"the indexer has {width} channels, fewer than the {rope.width} that turn. Correct index_head_dim.",
        )
        return None
    start = width - rope.width if facts.get("tail") else 0
    return rope.replace(head_dim=width, rotary_start=start, pairing=pairing)
