"""How precise a RoPE's angles are, in radians by position, and which rounding makes them what they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pairs
from ._caller import Caller, Floats
from ._conditions import under_conditions
from ._rounding import HALVES, Candidate, candidates, on_grid, to_fp32
from .box import Box, BoxFailure

POSITIONS = (128, 4096, 50_000, 131_072, 1_048_576)
HONEST = 100_000  # up to here angles in float32 are nobody's fault
SLOW = 0.25  # seconds after which a position eight times as large is not tried
EPS = 2.0**-24
HONEST_WAYS = 4  # the first of the candidates: exact, and three ways in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """What a function's angles are worth.

    Attributes:
        errors: by position, the largest error of an angle at or a little below it, radians.
        cause: the rounding that explains the errors: "bf16-frequencies", "fp16-angles", "tf32-product",
            "sine-unreduced", "bf16-tables", "float32-angles" …; "unknown", or None for exact angles.
        grade: "exact" (nothing to say), "mild", "notable", "fatal", or "unusable" (no answer to measure).
        words: a sentence with the largest error and the cause.
        detail: the numbers behind it; "failed" has the positions that were not answered.

    >>> Precision(errors={128: 0.0}, cause=None, grade="exact", words="exact").to_dict()["errors"]
    {'128': 0.0}
    """

    errors: Mapping[int, float]
    cause: str | None
    grade: str
    words: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """The largest of the errors, radians; 0 where nothing was measured."""
        return max(self.errors.values(), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for JSON."""
        errors = {str(position): error for position, error in self.errors.items()}
        return {
            "errors": errors,
            "cause": self.cause,
            "grade": self.grade,
            "words": self.words,
            "detail": dict(self.detail),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """cos and sin of every pair at some positions.

    Attributes:
        positions: [T].
        belongs: [T] the position of POSITIONS that each was asked for.
        cos: [T, P], divided by the factor.
        sin: [T, P].
        failed: by position, why there is no answer.
    """

    positions: Floats
    belongs: NDArray[np.int64]
    cos: Floats
    sin: Floats
    failed: dict[int, str]


def grade(
    box: Box,
    pairs: Pairs,
    *,
    max_position: int,
    intended: Pairs | None = None,
    output_order: Sequence[int] | None = None,
    offset: float = 0.0,
) -> Precision:
    """Give how far the angles are from float64, and why.

    Args:
        box: the function.
        pairs: the table recovered from it; of one length, where it depends on the length.
        max_position: the largest position: a table's last row, the last before a length-dependent rope switches.
        intended: the table it means to have, where that is known (its explanation, what was declared). Rounded
            frequencies are part of the recovered table; without this they show only by lying on a 16-bit grid.
        output_order: output channel j holds what channel output_order[j] would; None is the same order.
        offset: a constant by which the function moves every position.

    >>> def turn(x, ids):
    ...     angle = (ids * 0.3).astype(np.float16).astype(float)[..., None, None]
    ...     cos, sin = np.cos(angle), np.sin(angle)
    ...     return np.concatenate([x[..., :1] * cos - x[..., 1:] * sin, x[..., 1:] * cos + x[..., :1] * sin], -1)
    >>> result = grade(Box(turn, head_dim=2), Pairs(first=[0], second=[1], axis=[0], inv_freq=[0.3]), max_position=9000)
    >>> result.cause, result.grade
    ('fp16-angles', 'fatal')
    """
    caller = Caller(box, output_order)
    measured = _measure(caller, pairs, max_position, offset)
    if not len(measured.positions):
        words = next(iter(measured.failed.values()), "no position could be tried")
        return Precision(errors={}, cause=None, grade="unusable", words=words, detail={"failed": measured.failed})
    resolution = box.resolution
    tables = [*([intended] if intended is not None and _close(intended, pairs) else []), pairs]
    verdicts = [_explained(measured, table, resolution) for table in tables]
    known = next((one for one in verdicts if one.cause != "unknown"), verdicts[0])
    return known if known is not verdicts[-1] else _on_a_grid(known, pairs, intended, measured)


def conditions(
    box: Box,
    pairs: Pairs,
    *,
    max_position: int = 50_000,
    intended: Pairs | None = None,
    output_order: Sequence[int] | None = None,
    offset: float = 0.0,
) -> dict[str, Precision]:
    """Give the same for a torch function under the conditions that ruin many: by condition, its own grade.

    Autocast, half-precision inputs and default dtype; for a module also copies of it after ``.to(bfloat16)``,
    ``.half()`` and ``.to("meta")`` with ``to_empty`` (and its reset_parameters, if it has one). The module itself is
    not changed. Functions of other libraries have no conditions: {}.

    Args:
        box: the function.
        pairs: as for grade; so are the others.
        max_position: the largest position that is tried.
        intended: as for grade.
        output_order: as for grade.
        offset: as for grade.

    >>> conditions(Box(lambda x, ids: x, head_dim=2), Pairs(first=[], second=[], axis=[], inv_freq=[]))
    {}
    """
    if box.library != "torch":
        return {}
    found: dict[str, Precision] = {}
    for name, tries in under_conditions(box):
        for other in tries:
            found[name] = grade(
                other, pairs, max_position=max_position, intended=intended, output_order=output_order, offset=offset
            )
            if found[name].grade != "unusable":
                break
    return found


def _measure(caller: Caller, pairs: Pairs, max_position: int, offset: float) -> _Measured:
    x = np.zeros((caller.batch, 1, caller.heads, caller.box.head_dim))
    x[..., pairs.first] = 1.0
    kept: list[tuple[Floats, NDArray[np.int64], Floats, Floats]] = []
    failed: dict[int, str] = {}
    own = [max_position] if max_position < POSITIONS[-1] and max_position not in POSITIONS else []
    for last in [*(position for position in POSITIONS if position <= max_position), *own]:
        tokens = _tokens(last)
        ids = np.array(np.broadcast_to(tokens, (caller.axes, caller.batch, len(tokens))))
        before = caller.box.seconds
        try:
            out = caller.turn(np.repeat(x, len(tokens), axis=1), ids)[0, :, 0]
        except BoxFailure as failure:
            failed[last] = f"{failure.failure.kind}: {failure.failure.message}"
            if failure.failure.kind == "hang":
                break
            continue
        g = pairs.cos_sin_factor
        kept.append(
            (
                tokens.astype(np.float64) + offset,
                np.full(len(tokens), last),
                out[:, pairs.first] / g,
                out[:, pairs.second] / g,
            )
        )
        if caller.box.seconds - before > SLOW and last >= 131_072:
            break
    if not kept:
        none = np.zeros((0, len(pairs)))
        return _Measured(positions=np.zeros(0), belongs=np.zeros(0, np.int64), cos=none, sin=none, failed=failed)
    positions, belongs, cos, sin = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return _Measured(positions=positions, belongs=belongs, cos=cos, sin=sin, failed=failed)


def _tokens(last: int) -> NDArray[np.int64]:
    """Give positions at and below last: no 16-bit format has them all."""
    backwards = last - np.array([0, 1, 3, 11, 29, 63, 101])
    inside = np.array([0.8137, 0.617, 0.271]) * last
    ids = np.unique(np.concatenate([backwards, inside.astype(np.int64)]))
    return ids[ids > 0] if (ids > 0).any() else np.array([last])


def _close(intended: Pairs, pairs: Pairs) -> bool:
    """Whether a table is another only by roundings: the same pairs, frequencies within a tenth."""
    if len(intended) != len(pairs) or not np.array_equal(intended.first, pairs.first):
        return False
    if not (np.array_equal(intended.second, pairs.second) and np.array_equal(intended.axis, pairs.axis)):
        return False
    return bool(np.all(np.abs(intended.inv_freq - pairs.inv_freq) <= 0.1 * np.abs(intended.inv_freq) + 1e-7))


def _explained(measured: _Measured, table: Pairs, resolution: float) -> Precision:
    w = table.inv_freq
    second = w if table.second_inv_freq is None else table.second_inv_freq
    angle = np.abs(measured.positions[:, None] * np.maximum(np.abs(w), np.abs(second)))
    rounding = 6 * resolution
    tolerance = rounding + 4 * EPS * angle
    options = list(candidates(measured.positions, w, second, table.cos_sin_factor))
    errors = _errors(measured, options[0])
    misses = [
        _miss(measured, one, tolerance, 1.0 if place < HONEST_WAYS else 0.95) for place, one in enumerate(options)
    ]
    # float32 differs from float64 by less than the tolerance: judged by the candidate's own, stricter rounding
    tight = [_miss(measured, one, rounding + 2.0**-34 * angle, 1.0) for one in options[:HONEST_WAYS]]
    fine = [place for place in range(HONEST_WAYS) if tight[place] <= 1]
    place = fine[0] if fine else int(np.argmin(misses))
    if not fine and misses[0] <= 1 and misses[place] > 0.5 * misses[0]:
        place = 0
    honest = place < HONEST_WAYS
    sine = _bad_sine(measured, options[0], w, second, angle, 8 * resolution) if honest or misses[place] > 1.5 else None
    if sine is not None:
        return _graded(errors, "sine-unreduced", _SINE.format(sine), measured, {"threshold": sine})
    if misses[place] > 1.5:
        return _unexplained(measured, options[0], errors, angle, tolerance)
    cause = options[place].cause
    if not fine and honest and cause is None:
        cause = "float32-angles"  # within what float32 angles may be off, though no candidate gives its very bits
    words = "angles in float32" if cause == "float32-angles" else options[place].words
    return _graded(errors, cause, words, measured)


def _errors(measured: _Measured, exact: Candidate) -> dict[int, float]:
    """Give the largest angle between measured and exact at every position."""
    z, true = measured.cos + 1j * measured.sin, exact.cos + 1j * exact.sin
    off = np.abs(np.angle(z * np.conj(true)))
    return {int(last): float(off[measured.belongs == last].max(initial=0.0)) for last in np.unique(measured.belongs)}


def _miss(measured: _Measured, one: Candidate, tolerance: Floats, share: float) -> float:
    """Give how many tolerances a candidate misses that share of the entries by, at most.

    The rest is for numbers that lie on the edge between two of a 16-bit format, and fall either way.
    """
    off = _off(measured, one) / tolerance
    return float(np.quantile(off, share)) if off.size else 0.0


def _off(measured: _Measured, one: Candidate) -> Floats:
    off = np.maximum(np.abs(measured.cos - one.cos), np.abs(measured.sin - one.sin))
    return np.where(np.isfinite(off), off, 9.0)


def _bad_sine(
    measured: _Measured, exact: Candidate, w: Floats, second: Floats, angle: Floats, rounding: float
) -> float | None:
    """Give the smallest angle from which cos and sin are off although the angle itself is exact in float32, or None.

    Such are the angles of a frequency like 1 or 1/8, which is a short binary fraction: whoever is off there has a bad
    sine, not a rounded angle.
    """
    off = [np.abs(measured.cos - exact.cos), np.abs(measured.sin - exact.sin)]
    telling = [_exact_product(measured.positions, speeds) for speeds in (w, second)]
    off = [np.where(np.isfinite(one), one, 9.0) for one in off]
    bad = np.logical_or(*(tells & (one > 1e-3 + rounding) for tells, one in zip(telling, off, strict=True)))
    if not bad.any() or (bad & (angle < 1000)).any():
        return None
    return float(angle[bad].min())


def _exact_product(positions: Floats, w: Floats) -> NDArray[np.bool_]:
    """Say which products of position and frequency float32 holds without rounding."""
    mantissa, exponent = np.frexp(w)
    near = np.ldexp(np.rint(mantissa * 256), exponent - 8)
    product = positions[:, None] * near
    return (np.abs(near - w) <= 2e-10 * np.abs(w)) & (product == to_fp32(product)) & (w != 0)


_SINE = "cos and sin themselves are off at angles above about {:.0f} radians"


def _unexplained(
    measured: _Measured, exact: Candidate, errors: dict[int, float], angle: Floats, tolerance: Floats
) -> Precision:
    """Tell a sine that is wrong at large angles alone from what has no name."""
    bad = _off(measured, exact) > 4 * tolerance + 5e-4
    if bad.any():
        threshold = float(np.quantile(angle[bad], 0.02))
        below, above = bad[angle < 0.9 * threshold], bad[angle >= threshold]
        if threshold > 3 and below.size and below.mean() < 0.02 and above.mean() > 0.25:
            return _graded(errors, "sine-unreduced", _SINE.format(threshold), measured, {"threshold": threshold})
    small = measured.positions <= 128
    if small.any() and float(np.median(_off(measured, exact)[small].max(axis=1))) > 0.5:
        words = "these pairs do not explain even small positions"
        return Precision(errors=errors, cause=None, grade="unusable", words=words, detail={"failed": measured.failed})
    return _graded(errors, "unknown", "no known rounding explains it", measured)


def _graded(
    errors: dict[int, float], cause: str | None, words: str, measured: _Measured, more: Mapping[str, Any] | None = None
) -> Precision:
    worst = max(errors.values(), default=0.0)
    beyond = max((error for position, error in errors.items() if position > HONEST), default=0.0)
    if cause is None:
        level = "exact"
    elif cause.startswith("float32"):
        level = "exact" if beyond <= 0.01 else "mild" if beyond <= 0.25 else "notable"
    elif cause.endswith("-tables"):
        level = "mild"
    elif cause == "sine-unreduced":
        near = max((error for position, error in errors.items() if position <= 131_072), default=0.0)
        level = "fatal" if near > 0.1 else "notable" if worst > 0.01 else "mild"
    else:
        level = "fatal" if worst > 0.05 else "notable" if worst > 0.01 else "mild"
    at = max(errors, key=lambda position: errors[position]) if errors else 0
    sentence = f"off by {worst:.3g} rad at position {at:,}: {words}" if cause else words
    return Precision(
        errors=errors, cause=cause, grade=level, words=sentence, detail={"failed": measured.failed, **(more or {})}
    )


def _on_a_grid(known: Precision, pairs: Pairs, intended: Pairs | None, measured: _Measured) -> Precision:
    """Name 16-bit frequencies that are part of the recovered table."""
    if known.cause not in (None, "float32-angles", "float32-running-product"):
        return known
    for name, half in HALVES.items():
        if not on_grid(pairs.inv_freq, half) or (intended is not None and on_grid(intended.inv_freq, half)):
            continue
        smooth = _ladder(pairs.inv_freq)
        gap = np.abs(smooth - pairs.inv_freq)
        errors = {position: float(min(np.pi, position * gap.max())) for position in known.errors}
        return _graded(errors, f"{name}-frequencies", f"frequencies rounded to {name}", measured)
    return known


def _ladder(inv_freq: Floats) -> Floats:
    """Give the geometric ladder nearest to the frequencies, or, where they are none, what 2^-9 of each leaves."""
    moving = inv_freq != 0
    steps, logs = np.flatnonzero(moving), np.log(np.abs(inv_freq[moving]))
    fit = np.exp(np.polyval(np.polyfit(steps, logs, 1), steps)) * np.sign(inv_freq[moving])
    smooth = inv_freq.copy()
    close = np.abs(fit / inv_freq[moving] - 1) < 0.02
    smooth[moving] = np.where(close.all(), fit, inv_freq[moving] * (1 + 2.0**-9))
    return smooth
