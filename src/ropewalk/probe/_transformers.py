"""A rotary module of transformers and its apply function, called the way they fit together."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._checks import choice
from ..errors import RopewalkError
from ._slots import Slots, slots_of
from .adapt import KINDS, both

_BATCH, _LENGTH, _HEADS = 7, 5, 6  # unlike each other and any number of axes, so that a wrong layout does not fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a rotary module and an apply function are called.

    Attributes:
        ids: "rows": [B, S] or [A, B, S]; "columns": [B, S, A]; "tokens": [tokens, A], all rows one after the other;
            "length": none, the module gives the table of all positions up to the longest.
        layout: of what the apply function takes.
        width: channels that are cut out for it, or None for all.
    """

    ids: str
    layout: str
    width: int | None


class Rotated:
    """fn(x, position_ids) from a rotary module and an apply function; see `adapt.transformers`.

    Attributes:
        softened: findings that are only notes, since the attention around the apply function answers for them too.
    """

    softened: tuple[str, ...] = ()

    def __init__(
        self, rotary: Any, apply: Any, *, layer_type: str | None, axes: int, kv_heads: int | None, of: str
    ) -> None:
        self.rotary, self.slots = rotary, _slots(apply)
        self.layer_type, self.axes, self.kv_heads = layer_type, axes, kv_heads
        self.of = choice("of", of, KINDS)
        self.way: Way | None = None
        if hasattr(rotary, "named_buffers"):
            self.module = rotary

    def __call__(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """Turn x [B, S, H, D]."""
        ids = position_ids[None] if position_ids.ndim == 1 else position_ids
        if ids.ndim == 2 and self.axes > 1:
            ids = ids.expand(self.axes, *ids.shape)
        if ids.shape[-2] != x.shape[0]:
            ids = ids.expand(*ids.shape[:-2], x.shape[0], ids.shape[-1])
        if self.way is None:
            self.way = self._find(x)
        return self._turn(self.way, x, ids)

    def _find(self, x: Tensor) -> Way:
        """Try the ways until one gives x's shape back."""
        probe = torch.ones(_BATCH, _LENGTH, _HEADS, x.shape[-1], dtype=x.dtype, device=x.device)
        ids = torch.arange(_LENGTH, device=x.device).expand(_BATCH, _LENGTH)
        ids = ids if self.axes == 1 else ids.expand(self.axes, _BATCH, _LENGTH)
        reasons: list[str] = []
        for way in self._ways(probe, ids, reasons):
            try:
                with torch.no_grad():
                    out = self._turn(way, probe, ids)
            except Exception as error:  # the wrong way, in foreign code
                reasons.append(f"{type(error).__name__}: {error}".splitlines()[0])
                continue
            if getattr(out, "shape", None) == probe.shape:
                return way
            reasons.append(f"it gave {list(getattr(out, 'shape', ()))} for {list(probe.shape)}")
        told = "; ".join(dict.fromkeys(reasons)) or "the module gives no tables"
        raise RopewalkError(
            f"{type(self.rotary).__name__} and {getattr(self.slots.function, '__name__', 'the function')} cannot be "
            f"called together in a way known here ({told[:300]}). Write def fn(x, position_ids): … and check that."
        )

    def _ways(self, probe: Tensor, ids: Tensor, reasons: list[str]) -> Iterator[Way]:
        for form in ("rows", "columns", "tokens", "length") if self.axes > 1 else ("rows", "tokens", "length"):
            try:
                with torch.no_grad():
                    parts = self._tables(form, probe, ids)
            except Exception as error:  # the wrong form of positions, in foreign code
                reasons.append(f"{type(error).__name__}: {error}".splitlines()[0])
                continue
            columns = int(parts[0].shape[-1])
            widths = [None, *sorted({min(columns, probe.shape[-1]), min(2 * columns, probe.shape[-1])})]
            layouts = ("thd",) if form == "tokens" else ("bhsd", "bshd")
            for width, layout in itertools.product(widths, layouts):
                yield Way(ids=form, layout=layout, width=width)
            if form == "tokens":
                yield from (Way(ids=form, layout=layout, width=None) for layout in ("1hsd", "1shd"))

    def _tables(self, form: str, x: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        extra = {} if self.layer_type is None else {"layer_type": self.layer_type}
        if form == "length":
            out = self.rotary(x.new_zeros(1, int(ids.max()) + 1, x.shape[-1]), **extra)
            if not isinstance(out, tuple) and out.shape[0] == 2 and out.ndim > 3:
                out = tuple(out)
            parts = out if isinstance(out, tuple) else (out.cos(), out.sin())
            rows = tuple(part.reshape(-1, part.shape[-1]) for part in parts)
            return rows if self.slots.has("ids") else tuple(part[ids] for part in rows)
        out = self.rotary(x, _positions(form, ids), **extra)
        parts = (out,) if isinstance(out, Tensor) and out.is_complex() else out
        if not isinstance(parts, tuple | list) or not all(isinstance(part, Tensor) for part in parts):
            raise RopewalkError(f"it gave {type(out).__name__} for tables")
        return tuple(parts)

    def _turn(self, way: Way, x: Tensor, ids: Tensor) -> Tensor:
        width = x.shape[-1] if way.width is None else way.width
        part = x if way.width is None else x[..., :width]
        tables = self._tables(way.ids, x, ids)
        q = _laid(part, way.layout)
        values: dict[str, Any] = {"x": q}
        if len(tables) == 1:
            values["complex"] = tables[0]
        else:
            roles = [role for _, role in self.slots.roles if role in ("cos", "sin")]
            values |= dict(zip(roles, tables, strict=True))
            values |= {"cos_k": values["cos"], "sin_k": values["sin"]}
        heads = part if self.kv_heads is None else part[:, :, : self.kv_heads]
        values |= {"k": _laid(heads.clone(), way.layout), "v": q.clone()}
        values["ids"] = _positions(way.ids, ids)
        out = self.slots.call(values)
        several = isinstance(out, tuple | list)
        turned = tuple(_unlaid(one, part, way.layout) for one in out) if several else _unlaid(out, part, way.layout)
        turned = both(turned, part, "bshd", self.of if self.slots.has("k") and several else "q")
        return turned if way.width is None else torch.cat([turned, x[..., width:]], dim=-1)


def _positions(form: str, ids: Tensor) -> Tensor:
    """Give positions [B, S] or [A, B, S] in the form that a module takes."""
    if form == "columns":
        return ids.movedim(0, -1)
    if form == "tokens":
        return ids.flatten(1).T if ids.ndim == 3 else ids.flatten()
    return ids


def _slots(apply: Any) -> Slots:
    """Give the slots of an apply function, which takes cos and sin in some order, or complex numbers."""
    try:
        return slots_of(apply, ("x", "cos", "sin"))
    except RopewalkError:
        return slots_of(apply, ("x", "complex"))


def _laid(x: Tensor, layout: str) -> Tensor:
    if layout in ("thd", "1shd", "1hsd"):
        x = x.reshape(-1, *x.shape[2:])
        return x if layout == "thd" else x[None] if layout == "1shd" else x[None].transpose(1, 2)
    return x.transpose(1, 2) if layout == "bhsd" else x


def _unlaid(x: Tensor, like: Tensor, layout: str) -> Tensor:
    if layout in ("bhsd", "1hsd"):
        x = x.transpose(1, 2)
    if layout in ("thd", "1shd", "1hsd"):
        return x.reshape(*like.shape[:2], *x.shape[-2:])
    return x
