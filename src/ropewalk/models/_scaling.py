"""One block of rope parameters to a scaling: types and their spellings, required keys, edges, and findings."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .._checks import MAX_HEAD_DIM, shown
from ..errors import RopewalkError
from ..scaling import Default, Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Scaling, Yarn
from ..scaling._frequencies import magnitude
from ._reading import Reading, UnreadableError, View

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
        scale_softmax: whether the architecture multiplies its softmax scale by the magnitude.
        attention_factor: a factor on cos and sin that the architecture's code forces, or None.
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
    scale_softmax: bool
    attention_factor: float | None
    partial_rotary_factor: float | None
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


def rope_type_of(view: View, aliases: Mapping[str, str], default: str, label: str | None) -> tuple[str, str]:
    """Give the type of a block as ropewalk names it and as the file spells it, or raise with an error finding."""
    reading = view.reading
    spellings = {name: view.data[name] for name in ("rope_type", "type") if view.first((name,))}
    if not spellings:
        reading.source("scaling", "default" if default == "default" else "default of the architecture", label)
        return default, default
    meanings = {name: _meaning(word, aliases) for name, word in spellings.items()}
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
    rope_type = _meaning(spelled, aliases)
    if rope_type not in READERS:
        known = ", ".join(READERS)
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


def read_scaling(block: Block) -> Scaling:
    """Give the scaling of a block, or raise with an error finding."""
    reader, used = READERS[block.rope_type]
    try:
        scaling = reader(block)
        if block.rope_type == "dynamic" and isinstance(scaling, Ntk):
            used = used | {"alpha"}
        _note_unused(block, used)
        scaling.frequencies(block.rope_theta, block.rotary_dim, max_position_embeddings=block.max_position_embeddings)
    except RopewalkError as error:
        raise block.reading.fail(
            "scaling-impossible",
            key=block.view.path or "rope",
            seen=block.rope_type,
            right="values that the formula is defined for",
            message=f"the {block.rope_type} scaling cannot be computed: {error}",
        ) from error
    return scaling


def _note_unused(block: Block, used: frozenset[str]) -> None:
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


def _required(block: Block, name: str, **bounds: float) -> float:
    value = block.view.number(name, **bounds)
    if value is None:
        raise _missing(block, name)
    block.taken(name)
    return value


def _missing(block: Block, name: str) -> UnreadableError:
    block.reading.source(name, "missing", block.label)
    return block.reading.fail(
        "key-missing",
        key=block.view.key(name),
        seen="absent" if name not in block.view.data else "null",
        right=f"a value for {name}",
        message=f"{block.spelled!r} scaling needs {name}, which {block.view.path or 'the file'} does not give. Add it.",
    )


def _optional(block: Block, name: str, **bounds: float) -> float | None:
    value = block.view.number(name, **bounds)
    if value is not None:
        block.taken(name)
    return value


def _original_length(block: Block, *, may_default: bool = True) -> tuple[int, bool]:
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
        raise _missing(block, "original_max_position_embeddings")
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


def _check_ratio(block: Block, factor: float, original: int, stated: bool) -> None:
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


def _check_below_one(block: Block, factor: float) -> None:
    if factor < 1:
        block.reading.find(
            "factor-below-one",
            key=block.view.key("factor"),
            seen=f"{factor:g}",
            right="1 or more",
            message=f"factor {factor:g} shortens the context instead of stretching it. GGUF writes the inverse of "
            f"this number as a scale; perhaps {1 / factor:g} is meant.",
        )


def _default(block: Block) -> Scaling:
    return Default()


def _linear(block: Block) -> Scaling:
    factor = _required(block, "factor", above=0)
    _check_below_one(block, factor)
    return Linear(factor=factor)


def _ntk(block: Block) -> Scaling:
    factor = _required(block, "factor", above=0)
    _check_below_one(block, factor)
    block.reading.find(
        "engines-ntk",
        key=block.type_key,
        seen=f"{block.spelled}, factor {factor:g}",
        right="theta·factor^(R/(R-2))",
        message="'ntk' names several formulas. It is read as NTK-aware scaling, theta·factor^(R/(R-2)); vLLM takes "
        "theta·factor and divides every frequency by factor^(2/R); transformers has no such type.",
    )
    return Ntk(factor=factor)


def _dynamic(block: Block) -> Scaling:
    alpha = _optional(block, "alpha", above=0)
    if alpha is not None:
        return Ntk(factor=alpha)
    factor = _required(block, "factor", above=0)
    if block.max_position_embeddings is None:
        raise _missing(block, "max_position_embeddings")
    _check_below_one(block, factor)
    where = {"key": block.type_key, "seen": f"dynamic, factor {factor:g}"}
    block.reading.find(
        "dynamic-cached-keys",
        **where,
        right="turn cached keys anew when the base changes",
        message="dynamic NTK changes the base as the sequence grows, so keys that a cache holds rotated keep the old "
        f"base and stop matching past {block.max_position_embeddings} tokens.",
    )
    block.reading.find(
        "engines-dynamic",
        **where,
        right="the base for the current length, as transformers computes it",
        message="engines read dynamic NTK differently: transformers recomputes the base by length, vLLM computes it "
        "once (at its default length: no scaling at all), SGLang takes the base of max_position_embeddings·factor, "
        "llama.cpp has no such type.",
    )
    if factor == 1:
        block.reading.find(
            "dynamic-factor-one",
            key=block.view.key("factor"),
            seen="1",
            right="no scaling, if none is meant",
            message="dynamic NTK with factor 1 still raises the base beyond max_position_embeddings (by the ratio of "
            "the lengths). Remove the block if no scaling is meant.",
        )
    return Dynamic(factor=factor)


def _yarn(block: Block) -> Scaling:
    original, stated = _original_length(block)
    factor = block.view.number("factor", above=0)
    if factor is None:
        if "factor" not in block.view.data or block.max_position_embeddings is None:
            raise _missing(block, "factor")
        factor = block.max_position_embeddings / original
        block.reading.source("factor", "max_position_embeddings / original_max_position_embeddings", block.label)
    else:
        block.taken("factor")
        _check_ratio(block, factor, original, stated)
    _check_below_one(block, factor)
    beta_fast = _optional(block, "beta_fast", at_least=0) or 32.0
    beta_slow = _optional(block, "beta_slow", at_least=0) or 1.0
    if beta_fast < beta_slow:
        raise block.reading.fail(
            "betas-swapped",
            key=block.view.key("beta_fast"),
            seen=f"beta_fast {beta_fast:g}, beta_slow {beta_slow:g}",
            right="beta_fast at least beta_slow",
            message=f"beta_fast = {beta_fast:g} is below beta_slow = {beta_slow:g}: the ramp would run backwards. "
            "They look swapped.",
        )
    scaling = Yarn(
        factor=factor,
        original_max_position_embeddings=original,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        truncate=_truncate(block),
        attention_factor=_attention_factor(block, factor),
        mscale=_optional(block, "mscale", at_least=0),
        mscale_all_dim=_optional(block, "mscale_all_dim", at_least=0),
        scale_softmax=block.scale_softmax,
    )
    _note_magnitudes(block, scaling)
    _note_bounds(block, scaling)
    return scaling


def _note_bounds(block: Block, scaling: Yarn) -> None:
    low, high = (0, 1) if scaling.factor == 1 else scaling.bounds(block.rope_theta, block.rotary_dim)
    if low != high:
        return
    block.reading.find(
        "ramp-empty",
        key=block.view.key("beta_slow"),
        seen=f"both bounds of the ramp at pair {low:g}",
        right=f"a hard step behind pair {low:g}",
        message=f"the ramp starts and ends at pair {low:g}, so there is none: pairs are kept or divided by the whole "
        "factor. Code that does not guard the difference of the bounds divides by zero.",
    )


def _truncate(block: Block) -> bool:
    truncate = block.view.flag("truncate")
    if truncate is None:
        return True
    block.taken("truncate")
    if not truncate:
        where = "transformers 5.24 ignores it in a block nested by layer type and rounds; " if block.nested else ""
        block.reading.find(
            "engines-truncate",
            key=block.view.key("truncate"),
            seen="false",
            right="bounds of the ramp not rounded",
            message=f"truncate false leaves the bounds of the ramp as they are. {where}llama.cpp and MLX always round "
            "them to whole pairs, so middle pairs turn at another speed there.",
        )
    return truncate


def _attention_factor(block: Block, factor: float) -> float | None:
    if block.attention_factor is not None:
        block.reading.source("attention_factor", "default of the architecture", block.label)
        return block.attention_factor
    stated = _optional(block, "attention_factor", above=0)
    if stated is not None:
        if not math.isclose(stated, magnitude(factor)):
            block.reading.find(
                "engines-attention-factor",
                key=block.view.key("attention_factor"),
                seen=f"{stated:g}",
                right=f"{stated:g} on cos and sin, verbatim",
                message=f"attention_factor {stated:g} is taken verbatim; SGLang, MLX and llama.cpp's converter do not "
                f"read it and apply {magnitude(factor):g}.",
            )
        return stated
    if block.spelled == "telechat3-yarn":
        return 0.07 * math.log(factor) + 1 if factor > 1 else 1.0
    return None


def _note_magnitudes(block: Block, scaling: Yarn) -> None:
    g = magnitude(scaling.factor)
    attn_factor = block.view.number("attn_factor", above=0)
    if attn_factor is not None and not math.isclose(scaling.cos_sin_factor, g * attn_factor):
        block.reading.find(
            "attn-factor",
            key=block.view.key("attn_factor"),
            seen=f"{attn_factor:g}",
            right=f"{scaling.cos_sin_factor:.9g} on cos and sin, as transformers computes it",
            message=f"attn_factor {attn_factor:g} is read in two ways: transformers and vLLM ignore it (cos and sin "
            f"times {scaling.cos_sin_factor:.9g}), SGLang multiplies by it ({g * attn_factor:.9g}). Write "
            "attention_factor, which has one meaning.",
        )
    if scaling.attention_factor is not None or (scaling.mscale is None and scaling.mscale_all_dim is None):
        return
    if scaling.mscale and scaling.mscale_all_dim:
        if scaling.scale_softmax or scaling.factor <= 1:
            return
        if scaling.mscale == scaling.mscale_all_dim:
            block.reading.find(
                "mscale-inert",
                key=block.view.key("mscale"),
                seen=f"mscale = mscale_all_dim = {scaling.mscale:g}",
                right="1 on cos and sin, as transformers computes the ratio",
                message=f"mscale and mscale_all_dim are equal, so their ratio is 1 and they do nothing here; SGLang "
                f"and llama.cpp ignore the pair and put {g:.9g} on cos and sin instead. Only MLA models use the pair "
                "further, on the softmax scale.",
            )
            return
        block.reading.find(
            "engines-mscale",
            key=block.view.key("mscale"),
            seen=f"mscale {scaling.mscale:g}, mscale_all_dim {scaling.mscale_all_dim:g}",
            right=f"{scaling.cos_sin_factor:.9g} on cos and sin, as transformers computes the ratio",
            message=f"the ratio of mscale and mscale_all_dim gives {scaling.cos_sin_factor:.9g} on cos and sin; SGLang "
            f"and llama.cpp ignore the pair outside MLA and put {g:.9g} there. Write attention_factor, and check it in "
            "the engine that you use.",
        )
        return
    lone = "mscale" if scaling.mscale_all_dim is None else "mscale_all_dim" if scaling.mscale is None else "mscale pair"
    block.reading.find(
        "engines-mscale",
        key=block.view.key("mscale_all_dim" if scaling.mscale is None else "mscale"),
        seen=f"mscale {_or_none(scaling.mscale)}, mscale_all_dim {_or_none(scaling.mscale_all_dim)}",
        right=f"{scaling.cos_sin_factor:.9g} on cos and sin, as transformers computes it",
        message=f"a {lone} that is alone or 0 is unused by transformers (cos and sin times "
        f"{scaling.cos_sin_factor:.9g}); Megatron counts 0 as given, the ONNX Runtime builder takes a lone mscale as "
        f"the multiplier itself ({_or_none(scaling.mscale)}). Give both, or attention_factor.",
    )


def _or_none(value: float | None) -> str:
    return "absent" if value is None else f"{value:g}"


def _longrope(block: Block) -> Scaling:
    original, stated = _original_length(block)
    lists: dict[str, tuple[float, ...]] = {}
    for name in ("short_factor", "long_factor"):
        values = block.view.numbers(name, at_most=MAX_HEAD_DIM, above=0)
        if values is None:
            raise _missing(block, name)
        block.taken(name)
        if len(values) != block.rotary_dim // 2:
            raise block.reading.fail(
                "list-length",
                key=block.view.key(name),
                seen=f"{len(values)} entries",
                right=f"rotary_dim/2 = {block.rotary_dim // 2} entries",
                message=f"{block.view.key(name)} has {len(values)} entries; it needs one for each pair, "
                f"rotary_dim/2 = {block.rotary_dim // 2}. Check the list and the rotary width.",
            )
        lists[name] = values
    factor = _optional(block, "factor", above=0)
    if factor is not None:
        _check_ratio(block, factor, original, stated)
    attention_factor = _optional(block, "attention_factor", above=0)
    mscales = {name: _optional(block, name, above=0) for name in ("short_mscale", "long_mscale")}
    if attention_factor is not None and not any(mscales.values()) and original > 1:
        derived = _derived_magnitude(block, factor, original)
        if derived is not None and not math.isclose(attention_factor, derived):
            block.reading.find(
                "engines-attention-factor",
                key=block.view.key("attention_factor"),
                seen=f"{attention_factor:g}",
                right=f"{attention_factor:g} on cos and sin, verbatim",
                message=f"attention_factor {attention_factor:g} is taken verbatim; vLLM does not read it in longrope "
                f"scaling and applies {derived:.9g}.",
            )
    if lists["short_factor"] != lists["long_factor"]:
        block.reading.find(
            "longrope-switch",
            key=block.view.key("original_max_position_embeddings"),
            seen=f"switch at {original} tokens",
            right="one list for a whole sequence",
            message=f"a sequence that grows past {original} tokens switches from short_factor to long_factor: keys "
            "cached before the switch were turned with the other list. Turn them anew, or start with the long list.",
        )
    if any(mscales.values()):
        block.reading.find(
            "engines-longrope",
            key=block.view.key("long_mscale"),
            seen=f"short_mscale {_or_none(mscales['short_mscale'])}, long_mscale {_or_none(mscales['long_mscale'])}",
            right="these factors on cos and sin",
            message="short_mscale and long_mscale set the factor on cos and sin for short and long sequences in "
            "Phi-3.5-MoE's code and vLLM; other engines ignore them and take sqrt(1 + ln s / ln L0).",
        )
    return LongRope(
        short_factor=lists["short_factor"],
        long_factor=lists["long_factor"],
        original_max_position_embeddings=original,
        factor=factor,
        attention_factor=attention_factor,
        **mscales,
    )


def _derived_magnitude(block: Block, factor: float | None, original: int) -> float | None:
    """Give the magnitude of LongRoPE that stands where none is stated, None where the lengths do not tell it."""
    if factor is None and block.max_position_embeddings is not None:
        factor = block.max_position_embeddings / original
    if factor is None:
        return None
    return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0


def _llama3(block: Block) -> Scaling:
    low = _required(block, "low_freq_factor", above=0)
    high = _required(block, "high_freq_factor", above=0)
    factor = _required(block, "factor", above=0)
    _check_below_one(block, factor)
    original, _ = _original_length(block, may_default=False)
    if low == high:
        block.reading.find(
            "ramp-empty",
            key=block.view.key("high_freq_factor"),
            seen=f"low_freq_factor = high_freq_factor = {low:g}",
            right=f"a hard step at a wavelength of {original / low:g} positions",
            message=f"low_freq_factor and high_freq_factor are both {low:g}, so there is no ramp: pairs are kept or "
            "divided by the whole factor. The formula divides by their difference; code without a guard gets NaN on a "
            "pair that lies on the border.",
        )
    return Llama3(factor=factor, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=original)


def _proportional(block: Block) -> Scaling:
    factor = _optional(block, "factor", above=0)
    fraction = block.partial_rotary_factor
    block.reading.find(
        "engines-partial",
        key=block.view.key("partial_rotary_factor"),
        seen=_or_none(fraction),
        right="pairs (i, i + D/2), exponents over D, the rest still",
        message="partial_rotary_factor has two meanings: in proportional scaling the pairs and exponents are those of "
        "the whole head and the rest keeps still; elsewhere the width itself shrinks. Engines that read it the other "
        "way turn the wrong channels; vLLM and SGLang ignore factor here.",
    )
    return Proportional(
        partial_rotary_factor=1.0 if fraction is None else fraction, factor=1.0 if factor is None else factor
    )


_YARN_KEYS = frozenset(
    {
        "factor",
        "original_max_position_embeddings",
        "beta_fast",
        "beta_slow",
        "truncate",
        "attention_factor",
        "attn_factor",
        "mscale",
        "mscale_all_dim",
        "llama_4_scaling_beta",
    }
)
READERS: Mapping[str, tuple[Callable[[Block], Scaling], frozenset[str]]] = {
    "default": (_default, frozenset()),
    "linear": (_linear, frozenset({"factor"})),
    "ntk": (_ntk, frozenset({"factor"})),
    "dynamic": (_dynamic, frozenset({"factor"})),
    "yarn": (_yarn, _YARN_KEYS),
    "longrope": (
        _longrope,
        frozenset(
            {
                "short_factor",
                "long_factor",
                "original_max_position_embeddings",
                "factor",
                "attention_factor",
                "short_mscale",
                "long_mscale",
            }
        ),
    ),
    "llama3": (
        _llama3,
        frozenset({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}),
    ),
    "proportional": (_proportional, frozenset({"factor"})),
}
