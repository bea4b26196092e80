"""The number gate: it passes on the truth, and it can fail."""

import json
import math

import pytest

import ropewalk
from ropewalk import RopewalkError, gate
from ropewalk.gate import POSITIONS, SHIFTS, expected_score, sabotages, turn_with, verify
from ropewalk.simulation import default_rope

SCORE = "the score sees only the distance"
ZERO = "turning by 0 returns the vector"
SUM = "turning by m, then by n, is turning by m + n"
BACK = "turning by m, then by -m, returns the vector"
LENGTH = "turning keeps the length"


def failing(result):
    return {case.name for case in result.cases if not case.ok}


def test_the_truth_passes():
    result = ropewalk.verify()
    assert result.ok
    assert failing(result) == set()
    assert 0 < result.deviation <= 1e-12
    assert result.deviation == max(case.deviation for case in result.cases)


def test_there_are_four_golden_cases_and_245_triples():
    cases = {case.name: case for case in verify().cases}
    assert set(cases) == {ZERO, SUM, BACK, LENGTH, SCORE}
    assert cases[SCORE].checks == 245
    assert POSITIONS == (0, 1, 2, 7, 17, 128, 2047)
    assert SHIFTS == (-1000, -1, 1, 100, 4096)
    assert all(case.tolerance == 1e-12 for case in cases.values())


@pytest.mark.parametrize("fault", ["direction", "theta", "pairing", "still"])
def test_each_sabotage_is_caught_by_the_independent_score(fault):
    # each of the four is still a rotation: only the second road can tell
    assert failing(verify(sabotages()[fault])) == {SCORE}


def test_there_are_four_sabotages():
    assert set(sabotages()) == {"direction", "theta", "pairing", "still"}


@pytest.mark.parametrize("still", [0, 1, 2, 3])
def test_any_pair_kept_still_is_caught(still):
    assert failing(verify(turn_with(default_rope(), still=still))) == {SCORE}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_turn_that_gives_no_finite_number_fails_every_case(bad):
    result = verify(lambda x, m: [bad, *list(x)[1:]])
    assert failing(result) == {ZERO, SUM, BACK, LENGTH, SCORE}
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert document["ok"] is False
    assert document["deviation"] is None


def test_a_single_nan_at_one_position_fails():
    right = turn_with(default_rope())
    result = verify(lambda x, m: [math.nan] * 8 if m == 2047 + 4096 else right(x, m))
    assert not result.ok
    assert SCORE in failing(result)


def test_a_turn_that_doubles_the_length_fails_the_length_case():
    right = turn_with(default_rope())
    result = verify(lambda x, m: [2 * value for value in right(x, m)])
    assert LENGTH in failing(result)


def test_a_turn_that_grows_with_the_position_passes_at_zero_and_fails_the_length():
    right = turn_with(default_rope())
    result = verify(lambda x, m: [math.exp(1e-6 * m) * value for value in right(x, m)])
    assert {ZERO, SUM, BACK} & failing(result) == set()
    assert {LENGTH, SCORE} <= failing(result)


def test_a_turn_by_a_constant_too_much_fails_the_golden_cases():
    right = turn_with(default_rope())
    result = verify(lambda x, m: right(x, m + 1))
    assert failing(result) == {ZERO, SUM, BACK}  # the score sees distances only, and lengths are kept


def test_no_turning_at_all_is_caught():
    assert failing(verify(lambda x, m: x)) == {SCORE}


@pytest.mark.parametrize("given", [[], [1.0] * 7, [1.0] * 9])
def test_a_turn_that_gives_another_width_is_refused(given):
    with pytest.raises(RopewalkError, match=f"8, got {len(given)}"):
        verify(lambda x, m: given)


@pytest.mark.parametrize(
    ("distance", "expected"),
    [(5, "-0.709554095"), (4, "-0.450741836"), (-5, "1.587136657"), (0, "0.500000000")],
)
def test_expected_score_gives_the_lessons_numbers(distance, expected):
    assert f"{expected_score(distance):.9f}" == expected


def test_expected_score_turns_no_vector_and_takes_no_frequencies_from_the_package(monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("the second road met the first")

    right = expected_score(5)
    for name in ("rotate", "default_rope", "turn_with", "Rope", "np"):
        monkeypatch.setattr(gate, name, forbidden)
    monkeypatch.setattr(ropewalk.Rope, "pairs", forbidden)
    assert expected_score(5) == right
    used = set(expected_score.__code__.co_names)  # every global name and attribute that it mentions
    assert used == {"DEFAULT_QUERY", "DEFAULT_KEY", "range", "math", "cos", "sin"}


def test_json_names_the_schema_and_every_case():
    document = json.loads(json.dumps(verify().to_dict(), allow_nan=False))
    assert document["schema"] == "ropewalk.verify/1"
    assert document["ok"] is True
    assert 0 < document["deviation"] <= 1e-12
    assert [set(case) for case in document["cases"]] == [{"name", "ok", "checks", "deviation", "tolerance"}] * 5
    assert {case["name"]: case["checks"] for case in document["cases"]}[SCORE] == 245
