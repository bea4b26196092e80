"""`check transformers:TYPE` over every rotary class of the census: no false alarm, and the known exceptions named."""

import json
import sys
import warnings
from pathlib import Path

import pytest

pytestmark = pytest.mark.census

# The one verdict that check gives of a class besides notes, and why that is right.
KNOWN = {
    "HunYuanVLRotaryEmbedding": "not-a-rotation",  # two axes in one pair on image tokens; read() says so (RW142)
}
# What is worth a note of its own, by class: it is named, and is no fault of the class.
NOTED = {
    "ClvpRotaryPositionalEmbedding": "float32-out",  # its tables are float32, and the apply function promotes
    "CodeGenRotaryEmbedding": "float32-out",  # the same, and its attention casts the result back
    "EfficientLoFTRRotaryEmbedding": "offset",  # counts from 1
    "Llama4VisionRotaryEmbedding": "offset",
    "DeepseekV3RotaryEmbedding": "output-order",
}
# Classes that cannot be asked through (module, apply function), each with a word of the reason that is given.
LEFT = {
    "CohereCompassRotaryEmbedding": "built",  # no rope in some layers: its default raises
    "EsmFold2RotaryEmbedding": "no rope",
    "Glm4MoeRotaryEmbedding": "no rope",
    "Glm4vMoeTextRotaryEmbedding": "no rope",
    "Glm4vTextRotaryEmbedding": "no rope",
    "MusicFlamingoRotaryEmbedding": "positions itself",  # turns audio features by products of two times
    "Qwen3OmniMoeRotaryEmbedding": "",
    "Qwen3OmniMoeTalkerRotaryEmbedding": "no rope",
    "Qwen3OmniMoeThinkerTextRotaryEmbedding": "no rope",
    "Qwen4ExpTextRotaryEmbedding": "no rope",
}


def roots():
    """Every configuration that the census builds, once."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    try:
        from census import blackbox_multi, blackbox_one
        from census.cases import NotCovered, rotary_classes
    finally:
        sys.path.pop(0)
    seen = set()
    for name, file, group in rotary_classes():
        try:
            if group == "one":
                found = [blackbox_one.build_config(use.root) for use in blackbox_one._uses(name, file)]
            else:
                found = [one.root for one in blackbox_multi._find(name, file)]
        except NotCovered:
            continue
        for config in found:
            key = (type(config).__name__, json.dumps(config.to_dict(), default=str, sort_keys=True))
            if key not in seen:
                seen.add(key)
                yield config


@pytest.fixture(scope="module")
def verdicts():
    """(class, place, errors and warnings, notes) of what was asked, and (class, reason) of what was not."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from ropewalk import RopewalkError
    from ropewalk.probe.checking import check
    from ropewalk.probe.targets import of_config

    asked, left = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the models' own files warn about is not ours
        for config in roots():
            try:
                named = of_config(config)
            except RopewalkError as error:
                left.append((type(config).__name__, str(error)))
                continue
            left += [(place.rpartition("(")[2].rstrip(")"), reason) for place, reason in named.left]
            for one in named.found:
                report = check(one.fn, expect=one.expect, **one.options)
                faults = [finding.name for finding in report.findings if finding.severity != "note"]
                notes = [finding.name for finding in report.findings if finding.severity == "note"]
                name = one.name.partition(" indexer")[0].rpartition("(")[2].rstrip(")").partition("[")[0]
                asked.append((name, one.name, faults, notes))
    return asked, left


def test_most_places_can_be_asked(verdicts):
    asked, left = verdicts
    assert len(asked) >= 305 and len(left) <= 20


def test_no_false_alarm(verdicts):
    asked, _ = verdicts
    alarms = [(name, place, faults) for name, place, faults, _ in asked if faults and faults != [KNOWN.get(name)]]
    assert alarms == []


def test_each_known_exception_is_named(verdicts):
    asked, _ = verdicts
    assert {name for name, _, faults, _ in asked if faults} == set(KNOWN)
    assert set(NOTED.items()) <= {(name, note) for name, _, _, notes in asked for note in notes}


def test_v_jepa_2_is_asked_although_it_has_no_rotary_module(verdicts):
    asked, _ = verdicts
    assert [faults for name, _, faults, _ in asked if name == "VJEPA2RopeAttention"] == [[]]


def test_what_cannot_be_asked_has_its_reason(verdicts):
    _, left = verdicts
    unknown = [(name, reason) for name, reason in left if LEFT.get(name, "?") not in reason]
    assert unknown == []
