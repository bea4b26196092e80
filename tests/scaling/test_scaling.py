"""What every scaling must hold: no change at factor 1, JSON without loss, and one error class for bad values."""

import json
from dataclasses import MISSING, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import RopewalkError
from ropewalk.scaling import (
    SCALINGS,
    Default,
    Dynamic,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    Yarn,
    scaling_from_dict,
    scaling_to_dict,
)

THETAS = st.floats(0.01, 1e9)
WIDTHS = st.sampled_from([4, 6, 10, 48, 96])
FACTORS = st.floats(0.01, 1000)
LENGTHS = st.integers(2, 2**20)
EXAMPLES = [
    Default(),
    Linear(factor=3.5),
    Ntk(factor=2.5, method="vllm"),
    Dynamic(factor=4.0),
    Yarn(factor=12.0, original_max_position_embeddings=6144, beta_fast=27.0, truncate=False, mscale=0.7,
         mscale_all_dim=0.4, scale_softmax=True, attention_factor=1.25),
    LongRope(short_factor=(1.0, 1.1), long_factor=(2.0, 3.3), original_max_position_embeddings=64, factor=2.0,
             attention_factor=1.5, short_mscale=1.1, long_mscale=1.2),
    Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192),
    Proportional(partial_rotary_factor=0.3, factor=4.0),
]  # fmt: skip
IDS = [scaling.rope_type for scaling in EXAMPLES]


def test_the_examples_cover_every_type():
    assert [type(scaling) for scaling in EXAMPLES] == list(SCALINGS.values())


@given(theta=THETAS, width=WIDTHS, original=LENGTHS, length=LENGTHS, data=st.data())
@settings(max_examples=60)
def test_factor_1_changes_nothing_to_the_last_bit(theta, width, original, length, data):
    plain = Default().frequencies(theta, width)
    ones = (1.0,) * (width // 2)
    low, high = sorted(data.draw(st.tuples(FACTORS, FACTORS)))
    same = [
        Linear(factor=1),
        *(Ntk(factor=1, method=method) for method in ("aware", "vllm", "base")),
        Yarn(factor=1, original_max_position_embeddings=original, truncate=data.draw(st.booleans()), mscale=0.7,
             mscale_all_dim=0.4, scale_softmax=True),
        Llama3(factor=1, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=original),
        LongRope(short_factor=ones, long_factor=ones, factor=1, original_max_position_embeddings=original),
        Proportional(factor=1),
    ]  # fmt: skip
    for scaling in same:
        found = scaling.frequencies(theta, width, length=length, max_position_embeddings=original)
        assert found.inv_freq.tobytes() == plain.inv_freq.tobytes(), scaling
        assert found[1:] == (1.0, 1.0), scaling
    at_or_below = data.draw(st.one_of(st.none(), st.integers(0, original)))
    dynamic = Dynamic(factor=low).frequencies(theta, width, length=at_or_below, max_position_embeddings=original)
    assert dynamic.inv_freq.tobytes() == plain.inv_freq.tobytes()


@given(theta=st.floats(1.1, 1e9), width=WIDTHS, factor=st.floats(1, 1000), original=LENGTHS)
@settings(max_examples=60)
def test_divisors_of_yarn_and_llama3_lie_between_1_and_the_factor_and_rise(theta, width, factor, original):
    plain = Default().frequencies(theta, width).inv_freq
    llama3 = Llama3(factor=factor, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=original)
    found = [llama3.frequencies(theta, width).inv_freq]
    try:
        yarn = Yarn(factor=factor, original_max_position_embeddings=original)
        found.append(yarn.frequencies(theta, width).inv_freq)
    except RopewalkError as error:
        assert "is empty" in str(error)
    for inv_freq in found:
        divisors = plain / inv_freq
        assert divisors.min() > 1 - 1e-9
        assert divisors.max() < factor * (1 + 1e-9)
        assert (divisors[1:] > divisors[:-1] * (1 - 1e-9)).all()


@pytest.mark.parametrize("scaling", EXAMPLES, ids=IDS)
def test_json_round_trip_loses_nothing(scaling):
    again = scaling_from_dict(json.loads(json.dumps(scaling_to_dict(scaling))))
    assert again == scaling
    assert hash(again) == hash(scaling)


@pytest.mark.parametrize("scaling", EXAMPLES, ids=IDS)
def test_only_dynamic_and_longrope_look_at_the_length(scaling):
    found = [scaling.frequencies(1e4, 4, length=n, max_position_embeddings=64) for n in (8, 640)]
    differ = not np.array_equal(found[0].inv_freq, found[1].inv_freq)
    assert differ == scaling.length_dependent == (scaling.rope_type in ("dynamic", "longrope"))


@pytest.mark.parametrize("scaling", EXAMPLES, ids=IDS)
def test_unknown_and_missing_keys_are_named(scaling):
    data = scaling_to_dict(scaling)
    with pytest.raises(RopewalkError, match=rf"{scaling.rope_type} scaling has unknown keys 'note'; known are"):
        scaling_from_dict({**data, "note": 1})
    for entry in fields(scaling):
        less = {key: value for key, value in data.items() if key != entry.name}
        if entry.default is MISSING:
            with pytest.raises(RopewalkError, match=rf"scaling lacks {entry.name}\. Add it"):
                scaling_from_dict(less)
        else:
            assert getattr(scaling_from_dict(less), entry.name) == entry.default


@pytest.mark.parametrize(
    "data", [None, 3, "yarn", [], {}, {"rope_type": None}, {"rope_type": "spiral"}, {"rope_type": []}]
)
def test_f140_an_unknown_type_lists_the_known_ones(data):
    with pytest.raises(
        RopewalkError, match="must be one of default, linear, ntk, dynamic, yarn, longrope, llama3, prop"
    ):
        scaling_from_dict(data)


JUNK = st.one_of(
    st.none(), st.booleans(), st.text(max_size=5), st.integers(-(2**70), 2**70), st.just(10**400),
    st.floats(allow_nan=True, allow_infinity=True), st.lists(st.floats(), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@given(scaling=st.sampled_from(EXAMPLES), theta=st.floats(1e-300, 1e300), width=st.integers(2, 12), data=st.data())
@settings(max_examples=200)
def test_any_value_in_any_field_gives_finite_frequencies_or_a_ropewalk_error(scaling, theta, width, data):
    given_fields = scaling_to_dict(scaling)
    for name in data.draw(st.sets(st.sampled_from([entry.name for entry in fields(scaling)] or ["rope_type"]))):
        given_fields[name] = data.draw(JUNK)
    try:
        found = scaling_from_dict(given_fields).frequencies(
            theta, width, length=data.draw(LENGTHS), max_position_embeddings=data.draw(st.one_of(st.none(), LENGTHS))
        )
    except RopewalkError as error:
        assert len(str(error)) < 600
        return
    assert np.isfinite(found.inv_freq).all()
    assert 0 < found.cos_sin_factor < np.inf
    assert 0 < found.softmax_factor < np.inf


@pytest.mark.parametrize("scaling", EXAMPLES[1:4], ids=IDS[1:4])
@pytest.mark.parametrize("factor", [0, -2, float("nan"), float("inf"), "3", None, True, 10**400, [2]])
def test_a_factor_that_is_no_number_above_0_is_named(scaling, factor):
    with pytest.raises(RopewalkError, match=rf"{scaling.rope_type}: factor must be a finite number above 0, got"):
        type(scaling)(factor=factor)
