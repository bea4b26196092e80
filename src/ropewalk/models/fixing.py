"""What can be repaired in a configuration without guessing: one right answer, or hands off."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RopewalkError
from ..findings import Finding
from ..scaling import Yarn
from .families import family_of
from .huggingface import read_huggingface
from .model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A configuration after the safe repairs.

    Attributes:
        config: corrected, keys in their old order.
        done: one sentence for each repair.
        left: errors and warnings that were not touched: they have no single right answer.
        model: as the corrected configuration reads.
    """

    config: Mapping[str, Any]
    done: tuple[str, ...]
    left: tuple[Finding, ...]
    model: Model


def fix(config: Mapping[str, Any], *, target: str = "") -> Fixed:
    """Repair a Hugging Face configuration where one answer is right.

    Numbers written as text become numbers, swapped YaRN betas change places, old names of a scaling type get today's
    name beside or in place of theirs, and a null factor gets the ratio that follows from two stated lengths. Each
    repair is read again: it is kept only where no rope that could be read before has changed.

    Args:
        config: the object of a config.json.
        target: what was read, in words.

    Raises:
        RopewalkError: for an object of another family, or one that describes no model.

    >>> fix({"model_type": "llama", "head_dim": 8, "num_hidden_layers": 1, "rope_theta": "500000"}).done
    ('rope_theta: "500000" as text becomes the number 500000',)
    """
    if family_of(config) != "huggingface":
        raise RopewalkError(f"{target or 'this object'} is no Hugging Face configuration; only those are repaired.")
    model = read_huggingface(config, target=target)
    fixed: Mapping[str, Any] = config
    done: list[str] = []
    for finding in model.findings:
        if finding.name not in _REPAIRS:
            continue
        tried: dict[str, Any] = copy.deepcopy(dict(fixed))
        words = _tried(tried, finding, model)
        if words is None:
            continue
        after = read_huggingface(tried, target=target)
        before = read_huggingface(fixed, target=target)
        gone = {(one.name, one.where) for one in before.findings} - {(one.name, one.where) for one in after.findings}
        if gone and set(before.ropes) <= set(after.ropes):
            fixed = tried
            done.append(words)
    after = read_huggingface(fixed, target=target)
    left = tuple(one for one in after.findings if one.severity != "note")
    return Fixed(config=fixed, done=tuple(done), left=left, model=after)


def _tried(data: dict[str, Any], one: Finding, model: Model) -> str | None:
    """Repair what one finding speaks of and give the sentence, or None where there is no single right answer."""
    repair = _REPAIRS.get(one.name)
    if repair is None:
        return None
    path = one.where.partition(": ")[2]
    *outer, key = path.split(".")
    place: Any = data
    for name in outer:
        place = place.get(name) if isinstance(place, dict) else None
    if not isinstance(place, dict) or key not in place:
        return None
    return repair(place, key, one, model)


def _number(place: dict[str, Any], key: str, _: Finding, __: Model) -> str | None:
    given = place[key]
    if isinstance(given, list):
        numbers = [_plain(entry) if isinstance(entry, str) else entry for entry in given]
        if None in numbers:
            return None
        place[key] = numbers
        return f"{key}: numbers written as text become numbers"
    number = _plain(given) if isinstance(given, str) else None
    if number is None:
        return None
    place[key] = number
    return f'{key}: "{given}" as text becomes the number {number}'


def _plain(text: str) -> int | float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _betas(place: dict[str, Any], _: str, __: Finding, ___: Model) -> str | None:
    if "beta_fast" not in place or "beta_slow" not in place:
        return None
    place["beta_fast"], place["beta_slow"] = place["beta_slow"], place["beta_fast"]
    return f"beta_fast and beta_slow change places: {place['beta_fast']} and {place['beta_slow']}"


def _spelling(place: dict[str, Any], key: str, one: Finding, _: Model) -> str | None:
    """Name the type as transformers 5 does, beside the old key; other old keys are what a model's own class reads."""
    if key == "type" and "rope_type" not in place:
        place["rope_type"] = place["type"]
        return f'rope_type: "{place["type"]}" is added beside type, which older engines read'
    if key in ("rope_type", "type") and one.seen == place[key] and one.seen in _RENAMED:
        place["rope_type"] = _RENAMED[one.seen]
        return f'rope_type: "{one.seen}" is called "{_RENAMED[one.seen]}" today'
    return None


def _ratio(place: dict[str, Any], key: str, _: Finding, model: Model) -> str | None:
    """Fill in a null factor of YaRN where it follows from two lengths that the file states."""
    factors = {rope.scaling.factor for rope in model.ropes if isinstance(rope.scaling, Yarn)}
    if key != "factor" or place.get("rope_type", place.get("type")) != "yarn" or len(factors) != 1:
        return None
    factor = factors.pop()
    place[key] = factor
    return f"factor: null becomes {factor:g}, max_position_embeddings / original_max_position_embeddings"


_RENAMED = {"su": "longrope"}  # the other old types mean more to some engine than today's name says
_REPAIRS: Mapping[str, Callable[[dict[str, Any], str, Finding, Model], str | None]] = {
    "number-as-text": _number,
    "betas-swapped": _betas,
    "old-spelling": _spelling,
    "null-absent": _ratio,
}
