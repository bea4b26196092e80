"""Which rounding makes measured angles what they are: the blame, and how bad it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pairs
from ._caller import Floats
from ._measured import Measured, refitted
from ._rounding import HALVES, Candidate, candidates, on_grid, to_fp32

HONEST = 100_000  # up to here angles in float32 are nobody's fault
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


def explained(measured: Measured, table: Pairs, resolution: float, *, last_resort: bool = False) -> Precision:
    """Give the rounding that makes cos and sin of a table what was measured.

    Args:
        measured: what a function gave.
        table: the frequencies that it means to have.
        resolution: of the function's dtype.
        last_resort: whether errors that begin at some angle are blamed on the sine, for want of anything better.
    """
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
    place = fine[0] if fine else _likeliest(options, misses)
    if not fine and misses[0] <= 1 and misses[place] > 0.5 * misses[0]:
        place = 0
    honest = place < HONEST_WAYS
    if misses[place] > 1.5:
        coarse = _coarse(measured, options, w, second, tolerance)
        if coarse is not None:
            return _graded(errors, coarse.cause, coarse.words, measured, {"rounded": coarse.words})
    sine = _bad_sine(measured, options[0], w, second, angle, 8 * resolution) if honest or misses[place] > 1.5 else None
    if sine is not None:
        return _graded(errors, "sine-unreduced", _SINE.format(sine), measured, {"threshold": sine})
    if misses[place] > 1.5:
        return _unexplained(measured, options[0], errors, angle, tolerance, last_resort)
    cause = options[place].cause
    if not fine and honest and cause is None:
        cause = "float32-angles"  # within what float32 angles may be off, though no candidate gives its very bits
    words = "angles in float32" if cause == "float32-angles" else options[place].words
    return _graded(errors, cause, words, measured, {"rounded": words})


def _likeliest(options: Sequence[Candidate], misses: Sequence[float]) -> int:
    """Give the place of the candidate that misses least; of float16 and TF32, which may tell alike, the right one.

    Positions are the same numbers in both up to 65,504, where float16 ends: it is float16 where nothing beyond was
    finite, and TF32 where something was.
    """
    near = [place for place, miss in enumerate(misses) if miss <= min(misses) + 0.1]

    def order(place: int) -> tuple[bool, bool, float]:
        one = options[place]
        return not np.isfinite(one.cos).all(), one.cause == "tf32-product", misses[place]

    return min(near, key=order)


def by_frequencies(measured: Measured, pairs: Pairs, resolution: float) -> Precision | None:
    """Blame frequencies that are not exact ones rounded, but computed from rounded numbers; None where they are not."""
    table = refitted(measured, pairs)
    if table is None:
        return None
    rest = explained(measured, table, resolution)
    if rest.grade in ("fatal", "notable", "unusable"):
        return None
    moving = pairs.inv_freq != 0
    off = float(np.max(np.abs(table.inv_freq[moving] / pairs.inv_freq[moving] - 1), initial=0.0))
    if off < 1e-6:
        return None
    room = 4 * resolution / max(float(measured.positions.max()), 1.0)
    halves = [name for name, half in HALVES.items() if on_grid(table.inv_freq, half, room)]
    also = f", {rest.words.partition(': ')[2]}" if rest.cause is not None and rest.cause.endswith("-tables") else ""
    cause = f"{halves[0]}-frequencies" if halves else "unknown"
    words = f"frequencies computed in {halves[0]}" if halves else "frequencies computed from rounded numbers"
    words += f", off by up to {off:.2g} of themselves{also}"
    return _graded(explained_errors(measured, pairs), cause, words, measured, {"rounded": words})


def explained_errors(measured: Measured, pairs: Pairs) -> dict[int, float]:
    """Give the largest error of an angle at every position, held against exact angles."""
    second = pairs.inv_freq if pairs.second_inv_freq is None else pairs.second_inv_freq
    return _errors(measured, next(iter(candidates(measured.positions, pairs.inv_freq, second, pairs.cos_sin_factor))))


def _coarse(
    measured: Measured, options: Sequence[Candidate], w: Floats, second: Floats, tolerance: Floats
) -> Candidate | None:
    """Give the rounding of positions or angles that pairs of exact frequencies show, whatever befalls the others."""
    telling = [_exact_product(measured.positions, speeds) for speeds in (w, second)]
    if not any(one.any() for one in telling):
        return None

    def miss(one: Candidate) -> float:
        off = np.stack([np.abs(measured.cos - one.cos), np.abs(measured.sin - one.sin)]) / tolerance
        return float(np.quantile(np.where(np.isfinite(off), off, 9.0)[np.stack(telling)], 0.95))

    misses = [miss(one) for one in options]
    best = int(np.argmin(misses))
    cause = options[best].cause or ""
    half = cause.partition("-")[0]
    finished = [miss for miss, one in zip(misses, options, strict=True) if (one.cause or "").endswith("-tables")]
    if best < HONEST_WAYS or misses[best] > 1.5 or half not in HALVES or min(misses[0], *finished) <= 1.5:
        return None
    words = f"positions or the angle product rounded to {half}, and the frequencies with them"
    return options[best]._replace(cause=f"{half}-angles", words=words)


def _errors(measured: Measured, exact: Candidate) -> dict[int, float]:
    """Give the largest angle between measured and exact at every position."""
    z, true = measured.cos + 1j * measured.sin, exact.cos + 1j * exact.sin
    off = np.abs(np.angle(z * np.conj(true)))
    return {int(last): float(off[measured.belongs == last].max(initial=0.0)) for last in np.unique(measured.belongs)}


def _miss(measured: Measured, one: Candidate, tolerance: Floats, share: float) -> float:
    """Give how many tolerances a candidate misses that share of the entries by, at most.

    The rest is for numbers that lie on the edge between two of a 16-bit format, and fall either way. Where the
    candidate overflows, a function may as well saturate.
    """
    off = (_off(measured, one) / tolerance)[np.isfinite(one.cos) & np.isfinite(one.sin)]
    return float(np.quantile(off, share)) if off.size else 9.0


def _off(measured: Measured, one: Candidate) -> Floats:
    off = np.maximum(np.abs(measured.cos - one.cos), np.abs(measured.sin - one.sin))
    return np.where(np.isfinite(off), off, 9.0)


def _bad_sine(
    measured: Measured, exact: Candidate, w: Floats, second: Floats, angle: Floats, rounding: float
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
    measured: Measured,
    exact: Candidate,
    errors: dict[int, float],
    angle: Floats,
    tolerance: Floats,
    last_resort: bool,
) -> Precision:
    """Tell a sine that is wrong at large angles alone from what has no name."""
    bad = _off(measured, exact) > 4 * tolerance + 5e-4
    if bad.any() and last_resort:
        threshold = float(np.quantile(angle[bad], 0.02))
        below, above = bad[angle < 0.9 * threshold], bad[angle >= threshold]
        if threshold > 3 and below.size and below.mean() < 0.02 and above.mean() > 0.25:
            return _graded(errors, "sine-unreduced", _SINE.format(threshold), measured, {"threshold": threshold})
    small = measured.positions <= 128
    if small.any() and float(np.median(_off(measured, exact)[small].max(axis=1))) > 0.5:
        words = "these pairs do not explain even small positions"
        return Precision(errors=errors, cause=None, grade="unusable", words=words, detail={"failed": measured.failed})
    return _graded(errors, "unknown", _by_size(measured, exact, angle), measured)


def _by_size(measured: Measured, exact: Candidate, angle: Floats) -> str:
    """Say of errors that no single rounding makes how large they are beside the angles themselves."""
    true = exact.cos + 1j * exact.sin
    off = np.abs(np.angle((measured.cos + 1j * measured.sin) * np.conj(true)))
    telling = (off > 1e-3) & (off < 1.0) & (angle > 1)
    if telling.sum() < 8:
        return "no single rounding explains it"
    share = float(np.quantile(off[telling] / angle[telling], 0.9))
    for name, low, high in (("bfloat16", 2.0**-10, 2.0**-6), ("float16 or TF32", 2.0**-13, 2.0**-10)):
        if low < share <= high:
            return f"angles are off by {share:.2g} of themselves, as where they are computed in {name}"
    return f"angles are off by {share:.2g} of themselves; no single rounding explains it"


def _graded(
    errors: dict[int, float], cause: str | None, words: str, measured: Measured, more: Mapping[str, Any] | None = None
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


def on_a_grid(
    known: Precision, pairs: Pairs, intended: Pairs | None, measured: Measured, resolution: float
) -> Precision:
    """Name 16-bit frequencies that are part of the recovered table."""
    if known.cause not in (None, "float32-angles", "float32-running-product"):
        return known
    room = 4 * resolution / max(float(measured.positions.max()), 1.0)
    for name, half in HALVES.items():
        if not on_grid(pairs.inv_freq, half, room) or (intended is not None and on_grid(intended.inv_freq, half)):
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
