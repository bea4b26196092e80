"""A State's data: every number that the page shows, as one JSON document."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import RopewalkError
from ..gate import verify
from ..inspection import PairRow
from ..models.model import Model
from ..models.targets import read
from ..rope import Rope
from ..scaling import Default, Dynamic, Linear, Llama3, Ntk, Proportional, Scaling, Yarn
from ..simulation import angle_between_arrows, score_table, speed_table, turn_table, wrapped_degrees
from .i18n import N_
from .state import Message, Side, State

SCHEMA = "ropewalk.explorer/1"
PLAIN = Rope(head_dim=8, rope_theta=10000.0, pairing="interleaved")
NO_START = N_("no model was given when the page was started.")
NO_ROPE = N_("this model has no RoPE.")
NO_PART = N_("this model has no such part with RoPE.")
NO_LAYER = N_("this layer has no RoPE.")
NO_ROTATION = N_("its map is no rotation, so its scores do not depend on the distance alone.")
NO_TURN = N_("no pair of it turns.")
SCORE_COLUMNS = ("pair", "inv_freq", "angle", "straight", "cross", "contribution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A side's rope, and what to say where it could not be made.

    Attributes:
        rope: the description.
        length: tokens that a length-dependent scaling is resolved for, or None.
        name: the model's name, "" for a typed description.
        parts: parts of the model and their numbers of layers.
        part: the part shown.
        layer: the layer shown.
        message: why the description asked for could not be made; rope is then the unscaled one.
    """

    rope: Rope
    length: int | None = None
    name: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    part: str = ""
    layer: int = 0
    message: str = ""


def describe(side: Side, start: Model | None = None) -> Described:
    """Make the rope of one side: a model's, or the one typed; start is the model given on the command line."""
    if side.model:
        return _shown(_of_model(side, start))
    odd = "pass" if side.d % 2 else "refuse"
    plain = Rope(head_dim=side.d, rope_theta=side.base, pairing=side.pairing, odd=odd)
    length = side.length or None
    try:
        scaling = _scaling(side)
        trained = side.original if scaling.length_dependent else None
        rope = plain.replace(scaling=scaling, max_position_embeddings=trained)
        rope.pairs(length)
    except RopewalkError as error:
        return Described(rope=plain, message=str(error))
    return _shown(Described(rope=rope, length=length), plain)


def _shown(made: Described, plain: Rope = PLAIN) -> Described:
    """Give what was made where the page can draw it, and the plain rope where it cannot."""
    pairs = made.rope.pairs(made.length)
    if not pairs.is_rotation:
        return replace(made, rope=plain, length=None, message=NO_ROTATION)
    if not np.isfinite(pairs.wavelength).any():
        return replace(made, rope=plain, length=None, message=NO_TURN)
    return made


def _scaling(side: Side) -> Scaling:
    match side.scaling:
        case "linear":
            return Linear(factor=side.factor)
        case "ntk":
            return Ntk(factor=side.factor)
        case "dynamic":
            return Dynamic(factor=side.factor)
        case "yarn":
            return Yarn(
                factor=side.factor,
                original_max_position_embeddings=side.original,
                beta_fast=side.beta_fast,
                beta_slow=side.beta_slow,
                truncate=side.truncate,
            )
        case "llama3":
            return Llama3(
                factor=side.factor,
                low_freq_factor=side.low,
                high_freq_factor=side.high,
                original_max_position_embeddings=side.original,
            )
        case "proportional":
            return Proportional(partial_rotary_factor=side.fraction, factor=1.0)
        case _:
            return Default()


@lru_cache(maxsize=128)
def _preset_model(name: str) -> Model:
    return read(name)


def _of_model(side: Side, start: Model | None) -> Described:
    model = start if side.model == "start" else _preset_model(side.model)
    if model is None:
        return Described(rope=PLAIN, message=NO_START)
    usable = {
        name: [number for number, layer in enumerate(layers) if layer.rope is not None]
        for name, layers in model.parts.items()
    }
    parts = tuple((name, len(model.parts[name])) for name, numbers in usable.items() if numbers)
    if not parts:
        return Described(rope=PLAIN, name=side.model, message=NO_ROPE)
    part = side.part if side.part in dict(parts) else parts[0][0]
    layers = usable[part]
    layer = side.layer if side.layer in layers else layers[0]
    rope = model.parts[part][layer].rope
    assert rope is not None
    message = ""
    if side.part and part != side.part:
        message = NO_PART
    elif side.layer and layer != side.layer:
        message = NO_LAYER
    length = side.length or None
    return Described(rope=rope, length=length, name=side.model, parts=parts, part=part, layer=layer, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Everything for one state, in the library's own objects; to_dict gives the JSON."""

    state: State
    messages: tuple[Message, ...]
    a: Described
    b: Described | None
    query_vector: tuple[float, ...]
    key_vector: tuple[float, ...]
    turns: tuple[Any, ...]
    key_turns: tuple[Any, ...]
    scores: Any
    speeds: Any
    between: float | None

    @property
    def rope(self) -> Rope:
        """The rope shown."""
        return self.a.rope

    @property
    def odd(self) -> bool:
        """Whether the width is odd, so that the last channel is copied."""
        return bool(self.rope.width % 2)

    @property
    def pair(self) -> int:
        """The pair being drawn, within the rope's pairs."""
        return min(self.state.pair, len(self.turns) - 1)

    def to_dict(self) -> dict[str, Any]:
        """Give the document as plain values, its schema first."""
        from . import analysis

        scores, speeds = self.scores, self.speeds
        return {
            "schema": SCHEMA,
            "query": self.state.query(),
            "state": self.state.to_dict(),
            "messages": [message.to_dict() for message in self.messages],
            "description_message": self.a.message,
            "rope": self.rope.to_dict(),
            "length": self.a.length,
            "odd": self.odd,
            "q": list(self.query_vector),
            "k": list(self.key_vector),
            "pair": self.pair,
            "turns": [_turn(row) for row in self.turns],
            "key_turns": [_turn(row) for row in self.key_turns],
            "angle_between": self.between,
            "score": {
                "distance": self.state.m - self.state.n,
                "unrotated": scores.unrotated,
                "score": scores.score,
                "shifted": scores.shifted_score,
                "difference": scores.shift_difference,
                "rows": [{name: getattr(row, name) for name in SCORE_COLUMNS} for row in scores.rows],
                "still": scores.still,
                "total": scores.total,
                "query_length": list(scores.query_length),
                "key_length": list(scores.key_length),
                "bound": scores.bound,
            },
            "speeds": {
                "rows": [
                    row.to_dict() | {"angle": angle} for row, angle in zip(speeds.rows, speeds.angles, strict=True)
                ],
                "fastest": speeds.fastest,
                "slowest": speeds.slowest,
                "slowest_pair": self.slowest.pair,
                "turns_of_slowest": self.slowest.turns,
                "ratio": speeds.ratio,
                "window": speeds.window,
                "slower_than_window": speeds.slower_than_window,
            },
            "factor": self.rope.pairs(self.a.length).cos_sin_factor,
            "gate": gate(),
            "curve": analysis.curve(self),
            "precision": analysis.precision(self.rope, self.a.length),
            "b": None if self.b is None else analysis.comparison(self),
        }

    @property
    def slowest(self) -> PairRow:
        """The turning pair with the longest wavelength."""
        turning = [row for row in self.speeds.rows if row.wavelength is not None]
        return max(turning, key=lambda row: row.wavelength or 0)


def document(state: State, messages: tuple[Message, ...] = (), start: Model | None = None) -> Document:
    """Compute everything for one state."""
    a = describe(state.a, start)
    rope, length = a.rope, a.length
    q, k = state.vectors(rope.head_dim)
    turns, key_turns = turn_table(rope, q, state.m, length=length), turn_table(rope, k, state.n, length=length)
    pair = min(state.pair, len(turns) - 1)
    return Document(
        state=state,
        messages=messages,
        a=a,
        b=None if state.b is None else describe(state.b, start),
        query_vector=q,
        key_vector=k,
        turns=turns,
        key_turns=key_turns,
        scores=score_table(rope, q, k, state.m, state.n, shift=state.s, length=length),
        speeds=speed_table(rope, window=state.window, position=state.m, length=length),
        between=angle_between_arrows(turns[pair].after, key_turns[pair].after),
    )


@lru_cache(maxsize=1)
def gate() -> dict[str, Any]:
    """Run the number gate once; its numbers do not depend on the state."""
    return verify().to_dict()


def _turn(row: Any) -> dict[str, Any]:
    return {
        "pair": row.pair,
        "dims": [row.first, row.second],
        "inv_freq": row.inv_freq,
        "angle": row.angle,
        "degrees": wrapped_degrees(row.angle),
        "in": list(row.before),
        "out": list(row.after),
        "radius": [row.radius_before, row.radius_after],
        "deviation": row.radius_deviation,
    }
