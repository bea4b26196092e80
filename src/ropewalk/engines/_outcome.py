"""What a rule comes to, and what the rules share."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ..axes import Sections, Single
from ..pairs import Pairs
from ..rope import Rope
from ..scaling import LongRope, Proportional, Scaling, Yarn
from ..scaling._frequencies import ladder, magnitude
from .sources import Source

PHI3 = frozenset({"phi3", "phi3_v", "phi4mm", "phi4_multimodal", "phimoe"})


@dataclass(slots=True)
class Outcome:
    """What an engine makes of a source.

    Attributes:
        rope: the description that amounts to its reading, or None.
        pairs: the table itself, where no description has it.
        refused: why it does not load the configuration, or None.
        notes: keys that it does not read, and what else it does otherwise.
    """

    rope: Rope | None = None
    pairs: Pairs | None = None
    refused: str | None = None
    notes: list[str] = field(default_factory=list)


def unread(source: Source, *names: str) -> Iterator[str]:
    """Say which of some keys the block holds and the engine ignores."""
    for name in names:
        if source.number(name) is not None:
            yield f"ignores {name}"


def or_default(value: float | None, default: float) -> float:
    """Give a value, or the default where there is none."""
    return default if value is None else value


def ratio_of(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    """Give g(s, mscale)/g(s, mscale_all_dim), an absent one counting as 0."""
    return magnitude(factor, mscale or 0.0) / magnitude(factor, mscale_all_dim or 0.0)


def own_magnitude(source: Source, scaling: Yarn) -> bool:
    """Say whether the magnitude comes from the architecture's own code (DeepSeek-V4), which an engine has to copy."""
    return scaling.attention_factor is not None and source.spelled == "yarn" and "attention_factor" not in source.block


def is_deepseek(source: Source) -> bool:
    """Say whether vLLM and SGLang take their DeepSeek classes."""
    return source.scale_softmax or source.spelled == "deepseek_yarn"


def deepseek(source: Source, scaling: Yarn, notes: list[str], *, multiplied: float) -> Yarn:
    """The yarn of vLLM's and SGLang's DeepSeek classes: mscale 1 and mscale_all_dim 0 where absent, always rounded."""
    notes += unread(source, "attention_factor")
    if not scaling.truncate:
        notes.append("ignores truncate and rounds")
    ratio = ratio_of(scaling.factor, or_default(scaling.mscale, 1.0), or_default(scaling.mscale_all_dim, 0.0))
    return replace(scaling, truncate=True, attention_factor=ratio * multiplied)


def weighted(source: Source, rope: Rope, scaling: Yarn, weight: float, notes: list[str]) -> Outcome:
    """Give a yarn rope whose kept pairs are weighted by extrapolation_factor."""
    described = rope.replace(scaling=scaling)
    if weight == 1 or scaling.factor == 1 or not isinstance(rope.axes, Single | Sections):
        return Outcome(rope=described, notes=notes)
    low, high = scaling.bounds(rope.rope_theta, rope.width)
    ramp = np.clip((np.arange(rope.num_pairs) - low) / ((high - low) or 0.001), 0, 1)
    kept = (1 - ramp) * weight
    plain = ladder(rope.rope_theta, rope.width)
    pairs = described.pairs()
    table = Pairs(
        first=pairs.first,
        second=pairs.second,
        axis=pairs.axis,
        inv_freq=rope.direction * (plain / scaling.factor * (1 - kept) + plain * kept),
        cos_sin_factor=pairs.cos_sin_factor,
        softmax_factor=pairs.softmax_factor,
    )
    return Outcome(pairs=table, notes=[*notes, f"weights kept pairs with extrapolation_factor {weight:g}"])


def by_lengths(source: Source, scaling: LongRope, notes: list[str]) -> LongRope:
    """LongRoPE with the magnitude of max_position_embeddings over the original length, whatever the block says."""
    longest = source.rope.max_position_embeddings
    if longest is None:
        return scaling
    notes += unread(source, "factor", "attention_factor")
    stretch = longest / scaling.original_max_position_embeddings
    return replace(scaling, factor=max(stretch, 1.0), attention_factor=None)


def without_mscales(scaling: LongRope, notes: list[str]) -> LongRope:
    """Give LongRoPE without the magnitudes of Phi-3.5-MoE."""
    if scaling.short_mscale is None and scaling.long_mscale is None:
        return scaling
    notes.append("ignores short_mscale and long_mscale")
    return replace(scaling, short_mscale=None, long_mscale=None)


def proportional_unscaled(scaling: Scaling, notes: list[str]) -> Scaling:
    """Give a scaling whose factor is left out where it is proportional."""
    if not isinstance(scaling, Proportional) or scaling.factor == 1:
        return scaling
    notes.append("ignores factor in proportional scaling")
    return replace(scaling, factor=1.0)
