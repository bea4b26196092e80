"""The torch op: its meaning, opcheck, gradcheck, and tensors without data."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ropewalk import rotate

from ._cases import LENGTH, ROPES, assert_turned, length_of, positions, random, rope, transposed

torch = pytest.importorskip("torch")
import ropewalk.turning.op  # noqa: E402, F401

FLAGS = [(False, False), (False, True), (True, False), (True, True)]  # transpose, inverse


def turn(x, ids, description, *, length=(), layout="bshd", transpose=False, inverse=False):
    """The op, called as it is registered."""
    text = json.dumps(description.to_dict())
    return torch.ops.ropewalk.turn(x, ids, text, list(length), layout, transpose, inverse)


def tensor(*shape, dtype=torch.float64, seed=5, requires_grad=False):
    return torch.from_numpy(random(*shape, seed=seed)).to(dtype).requires_grad_(requires_grad)


def lengths_of(description):
    return [LENGTH] if description.length_dependent else []


# -- meaning


@pytest.mark.parametrize(("transpose", "inverse"), FLAGS)
@pytest.mark.parametrize("kind", ROPES)
def test_the_op_turns_by_each_of_its_flags(kind, transpose, inverse):
    description, length = ROPES[kind], length_of(ROPES[kind])
    x, ids = tensor(2, 5, 3, description.head_dim), positions(description, 2, 5)
    given = torch.as_tensor(ids)
    found = turn(x, given, description, length=lengths_of(description), transpose=transpose, inverse=inverse)
    if transpose:
        expected = transposed(x.numpy(), ids, description, inverse=inverse, length=length)
        assert_allclose(found.numpy(), expected, rtol=0, atol=1e-7)
    else:
        assert_turned(found.numpy(), x.numpy(), ids, description, "float64", inverse=inverse, length=length)


@pytest.mark.parametrize("layout", ["bshd", "bhsd", "thd"])
@pytest.mark.parametrize("kind", ["half", "mrope-interleaved"])
def test_no_positions_are_those_from_0_on(kind, layout):
    description = ROPES[kind]
    x = tensor(1, 6, 3, description.head_dim)
    placed = {"bshd": x, "bhsd": x.transpose(1, 2), "thd": x[0]}[layout]
    found = turn(placed, None, description, layout=layout)
    found = {"bshd": found, "bhsd": found.transpose(1, 2), "thd": found[None]}[layout]
    assert_turned(found.numpy(), x.numpy(), np.arange(6), description, "float64")


def test_one_length_a_row():
    description = ROPES["dynamic"]
    x, ids = tensor(3, 4, 2, 96), torch.tensor([0, 50, 700, 999])
    found = turn(x, ids, description, length=[10, 1000, 64])
    for row, length in enumerate((10, 1000, 64)):
        assert_turned(found[row].numpy(), x[row].numpy(), ids.numpy(), description, "float64", length=length)


def test_the_op_leaves_its_input_and_gives_memory_of_its_own():
    for description in (ROPES["half"], ROPES["proportional"]):
        x = tensor(2, 3, 2, description.head_dim)
        before = x.clone()
        found = turn(x, torch.zeros(3, dtype=torch.int64), description)
        assert torch.equal(found, x) and torch.equal(x, before) and found.data_ptr() != x.data_ptr()


# -- torch's own checks


def samples():
    ids, three = torch.tensor([[0, 5, 70_001], [9, 1023, -4]]), torch.randint(0, 99, (3, 2, 3))
    yield "float32", turn_args(tensor(2, 3, 4, 12, dtype=torch.float32, requires_grad=True), ids, rope(12))
    yield (
        "bfloat16 heads first",
        turn_args(
            tensor(2, 4, 3, 10, dtype=torch.bfloat16).transpose(1, 2).detach().requires_grad_(), ids, ROPES["tail-half"]
        ),
    )
    yield (
        "inverse and rows",
        turn_args(
            tensor(2, 3, 4, 12, requires_grad=True), ids, ROPES["longrope-mscale"], length=[10, 90], inverse=True
        ),
    )
    yield "packed, no positions", turn_args(tensor(5, 2, 6, dtype=torch.float16), None, rope(6, "interleaved"), "thd")
    yield "axes, transposed", turn_args(tensor(2, 4, 3, 40), three, ROPES["mrope-interleaved"], "bhsd", transpose=True)
    yield "fractions, no rotation", turn_args(tensor(2, 3, 1, 24, requires_grad=True), ids / 7, ROPES["hybrid"])


def turn_args(x, ids, description, layout="bshd", *, length=(), transpose=False, inverse=False):
    return x, ids, json.dumps(description.to_dict()), list(length), layout, transpose, inverse


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("args", [pytest.param(args, id=name) for name, args in samples()])
def test_opcheck(args):
    torch.library.opcheck(torch.ops.ropewalk.turn.default, args)


@pytest.mark.parametrize(("transpose", "inverse"), FLAGS)
@pytest.mark.parametrize(
    "description",
    [
        rope(6, theta=500),
        rope(6, "interleaved", 500),
        rope(10, rotary_dim=6, rotary_start=2, scaling=ROPES["yarn"].scaling),
        rope(7, "interleaved", odd="pass", direction=-1),
        rope(6, "hybrid_tile", 500),
    ],
    ids=["half", "interleaved", "partial-yarn", "odd", "hybrid"],
)
def test_gradcheck_and_gradgradcheck(description, transpose, inverse):
    x, ids = tensor(1, 3, 2, description.head_dim, requires_grad=True), torch.tensor([1, 3, 8])

    def turned(x):
        return turn(x, ids, description, transpose=transpose, inverse=inverse)

    assert torch.autograd.gradcheck(turned, x)
    assert torch.autograd.gradgradcheck(turned, x)


# -- tensors without data


@pytest.mark.parametrize("layout", ["bshd", "bhsd", "thd"])
def test_fake_tensors_keep_shape_and_type(layout):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.empty(2, 5, 3, 12, dtype=dtype).swapaxes(1, 2)
            x = x[0] if layout == "thd" else x
            ids = torch.arange(5 if layout == "bhsd" else 3)
            found = turn(x, ids, rope(12), layout=layout)
            assert (found.shape, found.dtype) == (x.shape, dtype)
            assert rotate(x, ids, rope(12), layout=layout).shape == x.shape
