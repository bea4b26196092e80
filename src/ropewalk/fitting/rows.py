"""Rows of cos and sin by position, taken back to frequencies, and those to a known theta and scaling."""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RopewalkError
from ..scaling import Default, Yarn
from .bands import Fit
from .numbers import FLOAT32, Target, roundest
from .scalings import fits

_FIRST = 256  # rows that are all looked at; of the later ones some
_LATER = 128
_GRAINS = (("bfloat16", 2.0**-8), ("float16", 2.0**-11), ("float32", 2.0**-24), ("float64", 2.0**-53))
_SMALLEST_HALF = 2.0**-25  # absolute: half precision has no finer steps near 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What rows of cos and sin turn by.

    Attributes:
        inv_freq: [P] float64, radians a position; 0 for a pair that keeps still.
        error: [P] float64, absolute uncertainty of it.
        magnitude: g, the factor on cos and sin.
        kind: the narrowest type that holds every number looked at: "bfloat16", "float16", "float32", "float64".
        grain: half a step of that type, relative.
        rows: the positions looked at.
        cos: [len(rows), P] float64.
        sin: likewise.
    """

    inv_freq: NDArray[np.float64]
    error: NDArray[np.float64]
    magnitude: float
    kind: str
    grain: float
    rows: NDArray[np.int64]
    cos: NDArray[np.float64]
    sin: NDArray[np.float64]

    @property
    def target(self) -> Target:
        """The ladder to fit, the sign of the direction taken off."""
        count = len(self.inv_freq)
        return Target(
            freq=np.abs(self.inv_freq),
            error=self.error,
            index=np.arange(count),
            width=np.full(count, 2 * count),
            seen=np.ones(count, dtype=bool),
        )

    def reproduced_by(self, inv_freq: NDArray[np.float64], magnitude: float) -> bool:
        """Whether frequencies and a factor give every number looked at, to its type and float32 angles."""
        angles = self.rows[:, None] * (inv_freq * np.where(self.inv_freq < 0, -1.0, 1.0))
        room = self.rows[:, None] * self.target.room * magnitude
        for seen, made in ((self.cos, np.cos(angles)), (self.sin, np.sin(angles))):
            right = magnitude * made
            step = 1.01 * self.grain * np.abs(right) + 2.0**-22 * self.grain
            if self.kind == "float16":
                step = step + _SMALLEST_HALF
            if self.kind == "float64":
                step = step + 2.0**-22 * magnitude  # tables of float32 kept as float64 after a factor
            elif self.kind == "float32":
                step = step + 4 * FLOAT32 * magnitude
            if (np.abs(seen - right) > step + room).any():
                return False
        return True


def recover(cos: NDArray[np.floating], sin: NDArray[np.floating]) -> Recovered:
    """Recover the frequencies of two tables by following each pair's angle over growing rows.

    Args:
        cos: [S, P], the row of each position from 0 on.
        sin: likewise.

    Raises:
        RopewalkError: where these are no cos and sin of positions 0, 1, 2 … times fixed frequencies.

    >>> import numpy as np
    >>> angles = np.arange(100)[:, None] * [1.0, 0.01]
    >>> recover(np.cos(angles), np.sin(angles)).inv_freq.round(12).tolist()
    [1.0, 0.01]
    """
    if cos.ndim != 2 or cos.shape != sin.shape or min(cos.shape[0] - 1, cos.shape[1]) < 1:
        raise RopewalkError(
            f"cos and sin must be [positions, pairs] with at least two rows, got {list(cos.shape)} and "
            f"{list(sin.shape)}."
        )
    length = cos.shape[0]
    later = np.geomspace(_FIRST, length - 1, _LATER).round().astype(int) if length > _FIRST else []
    powers = [2**bit for bit in range(length.bit_length()) if 2**bit < length]
    rows = np.unique(np.concatenate([np.arange(min(length, _FIRST)), powers, later]).astype(np.int64))
    with np.errstate(all="ignore"):  # signalling NaNs, numbers beyond float64
        cos, sin = (np.asarray(part[rows], dtype=np.float64) for part in (cos, sin))
    if not (np.isfinite(cos).all() and np.isfinite(sin).all()):
        raise RopewalkError("the tables hold numbers that are not finite, so they are no cos and sin.")
    kind, grain = _grain(cos, sin)
    finest = _SMALLEST_HALF if kind == "float16" else 1e-300
    with np.errstate(all="ignore"):
        size = np.hypot(cos, sin)
        magnitude = float(np.mean(size))
        off = ~(np.abs(size - magnitude) <= (4 * grain + 1e-6) * magnitude)
    if not magnitude > 0 or off.any():
        row, column = (int(at) for at in np.argwhere(off)[0]) if off.any() else (0, 0)
        raise RopewalkError(
            f"the tables are no cos and sin of one magnitude: at row {rows[row]}, column {column} they give "
            f"{size[row, column]:.6g}, elsewhere {magnitude:.6g}."
        )
    if (np.abs(sin[0]) > 1e-6 * magnitude).any() or (cos[0] < 0).any():
        raise RopewalkError(
            "the first row must be that of position 0, with cos 1 and sin 0; it has turned by "
            f"{float(np.max(np.abs(np.arctan2(sin[0], cos[0])))):.4g} rad. Give the whole table."
        )
    angles = np.arctan2(sin, cos)
    freq = angles[rows == 1][0]
    for power in powers[1:]:
        freq = freq + _wrapped(angles[rows == power][0] - power * freq) / power
    ahead = rows[1:, None]
    weight = np.ones_like(angles[1:])
    for _ in range(2):
        turned = np.abs(ahead * freq)
        noise = grain * np.clip(turned, 1e-30, 1.0) + FLOAT32 * turned + finest
        gap = _wrapped(angles[1:] - ahead * freq)
        weight = ahead / noise**2
        freq = freq + np.sum(weight * gap, axis=0) / np.sum(weight * ahead, axis=0)
    still = (sin == 0).all(axis=0)
    freq = np.where(still, 0.0, freq)
    gap = np.abs(_wrapped(angles[1:] - ahead * freq))
    room = 8 * grain + 64 * FLOAT32 * np.abs(ahead * freq) + _SMALLEST_HALF
    if (gap > room).any():
        row, column = (int(at) for at in np.argwhere(gap > room)[0])
        raise RopewalkError(
            f"the tables do not turn by one frequency a pair: column {column} is off by {gap[row, column]:.3g} rad at "
            f"row {rows[row + 1]}. Rounded frequencies or positions, two tables one after the other (longrope), or "
            "several axes look like this; give the model's config.json."
        )
    error = np.where(still, 0.0, 4 / np.sqrt(np.sum(weight * ahead, axis=0)))
    near = 1.0 if abs(magnitude - 1) <= grain + 1e-7 else roundest(magnitude, magnitude * max(grain / 8, 1e-12))
    return Recovered(inv_freq=freq, error=error, magnitude=near, kind=kind, grain=grain, rows=rows, cos=cos, sin=sin)


def known(seen: Recovered, *, length: int | None = None) -> Fit | None:
    """Give the theta and the scaling that reproduce a table to its type, or None where no known ones do.

    Args:
        seen: what was recovered.
        length: the model's context, tokens; settles lengths that the table leaves open.

    >>> import numpy as np
    >>> angles = np.arange(100)[:, None] * 500000.0 ** (-np.arange(8) / 8) / 4
    >>> known(recover(np.cos(angles), np.sin(angles))).scaling
    Linear(factor=4.0)
    """
    target = seen.target
    if not target.turning.any():
        return None
    turning = int(np.count_nonzero(seen.inv_freq))
    if turning < len(seen.inv_freq) and not seen.inv_freq[:turning].all():
        return None
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():  # numbers that nothing explains divide by zero
            warnings.simplefilter("ignore")
            return _first(seen, target, turning if turning < len(target.freq) else None, length)
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        return None


def _first(seen: Recovered, target: Target, turning: int | None, length: int | None) -> Fit | None:
    g, width = seen.magnitude, 2 * len(target.freq)
    for fit in fits(target, width, g, turning, length):
        scaling = fit.scaling
        try:
            if isinstance(scaling, Default) and g != 1:
                scaling = Yarn(factor=1.0, original_max_position_embeddings=max(length or 1, 1), attention_factor=g)
            made = scaling.frequencies(fit.rope_theta, width)
            if isinstance(scaling, Yarn) and not math.isclose(
                made.cos_sin_factor, g, rel_tol=max(2 * seen.grain, 1e-9)
            ):
                scaling = replace(scaling, attention_factor=g)
                made = made._replace(cos_sin_factor=g)
        except (RopewalkError, OverflowError):
            continue
        if target.agrees(made.inv_freq) and seen.reproduced_by(made.inv_freq, made.cos_sin_factor):
            return replace(fit, scaling=scaling)
    return None


def _grain(cos: NDArray[np.float64], sin: NDArray[np.float64]) -> tuple[str, float]:
    values = np.concatenate([cos.ravel(), sin.ravel()])
    with np.errstate(all="ignore"):
        narrow = values.astype(np.float32)
        single = bool((narrow == values).all())
        held = (
            single and not (narrow.view(np.uint32) & 0xFFFF).any(),
            bool((values.astype(np.float16) == values).all()),
            single,
        )
    return next((grain for grain, fits_in in zip(_GRAINS, held, strict=False) if fits_in), _GRAINS[-1])


def _wrapped(angles: NDArray[Any]) -> NDArray[np.float64]:
    return angles - 2 * np.pi * np.round(angles / (2 * np.pi))
