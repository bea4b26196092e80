"""Every kind of finding that a configuration gives: a config that has the fault, and its twin that has not."""

import re
from pathlib import Path
from typing import Any

import pytest

import ropewalk
from ropewalk.findings import KINDS as EVERY_KIND
from ropewalk.findings import Finding
from ropewalk.models.json_file import parse_json
from ropewalk.rope import Rope

from ._cases import DROP, config, llama3, yarn
from ._cases_engines import ENGINES
from ._cases_errors import ERRORS
from ._cases_families import FAMILIES
from ._cases_notes import NOTES
from ._cases_warnings import WARNINGS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "findings.md"
CASES = ERRORS + WARNINGS + ENGINES + NOTES + FAMILIES
# those of configurations; others are tested where they arise
KINDS = {name: kind for name, kind in EVERY_KIND.items() if kind[0].startswith("RW1")}

# What each kind's severity must be, stated a second time.
WANTED_ERRORS = """
    theta-missing rope-type-conflict key-missing list-length width-odd sections-sum betas-swapped rope-type-unknown
    value-unusable width-missing scaling-impossible width-too-large layers-conflict form-outside-scope
""".split()
WANTED_WARNINGS = """
    theta-default factor-ratio original-length-default sections-realised key-unused attn-factor mscale-inert
    dynamic-cached-keys longrope-switch engines-truncate engines-mscale engines-dynamic engines-partial
    original-length-conflict theta-conflict blocks-conflict architecture-unknown rope-layers-few dynamic-factor-one
    width-conflict engines-ntk engines-longrope engines-attention-factor map-outside-scope factor-below-one
    ramp-empty engines-extrapolation key-repeated scaling-implied ramp-inverted mlx-pairing
""".split()
WANTED_NOTES = """
    number-as-text null-absent old-spelling class-default theta-one layers-unknown remote-code positions-unknown
    architecture-by-class indexer-pairing
""".split()


def found(target: dict[str, Any], name: str) -> list[Finding]:
    return [finding for finding in ropewalk.read(target).findings if finding.name == name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.id}".strip())
def test_fault_is_found_and_named_and_its_twin_is_not(case):
    findings = found(case.fault, case.name)
    assert [finding.where for finding in findings] == [case.where]
    (finding,) = findings
    assert (finding.code, finding.severity) == KINDS[case.name]
    assert finding.seen and finding.right and finding.message.endswith(".")
    for part in ("seen", "right", "message"):
        text = getattr(finding, part)
        assert [words for words in getattr(case, part) if words not in text] == [], f"{part}: {text}"
    assert [one for one in found(case.twin, case.name) if one.where == case.where] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.id}".strip())
def test_an_error_takes_the_rope_away_and_nothing_less_does(case):
    errors = [finding for finding in ropewalk.read(case.fault).findings if finding.severity == "error"]
    has_rope = any(layer.rope for layer in ropewalk.read(case.fault).layers)
    keeps_rope = {"layers-conflict"} | ({case.name} if case.id in ("layer_types is a word", "indexer") else set())
    assert bool(errors) is (KINDS[case.name][1] == "error")
    assert has_rope is not any(finding.name not in keeps_rope for finding in errors)


def test_every_kind_has_a_case():
    assert {case.name for case in CASES} == set(KINDS)


def test_severities_are_those_of_the_design():
    severities = {name: severity for name, (_, severity) in KINDS.items()}
    wanted = {"error": WANTED_ERRORS, "warning": WANTED_WARNINGS, "note": WANTED_NOTES}
    assert severities == {name: severity for severity, names in wanted.items() for name in names}


def test_codes_are_unique_and_of_the_configurations():
    codes = [code for code, _ in KINDS.values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"RW1\d\d", code) for code in codes)


def test_a_faultless_config_gives_no_finding():
    assert ropewalk.read(config()).findings == ()
    assert ropewalk.read(yarn()).findings == ()
    assert ropewalk.read(llama3()).findings == ()


def test_findings_survive_json():
    for finding in ropewalk.read(yarn(truncate=False, mscale=0.8)).findings:
        assert Finding.from_dict(finding.to_dict()) == finding


def test_a_missing_base_is_never_filled_in_silence():
    model = ropewalk.read(config(theta=DROP, model_type="never_heard_of"))
    assert model.ropes == ()
    assert model.sources["text.rope_theta"] == "missing"
    model = ropewalk.read(config(theta=DROP))
    assert model.sources["text.rope_theta"] == "default of LlamaConfig"
    assert model.rope == Rope(head_dim=64, rope_theta=1e4, pairing="half", max_position_embeddings=4096)


def documented() -> dict[str, str]:
    """The sections of docs/findings.md by heading."""
    sections = re.split(r"^##? ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(one.split("\n", 1) for one in sections if re.match(r"RW1(?![78])", one))


def test_docs_have_a_section_for_every_code_and_no_other():
    headings = re.findall(r"^#+ (RW1(?![78]).+)$", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    wanted = [f"{code} {name} ({severity})" for name, (code, severity) in KINDS.items()]
    assert sorted(headings) == sorted(wanted)
    assert set(documented()) == set(wanted)


@pytest.mark.parametrize("name", KINDS)
def test_docs_show_a_config_that_gives_the_finding_and_say_what_to_do(name):
    code, severity = KINDS[name]
    section = documented()[f"{code} {name} ({severity})"]
    (example,) = re.findall(r"^```json\n(.+?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    assert code in {finding.code for finding in ropewalk.read(parse_json(example.encode(), code)).findings}
    assert section.count("**What to do.** ") == 1
