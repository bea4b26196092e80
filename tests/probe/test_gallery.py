"""The gallery as a whole: every entry is shown, every mutant deviates, every right variant is right."""

import ast
import doctest
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ropewalk import Rope
from ropewalk.probe.gallery import exhibits, table
from ropewalk.turning import naive

from .exhibited import (
    ALL,
    BY_ID,
    MUTANTS,
    SLUGS,
    UNSEEN_IN_ONE_CALL,
    VARIANTS,
    call,
    fault,
    half_frequencies,
    named,
    some_ids,
    truth,
    turn_one,
    vectors,
)


def test_every_entry_of_both_lists_is_shown_and_ids_are_unique():
    assert len(BY_ID) == len(ALL)
    assert {one.entry for one in MUTANTS} == {f"M{n:02}" for n in range(1, 49)}
    assert {one.entry for one in VARIANTS} == {f"V{n:02}" for n in range(1, 29)}
    assert [one for one in exhibits() if one.extra] == [] and len([one for one in ALL if one.extra]) >= 15
    assert [one.id for one in ALL] == sorted(BY_ID, key=lambda id: ("MVX".index(id[0]), id))


@named(MUTANTS)
def test_a_mutant_bears_the_name_of_its_entry(one):
    assert one.slug == SLUGS[int(one.entry[1:])]


def test_nearly_every_entry_has_several_parameter_sets_or_readings():
    counts = {entry: sum(one.entry == entry for one in ALL) for entry in {one.entry for one in MUTANTS + VARIANTS}}
    assert [entry for entry, count in counts.items() if count < 2] == []


@named(ALL)
def test_source_is_the_code_of_one_factory_with_its_lesson_and_marks_the_fault(one):
    (function,) = ast.parse(one.source).body
    assert isinstance(function, ast.FunctionDef) and ast.get_docstring(function)
    assert one.slug is None or "  # " in one.source


@named(ALL)
def test_options_and_description_agree(one):
    assert one.expect is None or one.options["head_dim"] == one.expect.head_dim
    assert set(one.options) <= {"head_dim", "heads", "batch", "layout", "dtype", "backend", "max_position"}


def test_torch_is_imported_by_the_exhibits_that_need_it_alone():
    import subprocess
    import sys

    code = (
        "import sys; from ropewalk.probe.gallery import exhibits\n"
        "for one in exhibits(extra=True):\n    one.source\n    one.needs_torch or one.make()\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("False", "")


@named(ALL)
def test_every_exhibit_takes_float32_and_each_shape_of_ids(one):
    axes = one.expect.axes.num_axes if one.expect else 1
    for seq in (1, 4):
        x = vectors(one, seq=seq).astype(np.float32)
        flat = np.arange(2, 2 + seq)
        shapes = [flat, flat[None], np.stack([flat, flat[::-1]])] if axes == 1 else [np.stack([[flat, flat]] * axes)]
        for ids in shapes:
            assert call(one, x, ids).shape == x.shape
    if not one.needs_torch and one.options.get("layout", "bshd") == "bshd":
        assert one.make()(x, shapes[-1]).dtype == np.float32


def test_the_table_has_a_line_for_each_exhibit_and_the_verdict_where_there_is_one():
    lines = table({"M14": "theta 10000 for 500000"}).splitlines()
    assert len(lines) == len(ALL) + 2
    assert (
        "| M14 | wrong-theta | another base than declared | head_dim 16, rope_theta 500000, used 10000 |"
        in lines[2 + [one.id for one in ALL].index("M14")]
    )
    assert sum("theta 10000 for 500000" in line for line in lines) == 1


def test_the_pages_example_runs():
    page = Path(__file__).parents[2] / "docs" / "gallery.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 3 and results.failed == 0


def test_the_page_shows_every_exhibit_as_it_is():
    page = (Path(__file__).parents[2] / "docs" / "gallery.md").read_text(encoding="utf-8")
    told = [line.split(" | ") for line in page.splitlines() if re.match(r"\| [MVX]\d\d", line)]
    made = [line.split(" | ") for line in table().splitlines()[2:]]
    assert [cells[:4] for cells in told] == [cells[:4] for cells in made]


@named([one for one in ALL if one.slug is not None and one.entry not in UNSEEN_IN_ONE_CALL])
def test_a_mutant_deviates_from_what_it_claims_to_be(one):
    far = 200_000 if one.entry == "M37" else min(60_000, one.options.get("max_position", 60_000) - 1)
    x, ids = vectors(one), some_ids(one, far)
    assert np.abs(call(one, x, ids) - truth(one, x, ids)).max() > 1e-2


# what float32 tables, float32 angles (positions up to 1e5: half an ulp is 0.004 rad) or bfloat16 tables leave
ROUNDED = {"V07a": 5e-7, "V08": 5e-7, "V09": 0.03, "V10": 0.02, "V11": 0.05}
OTHERWISE_EQUAL = {"V05", "V23"}


@named([one for one in VARIANTS if one.expect is not None and one.entry not in OTHERWISE_EQUAL])
def test_a_right_variant_equals_the_truth(one):
    top = one.options.get("max_position", 1_048_576)
    tolerance = next((ROUNDED[name] for name in (one.id[:4], one.entry) if name in ROUNDED), 1e-8)
    fn = one.make()
    for last in (11, min(5000, top - 1), min(100_000, top) - 1):
        x, ids = vectors(one), some_ids(one, last)
        assert np.abs(call(one, x, ids, fn=fn) - truth(one, x, ids)).max() < tolerance


@named([one for one in VARIANTS if one.entry in {"V01", "V02", "V03", "V04", "V06", "V12", "V13", "V14", "V24", "V25"}])
def test_right_variants_take_negative_ids_and_far_ones(one):
    x, ids = vectors(one), np.array([[-4, 0, 7, 7, -1025], [1_048_575, 2, 1, 0, -1]])
    assert np.abs(call(one, x, ids) - truth(one, x, ids)).max() < 1e-8


@named([one for one in VARIANTS if one.entry in {"V19", "V20"} and one.expect.axes.kind != "ladders"])
def test_mrope_on_text_equals_an_ordinary_rope(one):
    plain = Rope(head_dim=one.expect.head_dim, rope_theta=one.expect.rope_theta, pairing="half")
    x, ids = vectors(one), np.array([[0, 1, 2, 900, 5], [8, 6, 7, 5, 4]])
    np.testing.assert_allclose(call(one, x, ids), naive.rotate(x, ids, plain), atol=1e-9)


@named([one for one in VARIANTS if one.entry == "V05"])
def test_v05_is_the_declared_rotation_permuted(one):
    x, ids = vectors(one), some_ids(one, 4000)
    order = np.r_[0 : one.options["head_dim"] : 2, 1 : one.options["head_dim"] : 2]
    np.testing.assert_allclose(call(one, x, ids), truth(one, x, ids)[..., order], atol=1e-9)


@named([one for one in VARIANTS if one.entry in {"V05", "V06", "V23"}])
def test_scores_are_those_of_the_declared_rope(one):
    fn, rng = one.make(), np.random.default_rng(4)
    q, k = rng.standard_normal((2, one.options["head_dim"]))
    for m, n in ((9, 4), (26, 21), (3000, 12), (5, 5)):
        expected = naive.score(q, k, m, n, one.expect)
        assert turn_one(fn, q, m) @ turn_one(fn, k, n) == pytest.approx(expected, abs=1e-9)


def test_v06_half_on_permuted_weights_gives_the_scores_of_interleaved_on_the_originals():
    rng = np.random.default_rng(2)
    heads, width = 2, 12
    w_q, w_k = rng.standard_normal((2, heads * width, heads * width))
    order = np.concatenate([h * width + np.r_[0:width:2, 1:width:2] for h in range(heads)])
    half = fault("V06a", head_dim=width, rope_theta=500.0)
    interleaved = Rope(head_dim=width, rope_theta=500.0, pairing="interleaved")
    hidden = rng.standard_normal((2, heads * width))

    def score(rotate, w_q, w_k, m, n):
        q, k = ((w @ h).reshape(1, 1, heads, width) for w, h in zip((w_q, w_k), hidden, strict=True))
        return (rotate(q, np.array([m])) * rotate(k, np.array([n]))).sum(axis=-1)

    for m, n in ((9, 4), (26, 21)):
        ours = score(half, w_q[order], w_k[order], m, n)
        theirs = score(lambda x, ids: naive.rotate(x, ids, interleaved), w_q, w_k, m, n)
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@named([one for one in VARIANTS if one.entry == "V17"])
def test_v17_scores_times_the_softmax_factor_are_those_of_magnitude_on_cos_and_sin(one):
    on_cos_sin = replace(one.expect, scaling=replace(one.expect.scaling, mscale=None, mscale_all_dim=None))
    softmax_factor = one.expect.pairs().softmax_factor
    g = on_cos_sin.pairs().cos_sin_factor
    assert softmax_factor == pytest.approx(g * g) and g > 1.2
    q, k = np.random.default_rng(5).standard_normal((2, one.options["head_dim"]))
    score = turn_one(one.make(), q, 700) @ turn_one(one.make(), k, 30)
    assert softmax_factor * score == pytest.approx(naive.score(q, k, 700, 30, on_cos_sin), abs=1e-8)


@named([one for one in VARIANTS if one.entry == "V23"])
def test_v23_moves_every_position_by_its_constant(one):
    x, ids = vectors(one), np.array([0, 1, 5, 700, 2])
    moved = naive.rotate(x, ids + one.parameters["start"], one.expect)
    np.testing.assert_allclose(call(one, x, ids), moved, atol=1e-9)


def test_v10_tables_are_off_by_no_more_than_bf16_at_777():
    fn = fault("V10", head_dim=96, rope_theta=30_000.0)
    turned = np.stack([turn_one(fn, row, 777) for row in np.eye(96)])
    right = naive.tables(Rope(head_dim=96, rope_theta=30_000.0, pairing="half"), [777])
    cos, sin = np.diag(turned)[:48], turned[:48, 48:].diagonal()
    assert np.abs(cos - right[0][0]).max() == pytest.approx(1.900e-3, abs=1e-6)  # F413
    assert np.abs(sin - right[1][0]).max() < 2e-3
    assert np.abs(cos**2 + sin**2 - 1).max() == pytest.approx(5.356e-3, abs=1e-6)


def test_v18_never_turns_and_v28_turns_all_pairs_alike():
    x, ids = vectors(BY_ID["V18a"]), np.array([0, 1, 2, 3, 9000])
    np.testing.assert_array_equal(call(BY_ID["V18a"], x, ids), x)
    np.testing.assert_allclose(half_frequencies(BY_ID["V28"].make(), 16)[0], np.ones(8))
