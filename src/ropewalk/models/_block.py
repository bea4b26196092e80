"""One block of rope parameters: its type, the numbers around it, and the ways to take a key from it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._checks import shown
from ..scaling import SCALINGS
from ._reading import Reading, UnreadableError, View
from .architectures import Architecture

# spellings that mean one of ropewalk's types wherever they stand; Architecture.aliases adds those of one architecture
ALIASES: Mapping[str, str] = {
    "su": "longrope",
    "mrope": "default",
    "axial": "default",
    "xdrope": "default",
    "deepseek_yarn": "yarn",
    "telechat3-yarn": "yarn",
    "none": "default",
}
ALWAYS_READ = frozenset(
    {"rope_type", "type", "rope_theta", "mrope_section", "mrope_interleaved", "xdrope_section", "partial_rotary_factor"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What surrounds a scaling: the block it is read from, and the numbers that its defaults lean on.

    Attributes:
        view: the block, or an empty view where there is none.
        rope_type: the type as ropewalk names it.
        spelled: the type as the file names it.
        rope_theta: θ.
        rotary_dim: R.
        max_position_embeddings: Lmax or None.
        top_original: (L0, key) where the configuration states an original length outside the block, else None.
        nested: whether the block is one of several, by layer type.
        beside: what stands beside blocks by layer type, where the class reads a key of it; else None.
        nests: whether transformers' class moves this flat block into blocks by layer type.
        scale_softmax: whether the architecture multiplies its softmax scale by the magnitude.
        attention_factor: the factor on cos and sin that the architecture takes where the block gives none, or None.
        described: the class whose defaults these are, "default of LlamaConfig".
        partial_rotary_factor: the fraction of the head that turns, or None.
        reads_alpha: whether the architecture's code takes `alpha` for static NTK scaling.
        label: the layer type, or None.
    """

    view: View
    rope_type: str
    spelled: str
    rope_theta: float
    rotary_dim: int
    max_position_embeddings: int | None
    top_original: tuple[int, str] | None
    nested: bool
    beside: View | None
    nests: bool
    scale_softmax: bool
    attention_factor: float | None
    described: str
    partial_rotary_factor: float | None
    reads_alpha: bool
    label: str | None

    @property
    def reading(self) -> Reading:
        """The findings and sources of the part."""
        return self.view.reading

    @property
    def type_key(self) -> str:
        """The path of the key that names the type."""
        return self.view.key("type" if "rope_type" not in self.view and "type" in self.view else "rope_type")

    def taken(self, name: str) -> None:
        """Record that a value came from the block's own key."""
        self.reading.source(name, self.view.key(name), self.label)


def rope_type_of(view: View, arch: Architecture, default: str, label: str | None) -> tuple[str, str]:
    """Give the type of a block as ropewalk names it and as the file spells it, or raise with an error finding."""
    reading = view.reading
    spellings = {name: view.data[name] for name in ("rope_type", "type") if view.first((name,))}
    if not spellings:
        reading.source("scaling", "missing" if default == "default" else arch.described(), label)
        return default, default
    meanings = {name: _meaning(word, arch.aliases) for name, word in spellings.items()}
    if len(set(map(str, meanings.values()))) > 1:
        raise reading.fail(
            "rope-type-conflict",
            key=view.key("rope_type"),
            seen=f"rope_type {shown(spellings['rope_type'])}, type {shown(spellings['type'])}",
            right="one type, under rope_type",
            message=f"rope_type says {shown(spellings['rope_type'])} and type says {shown(spellings['type'])}: "
            "transformers takes the first and MLX the second. Keep the right one.",
        )
    key, spelled = next(iter(spellings.items()))
    if key == "type":
        _old_spelling(view, "type", "rope_type", key="type")
    if not isinstance(spelled, str):
        raise reading.fail(
            "value-unusable",
            key=view.key(key),
            seen=spelled,
            right="a word",
            message=f"{view.key(key)} must be a word, got {shown(spelled)}.",
        )
    rope_type = _meaning(spelled, arch.aliases)
    if rope_type not in SCALINGS:
        known = ", ".join(SCALINGS)
        raise reading.fail(
            "rope-type-unknown",
            key=view.key(key),
            seen=spelled,
            right=f"one of {known}",
            message=f"{view.key(key)} is {shown(spelled)}, which is no known type. Known are {known}, and the "
            f"spellings {', '.join(ALIASES)}.",
        )
    if spelled != rope_type:
        _old_spelling(view, spelled, rope_type, key=key)
    reading.source("scaling", view.key(key), label)
    return rope_type, spelled


def _meaning(spelled: Any, aliases: Mapping[str, str]) -> Any:
    """Give the type as ropewalk names it; what is no known spelling stays as it is."""
    return aliases.get(spelled, ALIASES.get(spelled, spelled)) if isinstance(spelled, str) else spelled


def _old_spelling(view: View, old: str, new: str, *, key: str) -> None:
    view.reading.find(
        "old-spelling",
        key=view.key(key),
        seen=old,
        right=new,
        message=f"{shown(old)} is another spelling of {shown(new)}; it is read as that.",
    )


def note_unused(block: Block, used: frozenset[str]) -> None:
    for name, value in block.view.data.items():
        if name in ALWAYS_READ or name in used or value is None or not isinstance(name, str):
            continue
        block.reading.find(
            "key-unused",
            key=block.view.key(name),
            seen=shown(value),
            right=f"a key of {block.rope_type}: {', '.join(sorted(used)) or 'none'}",
            message=f"{block.view.key(name)} plays no part in {block.spelled!r} scaling. If it was meant to, the type "
            "is wrong; if not, delete it.",
        )


def required(block: Block, name: str, **bounds: float) -> float:
    value = block.view.number(name, **bounds)
    if value is None:
        raise missing(block, name)
    block.taken(name)
    return value


def missing(block: Block, name: str) -> UnreadableError:
    block.reading.source(name, "missing", block.label)
    return block.reading.fail(
        "key-missing",
        key=block.view.key(name),
        seen="absent" if name not in block.view.data else "null",
        right=f"a value for {name}",
        message=f"{block.spelled!r} scaling needs {name}, which {block.view.path or 'the file'} does not give. Add it.",
    )


def optional(block: Block, name: str, **bounds: float) -> float | None:
    value = block.view.number(name, **bounds)
    if value is not None:
        block.taken(name)
    return value


def original_length(block: Block, *, may_default: bool = True) -> tuple[int, bool]:
    """Give L0 and whether the file states it; transformers lets a top-level key win over the block's."""
    inner = block.view.whole("original_max_position_embeddings")
    outer = block.top_original
    if outer is not None and (inner is None or not block.nested):
        if inner is not None and inner != outer[0]:
            block.reading.find(
                "original-length-conflict",
                key=block.view.key("original_max_position_embeddings"),
                seen=f"{inner} in the block, {outer[0]} at {outer[1]}",
                right=f"{outer[0]}, as transformers takes it",
                message=f"two original lengths: {inner} in {block.view.path}, {outer[0]} at {outer[1]}. transformers "
                "takes the outer one, engines that read the block take the other. Make them equal.",
            )
        block.reading.source("original_max_position_embeddings", outer[1], block.label)
        if outer[1].startswith("default"):
            block.reading.find(
                "class-default",
                key=block.view.key("original_max_position_embeddings"),
                seen="absent",
                right=f"{outer[0]}, the {outer[1]}",
                message=f"there is no original_max_position_embeddings: {outer[0]}, the {outer[1]}, is taken.",
            )
        return outer[0], True
    if inner is not None:
        block.taken("original_max_position_embeddings")
        return inner, True
    if block.max_position_embeddings is None or not may_default:
        raise missing(block, "original_max_position_embeddings")
    block.reading.source("original_max_position_embeddings", "max_position_embeddings", block.label)
    block.reading.find(
        "original-length-default",
        key=block.view.key("original_max_position_embeddings"),
        seen="absent",
        right=f"the length trained before stretching; {block.max_position_embeddings} is taken",
        message=f"{block.spelled!r} scaling has no original_max_position_embeddings, so max_position_embeddings = "
        f"{block.max_position_embeddings} is taken, as transformers does. If that is the stretched length, the range "
        "of pairs and the switch are wrong: add the original length.",
    )
    return block.max_position_embeddings, False


def check_ratio(block: Block, factor: float, original: int, stated: bool) -> None:
    longest = block.max_position_embeddings
    if not stated or longest is None or math.isclose(factor, longest / original, rel_tol=1e-6):
        return
    block.reading.find(
        "factor-ratio",
        key=block.view.key("factor"),
        seen=f"factor {factor:g}, max/original = {longest}/{original} = {longest / original:g}",
        right=f"factor {factor:g}, as stated",
        message=f"factor {factor:g} differs from max_position_embeddings / original_max_position_embeddings = "
        f"{longest / original:g}. The stated factor is taken; engines that recompute it stretch differently.",
    )


def check_below_one(block: Block, factor: float) -> None:
    if factor < 1:
        block.reading.find(
            "factor-below-one",
            key=block.view.key("factor"),
            seen=f"{factor:g}",
            right="1 or more",
            message=f"factor {factor:g} shortens the context instead of stretching it. GGUF writes the inverse of "
            f"this number as a scale; perhaps {1 / factor:g} is meant.",
        )


def or_none(value: float | None) -> str:
    return "absent" if value is None else f"{value:g}"
