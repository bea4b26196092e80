"""Which engines turn vectors as a method says, and the settings that they read."""

from ..comparison import compare_pairs
from ..comparison.words import factor_words, pair_words
from ..engines import EngineReading, read_engines
from ..errors import RopewalkError
from ..exporting import ENGINES, export
from ..models.model import Layer, Model
from ..pairs import Pairs
from ..rope import Rope
from .plan import EngineSupport
from .targets import Chosen, planned


def engines(chosen: Chosen, rope: Rope, plain: Rope, trained: int, to: int) -> tuple[EngineSupport, ...]:
    """Ask every engine's rule what it makes of a rope's keys."""
    layer = Layer(ropes={"attention": rope})
    model = Model(parts={"text": (layer,)}, model_type=chosen.model.model_type if chosen.model else None)
    (group,) = read_engines(model, distances=(1,), length=to).groups
    return tuple(_support(reading, rope, plain, trained, to) for reading in group.readings)


def _support(reading: EngineReading, rope: Rope, plain: Rope, trained: int, to: int) -> EngineSupport:
    support, words = "yes", ""
    if reading.refused is not None:
        support, words = "no", reading.refused
    else:
        depends = rope.length_dependent or (reading.rope is not None and reading.rope.length_dependent)
        for length in (trained, to) if depends else (to,):
            wanted, table = rope.pairs(length), _table(reading, length)
            result = None if wanted == table else compare_pairs(wanted, table, distances=(1,))
            if result is None or result.equal:
                continue
            said = factor_words(result.factors) if result.first is None else pair_words(result.first, result)
            said = said.removeprefix("in B, ").removeprefix("but B takes ")
            support, words = "differs", f"for {length} tokens, {said}" if depends else said
            if rope != plain and _table(reading, to) == plain.pairs():
                support, words = "no", "the keys do nothing"
            words = "; ".join((words, *reading.notes))
            break
    return EngineSupport(engine=reading.engine, version=reading.version, support=support, words=words)


def _table(reading: EngineReading, length: int) -> Pairs:
    if reading.rope is not None:
        return reading.rope.pairs(length)
    assert reading.pairs is not None
    return reading.pairs


def settings(chosen: Chosen, rope: Rope) -> tuple[dict[str, str], dict[str, str]]:
    """Write a rope as the settings of every engine: by engine the text, and by engine why there is none."""
    written: dict[str, str] = {}
    refused: dict[str, str] = {}
    part = None if chosen.model is None else chosen.part
    for engine in ENGINES:
        try:
            written[engine] = export(planned(chosen, rope), engine, part=part)
        except RopewalkError as error:
            refused[engine] = str(error)
    return written, refused
