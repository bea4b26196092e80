"""What may be asked of a benchmark, and that a wrong wish is told in one line."""

import subprocess
import sys

import pytest

from ropewalk import RopewalkError
from ropewalk.bench.plan import CASES, DTYPES, PAIRINGS, PEERS, STANDARD, Plan, Shape


def test_a_shape_is_read_from_five_numbers():
    shape = Shape.parse("2, 40,6,2,96")
    assert (shape.q, shape.k) == ([2, 40, 6, 96], [2, 40, 2, 96])


def test_the_standard_shape_is_that_of_the_bars():
    assert (STANDARD.q, STANDARD.k) == ([1, 4096, 32, 128], [1, 4096, 8, 128])
    assert Plan().shape == STANDARD


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "B,S,H,KV,D"),
        ("1,2,3,4", "B,S,H,KV,D"),
        ("1,2,3,4,6,8", "B,S,H,KV,D"),
        ("1,2,3,x,6", "'1,2,3,x,6'"),
        ("1,2,3,-4,6", "'1,2,3,-4,6'"),
        ("1,2,3,4.0,6", "'1,2,3,4.0,6'"),
        ("1,2,٣,4,6", "B,S,H,KV,D"),
        ("1,0,3,4,6", "seq"),
        ("1,2,3,4,7", "even"),
        ("1,99999999999,32,8,128", r"2\^40"),
        ("1,99999999999999999999,32,8,128", "seq"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_with_what_was_given(text, told):
    with pytest.raises(RopewalkError, match=told) as caught:
        Shape.parse(text)
    assert "\n" not in str(caught.value)


def test_decoding_keeps_heads_and_width_and_takes_one_token_a_row():
    asked = Shape.parse("3,50,6,2,48")
    assert CASES["decode"].shape(asked).q == [1, 1, 6, 48]
    assert CASES["decode-ragged"].shape(asked).k == [32, 1, 2, 48]
    for name in ("out-of-place", "in-place", "backward"):
        assert CASES[name].shape(asked) == asked


@pytest.mark.parametrize(
    ("wish", "known"),
    [
        ({"cases": ("in-space",)}, CASES),
        ({"dtypes": ("int8",)}, DTYPES),
        ({"pairings": ("quarter",)}, PAIRINGS),
        ({"peers": ("numpy",)}, PEERS),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_are_known(wish, known):
    with pytest.raises(RopewalkError) as caught:
        Plan(**wish)
    assert all(name in str(caught.value) for name in known)


def test_a_name_given_twice_or_none_at_all_is_refused():
    with pytest.raises(RopewalkError, match="once"):
        Plan(dtypes=("float32", "float32"))
    with pytest.raises(RopewalkError, match="no case"):
        Plan(cases=())
    with pytest.raises(RopewalkError, match="rounds"):
        Plan(rounds=0)
    assert Plan(peers=()).peers == ()


def test_planning_loads_neither_torch_nor_a_peer():
    code = (
        "import sys; from ropewalk.bench.plan import Plan; Plan(); "
        "assert not {'torch', 'transformers', 'rotary_embedding_torch'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
