"""How many rows of positions a function takes, where nothing says so."""

import numpy as np
import pytest

from ropewalk import Rope, rotate
from ropewalk.axes import Ladders, Sections
from ropewalk.probe._rows import rows_of
from ropewalk.probe.box import Box
from ropewalk.probe.checking import check

THW = ("t", "h", "w")
ROPES = {
    "interleaved": Rope(
        head_dim=40,
        rope_theta=3e5,
        pairing="half",
        axes=Sections(sections=(10, 6, 4), arrangement="interleaved", names=THW),
    ),
    "chunked": Rope(
        head_dim=96,
        rope_theta=5e5,
        pairing="half",
        axes=Sections(sections=(16, 16, 16), arrangement="chunked", names=THW),
    ),
    "image": Rope(
        head_dim=48,
        rope_theta=1e4,
        pairing="interleaved",
        axes=Ladders(widths=(24, 24), pairing_within="head", arrangement="blocks", names=("h", "w")),
    ),
}


def strict(rope):
    def fn(x, position_ids):
        assert position_ids.ndim == 3 and len(position_ids) == rope.axes.num_axes
        return rotate(x, position_ids, rope)

    return fn


@pytest.mark.parametrize(("strictly", "layout"), [(True, "bshd"), (False, "bshd"), (False, "thd")])
@pytest.mark.parametrize("kind", ROPES)
def test_undeclared_rows_are_found_and_the_axes_recovered(kind, strictly, layout):
    rope = ROPES[kind]
    fn = strict(rope) if strictly else lambda x, ids: rotate(x, ids, rope, layout=layout)
    report = check(fn, head_dim=rope.head_dim, layout=layout, heads=3)
    assert report.findings == () and report.explanation is not None
    ours, theirs = rope.pairs(), report.explanation.pairs()
    order = np.argsort(ours.first)
    assert np.array_equal(theirs.first, ours.first[order]) and np.array_equal(theirs.axis, ours.axis[order])
    np.testing.assert_allclose(theirs.inv_freq, ours.inv_freq[order], rtol=1e-6)


def test_plain_functions_keep_one_row():
    rope = Rope(head_dim=16, rope_theta=5e5, pairing="half")
    assert rows_of(Box(lambda x, ids: rotate(x, ids, rope), head_dim=16)) == 1
    assert rows_of(Box(lambda x, ids: x, head_dim=16)) == 1
    assert rows_of(Box(lambda x, ids: rotate(x, np.arange(x.shape[1]), rope), head_dim=16)) == 1


def test_one_row_of_several_that_turns_nothing_is_not_taken_for_an_axis():
    rope = Rope(head_dim=16, rope_theta=5e5, pairing="half")
    assert rows_of(Box(lambda x, ids: rotate(x, ids[0] if ids.ndim == 3 else ids, rope), head_dim=16)) == 1


def test_a_function_of_another_shape_of_positions_is_told_what_to_declare():
    rope = ROPES["image"]
    report = check(lambda x, ids: rotate(x, np.moveaxis(ids, -1, 0), rope), head_dim=48)
    (finding,) = report.findings
    assert finding.name == "raised" and "[A, B, S]" in finding.right and "expect" in finding.right
