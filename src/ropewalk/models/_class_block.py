"""The block of rope parameters that a configuration class takes where the file has none."""

from ._homes import Blocks, find_blocks
from ._reading import View
from ._words import Translated
from .architectures import Architecture


def blocks_of(view: View, arch: Architecture) -> Blocks:
    """Find the blocks of a part: the file's, else the one that the architecture's class puts in their place.

    transformers takes an absent and a null block, and an empty rope_scaling, for none; an empty rope_parameters is one.

    Raises:
        UnreadableError: where what stands in the place of a block is none; an error finding says so.
    """
    blocks = find_blocks(view, arch.block_keys)
    if not arch.block or blocks.flat.data or blocks.nested or view.data.get("rope_parameters") is not None:
        return blocks
    _note_implied(view, arch)
    origins = dict.fromkeys(arch.block, arch.described())
    flat = Translated(arch.block, view.reading, origins, view.key("rope_parameters"))
    return Blocks(flat=flat, nested={}, implied=True)


def _note_implied(view: View, arch: Architecture) -> None:
    words = ", ".join(f"{name} {_in_words(value)}" for name, value in arch.block.items())
    view.reading.find(
        "scaling-implied",
        key=view.key("rope_parameters"),
        seen="null" if "rope_parameters" in view.data else "absent",
        right=f"{words}, the {arch.described()}",
        message=f"there is no rope_parameters, and {arch.config_class} then takes a block of its own: {words}. The "
        "checkpoint may have been trained with another; add the block to the file.",
    )


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
