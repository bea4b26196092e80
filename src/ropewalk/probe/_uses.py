"""What a transformers configuration's rotary modules can be asked: each with its apply function and the rope meant."""

import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from ..compat._fitting import labels_of
from ..errors import RopewalkError
from ..models.model import Model
from ..models.targets import read
from ..rope import Rope
from ..turning import naive
from ._errors import first_line
from ._models import Found, rotary_modules
from ._places import placed, turning_attention
from ._transformers import Rotated

_APPLY = re.compile(r"^_?(vision_)?apply_\w*(rotary|rope)\w*$")
_NEAR = 1e-3  # of the largest entry: at small positions a module that holds this rope is nearer than that
_ASKED = np.array([[1, 6, 3, 11], [4, 2, 9, 5], [7, 3, 1, 8], [2, 5, 10, 3]])  # unlike on every axis


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A rotary module that can be asked: its name, the function, the rope of its config, how it was reached."""

    name: str
    fn: Callable[[Any, Any], Any]
    rope: Rope
    note: str
    agrees: bool


@dataclass(frozen=True, kw_only=True)
class Unasked:
    """A rotary module that cannot be asked from outside, and why."""

    name: str
    reason: str


def ask(config: Any) -> Iterator[Asked | Unasked]:
    """Give every rotary module of a configuration's model, once for each layer type and use.

    Raises:
        RopewalkError: where the model cannot be built, or has no rotary module.
    """
    root = _read(config)
    for found in rotary_modules(config):
        for label in [None] if found.module is None else labels_of(found.module):
            yield from _uses(found, label, root)


def _read(config: Any) -> Model | None:
    try:
        return read(config)
    except RopewalkError:
        return None


def _uses(found: Found, label: str | None, root: Model | None) -> Iterator[Asked | Unasked]:
    """Give what one rotary module does, for one of its layer types, once for each use."""
    place = f"{found.path}[{label}]" if label else found.path
    name = place if found.path == found.class_name else f"{place} ({found.class_name})"
    module = found.module
    if module is None:
        yield Unasked(name=name, reason="its class cannot be built from a configuration alone")
        return
    ropes, located = _ropes(found.config, label, root)
    if not ropes:
        yield Unasked(name=name, reason="ropewalk.read finds no rope for it in the configuration")
        return
    if hasattr(module, "apply_rotary_embeddings"):
        fn, (_, rope) = turning_attention(module), ropes[0]
        note = "it has no rotary module: its apply_rotary_embeddings turns"
        yield Asked(name=name, fn=fn, rope=rope, note=note, agrees=_gap(fn, rope) <= _NEAR)
        return
    own = placed(module)
    rotary = own or module
    file = sys.modules[type(module).__module__]
    seen = "Vision" in type(module).__name__  # a vision tower's function and the text part's stand in one file
    applies = sorted(_applies(file), key=lambda one: ("vision" in one.__name__) != seen)
    best: dict[str, Asked] = {}
    reason = "its file has no apply function of its own" if not applies else ""
    gaps: dict[str, float] = {}
    for (use, rope), apply in itertools.product(ropes, applies):
        try:
            fn, gap = _nearest_order(rotary, apply, label, rope)
        except Exception as error:  # a function for something else, in foreign code
            reason = reason or first_line(error)
            continue
        if use not in gaps or (gaps[use] > _NEAR and gap < gaps[use]):
            gaps[use] = gap
            notes = [f"its apply function is {apply.__name__}", *([own.note] if own is not None else [])]
            best[use] = Asked(
                name=name if use == "attention" else f"{name} {use}",
                fn=fn,
                rope=rope,
                note="; ".join(notes),
                agrees=gap <= _NEAR,
            )
    if not best and _makes_positions(module):
        reason = "it makes its positions itself, from the size of its input"
    if not best:
        yield Unasked(name=name, reason=reason or "no apply function of its file takes what it gives")
        return
    agreeing = [one for one in best.values() if one.agrees]
    if not agreeing and not located:
        yield Unasked(name=name, reason=f"no layer of the configuration uses {label}, as far as ropewalk.read sees")
        return
    yield from agreeing or [next(iter(best.values()))]


def _applies(file: Any) -> Iterator[Callable[..., Any]]:
    """Give what a file turns vectors with: its functions, and what its attention does around them."""
    sorts = getattr(file, "deinterleave_head_dim", None)  # Qwen2.5-Omni's DiT sorts the channels first
    for name, one in vars(file).items():
        if _APPLY.match(name) and inspect.isfunction(one):
            yield one
            if sorts is not None:
                yield _sorted_first(one, sorts)
        elif inspect.isclass(one) and hasattr(one, "_apply_rotary_embedding"):  # the conformers
            yield _of_hidden_states(one)
            return


def _sorted_first(apply: Any, sorts: Any) -> Callable[..., Any]:
    def deinterleaved(q: Any, k: Any, cos: Any, sin: Any) -> Any:
        return apply(sorts(q), sorts(k), cos, sin)

    return deinterleaved


def _of_hidden_states(owner: Any) -> Callable[..., Any]:
    """Give the method of an attention that turns hidden states [B, S, H·D], all rows by one table, as a function."""

    def of_hidden_states(x: Any, cos: Any, sin: Any) -> Any:
        rows = []
        for row, *tables in zip(x, cos, sin, strict=True):  # x [B, S, H, D]
            held = SimpleNamespace(num_heads=x.shape[2], head_size=x.shape[3])
            table = torch.stack(tables)[:, :, None, None, :]
            out = owner._apply_rotary_embedding(held, row.flatten(1)[None], table)
            rows.append(out.view(row.shape))
        return torch.stack(rows)

    return of_hidden_states


def _makes_positions(module: nn.Module) -> bool:
    """Say whether a module is given no positions; one that gives the first S rows of a table is found by calling it."""
    return not any("pos" in name or name.endswith("ids") for name in inspect.signature(module.forward).parameters)


def _ropes(config: Any, label: str | None, root: Model | None) -> tuple[list[tuple[str, Rope]], bool]:
    """Give each (use, rope) of the module's own configuration, or else of the whole model's, and whether by label."""
    own_model = _read(config)
    for model in (own_model or root,):
        layers = [layer for layers in model.parts.values() for layer in layers] if model is not None else []
        own = [layer for layer in layers if label is not None and layer.kind == label]
        found = list(dict.fromkeys((use, rope) for layer in own or layers for use, rope in layer.ropes.items()))
        if found:
            return found, bool(own) or label is None
    return [], False


def _nearest_order(module: Any, apply: Any, label: str | None, rope: Rope) -> tuple[Any, float]:
    """Give the function for this rope, its rows of positions in the order that is nearest, and how far off it is."""
    axes = rope.axes.num_axes
    names = tuple(getattr(rope.axes, "names", ()) or ())
    orders = (
        [tuple(range(axes))] if axes == 1 or names == ("t", "h", "w") else list(itertools.permutations(range(axes)))
    )
    rotated = Rotated(module, apply, layer_type=label, axes=axes, kv_heads=1, of="both")
    rotated.softened = ("float32-out",)  # float32 tables promote; the attention casts, or the tables are cast with it
    options = [_Ordered(rotated, order) for order in orders]
    gaps = [_gap(one, rope, getattr(module, "counts_from", 0)) for one in options]
    least = int(np.argmin(gaps))
    return (rotated if options[least].plain else options[least]), gaps[least]


class _Ordered:
    """A function whose rows of positions stand in another order than the rope's axes."""

    def __init__(self, fn: Rotated, order: tuple[int, ...]) -> None:
        self.fn, self.order, self.module, self.softened = fn, list(order), fn.module, fn.softened
        self.plain = self.order == sorted(self.order)

    def __call__(self, x: Any, position_ids: Any) -> Any:
        return self.fn(x, position_ids[self.order] if position_ids.ndim == 3 else position_ids)


def _gap(fn: Any, rope: Rope, counts_from: int = 0) -> float:
    """Give how far a function is from a rope at a few small positions, its output's order left open."""
    axes = rope.axes.num_axes
    ids = _ASKED[:axes, None, :] if axes > 1 else _ASKED[:1]
    x = np.random.default_rng(5).standard_normal((1, ids.shape[-1], 2, rope.head_dim))
    with torch.no_grad():
        theirs = fn(torch.from_numpy(x).float(), torch.from_numpy(ids)).double().numpy()
    ours = naive.rotate(x, ids + counts_from, rope, length=12 if rope.length_dependent else None)
    start, width = rope.rotary_start, rope.width
    sorted_ = np.concatenate([np.arange(start, start + width, 2), np.arange(start + 1, start + width, 2)])
    moved = ours.copy()
    moved[..., start : start + width] = ours[..., sorted_]
    return min(float(np.abs(theirs - one).max()) for one in (ours, moved)) / float(np.abs(x).max())
