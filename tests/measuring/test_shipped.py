"""The shipped measurement: its documents, and the page that shows it."""

import json
import math
import re
from importlib.resources import files
from pathlib import Path

import pytest

from ropewalk import RopewalkError, read
from ropewalk.measuring import Measurement, shipped
from ropewalk.scaling import Default, Dynamic, Linear, Llama3, Ntk, Yarn

PAGE = Path(__file__).resolve().parents[2] / "docs/extend-measured.md"
METHODS = {"untouched": Default, "linear": Linear, "ntk": Ntk, "dynamic": Dynamic, "yarn": Yarn, "llama3": Llama3}


def test_the_file_is_read_without_loss():
    data = json.loads((files("ropewalk.measuring") / "smollm2-135m.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(shipped().to_dict())) == data


@pytest.mark.parametrize("times", [2, 4])
def test_every_method_was_measured_on_the_whole_text_with_the_rope_that_it_names(times):
    one = shipped().measurements[times]
    assert (one.tokens, one.bucket, one.trained, one.growing) == (times * 8192, 1024, 8192, None)
    assert [curve.name for curve in one.curves] == list(METHODS)
    own = read("smollm2-135m").rope
    for curve in one.curves:
        assert curve.counts == (1023, *[1024] * (8 * times - 1))
        assert all(math.isfinite(loss) and 0 < loss < math.log(49_152) for loss in curve.losses)
        assert isinstance(curve.rope.scaling, METHODS[curve.name])
        assert getattr(curve.rope.scaling, "factor", times) == times
        assert (curve.rope.head_dim, curve.rope.rope_theta) == (own.head_dim, own.rope_theta)


def test_a_method_that_leaves_the_first_tokens_alone_has_the_losses_of_the_other_stretch_there():
    short, long = (shipped().measurements[times].curve("untouched") for times in (2, 4))
    # One causal pass over twice the text: the same numbers, but for the order in which bfloat16 sums are rounded.
    assert short.losses == pytest.approx(long.losses[:16], abs=0.01)


def test_the_page_shows_what_is_shipped():
    text = PAGE.read_text(encoding="utf-8")
    for times, one in shipped().measurements.items():
        table = re.search(rf"<!-- x{times} -->\n(.*?)\n<!-- end x{times} -->", text, re.DOTALL)[1]
        rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table.splitlines()]
        assert rows[0][1:] == list(METHODS)
        for i, row in enumerate(rows[2:-2]):
            assert row[0] == f"{1024 * i}–{1024 * i + 1023}"
            assert row[1:] == [f"{curve.losses[i]:.3f}" for curve in one.curves]
        assert len(rows) == 8 * times + 4
        assert [row[0] for row in rows[-2:]] == ["within", "beyond"]
        assert (PAGE.parent / f"images/smollm2-135m-x{times}.png").is_file()
    assert shipped().date in text and shipped().machine["versions"]["torch"] in text


def test_a_document_of_another_schema_is_refused():
    with pytest.raises(RopewalkError, match=r"ropewalk\.measurement/1"):
        Measurement.from_dict({"schema": "ropewalk.plan/1"})


@pytest.mark.parametrize("spoil", [{"curves": None}, {"curves": [{}]}, {"curves": [None]}, {"curves": [{"rope": 3}]}])
def test_a_document_that_lacks_something_is_one_clear_error(spoil):
    whole = shipped().measurements[2].to_dict()
    with pytest.raises(RopewalkError, match="what to_dict gives"):
        Measurement.from_dict({**whole, **spoil})
