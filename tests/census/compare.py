"""One census case held against ropewalk: what was read, its frequencies, its tables, and vectors turned by both."""

from dataclasses import dataclass

import numpy as np

from ropewalk import Model, Rope, read, rotate
from ropewalk.errors import RopewalkError

from .cases import Case, NotCovered

FREQUENCY_TOLERANCE = 2e-6  # relative: float32 powers against float64
POSITIONS = (0, 1, 777)
TURNED = (3, 30)


@dataclass(frozen=True)
class Verdict:
    """What the comparison of one case showed; an empty difference means that everything agrees."""

    case: Case
    difference: str = ""
    largest: float = 0.0  # relative deviation of inv_freq


def compare(case: Case, rows: tuple[str, ...] | None, positions: np.ndarray | None) -> Verdict:
    """Compare one case.

    rows names the case's position rows in its own order and positions are some that the class can reach, [A, S];
    both None for a class of one axis.
    """
    model = read(case.config)
    rope, difference = _rope(model, case)
    if rope is None:
        return Verdict(case, difference)
    try:
        pairs = rope.pairs()
    except RopewalkError as error:
        return Verdict(case, f"unresolvable: {error}")
    if rope.head_dim != case.head_dim:
        return Verdict(case, f"head_dim {rope.head_dim}, theirs {case.head_dim}")
    if rope.axes.num_axes != case.axes:
        return Verdict(case, f"{rope.axes.num_axes} axes, theirs {case.axes}")
    if abs(pairs.cos_sin_factor - case.attention_scaling) > 2e-6 * abs(case.attention_scaling):
        return Verdict(case, f"factor {pairs.cos_sin_factor:.9g}, theirs {case.attention_scaling:.9g}")
    largest = 0.0
    if case.inv_freq is not None:
        largest, difference = _frequencies(np.abs(pairs.inv_freq), case.inv_freq, single=case.axes == 1)
        if difference:
            return Verdict(case, difference, largest)
    difference = _tables(rope, case) or _vectors(rope, case, rows, positions)
    return Verdict(case, difference, largest)


def _rope(model: Model, case: Case) -> tuple[Rope | None, str]:
    if case.part not in model.parts:
        raise NotCovered(f"read() has no part {case.part}; it has {', '.join(model.parts)}")
    layers = model.parts[case.part]
    chosen = layers if case.layer is None else layers[case.layer : case.layer + 1]
    layer = next((layer for layer in chosen if case.rope_key in layer.ropes), None)
    if layer is not None:
        return layer.ropes[case.rope_key], ""
    errors = [
        finding.message
        for finding in model.findings
        if finding.severity == "error" and finding.where.startswith(f"{case.part}:")
    ]
    return None, f"no {case.rope_key} rope read" + (f": {errors[0]}" if errors else "")


def _frequencies(ours: np.ndarray, theirs: np.ndarray, *, single: bool) -> tuple[float, str]:
    """Compare in order where there is one axis; as sets where the module keeps one ladder for several axes."""
    if not single:
        theirs = theirs.reshape(-1)
        pairs = [(value, theirs[np.argmin(np.abs(theirs - value))]) for value in ours]
        pairs += [(ours[np.argmin(np.abs(ours - value))], value) for value in theirs]
        ours, theirs = np.array(pairs).T
    if ours.shape != theirs.shape:
        return 0.0, f"{ours.size} frequencies, theirs {theirs.size}"
    scale = np.where(theirs == 0, 1.0, np.abs(theirs))
    largest = float((np.abs(ours - theirs) / scale).max())
    if largest <= FREQUENCY_TOLERANCE:
        return largest, ""
    worst = int((np.abs(ours - theirs) / scale).argmax())
    return largest, f"inv_freq[{worst}] {ours[worst]:.9g}, theirs {theirs[worst]:.9g}"


def _tables(rope: Rope, case: Case) -> str:
    """Compare cos and sin column by column, in whatever order; float32 angles are off by an ulp each."""
    if case.tables is None or case.axes != 1:
        return ""
    positions = np.array(POSITIONS)
    theirs = [np.asarray(table, dtype=np.float64).reshape(len(POSITIONS), -1) for table in case.tables(positions)]
    pairs = rope.pairs()
    angles = positions[:, None] * np.abs(pairs.inv_freq)
    ours = [np.cos(angles) * pairs.cos_sin_factor, np.sin(angles) * pairs.cos_sin_factor]
    tolerance = 1e-6 + 4 * 2.0**-24 * max(POSITIONS) * pairs.cos_sin_factor
    for name, mine, other in zip(("cos", "sin"), ours, theirs, strict=True):
        gaps = np.abs(mine[:, :, None] - np.abs(other[:, None, :]) * np.sign(other[:, None, :])).max(axis=0)
        if name == "sin":  # a table may carry the sign that another code puts on the channels
            gaps = np.minimum(gaps, np.abs(mine[:, :, None] + other[:, None, :]).max(axis=0))
        worst = max(gaps.min(axis=1).max(), gaps.min(axis=0).max())
        if worst > tolerance:
            return f"{name} tables differ by {worst:.2g}"
    return ""


def _vectors(rope: Rope, case: Case, rows: tuple[str, ...] | None, positions: np.ndarray | None) -> str:
    """Turn the same vectors by both: this is what compares pairs, directions and axes."""
    given = np.array(TURNED) if positions is None else positions
    mine = given[None] if positions is None else given[:, None, :]
    if positions is not None and case.axes > 1:
        names = list(getattr(rope.axes, "names", ()))
        if sorted(names) != sorted(rows or ()):
            return f"axes named {names}, theirs {list(rows or ())}"
        mine = mine[[list(rows or ()).index(name) for name in names]]
    elif positions is not None:
        mine = mine[0]
    x = np.random.default_rng(7).standard_normal((given.shape[-1], 3, case.head_dim))
    theirs = np.asarray(case.turn(x, given), dtype=np.float64)
    ours = rotate(x[None], mine, rope, length=1 if rope.length_dependent else None)[0]
    gap = float(np.abs(ours - theirs).max())
    reach = float(np.abs(given).max()) + 1
    if not gap <= 2e-5 + 2e-6 * reach:
        return f"turned vectors differ by {gap:.2g}"
    return ""
