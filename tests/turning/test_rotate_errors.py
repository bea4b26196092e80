"""rotate and bad input: an error with both numbers, and nothing changed."""

import numpy as np
import pytest

from ropewalk import RopewalkError, rotate, rotate_qk

from ._cases import ROPES, open_road, random, rope

R8 = rope(8)
DYNAMIC_8 = ROPES["dynamic"].replace(head_dim=8, rotary_dim=8)
X = (2, 5, 3, 8)


def refuse(road, x, ids, description, *words, **rest):
    """Expect an error that holds all the words, from rotate, and x unchanged."""
    before = road.bits(x) if 0 not in x.shape else None
    with pytest.raises(RopewalkError) as caught:
        rotate(x, ids, description, **rest)
    for word in words:
        assert word in str(caught.value), f"{word!r} is missing: {caught.value}"
    if before is not None:
        assert road.bits(x) == before


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2, 5, 3, 10), ("10", "8")),
        ((2, 5, 3, 6), ("6", "8")),
        ((2, 5, 24), ("24", "8")),  # F019: the head count is not guessed
        ((5, 8), ("[5, 8]", "head")),
        ((8,), ("[8]", "head")),
    ],
)
def test_wrong_width_or_rank(road, shape, words):
    refuse(road, road.give(random(*shape)), road.ids(np.arange(5)), R8, *words)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool", "complex64", "complex128"])
def test_vectors_of_another_type(road, dtype):
    x = road.ids(np.ones(X, dtype))
    refuse(road, x, road.ids(np.arange(5)), R8, dtype, "float32", "bfloat16")


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((4,), ("4", "5")),
        ((1,), ("1", "5")),  # one position is not spread over the tokens
        ((2,), ("2", "5")),  # F023: an offset for each row is not a position for each token
        ((3, 5), ("3", "2")),
        ((2, 4), ("4", "5")),
        ((2, 1), ("1", "5")),
        ((1, 3, 5), ("3", "2")),
        ((3, 2, 5), ("[3, 2, 5]", "seq")),
        ((), ("[]", "seq")),
    ],
)
def test_positions_that_do_not_fit(road, shape, words):
    refuse(road, road.give(random(*X)), road.ids(np.ones(shape, np.int64)), R8, *words)


@pytest.mark.parametrize("kind", ["mrope-chunked", "chatglm", "ladders-flux", "strided"])
def test_axes_and_seq_without_a_batch_are_refused(road, kind):
    description = ROPES[kind]
    axes = description.axes.num_axes
    for batch in (1, 4):
        x = road.give(random(batch, 5, 2, description.head_dim))
        refuse(road, x, road.ids(np.ones((axes, 5), np.int64)), description, f"[{axes}, 5]")
        for shape in ((axes + 1, batch, 5), (1, batch, 5), (axes, batch + 1, 5), (axes, batch, 4)):
            refuse(road, x, road.ids(np.ones(shape, np.int64)), description, str(list(shape)))
    x = road.give(random(5, 2, description.head_dim))
    refuse(road, x, road.ids(np.ones((axes, 5), np.int64)), description, f"[{axes}, 5]", layout="thd")


def test_ladders_have_no_text_positions(road):
    for kind in ("chatglm", "strided"):
        description = ROPES[kind]
        x = road.give(random(2, 5, 2, description.head_dim))  # [2, 5] is [axes, seq] here, or [batch, seq]
        for shape in ((5,), (2, 5)):
            refuse(road, x, road.ids(np.ones(shape, np.int64)), description, str(list(shape)), "2")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_positions_that_are_no_number(road, bad, dtype):
    for place in (0, 4):
        ids = np.arange(5.0).astype(dtype)
        ids[place] = bad
        refuse(road, road.give(random(*X)), road.ids(ids), R8, "finite", str(bad))
        rows = np.stack([np.arange(5), ids])
        refuse(road, road.give(random(*X)), road.ids(rows), DYNAMIC_8, "finite", str(bad), length=7)
    three = np.ones((3, 2, 5), dtype)
    three[2, 1, 3] = bad
    mrope = ROPES["mrope-interleaved"]
    refuse(road, road.give(random(2, 5, 3, 40)), road.ids(three), mrope, "finite", str(bad))


@pytest.mark.parametrize("far", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)])
def test_integers_beyond_2_to_the_53(road, far):
    for place in (0, 3):
        ids = np.arange(5)
        ids[place] = far
        refuse(road, road.give(random(*X)), road.ids(ids), R8, str(far), str(2**53))


def test_integers_beyond_int64(road):
    ids = np.array([0, 1, 2, 3, 2**63 + 5], np.uint64)
    refuse(road, road.give(random(*X)), road.ids(ids), R8, str(2**53) if road.library == "numpy" else "uint64")
    if road.library == "numpy":
        for far in (2**63, 2**70, -(2**64), 10**40):
            refuse(road, road.give(random(*X)), [0, 1, 2, 3, far], R8, "position_ids")


def test_a_position_whose_angle_leaves_float64(road):
    fast = rope(8, theta=1e-200)  # speeds to 1e150
    refuse(road, road.give(random(*X)), road.ids(np.array([0, 1, 2, 3, 1e200])), fast, "float64")


@pytest.mark.parametrize("dtype", ["bool", "complex64"])
def test_positions_of_another_type(road, dtype):
    refuse(road, road.give(random(*X)), road.ids(np.ones(5, dtype)), R8, "position_ids")


def test_positions_that_are_no_array_of_numbers():
    x = random(*X)
    for ids in ("01234", ["0", "1", "2", "3", "4"], [[1, 2], [3]], [None] * 5, {}, None):
        with pytest.raises(RopewalkError, match="position_ids"):
            rotate(x, ids, R8)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_a_length_dependent_rope_without_a_length_names_its_type(road, kind):
    description = ROPES[kind]
    x, ids = road.give(random(2, 5, 3, description.head_dim)), road.ids(np.arange(5))
    refuse(road, x, ids, description, kind, "length")
    with pytest.raises(RopewalkError, match=kind):
        rotate_qk(x, x, ids, description)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
@pytest.mark.parametrize(
    "length", [-1, 1.5, True, "10", [10], [10, 20, 30], [10, -1], [10, 2.5], [[10, 20]], [], 2**54, np.nan]
)
def test_lengths_that_cannot_be(road, kind, length):
    description = ROPES[kind]
    x = road.give(random(2, 5, 3, description.head_dim))
    refuse(road, x, road.ids(np.arange(5)), description, "length", length=length)


def test_lengths_of_rows_need_rows(road):
    description = ROPES["dynamic"]
    x = road.give(random(5, 3, 96))
    refuse(road, x, road.ids(np.arange(5)), description, "length", length=[10, 20])


@pytest.mark.parametrize("layout", ["sbhd", "BSHD", "", None, 3])
def test_an_unknown_layout_lists_the_known(road, layout):
    refuse(road, road.give(random(*X)), road.ids(np.arange(5)), R8, "bshd", "bhsd", "thd", layout=layout)


def test_layouts_that_do_not_fit(road):
    refuse(road, road.give(random(*X)), road.ids(np.arange(5)), R8, "thd", layout="thd")  # 4-D
    packed = road.give(random(5, 3, 8))
    refuse(road, packed, road.ids(np.zeros((2, 5), int)), R8, "[2, 5]", layout="thd")
    refuse(road, road.give(random(2, 3, 5, 8)), road.ids(np.arange(3)), R8, "3", "5", layout="bhsd")


def test_outputs_that_do_not_fit(road):
    x, ids = road.give(random(*X)), road.ids(np.arange(5))
    for shape in ((2, 5, 3, 10), (2, 5, 8, 3), (1, 5, 3, 8), (5, 3, 8), (2, 5, 24)):
        out = road.give(np.full(shape, np.nan))
        refuse(road, x, ids, R8, "out", str(list(shape)), str(list(X)), out=out)
        assert np.isnan(road.take(out)).all()
    out = road.give(np.full(X, np.nan), "float64")
    refuse(road, x, ids, R8, "out", "float32", "float64", out=out)
    assert np.isnan(road.take(out)).all()
    for out in ([1.0], "x", 3):
        refuse(road, x, ids, R8, "out", out=out)


def test_queries_and_keys_that_do_not_fit_each_other(road):
    q, ids = road.give(random(2, 5, 6, 8)), road.ids(np.arange(5))
    for shape in ((2, 4, 2, 8), (3, 5, 2, 8), (2, 5, 2, 10), (5, 2, 8)):
        k = road.give(random(*shape))
        before = road.bits(q), road.bits(k)
        for one, other, outs in ((q, k, None), (k, q, None), (q, k, (q, k))):  # in place: q waits for k's check
            with pytest.raises(RopewalkError):
                rotate_qk(one, other, ids, R8, out=outs)
        assert (road.bits(q), road.bits(k)) == before
    k = road.give(random(2, 5, 2, 8))
    for outs in (q, (q,), (q, k, k), (k, q)):
        with pytest.raises(RopewalkError, match="out"):
            rotate_qk(q, k, ids, R8, out=outs)


def test_what_is_no_array_at_all():
    for x in ("text", None, object(), {"a": 1}):
        with pytest.raises(RopewalkError, match="x must be"):
            rotate(x, [0, 1], R8)


def test_what_is_no_rope(road):
    for description in (None, {"head_dim": 8}, 10_000.0):
        with pytest.raises(RopewalkError, match="rope"):
            rotate(road.give(random(*X)), road.ids(np.arange(5)), description)


@pytest.mark.parametrize("road_name", ["numpy-kernel", "numpy-plain", "torch-kernel", "torch-plain"])
def test_a_map_without_an_inverse_at_a_position_is_refused(road_name):
    # V-JEPA 2's map: the angles m and 0.1 m of pair (0, 1) are a quarter turn apart, so its determinant is 0
    tile = rope(4, "hybrid_tile", 100)
    with open_road(road_name) as road:
        ids = road.ids(np.array([np.pi / 2 / (1 - 0.1)]))
        refuse(road, road.give(random(1, 2, 4)), ids, tile, "inverse", inverse=True)


@pytest.mark.parametrize("inverse", ["yes", 1, None])
def test_an_inverse_that_is_no_truth_value(road, inverse):
    x, ids = road.give(random(*X)), road.ids(np.arange(5))
    refuse(road, x, ids, R8, "inverse", "true or false", inverse=inverse)
    with pytest.raises(RopewalkError, match="inverse"):
        rotate_qk(x, x, ids, R8, inverse=inverse)


def test_arguments_after_the_rope_are_named(road):
    with pytest.raises(TypeError):
        rotate(road.give(random(*X)), road.ids(np.arange(5)), R8, True)


def test_torch_vectors_with_positions_of_another_device():
    torch = pytest.importorskip("torch")
    ids = torch.arange(5, device="meta")
    with pytest.raises(RopewalkError, match=r"meta.*cpu|cpu.*meta"):
        rotate(torch.randn(X), ids, R8)


def test_queries_and_keys_of_two_libraries():
    torch = pytest.importorskip("torch")
    x = random(*X)
    for q, k in ((x, torch.from_numpy(x)), (torch.from_numpy(x), x)):
        with pytest.raises(RopewalkError):
            rotate_qk(q, k, np.arange(5), R8)
