"""The best known description of a table of which nothing was declared, or that it is one of its own."""

import math

import numpy as np

from .._checks import fields_to_dict
from ..fitting.numbers import digits_of, roundest
from ..fitting.scalings import fits
from ..inspection import number_words
from ..pairs import Pairs
from ..rope import Rope
from ..scaling import Default, Yarn
from ._explanation import MAGNITUDE, Explanation
from ._fitting_geometry import HYBRID_REPEAT, Geometry, geometries
from ._fitting_measured import Measured
from ._fitting_tables import ordered


def first_pairs(measured: Measured) -> str:
    some = [f"({a}, {b})" for a, b in zip(measured.first[:4].tolist(), measured.second[:4].tolist(), strict=True)]
    return ", ".join(some) + (" …" if len(measured.first) > 4 else "")


def undeclared(
    measured: Measured, pairs: Pairs, head_dim: int, lmax: int | None, expect: Rope | None = None
) -> Explanation:
    g, hint = pairs.cos_sin_factor, None if expect is None else getattr(expect.scaling, "factor", None)
    best: tuple[float, Rope, float, tuple[str, ...], Geometry] | None = None
    for geometry in geometries(measured, head_dim, expect):
        target = geometry.target
        if measured.direction is None or not target.turning.any():
            continue
        if geometry.pairing == HYBRID_REPEAT:
            continue
        for fit in fits(target, head_dim, g, geometry.turning, lmax, hint):
            rope = geometry.rope(head_dim, fit.rope_theta, scaling=fit.scaling, max_position_embeddings=lmax)
            if rope is None:
                continue
            made = ordered(rope.pairs(), geometry)
            if not target.agrees(made):
                continue
            score = digits_of(fit.rope_theta) + 3 * (geometry.odd == "pass") + _COMPLEXITY[fit.scaling.rope_type]
            score += digits_of(getattr(fit.scaling, "factor", 1.0)) / 4
            if best is None or score < best[0]:
                best = (score, rope, target.residual(made), fit.open, geometry)
            break
    if best is None:
        return _own(measured, pairs, head_dim)
    _, rope, residual, open_, geometry = best
    natural = rope.pairs().cos_sin_factor
    recipe = describe(rope)
    if abs(g - natural) > MAGNITUDE * natural:
        if isinstance(rope.scaling, Default):
            rope = rope.replace(
                scaling=Yarn(
                    factor=1.0, original_max_position_embeddings=lmax or 1, attention_factor=roundest(g, 1e-6 * g)
                )
            )
        recipe += f", cos and sin times {number_words(float(f'{g:.7g}'))}"
    parameters = {
        "rope_theta": rope.rope_theta,
        "pairing": rope.pairing,
        "rotary_dim": geometry.width,
        "rotary_start": geometry.start,
        "direction": geometry.direction,
        **fields_to_dict(rope.scaling),
        "rope_type": rope.scaling.rope_type,
        "cos_sin_factor": g,
    }
    return Explanation(rope=rope, residual=residual, recipe=recipe, parameters=parameters, open=open_)


_COMPLEXITY = {"default": 0, "linear": 2, "proportional": 2, "llama3": 6, "yarn": 6}


def _own(measured: Measured, pairs: Pairs, head_dim: int) -> Explanation:
    found = next(iter(geometries(measured, head_dim)), None)
    if not (np.abs(measured.angles) > 0).any():
        recipe = "nothing turns at any position"
    elif found is None:
        recipe = f"a table of its own: channels paired as {first_pairs(measured)}"
    elif found.pairing == HYBRID_REPEAT:
        recipe = "a hybrid: half pairs over a table doubled in place, each channel of a pair by another angle"
    elif measured.direction is None:
        recipe = "a table of its own: some pairs turn one way, some the other"
    else:
        recipe = f"a table of its own: {found.pairing} pairs with frequencies of no known scaling"
    parameters = {
        "inv_freq": pairs.inv_freq.tolist(),
        "first": pairs.first.tolist(),
        "second": pairs.second.tolist(),
        "cos_sin_factor": pairs.cos_sin_factor,
    }
    return Explanation(rope=None, residual=math.inf, recipe=recipe, parameters=parameters, known=False)


def describe(rope: Rope) -> str:
    """Say in words which frequencies a rope has.

    >>> describe(Rope(head_dim=8, rope_theta=10000.0, pairing="half"))
    'theta 10000'
    """
    words = f"theta {number_words(rope.rope_theta)}"
    if isinstance(rope.scaling, Default):
        return words
    named = {
        name: value
        for name, value in fields_to_dict(rope.scaling).items()
        if value is not None and not isinstance(value, list) and value is not False
    }
    return f"{words}, {rope.scaling.rope_type} " + ", ".join(f"{k} {number_words(v)}" for k, v in named.items())
