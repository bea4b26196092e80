"""compare(): two descriptions, or a black box and a description, or two black boxes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import comparison
from .._checks import choice, whole
from ..comparison import Comparison, Measured, Measurement
from ..comparison.tables import DISTANCES
from ..errors import RopewalkError
from ..findings import Finding
from ..fitting.numbers import FLOAT32
from ..models.model import Model
from ..models.targets import read
from ..pairs import Pairs
from ..rope import Rope
from .box import LAYOUTS, Box, BoxFailure
from .explaining import explain
from .recovery import Recovered, recover

ROUNDED = 2.5e-3  # relative: by how much tables rounded to bfloat16 move the factor on cos and sin


@dataclass(frozen=True, kw_only=True)
class BlackBox:
    """A function to compare, with what `ropewalk.check` would be told of it.

    Attributes:
        fn: fn(x, position_ids) -> x'.
        name: what it is, in words.
        options: layout, backend, dtype and the like, where they are not those of the comparison.
    """

    fn: Callable[[Any, Any], Any]
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


def compare(
    a: object,
    b: object,
    *,
    distances: Iterable[int] = DISTANCES,
    length: int | None = None,
    part: str | None = None,
    head_dim: int | None = None,
    layout: str = "bshd",
    backend: str = "auto",
    dtype: Any = None,
    device: Any = None,
    max_position: int = 1_048_576,
    timeout: float = 60.0,
) -> Comparison:
    """Compare two rotary embeddings, A being the reference: descriptions, or functions that are called.

    A function's pairs are recovered as `ropewalk.check` recovers them and are known up to what was measured; equality
    is judged within that, and a note says how much it is.

    Args:
        a: a Rope, a Model, a dict (a configuration, or what their to_dict gives), whatever else `read` takes, or a
            function fn(x, position_ids) that gives x turned.
        b: the same. A lone Rope, or a function, is compared with every rope of the other's main part.
        distances: tokens, at which angles are subtracted.
        length: tokens in the sequence, for ropes that depend on it; None compares them at the trained length and, where
            they are alike there, beyond it.
        part: one part only ("text", "vision" …); None means all, and for a function the main one.
        head_dim: D of a function; None takes its own, where it says one, or the other side's.
        layout: of what a function takes: "bshd", "bhsd" or "thd".
        backend: of what a function takes: "numpy", "torch", "jax" or "auto".
        dtype: of x; float32 where None.
        device: of x, for torch.
        max_position: the largest position that a function is asked for.
        timeout: seconds for all calls of a function together.

    Raises:
        RopewalkError: for a side that cannot be read, in which no rope could be described, or that is a function
            whose pairs cannot be measured.

    >>> import numpy as np, ropewalk
    >>> rope = ropewalk.Rope(head_dim=32, rope_theta=500000.0, pairing="half")
    >>> wrong = rope.replace(rope_theta=10000.0)
    >>> seen = compare(rope, lambda x, position_ids: ropewalk.rotate(x, position_ids, wrong))
    >>> seen.equal, seen.first.words
    (False, 'in B, pair 1 of 16 turns 1.27698 times too fast: theta 10000 for 500000')
    """
    choice("layout", layout, LAYOUTS)
    usual = {"layout": layout, "backend": backend, "dtype": dtype, "device": device}
    usual |= {"max_position": max_position, "timeout": timeout}
    boxes = [_boxed(one) for one in (a, b)]
    sides: list[Any] = [a, b]
    if any(boxes):
        sides = [
            one if box or isinstance(one, Rope | Model | Mapping) else read(one)
            for one, box in zip(sides, boxes, strict=True)
        ]
        channels = _head_dim(head_dim, sides, boxes, part)
        sides = [
            one if box is None else _Measuring(box, head_dim=channels, **usual).measured(letter)
            for letter, one, box in zip("AB", sides, boxes, strict=True)
        ]
    return comparison.compare(sides[0], sides[1], distances=distances, length=length, part=part)


def _boxed(given: Any) -> BlackBox | None:
    if isinstance(given, BlackBox):
        return given
    if not callable(given) or isinstance(given, Rope | Model | Mapping | type) or hasattr(given, "model_type"):
        return None
    name = getattr(given, "__qualname__", type(given).__qualname__)
    return BlackBox(fn=given, name=f"the function {name}" if hasattr(given, "__qualname__") else f"a {name}")


def _head_dim(asked: int | None, sides: list[Any], boxes: list[BlackBox | None], part: str | None) -> int:
    """Give D of the functions that do not say their own: as asked for, else that of the other side."""
    if asked is not None:
        return whole("head_dim", asked, at_least=2, at_most=65_536)
    told = {box.options["head_dim"] for box in boxes if box is not None and "head_dim" in box.options}
    if all(box is None or "head_dim" in box.options for box in boxes):
        return max(told)
    for one, box in zip(sides, boxes, strict=True):
        if box is None:
            told |= {rope.head_dim for rope in _ropes(one, part)}
    if len(told) != 1:
        seen = f"there are several: {', '.join(map(str, sorted(told)))}" if told else "nothing says it"
        raise RopewalkError(
            f"a function is compared for heads of one head_dim, and {seen}. Give head_dim (--head-dim)."
        )
    return told.pop()


def _ropes(given: Any, part: str | None) -> list[Rope]:
    if isinstance(given, Mapping) and given.get("schema") == "ropewalk.rope/1":
        given = Rope.from_dict(given)
    if isinstance(given, Rope):
        return [given]
    model = given if isinstance(given, Model) else _read(given)
    layers = model.layers if part is None else model.parts.get(part, ())
    return [rope for layer in layers for rope in layer.ropes.values()]


def _read(given: Mapping[str, Any]) -> Model:
    return Model.from_dict(given) if given.get("schema") == "ropewalk.model/1" else read(given)


class _Long(Box):
    """A box whose every call holds one more token, at the end of a sequence of some length."""

    last = 0

    def turn(self, x: ArrayLike, position_ids: ArrayLike) -> NDArray[np.float64]:
        """Give what fn makes of x beside the last token of the sequence."""
        x, ids = np.asarray(x, dtype=np.float64), np.asarray(position_ids)
        longer = np.concatenate([x, np.zeros_like(x[:, :1])], axis=1)
        more = np.full((*ids.shape[:-1], 1), self.last, dtype=ids.dtype)
        return super().turn(longer, np.concatenate([ids, more], axis=-1))[:, :-1]


class _Measuring:
    """A black box that is measured when a comparison asks, each length once."""

    def __init__(self, box: BlackBox, *, head_dim: int, **options: Any) -> None:
        self.box, self.options = box, {**options, "head_dim": head_dim, **_known(box.options)}
        self.letter = ""
        self.seen: dict[tuple[int | None, int], tuple[Measurement, Recovered]] = {}

    def measured(self, letter: str) -> Measured:
        """Give it as a side of a comparison."""
        self.letter = letter
        return Measured(
            name=self.box.name,
            head_dim=self.options["head_dim"],
            longest=self.options["max_position"] + 1,
            measure=lambda length, axes: self._at(length, axes)[0],
            explain=self._explained,
        )

    def _at(self, length: int | None, axes: int) -> tuple[Measurement, Recovered]:
        key = (length, axes)
        if key not in self.seen:
            self.seen[key] = self._measure(length, axes)
        return self.seen[key]

    def _measure(self, length: int | None, axes: int) -> tuple[Measurement, Recovered]:
        options = {**self.options, "axes": axes}
        if length is not None and length - 1 > options["max_position"]:
            raise RopewalkError(
                f"length {length} needs positions up to {length - 1}, and a function is asked for at most "
                f"{options['max_position']}. Give a larger max_position."
            )
        box: Box
        if length is None:
            box = Box(self.box.fn, **options)
        else:
            box = _Long(self.box.fn, **{**options, "max_position": max(length - 1, 1)})
            box.last = length - 1
        try:
            found = recover(box)
        except BoxFailure as failure:
            one = failure.failure
            raise RopewalkError(
                f"{self.letter}, {self.box.name}, cannot be measured: {one.kind}, {one.message} ({one.where})."
            ) from failure
        wrong = {"random", "state"} & set(box.facts)
        if wrong:
            raise self._no_table("the same call does not give the same twice")
        pairs = self._pairs(found)
        error = np.zeros(0) if found.inv_freq_error is None or not len(pairs) else found.inv_freq_error
        size = np.abs(pairs.inv_freq)
        with np.errstate(divide="ignore"):
            depth = np.where(size > 0, np.abs(np.log(size)), 0.0)
        # what a legal way of computing costs besides, as a running product of the ladder
        legal = size * min(found.noise, FLOAT32) * (8 + depth + 1.5 * np.arange(len(pairs)))
        measurement = Measurement(
            pairs=pairs,
            room=4 * error + legal,
            factor_room=max(4 * found.noise, min(found.residual, ROUNDED)),
            until=found.linear_until,
            calls=box.calls,
            beyond=None if found.length_change is None else found.length_change[1],
            deviation=found.residual,
            faults=tuple(_faults(found, self.letter)),
        )
        return measurement, found

    def _pairs(self, found: Recovered) -> Pairs:
        if found.kind == "identity":
            none = np.zeros(0, dtype=np.int64)
            return Pairs(first=none, second=none, axis=none, inv_freq=np.zeros(0))
        if found.kind != "rotation" or found.pairs is None or found.quarter or found.tables_as_angles:
            why = "; ".join(found.notes)
            if found.quarter:
                why = "cos and sin stand exchanged"
            elif found.tables_as_angles:
                why = "tables of cos and sin are taken for angles"
            raise self._no_table(why or f"it is a {found.kind} map")
        return found.pairs

    def _no_table(self, why: str) -> RopewalkError:
        return RopewalkError(
            f"{self.letter}, {self.box.name}, has no table of pairs to compare: {why}. ropewalk check says more."
        )

    def _explained(
        self, measurement: Measurement, other: Rope | None, length: int | None
    ) -> tuple[Rope | None, dict[str, str]]:
        pairs = measurement.pairs
        if not len(pairs):
            return None, {"frequencies": "nothing turns at any position"}
        axes = 1 if other is None else other.axes.num_axes
        found = self._at(length, axes)[1]
        seen = explain(pairs, self.options["head_dim"], expect=other, error=found.inv_freq_error, length=length)
        words: dict[str, str] = {}
        for one in seen.deviations:
            words[one.kind] = f"{words[one.kind]}; {one.words}" if one.kind in words else one.words
        return seen.rope, words


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("head_dim", "layout", "backend", "dtype", "device", "kv_heads", "heads")
    return {name: value for name, value in options.items() if name in names}


def _faults(found: Recovered, letter: str) -> list[Finding]:
    """Give what a function does that its pairs do not show."""
    told = {
        "arange": "it counts tokens from 0 and does not read position_ids",
        "first": "the first token's position turns all tokens of a call",
        "heads": "the number of the head turns it, not the position",
        "head-ids": "the position is taken by head",
        "constant": "the position makes no difference",
    }
    said = [told[found.manner]] if found.manner in told and found.kind != "identity" else []
    if found.offset:
        said.append(f"every position is moved by {found.offset:g}")
    if found.output_order is not None:
        said.append(f"the output's channels stand in another order: {', '.join(map(str, found.output_order[:4]))} …")
    if found.still_heads:
        said.append(f"some heads do not turn: {', '.join(map(str, found.still_heads[:8]))}")
    elif not found.heads_alike:
        said.append("heads are turned differently")
    if not found.rows_alike:
        said.append("rows of a batch are turned differently")
    if found.residual > 0.05 + 64 * found.noise:
        said.append(f"other positions come out differently than these pairs say, by {found.residual:.2g} of a vector")
    if abs(found.still_factor - 1) > 1e-3:
        said.append(f"channels in no pair are multiplied by {found.still_factor:.6g}")
    return [
        Finding.of(
            "measured-otherwise",
            where=f"{letter}: function",
            seen=words,
            right="pairs turned by position_ids, the rest as it is",
            message=f"in {letter}, {words}: the pairs do not show it. ropewalk check says more.",
        )
        for words in said
    ]
