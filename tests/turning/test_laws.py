"""Laws of turning, for shapes, ropes and positions that hypothesis picks, on every road."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import Rope, rotate, rotate_qk
from ropewalk.scaling import Default, Linear, Llama3, LongRope, Ntk, Proportional, Yarn

from ._cases import DTYPES, ROADS, assert_turned, half_ulp, open_road, tolerance

on_every_road = pytest.mark.parametrize("name", ROADS)
WHOLE = st.integers(-(10**7), 10**7)
POSITIONS = st.one_of(WHOLE, st.floats(-1e5, 1e5))
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def scalings(draw, pairs, theta):
    kind = draw(st.sampled_from(["default", "linear", "ntk", "yarn", "longrope", "llama3"]))
    factor = draw(st.floats(1.0, 40.0))
    if kind == "linear":
        return Linear(factor=factor)
    if kind == "ntk" and pairs > 1:
        return Ntk(factor=factor)
    if kind == "yarn" and theta >= 500:
        return Yarn(factor=factor, original_max_position_embeddings=4096)
    if kind == "longrope":
        lists = [draw(st.lists(st.floats(1, 60), min_size=pairs, max_size=pairs)) for _ in range(2)]
        return LongRope(short_factor=lists[0], long_factor=lists[1], original_max_position_embeddings=64, factor=factor)
    if kind == "llama3":
        return Llama3(factor=factor, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
    return Default()


@st.composite
def ropes(draw):
    rotary_dim, theta = 2 * draw(st.integers(1, 40)), draw(st.sampled_from([2.0, 500.0, 1e4, 5e5, 1e7]))
    start, rest = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    return Rope(
        head_dim=start + rotary_dim + rest,
        rotary_dim=rotary_dim,
        rotary_start=start,
        rope_theta=theta,
        pairing=draw(st.sampled_from(["half", "interleaved"])),
        direction=draw(st.sampled_from([1, -1])),
        scaling=draw(scalings(rotary_dim // 2, theta)),
    )


def length_of(description):
    return 65 if description.length_dependent else None


def slack(description, *ids):
    """How far float64 angles of these positions may be off, in radians, times a few."""
    fastest = abs(description.pairs(length_of(description)).inv_freq).max()
    return 8 * 2.0**-52 * fastest * sum(abs(one) for one in ids)


@on_every_road
@given(data=st.data())
@settings(max_examples=60)
def test_any_rope_any_shape_any_view(name, data):
    description = data.draw(ropes())
    dtype = data.draw(st.sampled_from(DTYPES))
    batch, seq, heads = (data.draw(st.integers(low, 5)) for low in (1, 1, 0))
    rng = np.random.default_rng(data.draw(SEEDS))
    per_row = data.draw(st.booleans())
    ids = np.array(data.draw(st.lists(POSITIONS, min_size=seq * batch, max_size=seq * batch))).reshape(batch, seq)
    ids = ids if per_row else ids[0]
    inverse, length = data.draw(st.booleans()), length_of(description)
    lead, step, wide = (data.draw(st.integers(low, 3)) for low in (0, 1, 0))
    order = data.draw(st.permutations(range(4)))
    shape = (batch, seq, heads, description.head_dim)
    with open_road(name) as road:
        # a buffer whose axes lie in any order, cut with an offset and steps
        sizes = [lead + step * shape[axis] + wide for axis in order]
        buffer = road.give(rng.standard_normal(sizes), dtype)
        x = buffer.transpose(*np.argsort(order)) if name.startswith("numpy") else buffer.permute(*np.argsort(order))
        x = x[tuple(slice(lead, lead + step * size, step) for size in shape)]
        assert tuple(x.shape) == shape
        found = rotate(x, road.ids(ids), description, inverse=inverse, length=length)
        assert_turned(road.take(found), road.take(x), ids, description, dtype, inverse=inverse, length=length)


@on_every_road
@given(width=st.integers(1, 70).map(lambda n: 2 * n), m=POSITIONS, seed=SEEDS, dtype=st.sampled_from(DTYPES))
@settings(max_examples=30)
def test_half_is_interleaved_on_permuted_channels(name, width, m, seed, dtype):
    order = [*range(0, width, 2), *range(1, width, 2)]
    ids, values = np.array([m, 3 - m]), np.random.default_rng(seed).standard_normal((2, 3, width))
    half, pairs = (Rope(head_dim=width, rope_theta=1e4, pairing=pairing) for pairing in ("half", "interleaved"))
    with open_road(name) as road:
        x = road.give(values, dtype)
        straight = road.take(rotate(x, road.ids(ids), pairs))[..., order]
        permuted = road.take(rotate(x[..., order], road.ids(ids), half))
        allowed = 2 * tolerance(road.take(x[..., order]), ids, half, dtype) + 2 * half_ulp(straight, dtype)
        assert (abs(straight - permuted) <= allowed).all()


@on_every_road
@given(description=ropes(), m=POSITIONS, n=POSITIONS, seed=SEEDS)
@settings(max_examples=30)
def test_turning_by_m_then_n_is_turning_by_their_sum(name, description, m, n, seed):
    x = np.random.default_rng(seed).standard_normal((1, 2, description.head_dim))
    length, table = length_of(description), description.pairs(length_of(description))
    with open_road(name) as road:

        def turned(one, position):
            return rotate(one, road.ids(np.array([position])), description, length=length)

        twice = road.take(turned(turned(road.give(x, "float64"), m), n))
        once = road.take(turned(road.give(x, "float64"), m + n)).copy()
    once[..., [*table.first, *table.second]] *= table.cos_sin_factor  # g applies at each turning
    bound = 10 * table.cos_sin_factor**2 * (1e-15 + slack(description, m, n, m + n))
    assert abs(twice - once).max() <= bound * abs(x).max()


@on_every_road
@given(description=ropes(), m=POSITIONS, seed=SEEDS, dtype=st.sampled_from(["float32", "float64"]))
@settings(max_examples=30)
def test_the_inverse_undoes_turning_also_with_a_magnitude(name, description, m, seed, dtype):
    values = np.random.default_rng(seed).standard_normal((1, 2, description.head_dim))
    length, unit = length_of(description), {"float32": 2.0**-24, "float64": 2.0**-53}[dtype]
    with open_road(name) as road:
        x, ids = road.give(values, dtype), road.ids(np.array([m]))
        there = rotate(x, ids, description, length=length)
        back = rotate(there, ids, description, inverse=True, length=length)
        assert abs(road.take(back) - road.take(x)).max() <= 16 * unit * abs(values).max()
        other_way = rotate(rotate(x, ids, description, inverse=True, length=length), ids, description, length=length)
        assert abs(road.take(other_way) - road.take(x)).max() <= 16 * unit * abs(values).max()


@on_every_road
@given(description=ropes(), m=POSITIONS, n=POSITIONS, shift=st.integers(-(10**6), 10**6), seed=SEEDS)
@settings(max_examples=30)
def test_scores_depend_on_the_distance_alone(name, description, m, n, shift, seed):
    rng, length = np.random.default_rng(seed), length_of(description)
    q, k = rng.standard_normal((1, 6, description.head_dim)), rng.standard_normal((1, 2, description.head_dim))
    g = description.pairs(length).cos_sin_factor
    scores = []
    with open_road(name) as road:
        for moved in (0, shift):
            turned = [
                road.take(rotate(road.give(x, "float64"), road.ids(np.array([p + moved])), description, length=length))
                for x, p in ((q, m), (k, n))
            ]
            scores.append(turned[0][0] @ turned[1][0].T)
    bound = max(1, g * g) * description.head_dim * abs(q).max() * abs(k).max()
    assert abs(scores[0] - scores[1]).max() <= bound * (1e-14 + slack(description, m, n, m + shift, n + shift))


@on_every_road
@given(description=ropes(), m=POSITIONS, seed=SEEDS)
@settings(max_examples=30)
def test_each_pair_keeps_its_length_up_to_the_magnitude(name, description, m, seed):
    table = description.pairs(length_of(description))
    with open_road(name) as road:
        x = road.give(np.random.default_rng(seed).standard_normal((1, 2, description.head_dim)))
        found, x = (
            road.take(one)
            for one in (rotate(x, road.ids(np.array([m])), description, length=length_of(description)), x)
        )
    before = table.cos_sin_factor * np.hypot(x[..., table.first], x[..., table.second])
    after = np.hypot(found[..., table.first], found[..., table.second])
    assert (abs(after - before) <= 6 * 2.0**-24 * before).all()


@on_every_road
@given(description=ropes(), ids=st.lists(WHOLE, min_size=3, max_size=3), seed=SEEDS, scale=st.sampled_from([-4, 0.5]))
@settings(max_examples=20)
def test_turning_is_linear(name, description, ids, seed, scale):
    x, y = np.random.default_rng(seed).standard_normal((2, 3, 2, description.head_dim))
    with open_road(name) as road:

        def turned(values):
            given = road.give(values, "float64")
            return road.take(rotate(given, road.ids(np.array(ids)), description, length=length_of(description)))

        together = turned(scale * x + y)
        apart = scale * turned(x) + turned(y)
    g = description.pairs(length_of(description)).cos_sin_factor
    assert abs(together - apart).max() <= 1e-14 * max(1, g) * (abs(x).max() + abs(y).max()) * 4


@on_every_road
@given(description=ropes(), ids=st.lists(POSITIONS, min_size=4, max_size=4), seed=SEEDS)
@settings(max_examples=20)
def test_backward_positions_are_the_other_direction(name, description, ids, seed):
    values = np.random.default_rng(seed).standard_normal((4, 2, description.head_dim))
    mirrored = description.replace(direction=-description.direction)
    with open_road(name) as road:
        x, length = road.give(values), length_of(description)
        found = road.take(rotate(x, road.ids(np.array(ids)), description, length=length))
        other = road.take(rotate(x, road.ids(-np.array(ids)), mirrored, length=length))
        allowed = 2 * tolerance(road.take(x), np.array(ids), description, "float32", length=length)
        assert (abs(found - other) <= allowed).all()


@on_every_road
@given(seed=SEEDS, kv=st.integers(1, 4), group=st.integers(1, 8), seq=st.integers(1, 40), dtype=st.sampled_from(DTYPES))
@settings(max_examples=20)
def test_heads_tokens_and_rows_turn_alone_as_together(name, seed, kv, group, seq, dtype):
    rng, description = np.random.default_rng(seed), Rope(head_dim=24, rope_theta=500, pairing="half", rotary_dim=14)
    ids = rng.integers(-(10**6), 10**6, (2, seq))
    with open_road(name) as road:
        q, k = (road.give(rng.standard_normal((2, seq, heads, 24)), dtype) for heads in (kv * group, kv))
        both = rotate_qk(q, k, road.ids(ids), description)
        b, s, h = rng.integers(2), rng.integers(seq), rng.integers(kv)
        for found, x in zip(both, (q, k), strict=True):
            alone = rotate(x[b : b + 1, s : s + 1, h : h + 1], road.ids(ids[b : b + 1, s : s + 1]), description)
            assert road.bits(alone) == road.bits(found[b : b + 1, s : s + 1, h : h + 1])


@given(factor=st.floats(1e-3, 1), pairs=st.integers(2, 40), seed=SEEDS)
@settings(max_examples=20)
def test_proportional_turns_its_first_pairs_as_an_ordinary_rope_of_the_whole_head(factor, pairs, seed):
    width = 2 * pairs
    part = Rope(head_dim=width, rope_theta=1e4, pairing="half", scaling=Proportional(partial_rotary_factor=factor))
    whole = Rope(head_dim=width, rope_theta=1e4, pairing="half")
    x, turning = np.random.default_rng(seed).standard_normal((3, 2, width)), int(factor * width // 2)
    found, full = (rotate(x.astype(np.float32), [3, 1500, 70_001], one) for one in (part, whole))
    for start in (0, pairs):
        assert (found[..., start : start + turning] == full[..., start : start + turning]).all()
        still = np.s_[..., start + turning : start + pairs]
        assert (found[still] == x.astype(np.float32)[still]).all()
