"""One configuration as every engine reads it, and where they differ."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .._checks import MAX_POSITION, whole
from ..comparison import PairsComparison, compare_pairs
from ..comparison.tables import DISTANCES, checked_distances
from ..comparison.words import factor_words, pair_words
from ..errors import RopewalkError
from ..inspection import _layers_words as layers_words
from ..pairs import Pairs
from ..rope import Rope
from ._outcome import Outcome
from .rules import ENGINES, Engine
from .sources import Source, gather

SCHEMA = "ropewalk.engines/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReading:
    """What one engine makes of one rope.

    Attributes:
        engine: its name.
        version: of what its rule was read from.
        files: where the rule was read.
        verified: "run" where the engine's own code was run beside the rule, "read" where its source was only read.
        pairs: the table it comes to, at `length`; None where it refuses the configuration.
        rope: the description of that table, where there is one.
        length: tokens that the table was resolved for; None means the trained length or less.
        refused: why it does not load the configuration, or None.
        notes: keys that it ignores, and what else it does otherwise.
        result: the table less the reference's; None for the reference itself, and where it refuses.
    """

    engine: str
    version: str
    files: tuple[str, ...]
    verified: str
    pairs: Pairs | None
    rope: Rope | None
    length: int | None
    refused: str | None
    notes: tuple[str, ...]
    result: PairsComparison | None

    @property
    def differs(self) -> bool:
        """Whether it loads the configuration and turns vectors otherwise than the reference."""
        return self.result is not None and not self.result.equal

    @property
    def words(self) -> str:
        """What it does, in a few words."""
        if self.refused is not None:
            return f"does not load it: {self.refused}"
        if self.result is None or self.result.equal:
            return "the same pairs" if self.result is not None else "the reference"
        row = self.result.first
        words = factor_words(self.result.factors) if row is None else pair_words(row, self.result)
        words = words.removeprefix("in B, ").removeprefix("but B takes ")
        return words if self.length is None else f"for {self.length} tokens, {words}"

    def to_dict(self) -> dict[str, Any]:
        """Give the reading as plain values."""
        return {
            "engine": self.engine,
            "version": self.version,
            "files": list(self.files),
            "verified": self.verified,
            "differs": self.differs,
            "words": self.words,
            "refused": self.refused,
            "notes": list(self.notes),
            "length": self.length,
            "rope": None if self.rope is None else self.rope.to_dict(),
            "pairs": None if self.pairs is None else self.pairs.to_dict(),
            "result": None if self.result is None else self.result.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineGroup:
    """One rope of the model as every engine reads it.

    Attributes:
        place: which layers, in words.
        reference: whose table the others are compared with: transformers', or ropewalk's where transformers refuses.
        readings: one for each engine.
    """

    place: str
    reference: str
    readings: tuple[EngineReading, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the group as plain values."""
        return {
            "place": self.place,
            "reference": self.reference,
            "readings": [one.to_dict() for one in self.readings],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """One configuration as every engine reads it.

    Attributes:
        target: what was read, in words.
        equal: every engine that loads it comes to the same pairs and magnitudes.
        groups: by distinct rope.
        distances: tokens, at which angles were subtracted.
    """

    target: str
    equal: bool
    groups: tuple[EngineGroup, ...]
    distances: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain values for JSON."""
        return {
            "schema": SCHEMA,
            "target": self.target,
            "equal": self.equal,
            "distances": list(self.distances),
            "groups": [group.to_dict() for group in self.groups],
        }


def read_engines(
    target: object, *, distances: Iterable[int] = DISTANCES, length: int | None = None, part: str | None = None
) -> Engines:
    """Read one configuration by the rule of every engine, and compare what they come to.

    Args:
        target: whatever `read` takes, a Model, or a Rope (which is written as the keys of a configuration first).
        distances: tokens, at which angles are subtracted.
        length: tokens in the sequence, for ropes that depend on it; None tries the trained length, then longer ones.
        part: the part that holds the language model; others are not covered, and None takes it.

    Raises:
        RopewalkError: where nothing can be read, or there is no RoPE.

    >>> block = {"rope_type": "linear", "factor": 5}
    >>> config = {"model_type": "llama", "head_dim": 8, "num_hidden_layers": 2, "rope_theta": 10000}
    >>> seen = read_engines({**config, "rope_scaling": block})
    >>> seen.equal, [reading.engine for reading in seen.groups[0].readings][:3]
    (True, ['transformers', 'vLLM', 'SGLang'])
    """
    steps = checked_distances(distances)
    length = None if length is None else whole("length", length, at_least=1, at_most=MAX_POSITION)
    _, name, sources = gather(target, part)
    if not sources:
        raise RopewalkError(f"{name} has no RoPE for engines to read.")
    groups = tuple(_group(source, steps, length) for source in sources)
    equal = not any(reading.differs for group in groups for reading in group.readings)
    return Engines(target=name, equal=equal, groups=groups, distances=steps)


def _group(source: Source, steps: tuple[int, ...], length: int | None) -> EngineGroup:
    outcomes = [(engine, _outcome(engine, source)) for engine in ENGINES]
    reference = next((outcome for engine, outcome in outcomes if engine.name == "transformers"), Outcome())
    own = reference.refused is not None
    if own:
        reference = Outcome(rope=source.rope)
    tried: list[int | None] = [length]
    ropes = [outcome.rope for _, outcome in outcomes if outcome.rope is not None]
    if length is None and any(rope.length_dependent for rope in (*ropes, source.rope)):
        original = getattr(source.rope.scaling, "original_max_position_embeddings", None)
        switches = {original or source.rope.max_position_embeddings or 0, max(steps)}
        tried += [switch + 1 for switch in sorted(switches)]
    place = source.part if source.part == "rope" else f"{source.part}: {layers_words(list(source.layers))}"
    return EngineGroup(
        place=place if source.use == "attention" else f"{place} ({source.use})",
        reference="ropewalk" if own else "transformers",
        readings=tuple(_reading(engine, outcome, reference, tried, steps) for engine, outcome in outcomes),
    )


def _outcome(engine: Engine, source: Source) -> Outcome:
    try:
        return engine.rule(source)
    except RopewalkError as error:  # its reading of the keys is no possible scaling
        return Outcome(refused=f"its reading cannot be computed: {error}")


def _reading(
    engine: Engine, outcome: Outcome, reference: Outcome, tried: list[int | None], steps: tuple[int, ...]
) -> EngineReading:
    at, pairs, result = tried[0], None, None
    if outcome.refused is None:
        pairs = _table(outcome, at)
        if outcome is not reference:
            for at in tried:
                pairs = _table(outcome, at)
                result = compare_pairs(_table(reference, at), pairs, distances=steps)
                if not result.equal:
                    break
            else:
                at, pairs = tried[0], _table(outcome, tried[0])
    return EngineReading(
        engine=engine.name,
        version=engine.version,
        files=engine.files,
        verified=engine.verified,
        pairs=pairs,
        rope=outcome.rope,
        length=at,
        refused=outcome.refused,
        notes=tuple(dict.fromkeys(outcome.notes)),
        result=result,
    )


def _table(outcome: Outcome, length: int | None) -> Pairs:
    if outcome.pairs is not None:
        return outcome.pairs
    assert outcome.rope is not None
    return outcome.rope.pairs(length)
