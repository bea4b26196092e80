"""Where pairs leave the angles of the training, against a walk over every position; and short prompts."""

import json
import math

import pytest

from ropewalk import Rope
from ropewalk.planning import extend
from ropewalk.scaling import Dynamic, LongRope, Yarn

WIDTH, THETA, TRAINED, TO = 20, 5000.0, 60, 700


def rope(**changes):
    given = {"head_dim": WIDTH, "rope_theta": THETA, "pairing": "interleaved", "max_position_embeddings": TRAINED}
    return Rope(**{**given, **changes})


def walked(method, to=TO, trained=TRAINED):
    """The first position, and the pair, at which an angle is reached that training has not shown."""
    seen = [trained * THETA ** (-2 * i / WIDTH) for i in range(WIDTH // 2)]
    for position in range(to):
        speeds = method.rope.pairs(position + 1 if method.rope.length_dependent else None).inv_freq.tolist()
        for pair, (shown, speed) in enumerate(zip(seen, speeds, strict=True)):
            if shown < 2 * math.pi and position * abs(speed) >= shown * (1 - 1e-12):
                return position, pair
    return None


@pytest.mark.parametrize("to", [61, 120, 180, TO, 5000])
@pytest.mark.parametrize("name", ["untouched", "linear", "ntk", "dynamic", "yarn", "llama3"])
def test_the_first_unseen_angle_is_that_of_a_walk_over_all_positions(name, to):
    method = next(one for one in extend(rope(), to).methods if one.name == name)
    assert method.leaves_at == walked(method, to)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0, 30.0])
def test_a_rope_with_dynamic_scaling_of_its_own_is_walked_the_same(factor):
    plan = extend(rope(scaling=Dynamic(factor=factor)), TO)
    assert plan.methods[0].leaves_at == walked(plan.methods[0])


@pytest.mark.parametrize("divisor", [2.0, 11.0, 40.0])
def test_a_rope_with_longrope_lists_is_walked_the_same(divisor):
    lists = LongRope(
        short_factor=(1.0,) * 10, long_factor=(divisor,) * 10, original_max_position_embeddings=TRAINED, factor=4.0
    )
    plan = extend(rope(scaling=lists, max_position_embeddings=TO), TO)
    assert plan.methods[0].leaves_at == walked(plan.methods[0])


def test_without_scaling_the_trained_length_is_the_first_position_outside():
    method = extend(rope(), TO).methods[0]
    first = next(i for i in range(10) if TRAINED * THETA ** (-2 * i / WIDTH) < 2 * math.pi)
    assert method.leaves_at == (TRAINED, first)


def test_pairs_that_turned_once_in_training_never_leave():
    plan = extend(rope(rope_theta=2.0), TO)
    assert plan.full_turns == 10
    assert [method.leaves_at for method in plan.methods] == [None] * len(plan.methods)


def test_full_turns_are_counted_against_the_trained_length():
    plan = extend(rope(), TO)
    assert plan.full_turns == sum(TRAINED * THETA ** (-2 * i / WIDTH) >= 2 * math.pi for i in range(10))


def test_the_longest_length_ends_no_differently():
    plan = extend(rope(), 2**53)
    assert [plan.method(name).leaves_at for name in ("linear", "yarn", "llama3")] == [None] * 3


def test_a_negative_direction_changes_no_verdict():
    ahead, back = extend(rope(), TO), extend(rope(direction=-1), TO)
    for one, other in zip(ahead.methods, back.methods, strict=True):
        assert (one.leaves_at, one.kept, one.divisors) == (other.leaves_at, other.kept, other.divisors)


def test_short_prompts_of_linear_change_most_in_the_fastest_pair():
    short = extend(rope(), 240).method("linear").short_prompts
    assert short.largest == pytest.approx(TRAINED * (1 - 1 / 4))
    assert (short.pair, short.changed, short.score_factor) == (0, tuple(range(10)), 1.0)


def test_short_prompts_are_unchanged_by_dynamic():
    short = extend(rope(), TO).method("dynamic").short_prompts
    assert (short.unchanged, short.largest, short.pair, short.words) == (True, 0.0, None, "unchanged")


def test_short_prompts_of_yarn_feel_the_magnitude():
    method = extend(rope(), 240).method("yarn")
    g = 0.1 * math.log(4) + 1
    assert method.short_prompts.score_factor == pytest.approx(g * g)
    assert not method.short_prompts.unchanged
    assert method.short_prompts.changed == (*method.blended, *method.stretched)


def test_short_prompts_are_told_against_the_model_as_it_is():
    own = rope(scaling=Yarn(factor=4.0, original_max_position_embeddings=TRAINED), max_position_embeddings=240)
    plan = extend(own, 480)
    assert plan.methods[0].short_prompts.unchanged
    assert plan.method("dynamic").short_prompts.changed == (
        *plan.method("yarn").blended,
        *plan.method("yarn").stretched,
    )
    g = (0.1 * math.log(4) + 1) ** 2
    assert plan.method("linear").short_prompts.score_factor == pytest.approx(1 / g)


def test_speeds_near_the_ends_of_float64_stay_json(recwarn):
    """A base of 1e-300 turns its pairs by up to 1e295 rad a position; a list divides by 1e300."""
    fast = Rope(head_dim=128, rope_theta=1e-300, pairing="half", max_position_embeddings=2**52)
    lists = LongRope(
        short_factor=(1e-300,) * 10, long_factor=(1e300,) * 10, original_max_position_embeddings=60, factor=4.0
    )
    for plan in (extend(fast, 2**53), extend(rope(scaling=lists), 240)):
        json.dumps(plan.to_dict(), allow_nan=False)
    assert extend(fast, 2**53).full_turns == 64
    assert [str(one.message) for one in recwarn if "ropewalk/planning/" in one.filename] == []


def test_untouched_pairs_leave_together_and_the_first_is_named_whatever_rounding_says():
    given = Rope(head_dim=96, rope_theta=5e5, pairing="half", max_position_embeddings=1000)
    assert extend(given, 3333).method("untouched").leaves_at == (1000, 19)
