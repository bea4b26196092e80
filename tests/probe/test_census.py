"""`check transformers:TYPE` over every rotary class of the census: no false alarm, and the known exceptions named."""

import json
import sys
import warnings
from pathlib import Path

import pytest

pytestmark = pytest.mark.census

# What check says of a class besides notes, and why that is right.
KNOWN = {
    "HunYuanVLRotaryEmbedding": "gives the two channels of a pair different axes on image tokens: no rotation; read() "
    "follows the original code (RW142)",
    "ClvpRotaryPositionalEmbedding": "its tables are float32, and the apply function returns what they promote to",
    "CodeGenRotaryEmbedding": "its tables are float32, and its attention casts what the apply function returns back",
}
# Classes that cannot be asked through (module, apply function), each with a word of the reason that is given.
LEFT = {
    "CohereCompassRotaryEmbedding": "built",  # no rope in some layers: its default raises
    "DINOv3ViTRopePositionEmbedding": "positions itself",
    "EfficientLoFTRRotaryEmbedding": "positions itself",
    "EomtDinov3RotaryEmbedding": "positions itself",
    "EsmFold2RotaryEmbedding": "no rope",
    "Glm4MoeRotaryEmbedding": "no rope",
    "Glm4vMoeTextRotaryEmbedding": "no rope",
    "Glm4vTextRotaryEmbedding": "no rope",
    "Llama4VisionRotaryEmbedding": "positions itself",
    "MusicFlamingoRotaryEmbedding": "positions itself",
    "Qwen3OmniMoeRotaryEmbedding": "",
    "Qwen3OmniMoeTalkerRotaryEmbedding": "no rope",
    "Qwen3OmniMoeThinkerTextRotaryEmbedding": "no rope",
    "Qwen4ExpTextRotaryEmbedding": "no rope",
    "Sapiens2RopePositionEmbedding": "positions itself",
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
    """(class, place, names of errors and warnings, seconds) of what was asked, and (class, reason) of what was not."""
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
                name = one.name.partition(" indexer")[0].rpartition("(")[2].rstrip(")").partition("[")[0]
                asked.append((name, one.name, faults, report.seconds))
    return asked, left


def test_most_places_can_be_asked(verdicts):
    asked, left = verdicts
    assert len(asked) >= 300 and len(left) <= 30


def test_no_false_alarm(verdicts):
    asked, _ = verdicts
    alarms = [(name, place, faults) for name, place, faults, _ in asked if faults and name not in KNOWN]
    assert alarms == []


def test_each_known_exception_is_still_one(verdicts):
    asked, _ = verdicts
    assert {name for name, _, faults, _ in asked if faults} >= set(KNOWN)


def test_what_cannot_be_asked_has_its_reason(verdicts):
    _, left = verdicts
    unknown = [
        (name, reason) for name, reason in left if LEFT.get(name, "?") not in reason and "no rotary" not in reason
    ]
    assert unknown == []
