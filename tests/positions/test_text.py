"""Positions of text: faults F023, F301 to F309, F314 and F315 as their smallest inputs."""

import subprocess
import sys

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError
from ropewalk.positions import decode, from_cu_seqlens, from_mask, next_positions
from ropewalk.turning.dispatch import rotate


def left_padded(*counts, width):
    return np.array([[0] * (width - count) + [1] * count for count in counts])


# -- masks


def test_f301_left_padding_counts_from_the_first_token():
    mask = np.array([[0, 0, 0, 1, 1, 1, 1]])
    assert from_mask(mask)[mask == 1].tolist() == [0, 1, 2, 3]


def test_f301_prefill_and_decode_agree_with_the_whole_prompt():
    mask = np.array([[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]])
    steps = [from_mask(mask[:, :6]), next_positions(mask[:, :6])]
    assert np.concatenate(steps, axis=1).tolist() == from_mask(mask).tolist()


def test_f302_rows_of_unequal_length_go_on_at_their_own_ends():
    assert next_positions(left_padded(4, 6, 7, width=7)).tolist() == [[4], [6], [7]]


def test_f303_right_padding_does_not_count():
    mask = np.array([[1, 1, 1, 1, 0, 0]])
    assert from_mask(mask)[0, :4].tolist() == [0, 1, 2, 3]
    assert next_positions(mask).tolist() == [[4]]


def test_f304_rows_padded_by_five_keep_their_own_counts():
    mask = left_padded(31, 26, width=31)
    assert next_positions(mask, steps=2).tolist() == [[31, 32], [26, 27]]
    assert from_mask(mask)[1, 5:].tolist() == list(range(26))


def test_padding_gets_position_0_on_either_side():
    mask = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    assert from_mask(mask)[mask == 0].tolist() == [0] * 8
    assert next_positions(mask).tolist() == [[2], [2], [0]]


def test_a_hole_in_a_mask_is_skipped():
    assert from_mask([[0, 1, 0, 1, 1]]).tolist() == [[0, 0, 0, 1, 2]]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int32, np.int64])
def test_any_whole_mask_gives_int64(dtype):
    found = from_mask(left_padded(3, 5, width=5).astype(dtype))
    assert found.dtype == np.int64
    assert found.tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]


def test_the_mask_is_left_as_it_was():
    mask = left_padded(3, 5, width=5)
    before = mask.copy()
    from_mask(mask)
    next_positions(mask)
    assert np.array_equal(mask, before)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([1, 1, 1], r"\[batch, seq\], got int64 of shape \[3\]"),
        (np.ones((1, 1, 4, 4), dtype=int), r"\[batch, seq\], got int64 of shape \[1, 1, 4, 4\]"),
        (np.array([[0.0, -np.inf]]), "whole numbers .* got float64"),
        ([[1, 1, 2, 2, 3]], "values from 1 to 3.*from_cu_seqlens"),
        ([[0, -1]], "values from -1 to 0"),
        ([["a"]], "whole numbers"),
        ([[1, 1], [1]], "must be an array of numbers"),
    ],
)
def test_what_is_no_padding_mask_is_refused(mask, words):
    with pytest.raises(RopewalkError, match=words):
        from_mask(mask)


# -- decoding


def test_f023_f307_offsets_belong_to_rows_and_windows_count_on():
    assert decode([50, 20]).tolist() == [[50], [20]]
    assert decode([50, 20], steps=3).tolist() == [[50, 51, 52], [20, 21, 22]]
    assert decode([9], steps=4).tolist() == [[9, 10, 11, 12]]


def test_f305_one_prefill_equals_single_steps_in_every_layer():
    rope = Rope(head_dim=10, rope_theta=500.0, pairing="half")
    layers = np.random.default_rng(1).standard_normal((2, 2, 6, 3, 10))
    for x in layers:  # each layer turns by the same positions: nothing counts on between them
        at_once = rotate(x, decode([7, 3], steps=6), rope)
        single = [rotate(x[:, s : s + 1], decode([7 + s, 3 + s]), rope) for s in range(6)]
        assert np.array_equal(at_once, np.concatenate(single, axis=1))


def test_f306_f308_f309_decoding_goes_on_at_the_tokens_seen():
    assert decode([5]).tolist() == [[5]]  # five tokens of a prompt
    assert decode([6]).tolist() == [[6]]  # six cached, the new one not yet among them
    assert decode([12]).tolist() == [[12]]  # twelve seen, whatever was evicted since


@pytest.mark.parametrize("offsets", [7, [[7, 5]], [0.5], [True]])
def test_offsets_that_are_not_one_a_row_are_refused(offsets):
    with pytest.raises(RopewalkError, match=r"offsets must be whole numbers of shape \[batch\]"):
        decode(offsets)


def test_steps_must_be_a_whole_number():
    with pytest.raises(RopewalkError, match="steps must be a whole number"):
        decode([3], steps=-1)
    assert decode([3, 4], steps=0).shape == (2, 0)


# -- packed


def test_f315_packed_sequences_restart():
    assert from_cu_seqlens([0, 3, 7]).tolist() == [0, 1, 2, 0, 1, 2, 3]


def test_f314_packed_positions_turn_as_the_sequences_alone_do():
    rope = Rope(head_dim=10, rope_theta=500.0, pairing="interleaved")
    x = np.random.default_rng(2).standard_normal((5, 3, 10))
    ids = from_cu_seqlens(np.array([0, 3, 5], dtype=np.int32))
    assert ids.tolist() == [0, 1, 2, 0, 1]
    alone = [rotate(x[:3], range(3), rope, layout="thd"), rotate(x[3:], range(2), rope, layout="thd")]
    assert np.array_equal(rotate(x, ids, rope, layout="thd"), np.concatenate(alone))
    assert not np.allclose(rotate(x, [5, 3, 9, 0, 1], rope, layout="thd")[:3], alone[0])


def test_packed_chunks_go_on_at_their_offsets():
    assert from_cu_seqlens([0, 2, 2, 5], offsets=[10, 7, 0]).tolist() == [10, 11, 0, 1, 2]


def test_rows_beyond_the_last_sequence_count_as_one_more():
    assert from_cu_seqlens([0, 3, 5], total=8).tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
    assert from_cu_seqlens([0, 3, 5], offsets=[4, 9], total=7).tolist() == [4, 5, 6, 9, 10, 0, 1]


def test_packed_positions_of_any_lengths_are_those_of_a_loop():
    rng = np.random.default_rng(3)
    for _ in range(20):
        lengths, offsets = rng.integers(0, 6, size=7), rng.integers(0, 9, size=7)
        edges = np.concatenate([[0], np.cumsum(lengths)])
        expected = [start + s for start, count in zip(offsets, lengths, strict=True) for s in range(count)]
        assert from_cu_seqlens(edges, offsets=offsets).tolist() == expected


def test_no_sequences_give_no_positions():
    assert from_cu_seqlens([0]).tolist() == []
    assert from_cu_seqlens([0, 0, 0]).tolist() == []


@pytest.mark.parametrize(
    ("given", "rest", "words"),
    [
        ([3, 7], {}, r"start at 0 and never fall, got \[3, 7\]"),
        ([0, 5, 4], {}, "start at 0 and never fall"),
        ([], {}, "at least the 0"),
        ([[0, 3]], {}, r"shape \[sequences \+ 1\], got int64 of shape \[1, 2\]"),
        ([0.0, 3.0], {}, "got float64"),
        ([0, 3, 7], {"offsets": [1]}, "got 1 for 2 sequences"),
        ([0, 3, 7], {"total": 6}, "total=6, cu_seqlens end at 7"),
    ],
)
def test_cu_seqlens_that_cannot_be_are_refused(given, rest, words):
    with pytest.raises(RopewalkError, match=words):
        from_cu_seqlens(given, **rest)


def test_positions_of_arrays_load_no_torch():
    code = "import sys, ropewalk.positions as p; p.from_mask([[0, 1]]); p.mrope([[2, (1, 2, 2)]]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "jax", "transformers"}.isdisjoint(done.stdout.split())
