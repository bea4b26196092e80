"""compare() with functions: what is measured, how surely, and what is said of it. Truths are worked out by hand."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import ropewalk
from ropewalk import Ladders, Rope, RopewalkError, Sections, compare
from ropewalk.probe.comparing import BlackBox
from ropewalk.probe.gallery import exhibits
from ropewalk.scaling import Dynamic, LongRope, Yarn

DOCS = Path(__file__).resolve().parents[2] / "docs" / "findings.md"
HALF = Rope(head_dim=48, rope_theta=10000.0, pairing="half")


def turning(inv_freq, *, g=1.0, moved=0):
    """A half-split NumPy function as people write it; its own road, nothing of ropewalk in it."""

    def fn(x, position_ids):
        angle = ((np.asarray(position_ids) + moved)[..., None] * inv_freq)[..., None, :]
        cos, sin = g * np.cos(angle), g * np.sin(angle)
        width = len(inv_freq)
        a, b, rest = x[..., :width], x[..., width : 2 * width], x[..., 2 * width :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1).astype(x.dtype)

    return fn


def ladder(theta, width=48):
    return theta ** (-np.arange(0, width, 2) / width)


def codes(compared):
    return [finding.code for finding in compared.findings]


def test_a_function_that_is_the_rope_is_equal_and_the_note_says_how_surely():
    compared = compare(HALF, turning(ladder(10000.0)))
    assert (compared.equal, codes(compared)) == (True, ["RW353"])
    assert compared.first.words == "the same pairs, as far as was measured"
    measured = compared.first.measured["b"]
    assert measured.until == 1_048_576 and 0 < measured.relative < 1e-5
    (note,) = compared.findings
    assert "B is a function and was measured" in note.message and "1048576" in note.message
    assert [row.room for row in compared.angles] == pytest.approx(
        [min(row.distance * measured.room.max(), math.pi) for row in compared.angles]
    )
    document = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    assert document["groups"][0]["measured"]["b"]["until"] == 1_048_576
    assert document["groups"][0]["b"]["rope_theta"] == 10000.0


def test_what_is_different_is_told_with_its_cause():
    compared = compare(HALF, turning(ladder(500000.0)))
    assert not compared.equal
    # pair 1 of 24: 10000^(-1/24) over 500000^(-1/24) = 50^(1/24)
    assert compared.first.words == (
        f"in B, pair 1 of 24 turns {50 ** (1 / 24):.6g} times too slow: theta 500000 for 10000"
    )
    assert codes(compared) == ["RW305", "RW353"]


def test_the_function_may_be_the_reference():
    compared = compare(turning(ladder(500000.0)), HALF)
    assert compared.first.words == (
        f"in B, pair 1 of 24 turns {50 ** (1 / 24):.6g} times too fast: A has theta 500000 for 10000"
    )
    assert "A is a function" in compared.findings[-1].message
    assert list(compared.first.measured) == ["a"]


def test_two_functions_are_compared():
    a, b = turning(ladder(10000.0)), turning(ladder(10000.0).astype(np.float32))
    compared = compare(a, b, head_dim=48)
    assert (compared.equal, codes(compared)) == (True, ["RW353", "RW353"])
    compared = compare(a, turning(ladder(12000.0)), head_dim=48)
    assert compared.first.words == (
        f"in B, pair 1 of 24 turns {1.2 ** (1 / 24):.6g} times too slow: theta 12000 for 10000"
    )


def test_a_difference_smaller_than_what_was_measured_is_none_and_a_larger_one_is():
    for off, equal in ((1e-7, True), (1e-4, False)):
        assert compare(HALF, turning(ladder(10000.0) * (1 + off))).equal is equal
    exact = turning(ladder(10000.0) * (1 + 1e-7))
    assert not compare(HALF, exact, dtype="float64").equal  # in float64 a ten-millionth is seen


def test_a_magnitude_on_cos_and_sin_is_seen():
    rope = HALF.replace(scaling=Yarn(factor=1.0, original_max_position_embeddings=4096, attention_factor=1.25))
    assert compare(rope, turning(ladder(10000.0), g=1.25)).equal
    compared = compare(rope, turning(ladder(10000.0)))
    assert codes(compared) == ["RW306", "RW353"]
    assert compared.factors.cos_sin == pytest.approx((1.25, 1.0))


def test_a_magnitude_on_the_softmax_scale_cannot_be_seen_and_is_no_difference():
    scaling = Yarn(
        factor=1.0, original_max_position_embeddings=4096, attention_factor=1.0, mscale_all_dim=1.0, scale_softmax=True
    )
    rope = HALF.replace(scaling=scaling)
    compared = compare(rope, turning(ladder(10000.0)))
    assert compared.equal
    assert "softmax scale cannot be seen" in compared.findings[-1].message


def test_a_partial_width_is_seen():
    compared = compare(HALF, turning(ladder(10000.0, 24)))
    assert {"RW301", "RW302", "RW305"} <= set(codes(compared))
    assert compare(HALF.replace(rotary_dim=24), turning(ladder(10000.0, 24))).equal


def test_what_pairs_do_not_show_is_a_difference():
    compared = compare(HALF, turning(ladder(10000.0), moved=3))
    assert (compared.equal, codes(compared)) == (False, ["RW310", "RW353"])
    assert compared.first.words == "the same pairs, but every position is moved by 3"
    inner = turning(ladder(10000.0))
    counted = compare(HALF, lambda x, position_ids: inner(x, np.arange(x.shape[1])))
    assert "counts tokens from 0" in counted.first.words
    sorted_out = compare(HALF, lambda x, position_ids: inner(x, position_ids)[..., ::-1])
    assert "another order" in sorted_out.findings[0].message


def test_a_function_that_turns_nothing_has_no_pairs():
    compared = compare(HALF, lambda x, position_ids: x + 0)
    assert not compared.equal
    assert compared.first.words == "pair 0 of 24, channels 0 and 24, turns in A and stands in no pair of B"


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (lambda x, position_ids: x / 0, "not-finite"),
        (lambda x, position_ids: x[..., :-1], "shape"),
        (lambda x, position_ids: np.abs(x), "the sum of two vectors"),
        (lambda x, position_ids: x * (1 + position_ids[..., None, None]), "scaled"),
        (lambda x, position_ids: {}["absent"], "KeyError"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_function_without_a_table_of_pairs_is_one_clear_error(fn, said):
    with pytest.raises(RopewalkError, match=f"^B, the function .*{said}"):
        compare(HALF, fn)


def test_several_axes_are_asked_for_as_the_description_has_them():
    rope = Rope(head_dim=48, rope_theta=10000.0, pairing="half", axes=Sections(sections=(12, 6, 6)))
    assert compare(rope, lambda x, position_ids: ropewalk.rotate(x, position_ids, rope)).equal
    other = rope.replace(axes=Sections(sections=(10, 8, 6)))
    compared = compare(rope, lambda x, position_ids: ropewalk.rotate(x, position_ids, other))
    assert codes(compared)[0] == "RW303"
    grid = Rope(head_dim=16, rope_theta=100.0, pairing="half", axes=Ladders(widths=(8, 8)))
    assert compare(grid, lambda x, position_ids: ropewalk.rotate(x, position_ids, grid)).equal


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_ropes_that_depend_on_the_length_are_compared_beyond_the_switch(kind):
    plain = HALF.replace(max_position_embeddings=2048)
    factors = {"short_factor": (1.0,) * 24, "long_factor": (4.0,) * 24}
    scaling = {
        "dynamic": Dynamic(factor=4.0),
        "longrope": LongRope(**factors, original_max_position_embeddings=2048, attention_factor=1.0),
    }[kind]
    rope = plain.replace(scaling=scaling)

    def right(x, position_ids):
        return ropewalk.rotate(x, position_ids, rope, length=int(np.max(position_ids)) + 1)

    assert compare(rope, right).equal
    compared = compare(rope, turning(ladder(10000.0)))
    assert not compared.equal and compared.first.length == 2049
    assert compared.first.words.startswith("for a sequence of 2049 tokens, in B, pair ")
    assert "RW350" in codes(compared)
    assert compare(rope, turning(ladder(10000.0)), length=2048).equal
    assert compare(plain, right, length=2048).equal
    assert not compare(plain, right).equal  # the function's own switch is found


@pytest.mark.parametrize(
    "one", [one for one in exhibits() if one.id in ("V03", "V12a", "V14", "V15", "V22", "V24a")], ids=lambda one: one.id
)
def test_right_variants_are_equal_to_what_they_declare(one):
    compared = compare(
        one.expect, one.make(), head_dim=one.options["head_dim"], layout=one.options.get("layout", "bshd")
    )
    assert (compared.equal, codes(compared)) == (True, ["RW353"])


@pytest.mark.parametrize("id", ["M02a", "M04a", "M14", "M21", "M29a", "M32a", "M40a"])
def test_faults_of_the_table_differ(id):
    one = next(one for one in exhibits() if one.id == id)
    assert not compare(one.expect, one.make(), head_dim=one.options["head_dim"]).equal


def test_head_dim_is_that_of_the_other_side_or_must_be_given():
    fn = turning(ladder(10000.0))
    config = {"model_type": "llama", "head_dim": 48, "num_hidden_layers": 2, "rope_theta": 10000}
    assert compare(config, fn).equal
    assert compare(HALF.to_dict(), fn).equal
    assert compare(ropewalk.read(config), fn, part="text").equal
    with pytest.raises(RopewalkError, match=r"nothing says it\. Give head_dim"):
        compare(fn, fn)
    several = {**config, "model_type": "gemma3_text", "global_head_dim": 96}
    assert compare(several, fn, head_dim=48) is not None
    box = BlackBox(fn=fn, name="mine", options={"head_dim": 48})
    assert compare(box, box).a == "mine"


def test_a_length_beyond_what_is_asked_for_is_refused():
    with pytest.raises(RopewalkError, match="Give a larger max_position"):
        compare(HALF, turning(ladder(10000.0)), length=2000, max_position=1000)


def test_descriptions_are_compared_as_before():
    assert compare(HALF, HALF).first.measured == {}
    assert compare("llama-3.1-8b", "llama-3.1-70b").equal


def test_a_torch_module_called_with_x_and_positions():
    torch = pytest.importorskip("torch")

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("inv_freq", torch.tensor(ladder(10000.0), dtype=torch.float32))

        def forward(self, x, position_ids):
            angle = (position_ids[..., None] * self.inv_freq)[..., None, :]
            a, b = x.chunk(2, dim=-1)
            return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)

    compared = compare(HALF, Rotary())
    assert compared.equal and compared.b == "a test_a_torch_module_called_with_x_and_positions.<locals>.Rotary"


@pytest.mark.parametrize("code", ["RW310", "RW321", "RW353"])
def test_docs_show_a_function_that_gives_the_finding(code):
    sections = re.split(r"^## ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (section,) = (one for one in sections if one.startswith(code))
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names = {}
    exec(example, names)
    assert code in codes(names["compared"])
    assert "**What to do.**" in section
