"""What `ropewalk inspect` says about a model, as plain data."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ._checks import MAX_POSITION, whole
from .errors import RopewalkError
from .findings import Finding
from .models.model import Layer, Model
from .models.targets import read
from .pairs import Pairs
from .rope import Rope
from .scaling import Default, Proportional

SCHEMA = "ropewalk.inspect/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """One pair of a rope.

    Attributes:
        pair: i.
        first: its first channel.
        second: its second channel.
        axis: the name of the position axis that drives it.
        inv_freq: θ_i, radians a position.
        second_inv_freq: the second channel's, where a map is no rotation; else None.
        wavelength: positions for one full turn; None for a pair that keeps still (or takes more than float64 can say).
        turns: turns within the window; None without a window.
        divisor: by how much scaling slowed the pair; None for a pair that keeps still.
    """

    pair: int
    first: int
    second: int
    axis: str
    inv_freq: float
    second_inv_freq: float | None
    wavelength: float | None
    turns: float | None
    divisor: float | None

    def to_dict(self) -> dict[str, Any]:
        """Give the row as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeView:
    """One distinct rope of a model, resolved and measured against a window.

    Attributes:
        rope: the description.
        places: where it is used, in words ("text: layers 0-31").
        pairs: the resolved table.
        rows: one for each pair.
        length: tokens that a length-dependent rope was resolved for, or None.
        window: tokens that wavelengths are compared with, or None where unknown.
        slowest: the pair with the longest wavelength among those that turn; None where none turns.
        slower_than_window: how many turning pairs have a wavelength longer than the window; None without a window.
        still: how many pairs keep still.
    """

    rope: Rope
    places: tuple[str, ...]
    pairs: Pairs
    rows: tuple[PairRow, ...]
    length: int | None
    window: int | None
    slowest: PairRow | None
    slower_than_window: int | None
    still: int

    def to_dict(self) -> dict[str, Any]:
        """Give the view as plain values."""
        return {
            "rope": self.rope.to_dict(),
            "places": list(self.places),
            "length": self.length,
            "window": self.window,
            "cos_sin_factor": self.pairs.cos_sin_factor,
            "softmax_factor": self.pairs.softmax_factor,
            "is_rotation": self.pairs.is_rotation,
            "pairs": [row.to_dict() for row in self.rows],
            "slowest": None if self.slowest is None else self.slowest.to_dict(),
            "slower_than_window": self.slower_than_window,
            "still": self.still,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A model, the ropes that were asked about, and the plan of its layers.

    Attributes:
        model: as read.
        plan: by part, in words, which layers do what.
        views: the distinct ropes of the chosen parts and layers.
        findings: those of the chosen part, or all.
    """

    model: Model
    plan: dict[str, tuple[str, ...]]
    views: tuple[RopeView, ...]
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain values for JSON."""
        return {
            "schema": SCHEMA,
            "model": self.model.to_dict(),
            "plan": {part: list(lines) for part, lines in self.plan.items()},
            "ropes": [view.to_dict() for view in self.views],
            "findings": [finding.to_dict() for finding in self.findings],
        }


def inspect(
    target: object,
    *,
    part: str | None = None,
    layer: int | None = None,
    window: int | None = None,
    length: int | None = None,
) -> Inspection:
    """Read a model and measure its ropes.

    Args:
        target: whatever `read` takes, or a Model.
        part: one part ("text", "vision" …); None means all.
        layer: one layer of the part, counted from 0; None means all.
        window: tokens to compare wavelengths with; None takes the rope's max_position_embeddings.
        length: tokens in the sequence, for ropes that depend on it; None means at or below the trained length.

    Raises:
        RopewalkError: for a target that cannot be read, or a part or layer that the model lacks.

    >>> seen = inspect({"model_type": "llama", "head_dim": 8, "num_hidden_layers": 2, "rope_theta": 10000})
    >>> seen.views[0].places, [row.wavelength for row in seen.views[0].rows][0]
    (('text: layers 0-1',), 6.283185307179586)
    """
    model = read(target)
    window = None if window is None else whole("window", window, at_least=1, at_most=MAX_POSITION)
    length = None if length is None else whole("length", length, at_least=1, at_most=MAX_POSITION)
    chosen = _chosen(model, part, layer)
    unread = {finding.where.partition(":")[0] for finding in model.findings if finding.severity == "error"}
    places: dict[Rope, list[str]] = {}
    for name, numbered in chosen.items():
        for (use, rope), numbers in _uses(numbered).items():
            suffix = "" if use == "attention" else f" ({use})"
            places.setdefault(rope, []).append(f"{name}: {_layers_words(numbers)}{suffix}")
    views = tuple(view_rope(rope, tuple(words), window=window, length=length) for rope, words in places.items())
    findings = tuple(finding for finding in model.findings if part is None or finding.where.startswith(f"{part}:"))
    return Inspection(
        model=model,
        plan={
            name: _plan(layers, model.positions.get(name), unread=name in unread)
            for name, layers in model.parts.items()
        },
        views=views,
        findings=findings,
    )


def view_rope(
    rope: Rope, places: tuple[str, ...] = (), *, window: int | None = None, length: int | None = None
) -> RopeView:
    """Resolve one rope and measure every pair against the window (None: its max_position_embeddings)."""
    pairs = rope.pairs(length)
    window = window or rope.max_position_embeddings
    # what proportional leaves still is no scaling, what its factor slows is
    scaling = rope.scaling
    unscaled_by = replace(scaling, factor=1.0) if isinstance(scaling, Proportional) else Default()
    unscaled = rope.replace(scaling=unscaled_by).pairs().inv_freq.tolist()
    names = getattr(rope.axes, "names", ("position",))
    second = None if pairs.is_rotation or pairs.second_inv_freq is None else pairs.second_inv_freq.tolist()
    columns = (column.tolist() for column in (pairs.first, pairs.second, pairs.axis, pairs.inv_freq))
    rows = []
    for i, (one, other, axis, inv_freq) in enumerate(zip(*columns, strict=True)):
        rows.append(
            PairRow(
                pair=i,
                first=one,
                second=other,
                axis=names[axis],
                inv_freq=inv_freq,
                second_inv_freq=None if second is None else second[i],
                wavelength=None if inv_freq == 0 else _finite(2 * math.pi / abs(inv_freq)),
                turns=None if window is None else window * abs(inv_freq) / (2 * math.pi),
                divisor=None if inv_freq == 0 else _finite(unscaled[i] / inv_freq),
            )
        )
    turning = [row for row in rows if row.wavelength is not None]
    slowest = max(turning, key=lambda row: row.wavelength or 0, default=None)
    slower = None if window is None else sum((row.wavelength or 0) > window for row in turning)
    return RopeView(
        rope=rope,
        places=places,
        pairs=pairs,
        rows=tuple(rows),
        length=length if rope.length_dependent else None,
        window=window,
        slowest=slowest,
        slower_than_window=slower,
        still=len(rows) - len(turning),
    )


def _chosen(model: Model, part: str | None, layer: int | None) -> dict[str, list[tuple[int, Layer]]]:
    if part is not None and part not in model.parts:
        raise RopewalkError(f"the model has no part {part!r}; its parts are {', '.join(model.parts) or 'none'}.")
    names = list(model.parts) if part is None else [part]
    if layer is None:
        return {name: list(enumerate(model.parts[name])) for name in names}
    name = part or next((name for name in names if model.parts[name] is model.layers), "text")
    layers = model.parts.get(name, ())
    if not layers:
        raise RopewalkError(f"the number of layers of part {name} is not known: leave out layer {layer}.")
    if not 0 <= layer < len(layers):
        raise RopewalkError(f"part {name} has layers 0 to {len(layers) - 1}, got layer {layer}.")
    return {name: [(layer, layers[layer])]}


def _uses(numbered: Iterable[tuple[int, Layer]]) -> dict[tuple[str, Rope], list[int]]:
    uses: dict[tuple[str, Rope], list[int]] = {}
    for number, layer in numbered:
        for use, rope in layer.ropes.items():
            uses.setdefault((use, rope), []).append(number)
    return uses


def _plan(layers: tuple[Layer, ...], positions: str | None, *, unread: bool) -> tuple[str, ...]:
    """Say which layers do what, one line for each kind of layer, in order of appearance."""
    if positions is not None:
        return (f"{len(layers) or 'unknown number of'} layers without RoPE; positions: {positions}",)
    none = "no RoPE" if not unread or any(layer.ropes for layer in layers) else "RoPE not readable"
    if not layers:
        return (f"unknown number of layers, {none}",)
    kinds: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        words = layer.kind or "attention"
        rope = layer.rope
        words += f", θ={number_words(rope.rope_theta)}, {rope.scaling.rope_type}" if rope else f", {none}"
        scale = layer.query_scale
        if scale is not None:
            words += f", query temperature by position (attn_scale={number_words(scale.attn_scale)}, "
            words += f"floor_scale={number_words(scale.floor_scale)})"
        if "indexer" in layer.ropes:
            words += ", with an indexer"
        if layer.output_inverse:
            words += ", output turned back"
        kinds.setdefault(words, []).append(number)
    return tuple(f"{_layers_words(numbers)}: {words}" for words, numbers in kinds.items())


def number_words(value: object) -> str:
    """Write a number to be read: whole ones in full, others to nine digits; true and false as JSON has them.

    >>> number_words(1e6), number_words(0.1), number_words(True)
    ('1000000', '0.1', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.9g}"
    return str(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _layers_words(numbers: list[int]) -> str:
    """Write layer numbers as ranges, and a regular spacing as such: "layers 0-3, 8", "layers 3, 7 … 35 (every 4)"."""
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) > 3 and len(steps) == 1 and steps != {1}:
        return f"layers {numbers[0]}, {numbers[1]} … {numbers[-1]} (every {steps.pop()})"
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return "layers " + ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
