"""Which RoPE a recovered table is: the best known description, or how it deviates from the declared one."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import fields_to_dict
from ..fitting.bands import restated
from ..fitting.numbers import roundest
from ..inspection import number_words
from ..pairs import Pairs
from ..rope import Rope
from ..scaling._frequencies import magnitude
from ._explanation import MAGNITUDE, Explanation
from ._fitting_geometry import HYBRID_REPEAT, geometries
from ._fitting_measured import Measured
from ._fitting_recipes import Match, declared, with_magnitude
from ._fitting_shapes import Deviation, shape_words
from ._undeclared import describe, first_pairs, undeclared

__all__ = ["Deviation", "Explanation", "explain"]


def explain(
    pairs: Pairs,
    head_dim: int,
    *,
    expect: Rope | None = None,
    error: NDArray[np.float64] | None = None,
    max_position_embeddings: int | None = None,
    length: int | None = None,
) -> Explanation:
    """Give the best explanation of a table of pairs among the known descriptions and the known mistakes.

    Args:
        pairs: the table, measured or not; channels that keep still may be left out.
        head_dim: D.
        expect: the declared rope; the recipe then names the deviation from it.
        error: [P] absolute uncertainty of each frequency, radians a position; None for an exact table.
        max_position_embeddings: tokens, where known; settles lengths that a table leaves open.
        length: tokens of the sequence for which the table was measured; None means at or below the trained length.

    >>> rope = Rope(head_dim=64, rope_theta=500000.0, pairing="half")
    >>> explain(rope.pairs(), 64).rope == rope
    True
    >>> seen = explain(rope.replace(rope_theta=10000.0).pairs(), 64, expect=rope)
    >>> seen.slug, seen.recipe
    ('wrong-theta', 'theta 10000 for 500000')
    """
    measured = Measured.of(pairs, error)
    lmax = max_position_embeddings
    if lmax is None and expect is not None:
        lmax = expect.max_position_embeddings
    if expect is None:
        return undeclared(measured, pairs, head_dim, lmax)
    if not (np.abs(measured.angles) > 0).any():
        return _still(pairs, head_dim, expect, length)
    matches = declared(measured, head_dim, expect, length)
    if matches:
        return _relative(matches, measured, pairs, head_dim, expect, length, lmax)
    alone = undeclared(measured, pairs, head_dim, lmax, expect)
    return _unmatched(alone, measured, head_dim, expect)


def _still(pairs: Pairs, head_dim: int, expect: Rope, length: int | None) -> Explanation:
    right = expect.pairs(length)
    if not np.any(right.inv_freq):
        return Explanation(rope=expect, residual=0.0, recipe="as declared: nothing turns", parameters={})
    words = "nothing turns at any position"
    deviation = Deviation(slug="identity", kind="frequencies", words=words, right=f"{len(right)} pairs turn")
    return Explanation(rope=None, residual=0.0, recipe=words, slug="identity", deviations=(deviation,), parameters={})


def _relative(
    matches: list[Match],
    measured: Measured,
    pairs: Pairs,
    head_dim: int,
    expect: Rope,
    length: int | None,
    lmax: int | None,
) -> Explanation:
    best = matches[0]
    deviations = list(best.deviations)
    if best.geometry.pairing == HYBRID_REPEAT and not deviations:
        raise AssertionError("a hybrid table cannot be as declared")
    natural = {expect.pairs(length).cos_sin_factor}
    frequencies = [one for one in deviations if one.kind == "frequencies"]
    if best.rope is not None and frequencies and best.rope.scaling != expect.scaling:
        natural.add(best.rope.pairs().cos_sin_factor)
    if any(one.slug == "double-rotation" for one in frequencies):
        natural |= {one * one for one in natural}
    g = pairs.cos_sin_factor
    if all(abs(g - one) > MAGNITUDE * one for one in natural):
        deviations.append(_magnitude(g, expect, length))
    rope = best.rope
    if rope is not None and deviations:
        near = [one for one in natural if abs(g - one) <= MAGNITUDE * one]
        rope = with_magnitude(rope, near[0] if near else roundest(g, 1e-6 * g))
    others: list[Rope] = []
    if deviations:
        others += [one.rope for one in matches[1:] if one.rope is not None and one.cost <= best.cost + 0.01]
        alone = undeclared(measured, pairs, head_dim, lmax)
        if alone.rope is not None and not pairs.second_inv_freq is not None:
            others.append(alone.rope)
    equivalents = tuple(dict.fromkeys(one for one in others if one != rope))
    recipe = "; ".join(deviation.words for deviation in deviations) if deviations else "as declared"
    slug = next((deviation.slug for deviation in deviations if deviation.slug is not None), None)
    parameters: dict[str, Any] = {
        "rope_theta": best.rope_theta,
        "pairing": best.geometry.pairing,
        "rotary_dim": best.geometry.width,
        "rotary_start": best.geometry.start,
        "direction": best.geometry.direction,
        "cos_sin_factor": g,
    }
    if best.factor is not None:
        parameters["factor"] = best.factor
    for deviation in deviations:
        if deviation.kind == "frequencies" and deviation.slug == "dynamic-frozen" and deviation.seen is not None:
            parameters["length"] = deviation.seen
    return Explanation(
        rope=rope if rope is not None or deviations else expect,
        residual=best.residual,
        recipe=recipe,
        slug=slug,
        deviations=tuple(deviations),
        equivalents=equivalents,
        parameters=parameters,
    )


def _magnitude(g: float, expect: Rope, length: int | None) -> Deviation:
    table = expect.pairs(length)
    right, softmax = table.cos_sin_factor, table.softmax_factor
    scale = getattr(expect.scaling, "factor", None) or 1.0
    known: list[tuple[str | None, float, str]] = [
        ("magnitude-missing", 1.0, "cos and sin without their factor"),
        ("magnitude-twice", right * right, "the factor on cos and sin twice"),
        (None, 1 / right, "divided by the factor on cos and sin"),
        (None, right * softmax, "the softmax factor put on cos and sin"),
        (None, right * math.sqrt(softmax), "the square root of the softmax factor put on cos and sin"),
        (None, magnitude(scale), f"g(s, 1) = 0.1 ln s + 1 for s = {number_words(scale)}"),
    ]
    for name in ("mscale", "mscale_all_dim"):
        value = getattr(expect.scaling, name, None)
        if value:
            known.append((None, magnitude(scale, value), f"g(s, {name})"))
    usable = [one for one in known if abs(one[1] - right) > MAGNITUDE * right]
    near = min(usable, key=lambda one: abs(g - one[1]), default=None)
    slug, words = None, "another factor on cos and sin"
    if near is not None and abs(g - near[1]) <= MAGNITUDE * near[1]:
        slug, _, words = near
    shown, declared_g = float(f"{g:.7g}"), float(f"{right:.10g}")
    return Deviation(
        slug=slug,
        kind="magnitude",
        words=f"{words}: {number_words(shown)} for {number_words(declared_g)}",
        right=f"{number_words(declared_g)} on cos and sin",
        seen=g,
        declared=right,
    )


def _unmatched(alone: Explanation, measured: Measured, head_dim: int, expect: Rope) -> Explanation:
    """Explain a table that no known mistake makes of the declared rope."""
    found = next(iter(geometries(measured, head_dim, expect)), None)
    shapes = () if found is None else shape_words(found, measured, head_dim, expect)
    deviations = list(shapes)
    if found is None:
        right = expect.pairs()
        mine, theirs = np.sort(np.abs(measured.freq)), np.sort(np.abs(right.inv_freq))
        same = mine.shape == theirs.shape and np.allclose(mine, theirs, rtol=1e-5, atol=0)
        words = f"channels paired in a way of their own: {first_pairs(measured)}"
        deviations.append(
            Deviation(
                slug=None,
                kind="pairing",
                words=words + (", with the right frequencies" if same else ""),
                right=f"{expect.pairing} pairs",
            )
        )
    elif measured.direction is None:
        count = int(np.sum(measured.freq * expect.direction < 0))
        words = f"{count} of {len(measured.freq)} pairs turn the other way"
        deviations.append(Deviation(slug=None, kind="direction", words=words, right="every pair turns one way"))
    rope = alone.rope
    if rope is not None:
        words = f"{alone.recipe} in place of {describe(expect)}"
        again = restated(rope, expect.scaling)
        if again is not None:
            rope = again
            words = _differences(again, expect) or words
        deviations.append(Deviation(slug=None, kind="frequencies", words=words, right=describe(expect)))
    elif found is not None and measured.direction is not None:
        deviations.append(Deviation(slug=None, kind="frequencies", words="a table of its own", right=describe(expect)))
    return Explanation(
        rope=rope,
        residual=alone.residual,
        recipe="; ".join(deviation.words for deviation in deviations),
        slug=next((deviation.slug for deviation in shapes if deviation.slug), None),
        deviations=tuple(deviations),
        equivalents=alone.equivalents,
        parameters=alone.parameters,
        open=alone.open,
        known=alone.rope is not None,
    )


def _differences(rope: Rope, expect: Rope) -> str:
    """Name the numbers that differ between two ropes of one scaling."""
    mine, theirs = fields_to_dict(rope.scaling), fields_to_dict(expect.scaling)
    mine, theirs = {"theta": rope.rope_theta, **mine}, {"theta": expect.rope_theta, **theirs}
    return ", ".join(
        f"{name} {number_words(value)} for {number_words(theirs[name])}"
        for name, value in mine.items()
        if value != theirs[name] and value is not None and theirs[name] is not None
    )
