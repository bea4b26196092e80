"""Settings are read back before they are shown: by ropewalk's reader, and by the engine's own rule."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..engines._outcome import Outcome
from ..engines.reading import _outcome
from ..engines.rules import ENGINES, Engine
from ..engines.sources import gather
from ..errors import RopewalkError
from ..models.model import Layer
from ..models.targets import read
from ..pairs import Pairs
from ..rope import Rope
from ..scaling import Default
from ._subject import Refused, Subject


def engine_named(name: str) -> Engine:
    """Give an engine's rule by its name."""
    return next(engine for engine in ENGINES if engine.name == name)


def prove(
    subject: Subject, config: Mapping[str, Any], engine: Engine, shown_as: str, *, read_alike: bool = True
) -> tuple[str, ...]:
    """Read a configuration back, give what the engine's rule notes, or raise where anything comes back otherwise.

    Args:
        subject: what the configuration should say.
        config: its rotary keys.
        engine: whose rule reads them.
        shown_as: the name that an error gives.
        read_alike: whether ropewalk itself must read the same description; an engine may have words of its own.

    Raises:
        Refused: where ropewalk or the engine reads another rope, or the engine does not load the configuration.
    """
    try:
        again = read(config)
    except RopewalkError as error:
        raise Refused(shown_as, f"what was written cannot be read: {error}", _all_of(subject)) from error
    layers = again.parts.get(subject.part) if subject.part else again.layers[:1]
    failed = [finding for finding in again.findings if finding.severity == "error"]
    if failed:
        raise Refused(
            shown_as, f"what was written is read with an error, {failed[0].message.rstrip('.')}", _all_of(subject)
        )
    if layers is None or len(layers) != len(subject.layers):
        raise Refused(shown_as, "the configuration does not describe the same layers", ("layers",))
    for number, (wanted, found) in enumerate(zip(subject.layers, layers, strict=True)):
        lost = _lost_layer(wanted, found)
        if lost and (read_alike or set(wanted.ropes) != set(found.ropes)):
            where = f"layer {number} comes back otherwise" if subject.part else "the rope comes back otherwise"
            raise Refused(shown_as, f"{where} from its keys", lost)
    notes: dict[str, None] = {}
    for source in gather(config, subject.part or None)[2]:
        outcome = _outcome(engine, source)
        wanted = subject.layers[source.layers[0] if subject.part else 0].ropes[source.use]
        lost = _lost_in_engine(wanted, outcome)
        words = "; ".join(outcome.notes)
        if outcome.refused is not None:
            raise Refused(shown_as, outcome.refused, _all_of(subject))
        if lost:
            raise Refused(shown_as, words or "its rule reads these keys otherwise", lost)
        notes |= dict.fromkeys(outcome.notes)
    return tuple(notes)


def _all_of(subject: Subject) -> tuple[str, ...]:
    """Name what is lost where nothing comes back."""
    return ("scaling",) if any(not isinstance(rope.scaling, Default) for rope in subject.ropes) else ("ropes",)


def _lost_layer(wanted: Layer, found: Layer) -> tuple[str, ...]:
    if set(wanted.ropes) != set(found.ropes):
        return ("ropes",)
    lost: dict[str, None] = {}
    for use, rope in wanted.ropes.items():
        lost |= dict.fromkeys(differing(rope, found.ropes[use]))
    if wanted.query_scale != found.query_scale:
        lost["query_scale"] = None
    if wanted.output_inverse != found.output_inverse:
        lost["output_inverse"] = None
    return tuple(lost)


def differing(wanted: Rope, found: Rope) -> tuple[str, ...]:
    """Name the fields in which two ropes differ; a length that the first leaves open counts as the same."""
    if wanted.max_position_embeddings is None:
        found = found.replace(max_position_embeddings=None) if not found.length_dependent else found
    if wanted == found:
        return ()
    one, other = wanted.to_dict(), found.to_dict()
    names: list[str] = []
    for name in one:
        if one[name] == other[name] or (name == "max_position_embeddings" and one[name] is None):
            continue
        if name in ("scaling", "axes") and one[name].keys() == other[name].keys():
            names += [key for key in one[name] if one[name][key] != other[name][key]]
        else:
            names.append(name)
    return tuple(names)


def _lost_in_engine(wanted: Rope, outcome: Outcome) -> tuple[str, ...]:
    if outcome.refused is not None:
        return ()
    if all(same_pairs(wanted.pairs(length), _table(outcome, length)) for length in (None, *_lengths(wanted))):
        return ()
    named = [] if outcome.rope is None else list(differing(wanted, outcome.rope))
    if outcome.rope is not None and wanted.pairs().cos_sin_factor == outcome.rope.pairs().cos_sin_factor:
        named = [name for name in named if name != "attention_factor"]  # what was derived is now stated
    return tuple(named) or ("scaling",)


def _table(outcome: Outcome, length: int | None) -> Pairs:
    if outcome.pairs is not None:
        return outcome.pairs
    assert outcome.rope is not None
    return outcome.rope.pairs(length)


def _lengths(rope: Rope) -> Iterator[int]:
    """Give lengths on both sides of where a rope changes."""
    if rope.length_dependent:
        original = getattr(rope.scaling, "original_max_position_embeddings", None)
        for switch in {original or rope.max_position_embeddings or 1, rope.max_position_embeddings or 1}:
            yield from (switch, switch + 1, 4 * switch)


def same_pairs(one: Pairs, other: Pairs, rtol: float = 1e-12) -> bool:
    """Say whether two tables turn the same channels by the same angles with the same factors."""
    same = all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("first", "second", "axis")
    ) and np.allclose(one.inv_freq, other.inv_freq, rtol=rtol, atol=0)
    if one.second_inv_freq is None or other.second_inv_freq is None:
        same = same and one.second_inv_freq is other.second_inv_freq
    else:
        same = same and np.array_equal(one.second_inv_freq, other.second_inv_freq)
    factors = ("cos_sin_factor", "softmax_factor")
    return same and all(np.isclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=0) for name in factors)
