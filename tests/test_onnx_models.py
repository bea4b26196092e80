"""ONNX: whole models, with ropes that depend on the length, tables shared by layers, older opsets, and the guide."""

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ropewalk
from ropewalk import Rope
from ropewalk.turning import naive

from ._onnx import (
    BATCH,
    GROWING,
    GROWING_TAIL,
    LONG,
    SEQ,
    SMALL,
    Rotary,
    face,
    feed,
    kinds,
    onnxruntime,
    session_of,
    torch,
)


class ByLength(torch.nn.Module):
    """Turns that depend on the length, which is that of the sequence, one that is fixed, or one a row."""

    def __init__(self) -> None:
        super().__init__()
        self.ropes = (LONG, GROWING, GROWING_TAIL)
        self.rotaries = torch.nn.ModuleList(Rotary(rope) for rope in self.ropes)

    def forward(self, xs, ids):
        outs = []
        for rotary, x in zip(self.rotaries, xs, strict=True):
            by_seq, _ = rotary(x, x, ids, length=x.shape[1])
            fixed, _ = rotary(x, x, ids, length=20)
            outs += [by_seq, fixed, ropewalk.rotate(x, ids, rotary.rope, length=[20, 3])]
        return outs


@pytest.fixture(scope="module")
def by_length() -> Any:
    xs = [torch.ones(2, 5, 3, rope.head_dim) for rope in (LONG, GROWING, GROWING_TAIL)]
    shapes = ([{1: SEQ}] * 3, {1: SEQ})
    program = face.export(ByLength().eval(), (xs, torch.arange(10).view(2, 5)), dynamic_shapes=shapes)
    return program, session_of(program)


@pytest.mark.parametrize("seq", [1, 8, 9, 40])
def test_a_rope_that_depends_on_the_length_is_right_on_both_sides_of_the_trained_one(by_length, seq):
    program, session = by_length
    assert kinds(program)["RotaryEmbedding"] == 6
    rng = np.random.default_rng(seq)
    ropes = (LONG, GROWING, GROWING_TAIL)
    xs = [rng.standard_normal((2, seq, 3, rope.head_dim)).astype(np.float32) for rope in ropes]
    ids = rng.integers(0, 100_000, (2, seq))
    outs = iter(feed(session, *xs, ids))
    for rope, x in zip(ropes, xs, strict=True):
        for length in (seq, 20, [20, 3]):
            np.testing.assert_allclose(next(outs), naive.rotate(x, ids, rope, length=length), rtol=0, atol=2e-6)


class Layer(torch.nn.Module):
    """Attention of 8 query and 2 key heads."""

    def __init__(self, rope: Rope) -> None:
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(32, heads * rope.head_dim) for heads in (8, 2, 2))
        self.rotary = Rotary(rope, layout="bhsd")

    def forward(self, x, position_ids):
        q, k, v = (one(x).unflatten(-1, (-1, 8)).transpose(1, 2) for one in (self.q, self.k, self.v))
        q, k = self.rotary(q, k, position_ids)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return x + out.transpose(1, 2).flatten(2)[..., :32]


class Stack(torch.nn.Module):
    """Three layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(SMALL) for _ in range(3))

    def forward(self, x, position_ids=None):
        for layer in self.layers:
            x = layer(x, position_ids)
        return x


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "position_ids"])
def test_all_layers_of_a_model_share_one_cos_and_sin(counted):
    torch.manual_seed(0)
    model = Stack().eval()
    ids = torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
    args = (torch.randn(2, 5, 32),) if counted else (torch.randn(2, 5, 32), ids)
    program = face.export(model, args, dynamic_shapes=({0: BATCH, 1: SEQ},) * len(args))
    found = kinds(program)
    assert (found["RotaryEmbedding"], found["Abs"], found["Range"]) == (6, 1, int(counted))
    tables = [one.dims for one in program.model_proto.graph.initializer if list(one.dims) == [1024, 4]]
    assert len(tables) == 6
    x, ids = torch.randn(3, 9, 32), torch.randint(0, 2**24, (3, 9))
    (out,) = feed(session_of(program), x.numpy(), *([] if counted else [ids.numpy()]))
    with torch.no_grad():
        expected = model(x, None if counted else ids)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)


def test_below_opset_23_plain_operators_stand_in(tmp_path):
    x, ids = torch.randn(2, 5, 6, 8), torch.tensor([[0, 3, 70_000, 9, 4], [1, 2, 3, 4, 5]])
    path = tmp_path / "rotary.onnx"
    program = face.export(Rotary(SMALL).eval(), (x, x[:, :, :2].clone(), ids), path, opset_version=18)
    assert {one.domain: one.version for one in program.model_proto.opset_import}[""] == 18
    assert kinds(program)["RotaryEmbedding"] == 0
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    q, k = feed(session, x.numpy(), x[:, :, :2].numpy(), ids.numpy())
    np.testing.assert_allclose(q, naive.rotate(x, ids, SMALL), rtol=0, atol=1e-6)
    np.testing.assert_allclose(k, naive.rotate(x[:, :, :2], ids, SMALL), rtol=0, atol=1e-6)


def test_learned_speeds_are_exported_as_they_are():
    rotary = Rotary(SMALL, learnable=True).eval()
    with torch.no_grad():
        rotary.inv_freq.mul_(1.5)
    x, ids = torch.randn(2, 5, 6, 8), torch.arange(10).view(2, 5)
    program = face.export(rotary, (x, x.clone(), ids))
    q, _ = feed(session_of(program), x.numpy(), x.numpy(), ids.numpy())
    np.testing.assert_allclose(q, naive.rotate(x, ids * 1.5, SMALL), rtol=0, atol=2e-6)


# torch 2.13 copies its own trees through a check that it has deprecated; export silences that, plain torch does not
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")
def test_the_examples_of_the_guide_run():
    guide = Path(__file__).parents[1] / "docs" / "onnx.md"
    failures, tries = doctest.testfile(str(guide), module_relative=False)
    assert tries > 10
    assert not failures
