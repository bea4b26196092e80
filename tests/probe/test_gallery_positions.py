"""Exhibits of positions and axes, M30 to M38, M44 and M45."""

from dataclasses import replace

import numpy as np
import pytest

from ropewalk import Rope
from ropewalk.turning import naive

from .exhibited import BY_ID, MUTANTS, call, fault, named, some_ids, truth, vectors


def test_m30_counts_instead_of_reading():
    one, x = BY_ID["M30"], vectors(BY_ID["M30"])
    got = call(one, x, np.array([5, 3, 9, 100, 2]))
    np.testing.assert_allclose(got, naive.rotate(x, np.arange(5), one.expect), atol=1e-12)


@pytest.mark.parametrize("id", ["M31a", "M31b"])
def test_m31_repeats_the_first_call_and_is_right_in_it(id):
    one, fn = BY_ID[id], BY_ID[id].make()
    x, first, second = vectors(one), np.arange(5), np.arange(5) + 40
    np.testing.assert_allclose(call(one, x, first, fn=fn), truth(one, x, first), atol=1e-12)
    np.testing.assert_allclose(call(one, x, second, fn=fn), truth(one, x, first), atol=1e-12)
    np.testing.assert_allclose(call(one, x, second), truth(one, x, second), atol=1e-12)  # no state shared by two


@named([one for one in MUTANTS if one.id.startswith("M31c")])
def test_m31_uses_the_base_of_the_layer_that_came_first(one):
    x, warm = vectors(one), one.parameters["warm_up"]
    local = replace(one.expect, rope_theta=one.parameters["local_theta"])
    ids = np.array([1, 2, 3, warm - 2, warm - 1])
    np.testing.assert_allclose(call(one, x, ids), naive.rotate(x, ids, local), atol=1e-9)
    ids = np.array([1, 2, 3, 4, 5000])
    np.testing.assert_allclose(call(one, x, ids), naive.rotate(x, ids, one.expect), atol=1e-9)


def test_m32_turns_by_head_number():
    rows = np.broadcast_to([2.0, 1, 3, -1, 0.5, 4], (1, 2, 3, 6))  # [B, H, S, D]
    right = np.broadcast_to(rows.swapaxes(1, 2), (1, 3, 2, 6))
    rope = Rope(head_dim=6, rope_theta=100.0, pairing="half")
    head_0_token_1 = naive.rotate(right, [0, 1, 2], rope)[0, 1, 0]
    expected = [1.9220755965, 0.8699913521, 2.8111720343, 1.1426396637, 0.7022215086, 4.1348895746]
    np.testing.assert_allclose(head_0_token_1, expected, atol=1e-9)  # F410
    turned = fault("M32b", head_dim=6, rope_theta=100.0)(rows.copy(), np.array([0, 1, 2]))
    np.testing.assert_array_equal(turned[0, 0], rows[0, 0])  # head 0 keeps still
    np.testing.assert_allclose(turned[0, 1], np.broadcast_to(expected, (3, 6)), atol=1e-9)  # head 1, at every token


@named([one for one in MUTANTS if one.entry == "M33"])
def test_m33_turns_row_0_alone_when_there_is_one_token(one):
    x, ids = vectors(one, seq=1), np.array([[5], [9]])
    got, right = call(one, x, ids), truth(one, x, ids)
    np.testing.assert_allclose(got[0], right[0])
    np.testing.assert_array_equal(got[1], x[1])
    x, ids = vectors(one), some_ids(one, 90)
    np.testing.assert_allclose(call(one, x, ids), truth(one, x, ids), atol=1e-12)


@pytest.mark.parametrize(
    ("id", "instead"),
    [
        ("M34", lambda ids, one: 2 * ids),
        ("M35a", lambda ids, one: 0 * ids),
        ("M35b", lambda ids, one: 0 * ids),
        ("M36", lambda ids, one: np.repeat(ids[:, :1], 5, axis=1)),
        ("M37", lambda ids, one: np.minimum(ids, one.parameters["rows"] - 1)),
        ("M37.3", lambda ids, one: np.minimum(ids, one.parameters["rows"] - 1)),
    ],
)
def test_m34_to_m37_turn_by_other_positions(id, instead):
    one = BY_ID[id]
    x, ids = vectors(one), np.array([[3, 6, 131_071, 131_072, 900_000], [4096, 4095, 4097, -2, 0]])
    np.testing.assert_allclose(call(one, x, ids), truth(one, x, instead(ids, one)), atol=1e-8)


@named([one for one in MUTANTS if one.entry == "M38"])
def test_m38_turns_the_first_head_alone(one):
    x, ids = vectors(one), some_ids(one, 90)
    got = call(one, x, ids)
    np.testing.assert_allclose(got[:, :, 0], truth(one, x, ids)[:, :, 0], atol=1e-12)
    np.testing.assert_array_equal(got[:, :, 1:], x[:, :, 1:])


THW = np.array([3, 11, 6]).reshape(3, 1, 1)


def axis_angles(fn, pairs):
    """Give angles modulo a full turn, in (0, 2π)."""
    found = []
    for i in pairs:
        turned = fn(np.eye(40)[i][None, None, None], THW)[0, 0, 0]
        found.append(np.arctan2(turned[i + 20], turned[i]) % (2 * np.pi))
    return found


INTERLEAVED_605 = {1: 5.855131084, 2: 1.699961653, 9: 0.01029003117, 13: 3.028753086e-3, 16: 4.567680112e-4}
CHUNKED_605 = {10: 0.02008316044, 15: 8.581273504e-4, 16: 2.491461879e-4, 19: 3.757388124e-5}


@pytest.mark.parametrize(
    ("id", "golden"),
    [("M44a", CHUNKED_605), ("M44b", INTERLEAVED_605), ("V20a", CHUNKED_605), ("V20b", INTERLEAVED_605)],
)
def test_m44_deals_the_axes_by_the_other_rule(id, golden):
    np.testing.assert_allclose(axis_angles(BY_ID[id].make(), golden), list(golden.values()), rtol=1e-8)  # F605
    axis = naive.rotate(np.ones((1, 1, 1, 40)), THW, BY_ID[id].expect)
    assert np.allclose(axis, BY_ID[id].make()(np.ones((1, 1, 1, 40)), THW), atol=1e-9) is id.startswith("V")


@named([one for one in MUTANTS if one.entry == "M45"])
def test_m45_exchanges_or_drops_an_axis(one):
    x, ids = vectors(one), some_ids(one, 900)
    other = ids.copy()
    if "exchanged" in one.title:
        other[1], other[2] = ids[2], ids[1]
    elif "0" in one.title:
        other[1] = 0
    else:
        other = ids[::-1]
    np.testing.assert_allclose(call(one, x, ids), truth(one, x, other), atol=1e-9)
