"""The census as a page: one row for each rotary class of transformers."""

from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from . import blackbox_multi, blackbox_one
from .cases import Case, NotCovered, rotary_classes
from .compare import Verdict, compare

AGREES, DIFFERS, NOT_COVERED = "agrees", "differs", "not covered"
# Why a class does not agree, in words; a class that does not agree and stands here not is a failure of the census.
CAUSES = {
    "EsmFold2RotaryEmbedding": "a structure model's atom encoder: four axes of float coordinates with a base each, "
    "built from nested settings that are no layer configuration",
    "Glm4MoeRotaryEmbedding": "the class defaults give an odd rotary width, int(42 · 0.5) = 21; read() reports it as "
    "an error (RW107), transformers rounds the channels up to 22 and leaves 21 in the exponent",
    "HunYuanVLRotaryEmbedding": "transformers 5.24 gives the two channels of a pair different axes on image tokens; "
    "read() follows the original code and vLLM (chunked sections) and says so (RW142)",
    "MusicFlamingoRotaryEmbedding": "turns audio features once before the projector, not queries and keys, by angles "
    "quadratic in time",
    "Qwen3OmniMoeTalkerRotaryEmbedding": "the class defaults do not fit: sections that sum to 64 over 32 pairs; read() "
    "reports it as an error (RW108)",
    "Qwen4ExpTextRotaryEmbedding": "the class defaults do not fit: sections that sum to 32 over 128 pairs; read() "
    "reports it as an error (RW108)",
}


@dataclass(frozen=True)
class Row:
    """One rotary class and the verdict on it."""

    class_name: str
    file: str
    status: str
    cases: int
    largest: float
    reason: str


def take_census() -> list[Row]:
    """Compare every rotary class; a class agrees when all its cases do."""
    return [_row(*entry) for entry in rotary_classes()]


def row_of(class_name: str, file: str) -> Row:
    """Compare one rotary class."""
    return next(_row(*entry) for entry in rotary_classes() if entry[:2] == (class_name, file))


def _row(class_name: str, file: str, group: str) -> Row:
    box = blackbox_one if group == "one" else blackbox_multi
    try:
        cases = box.cases_for(class_name, file)
    except NotCovered as reason:
        return Row(class_name, file, NOT_COVERED, 0, 0.0, str(reason))
    try:
        verdicts = [_verdict(case, group) for case in cases]
    except NotCovered as reason:
        return Row(class_name, file, NOT_COVERED, len(cases), 0.0, CAUSES.get(class_name, str(reason)))
    faults = [_words(verdict) for verdict in verdicts if verdict.difference]
    largest = max((verdict.largest for verdict in verdicts), default=0.0)
    status = DIFFERS if faults else AGREES
    reason = "; ".join(dict.fromkeys(faults))
    return Row(class_name, file, status, len(cases), largest, CAUSES.get(class_name, reason) if faults else "")


def _verdict(case: Case, group: str) -> Verdict:
    if group == "one" and case.axes == 1:
        return compare(case, None, None)
    try:
        rows = blackbox_multi.row_names(case.class_name)
        positions = np.atleast_2d(blackbox_multi.sample_positions(case.class_name))
    except (KeyError, NotCovered):
        rows = tuple(str(axis) for axis in range(case.axes))
        positions = np.stack([np.array([3, 30]) + axis for axis in range(case.axes)])
    return compare(case, rows, positions)


def _words(verdict: Verdict) -> str:
    place = verdict.case.label or verdict.case.rope_key
    return f"{verdict.case.part} {place}: {verdict.difference}"


def shares(rows: list[Row]) -> Counter[str]:
    """Count the rows of each status."""
    return Counter(row.status for row in rows)


def page(rows: list[Row]) -> str:
    """Write the census as Markdown."""
    counts = shares(rows)
    agreeing = counts[AGREES] / len(rows)
    largest = max(row.largest for row in rows if row.status == AGREES)
    lines = [
        "# Coverage: every rotary class of transformers",
        "",
        "Written by `make census`. Each class's default configuration is built without weights, `ropewalk.read` reads",
        "what `to_dict()` gives, and the Rope is compared with the class's own module: `inv_freq` and the factor to",
        "2e-6 relative, cos and sin at positions 0, 1 and 777, and pairs, by turning random vectors with the model",
        "file's own apply function. A class with several layer types or parts agrees when all of them do.",
        "",
        f"transformers {version('transformers')}: {counts[AGREES]} of {len(rows)} classes agree ({agreeing:.1%}), "
        f"{counts[DIFFERS]} differ, {counts[NOT_COVERED]} are not covered.",
        f"Largest relative deviation of an `inv_freq` among those that agree: {largest:.1e} (float32 rounding).",
        "",
        "| class | file | cases | result | cause |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in sorted(rows, key=lambda row: (row.status == AGREES, row.class_name)):
        file = row.file.removeprefix("models/")
        lines.append(f"| {row.class_name} | {file} | {row.cases} | {row.status} | {row.reason} |")
    return "\n".join(lines) + "\n"
