"""Which channels turn together, and whose ladder they take: every regular geometry that a table of pairs may have."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from ..axes import Axes, Ladders, Sections, Single, Strided
from ..errors import RopewalkError
from ..fitting.numbers import Target
from ..rope import Rope
from ._fitting_measured import Measured

HYBRID_REPEAT = "hybrid_repeat"  # half pairs over a table whose entries are doubled in place: no Rope, a known fault
_NAMES = {2: ("h", "w"), 3: ("t", "h", "w")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """A regular arrangement that holds every measured pair.

    Attributes:
        pairing: as Rope's, or HYBRID_REPEAT.
        width: R in channels.
        start: the first channel.
        axes: the rule of the axes.
        odd: as Rope's.
        direction: as Rope's; +1 where pairs disagree.
        target: the measured frequencies in this arrangement, pairs that were not measured as still.
        turning: how many pairs of one ladder turn, where only its first ones do; else None.
    """

    pairing: str
    width: int
    start: int
    axes: Axes
    odd: str
    direction: int
    target: Target
    turning: int | None

    def rope(self, head_dim: int, rope_theta: float, **more: object) -> Rope | None:
        """Describe a rope of this geometry, or None where no description has it."""
        if self.pairing == HYBRID_REPEAT:
            return None
        try:
            return Rope(
                head_dim=head_dim,
                rope_theta=rope_theta,
                pairing=self.pairing,
                rotary_dim=self.width,
                rotary_start=self.start,
                direction=self.direction,
                axes=self.axes,
                odd=self.odd,
                **more,  # type: ignore[arg-type]
            )
        except RopewalkError:
            return None


def place(
    measured: Measured, head_dim: int, *, pairing: str, width: int, start: int, axes: Axes, odd: str = "refuse"
) -> Geometry | None:
    """Put the measured pairs into an arrangement; None where one of them has no place there."""
    try:
        plain = Rope(
            head_dim=head_dim,
            rope_theta=float(np.e),
            pairing="half" if pairing == HYBRID_REPEAT else pairing,
            rotary_dim=width,
            rotary_start=start,
            axes=axes,
            odd=odd,
        ).pairs()
        plan = axes.plan(width)
    except RopewalkError:
        return None
    hybrid = pairing in ("hybrid_tile", HYBRID_REPEAT)
    if hybrid != (measured.second_freq is not None):
        return None
    rows = {pair: row for row, pair in enumerate(zip(plain.first.tolist(), plain.second.tolist(), strict=True))}
    where = [rows.get(pair) for pair in zip(measured.first.tolist(), measured.second.tolist(), strict=True)]
    if None in where:
        return None
    at = np.array(where, dtype=np.int64)
    if not np.array_equal(plain.axis[at], measured.axis):
        return None
    count = len(plain)
    widths = np.repeat(plan.ladders, [one // 2 for one in plan.ladders])[plan.entry]
    steps = np.concatenate([np.arange(one // 2) for one in plan.ladders])[plan.entry]
    if pairing == HYBRID_REPEAT:
        if len(plan.ladders) != 1:
            return None
        indices = [np.arange(count) // 2, (np.arange(count) + count) // 2]
    elif hybrid:
        assert plain.second_inv_freq is not None
        indices = [
            np.rint(-np.log(column) * widths / 2).astype(np.int64) for column in (plain.inv_freq, plain.second_inv_freq)
        ]
    else:
        indices = [steps]
    direction = measured.direction or 1
    slowest = np.argsort(np.abs(measured.freq))[:3]
    unseen = float(measured.error[slowest].max()) if len(slowest) else 0.0  # what a pair may turn without being seen
    freqs, errors, seen = [], [], np.zeros(count, dtype=bool)
    seen[at] = True
    for column in (measured.freq, measured.second_freq)[: len(indices)]:
        assert column is not None
        freq, error = np.zeros(count), np.full(count, unseen)
        freq[at] = column * direction
        larger = (
            np.abs(column) / np.maximum(np.abs(measured.freq), 1e-6 * np.abs(column).max() + 1e-300) if hybrid else 1.0
        )
        error[at] = measured.error * np.maximum(larger, 1.0)  # of a pair, told by its first channel
        freqs.append(freq)
        errors.append(error)
    target = Target(
        freq=np.concatenate(freqs),
        error=np.concatenate(errors),
        index=np.concatenate(indices),
        width=np.tile(widths, len(indices)),
        seen=np.tile(seen, len(indices)),
    )
    still = np.abs(target.freq) <= target.room
    turning = None
    if len(plan.ladders) == 1 and still.any() and not still.all():
        first_still = int(target.index[still].min())
        turning = first_still if bool(still[target.index >= first_still].all()) else None
    return Geometry(
        pairing=pairing,
        width=width,
        start=start,
        axes=axes,
        odd=odd,
        direction=direction,
        target=target,
        turning=turning,
    )


def geometries(measured: Measured, head_dim: int, expect: Rope | None = None) -> Iterator[Geometry]:
    """Give every arrangement that holds the measured pairs: the expected one first, then from narrow to wide."""
    seen = set()
    if expect is not None:
        own = (expect.pairing, expect.width, expect.rotary_start, expect.axes, expect.odd)
        seen.add(own)
        found = _placed(measured, head_dim, own)
        if found is not None:
            yield found
    if not len(measured.first):
        return
    for shape in _shapes(measured, head_dim, expect):
        if shape not in seen:
            seen.add(shape)
            found = _placed(measured, head_dim, shape)
            if found is not None:
                yield found


def _placed(measured: Measured, head_dim: int, shape: tuple[str, int, int, Axes, str]) -> Geometry | None:
    pairing, width, start, axes, odd = shape
    return place(measured, head_dim, pairing=pairing, width=width, start=start, axes=axes, odd=odd)


def _shapes(measured: Measured, head_dim: int, expect: Rope | None) -> Iterator[tuple[str, int, int, Axes, str]]:
    start = int(measured.first.min())
    end = int(measured.second.max()) + 1
    room = head_dim - start
    apart = np.unique(measured.second - measured.first)
    hybrid = measured.second_freq is not None
    count = max(int(measured.axis.max()) + 1, 1 if expect is None else expect.axes.num_axes)
    if len(apart) == 1:
        gap = int(apart[0])
        half = HYBRID_REPEAT if hybrid else "half"
        near = "hybrid_tile" if hybrid else "interleaved"
        likes_near = gap == 1 and (expect is None or expect.pairing != "half" or len(measured.first) > 1)
        widths: list[tuple[str, int]] = []
        if gap == 1:
            tight = end - start
            wider = [] if expect is None else [expect.width, expect.width // 4 * 2]
            usual = {room - room % 2, *(one for one in (*wider, head_dim // 2) if one % 2 == 0)}
            widths += [(near, one) for one in (tight, *sorted(usual)) if tight <= one <= room]
        if 2 * gap <= room:
            widths.append((half, 2 * gap))
        if gap == 1 and not likes_near:
            widths.reverse()
        for pairing, width in widths:
            for axes in _axes(measured, pairing, width, start, count, expect):
                yield pairing, width, start, axes, "refuse"
        if count == 1:
            yield from ((pairing, width + 1, start, Single(), "pass") for pairing, width in widths if width < room)
    if not hybrid and count > 1:  # each axis its own block of halves
        blocks, at = [], start
        for axis in dict.fromkeys(measured.axis.tolist()):
            rows = measured.axis == axis
            gap = int((measured.second - measured.first)[rows][0])
            if int(measured.first[rows].min()) != at:
                return
            blocks.append((axis, 2 * gap))
            at += 2 * gap
        if len(blocks) == count:
            order = tuple(axis for axis, _ in blocks)
            yield "half", at - start, start, _ladders(blocks, count, order, "axis", "blocks", expect), "refuse"


def _axes(measured: Measured, pairing: str, width: int, start: int, count: int, expect: Rope | None) -> Iterator[Axes]:
    """Give the rules that deal the pairs of this width to the axes as they were measured."""
    if count == 1:
        yield Single()
        return
    pairs = width // 2
    step = 1 if pairing in ("half", HYBRID_REPEAT) else 2
    pattern = np.full(pairs, -1, dtype=np.int64)
    at = (measured.first - start) // step
    if (at >= pairs).any():
        return
    pattern[at] = measured.axis
    known = pattern >= 0
    if not known.all():  # what keeps still is taken for the run before it
        pattern[~known] = pattern[np.maximum.accumulate(np.where(known, np.arange(pairs), 0))][~known]
    names = _names(count, expect)
    totals = np.bincount(pattern, minlength=count)
    tries: list[Axes] = [] if expect is None or expect.axes.num_axes != count else [expect.axes]
    sections = [tuple(totals.tolist())]
    if expect is not None and isinstance(expect.axes, Sections):
        sections.insert(0, expect.axes.sections)
    for counts in sections:
        for arrangement in ("chunked", "interleaved", "alternating"):
            if arrangement != "alternating" or (count == 3 and counts[1] == counts[2]):
                tries.append(Sections(sections=counts, arrangement=arrangement, names=names))
    if (totals > 0).all():
        for order in permutations(range(count)) if count <= 4 else (tuple(range(count)),):
            blocks = [(axis, 2 * int(totals[axis])) for axis in order]
            tries.append(_ladders(blocks, count, order, "head", "blocks", expect))
            if len(set(totals.tolist())) == 1:
                tries.append(_ladders(blocks, count, order, "head", "alternate", expect))
        if pairs % count == 0:
            tries.append(Strided(axes=count, names=names))
    for axes in tries:
        try:
            plan = axes.plan(width)
        except RopewalkError:
            continue
        if np.array_equal(plan.axis[known], pattern[known]):
            yield axes


def _ladders(
    blocks: list[tuple[int, int]],
    count: int,
    order: tuple[int, ...],
    within: str,
    arrangement: str,
    expect: Rope | None,
) -> Ladders:
    return Ladders(
        widths=tuple(width for _, width in blocks),
        pairing_within=within,
        arrangement=arrangement,
        names=_names(count, expect),
        order=order,
    )


def _names(count: int, expect: Rope | None) -> tuple[str, ...]:
    declared = getattr(None if expect is None else expect.axes, "names", ())
    if len(declared) == count:
        return declared
    return _NAMES.get(count, tuple(f"axis {number}" for number in range(count)))
