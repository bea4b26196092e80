"""Which base supports which context: the published numbers, and sums written out with Python's math."""

import math

import pytest

from ropewalk import Rope
from ropewalk.planning import base_rules, extend, read_bases
from ropewalk.planning.bases import first_negative

LLAMA2 = Rope(head_dim=128, rope_theta=10000.0, pairing="half", max_position_embeddings=4096)


def rules(**given):
    return {rule.name: rule for rule in base_rules(LLAMA2, 4096, **given).rules}


def quick(**given):
    """The first two rules, without the search of the third."""
    return rules(**given, whole_head=False)


def similarity(theta, width, distance):
    return math.fsum(math.cos(distance * theta ** (-2 * i / width)) for i in range(width // 2))


@pytest.mark.parametrize("to", [8192, 16384, 131072])
def test_turns_keeps_the_turns_of_the_slowest_pair(to):
    rule = quick(to=to)["turns"]
    slowest = 10000.0 ** (-126 / 128)
    assert to * rule.theta ** (-126 / 128) == pytest.approx(4096 * slowest)


@pytest.mark.parametrize("to", [8192, 65536])
def test_turns_leads_from_a_context_to_a_base_and_back(to):
    theta = quick(to=to)["turns"].theta
    assert quick(theta=theta)["turns"].context == to


def test_critical_finds_the_published_92_of_128_channels_for_llama_2():
    """Liu et al. 2023, lemma 1: the critical dimension of LLaMA 2 (d 128, trained at 4096) is 92."""
    rule = quick(to=16384)["critical"]
    assert "92 of 128 channels" in rule.words
    # theorem 3: T_extra = 2π·β^(92/128), and the critical base 10000^(log_(T_train/2π)(T_tune/2π))
    assert 2 * math.pi * rule.theta ** (92 / 128) == pytest.approx(16384)
    tuned = 10000 ** (math.log(16384 / (2 * math.pi)) / math.log(4096 / (2 * math.pi)))
    assert f"a base above {round(tuned)}" in rule.words


def test_critical_bounds_a_base_of_a_million_where_the_published_perplexity_breaks():
    """The authors' table for base 1e6: perplexity 7.07 at 128K, 76.82 at 256K."""
    context = rules(theta=1e6)["critical"].context
    assert context == math.floor(2 * math.pi * 1e6 ** (92 / 128))
    assert 120_000 < context < 256_000


def test_critical_leaves_the_trained_base_at_the_trained_length_and_smaller_ones_unbounded():
    assert rules()["critical"].context == 4096
    smaller = rules(theta=500.0)["critical"]
    assert smaller.context is None
    assert "another law" in smaller.words


def test_critical_has_no_bound_where_every_pair_turned():
    rope = Rope(head_dim=128, rope_theta=100.0, pairing="half", max_position_embeddings=4096)
    rule = next(rule for rule in base_rules(rope, 4096, to=8192).rules if rule.name == "critical")
    assert (rule.theta, rule.context) == (None, None)


@pytest.mark.parametrize(("theta", "width"), [(10000.0, 128), (3000.0, 64), (500.0, 10)])
def test_similarity_ends_at_the_first_distance_with_a_negative_sum(theta, width):
    end = first_negative(theta, width, 4096)
    assert all(similarity(theta, width, m) >= 0 for m in range(end))
    assert similarity(theta, width, end) < 0


@pytest.mark.parametrize("limit", [1, 255, 256, 257, 1706, 1707, 1708])
def test_similarity_looks_no_further_than_its_limit(limit):
    assert first_negative(10000.0, 128, limit) == min(limit, 1707)


@pytest.mark.parametrize(("context", "published"), [(1024, 4.3e3), (4096, 2.7e4), (8192, 8.4e4)])
def test_similarity_meets_the_published_lower_bounds(context, published):
    """Men et al. 2024, table 2: a base that holds at the printed two digits, none in the 4 % below them."""
    step = published / 1000
    holding = [base for k in range(-55, 16) if first_negative(base := published + k * step, 128, context) == context]
    assert holding
    assert holding[0] == pytest.approx(published, rel=0.015)


def test_similarity_finds_a_base_that_holds_for_a_context():
    rule = rules(to=2048)["similarity"]
    assert first_negative(rule.theta, 128, 2048) == 2048
    assert "steps of 2 %" in rule.words


def test_similarity_says_nothing_where_channels_keep_still():
    partial = Rope(head_dim=80, rotary_dim=32, rope_theta=10000.0, pairing="half", max_position_embeddings=2048)
    for given in (extend(partial, 4096).bases, read_bases("deepseek-v3")):
        rule = given.rules[2]
        assert (rule.name, rule.theta, rule.context) == ("similarity", None, None)
        assert "keep still" in rule.words


def test_similarity_is_not_searched_for_beyond_its_limit():
    rule = rules(to=2**18 + 1)["similarity"]
    assert rule.theta is None
    assert "no base is searched for" in rule.words


@pytest.mark.parametrize("theta", [1.0, 0.0, -5.0, math.nan, math.inf, "1e6", True])
def test_a_base_that_is_none_is_refused(theta):
    with pytest.raises(ValueError, match="theta must be a finite number above 1"):
        read_bases(LLAMA2, theta=theta)


def test_a_huge_base_gives_no_infinite_context():
    assert [rule.context for rule in read_bases(LLAMA2, theta=1e308).rules] == [None, None, None]


def test_bases_write_themselves_as_json():
    data = read_bases(LLAMA2, theta=1e6, to=8192).to_dict()
    assert data["schema"] == "ropewalk.bases/1"
    assert (data["trained"], data["to"], data["theta"]) == (4096, 8192, 1e6)
    assert [rule["name"] for rule in data["rules"]] == ["turns", "critical", "similarity"]
    assert all(rule["source"] and rule["evidence"] for rule in data["rules"])
