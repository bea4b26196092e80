"""Multimodal positions: faults F605, F606 and F608 to F610, and a plain loop as second road."""

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError, Sections
from ropewalk.positions import Grid, decode, mrope, mrope_from_ids
from ropewalk.turning.dispatch import rotate
from ropewalk.turning.naive import rotate as truth

IMAGE, VIDEO = 151655, 151656


def by_hand(row, advance="largest"):
    """The three positions of each token of one row of pieces, and the next one, in plain loops."""
    ids, count = [], 0
    for piece in row:
        if isinstance(piece, int):
            ids += [(count + i,) * 3 for i in range(piece)]
            count += piece
            continue
        t, h, w, step = (*piece, 1.0)[:4]
        ids += [
            (count + int(frame * step), count + i, count + j) for frame in range(t) for i in range(h) for j in range(w)
        ]
        count += max(int((t - 1) * step) + 1, h, w) if advance == "largest" else max(h, w)
    return ids, max(map(max, ids), default=-1) + 1


def tokens_of(row, merge=2):
    """The same row as a processor would give it: ids, and the grids of images and videos before merging."""
    ids, images, videos = [], [], []
    for piece in row:
        if isinstance(piece, int):
            ids += [7] * piece
            continue
        t, h, w = piece[:3]
        (videos if t > 1 else images).append((t, merge * h, merge * w))
        ids += [VIDEO if t > 1 else IMAGE] * (t * h * w)
    return ids, images, videos


def from_ids(rows, **rest):
    """mrope_from_ids of rows, left padded, with their mask."""
    made = [tokens_of(row) for row in rows]
    width = max(len(ids) for ids, _, _ in made)
    ids = np.array([[0] * (width - len(ids)) + ids for ids, _, _ in made])
    mask = np.array([[0] * (width - len(ids)) + [1] * len(ids) for ids, _, _ in made])
    images, videos = ([grid for one in made for grid in one[place]] for place in (1, 2))
    return mrope_from_ids(
        ids,
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        image_grid_thw=np.array(images).reshape(-1, 3).astype(int),
        video_grid_thw=np.array(videos).reshape(-1, 3).astype(int),
        spatial_merge_size=2,
        attention_mask=mask,
        **rest,
    )


ROW_A, ROW_B = [4, Grid(1, 2, 3), 2], [12]


@pytest.mark.parametrize("make", [mrope, from_ids])
def test_f609_each_row_has_its_own_delta(make):
    found = make([ROW_A, ROW_B])
    assert found.position_ids[:, 0, -1].tolist() == [8, 8, 8]
    assert found.delta.tolist() == [[-3], [0]]
    assert found.next_position.tolist() == [[9], [12]]
    assert found.position_ids[:, 1].tolist() == [list(range(12))] * 3


def test_f609_decoding_adds_delta_to_the_tokens_seen():
    found = mrope([ROW_A, ROW_B])
    assert decode(np.array([12, 12]) + found.delta[:, 0], steps=2).tolist() == [[9, 10], [12, 13]]


def test_f606_an_image_is_numbered_row_by_row():
    ids = mrope([[2, (1, 3, 7)]]).position_ids[:, 0]
    assert ids[:, 2 + 18].tolist() == [2, 2 + 2, 2 + 4]


ROWS = [
    [3, (1, 2, 5), 4, (1, 4, 3), 1],
    [(1, 3, 2), 2],
    [5, (4, 2, 3), 2, (1, 2, 2)],
    [9],
    [1, (1, 1, 1), (1, 2, 2), (1, 1, 4), 3],  # images side by side, nothing between them
]


@pytest.mark.parametrize("advance", ["largest", "side"])
@pytest.mark.parametrize("make", [mrope, from_ids])
def test_any_rows_are_those_of_a_loop(make, advance):
    found = make(ROWS, advance=advance)
    width = found.position_ids.shape[2]
    for b, row in enumerate(ROWS):
        ids, following = by_hand(row, advance)
        padding = width - len(ids)
        assert found.position_ids[:, b, :padding].tolist() == [[0] * padding] * 3
        assert found.position_ids[:, b, padding:].T.tolist() == [list(one) for one in ids], row
        assert found.next_position[b, 0] == following
        assert found.delta[b, 0] == following - len(ids)
    assert found.position_ids.dtype == found.delta.dtype == found.next_position.dtype == np.int64


def test_padding_may_stand_on_the_right():
    left, right = mrope(ROWS), mrope(ROWS, padding_side="right")
    for b, row in enumerate(ROWS):
        count = len(by_hand(row)[0])
        assert np.array_equal(left.position_ids[:, b, -count:], right.position_ids[:, b, :count])
        assert not right.position_ids[:, b, count:].any()
    assert np.array_equal(left.delta, right.delta)


def test_text_after_a_video_goes_on_after_its_times_or_after_its_sides():
    row = [2, Grid(5, 2, 3, 4.0), 1]
    last = {advance: mrope([row], advance=advance).position_ids[:, 0, -1].tolist() for advance in ("largest", "side")}
    assert last == {"largest": [2 + 16 + 1] * 3, "side": [2 + 3] * 3}
    assert mrope([row], advance="side").next_position.tolist() == [[2 + 16 + 1]]  # never a position used before


# -- times


def times(found, per_frame):
    return found.position_ids[0, 0, ::per_frame].tolist()


@pytest.mark.parametrize(
    ("seconds", "expected", "fault"),
    [(0.083, [0, 2, 4, 6], [0, 0, 0, 0]), (1.0, [0, 25, 50, 75], [0, 25, 50, 75])],
)
def test_f608_frames_keep_their_own_times(seconds, expected, fault):
    frames, temporal_patch = 8, 2
    grid = (frames // temporal_patch, 2, 2)
    made = mrope_from_ids(
        [[VIDEO] * 16],
        video_token_id=VIDEO,
        video_grid_thw=[[grid[0], 4, 4]],
        spatial_merge_size=2,
        tokens_per_second=25,
        second_per_grid_ts=[seconds],
    )
    assert times(made, 4) == expected
    assert times(mrope([[Grid(*grid, 25 * seconds)]]), 4) == expected
    assert [25 * int(seconds) * frame for frame in range(4)] == fault


def test_f608_a_step_below_one_can_be_kept_real():
    step = 2 * 0.083  # Qwen2.5-VL's two positions a second at 24 frames a second
    assert times(mrope([[Grid(8, 1, 1, step)]]), 1) == [0, 0, 0, 0, 0, 0, 0, 1]
    real = mrope([[3, Grid(8, 1, 1, step), 1]], whole_times=False)
    assert real.position_ids.dtype == np.float64
    assert real.position_ids[0, 0].tolist() == pytest.approx([0, 1, 2, *(3 + step * i for i in range(8)), 5], rel=1e-15)
    assert real.next_position.tolist() == [[6]]
    assert real.next_position.dtype == np.int64


def test_a_video_without_seconds_takes_tokens_per_second():
    made = mrope_from_ids(
        [[VIDEO] * 3], video_token_id=VIDEO, video_grid_thw=[[3, 2, 2]], spatial_merge_size=2, tokens_per_second=2
    )
    assert times(made, 1) == [0, 2, 4]


def test_an_image_has_no_time_to_scale():
    made = mrope_from_ids(
        [[7, 7] + [IMAGE] * 2],
        image_token_id=IMAGE,
        image_grid_thw=[[2, 2, 2]],
        spatial_merge_size=2,
        tokens_per_second=25,
    )
    assert made.position_ids[0, 0].tolist() == [0, 1, 2, 3]


def test_frames_of_a_video_that_stand_apart_are_images_among_their_times():
    frame = [7, VIDEO, VIDEO, VIDEO, VIDEO, VIDEO, VIDEO]
    made = mrope_from_ids(
        [frame * 3], video_token_id=VIDEO, video_grid_thw=[[3, 4, 6]], spatial_merge_size=2, frames_apart=True
    )
    alike = mrope([[1, (1, 2, 3)] * 3])
    assert np.array_equal(made.position_ids, alike.position_ids)
    assert np.array_equal(made.delta, alike.delta)


def test_frames_merged_in_time_count_once():
    made = mrope_from_ids(
        [[VIDEO] * 4], video_token_id=VIDEO, video_grid_thw=[[4, 2, 4]], spatial_merge_size=2, temporal_merge_size=2
    )
    assert made.position_ids[:, 0].tolist() == [[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1]]


# -- turning


def test_f610_three_rows_of_positions_reach_the_vectors():
    rope = Rope(head_dim=40, rope_theta=3e5, pairing="half", axes=Sections(sections=(10, 6, 4)))
    ids = mrope([[1, (2, 1, 3), 2]]).position_ids
    assert ids.shape == (3, 1, 9)
    assert not np.array_equal(ids[0], ids[2])
    x = np.random.default_rng(4).standard_normal((1, 9, 3, 40))
    found = rotate(x, ids, rope)
    assert np.allclose(found, truth(x, ids, rope), rtol=0, atol=1e-12)
    assert not np.allclose(found, truth(x, ids[0], rope), atol=1e-3)  # one row taken for three


# -- what is refused


def refused(words, ids, **rest):
    with pytest.raises(RopewalkError, match=words):
        mrope_from_ids(np.array(ids), **{"image_token_id": IMAGE, "spatial_merge_size": 2, **rest})


@pytest.mark.parametrize("found", [5, 7])
def test_tokens_that_are_not_as_many_as_the_grid_holds_are_refused(found):
    refused(
        f"got {found} tokens for grids of 6",
        [[7, 7] + [IMAGE] * found + [8]],
        image_grid_thw=[[1, 4, 6]],
    )


def test_tokens_without_grids_are_refused():
    refused("got 2 tokens for grids of 0", [[7, IMAGE, IMAGE]])


def test_an_image_across_two_rows_is_refused():
    refused(
        "row 0 ends within a grid: its 4 image tokens .* hold 6, 2",
        [[IMAGE] * 4, [IMAGE] * 4],
        image_grid_thw=[[1, 4, 6], [1, 2, 4]],
    )


def test_text_within_an_image_is_refused():
    refused("side by side", [[IMAGE] * 3 + [7] + [IMAGE] * 3], image_grid_thw=[[1, 4, 6]])


def test_text_between_frames_points_to_frames_apart():
    refused(
        "frames_apart=True",
        [[VIDEO, 7, VIDEO]],
        video_token_id=VIDEO,
        video_grid_thw=[[2, 2, 2]],
    )


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"image_grid_thw": [[1, 4, 5]]}, "divisible by 2"),
        ({"image_grid_thw": [[1, 4, 6]], "image_token_id": None}, "image_grid_thw needs image_token_id"),
        ({"image_grid_thw": [[1, 4, 6]], "attention_mask": [[1, 1]]}, "as input_ids are"),
        ({"image_grid_thw": [[1, 4, 6]], "advance": "most"}, "advance must be one of"),
        ({"image_grid_thw": [[1, 4, 6]], "spatial_merge_size": 0}, "spatial_merge_size must be"),
        ({"video_token_id": VIDEO, "video_grid_thw": [[1, 4, 6]], "second_per_grid_ts": [1.0, 2.0]}, "one a video"),
        ({"video_token_id": VIDEO, "video_grid_thw": [[1, 4, 6]], "tokens_per_second": 0}, "tokens_per_second must"),
        ({"video_token_id": VIDEO, "video_grid_thw": [[3, 4, 6]], "temporal_merge_size": 2}, "frames by 2"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(rest, words):
    refused(words, [[7] + [IMAGE] * 6], **rest)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[4, (2, 3)]], r"\(t, h, w\) or \(t, h, w, step\), got \(2, 3\)"),
        ([[4, (1, 2, 0)]], "w of a grid must be a whole number from 1"),
        ([[4, (1, 2, 3, -1.0)]], "step of a grid"),
        ([[-4]], "tokens of text must be"),
        ([4], "a row must be a list"),
    ],
)
def test_pieces_that_are_none_are_refused(rows, words):
    with pytest.raises(RopewalkError, match=words):
        mrope(rows)


def test_nothing_gives_nothing():
    assert [one.tolist() for one in mrope([[]])] == [[[[]]] * 3, [[0]], [[0]]]
    assert mrope([]).position_ids.shape == (3, 0, 0)
