"""Candidate roundings of a RoPE: the cos and sin that each way of being imprecise would give."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rounding = Callable[[Floats], Floats]


def _kept_bits(bits: int, ties: str = "even") -> Rounding:
    """Give the rounding of float32 numbers to their first `bits` bits after the leading one.

    Args:
        bits: that stay.
        ties: "even" and "away" round to the nearest and differ in the middle between two; "chopped" rounds to zero.
    """
    cut = 23 - bits

    def rounded(values: Floats) -> Floats:
        raw = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
        if ties != "chopped":
            raw = raw + (1 << (cut - 1)) - (((raw >> cut) & 1) ^ 1 if ties == "even" else 0)
        return ((raw >> cut) << cut).astype(np.uint32).view(np.float32).astype(np.float64)

    return rounded


def to_fp16(values: Floats) -> Floats:
    """Round to float16; infinite beyond 65,504."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16).astype(np.float64)


def to_fp32(values: Floats) -> Floats:
    """Round to float32."""
    return np.asarray(values).astype(np.float32).astype(np.float64)


to_bf16 = _kept_bits(7)
TF32 = {words: _kept_bits(10, ties) for words, ties in (("cut", "even"), ("rounded", "away"), ("chopped", "chopped"))}
HALVES: dict[str, Rounding] = {"bf16": to_bf16, "fp16": to_fp16}


class Candidate(NamedTuple):
    """One way to compute cos and sin.

    Attributes:
        cause: its name, "bf16-frequencies"; None for exact.
        words: what is rounded.
        cos: [T, P].
        sin: [T, P].
    """

    cause: str | None
    words: str
    cos: Floats
    sin: Floats


def _same(values: Floats) -> Floats:
    return values


def candidates(positions: Floats, inv_freq: Floats, second: Floats, factor: float = 1.0) -> Iterator[Candidate]:
    """Give every candidate for positions [T] and frequencies [P]; second drives the sine, usually the same.

    Args:
        positions: whole numbers.
        inv_freq: radians a position.
        second: of the channel that the sine goes into.
        factor: multiplies cos and sin, before finished tables are rounded.
    """

    def made(cause: str | None, words: str, angle: Callable[[Floats], Floats], end: Rounding = _same) -> Candidate:
        with np.errstate(invalid="ignore", over="ignore"):
            cos, sin = np.cos(angle(inv_freq)), np.sin(angle(second))
            return Candidate(cause, words, end(cos * factor) / factor, end(sin * factor) / factor)

    p = positions[:, None]
    yield made(None, "exact angles", lambda w: p * w)
    yield made("float32-angles", "angles in float32", lambda w: to_fp32(to_fp32(p) * to_fp32(w)))
    yield made("float32-running-product", "frequencies as a running product in float32", lambda w: p * _running(w))
    yield made("float32-running-product", "angles as a running product in float32", lambda w: _running_angles(p, w))
    for name, half in HALVES.items():
        yield made(f"{name}-tables", f"finished tables rounded to {name}", lambda w: p * w, half)
    for done, r in TF32.items():
        words = f"{done} to TF32's 10 bits"
        yield made("tf32-product", f"positions and frequencies {words}", lambda w, r=r: r(p) * r(w))
        yield made("tf32-product", f"positions {words}", lambda w, r=r: r(p) * w)
    for name, half in HALVES.items():
        for end, also in ((_same, ""), (half, ", and the finished tables")):
            yield made(f"{name}-frequencies", f"frequencies rounded to {name}{also}", lambda w, r=half: p * r(w), end)
            yield made(f"{name}-positions", f"positions rounded to {name}{also}", lambda w, r=half: r(p) * w, end)
            yield made(
                f"{name}-positions", f"positions and frequencies rounded to {name}{also}",
                lambda w, r=half: r(p) * r(w), end,
            )  # fmt: skip
            for words, of_p, of_w in (
                ("the angle product", _same, _same),
                ("frequencies and the angle product", _same, half),
                ("positions and the angle product", half, _same),
                ("positions, frequencies and the angle product", half, half),
            ):
                yield made(
                    f"{name}-angles", f"{words} rounded to {name}{also}",
                    lambda w, r=half, a=of_p, b=of_w: r(a(p) * b(w)), end,
                )  # fmt: skip


def _running(w: Floats) -> Floats:
    """Give a ladder built by multiplying float32 numbers from pair to pair."""
    if len(w) < 2 or not np.all(w):
        return to_fp32(w)
    steps = np.full(len(w), w[1] / w[0], np.float32)
    steps[0] = np.float32(w[0])
    return np.multiply.accumulate(steps).astype(np.float64)


def _running_angles(p: Floats, w: Floats) -> Floats:
    """Give angles multiplied from pair to pair in float32, as ggml does."""
    if len(w) < 2 or not np.all(w):
        return p * w
    steps = np.full((len(p), len(w)), w[1] / w[0], np.float32)
    steps[:, 0] = (p * w[:1]).astype(np.float32)[:, 0]
    return np.multiply.accumulate(steps, axis=1).astype(np.float64)


def on_grid(inv_freq: Floats, half: Rounding, room: float = 0.0) -> bool:
    """Whether frequencies are all numbers of a 16-bit format: no accident where at least three are no power of two.

    Args:
        inv_freq: radians a position.
        half: the format's rounding.
        room: by how much each may be off, measured as it is; those that it could hide tell nothing.

    >>> on_grid(to_bf16(5e5 ** (-np.arange(8) / 8)), to_bf16), on_grid(5e5 ** (-np.arange(8) / 8), to_bf16)
    (True, False)
    """
    size = np.abs(inv_freq[inv_freq != 0])
    telling = size[(np.abs(np.frexp(size)[0] - 0.5) > 1e-3) & (room < 2.0**-14 * size)]
    allowed = np.maximum(2e-6 * telling + 1e-11, room)
    return len(telling) >= 3 and bool(np.all(np.abs(half(telling) - telling) <= allowed))
