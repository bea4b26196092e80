"""The description of one rotary position embedding, every convention explicit."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._checks import (
    MAX_HEAD_DIM,
    MAX_POSITION,
    check_schema,
    choice,
    fields_from_dict,
    fields_to_dict,
    real,
    shown,
    whole,
)
from .axes import AXES, Axes, Single, axes_from_dict, axes_to_dict
from .errors import RopewalkError
from .pairs import Pairs
from .scaling import SCALINGS, Default, Scaling, scaling_from_dict, scaling_to_dict

SCHEMA = "ropewalk.rope/1"
PAIRINGS = ("half", "interleaved", "hybrid_tile")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """What a config says about one rotary embedding: frozen, hashable, and always resolvable to Pairs.

    Attributes:
        head_dim: D, channels of a head (for MLA: of its rope part alone).
        rotary_dim: R, channels that turn; None means all from rotary_start on.
        rotary_start: the first channel that turns.
        rope_theta: θ, the base of the frequencies θ^(-2i/R).
        pairing: ``"half"``: channels (i, i + R/2); ``"interleaved"``: (2i, 2i + 1); ``"hybrid_tile"``: adjacent
            channels over a tiled table of angles, V-JEPA 2's map, which is no rotation.
        direction: +1, or -1 for an angle of -m·θ_i (nanochat).
        scaling: one of ropewalk.scaling's parameter sets.
        axes: one of ropewalk.axes' rules.
        odd: ``"refuse"`` an odd width, or ``"pass"`` its last channel through unchanged.
        max_position_embeddings: tokens of the trained or admitted context, or None where unknown.

    Raises:
        RopewalkError: for values out of range, or a scaling or axes that do not fit the width.

    >>> Rope(head_dim=8, rope_theta=10000.0, pairing="half").pairs().inv_freq.round(12).tolist()
    [1.0, 0.1, 0.01, 0.001]
    """

    head_dim: int
    rope_theta: float
    pairing: str
    rotary_dim: int | None = None
    rotary_start: int = 0
    direction: int = 1
    scaling: Scaling = Default()
    axes: Axes = Single()
    odd: str = "refuse"
    max_position_embeddings: int | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("head_dim", whole("head_dim", self.head_dim, at_least=2, at_most=MAX_HEAD_DIM))
        put("rotary_start", whole("rotary_start", self.rotary_start, at_most=self.head_dim - 2))
        room = self.head_dim - self.rotary_start
        width = room if self.rotary_dim is None else self.rotary_dim
        put("rotary_dim", whole("rotary_dim", width, at_least=2, at_most=MAX_HEAD_DIM))
        put("rope_theta", real("rope_theta", self.rope_theta, above=0))
        choice("pairing", self.pairing, PAIRINGS)
        put("direction", choice("direction", self.direction, (1, -1)))
        choice("odd", self.odd, ("refuse", "pass"))
        for name, families in (("scaling", SCALINGS), ("axes", AXES)):
            if not isinstance(getattr(self, name), tuple(families.values())):
                known = ", ".join(family.__name__ for family in families.values())
                raise RopewalkError(f"{name} must be one of {known}, got {shown(getattr(self, name))}.")
        if self.max_position_embeddings is not None:
            length = whole("max_position_embeddings", self.max_position_embeddings, at_least=1, at_most=MAX_POSITION)
            put("max_position_embeddings", length)
        if self.width > room or (self.width % 2 and self.odd == "refuse"):
            raise RopewalkError(
                f"rotary_dim must be even and fit into the head, got rotary_dim={self.width}, "
                f"rotary_start={self.rotary_start}, head_dim={self.head_dim}. "
                "Correct the head width or partial_rotary_factor, or pass an odd channel through with odd='pass'."
            )
        if self.width % 2 and not isinstance(self.axes, Single):
            raise RopewalkError(f"an odd rotary_dim is possible with a single axis only, got {self.width}.")
        self.pairs()

    @property
    def width(self) -> int:
        """R, the rotary_dim, as a number."""
        assert self.rotary_dim is not None
        return self.rotary_dim

    @property
    def num_pairs(self) -> int:
        """P, how many pairs there are."""
        return self.width // 2

    @property
    def length_dependent(self) -> bool:
        """Whether the pairs change with the number of tokens (dynamic NTK and LongRoPE)."""
        return self.scaling.length_dependent

    def pairs(self, length: int | None = None) -> Pairs:
        """Resolve the description to its table of pairs.

        Args:
            length: tokens in the sequence; only dynamic NTK and LongRoPE look at it. None means at or below the
                trained length.

        Raises:
            RopewalkError: for a length that is no whole number, or one that takes the frequencies out of float64.

        >>> Rope(head_dim=4, rope_theta=100.0, pairing="interleaved").pairs().to_dict()["second"]
        [1, 3]
        """
        return _resolved(self, None if length is None else whole("length", length))

    def _resolve(self, length: int | None) -> Pairs:
        plan = self.axes.plan(self.width)
        ladders = [
            self.scaling.frequencies(
                self.rope_theta, width, length=length, max_position_embeddings=self.max_position_embeddings
            )
            for width in plan.ladders
        ]
        inv_freq = np.concatenate([ladder.inv_freq for ladder in ladders])[plan.entry]
        if self.direction < 0:
            inv_freq = 0.0 - inv_freq  # not -inv_freq: a still pair keeps a plain 0
        first, second = self._channels(plan.blocks)
        axis, second_inv_freq = plan.axis, None
        if self.pairing == "hybrid_tile":
            even, odd = self._tiled(plan.blocks)
            if not np.array_equal(axis[even], axis[odd]):
                raise RopewalkError(
                    "hybrid_tile pairing joins channels of one axis only; for several axes give each its own block: "
                    "axes=Ladders(widths=…, pairing_within='axis')."
                )
            axis, inv_freq, second_inv_freq = axis[even], inv_freq[even], inv_freq[odd]
        return Pairs(
            first=first,
            second=second,
            axis=axis,
            inv_freq=inv_freq,
            second_inv_freq=second_inv_freq,
            cos_sin_factor=ladders[0].cos_sin_factor,
            softmax_factor=ladders[0].softmax_factor,
        )

    def _channels(self, blocks: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        first, second, start = [], [], self.rotary_start
        for width in blocks:
            steps = np.arange(width // 2)
            if self.pairing == "half":
                first.append(start + steps)
                second.append(start + steps + width // 2)
            else:
                first.append(start + 2 * steps)
                second.append(start + 2 * steps + 1)
            start += width
        return np.concatenate(first), np.concatenate(second)

    @staticmethod
    def _tiled(blocks: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give, for the even and odd channel of each adjacent pair, its entry in a table tiled in each block.

        Source: V-JEPA 2's `rotate_queries_or_keys`, which repeats the half-width table whole and rotates neighbours.
        """
        even, odd, start = [], [], 0
        for width in blocks:
            tiled = start + np.tile(np.arange(width // 2), 2)
            even.append(tiled[0::2])
            odd.append(tiled[1::2])
            start += width // 2
        return np.concatenate(even), np.concatenate(odd)

    def replace(self, **changes: Any) -> "Rope":
        """Give a copy with some fields changed, validated anew; a width that followed from head_dim stays as it is."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Give the description as plain values for JSON, without loss; from_dict reads it back."""
        data = {"schema": SCHEMA, **fields_to_dict(self)}
        return {**data, "scaling": scaling_to_dict(self.scaling), "axes": axes_to_dict(self.axes)}

    @classmethod
    def from_dict(cls, data: object) -> "Rope":
        """Build a Rope from what to_dict gives.

        Raises:
            RopewalkError: for another schema, unknown or missing keys, or values out of range.
        """
        check_schema(data, SCHEMA, "a rope")
        given = fields_from_dict(cls, data, "a rope", ignore=("schema",))
        if "scaling" in given:
            given["scaling"] = scaling_from_dict(given["scaling"])
        if "axes" in given:
            given["axes"] = axes_from_dict(given["axes"])
        return cls(**given)


@lru_cache(maxsize=256)
def _resolved(rope: Rope, length: int | None) -> Pairs:
    """Resolve a description once: both it and its table are frozen."""
    return rope._resolve(length)
