"""rotate by the length of the sequence (dynamic NTK, LongRoPE), and by several position axes."""

import math

import numpy as np
import pytest

from ropewalk import Ladders, Sections, rotate, rotate_qk
from ropewalk.scaling import Dynamic, LongRope

from ._cases import ROPES, assert_turned, random, rope


def by_hand(x, position, inv_freq, g=1.0):
    """One half-split vector turned in Python's math."""
    half, out = len(x) // 2, [0.0] * len(x)
    for i, w in enumerate(inv_freq):
        cos, sin = g * math.cos(position * w), g * math.sin(position * w)
        out[i], out[i + half] = x[i] * cos - x[i + half] * sin, x[i + half] * cos + x[i] * sin
    return out


F218 = rope(96, theta=5e4, scaling=Dynamic(factor=3), max_position_embeddings=3072)
F223 = rope(
    80,
    scaling=LongRope(short_factor=[1.0] * 40, long_factor=[2.5] * 40, original_max_position_embeddings=3072),
    max_position_embeddings=49_152,
)
BASES = {10: 50_000, 3072: 50_000, 3073: 50_049.86754, 4500: 121_971.6882, 7000: 250_042.6554, 15_000: 667_504.9284}


def test_f218_dynamic_takes_the_base_of_its_length_and_forgets_it(road):
    x = road.give(random(1, 1, 1, 96))
    for length in (*BASES, 10):  # F321: long, then short
        found = road.take(rotate(x, road.ids([999]), F218, length=length)).ravel()
        base = BASES[length]
        expected = by_hand(road.take(x).ravel().tolist(), 999, [base ** (-i / 48) for i in range(48)])
        assert found == pytest.approx(expected, abs=2e-6)


def test_f223_longrope_switches_one_token_past_the_original_length(road):
    x = road.give(random(1, 1, 1, 80))
    for length, divisor in ((3072, 1.0), (3073, 2.5), (10, 1.0)):
        found = road.take(rotate(x, road.ids([7]), F223, length=length)).ravel()
        inv_freq = [1e4 ** (-i / 40) / divisor for i in range(40)]
        expected = by_hand(road.take(x).ravel().tolist(), 7, inv_freq, g=1.159859982)
        assert found == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("description", [F218, F223], ids=["dynamic", "longrope"])
def test_f323_each_row_has_its_own_length(road, description, layout):
    lengths = [10, 7000, 3072, 3073]
    x = road.give(random(4, 3, 2, description.head_dim))
    for ids in (np.array([1, 3000, 6999]), np.array([[1, 2, 9], [1, 50, 6999], [3071, 0, 5], [3072, 7, 7]])):
        for inverse in (False, True):
            placed = x if layout == "bshd" else x.swapaxes(1, 2)
            found = road.take(
                rotate(placed, road.ids(ids), description, length=lengths, inverse=inverse, layout=layout)
            )
            found = found if layout == "bshd" else found.swapaxes(1, 2)
            for row, length in enumerate(lengths):
                row_ids = ids if ids.ndim == 1 else ids[row]
                assert_turned(
                    found[row], road.take(x)[row], row_ids, description, "float32", inverse=inverse, length=length
                )


def test_lengths_of_rows_may_be_an_array_and_go_to_queries_and_keys(road):
    q, k, ids = road.give(random(2, 3, 6, 96)), road.give(random(2, 3, 2, 96, seed=6)), np.array([0, 3000, 6999])
    listed = rotate_qk(q, k, road.ids(ids), F218, length=[7000, 10])
    for given in (np.array([7000, 10]), road.ids(np.array([7000, 10])), (7000, 10)):
        for one, other in zip(rotate_qk(q, k, road.ids(ids), F218, length=given), listed, strict=True):
            assert road.bits(one) == road.bits(other)
    assert_turned(road.take(listed[1])[0], road.take(k)[0], ids, F218, "float32", length=7000)
    assert_turned(road.take(listed[1])[1], road.take(k)[1], ids, F218, "float32", length=10)


def test_other_ropes_ignore_the_length(road):
    x, ids = road.give(random(2, 3, 2, 96)), road.ids([4, 5000, 90_000])
    for kind in ("half", "yarn", "llama3"):
        plain = rotate(x, ids, ROPES[kind])
        for length in (3, 10**6, [5, 10**6]):
            assert road.bits(rotate(x, ids, ROPES[kind], length=length)) == road.bits(plain)


# -- several axes, by their meaning


def test_text_positions_serve_every_axis_of_mrope(road):
    for arrangement in ("chunked", "interleaved"):
        many = rope(40, theta=3e5, axes=Sections(sections=(10, 6, 4), arrangement=arrangement))
        x, ids = road.give(random(2, 3, 5, 40)), np.array([[0, 7, 9], [3, 4, 5000]])
        plain = road.bits(rotate(x, road.ids(ids), rope(40, theta=3e5)))
        assert road.bits(rotate(x, road.ids(ids), many)) == plain
        assert road.bits(rotate(x, road.ids(np.stack([ids] * 3)), many)) == plain
        shared = road.bits(rotate(x, road.ids(ids[1]), rope(40, theta=3e5)))
        assert road.bits(rotate(x, road.ids(ids[1]), many)) == shared
        assert road.bits(rotate(x, road.ids(ids[1:]), many)) == shared


def test_chatglms_halves_turn_by_positions_of_their_own(road):
    axes = Ladders(widths=(64, 64), pairing_within="axis", names=("position", "block"))
    x, ids = random(1, 6, 2, 128), np.array([[[0, 1, 2, 3, 3, 3]], [[0, 0, 0, 0, 1, 2]]])  # gmask at 3, then blocks
    found = road.take(rotate(road.give(x), road.ids(ids), rope(128, axes=axes)))
    given = road.take(road.give(x))
    for part, row in ((slice(0, 64), 0), (slice(64, 128), 1)):
        assert_turned(found[..., part], given[..., part], ids[row], rope(64), "float32")
