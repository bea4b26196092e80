"""recover(): the table of pairs behind a function, found from what it makes of a few vectors."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pairs
from ._asking import Asker, Manner, find_manner
from ._climbing import Climb, climb, nonlinearity
from ._phases import wrapped
from ._structure import Structure, in_order, structure_of
from ._turns import angles_of_tables, axis_of, kind_of, ladders_of, of_two_axes, picked, standing_at_zero
from .box import Box, BoxFailure

_FAR = 4096  # lengths lost only beyond it are the failure of a sine and no other map


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a function turns out to be.

    Attributes:
        kind: "rotation" (two-angle maps included, see pairs.is_rotation), "identity", "reflection", "linear" (it mixes
            channels otherwise) or "nonlinear".
        pairs: rows for the channels that turn, first below second, inv_freq signed; None where there is no such table.
        inv_freq_error: [P] absolute uncertainty, radians a position.
        output_order: output channel j holds what channel output_order[j] would; None: the input's order.
        still: channels in no pair.
        still_factor: what still channels are multiplied by.
        offset: all positions are moved by this constant.
        heads_alike: whether every head gives the same.
        rows_alike: whether every row gives the same.
        turned_heads: the heads that the pairs were read from.
        still_heads: heads that do not turn while others do.
        manner: which position turns a token: "ids", "arange", "first", "heads", "head-ids" or "constant".
        residual: the largest deviation from these pairs on fresh vectors and positions, over the largest number given.
        identity_at_zero: whether position 0 changes nothing but size and order.
        quarter: whether every pair stands at a quarter turn at position 0 (cos and sin exchanged).
        tables_as_angles: whether cos and sin of cos and sin turn the pairs.
        two_axes: whether the two channels of a pair are turned by different axes.
        at_zero: [D, D] images of the unit vectors at position 0; None where it was not reached.
        linear_until: the largest position up to which every angle grows in proportion.
        largest: the largest position that was answered.
        limit: what stopped the search for larger positions, in words; "" where nothing did.
        length_change: (largest length with the first table, a length with another), or None.
        noise: the function's own resolution, as far as it is seen: at least that of its dtype.
        notes: whatever else was seen.
    """

    kind: str
    pairs: Pairs | None = None
    inv_freq_error: NDArray[np.float64] | None = None
    output_order: tuple[int, ...] | None = None
    still: tuple[int, ...] = ()
    still_factor: float = 1.0
    offset: float = 0.0
    heads_alike: bool = True
    rows_alike: bool = True
    turned_heads: tuple[int, ...] = ()
    still_heads: tuple[int, ...] = ()
    manner: str = "ids"
    residual: float = 0.0
    identity_at_zero: bool = True
    quarter: bool = False
    tables_as_angles: bool = False
    two_axes: bool = False
    at_zero: NDArray[np.float64] | None = None
    linear_until: int = 0
    largest: int = 0
    limit: str = ""
    length_change: tuple[int, int] | None = None
    noise: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def unsteady(self) -> bool:
        """Whether pairs turn somewhere and stand still from one position to the next."""
        if self.pairs is None or self.inv_freq_error is None or not len(self.pairs):
            return False
        return bool((np.abs(self.pairs.inv_freq) <= 4 * self.inv_freq_error).all())


def recover(box: Box, *, beyond: int = 0) -> Recovered:
    """Find the table of pairs behind a function.

    Args:
        box: around the function; its axes and max_position bound what is asked.
        beyond: every call holds a position of at least this: the table of long sequences, where it is another one.

    Returns:
        Recovered; frequencies to the function's resolution over the largest usable position.

    Raises:
        BoxFailure: when the function fails already at small positions.

    >>> import ropewalk
    >>> rope = ropewalk.Rope(head_dim=8, rope_theta=10000.0, pairing="interleaved")
    >>> found = recover(Box(lambda x, ids: ropewalk.rotate(x, ids, rope), head_dim=8))
    >>> found.kind, found.pairs.second.tolist(), found.pairs.inv_freq.round(6).tolist()
    ('rotation', [1, 3, 5, 7], [1.0, 0.1, 0.01, 0.001])
    """
    box.library  # noqa: B018  (finds out what fn takes, or fails)
    noise, added = nonlinearity(box)
    if added is not None:
        return Recovered(kind="nonlinear", noise=noise, notes=(added,))
    manner = find_manner(box, noise)
    asker = Asker(box, manner)
    known = Recovered(
        kind="identity",
        heads_alike=manner.heads_alike,
        rows_alike=manner.rows_alike,
        turned_heads=manner.heads,
        still_heads=manner.still_heads,
        manner=manner.kind,
        noise=noise,
    )
    near = _near_positions(manner, box)
    if beyond:
        near = np.append(near[near < beyond], beyond)
    structure = structure_of(asker.images(np.eye(box.head_dim), near), noise)
    known = replace(known, at_zero=structure.at_zero, still=tuple(structure.still.tolist()), largest=int(near[-1]))
    if structure.crowded:
        words = f"channel {structure.crowded[0]} mixes with several others"
        return replace(known, kind="linear", notes=(words,), still=())
    climbed = climb(asker, structure, near, beyond)
    structure = _completed(asker, structure, climbed, noise)
    if structure.crowded:
        return replace(known, kind="linear", notes=("channels mix differently at large positions",), still=())
    if not structure.first.size:
        return _without_pairs(known, structure, climbed, noise)
    if _stale(structure, climbed):
        climbed = climb(asker, structure, near, beyond)
    return _with_pairs(known, box, asker, structure, climbed)


def _near_positions(manner: Manner, box: Box) -> NDArray[np.int64]:
    if manner.kind == "heads":
        return np.arange(box.heads)
    near = np.arange(8) if manner.kind == "arange" else np.array([0, 1, 2, 3, 5, 8, 13])
    return near[near <= max(box.max_position, 1)]


def _completed(asker: Asker, structure: Structure, climb: Climb, noise: float) -> Structure:
    """Look once more, far out, for channels that seemed still: a slow pair shows itself there."""
    if not structure.still.size or asker.manner.kind in ("heads", "arange"):
        return structure
    seen = climb.images if structure.order is None else in_order(climb.images, structure.order)
    moving = np.ptp(seen[:, 2], axis=1).max(axis=0) > 16 * noise
    if not moving.any():
        return structure
    far = np.array([0, *climb.positions[climb.positions > 8][-3:]])
    return structure_of(asker.images(np.eye(asker.box.head_dim), far), noise)


def _stale(structure: Structure, climb: Climb) -> bool:
    """Whether the climb's vectors were those of another structure."""
    at = climb.images[0, :, 0] if structure.order is None else in_order(climb.images[0, :, 0], structure.order)
    seen = set(np.flatnonzero(np.abs(at[2]) > 1e-3).tolist())
    return bool(seen & {*structure.first.tolist(), *structure.second.tolist()})


def _without_pairs(known: Recovered, structure: Structure, climb: Climb, noise: float) -> Recovered:
    order = None if structure.order is None else tuple(int(c) for c in structure.order)
    last = int(climb.positions[-1])
    seen = climb.images if structure.order is None else in_order(climb.images, structure.order)
    factors = seen[:, 2]
    off = float(np.abs(factors - 1).max())
    if off <= 64 * noise:
        return replace(known, kind="identity", output_order=order, largest=last, linear_until=last)
    even = float(np.ptp(factors)) <= 64 * noise
    words = "channels are scaled and none turns" if even else "every channel is scaled by itself and none turns"
    return replace(known, kind="linear", still_factor=float(np.median(factors)), notes=(words,), output_order=order)


def _with_pairs(known: Recovered, box: Box, asker: Asker, structure: Structure, climb: Climb) -> Recovered:
    seen = climb.images if structure.order is None else in_order(climb.images, structure.order)
    first, second, noise = structure.first, structure.second, known.noise
    # [A, K, P]: each output channel of a pair as a complex number g·exp(i·angle)
    turns = (
        seen[:, 0][..., first] - 1j * seen[:, 1][..., first],
        seen[:, 1][..., second] + 1j * seen[:, 0][..., second],
    )
    radius = np.abs(np.stack(turns))
    if kept := _even_until(radius, climb.positions, noise):
        near = replace(climb, positions=climb.positions[:kept], images=climb.images[:, :, :kept])
        return _with_pairs(known, box, asker, structure, near)
    as_angles = angles_of_tables(turns, noise)
    factor = float(np.median(radius)) if not as_angles else 1.0
    rough = np.abs(radius / factor - 1).max()
    even = bool(rough <= 0.02 + 64 * noise) or as_angles
    grain = max(noise, float(rough)) if even and not as_angles else noise  # of tables rounded at the end
    ladders = [ladders_of(one, climb.positions, grain, as_angles) for one in turns]
    if mixed := of_two_axes(ladders, structure):
        return replace(known, kind="linear", two_axes=True, notes=(mixed,), still=tuple(structure.still.tolist()))
    axis, notes = axis_of(ladders, noise)
    columns = [picked(ladder, axis) for ladder in ladders]
    (inv_freq, error, until), (other, other_error, other_until) = columns
    error, until = np.maximum(error, other_error), np.minimum(until, other_until)
    rotation = bool((np.abs(inv_freq - other) <= 8 * error + 1e-9 * np.abs(inv_freq)).all())
    if rotation:
        inv_freq = (inv_freq + other) / 2
    at_zero = np.stack([one[0, 0] for one in turns])
    kind, extra = kind_of(seen, first, second, even, factor)
    offset, identity, quarter = standing_at_zero(at_zero, inv_freq, noise, kind)
    if as_angles:
        kind, identity = "linear", False
    pairs = Pairs(
        first=first,
        second=second,
        axis=axis,
        inv_freq=inv_freq,
        second_inv_freq=None if rotation else other,
        cos_sin_factor=factor,
    )
    still = structure.still
    found = replace(
        known,
        kind=kind,
        pairs=pairs,
        inv_freq_error=error,
        output_order=None if structure.order is None else tuple(int(c) for c in structure.order),
        still=tuple(still.tolist()),
        still_factor=float(np.median(seen[:, 2][..., still])) if still.size else 1.0,
        offset=offset,
        identity_at_zero=identity,
        quarter=quarter,
        tables_as_angles=as_angles,
        at_zero=structure.at_zero,
        linear_until=int(until.min()),
        largest=int(climb.positions[-1]),
        limit=climb.limit,
        length_change=climb.length_change,
        notes=(*notes, *extra),
    )
    return replace(found, residual=_residual(box, found))


def _even_until(radius: NDArray[np.float64], positions: NDArray[np.int64], noise: float) -> int:
    """Give how many positions keep lengths, where far ones alone do not (a sine that fails there); 0 otherwise."""
    rough = np.abs(radius / np.median(radius[:, :, :8]) - 1).max(axis=(0, 1, 3)) > 0.02 + 64 * noise
    first = int(rough.argmax()) if rough.any() else 0
    return first if first and positions[first] > _FAR else 0


def _residual(box: Box, found: Recovered) -> float:
    """Give the largest deviation from the pairs on fresh vectors and positions, over the largest number given."""
    if found.manner != "ids" or found.pairs is None or found.tables_as_angles or "tokens" in box.facts:
        return 0.0
    rng = np.random.default_rng(4)
    top = max(min(found.linear_until, 1000), 2)
    x = box.rounded(rng.standard_normal((1, 6, box.heads, box.head_dim)))
    ids = rng.integers(1, top, size=(box.axes, 1, 6))
    try:
        out = box.turn(x, ids if box.axes > 1 else ids[0, 0])
    except BoxFailure:
        return 0.0
    heads = list(found.turned_heads)
    expected = turned_by(found, x, ids)
    return float(np.abs(out - expected)[:, :, heads].max() / np.abs(x).max())


def turned_by(found: Recovered, x: NDArray[np.float64], ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give what a recovered description makes of x [B, S, H, D] at ids [A, B, S]: its own float64 road."""
    pairs = found.pairs
    assert pairs is not None
    phase = np.zeros(len(pairs))
    place = np.moveaxis(ids[pairs.axis], 0, -1)[:, :, None] + found.offset
    angle = [place * pairs.inv_freq + phase]
    angle.append(angle[0] if pairs.second_inv_freq is None else place * pairs.second_inv_freq)
    g, first, second = pairs.cos_sin_factor, pairs.first, pairs.second
    quarter = wrapped(np.angle(_blocks(found)))
    a, b = x[..., first], x[..., second]
    if found.kind == "reflection" or found.quarter:
        angle = [angle[0] + quarter[0], angle[1] + quarter[1]]
    out = x * found.still_factor
    out[..., first] = g * (a * np.cos(angle[0]) - b * np.sin(angle[0]))
    out[..., second] = g * (b * np.cos(angle[1]) + a * np.sin(angle[1]))
    return out if found.output_order is None else out[..., list(found.output_order)]


def _blocks(found: Recovered) -> NDArray[Any]:
    """Give each pair's two complex numbers at position 0."""
    assert found.at_zero is not None and found.pairs is not None
    at = found.at_zero if found.output_order is None else in_order(found.at_zero, np.array(found.output_order))
    first, second = found.pairs.first, found.pairs.second
    return np.stack([at[first, first] - 1j * at[second, first], at[second, second] + 1j * at[first, second]])
