"""The gate before the clock: what a contender returns is compared with the float64 truth, element by element."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..rope import Rope
from ..turning import naive

ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}  # half an ulp of 1
TINIEST = {"float64": 0.0, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
SECOND_ORDER = 1.01  # roundings of roundings
ALL_BELOW, STEP, LAST = 32, 61, 8  # positions compared: all below 32, then each 61st, then the last 8
FEW = 512  # tokens up to which all are compared

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """What a contender states about its own arithmetic; the tolerance follows from it.

    Attributes:
        angle: relative error of an angle position·inv_freq before its cos and sin are taken.
        table: largest absolute rounding error of a cos or sin near 1.
        arithmetic: the same of a product or sum on the way.
        output: that of the result, relative.
        tiniest: smallest number above 0 of the result's type.
    """

    angle: float
    table: float
    arithmetic: float
    output: float
    tiniest: float

    @classmethod
    def exact(cls, dtype: str) -> "Precision":
        """Ours: float64 angles, float32 arithmetic (float64 for float64), one rounding to the result's type.

        The bound of 2^-52 on an angle stands for our rounding of it and for the truth's.
        """
        inner = ROUNDING["float64" if dtype == "float64" else "float32"]
        return cls(angle=2.0**-52, table=inner, arithmetic=inner, output=ROUNDING[dtype], tiniest=TINIEST[dtype])

    @classmethod
    def float32_angles(cls, dtype: str, theta: float, *, table: str, arithmetic: str) -> "Precision":
        """A peer whose frequencies and angles are float32.

        inv_freq is θ^-x: half an ulp in x is ln θ of them in the power; the power, the division and the product with
        the position add one each, and one is left for a power function that rounds badly.
        """
        return cls(
            angle=(4 + math.log(theta)) * ROUNDING["float32"],
            table=max(ROUNDING[table], ROUNDING["float32"]),
            arithmetic=ROUNDING[arithmetic],
            output=ROUNDING[dtype],
            tiniest=TINIEST[dtype],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """What the gate saw.

    Attributes:
        ok: whether every compared number is within its tolerance.
        error: largest absolute deviation from the truth; None where nothing could be compared.
        share: largest deviation as a share of its own tolerance; above 1 is red.
        why: what is wrong, in words; empty when ok.
    """

    ok: bool
    error: float | None
    share: float | None
    why: str = ""


class Truth:
    """What turning given vectors must give, worked out in float64 on a slice of the tokens."""

    def __init__(self, rope: Rope, position_ids: Tensor, tensors: Sequence[Tensor], grads: Sequence[Tensor] = ()):
        """Take the slice and turn it.

        Args:
            rope: the description, whose factor on cos and sin is 1.
            position_ids: [B, S] of every token.
            tensors: what is turned, each [B, S, H, D].
            grads: for the backward pass, what arrives for each result; it is turned back.
        """
        self.rope = rope
        self.ids, self.rows = _slice(position_ids)
        self.given = [_part(x, self.rows) for x in tensors]
        backward = [_part(grad, self.rows) for grad in grads]
        self.expected = [naive.rotate(x, self.ids, rope) for x in self.given]
        self.expected += [naive.rotate(grad, self.ids, rope, inverse=True) for grad in backward]
        self.sizes = [self._sizes(x) for x in (*self.given, *backward)]
        self.shapes = [(x.shape, x.dtype) for x in (*tensors, *grads)]

    def judge(self, results: Any, precision: Precision) -> Parity:
        """Compare results with the truth: as many tensors, of the same shapes and types, each number within tolerance.

        A pair (a, b) of angle φ may be off by (abs(a) + abs(b)) times the errors of the angle, of the table, and of
        two roundings of the arithmetic, and by one rounding of the result.
        """
        if not isinstance(results, tuple | list) or len(results) != len(self.expected):
            return Parity(ok=False, error=None, share=None, why=f"{len(self.expected)} tensors were expected")
        worst = share = 0.0
        for result, expected, sizes, (shape, dtype) in zip(
            results, self.expected, self.sizes, self.shapes, strict=True
        ):
            if not isinstance(result, Tensor) or result.shape != shape or result.dtype != dtype:
                got = f"{list(result.shape)} {result.dtype}" if isinstance(result, Tensor) else type(result).__name__
                why = f"expected {list(shape)} {dtype}, got {got}"
                return Parity(ok=False, error=None, share=None, why=why)
            seen = _part(result, self.rows)
            if not np.isfinite(seen).all():
                return Parity(ok=False, error=None, share=None, why="the result holds NaN or infinity")
            pair, angled = sizes
            allowed = angled * precision.angle + pair * (precision.table + 2 * precision.arithmetic)
            allowed = SECOND_ORDER * (allowed + np.abs(expected) * precision.output) + precision.tiniest
            off = np.abs(seen - expected)
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = np.where(off > 0, off / allowed, 0.0)
            worst, share = max(worst, float(off.max())), max(share, float(shares.max()))
        if share <= 1:
            return Parity(ok=True, error=worst, share=share)
        why = f"off by {worst:.1e} from float64, {share:.3g} times what its precision allows"
        return Parity(ok=False, error=worst, share=share, why=why)

    def untouched(self, tensors: Sequence[Tensor]) -> bool:
        """Whether the compared part of tensors is still what was given."""
        return all(np.array_equal(_part(x, self.rows), was) for x, was in zip(tensors, self.given, strict=True))

    def _sizes(self, x: Float64) -> tuple[Float64, Float64]:
        """Give abs(a) + abs(b) for each channel, and the same times its pair's angle."""
        pairs = self.rope.pairs()
        both = np.abs(x[..., pairs.first]) + np.abs(x[..., pairs.second])
        angles = np.abs(self.ids[..., None, None] * pairs.inv_freq)
        pair, angled = np.zeros_like(x), np.zeros_like(x)
        for channels in (pairs.first, pairs.second):
            pair[..., channels], angled[..., channels] = both, both * angles
        return pair, angled


def _slice(position_ids: Tensor) -> tuple[Float64, tuple[Tensor, Tensor]]:
    """Choose rows and tokens to compare; give their positions [b, s] and the two index tensors."""
    batch, seq = position_ids.shape
    rows, tokens = torch.arange(batch), torch.arange(seq)
    if batch * seq > FEW:
        rows = torch.unique(torch.tensor([0, batch - 1]))
        chosen = (tokens < ALL_BELOW) | (tokens % STEP == 0) | (tokens >= seq - LAST)
        tokens = tokens[chosen]
    index = (rows[:, None], tokens[None, :])
    return position_ids[index].to(torch.float64).numpy(), index


def _part(x: Tensor, rows: tuple[Tensor, Tensor]) -> Float64:
    return x.detach()[rows].to(torch.float64).numpy()
