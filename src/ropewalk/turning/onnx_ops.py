"""Turning as ONNX nodes: the operator RotaryEmbedding where it can say the turn, plain operators elsewhere."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnxscript import evaluator, ir, opset23

from ..errors import RopewalkError
from ..pairs import Pairs
from ..scaling import Dynamic, LongRope
from ._inputs import check_rows, check_shape, lengths_of
from .onnx_tables import (
    DOUBLE,
    FLOAT,
    INT64,
    Dim,
    Growth,
    Parts,
    Tokens,
    caches,
    cast,
    constant,
    either,
    op,
    parts,
    shared,
)
from .op import rope_of
from .tables import speeds
from .torch_ops import recipe_of

op23: Any = opset23

OPSET = 23  # the first with RotaryEmbedding
WHOLE = {ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT8}


class Turn:
    """One call of `ropewalk::turn` on its way into a graph; the arguments are the op's."""

    def __init__(
        self,
        x: ir.Value,
        position_ids: ir.Value | None,
        text: str,
        length: Sequence[Any],
        layout: str,
        transpose: bool,
        inverse: bool,
    ) -> None:
        self.rope, self.text, self.length = rope_of(text), text, tuple(length)
        self.heads_first, self.transpose, self.inverse = layout == "bhsd", transpose, inverse
        shape: list[Any] = _dims(x)
        check_shape("x", shape, self.rope, layout)
        if not length:
            lengths_of(self.rope, None)  # raises for a rope that needs one
        if len(length) > 1 and (len(shape) < 4 or isinstance(shape[-4], int)):
            check_rows(self.length, shape)
        self.recipe = recipe_of(self.rope)  # the channels are the same at every length
        self.packed = len(shape) == 3
        self.shape = [1, *shape] if self.packed else shape
        self.x = op.Unsqueeze(x, [0]) if self.packed else x
        self.dtype = x.dtype
        self.real = DOUBLE if self.dtype == DOUBLE else FLOAT
        self.tokens = self._tokens(position_ids)

    def written(self, max_position: int | None, plain: bool) -> ir.Value:
        """Add the nodes to the graph and give the turned value."""
        tables, long, growth = self._tables()
        sayable = (
            self.recipe.is_rotation
            and self.recipe.kind in ("half", "interleaved")
            and self.recipe.start == 0
            and self.rope.head_dim % 2 == 0
            and self.real == FLOAT
            and len(self.shape) == 4
            and (self.heads_first or isinstance(self.shape[2], int))
        )
        baked = len(self.tokens.ids) == 1 and self.tokens.whole and long is None and growth is None
        if plain or not sayable or _opset() < OPSET:
            turned = self._by_plain_operators(self._parts(tables, long, growth))
        elif max_position is not None and baked:
            cos, sin = caches(tables[0], max_position, transpose=self.transpose, inverse=self.inverse)
            ids = self._for_every_row(self.tokens.ids[0], self.tokens.rows, 1)
            turned = self._by_operator(cos, sin, ids)
        else:
            c0, s0, *_ = self._parts(tables, long, growth)
            cos, sin = (self._for_every_row(one, self.tokens.rows, 2) for one in (c0, s0))
            turned = self._by_operator(cos, sin, None)
        return op.Squeeze(turned, [0]) if self.packed else turned

    def _tokens(self, ids: ir.Value | None) -> Tokens:
        axes = self.rope.axes.num_axes
        one_for_all = axes == 1 or self.rope.axes.kind == "sections"
        if ids is None:
            if not one_for_all:
                raise RopewalkError(f"this rope has {axes} axes: pass position_ids [axes, batch, seq].")
            place = len(self.shape) - (2 if self.heads_first else 3)
            size = self.shape[place]
            key = ("counted", self.x if size is None else size)
            counted = shared(key, lambda: _counted(self.x, place, size))
            return Tokens((counted,), None, True, key)
        dims, whole = _dims(ids), ids.dtype in WHOLE
        if not (len(dims) == 3 and dims[0] == axes) and not (1 <= len(dims) <= 2 and one_for_all):
            expected = "[seq] or [batch, seq]" if axes == 1 else f"[axes={axes}, batch, seq]"
            raise RopewalkError(f"position_ids must be {expected} for this rope, got shape {dims}.")

        def by_axis() -> tuple[ir.Value, ...]:
            wide = cast(ids, ids.dtype, INT64 if whole else DOUBLE)
            each = [op.Gather(wide, a, axis=0) for a in range(axes)] if len(dims) == 3 else [wide]
            return tuple(op.Squeeze(one, [0]) if self.packed and len(dims) > 1 else one for one in each)

        key = ("tokens", ids, self.packed)
        rows = dims[-2] if len(dims) > 1 and not self.packed else None
        return Tokens(shared(key, by_axis), rows, whole, key)

    def _tables(self) -> tuple[list[Pairs], ir.Value | None, Growth | None]:
        """Give the pairs: one table; or two, and where the second holds; or one, and how a length slows it."""
        rope, scaling = self.rope, self.rope.scaling
        if not rope.length_dependent:
            return [rope.pairs()], None, None
        if all(isinstance(entry, int) for entry in self.length):
            known = {rope.pairs(entry) for entry in self.length}
            if len(known) == 1:
                return list(known), None, None
        if isinstance(scaling, LongRope):
            original = scaling.original_max_position_embeddings
            long = shared(("long", original, self.length), lambda: op.Greater(self._lengths(), original))
            return [rope.pairs(original), rope.pairs(original + 1)], long, None
        trained = rope.max_position_embeddings
        assert isinstance(scaling, Dynamic) and trained is not None
        factor = scaling.factor
        before, beyond = speeds(rope.pairs(trained)), speeds(rope.pairs(2 * trained))
        exponents = np.log(before / beyond) / np.log(factor + 1)  # the ratio at twice the trained length

        def ratio() -> ir.Value:
            grown = op.Mul(op.Cast(self._lengths(), to=DOUBLE), constant(factor / trained, DOUBLE))
            return op.Max(op.Sub(grown, constant(factor - 1, DOUBLE)), constant(1.0, DOUBLE))

        growth = Growth(shared(("ratio", factor, trained, self.length), ratio), exponents)
        return [rope.pairs(trained)], None, growth

    def _lengths(self) -> ir.Value:
        """Give the lengths in int64: [] for one, [B, 1, 1] for one a row."""
        entries = [constant(entry, INT64) if isinstance(entry, int) else entry for entry in self.length]
        if len(entries) == 1:
            return entries[0]
        return op.Reshape(op.Concat(*(op.Reshape(entry, [1]) for entry in entries), axis=0), [-1, 1, 1])

    def _parts(self, tables: list[Pairs], long: ir.Value | None, growth: Growth | None) -> Parts:
        flags = {"transpose": self.transpose, "inverse": self.inverse}

        def made() -> Parts:
            each = [parts(pairs, self.tokens, self.real, growth=growth, **flags) for pairs in tables]
            return each[0] if long is None else either(long, each[1], each[0])

        return shared(("parts", self.text, self.length, self.real, self.tokens.key, *flags.values()), made)

    def _for_every_row(self, value: ir.Value, rows: Dim, trailing: int) -> ir.Value:
        """Give value [(rows,) …] as [B, …]: the operator does not broadcast."""
        batch = self.shape[0]
        if rows is not None and rows == batch:
            return value

        def made() -> ir.Value:
            if isinstance(batch, int):
                return op.Expand(value, [batch, *[1] * trailing])
            ones = constant([1] * trailing, INT64)
            return op.Expand(value, op.Concat(op.Shape(self.x, start=0, end=1), ones, axis=0))

        return shared(("rows", value, self.x if batch is None else batch), made)

    def _by_operator(self, cos: ir.Value, sin: ir.Value, ids: ir.Value | None) -> ir.Value:
        width, heads = self.rope.head_dim, self.shape[1 if self.heads_first else 2]
        x = cast(self.x, self.dtype, FLOAT)  # in half precision the operator would round cos, sin and every product
        turned = op23.RotaryEmbedding(
            x if self.heads_first else op.Reshape(x, [0, 0, heads * width]),
            cos,
            sin,
            ids,
            interleaved=int(self.recipe.kind == "interleaved"),
            num_heads=heads if isinstance(heads, int) else None,
            rotary_embedding_dim=self.recipe.end if self.recipe.end < width else 0,
        )
        return cast(turned if self.heads_first else op.Reshape(turned, [0, 0, heads, width]), FLOAT, self.dtype)

    def _by_plain_operators(self, parts: Parts) -> ir.Value:
        x, recipe, heads = self.x, self.recipe, -3 if self.heads_first else -2
        wide = {key: op.Unsqueeze(part, [heads]) for key, part in {id(part): part for part in parts}.items()}
        c0, s0, c1, s1 = (wide[id(part)] for part in parts)
        if recipe.kind == "half":
            a, b = _slice(x, recipe.start, recipe.middle), _slice(x, recipe.middle, recipe.end)
        elif recipe.kind == "interleaved":
            a, b = _slice(x, recipe.start, recipe.end, 2), _slice(x, recipe.start + 1, recipe.end, 2)
        else:
            a, b = (op.Gather(x, constant(place, INT64), axis=-1) for place in (recipe.first, recipe.second))
        a, b = cast(a, self.dtype, self.real), cast(b, self.dtype, self.real)
        turned = op.Sub(op.Mul(a, c0), op.Mul(b, s0)), op.Add(op.Mul(b, c1), op.Mul(a, s1))
        pieces = [cast(one, self.real, self.dtype) for one in turned]
        if recipe.kind == "interleaved":
            woven = op.Concat(*(op.Unsqueeze(one, [-1]) for one in pieces), axis=-1)
            pieces = [op.Reshape(woven, [0] * (len(self.shape) - 1) + [recipe.end - recipe.start])]
        if recipe.kind != "any":
            before = [_slice(x, 0, recipe.start)] if recipe.start else []
            behind = [_slice(x, recipe.end, self.rope.head_dim)] if recipe.end < self.rope.head_dim else []
            return op.Concat(*before, *pieces, *behind, axis=-1)
        still = [op.Gather(x, constant(recipe.still, INT64), axis=-1)] if recipe.still else []
        return op.Gather(op.Concat(*pieces, *still, axis=-1), constant(recipe.order, INT64), axis=-1)


def _counted(x: ir.Value, place: int, size: Dim) -> ir.Value:
    """Give 0 … S - 1 for the dimension of x that counts tokens."""
    if isinstance(size, int):
        return constant(np.arange(size), INT64)
    return op.Range(0, op.Squeeze(op.Shape(x, start=place, end=place + 1), [0]), 1)


def _slice(x: ir.Value, start: int, end: int, step: int = 1) -> ir.Value:
    return op.Slice(x, [start], [end], [-1], [step])


def _dims(value: ir.Value) -> list[Dim]:
    assert value.shape is not None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def _opset() -> int:
    return getattr(getattr(evaluator.default(), "opset", None), "version", OPSET)
