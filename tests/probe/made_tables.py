"""Tables of pairs as formulas make them, measured with noise, and what explain says of them."""

import json
import math

import numpy as np

from ropewalk import Pairs, Rope
from ropewalk.probe.explaining import explain

NOISES = (0.0, 1e-9, 1e-7, 1e-6)


def ladder(theta, width, count=None):
    return theta ** (-2 * np.arange(width // 2 if count is None else count) / width)


def half(count, *, gap=None, start=0):
    return start + np.arange(count), start + np.arange(count) + (gap or count)


def adjacent(count, *, start=0):
    return start + 2 * np.arange(count), start + 2 * np.arange(count) + 1


def llama3(theta, width, s, low=1.0, high=4.0, original=4096, middle="right"):
    """Meta's bands, pair by pair; the middle band by the right formula or by a mistake."""
    result = []
    for w in ladder(theta, width):
        wavelength = 2 * math.pi / w
        if wavelength < original / high:
            result.append(w)
        elif wavelength > original / low:
            result.append(w / s)
        else:
            t = (original / wavelength - low) / (high - low)
            u = (wavelength - original / high) / (original / low - original / high)
            if middle == "right":
                result.append((1 - t) * w / s + t * w)
            elif middle == "precedence":
                result.append(w / (1 / (1 - t) * s + t))
            else:
                result.append(w / (s * (1 - u) + u))
    return np.array(result)


def yarn(theta, width, s, original, *, fast=32.0, slow=1.0, truncate=True, clamp=None, way="right"):
    """YaRN's blend, pair by pair; right or by a mistake."""
    low, high = (width * math.log(original / (2 * math.pi * beta)) / (2 * math.log(theta)) for beta in (fast, slow))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1 if clamp is None else clamp)
    result = []
    for i, w in enumerate(ladder(theta, width)):
        ramp = min(max((i - low) / ((high - low) or 0.001), 0), 1)
        if way == "inverted":
            ramp = 1 - ramp
        slowed = (s * theta) ** (-2 * i / width) if way == "power" else w / s
        kept = (theta * s ** (width / (width - 2))) ** (-2 * i / width) if way == "ntk" else w
        result.append(slowed * ramp + kept * (1 - ramp))
    return np.array(result)


def g(s, m=1.0):
    return 0.1 * m * math.log(s) + 1


def table(channels, inv_freq, *, factor=1.0, axis=None, second=None):
    first, other = channels
    return Pairs(
        first=first,
        second=other,
        axis=np.zeros(len(first), dtype=int) if axis is None else axis,
        inv_freq=inv_freq,
        cos_sin_factor=factor,
        second_inv_freq=second,
    )


def measured(pairs, noise, seed=0):
    """The table as a measurement gives it: noisy, the still pairs not seen; and the uncertainty."""
    rng = np.random.default_rng(seed)
    seen = pairs.inv_freq != 0
    if pairs.second_inv_freq is not None:
        seen |= pairs.second_inv_freq != 0

    def noisy(column):
        return None if column is None else (column * (1 + noise * rng.uniform(-1, 1, len(column))))[seen]

    again = Pairs(
        first=pairs.first[seen],
        second=pairs.second[seen],
        axis=pairs.axis[seen],
        inv_freq=noisy(pairs.inv_freq),
        second_inv_freq=noisy(pairs.second_inv_freq),
        cos_sin_factor=pairs.cos_sin_factor,
    )
    return again, np.abs(pairs.inv_freq[seen]) * noise if noise else None


def explained(pairs, head_dim, noise=0.0, **options):
    again, error = measured(pairs, noise)
    return explain(again, head_dim, error=error, **options)


def check_named(pairs, head_dim, expect, slugs, **options):
    """Explain a table at several levels of noise; give the last explanation."""
    for noise in NOISES:
        seen = explained(pairs, head_dim, noise, expect=expect, **options)
        assert [deviation.slug for deviation in seen.deviations] == list(slugs), seen.recipe
        assert seen.slug == next((slug for slug in slugs if slug), None)
        assert seen.residual < 1e-5
        json.dumps(seen.to_dict())
        if seen.rope is not None:
            np.testing.assert_allclose(seen.rope.pairs().inv_freq[: len(pairs)], pairs.inv_freq, rtol=1e-5)
    return seen


REFERENCE = Rope(head_dim=16, rope_theta=5e5, pairing="half")
ALL = ladder(5e5, 16)
