"""Every method's rope against formulas written out here, with Python's math and nothing of the package."""

import math

import pytest

from ropewalk import Rope
from ropewalk.planning import extend
from ropewalk.scaling import Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Yarn

WIDTH, THETA, TRAINED, TO = 96, 300000.0, 4096, 24576
STRETCH = 6.0


def plain(i, width=WIDTH, theta=THETA):
    return theta ** (-2 * i / width)


def rope(**changes):
    given = {"head_dim": WIDTH, "rope_theta": THETA, "pairing": "half", "max_position_embeddings": TRAINED}
    return Rope(**{**given, **changes})


def planned(name, to=TO, **changes):
    return extend(rope(**changes), to, method=name).method(name)


def speeds(method, length=TO):
    return method.rope.pairs(length).inv_freq.tolist()


def near(expected):
    return pytest.approx(expected, rel=1e-12)


def test_untouched_is_the_rope_as_given_and_stands_first():
    plan = extend(rope(), TO)
    assert plan.methods[0].name == "untouched"
    assert plan.methods[0].rope == rope()
    assert plan.methods[0].kept == tuple(range(48))


def test_linear_divides_every_speed_by_the_stretch():
    method = planned("linear")
    assert speeds(method) == near([plain(i) / STRETCH for i in range(48)])
    assert (method.kept, method.blended, method.stretched) == ((), (), tuple(range(48)))
    assert method.rope.max_position_embeddings == TO


def test_ntk_raises_the_base_so_that_the_slowest_pair_is_divided_by_the_stretch():
    method = planned("ntk")
    theta = THETA * STRETCH ** (WIDTH / (WIDTH - 2))
    assert speeds(method) == near([theta ** (-2 * i / WIDTH) for i in range(48)])
    assert plain(47) / speeds(method)[47] == near(STRETCH)
    assert (method.kept, method.blended, method.stretched) == ((0,), tuple(range(1, 47)), (47,))
    assert method.rope.scaling.rope_type == "default"  # any engine reads it


@pytest.mark.parametrize("length", [4097, 10000, TO])
def test_dynamic_grows_the_base_with_the_length(length):
    theta = THETA * (STRETCH * length / TRAINED - (STRETCH - 1)) ** (WIDTH / (WIDTH - 2))
    assert speeds(planned("dynamic"), length) == near([theta ** (-2 * i / WIDTH) for i in range(48)])


def test_dynamic_keeps_the_trained_length_as_its_context():
    method = planned("dynamic")
    assert method.rope.max_position_embeddings == TRAINED
    assert speeds(method, TRAINED) == near([plain(i) for i in range(48)])
    assert method.stretched == (47,)
    assert method.divisors[47] == near(STRETCH * STRETCH - (STRETCH - 1))


def test_yarn_keeps_blends_and_stretches_by_turns_within_the_trained_length():
    def pair_with(turns):
        return WIDTH * math.log(TRAINED / (2 * math.pi * turns)) / (2 * math.log(THETA))

    low, high = math.floor(pair_with(32)), math.ceil(pair_with(1))
    ramp = [min(max((i - low) / (high - low), 0), 1) for i in range(48)]
    method = planned("yarn")
    assert speeds(method) == near([plain(i) / STRETCH * r + plain(i) * (1 - r) for i, r in enumerate(ramp)])
    assert method.kept == tuple(i for i in range(48) if i <= low)
    assert method.blended == tuple(i for i in range(48) if low < i < high)
    assert method.stretched == tuple(i for i in range(48) if i >= high)
    assert method.magnitude == (pytest.approx(0.1 * math.log(STRETCH) + 1), 1.0)


def test_yarn_at_known_numbers():
    """D 80, theta 250000, factor 12 from 6144: bounds 11 and 23, magnitude 1.248490665, divisors at 15, 20, 25."""
    seen = extend(Rope(head_dim=80, rope_theta=250000.0, pairing="half", max_position_embeddings=6144), 73728)
    yarn = seen.method("yarn")
    assert (yarn.kept[-1], yarn.stretched[0]) == (11, 23)
    assert yarn.magnitude.cos_sin_factor == pytest.approx(1.248490665, abs=5e-10)
    assert [yarn.divisors[i] for i in (0, 10, 15, 20, 25)] == pytest.approx([1, 1, 1.44, 3.2, 12])


def test_llama3_at_known_numbers():
    """D 96, theta 3e5, factor 16 from 4096: pairs 0-19 kept, 25-47 divided by 16, five between."""
    method = planned("llama3", to=65536)
    assert (method.kept, method.blended) == (tuple(range(20)), tuple(range(20, 25)))
    expected = [1.228669046, 1.760351773, 2.638197642, 4.278988540, 8.200951039]
    assert [method.divisors[i] for i in range(20, 25)] == pytest.approx(expected, abs=5e-10)
    assert method.rope.scaling == Llama3(
        factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=4096
    )


def test_longrope_is_refused_without_lists_and_invents_none():
    (refusal,) = extend(rope(), TO).refused
    assert refusal.name == "longrope"
    assert "search" in refusal.reason


LISTS = LongRope(
    short_factor=(1.0,) * 48,
    long_factor=tuple(1.0 + i for i in range(48)),
    original_max_position_embeddings=TRAINED,
)


def test_longrope_is_offered_with_the_ropes_own_lists_up_to_their_length():
    plan = extend(rope(scaling=LISTS, max_position_embeddings=TO), TO)
    method = plan.method("longrope")
    assert method.divisors == tuple(near(1.0 + i) for i in range(48))
    assert (method.kept, method.stretched) == ((0,), ())
    assert method.short_prompts.unchanged
    assert method.magnitude.cos_sin_factor == near(math.sqrt(1 + math.log(STRETCH) / math.log(TRAINED)))


def test_longrope_lists_do_not_reach_beyond_the_length_they_were_searched_for():
    plan = extend(rope(scaling=LISTS, max_position_embeddings=TO), TO + 1)
    (refusal,) = plan.refused
    assert f"searched for {TO} tokens" in refusal.reason
    assert (plan.recommendation.method, plan.trained) == ("untouched", TRAINED)


YARN = Yarn(factor=4.0, original_max_position_embeddings=TRAINED, beta_fast=16.0, truncate=False, mscale=0.7)
SCALED = [
    (
        YARN,
        "yarn",
        Yarn(factor=6.0, original_max_position_embeddings=TRAINED, beta_fast=16.0, truncate=False, mscale=0.7),
    ),
    (
        Llama3(factor=2.0, low_freq_factor=2.0, high_freq_factor=8.0, original_max_position_embeddings=TRAINED),
        "llama3",
        Llama3(factor=6.0, low_freq_factor=2.0, high_freq_factor=8.0, original_max_position_embeddings=TRAINED),
    ),
]


@pytest.mark.parametrize(("own", "name", "expected"), SCALED, ids=["yarn", "llama3"])
def test_a_scaled_rope_is_planned_from_its_original_length_and_keeps_its_own_bounds(own, name, expected):
    plan = extend(rope(scaling=own, max_position_embeddings=8192), TO)
    assert (plan.trained, plan.trained_from) == (TRAINED, "original_max_position_embeddings")
    assert plan.method(name).rope.scaling == expected
    assert plan.recommendation.method == name
    assert any("second scaling on top" in caveat for caveat in plan.caveats)


@pytest.mark.parametrize("name", ["linear", "ntk", "dynamic", "llama3"])
def test_nothing_is_stacked_on_a_scaled_rope(name):
    own = rope(scaling=YARN, max_position_embeddings=8192)
    assert extend(own, TO).method(name).rope == extend(rope(), TO).method(name).rope


def test_a_scaled_rope_that_already_reaches_the_length_is_left_alone():
    plan = extend(rope(scaling=YARN, max_position_embeddings=TO), TO)
    assert (plan.recommendation.method, plan.recommendation.trained) == ("untouched", "untouched")
    assert "already reaches" in plan.recommendation.reason


@pytest.mark.parametrize("own", [Linear(factor=8.0), Ntk(factor=8.0), Proportional(factor=2.0)])
def test_a_scaling_that_hides_the_original_length_asks_for_it(own):
    given = rope(scaling=own, max_position_embeddings=TRAINED * 8)
    with pytest.raises(ValueError, match="--trained N"):
        extend(given, TO * 8)
    plan = extend(given, TO, trained=TRAINED)
    assert (plan.trained, plan.trained_from) == (TRAINED, "given")


def test_dynamic_scaling_has_its_context_as_its_trained_length():
    plan = extend(rope(scaling=Dynamic(factor=2.0)), TO)
    assert plan.trained == TRAINED
    assert plan.method("dynamic").rope.scaling == Dynamic(factor=STRETCH)
    assert plan.recommendation.method == "dynamic"


def test_proportional_takes_linear_alone_and_says_why():
    own = rope(scaling=Proportional(partial_rotary_factor=0.25))
    plan = extend(own, TO)
    assert [method.name for method in plan.methods] == ["untouched", "linear"]
    linear = plan.method("linear")
    assert linear.rope.scaling == Proportional(partial_rotary_factor=0.25, factor=STRETCH)
    assert (linear.stretched, linear.divisors[12:]) == (tuple(range(12)), (None,) * 36)
    assert {refusal.name for refusal in plan.refused} == {"ntk", "dynamic", "yarn", "longrope", "llama3"}
    assert plan.bases.rules == ()


def test_a_rope_of_one_pair_has_no_base_to_raise():
    plan = extend(Rope(head_dim=2, rope_theta=10000.0, pairing="half", max_position_embeddings=64), 128)
    assert {refusal.name for refusal in plan.refused} == {"ntk", "dynamic", "longrope"}
