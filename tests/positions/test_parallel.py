"""Zig-zag shards for context parallelism: faults F316 and F317."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import RopewalkError
from ropewalk.positions import from_cu_seqlens, shard, shard_packed


def test_f316_packed_rows_start_at_their_own_sequence():
    rows = shard_packed([0, 8, 12], cp_size=2, cp_rank=0)
    assert rows.tolist() == [0, 1, 6, 7, 8, 11]
    assert from_cu_seqlens([0, 8, 12])[rows].tolist() == [0, 1, 6, 7, 0, 3]
    assert shard_packed([0, 8, 12], cp_size=2, cp_rank=1).tolist() == [2, 3, 4, 5, 9, 10]


def test_a_plain_sequence_gives_its_first_and_last_chunk_to_rank_0():
    assert shard(12, cp_size=3, cp_rank=0).tolist() == [0, 1, 10, 11]
    assert shard(12, cp_size=3, cp_rank=2).tolist() == [4, 5, 6, 7]
    assert shard(6, cp_size=1, cp_rank=0).tolist() == list(range(6))
    assert shard(0, cp_size=2, cp_rank=1).tolist() == []


@given(chunks=st.lists(st.integers(0, 5), max_size=6), cp_size=st.integers(1, 5))
def test_ranks_share_all_rows_without_overlap(chunks, cp_size):
    edges = np.cumsum([0, *(2 * cp_size * count for count in chunks)])
    shards = [shard_packed(edges, cp_size=cp_size, cp_rank=rank) for rank in range(cp_size)]
    assert sorted(np.concatenate(shards).tolist()) == list(range(edges[-1]))
    expected = [[] for _ in range(cp_size)]
    for start, stop in pairwise(edges):  # each sequence cut into 2*cp_size chunks, plainly
        cut = np.split(np.arange(start, stop), 2 * cp_size)
        for rank in range(cp_size):
            expected[rank] += [*cut[rank], *cut[2 * cp_size - 1 - rank]]
    assert [rows.tolist() for rows in shards] == expected


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: shard(9, cp_size=2, cp_rank=0),
            r"multiple of 2\*cp_size = 4 tokens long, got 9 tokens\. Pad it to 12",
        ),
        (lambda: shard_packed([0, 8, 17], cp_size=2, cp_rank=0), "= 4 tokens long, got 9 tokens"),
        (lambda: shard_packed([0, 6, 12], cp_size=2, cp_rank=0), "= 4 tokens long, got 6 tokens"),  # though 12 divides
        (lambda: shard(8, cp_size=2, cp_rank=2), "cp_rank must be a whole number from 0 to 1, got 2"),
        (lambda: shard(8, cp_size=0, cp_rank=0), "cp_size must be a whole number from 1"),
        (lambda: shard_packed([0, 8], cp_size=2, cp_rank=0, total=12), "total=12, cu_seqlens end at 8"),
        (lambda: shard_packed([4, 8], cp_size=2, cp_rank=0), "start at 0"),
    ],
)
def test_f317_no_token_is_lost_it_is_refused(call, words):
    with pytest.raises(RopewalkError, match=words):
        call()
