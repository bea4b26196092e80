"""The report: plain data, JSON, and a page that escapes what foreign code says."""

import json

import numpy as np

from ropewalk import Pairs, Rope
from ropewalk.probe.precision import Precision
from ropewalk.probe.report import Report
from ropewalk.probe.verdicts import verdict

WRONG = verdict("wrong-theta", seen="theta 10000 <b>", right="theta 500000")
NOTE = verdict("offset", seen="moved by 2", right="0")
PAIRS = Pairs(first=[0, 1], second=[2, 3], axis=[0, 0], inv_freq=[1.0, 0.01])


def report(*findings, **more):
    return Report(findings=findings, pairs=PAIRS, kind="rotation", recipe="theta 10000 for 500000", **more)


def test_only_errors_make_a_report_bad():
    assert report(NOTE).ok
    assert not report(NOTE, WRONG).ok


def test_the_document_survives_json():
    rope = Rope(head_dim=4, rope_theta=1e4, pairing="half")
    precision = Precision(errors={128: float("nan")}, cause=None, grade="exact", words="exact")
    one = report(WRONG, explanation=rope, precision=precision, output_order=(1, 0, 2, 3), calls=7, seconds=0.12345)
    data = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert (data["schema"], data["ok"], data["calls"], data["seconds"]) == ("ropewalk.check/1", False, 7, 0.123)
    assert data["findings"][0]["code"] == "RW214"
    assert data["precision"]["grade"] == "exact"
    assert Pairs.from_dict(data["pairs"]) == PAIRS
    assert Rope.from_dict(data["explanation"]) == rope
    assert data["output_order"] == [1, 0, 2, 3]


def test_whatever_evidence_holds_becomes_plain():
    from ropewalk.probe._evidence import Evidence

    evidence = Evidence(name="x", ok=True, seen="", right="", detail={"a": np.arange(2), "b": np.float64(1.5), 3: {1}})
    data = report(evidence=(evidence,)).to_dict()["evidence"][0]
    assert data["detail"] == {"a": [0, 1], "b": 1.5, "3": [1]}


def test_the_summary_counts_errors_and_warnings():
    assert report(WRONG, NOTE).summary() == "1 error: theta 10000 for 500000"
    assert report(NOTE).summary() == "no fault found: theta 10000 for 500000"
    assert Report(findings=(verdict("hang", seen="a", right="b"),)).summary() == "1 error: nothing could be measured"


def test_the_page_escapes_foreign_words_and_shows_the_pairs():
    page = report(WRONG, calls=7, seconds=0.5)._repr_html_()
    assert "theta 10000 &lt;b&gt;" in page and "<b>theta" not in page.replace("<b>1 error", "")
    assert "RW214" in page and "(0, 2)" in page and "7 calls" in page
    assert Report(findings=())._repr_html_().count("<table>") == 1
