"""The measurement that ropewalk ships: SmolLM2-135M at 2 and at 4 times its trained length."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from .curves import Measurement

NAME = "smollm2-135m.json"
SCHEMA = "ropewalk.shipped/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """What was measured once, and how.

    Attributes:
        model: which weights.
        text: what was read.
        command: what measures it again.
        date: of the last pass, year-month-day.
        machine: as `ropewalk bench` describes one.
        measurements: by stretch, the tokens read over those trained.
    """

    model: str
    text: str
    command: str
    date: str
    machine: Mapping[str, Any]
    measurements: Mapping[int, Measurement]

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as plain values for JSON."""
        measured = {str(times): one.to_dict() for times, one in self.measurements.items()}
        told = {name: getattr(self, name) for name in ("model", "text", "command", "date")}
        return {"schema": SCHEMA, **told, "machine": dict(self.machine), "measurements": measured}


@cache
def shipped() -> Shipped:
    """Give the shipped measurement; neither torch nor the model is needed.

    >>> from ropewalk.measuring import shipped
    >>> sorted(shipped().measurements)
    [2, 4]
    >>> shipped().measurements[2].trained
    8192
    """
    data = json.loads((files("ropewalk.measuring") / NAME).read_text(encoding="utf-8"))
    measured = {int(times): Measurement.from_dict(one) for times, one in data.pop("measurements").items()}
    del data["schema"]
    return Shipped(**data, measurements=measured)
