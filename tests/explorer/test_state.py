"""State: the URL says all that a page shows, in one canonical form, and no bad value gets past it silently."""

from dataclasses import fields, replace
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ropewalk import preset_names
from ropewalk.explorer.state import (
    HIDEABLE,
    MAX_DIM,
    MAX_POSITION,
    MAX_VECTOR_TEXT,
    SCALINGS,
    Side,
    State,
    number_text,
)

# the canonical order, typed in: the description, then the page, then the second description
SIDE = (
    "model part layer d base pairing scaling factor original length beta_fast beta_slow truncate low high fraction"
).split()
WHOLE = "pair m n s window q k rows embed hide".split()

numbers = st.floats(-1e6, 1e6)
positions = st.integers(-MAX_POSITION, MAX_POSITION)
vectors = st.lists(numbers, min_size=1, max_size=20).map(tuple)
ratios = st.floats(1e-3, 1e6)
sides = st.builds(
    Side,
    model=st.sampled_from(["", "start", *preset_names()]),
    part=st.text("abcz09_-.", max_size=40),
    layer=st.integers(0, 9999),
    d=st.integers(2, MAX_DIM),
    base=st.floats(1e-3, 1e15),
    pairing=st.sampled_from(["interleaved", "half"]),
    scaling=st.sampled_from(SCALINGS),
    factor=ratios,
    original=st.integers(1, MAX_POSITION),
    length=st.integers(0, MAX_POSITION),
    beta_fast=ratios,
    beta_slow=ratios,
    truncate=st.booleans(),
    low=ratios,
    high=ratios,
    fraction=st.floats(1e-3, 1.0),
)
states = st.builds(
    State,
    a=sides,
    b=st.none() | sides,
    pair=st.integers(0, MAX_DIM // 2),
    m=positions,
    n=positions,
    s=positions,
    window=st.integers(1, MAX_POSITION),
    q=vectors,
    k=vectors,
    rows=st.sampled_from(["some", "all"]),
    embed=st.booleans(),
    hide=st.lists(st.sampled_from(HIDEABLE), unique=True).map(tuple),
)


def names(query):
    return [name for name, _ in parse_qsl(query, keep_blank_values=True)]


@given(states)
@example(State(b=Side()))
@example(State(a=Side(model="llama-3.1-8b"), b=Side()))
@example(State(a=Side(d=64), b=Side(d=64)))
@example(State(q=(-0.0, 1e-300, 1e6), k=(0.1,)))
def test_a_state_comes_back_from_its_own_query(state):
    assert State.parse(state.query()) == (state, ())


@given(states)
def test_a_query_is_in_canonical_order_and_leaves_defaults_out(state):
    query = state.query()
    order = [*SIDE, *WHOLE, *(f"b.{name}" for name in SIDE)]
    assert names(query) == [name for name in order if name in names(query)]
    for name in SIDE:
        assert (name in names(query)) == (getattr(state.a, name) != getattr(Side(), name))
    for name in WHOLE:
        assert (name in names(query)) == (getattr(state, name) != getattr(State(), name))
    assert State.parse(query)[0].query() == query


def test_the_default_page_has_no_query():
    assert State().query() == ""
    assert State().link() == "?"
    assert State.parse("") == (State(), ())
    assert State.parse("m=7&n=2&d=8&q=1,0,0.5,0.5,1,-1,0.25,0")[0].query() == ""


def test_any_order_and_spelling_of_a_query_gives_the_same_one():
    given = "window=08192&m=+3&d=128&base=1e4&q=1%2C%202;3&b.base=5e5&pair=063"
    state, messages = State.parse(given.replace("+", "%2B"))
    assert messages == ()
    assert state.query() == "d=128&pair=63&m=3&window=8192&q=1,2,3&b.base=500000"


@given(states, st.sampled_from(["pair", "m", "window", "rows"]))
def test_links_are_the_states_with_one_value_changed(state, name):
    values = {"pair": [0, 5, 512], "m": [-3, 7], "window": [2048, 9], "rows": ["some", "all"]}[name]
    assert state.links(name, values) == [state.link(**{name: value}) for value in values]


BAD = [
    ("d", "1", "whole"),
    ("d", "1025", "whole"),
    ("d", "8.5", "whole"),
    ("d", "", "whole"),
    ("d", "eight", "whole"),
    ("d", "9" * 5000, "whole"),
    ("base", "0", "number"),
    ("base", "-1", "number"),
    ("base", "nan", "number"),
    ("base", "inf", "number"),
    ("base", "1e16", "number"),
    ("base", "1" + "0" * 5000, "number"),
    ("pairing", "hybrid_tile", "choice"),
    ("scaling", "Yarn", "choice"),
    ("scaling", "longrope", "choice"),
    ("factor", "0", "number"),
    ("original", "0", "whole"),
    ("length", "-1", "whole"),
    ("beta_fast", "x", "number"),
    ("beta_slow", "-1", "number"),
    ("truncate", "yes", "choice"),
    ("low", "", "number"),
    ("high", "1e7", "number"),
    ("fraction", "1.5", "number"),
    ("model", "../../etc/passwd", "model"),
    ("model", "/etc/passwd", "model"),
    ("model", "no-such-model", "model"),
    ("part", "a b", "name"),
    ("part", "x" * 41, "name"),
    ("layer", "-1", "whole"),
    ("layer", "10000", "whole"),
    ("pair", "-1", "whole"),
    ("pair", "513", "whole"),
    ("m", "1000000001", "whole"),
    ("n", "-1000000001", "whole"),
    ("s", "1e3", "whole"),
    ("window", "0", "whole"),
    ("q", "", "vector"),
    ("q", "1,two", "vector"),
    ("q", "1,nan", "vector"),
    ("q", "1,inf", "vector"),
    ("q", "1e7", "vector"),
    ("k", ",".join("1" * 1025), "vector"),
    ("k", "1" * (MAX_VECTOR_TEXT + 1), "vector"),
    ("rows", "many", "choice"),
    ("embed", "2", "choice"),
    ("hide", "a,everything", "choice"),
    ("b.d", "0", "whole"),
    ("b.base", "x", "number"),
    ("b.model", "x", "model"),
    ("colour", "red", "unknown"),
    ("b.m", "1", "unknown"),
    ("M", "1", "unknown"),
    ("", "1", "unknown"),
    ("<script>", "1", "unknown"),
]


@pytest.mark.parametrize(("name", "text", "kind"), BAD)
def test_a_bad_value_gives_a_message_and_keeps_the_rest(name, text, kind):
    state, messages = State.parse(f"window=4096&{quote(name)}={quote(text)}&pair=2")
    (message,) = messages
    assert (message.parameter, message.kind) == (name, kind)
    assert message.given == text[:40]
    assert state == State(window=4096, pair=2)


def test_every_bad_value_gives_a_message_of_its_own():
    state, messages = State.parse("m=x&n=y&zzz=1&d=64")
    assert [message.parameter for message in messages] == ["m", "n", "zzz"]
    assert state == State(a=Side(d=64))


def test_a_range_is_named_in_the_message():
    message = State.parse("d=1")[1][0]
    assert (message.low, message.high) == (2, MAX_DIM)
    assert State.parse("hide=x")[1][0].choices == HIDEABLE
    assert set(message.to_dict()) == {item.name for item in fields(message)}


def test_too_many_parameters_are_refused_at_once():
    state, messages = State.parse("&".join(f"x{i}=1" for i in range(101)))
    assert state == State()
    assert [message.kind for message in messages] == ["too-many"]


@given(st.text(max_size=200))
@example("m=%ff%fe&d=%00")
@example("&&&;;=&=&")
@example("q=" + "1," * 40_000)
@example("m=١٢")
def test_no_text_breaks_the_parser(text):
    state, _ = State.parse(text)
    assert State.parse(state.query()) == (state, ())


def test_the_second_description_starts_from_the_first():
    state, messages = State.parse("d=128&base=500000&b.scaling=yarn&b.factor=8")
    assert messages == ()
    assert state.b == replace(state.a, scaling="yarn", factor=8.0)
    assert state.a == Side(d=128, base=500000.0)


def test_a_second_description_equal_to_the_first_stays_one():
    state, _ = State.parse("d=64&b.d=64")
    assert state.b == state.a == Side(d=64)
    assert State.parse(state.query())[0] == state


def test_swapping_twice_gives_the_state_again():
    state, _ = State.parse("d=128&b.scaling=yarn&b.d=64")
    assert state.swapped().a == state.b
    assert state.swapped().swapped() == state
    assert State().swapped() == State()


def test_vectors_are_cycled_when_longer_cut_when_shorter_and_restored():
    state = State(q=(1.0, 2.0, 3.0), k=(4.0,))
    assert state.vectors(7) == ((1, 2, 3, 1, 2, 3, 1), (4,) * 7)
    assert state.vectors(2) == ((1, 2), (4, 4))
    there = State.parse(state.change(d=2).query())[0]
    back = State.parse(there.change(d=3).query())[0]
    assert back.vectors(3)[0] == (1, 2, 3)


def test_the_default_vectors_are_the_lessons_at_8_and_go_on_from_the_start():
    q, k = State().vectors(10)
    assert q == (1, 0, 0.5, 0.5, 1, -1, 0.25, 0, 1, 0)
    assert k == (0, 1, 1, 0, 0.5, 0.5, 0, 0.25, 0, 1)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_written_so_that_it_reads_back_the_same(value):
    text = number_text(value)
    assert float(text) == value
    assert not text.endswith(".0")


def test_caps():
    assert State.parse(f"d={MAX_DIM}")[1] == ()
    assert State.parse("q=" + ",".join(["0.25"] * MAX_DIM))[1] == ()
    assert MAX_DIM == 1024


def test_to_dict_is_plain_and_complete():
    data = State(b=Side(d=4)).to_dict()
    assert set(data) == {*SIDE, *WHOLE, "b"}
    assert set(data["b"]) == set(SIDE)
    assert data["q"] == [1, 0, 0.5, 0.5, 1, -1, 0.25, 0]
