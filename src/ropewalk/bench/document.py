"""The whole run as one document."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .bars import Verdict
from .measuring import Measurement
from .plan import Plan

SCHEMA = "ropewalk.bench/1"


def document(
    plan: Plan, machine: dict[str, Any], measurements: Sequence[Measurement], verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    """Give everything as plain values for JSON: `ok` is the gate's answer and says nothing about speed."""
    return {
        "schema": SCHEMA,
        "ok": all(one.ok for one in measurements),
        "machine": machine,
        "shape": asdict(plan.shape),
        "rounds": plan.rounds,
        "measurements": [one.to_dict() for one in measurements],
        "bars": [asdict(one) for one in verdicts],
    }
