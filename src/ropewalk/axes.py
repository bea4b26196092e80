"""Which position axis drives which pair, and which entry of which frequency ladder it takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ._checks import choice, fields_from_dict, fields_to_dict, items, shown, whole
from .errors import RopewalkError


class Plan(NamedTuple):
    """How ladders become pairs.

    Attributes:
        ladders: widths in channels of the ladders to build, one after another.
        entry: [P] int64, the entry of the joined ladders that each pair takes.
        axis: [P] int64, the row of position_ids that drives each pair.
        blocks: widths in channels of the stretches within which channels are paired; their sum is rotary_dim.
    """

    ladders: tuple[int, ...]
    entry: NDArray[np.int64]
    axis: NDArray[np.int64]
    blocks: tuple[int, ...]


class Axes(Protocol):
    """A rule that deals the pairs of a rope to position axes.

    Attributes:
        kind: the rule's name in JSON.
    """

    kind: ClassVar[str]

    @property
    def num_axes(self) -> int:
        """How many rows position_ids have."""
        ...

    def plan(self, rotary_dim: int) -> Plan:
        """Give the plan for rotary_dim channels, or raise where the rule does not fit that width."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """One position axis: the text of every ordinary language model.

    >>> Single().plan(8).entry.tolist()
    [0, 1, 2, 3]
    """

    kind: ClassVar[str] = "single"

    @property
    def num_axes(self) -> int:
        """How many rows position_ids have."""
        return 1

    def plan(self, rotary_dim: int) -> Plan:
        """Deal every pair to the only axis."""
        pairs = np.arange(rotary_dim // 2)
        return Plan((rotary_dim,), pairs, np.zeros_like(pairs), (rotary_dim,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """M-RoPE: one ladder across the whole width, its pairs dealt to several axes.

    Attributes:
        sections: declared pairs for each axis, in the order of names; their sum is rotary_dim/2. What the
            interleaved rule makes of them may differ: see realised.
        arrangement: ``"chunked"``: the first sections[0] pairs to axis 0, the next to axis 1 … (Qwen2-VL).
            ``"interleaved"``: pair i to axis a in 1, 2, … if i mod A = a and i < A·sections[a], else to axis 0
            (Qwen3-VL). ``"alternating"``: axes 1 and 2 alternate over the first pairs, axis 0 takes the tail
            (Ernie 4.5-VL, whose file lists h, w, t).
        names: of the axes, in the order of the rows of position_ids.

    Source: transformers 5.24, `Qwen2VLRotaryEmbedding`, `Qwen3VLTextRotaryEmbedding` and
    `Ernie4_5_VLMoeTextRotaryEmbedding`.

    >>> Sections(sections=(2, 1, 1), arrangement="interleaved").plan(8).axis.tolist()
    [0, 1, 2, 0]
    """

    sections: tuple[int, ...]
    arrangement: str = "chunked"
    names: tuple[str, ...] = ("t", "h", "w")

    kind: ClassVar[str] = "sections"

    def __post_init__(self) -> None:
        checked = tuple(whole("sections", entry, at_most=65_536) for entry in items("sections", self.sections))
        object.__setattr__(self, "sections", checked)
        object.__setattr__(self, "names", _names(self.names, len(checked)))
        choice("arrangement", self.arrangement, ("chunked", "interleaved", "alternating"))
        if self.arrangement == "alternating" and (len(checked) != 3 or checked[1] != checked[2]):
            raise RopewalkError(
                f"alternating sections need three axes, the last two equally large, got {shown(list(checked))}."
            )

    @property
    def num_axes(self) -> int:
        """How many rows position_ids have."""
        return len(self.sections)

    def plan(self, rotary_dim: int) -> Plan:
        """Deal the pairs of one ladder to the axes; the sections must sum to rotary_dim/2."""
        total = sum(self.sections)
        if total * 2 != rotary_dim:
            raise RopewalkError(
                f"sections must sum to rotary_dim/2 = {rotary_dim / 2:g}, got {shown(list(self.sections))} "
                f"(sum {total}), rotary_dim={rotary_dim}. Correct the sections or partial_rotary_factor."
            )
        pairs = np.arange(total)
        return Plan((rotary_dim,), pairs, self._axis(pairs), (rotary_dim,))

    def realised(self, rotary_dim: int) -> tuple[int, ...]:
        """Give how many pairs each axis really gets, which the interleaved rule may make differ from the sections.

        >>> Sections(sections=(6, 8, 6), arrangement="interleaved").realised(40)
        (7, 7, 6)
        """
        counts = np.bincount(self.plan(rotary_dim).axis, minlength=self.num_axes)
        return tuple(int(count) for count in counts)

    def _axis(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.arrangement == "chunked":
            return np.repeat(np.arange(self.num_axes), self.sections)
        if self.arrangement == "alternating":
            return np.where(pairs < 2 * self.sections[1], 1 + pairs % 2, 0)
        axis = pairs % self.num_axes
        limits = self.num_axes * np.array(self.sections)
        return np.where((axis > 0) & (pairs < limits[axis]), axis, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladders:
    """Independent ladders: every axis restarts at the fastest frequency, with its own width.

    Attributes:
        widths: channels of each axis; their sum is rotary_dim.
        pairing_within: ``"head"``: channels are paired over the whole width (Qwen2-VL's vision tower);
            ``"axis"``: inside each axis's own block of channels (ChatGLM-6B, Flux).
        arrangement: ``"blocks"``: the pairs of axis 0, then those of axis 1 …; ``"alternate"``: the axes take turns
            pair by pair (equal widths only).
        names: of the axes, in the order of the rows of position_ids.
        order: the row of position_ids that drives each ladder; None takes them in turn. Kimi K2.5's vision tower has
            rows (h, w) and puts the ladder of w first: (1, 0).

    Source: transformers 5.24, `Qwen2VLVisionRotaryEmbedding`; ChatGLM-6B's own modeling_chatglm.py (its halves);
    diffusers, `FluxPosEmbed`.

    >>> Ladders(widths=(4, 8)).plan(12).axis.tolist()
    [0, 0, 1, 1, 1, 1]
    """

    widths: tuple[int, ...]
    pairing_within: str = "head"
    arrangement: str = "blocks"
    names: tuple[str, ...] = ("h", "w")
    order: tuple[int, ...] | None = None

    kind: ClassVar[str] = "ladders"

    def __post_init__(self) -> None:
        checked = tuple(whole("widths", entry, at_least=2, at_most=65_536) for entry in items("widths", self.widths))
        object.__setattr__(self, "widths", checked)
        object.__setattr__(self, "names", _names(self.names, len(checked)))
        choice("pairing_within", self.pairing_within, ("head", "axis"))
        choice("arrangement", self.arrangement, ("blocks", "alternate"))
        if self.order is not None:
            order = tuple(whole("order", entry, at_most=len(checked) - 1) for entry in items("order", self.order))
            if sorted(order) != list(range(len(checked))):
                raise RopewalkError(f"order must name each of {len(checked)} rows once, got {list(order)}.")
            in_turn = order == tuple(range(len(checked)))
            object.__setattr__(self, "order", None if in_turn else order)  # one table, one description
        if any(width % 2 for width in checked):
            raise RopewalkError(f"every axis needs an even width, got widths {shown(list(checked))}.")
        if self.arrangement == "alternate" and (len(set(checked)) != 1 or self.pairing_within == "axis"):
            raise RopewalkError(
                "alternating axes need equal widths and pairing_within='head', got widths "
                f"{shown(list(checked))}, pairing_within={self.pairing_within!r}."
            )

    @property
    def num_axes(self) -> int:
        """How many rows position_ids have."""
        return len(self.widths)

    def plan(self, rotary_dim: int) -> Plan:
        """Deal the pairs of the joined ladders; the widths must sum to rotary_dim."""
        if sum(self.widths) != rotary_dim:
            raise RopewalkError(
                f"widths must sum to rotary_dim = {rotary_dim}, got {shown(list(self.widths))} "
                f"(sum {sum(self.widths)}). Correct the widths or rotary_dim."
            )
        entry = np.arange(rotary_dim // 2)
        axis = np.repeat(np.arange(self.num_axes), [width // 2 for width in self.widths])
        if self.arrangement == "alternate":
            entry = entry.reshape(self.num_axes, -1).T.reshape(-1)
            axis = axis[entry]
        if self.order is not None:
            axis = np.array(self.order)[axis]
        return Plan(self.widths, entry, axis, self.widths if self.pairing_within == "axis" else (rotary_dim,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Strided:
    """One ladder dealt out like cards: axis a takes entries a, a + A, a + 2A …; pairs stand axis by axis (Pixtral).

    Attributes:
        axes: A, how many axes.
        names: of the axes, in the order of the rows of position_ids.

    Source: transformers 5.24, `PixtralVisionRotaryEmbedding`.

    >>> Strided().plan(8).entry.tolist(), Strided().plan(8).axis.tolist()
    ([0, 2, 1, 3], [0, 0, 1, 1])
    """

    axes: int = 2
    names: tuple[str, ...] = ("h", "w")

    kind: ClassVar[str] = "strided"

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", whole("axes", self.axes, at_least=1, at_most=65_536))
        object.__setattr__(self, "names", _names(self.names, self.axes))

    @property
    def num_axes(self) -> int:
        """How many rows position_ids have."""
        return self.axes

    def plan(self, rotary_dim: int) -> Plan:
        """Deal one ladder to the axes in turn; the axes must divide rotary_dim/2."""
        pairs = rotary_dim // 2
        if pairs % self.axes:
            raise RopewalkError(
                f"the number of strided axes must divide rotary_dim/2, got {self.axes} axes, {pairs} pairs "
                f"(rotary_dim={rotary_dim})."
            )
        entry = np.arange(pairs).reshape(-1, self.axes).T.reshape(-1)
        axis = np.repeat(np.arange(self.axes), pairs // self.axes)
        return Plan((rotary_dim,), entry, axis, (rotary_dim,))


AXES: dict[str, Any] = {cls.kind: cls for cls in (Single, Sections, Ladders, Strided)}


def axes_to_dict(axes: Axes) -> dict[str, Any]:
    """Give axes as plain values, their kind first."""
    return {"kind": axes.kind, **fields_to_dict(axes)}


def axes_from_dict(data: object) -> Axes:
    """Build axes from what axes_to_dict gives; unknown or missing keys are an error."""
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if not isinstance(kind, str) or kind not in AXES:
        given = shown(data if kind is None else kind)
        raise RopewalkError(f"the kind of axes must be one of {', '.join(AXES)}, got {given}.")
    return AXES[kind](**fields_from_dict(AXES[kind], data, f"{kind} axes", ignore=("kind",)))


def _names(names: object, count: int) -> tuple[str, ...]:
    given = items("names", names)
    if len(given) != count or not all(isinstance(name, str) for name in given):
        raise RopewalkError(f"names must hold one word for each of {count} axes, got {shown(list(given))}.")
    return given
