"""A configuration made small: fewer and narrower layers, few tokens and experts, the same heads and the same rope."""

import copy
from collections.abc import Iterator
from typing import Any

WIDTHS = (
    *(
        "intermediate_size",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        "ffn_dim",
        "n_inner",
        "ffn_hidden_size",
    ),
    *("intermediate_size_mlp", "shared_intermediate_size", "expert_ffn_hidden_size", "dense_intermediate_size"),
    *("mlp_intermediate_size", "moe_shared_expert_intermediate_size", "inner_dim", "prefix_dense_intermediate_size"),
)
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")
CHOSEN = (
    "num_experts_per_tok",
    "moe_topk",
    "moe_k",
    "num_experts_per_token",
    "top_k_experts",
    "experts_per_token",
    "moe_top_k",
)
GROUPS = ("n_group", "topk_group", "num_expert_groups", "n_groups_expert")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth")
VOCABULARIES = ("vocab_size", "vocab_size_per_layer_input", "text_vocab_size")
CHUNKS = ("mamba_chunk_size", "chunk_size", "ssm_chunk_size")  # of a scan, which pads every prompt to it
WINDOWS = ("sliding_window", "attention_chunk_size", "local_attention_window", "attention_window_size")
MOST = {"width": 96, "experts": 4, "chosen": 2, "vocab": 128, "window": 8, "layers": 8}


def small(config: Any, *, switch: int, narrow: bool) -> tuple[Any, list[str], int | None]:
    """Give a copy that costs little, what was changed in words, and the tokens at which its rope now switches tables.

    Args:
        config: of a model; it stays as it is.
        switch: where dynamic NTK and LongRoPE are made to switch.
        narrow: fewer heads and a narrower hidden size too.
    """
    made = copy.deepcopy(config)
    changed: dict[str, tuple[Any, Any]] = {}
    switches = []
    for one in _walk(made):
        _layers(one, changed)
        _bound(one, WIDTHS, MOST["width"], changed)
        _bound(one, EXPERTS, MOST["experts"], changed)
        _bound(one, CHOSEN, MOST["chosen"], changed)
        _bound(one, GROUPS, 1, changed)
        _bound(one, VOCABULARIES, MOST["vocab"], changed)
        _bound(one, (*WINDOWS, *CHUNKS), MOST["window"], changed)
        _bound(one, ("attn_layer_period", "expert_layer_period"), 2, changed)
        _bound(one, ("attn_layer_offset", "expert_layer_offset"), 1, changed)
        _bound(one, ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"), 1, changed)
        if isinstance(getattr(one, "pad_token_id", None), int) and one.pad_token_id >= MOST["vocab"]:
            one.pad_token_id = 0
        if narrow:
            _narrow(one, changed)
        switches += _switch(one, switch, changed)
    words = [f"{name} {old} → {new}" for name, (old, new) in changed.items()]
    return made, words, max(switches, default=None)


def _walk(config: Any) -> Iterator[Any]:
    yield config
    for key in getattr(config, "sub_configs", None) or {}:
        below = getattr(config, key, None)
        if hasattr(below, "to_dict"):
            yield from _walk(below)


def _set(config: Any, name: str, value: Any, changed: dict[str, tuple[Any, Any]]) -> None:
    old = getattr(config, name)
    if old == value:
        return
    try:
        setattr(config, name, value)
    except (AttributeError, NotImplementedError, TypeError):  # a property that follows from others
        return
    changed[name] = (old, value)


def _bound(config: Any, names: tuple[str, ...], most: int, changed: dict[str, tuple[Any, Any]]) -> None:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > most:
            _set(config, name, most, changed)
        elif isinstance(value, list | tuple) and value and all(isinstance(one, int) for one in value):
            setattr(config, name, [min(one, most) for one in value])


def _layers(config: Any, changed: dict[str, tuple[Any, Any]]) -> None:
    """Keep the fewest first layers that show every kind of layer, at least two."""
    for name in LAYERS:
        count = getattr(config, name, None)
        if not isinstance(count, int) or count <= 2:
            continue
        lists = {
            key: value
            for key, value in vars(config).items()
            if isinstance(value, list | tuple) and len(value) == count and key != "rope_parameters"
        }
        rows = list(zip(*(list(map(str, value)) for value in lists.values()), strict=True)) or [()] * count
        keep = _kinds([tuple(one if len(set(map(str, column))) <= 4 else "" for one, column in
                       zip(row, lists.values(), strict=True)) for row in rows])  # fmt: skip
        for key, value in lists.items():
            setattr(config, key, [value[place] for place in keep])
        _set(config, name, len(keep), changed)
    if getattr(config, "attn_layer_indices", None):
        changed["attn_layer_indices"] = (config.attn_layer_indices, [1])
        config.attn_layer_indices = [1]
    shared = getattr(config, "num_kv_shared_layers", None)
    if isinstance(shared, int) and shared > 0:
        config.num_kv_shared_layers = 0
        changed["num_kv_shared_layers"] = (shared, 0)


def _kinds(rows: list[tuple[str, ...]]) -> list[int]:
    """Give the places of the first layers up to the one that completes the kinds, or one of each where that is far."""
    firsts = sorted({rows.index(row) for row in rows})
    last = max(1, firsts[-1])
    return list(range(last + 1)) if last < MOST["layers"] else sorted({0, 1, *firsts})[: MOST["layers"]]


def _narrow(config: Any, changed: dict[str, tuple[Any, Any]]) -> None:
    """Keep the channels of a head and take fewer heads, 4 and 2 where keys have fewer, else 2."""
    heads = next((name for name in ("num_attention_heads", "n_head", "num_heads") if hasattr(config, name)), None)
    width = next((name for name in ("hidden_size", "n_embd", "d_model", "embed_dim") if hasattr(config, name)), None)
    if heads is None or width is None or not isinstance(getattr(config, heads), int):
        return
    count, hidden = getattr(config, heads), getattr(config, width)
    keys = getattr(config, "num_key_value_heads", None)
    if not isinstance(hidden, int) or count < 3 or hidden % count:
        return
    head_dim = getattr(config, "head_dim", None)
    fewer = 4 if isinstance(keys, int) and keys < count else 2
    _set(config, heads, fewer, changed)
    if isinstance(keys, int):
        _set(config, "num_key_value_heads", 1 if keys == 1 else 2, changed)
    _set(config, width, min(hidden, 192) if isinstance(head_dim, int) else fewer * (hidden // count), changed)


def _switch(config: Any, at: int, changed: dict[str, tuple[Any, Any]]) -> list[int]:
    """Move the length at which dynamic NTK and LongRoPE change their table; give where it is now."""
    block = getattr(config, "rope_parameters", None)
    if not isinstance(block, dict):
        return []
    blocks = [block] if "rope_type" in block else [one for one in block.values() if isinstance(one, dict)]
    moved = []
    for one in blocks:
        kind = one.get("rope_type")
        if kind == "dynamic":
            _set(config, "max_position_embeddings", at, changed)
            moved.append(at)
        if kind == "longrope":
            old = one.get("original_max_position_embeddings") or config.max_position_embeddings
            ratio = config.max_position_embeddings / old
            changed["original_max_position_embeddings"] = (old, at)
            one["original_max_position_embeddings"] = at
            if hasattr(config, "original_max_position_embeddings"):
                config.original_max_position_embeddings = at
            if one.get("factor") is None:  # the factor on cos and sin follows from the ratio
                _set(config, "max_position_embeddings", int(at * ratio), changed)
            moved.append(at)
    return moved
