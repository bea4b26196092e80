"""ChatGLM-6B's two-part positions: faults F147 and F611, against the rule of the model's own code as plain loops."""

import numpy as np
import pytest

from ropewalk import Ladders, Rope, RopewalkError
from ropewalk.positions import chatglm, chatglm_from_ids
from ropewalk.turning.dispatch import rotate
from ropewalk.turning.naive import rotate as truth

BOS, MASK, GMASK, PAD = 130004, 130000, 130001, 3


def row_by_hand(row):
    """The positions of one unpadded row."""
    context = row.index(BOS)
    mask = row.index(GMASK if GMASK in row else MASK)
    position = [column if column < context else mask for column in range(len(row))]
    block = [max(0, column - context + 1) for column in range(len(row))]
    return [position, block]


def test_f611_the_position_stands_still_where_the_block_begins_to_count():
    found = chatglm([2], [1], 4)
    assert found.shape == (2, 1, 4)
    assert found[:, 0].tolist() == [[0, 1, 1, 1], [0, 0, 1, 2]]


@pytest.mark.parametrize(
    "row",
    [
        [5, 6, 7, GMASK, BOS],
        [5, 6, 7, GMASK, BOS, 8, 9, 10],
        [5, MASK, 7, 8, BOS, 9],
        [5, MASK, GMASK, 8, BOS, 9, 11],
        [GMASK, BOS],
    ],
)
def test_tokenised_prompts_follow_the_models_own_code(row):
    assert chatglm_from_ids([row])[:, 0].tolist() == row_by_hand(row)


def test_a_batch_padded_on_the_left_counts_from_its_own_first_tokens():
    short, long = [5, GMASK, BOS, 8], [5, 6, 7, 8, GMASK, BOS, 8]
    ids = np.array([[PAD] * 3 + short, long])
    found = chatglm_from_ids(ids, attention_mask=ids != PAD)
    assert found[:, 0, :3].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert found[:, 0, 3:].tolist() == row_by_hand(short)
    assert found[:, 1].tolist() == row_by_hand(long)


def test_a_batch_padded_on_the_right_does_too():
    short, long = [5, GMASK, BOS, 8], [5, 6, 7, 8, GMASK, BOS, 8]
    ids = np.array([short + [PAD] * 3, long])
    found = chatglm_from_ids(ids, attention_mask=ids != PAD)
    assert found[:, 0, :4].tolist() == row_by_hand(short)
    assert found[:, 1].tolist() == row_by_hand(long)


def test_decoding_goes_on_where_the_prompt_ended():
    contexts, masks = [4, 2], [3, 1]
    whole = chatglm(contexts, masks, 9)
    steps = [chatglm(contexts, masks, 6), *(chatglm(contexts, masks, 1, start=6 + s) for s in range(3))]
    assert np.array_equal(whole, np.concatenate(steps, axis=2))
    uneven = chatglm(contexts, masks, 2, start=[7, 3])
    assert uneven.tolist() == [[[3, 3], [1, 1]], [[4, 5], [2, 3]]]


def test_a_row_without_start_token_or_without_mask_counts_on():
    assert chatglm_from_ids([[5, GMASK, 7, 8]])[:, 0].tolist() == [[0, 1, 2, 3], [0, 0, 0, 0]]
    assert chatglm_from_ids([[5, 6, BOS, 8]])[:, 0].tolist() == [[0, 1, 2, 3], [0, 0, 1, 2]]


def test_the_first_release_had_other_ids():
    ids = [[5, 150001, 150004, 6]]
    found = chatglm_from_ids(ids, bos_token_id=150004, mask_token_id=150000, gmask_token_id=150001)
    assert found[:, 0].tolist() == [[0, 1, 1, 1], [0, 0, 1, 2]]


def test_f147_each_half_of_a_head_turns_by_its_own_part():
    rope = Rope(
        head_dim=96,
        rope_theta=10000.0,
        pairing="half",
        axes=Ladders(widths=(48, 48), pairing_within="axis", names=("position", "block_position")),
    )
    half = Rope(head_dim=48, rope_theta=10000.0, pairing="half")
    assert half.pairs().inv_freq[1] == pytest.approx(0.6812920691, rel=1e-9)
    ids = chatglm_from_ids([[5, 6, 7, GMASK, BOS, 8, 9]])
    x = np.random.default_rng(1).standard_normal((1, 7, 3, 96))
    expected = [truth(x[..., :48], ids[0], half), truth(x[..., 48:], ids[1], half)]
    assert np.allclose(rotate(x, ids, rope), np.concatenate(expected, axis=-1), rtol=0, atol=1e-12)


def test_empty_rows_give_empty_positions():
    assert chatglm_from_ids(np.zeros((2, 0), dtype=int)).shape == (2, 2, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: chatglm([4, 2], [3], 6), "one a row, got 2, 1 and 1"),
        (lambda: chatglm([4, 2], [3, 1], 6, start=[1, 2, 3]), "one a row, got 2, 2 and 3"),
        (lambda: chatglm([[4]], [3], 6), r"context_lengths must be whole numbers of shape \[batch\]"),
        (lambda: chatglm([4], [3], -1), "length must be a whole number"),
        (lambda: chatglm_from_ids([5, 6]), r"input_ids must be whole numbers of shape \[batch, seq\]"),
        (lambda: chatglm_from_ids([[5, 6]], attention_mask=[[1]]), r"must be \[1, 2\] as input_ids are, got \[1, 1\]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call, words):
    with pytest.raises(RopewalkError, match=words):
        call()
