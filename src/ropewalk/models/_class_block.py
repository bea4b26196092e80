"""Blocks of rope parameters as an architecture's class takes them: its own for none in the file, and a flat one by key.

The rules are those of transformers 5.24's configuration classes, __post_init__ and convert_rope_params_to_dict.
"""

from collections.abc import Mapping
from typing import Any

from .._checks import shown
from ._homes import Blocks, find_blocks
from ._reading import View
from ._words import Translated
from .architectures import Architecture


def blocks_of(view: View, arch: Architecture) -> Blocks:
    """Find the blocks of a part: those of the file that the architecture's class reads, else the class's own.

    transformers takes an absent and a null block, and an empty rope_scaling, for none; an empty rope_parameters is one.
    Some classes read rope_parameters by layer type alone, and a flat block under rope_scaling only.

    Raises:
        UnreadableError: where what stands in the place of a block is none; an error finding says so.
    """
    blocks = find_blocks(view, arch.block_keys)
    if arch.flat_key and blocks.flat.data and not blocks.nested and blocks.flat.path != view.key(arch.flat_key):
        _note_flat(view, arch, blocks.flat)
        return Blocks(flat=View({}, view.reading), nested={})
    if not arch.block or blocks.flat.data or blocks.nested or view.data.get("rope_parameters") is not None:
        return blocks
    _note_implied(view, arch)
    made = {label: _from_class(view, arch, block) for label, block in _by_label(arch.block).items()}
    flat = made.pop("", View({}, view.reading))
    return Blocks(flat=flat, nested=made, implied=True)


def _from_class(view: View, arch: Architecture, block: Mapping[str, Any]) -> View:
    """Give a block whose every key says that it comes from the class."""
    origins = dict.fromkeys(block, arch.described())
    return Translated(block, view.reading, origins, view.key("rope_parameters"))


def _note_flat(view: View, arch: Architecture, flat: View) -> None:
    kinds = " and ".join(arch.labels)
    spelled = next((flat.data[name] for name in ("rope_type", "type") if name in flat), None)
    view.reading.find(
        "key-unused",
        key=flat.path,
        seen="a flat block" if spelled is None else f"a flat block, rope_type {shown(spelled)}",
        right=f"blocks for {kinds} inside it",
        message=f"{flat.path} is flat, and {arch.config_class} reads it by layer type alone: transformers 5.24 takes "
        f"no scaling and no base from it, and nor does this description. Write blocks for {kinds} into it.",
    )


def _note_implied(view: View, arch: Architecture) -> None:
    scaled = {name: block for name, block in _by_label(arch.block).items() if block["rope_type"] != "default"}
    if not scaled:
        return
    words = "; ".join(
        f"{f'{label}: ' if label else ''}{', '.join(f'{name} {_in_words(value)}' for name, value in block.items())}"
        for label, block in scaled.items()
    )
    view.reading.find(
        "scaling-implied",
        key=view.key("rope_parameters"),
        seen="null" if "rope_parameters" in view.data else "absent",
        right=f"{words}, the {arch.described()}",
        message=f"there is no rope_parameters, and {arch.config_class} then takes a block of its own: {words}. The "
        "checkpoint may have been trained with another; add the block to the file.",
    )


def _by_label(block: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return block if all(isinstance(inner, Mapping) for inner in block.values()) else {"": block}


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
