"""Cos and sin as ONNX nodes: from tables of float32, from angles of float64, or baked for a range of positions."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from onnxscript import evaluator, ir, opset18

from ..pairs import Pairs
from .tables import ROWS, SplitTables, column_axes, speeds

op: Any = opset18  # as torch's own translations; its annotations speak of eager values, not of a graph's

FLOAT, DOUBLE, INT64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64

Dim = int | str | None  # a number, or the name of one that is known when the model runs
Made = TypeVar("Made")


class Tokens(NamedTuple):
    """Positions in the graph."""

    ids: tuple[ir.Value, ...]  # one for each axis, or one for all: [S] or [rows, S]
    rows: Dim  # None for [S]
    whole: bool  # int64; else float64
    key: Any


class Growth(NamedTuple):
    """How dynamic NTK slows the pairs beyond the trained length: speeds · ratio^-exponents."""

    ratio: ir.Value  # float64, [] or [B, 1, 1]
    exponents: NDArray[np.float64]  # [C]


class Parts(NamedTuple):
    """What turns the two channels of a pair, as tables.Coefficients has it: each [S, P] or [rows, S, P]."""

    c0: ir.Value
    s0: ir.Value
    c1: ir.Value
    s1: ir.Value


def parts(
    pairs: Pairs, tokens: Tokens, real: ir.DataType, *, transpose: bool, inverse: bool, growth: Growth | None
) -> Parts:
    """Give the coefficients of one table of pairs; the factor and the direction are in the tables already."""
    g = pairs.cos_sin_factor
    if pairs.is_rotation:
        sign = -1.0 if transpose != inverse else 1.0
        c, s = _cos_sin(pairs, sign * speeds(pairs), 1 / g if inverse else g, tokens, real, growth)
        return Parts(c, s, c, s)
    cos, sin = _cos_sin(pairs, speeds(pairs), 1.0 if inverse else g, tokens, real, growth)
    (cos_a, cos_b), (sin_a, sin_b) = (op.Split(both, num_outputs=2, axis=-1) for both in (cos, sin))
    c0, s0, c1, s1 = cos_a, sin_a, cos_b, sin_b
    if inverse:  # the map's determinant is g² times the sum
        scale = op.Div(constant(1 / g, real), op.Add(op.Mul(cos_a, cos_b), op.Mul(sin_a, sin_b)))
        c0, c1 = op.Mul(scale, cos_b), op.Mul(scale, cos_a)
        s0, s1 = op.Neg(op.Mul(scale, sin_a)), op.Neg(op.Mul(scale, sin_b))
    return Parts(c0, op.Neg(s1), c1, op.Neg(s0)) if transpose else Parts(c0, s0, c1, s1)


def either(choice: ir.Value, where: Parts, elsewhere: Parts) -> Parts:
    """Give the one coefficients where choice holds, and the others elsewhere."""
    chosen: dict[int, ir.Value] = {}
    for one, other in zip(where, elsewhere, strict=True):
        if id(one) not in chosen:  # a rotation's c1 is its c0
            chosen[id(one)] = op.Where(choice, one, other)
    return Parts(*(chosen[id(one)] for one in where))


def caches(pairs: Pairs, rows: int, *, transpose: bool, inverse: bool) -> tuple[ir.Value, ir.Value]:
    """Give the cos and sin of the positions 0 … rows - 1 as constants, each [rows, P] float32."""
    g = 1 / pairs.cos_sin_factor if inverse else pairs.cos_sin_factor
    speed = -speeds(pairs) if transpose != inverse else speeds(pairs)

    def made() -> tuple[ir.Value, ir.Value]:
        angle = np.arange(rows, dtype=np.float64)[:, None] * speed
        return constant(g * np.cos(angle), FLOAT), constant(g * np.sin(angle), FLOAT)

    return shared(("caches", speed.tobytes(), g, rows), made)


def _cos_sin(
    pairs: Pairs, speed: NDArray[np.float64], g: float, tokens: Tokens, real: ir.DataType, growth: Growth | None
) -> tuple[ir.Value, ir.Value]:
    """Give g·cos and g·sin of every column, [S, C] or [rows, S, C]."""
    axis = column_axes(pairs) if len(tokens.ids) > 1 else np.zeros(len(speed), dtype=np.int64)
    columns = [np.flatnonzero(axis == a) for a in range(len(tokens.ids))]
    pieces = []
    for ids, held in zip(tokens.ids, columns, strict=True):
        if len(held) and tokens.whole and real == FLOAT and growth is None:
            pieces.append(_by_tables(ids, SplitTables(speed[held]), g))
        elif len(held):
            own = None if growth is None else Growth(growth.ratio, growth.exponents[held])
            pieces.append(_by_angles(op.Cast(ids, to=DOUBLE) if tokens.whole else ids, speed[held], g, real, own))
    if len(pieces) == 1:
        return pieces[0]
    order = np.argsort(np.concatenate(columns))
    cos, sin = (op.Concat(*halves, axis=-1) for halves in zip(*pieces, strict=True))
    if not np.array_equal(order, np.arange(len(order))):
        cos, sin = (op.Gather(one, constant(order, INT64), axis=-1) for one in (cos, sin))
    return cos, sin


def _by_tables(ids: ir.Value, tables: SplitTables, g: float) -> tuple[ir.Value, ir.Value]:
    """Give float32 cos and sin of whole positions; one at or beyond ±2^30 leaves the last table, an error of Gather."""
    size = op.Abs(ids)
    rest = op.Div(size, ROWS)
    fine, *others = op.Mod(size, ROWS), op.Mod(rest, ROWS), op.Div(rest, ROWS)
    cos, sin = (op.Gather(constant(g * half, FLOAT), fine, axis=0) for half in tables.fine)
    for place, table in zip(others, (tables.coarse, tables.far), strict=True):
        c, s = (op.Gather(constant(half, FLOAT), place, axis=0) for half in table)
        cos, sin = op.Sub(op.Mul(cos, c), op.Mul(sin, s)), op.Add(op.Mul(sin, c), op.Mul(cos, s))
    return cos, op.Mul(sin, op.Unsqueeze(op.Cast(op.Sign(ids), to=FLOAT), [-1]))


def _by_angles(
    ids: ir.Value, speed: NDArray[np.float64], g: float, real: ir.DataType, growth: Growth | None
) -> tuple[ir.Value, ir.Value]:
    slowed = constant(speed, DOUBLE)
    if growth is not None:
        slowed = op.Mul(slowed, op.Pow(growth.ratio, constant(-growth.exponents, DOUBLE)))
    angle = op.Mul(op.Unsqueeze(ids, [-1]), slowed)
    cos, sin = op.Cos(angle), op.Sin(angle)
    if g != 1:
        cos, sin = (op.Mul(one, constant(g, DOUBLE)) for one in (cos, sin))
    return cast(cos, DOUBLE, real), cast(sin, DOUBLE, real)


def cast(value: ir.Value, own: ir.DataType | None, wanted: ir.DataType | None) -> ir.Value:
    """Give value, of dtype own, in the wanted dtype."""
    return value if own == wanted else op.Cast(value, to=wanted)


def constant(numbers: Any, dtype: ir.DataType) -> ir.Value:
    """Give numbers as a constant of the graph."""
    return op.Constant(value=ir.tensor(np.asarray(numbers).astype(dtype.numpy())))


def shared(key: Any, make: Callable[[], Made]) -> Made:
    """Make values once for a graph: torch keeps a dict of constants for the one it is writing.

    Every layer turns by the same cos and sin, and torch's own clean-up merges no constant of more than 1024 numbers.
    """
    farm = getattr(evaluator.default(), "constant_farm", None)
    if farm is None:
        return make()
    key = ("ropewalk", key)
    if key not in farm:
        farm[key] = make()
    return farm[key]
