"""Verdicts: every kind has a cause, a section in the docs, and only first causes are told."""

import re
from pathlib import Path

import pytest

from ropewalk import Finding, Pairs, Rope
from ropewalk.findings import CHECK_KINDS, KINDS
from ropewalk.probe import verdicts
from ropewalk.probe._causes import CAUSES
from ropewalk.probe._evidence import Evidence
from ropewalk.probe._settling import FOLLOWS, settled
from ropewalk.probe.box import Failure
from ropewalk.probe.explaining import explain
from ropewalk.probe.gallery import exhibits
from ropewalk.probe.precision import Precision
from ropewalk.probe.recovery import Recovered

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
ROPE = Rope(head_dim=8, rope_theta=5e5, pairing="half")


def names(findings):
    return [one.name for one in findings]


def found(rope=ROPE, **changes):
    pairs = rope.pairs()
    return Recovered(**{"kind": "rotation", "pairs": pairs, "inv_freq_error": 1e-9 * pairs.inv_freq, **changes})


def test_codes_are_unique_and_names_are_not_those_of_configurations():
    codes = [code for code, _ in CHECK_KINDS.values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"RW2\d\d", code) for code in codes)
    assert not set(CHECK_KINDS) & set(KINDS)


def test_the_first_codes_are_the_faults_of_the_gallery_in_its_order():
    slugs = list(dict.fromkeys(one.slug for one in exhibits() if one.slug))
    assert slugs == list(CHECK_KINDS)[:48]
    assert [CHECK_KINDS[slug][0] for slug in slugs] == [f"RW{200 + n}" for n in range(1, 49)]
    assert {CHECK_KINDS[slug][1] for slug in slugs} == {"error"}


def test_every_kind_has_a_cause_and_an_effect_in_words():
    assert set(CAUSES) == set(CHECK_KINDS)
    for mistake, effect in CAUSES.values():
        assert effect and not effect.endswith(".") and not mistake.endswith(".")


def test_faults_say_the_likely_mistake():
    assert [name for name in list(CHECK_KINDS)[:48] if not CAUSES[name][0]] == []


@pytest.mark.parametrize("name", CHECK_KINDS)
def test_every_kind_has_a_section_that_says_what_to_do(name):
    code, severity = CHECK_KINDS[name]
    sections = dict(one.split("\n", 1) for one in re.split(r"^## ", DOCS, flags=re.MULTILINE) if one.startswith("RW2"))
    section = sections[f"{code} {name} ({severity})"]
    assert section.count("**What to do.** ") == 1
    assert CAUSES[name][1] in " ".join(section.split())


def test_docs_have_no_section_too_many():
    headings = re.findall(r"^## (RW2.+)$", DOCS, flags=re.MULTILINE)
    assert headings == [f"{code} {name} ({severity})" for name, (code, severity) in CHECK_KINDS.items()]


def test_what_is_named_elsewhere_is_a_kind():
    targets = {*verdicts.UNNAMED.values(), *verdicts.BATTERY.values(), *FOLLOWS}
    targets |= {one for followers in FOLLOWS.values() for one in followers}
    assert targets - set(CHECK_KINDS) == set()


def test_a_message_holds_mistake_and_effect():
    finding = verdicts.verdict("double-rotation", seen="angles doubled", right="angles")
    assert isinstance(finding, Finding)
    assert finding.message == (
        f"Likely mistake: {CAUSES['double-rotation'][0]}. Effect: {CAUSES['double-rotation'][1]}."
    )


def test_a_failure_becomes_the_finding_of_its_kind():
    finding = verdicts.of_failure(Failure(kind="shape", message="gave [3]", where="x [2, 5, 3, 8]"))
    assert (finding.name, finding.seen, finding.where) == ("shape", "gave [3]", "x [2, 5, 3, 8]")


@pytest.mark.parametrize(
    ("seen", "expect", "wanted"),
    [
        (found(), ROPE, []),
        (found(offset=3.0, identity_at_zero=False), ROPE, ["offset"]),
        (found(output_order=(1, 0, 2, 3, 4, 5, 6, 7)), ROPE, ["output-order"]),
        (found(still_factor=1.2), ROPE, ["magnitude-twice"]),
        (found(quarter=True, identity_at_zero=False), ROPE, ["cos-sin-swapped"]),
        (found(identity_at_zero=False), ROPE, ["not-a-rotation"]),
        (found(tables_as_angles=True, kind="linear"), ROPE, ["tables-as-angles"]),
        (found(kind="reflection"), ROPE, ["reflection"]),
        (found(kind="linear"), ROPE, ["not-a-rotation"]),
        (found(kind="nonlinear", pairs=None), ROPE, ["nonlinear"]),
        (found(kind="identity", pairs=None), ROPE, ["identity"]),
        (found(kind="identity", pairs=None), None, ["no-rope"]),
        (found(heads_alike=False), ROPE, ["heads-differ"]),
        (found(heads_alike=False, turned_heads=(2,), still_heads=(0, 1)), ROPE, ["first-head-only"]),
        (found(ROPE.replace(rope_theta=1.0)), ROPE, ["one-speed"]),
    ],
)
def test_what_the_map_is_decides_the_finding(seen, expect, wanted):
    assert names(verdicts.of_map(seen, expect)) == wanted


def test_a_deviation_without_a_name_is_named_by_its_kind():
    odd = Pairs(first=[0, 1, 2, 3], second=[5, 4, 7, 6], axis=[0] * 4, inv_freq=ROPE.pairs().inv_freq)
    seen = found(pairs=odd)
    explanation = explain(odd, 8, expect=ROPE, error=seen.inv_freq_error)
    assert names(verdicts.of_explanation(explanation, ROPE, seen))[0] == "pairs-differ"


def test_the_equivalent_description_is_told():
    other = ROPE.replace(rope_theta=5e5**0.5)
    seen = found(other)
    (finding,) = verdicts.of_explanation(explain(other.pairs(), 8, expect=ROPE), ROPE, seen)
    assert finding.name == "exponent-without-2"
    assert "707.106781" in finding.seen


@pytest.mark.parametrize(
    ("cause", "grade", "wanted"),
    [
        (None, "exact", []),
        ("float32-angles", "exact", []),
        ("float32-angles", "mild", []),
        ("float32-angles", "notable", ["precision-notable"]),
        ("bf16-tables", "mild", ["rounded-tables"]),
        ("bf16-positions", "fatal", ["bf16-positions"]),
        ("sine-unreduced", "notable", ["sine-unreduced"]),
        ("unknown", "fatal", ["precision"]),
        ("unknown", "notable", ["precision-notable"]),
        (None, "unusable", []),
    ],
)
def test_precision_is_named_by_its_cause(cause, grade, wanted):
    measured = Precision(errors={128: 0.5}, cause=cause, grade=grade, words="off by 0.5 rad")
    assert names(verdicts.of_precision(measured)) == wanted


def test_a_condition_matters_only_where_the_function_is_right_without_it():
    ruined = Precision(errors={128: 1.0}, cause="bf16-frequencies", grade="fatal", words="off by 1 rad")
    fine = Precision(errors={128: 0.0}, cause=None, grade="exact", words="exact")
    both = {"autocast(bfloat16)": ruined, ".to(bfloat16)": ruined, ".half()": fine}
    assert names(verdicts.of_conditions(both, fine)) == ["autocast", "state-cast"]
    assert verdicts.of_conditions(both, ruined) == []


def test_evidence_that_holds_says_nothing():
    good = Evidence(name="ids-ignored", ok=True, seen="as it should", right="by its id")
    note = Evidence(name="negative-ids", ok=True, seen="refused", right="turned back", detail={"note": "refused"})
    rows = Evidence(name="per-row-ids", ok=False, seen="by the ids of row 0", right="by its own")
    assert names(verdicts.of_evidence([good, note, rows], turns=True)) == ["negative-ids", "ids-ignored"]


def test_what_follows_from_another_fault_is_left_out():
    findings = [
        verdicts.verdict(name, seen="a", right="b")
        for name in ("positions-misread", "offset", "ids-ignored", "wrong-theta", "ids-ignored", "dtype")
    ]
    assert names(settled(findings)) == ["wrong-theta", "ids-ignored", "dtype", "offset"]


def test_a_function_that_breaks_its_own_pairs_is_a_finding():
    assert verdicts.of_residual(found(residual=1e-6)) == []
    assert names(verdicts.of_residual(found(residual=0.4))) == ["precision"]
