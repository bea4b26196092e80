"""What a plan says: plain, frozen data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..rope import Rope
from .bases import Bases

SCHEMA = "ropewalk.plan/1"
METHODS = ("untouched", "linear", "ntk", "dynamic", "yarn", "longrope", "llama3")


class Magnitude(NamedTuple):
    """The two magnitudes of a method at the wished length: on cos and sin, and on the softmax scale."""

    cos_sin_factor: float
    softmax_factor: float


class Leaving(NamedTuple):
    """The first position at which a pair reaches an angle that training has not shown it, and that pair."""

    position: int
    pair: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortPrompts:
    """What happens to a prompt within the trained length.

    Attributes:
        changed: the pairs that turn at another speed than in the model as it is.
        largest: the largest change of an angle at the trained length, radians (not wrapped); 0 where nothing changes.
        pair: the pair that changes by so much, or None.
        score_factor: what a score is multiplied by against the model as it is.
        words: all of this, said.
    """

    changed: tuple[int, ...]
    largest: float
    pair: int | None
    score_factor: float
    words: str

    @property
    def unchanged(self) -> bool:
        """Whether a prompt within the trained length is computed as in the model as it is."""
        return not self.changed and abs(self.score_factor - 1) < 1e-12

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {
            "unchanged": self.unchanged,
            "changed": list(self.changed),
            "largest": self.largest,
            "pair": self.pair,
            "score_factor": self.score_factor,
            "words": self.words,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSupport:
    """Whether an engine turns vectors as a method says, when it reads the method's own keys.

    Attributes:
        engine: its name.
        version: of what its rule was read from.
        support: "yes"; "differs": it loads the keys and turns otherwise; "no": it refuses them, or they do nothing.
        words: what differs, or why not; empty for yes.
    """

    engine: str
    version: str
    support: str
    words: str

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to the wished length.

    Attributes:
        name: one of METHODS.
        rope: the rope that it comes to; of "untouched" the rope as given.
        kept: pairs that turn as fast as trained, at the wished length.
        blended: pairs that are slowed, but by less than the full factor.
        stretched: pairs that are slowed by the full factor (LongRoPE has none: each pair has its own).
        divisors: [P], by how much each pair is slowed at the wished length; None for a still pair, or beyond float64.
        magnitude: at the wished length.
        leaves_at: where the first pair leaves the angles of the training, or None where none does within the length.
        short_prompts: what happens within the trained length.
        engines: one for each engine.
        settings: by engine, the ready text; empty where nothing can write it.
        unwritten: by engine, why it has no settings.
        how: the formula with its numbers, in words.
        notes: what else to know.
        evidence: how far it has been tried, and how thin that is.
        sources: papers and code.
    """

    name: str
    rope: Rope
    kept: tuple[int, ...]
    blended: tuple[int, ...]
    stretched: tuple[int, ...]
    divisors: tuple[float | None, ...]
    magnitude: Magnitude
    leaves_at: Leaving | None
    short_prompts: ShortPrompts
    engines: tuple[EngineSupport, ...]
    how: str
    evidence: str
    sources: tuple[str, ...]
    notes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    unwritten: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Give the method as plain values."""
        return {
            "name": self.name,
            "how": self.how,
            "rope": self.rope.to_dict(),
            "kept": list(self.kept),
            "blended": list(self.blended),
            "stretched": list(self.stretched),
            "divisors": list(self.divisors),
            "magnitude": self.magnitude._asdict(),
            "leaves_at": None if self.leaves_at is None else self.leaves_at._asdict(),
            "short_prompts": self.short_prompts.to_dict(),
            "engines": [engine.to_dict() for engine in self.engines],
            "settings": dict(self.settings),
            "unwritten": dict(self.unwritten),
            "notes": list(self.notes),
            "evidence": self.evidence,
            "sources": list(self.sources),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A method that is not planned for a rope, and why."""

    name: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {"name": self.name, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to take, and how little is known.

    Attributes:
        method: the method to take without training.
        trained: the method to take with training at the wished length.
        reason: why, in words.
        evidence: how thin the evidence is, in words.
    """

    method: str
    trained: str
    reason: str
    evidence: str

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A longer context for one rope, by each method.

    Attributes:
        target: what was read, in words.
        place: the layers whose rope is planned, in words.
        part: the name of their part.
        rope: the rope as given.
        trained: L0, tokens, the length that training has shown.
        trained_from: where that number comes from.
        to: tokens wished.
        full_turns: how many pairs turn at least once within the trained length; training has shown them every angle.
        methods: "untouched" first, then those asked for.
        refused: those asked for that are not planned, with the reason.
        bases: which base supports which length, by each rule.
        recommendation: what to take.
        caveats: what the plan does not cover.
    """

    target: str
    place: str
    part: str
    rope: Rope
    trained: int
    trained_from: str
    to: int
    full_turns: int
    methods: tuple[Method, ...]
    refused: tuple[Refusal, ...]
    bases: Bases
    recommendation: Recommendation
    caveats: tuple[str, ...]

    @property
    def factor(self) -> float:
        """By how much the context is stretched: to / trained."""
        return self.to / self.trained

    def method(self, name: str) -> Method | None:
        """Give the method of a name, or None where the plan has none."""
        return next((method for method in self.methods if method.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as plain values for JSON."""
        return {
            "schema": SCHEMA,
            "target": self.target,
            "place": self.place,
            "part": self.part,
            "rope": self.rope.to_dict(),
            "trained": self.trained,
            "trained_from": self.trained_from,
            "to": self.to,
            "factor": self.factor,
            "full_turns": self.full_turns,
            "methods": [method.to_dict() for method in self.methods],
            "refused": [refusal.to_dict() for refusal in self.refused],
            "bases": self.bases.to_dict(),
            "recommendation": self.recommendation.to_dict(),
            "caveats": list(self.caveats),
        }
