"""Turning by plain torch operations: the way on devices without a kernel, acted out here on the CPU."""

import numpy as np
import pytest

from ropewalk import Ladders, Rope, Sections
from ropewalk.scaling import Yarn
from ropewalk.turning import naive

torch = pytest.importorskip("torch")
torch_ops = pytest.importorskip("ropewalk.turning.torch_ops")

ROPES = {
    "half": Rope(head_dim=96, rope_theta=5e5, pairing="half"),
    "interleaved": Rope(head_dim=48, rope_theta=1e4, pairing="interleaved"),
    "partial tail": Rope(head_dim=40, rotary_dim=10, rotary_start=30, rope_theta=1e4, pairing="half"),
    "factor": Rope(
        head_dim=64, rope_theta=1e4, pairing="half", scaling=Yarn(factor=8.0, original_max_position_embeddings=512)
    ),
    "M-RoPE": Rope(
        head_dim=40, rope_theta=3e5, pairing="half", axes=Sections(sections=(10, 6, 4), arrangement="interleaved")
    ),
    "blocks": Rope(head_dim=32, rope_theta=1e4, pairing="half", axes=Ladders(widths=(16, 16), pairing_within="axis")),
    "two angles": Rope(head_dim=24, rope_theta=1e4, pairing="hybrid_tile"),
}


def recipe(rope):
    return torch_ops.recipe_of(rope)


def vectors(rope, batch=2, seq=9, heads=3):
    return torch.from_numpy(np.random.default_rng(1).standard_normal((batch, seq, heads, rope.head_dim)))


def ids_for(rope, reach, batch=2, seq=9):
    axes = rope.axes.num_axes
    shape = (batch, seq) if axes == 1 else (axes, batch, seq)
    return torch.from_numpy(np.random.default_rng(2).integers(-reach, reach, shape))


@pytest.fixture
def no_float64(monkeypatch):
    """Make the CPU a device without float64, as Apple's GPUs are: any use of it there is an error."""
    monkeypatch.setattr(torch_ops, "WITHOUT_FLOAT64", ("cpu",))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("name", ROPES)
def test_operations_turn_as_the_truth_does(name, inverse):
    rope = ROPES[name]
    x, ids = vectors(rope), ids_for(rope, 3_000_000)
    expected = naive.rotate(x.numpy(), ids.numpy(), rope, inverse=inverse)
    got = torch_ops.turn(x, ids, recipe(rope), inverse=inverse)
    # the inverse of a map of two angles divides by a determinant that may be small
    assert np.allclose(got.numpy(), expected, rtol=1e-8 if name == "two angles" else 1e-12, atol=1e-12)
    if name != "two angles":
        single = torch_ops.turn(x.float(), ids, recipe(rope), inverse=inverse)
        assert np.abs(single.numpy() - expected).max() < 2e-6


@pytest.mark.parametrize("name", ROPES)
def test_a_device_without_float64_is_exact_at_any_position_below_2_to_the_30(no_float64, name):
    rope = ROPES[name]
    x, ids = vectors(rope).float(), ids_for(rope, 2**30)
    cos, sin = torch_ops.cos_sin(ids, recipe(rope))
    assert cos.dtype == sin.dtype == torch.float32
    expected = naive.rotate(x.double().numpy(), ids.numpy(), rope)
    got = torch_ops.turn(x, ids, recipe(rope))
    # three products of float32 entries, each entry off by 2^-24: about 3e-7 for a cosine, whatever the position
    assert np.abs(got.numpy() - expected).max() < 4e-7 * np.abs(expected).max() * 2


def test_a_device_without_float64_never_turns_by_a_wrong_far_position(no_float64):
    rope = ROPES["half"]
    cos, sin = torch_ops.cos_sin(torch.tensor([5, 2**30, -(2**31)]), recipe(rope))
    assert torch.isfinite(cos[0]).all()
    assert torch.isnan(cos[1:]).all() and torch.isnan(sin[1:]).all()


def test_a_device_without_float64_has_fractions_worked_out_on_the_cpu(monkeypatch):
    rope, asked = ROPES["half"], []
    ids = torch.tensor([0.25, 1000.5, 1e7 + 0.5], dtype=torch.float64)
    expected = naive.tables(rope, ids.numpy())
    real = torch.Tensor.cpu
    monkeypatch.setattr(torch_ops, "WITHOUT_FLOAT64", ("cpu",))

    def to_cpu(tensor):
        asked.append(tensor.shape)
        monkeypatch.setattr(torch_ops, "WITHOUT_FLOAT64", ())
        return real(tensor)

    monkeypatch.setattr(torch.Tensor, "cpu", to_cpu)
    cos, sin = torch_ops.cos_sin(ids, recipe(rope))
    assert asked
    assert cos.dtype == torch.float32
    assert np.abs(cos.numpy() - expected[0]).max() < 1e-7
    assert np.abs(sin.numpy() - expected[1]).max() < 1e-7


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32_and_rounded_once(dtype):
    rope = ROPES["half"]
    x = vectors(rope, seq=40).to(dtype)
    ids = torch.arange(40) * 1000
    exact = naive.rotate(x.double().numpy(), ids.numpy(), rope)
    got = torch_ops.turn(x, ids, recipe(rope))
    assert got.dtype == dtype
    rounded = torch.from_numpy(exact).float().to(dtype)
    assert (got != rounded).float().mean() < 2e-3


def test_heads_first_is_the_same_turn():
    rope = ROPES["interleaved"]
    x, ids = vectors(rope), ids_for(rope, 500)
    other = torch_ops.turn(x.transpose(1, 2), ids, recipe(rope), layout="bhsd")
    assert torch.equal(other.transpose(1, 2), torch_ops.turn(x, ids, recipe(rope)))


def test_constants_are_kept_but_not_those_made_while_something_watches():
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    rope = Rope(head_dim=20, rope_theta=321.0, pairing="half")
    with FakeTensorMode():
        made = torch_ops.turn(torch.ones(1, 2, 1, 20), torch.arange(2), recipe(rope))
        assert isinstance(made, FakeTensor)
    with torch.inference_mode():
        torch_ops.turn(torch.ones(1, 2, 1, 20), torch.arange(2), recipe(rope))
    x = torch.ones(1, 2, 1, 20, requires_grad=True)
    torch_ops.turn(x, torch.arange(2), recipe(rope)).sum().backward()
    assert x.grad is not None and not isinstance(x.grad, FakeTensor)
