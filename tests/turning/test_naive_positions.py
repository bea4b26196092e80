"""The positions and lengths that the truth takes, and the ones it refuses."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest

from ropewalk import Ladders, RopewalkError, Sections, Strided, score, score_from_distance, tables
from ropewalk.scaling import Dynamic
from ropewalk.turning.naive import rotate

from ._naive import ladder, random, rope, turned_by_hand

# -- positions


getcontext().prec = 80
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")


def exact_cos(position, w):
    """Give cos of the exact product of two float64 numbers, reduced with 80 digits of π."""
    product = Fraction(position) * Fraction(float(w))
    turns = Decimal(product.numerator) / Decimal(product.denominator) / (2 * PI)
    return math.cos(float((turns - turns.to_integral_value()) * 2 * PI))


@pytest.mark.parametrize("position", [-3, 50000, 131072, 1000003, -1000003, 2**31, 2**40 + 1, 2**53, 0.1, -1234.5678])
def test_f025_angles_of_any_size_and_sign(position):
    cos, _ = tables(rope(96, 3e4), [position])
    for pair in (0, 1, 20, 47):
        w = rope(96, 3e4).pairs().inv_freq[pair]
        rounded = abs(position) * w * 2**-53
        assert cos[0, pair] == pytest.approx(exact_cos(position, w), abs=rounded + 1e-15)


def test_integers_and_floats_of_one_value_are_one_position():
    for dtype in (np.int8, np.int32, np.uint16, np.float32, np.float64):
        assert (tables(rope(), np.array([3, 100], dtype))[0] == tables(rope(), [3, 100])[0]).all()


@pytest.mark.parametrize(
    ("shape", "ids_shape"),
    [
        ((5, 3, 8), (5,)),  # packed [tokens, heads, head_dim]
        ((2, 5, 3, 8), (5,)),
        ((2, 5, 3, 8), (1, 5)),
        ((2, 5, 3, 8), (2, 5)),
        ((2, 5, 3, 8), (1, 2, 5)),  # one axis, written out
        ((4, 2, 5, 3, 8), (2, 5)),
        ((2, 1, 3, 8), (2, 1)),  # decode: one token a row
        ((0, 5, 3, 8), (5,)),
        ((2, 0, 3, 8), (0,)),
    ],
)
def test_position_shapes_that_are_taken(shape, ids_shape):
    x = random(*shape)
    ids = np.random.default_rng(2).integers(-9, 9000, ids_shape)
    found = rotate(x, ids, rope())
    assert found.shape == shape
    spread = np.broadcast_to(ids.reshape(ids.shape[-2:]) if ids.ndim == 3 else ids, shape[:-2])
    for place in np.ndindex(*shape[:-1]):
        expected = turned_by_hand(x[place], int(spread[place[:-1]]), [(i, i + 4) for i in range(4)], ladder(500, 8))
        assert found[place].tolist() == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(
    ("axes", "ids_shape", "table_shape"),
    [
        (None, (5,), (5, 4)),
        (None, (2, 5), (2, 5, 4)),
        (None, (1, 2, 5), (2, 5, 4)),
        (Sections(sections=(2, 1, 1)), (5,), (5, 4)),
        (Sections(sections=(2, 1, 1)), (2, 5), (2, 5, 4)),
        (Sections(sections=(2, 1, 1)), (3, 2, 5), (2, 5, 4)),
        (Strided(), (2, 7, 5), (7, 5, 4)),
        (Ladders(widths=(4, 4)), (2, 1, 5), (1, 5, 4)),
    ],
)
def test_shapes_of_tables(axes, ids_shape, table_shape):
    description = rope() if axes is None else rope(axes=axes)
    cos, sin = tables(description, np.zeros(ids_shape, int))
    assert cos.shape == sin.shape == table_shape
    assert (cos == 1).all()
    assert (sin == 0).all()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (5, r"\[seq\] or \[batch, seq\] .*, got shape \[\]"),
        ([[[[1]]]], r"got shape \[1, 1, 1, 1\]"),
        (np.zeros((3, 2, 5)), r"got shape \[3, 2, 5\]"),
        ([1.0, float("nan")], "finite, got nan"),
        ([1.0, float("inf")], "finite, got inf"),
        ([True, False], "array of integers or floats"),
        (["1", "2"], r"array of integers or floats, got \['1', '2'\]"),
        ([[1, 2], [3]], "array of integers or floats"),
        (None, "array of integers or floats, got None"),
        ([1 + 2j], "array of integers or floats"),
        ([2**70], "array of integers or floats"),
        ([2**53 + 1], r"within ±2\^53 = 9007199254740992, .*got 9007199254740993"),
        ([-(2**53) - 1, 0], "got -9007199254740993 to 0"),
    ],
)
def test_positions_that_are_refused(ids, message):
    with pytest.raises(RopewalkError, match=message):
        tables(rope(), ids)
    with pytest.raises(RopewalkError):
        rotate(random(2, 5, 3, 8), ids, rope())


@pytest.mark.parametrize("axes", [Ladders(widths=(4, 4)), Strided()], ids=repr)
@pytest.mark.parametrize("ids_shape", [(5,), (2, 5), (3, 2, 5), (1, 2, 5)])
def test_several_independent_axes_need_a_row_each(axes, ids_shape):
    with pytest.raises(RopewalkError, match=r"\[axes=2, batch, seq\] for this rope, got shape"):
        rotate(random(2, 5, 3, 8), np.zeros(ids_shape, int), rope(axes=axes))


@pytest.mark.parametrize(
    ("shape", "ids_shape"),
    [((2, 5, 3, 8), (4,)), ((2, 5, 3, 8), (3, 5)), ((2, 5, 3, 8), (2, 3)), ((5, 3, 8), (2, 5)), ((2, 3, 5, 8), (5,))],
)
def test_positions_that_do_not_fit_x_show_both_shapes(shape, ids_shape):
    with pytest.raises(RopewalkError) as caught:
        rotate(random(*shape), np.zeros(ids_shape, int), rope())
    assert str(list(shape)) in str(caught.value)
    assert str(list(ids_shape)) in str(caught.value)
    assert f"[seq={shape[-3]}]" in str(caught.value)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((5, 8)), r"head_dim=8\], got shape \[5, 8\]"),
        (np.zeros((2, 5, 3, 9)), r"got shape \[2, 5, 3, 9\]"),
        (0.5, r"got shape \[\]"),
        ([["a"]], "x must be an array of integers or floats"),
        (None, "x must be an array"),
        ([[1, 2], [3]], "x must be an array"),
        (np.zeros((5, 3, 8), complex), "x must be an array"),
        (np.zeros((5, 3, 8), bool), "x must be an array"),
    ],
)
def test_x_that_is_refused(x, message):
    with pytest.raises(RopewalkError, match=message):
        rotate(x, [0, 1, 2, 3, 4], rope())


def test_the_input_is_left_alone_and_the_output_is_float64():
    for dtype in (np.float16, np.float32, np.float64, np.int64):
        x = (random(4, 3, 8) * 9).astype(dtype)
        kept = x.copy()
        found = rotate(x, [1, 2, 3, 4], rope())
        assert (x == kept).all()
        assert found.dtype == np.float64
        assert not np.shares_memory(found, x)


def test_an_angle_beyond_float64_is_an_error():
    with pytest.raises(RopewalkError, match="leaves float64"):
        tables(rope(8, 1e-100), [1e300])
    with pytest.raises(RopewalkError, match="leaves float64"):
        rotate(random(1, 2, 8), [1e300], rope(8, 1e-100))


def test_axes_by_seq_is_never_a_shape_of_positions():
    many = rope(16, 1e4, axes=Sections(sections=(4, 3, 1)))
    with pytest.raises(RopewalkError, match=r"position_ids \[3, 5\] do not fit x \[5, 2, 16\]"):
        rotate(random(5, 2, 16), np.zeros((3, 5), int), many)


class Unseen:
    """Like a torch tensor that NumPy cannot take: one that needs a gradient, is bfloat16, or lies on a GPU."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("requires grad"), TypeError("bfloat16")])
def test_tensors_that_numpy_cannot_take_say_what_to_do(error):
    for x, ids in ((Unseen(error), [1, 2]), (random(2, 3, 8), Unseen(error))):
        with pytest.raises(RopewalkError, match="detached, on the CPU and not bfloat16"):
            rotate(x, ids, rope())


# -- length


GROWING = rope(96, 5e4, scaling=Dynamic(factor=3), max_position_embeddings=3072)


@pytest.mark.parametrize(
    "call",
    [
        lambda **rest: tables(GROWING, [1], **rest),
        lambda **rest: rotate(random(1, 2, 96), [1], GROWING, **rest),
        lambda **rest: score(random(96), random(96), 1, 2, GROWING, **rest),
        lambda **rest: score_from_distance(random(96), random(96), 1, GROWING, **rest),
    ],
)
def test_a_length_dependent_rope_needs_a_length(call):
    with pytest.raises(RopewalkError, match="dynamic scaling depends on the length of the sequence: pass length="):
        call()
    call(length=10)
    call(length=np.int64(10))
    call(length=np.array(10))
    for bad in (-1, 2.5, True, "10", [[1], [2]], [], float("nan"), [1, [2]]):
        with pytest.raises(RopewalkError, match="length must be"):
            call(length=bad)


def test_lengths_must_be_one_a_row():
    x = random(3, 4, 2, 96)
    for lengths in ([10], [10, 20], [10, 20, 30, 40]):
        with pytest.raises(RopewalkError, match=rf"got {len(lengths)} lengths for x \[3, 4, 2, 96\]"):
            rotate(x, [1, 2, 3, 4], GROWING, length=lengths)
    with pytest.raises(RopewalkError, match="one a row"):
        rotate(x[0], [1, 2, 3, 4], GROWING, length=[10])
    with pytest.raises(RopewalkError, match="got 2 for 3 rows"):
        tables(GROWING, np.zeros((3, 4)), length=[10, 20])
    with pytest.raises(RopewalkError, match="one whole number"):
        score_from_distance(random(96), random(96), 1, GROWING, length=[10])


def test_a_list_of_one_length_keeps_the_batch():
    ids = np.arange(4)[None]
    assert tables(GROWING, ids, length=[7000])[0].shape == (1, 4, 48)
    x = random(1, 4, 2, 96)
    found = rotate(x, ids, GROWING, length=[7000])
    assert (found == rotate(x, ids, GROWING, length=7000)).all()


def test_a_length_changes_nothing_elsewhere():
    x = random(2, 4, 3, 8)
    assert (rotate(x, [0, 1, 2, 3], rope(), length=[5, 10**6]) == rotate(x, [0, 1, 2, 3], rope())).all()
