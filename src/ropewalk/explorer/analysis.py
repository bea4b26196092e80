"""What engineers ask of the same page: scores against distance, angles by position, precision, a second description."""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..rope import Rope

if TYPE_CHECKING:
    from .data import Document

CURVE_POINTS = 200
PRECISION_POSITIONS = (128, 1024, 4096, 32_768, 131_072, 1_048_576)


def curve(document: "Document") -> dict[str, Any]:
    """Give the score against the distance: the mean cosine over all pairs, and that of the given query and key."""
    pairs = document.rope.pairs(document.a.length)
    distances = np.unique(np.round(np.geomspace(1, document.state.window, CURVE_POINTS)).astype(np.int64))
    distances = np.concatenate([[0], distances])
    angles = distances[:, None] * pairs.inv_freq
    rows = document.scores.rows
    straight, cross = (np.array([getattr(row, name) for row in rows]) for name in ("straight", "cross"))
    g = pairs.cos_sin_factor**2
    given = g * (np.cos(angles) @ straight + np.sin(angles) @ cross) + document.scores.still
    return {
        "distances": distances.tolist(),
        "mean": (np.cos(angles).mean(axis=1)).tolist(),
        "given": given.tolist(),
    }


def comparison(document: "Document") -> dict[str, Any]:
    """Hold the second description beside the first, pair by pair; two equal ones give zeros throughout."""
    assert document.b is not None
    one, two = document.rope.pairs(document.a.length), document.b.rope.pairs(document.b.length)
    shared = min(len(one), len(two))
    first, second = one.inv_freq[:shared], two.inv_freq[:shared]
    m = document.state.m
    ratio = [None if b == 0 else float(a / b) for a, b in zip(first, second, strict=True)]
    return {
        "rope": document.b.rope.to_dict(),
        "message": document.b.message,
        "pairs": [len(one), len(two)],
        "inv_freq": second.tolist(),
        "difference": (second - first).tolist(),
        "ratio": ratio,
        "angle_difference": (m * (second - first)).tolist(),
        "dims_differ": [bool(one.first[i] != two.first[i] or one.second[i] != two.second[i]) for i in range(shared)],
        "factor_difference": two.cos_sin_factor - one.cos_sin_factor,
        "largest": float(np.abs(second - first).max(initial=0.0)),
    }


def heat_map(rope: Rope, length: int | None, window: int, *, columns: int = 96, rows: int = 64) -> dict[str, Any]:
    """Give cos of the angle by position and pair, positions spaced evenly over the window, at most rows pairs."""
    pairs = rope.pairs(length)
    chosen = np.unique(np.linspace(0, len(pairs) - 1, min(rows, len(pairs))).round().astype(int))
    positions = np.linspace(0, window, columns)
    return {
        "pairs": chosen.tolist(),
        "positions": positions.tolist(),
        "cos": np.cos(pairs.inv_freq[chosen, None] * positions).tolist(),
    }


@lru_cache(maxsize=64)
def precision(rope: Rope, length: int | None) -> list[dict[str, Any]]:
    """Give the largest error of an angle's cosine by position, for frequencies or angles kept in fewer bits.

    "float32" multiplies float32 frequencies by float32 positions; "bfloat16" and "half" round the frequencies alone;
    "half, all three" rounds frequencies, positions and angles, as the original ChatGLM-6B does.
    """
    exact = rope.pairs(length).inv_freq
    rows = []
    for position in PRECISION_POSITIONS:
        right = np.cos(position * exact)
        forms = {
            "float32": np.float32(position) * exact.astype(np.float32),
            "bfloat16": position * _bfloat16(exact),
            "half": position * exact.astype(np.float16).astype(np.float64),
            "half_all": _half_angles(position, exact),
        }
        errors = {name: _worst(right, angles) for name, angles in forms.items()}
        rows.append({"position": position, **errors})
    return rows


@lru_cache(maxsize=64)
def worst_in_half(rope: Rope, length: int | None, below: int = 2048) -> float | None:
    """Give the largest error of any cosine at any position below a number, all three rounded to half."""
    exact = rope.pairs(length).inv_freq
    positions = np.arange(below)[:, None]
    return _worst(np.cos(positions * exact), _half_angles(positions, exact))


def _worst(right: NDArray[np.float64], angles: NDArray[Any]) -> float | None:
    error = float(np.abs(np.cos(angles.astype(np.float64)) - right).max())
    return error if math.isfinite(error) else None


def _half_angles(position: int | NDArray[np.int64], exact: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        angles = (np.asarray(position, dtype=np.float16) * exact.astype(np.float16)).astype(np.float16)
        return np.where(np.isfinite(angles), angles, np.nan).astype(np.float64)


def _bfloat16(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to the nearest bfloat16, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).astype(np.float64)


def arithmetic(document: "Document") -> list[dict[str, Any]]:
    """Give the drawn pair's turning one number at a time: how it is made, in float64 and in bfloat16 throughout.

    The bfloat16 column rounds the frequency, the position, their product, cos and sin, every factor and every result.
    """
    row = document.turns[document.pair]
    g = document.rope.pairs(document.a.length).cos_sin_factor
    a, b = row.before
    m = float(document.state.m)
    cos, sin = math.cos(row.angle), math.sin(row.angle)
    low = {name: _low(value) for name, value in (("theta", row.inv_freq), ("m", m), ("a", a), ("b", b), ("g", g))}
    low_angle = _low(low["m"] * low["theta"])
    low_cos, low_sin = _low(math.cos(low_angle)), _low(math.sin(low_angle))
    lows = (
        low["theta"],
        low_angle,
        low_cos,
        low_sin,
        _low(low["g"] * _low(_low(low["a"] * low_cos) - _low(low["b"] * low_sin))),
        _low(low["g"] * _low(_low(low["b"] * low_cos) + _low(low["a"] * low_sin))),
    )
    factor = "" if g == 1 else f"{g:.6f} · "
    names = (
        ("θ", _frequency_made(document), row.inv_freq),
        ("m·θ", f"{document.state.m} · {row.inv_freq:.8f}", row.angle),
        ("cos", f"cos {row.angle:.6f}", cos),
        ("sin", f"sin {row.angle:.6f}", sin),
        (f"[{row.first}]", f"{factor}({a:.3f} · {cos:.6f} - {b:.3f} · {sin:.6f})", row.after[0]),
        (f"[{row.second}]", f"{factor}({b:.3f} · {cos:.6f} + {a:.3f} · {sin:.6f})", row.after[1]),
    )
    return [
        {"name": name, "made": made, "float64": value, "bfloat16": rounded}
        for (name, made, value), rounded in zip(names, lows, strict=True)
    ]


def _frequency_made(document: "Document") -> str:
    rope = document.rope
    if rope.scaling.rope_type != "default" or rope.axes.kind != "single":
        return rope.scaling.rope_type
    return f"{rope.rope_theta:g}^(-2·{document.pair}/{rope.width})"


def _low(value: float) -> float:
    return float(_bfloat16(np.array([value]))[0])
