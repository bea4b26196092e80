"""The sizes that a rope needs, under all the names that configurations give them."""

from .._checks import MAX_HEAD_DIM
from ._reading import View
from .architectures import Architecture

# spellings, in order of preference
SPELLINGS: dict[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "embed_dim", "dim", "hidden_dim"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth"),
    "max_position_embeddings": (
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "max_sequence_length",
        "seq_length",
        "n_ctx",
    ),
    "original_max_position_embeddings": ("original_max_position_embeddings",),
}


def size(view: View, arch: Architecture, name: str, *, at_most: int) -> tuple[int | None, str]:
    """Give a size of the part and where it came from: a key, the class default, or (None, "missing")."""
    spelling = view.first((*arch.keys.get(name, ()), *SPELLINGS.get(name, (name,))))
    if spelling is not None:
        return view.whole(spelling, at_most=at_most), view.key(spelling)
    if name in arch.defaults:
        if name != "original_max_position_embeddings":
            _note_default(view, arch, name, int(arch.defaults[name]))
        return int(arch.defaults[name]), arch.described()
    return None, "missing"


def _note_default(view: View, arch: Architecture, name: str, value: int) -> None:
    view.reading.find(
        "class-default",
        key=view.key(name),
        seen="absent",
        right=f"{value}, the default of {arch.config_class}",
        message=f"there is no {view.key(name)}: {value}, the default of {arch.config_class}, is taken. The checkpoint "
        "may have another.",
    )


def head_dim(view: View, arch: Architecture, keys: tuple[str, ...], label: str | None) -> tuple[int, str]:
    """Give the width of a head and where it came from, or raise with an error finding."""
    reading = view.reading
    spelling = view.first(keys)
    if spelling is not None:
        width = view.whole(spelling)
        assert width is not None
        origin = view.key(spelling)
    else:
        default = next((arch.defaults[key] for key in keys if key in arch.defaults), None)
        if default is not None:
            width, origin = int(default), arch.described()
            _note_default(view, arch, keys[0], width)
        else:
            width, origin = _from_heads(view, arch)
    if width > MAX_HEAD_DIM:
        raise reading.fail(
            "width-too-large",
            key=origin,
            seen=str(width),
            right=f"at most {MAX_HEAD_DIM}",
            message=f"a head of {width} channels is more than ropewalk accepts ({MAX_HEAD_DIM}). Check {origin}.",
        )
    reading.source("head_dim", origin, label)
    return width, origin


def _from_heads(view: View, arch: Architecture) -> tuple[int, str]:
    hidden, hidden_origin = size(view, arch, "hidden_size", at_most=2**40)
    heads, heads_origin = size(view, arch, "num_attention_heads", at_most=2**40)
    if hidden is None or heads is None:
        lacking = " and ".join(
            name for name, value in (("hidden_size", hidden), ("num_attention_heads", heads)) if value is None
        )
        raise view.reading.fail(
            "width-missing",
            key=view.key("head_dim"),
            seen=f"no head_dim, no {lacking}",
            right="head_dim, or hidden_size and num_attention_heads",
            message="the width of a head cannot be told: there is no head_dim, and "
            f"{lacking} is missing too. Add head_dim to the file.",
        )
    if hidden < heads:
        raise view.reading.fail(
            "value-unusable",
            key=heads_origin,
            seen=f"{heads} heads",
            right=f"at most hidden_size = {hidden} heads",
            message=f"{heads_origin} says {heads} heads, more than the {hidden} channels of {hidden_origin}.",
        )
    return arch.head_dim_heads * hidden // heads, f"{hidden_origin} / {heads_origin}"
