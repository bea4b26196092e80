"""rotate and rotate_qk in torch: modes, versions of memory, kinds of tensors, devices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ropewalk import RopewalkError, rotate, rotate_qk

from ._cases import ROPES, assert_turned, open_road, positions, random, rope, truth

torch = pytest.importorskip("torch")
IDS = torch.tensor([[0, 5, 1024, -70_001], [3, 3, 2**24 + 1, 9]])


@pytest.fixture(params=["torch-kernel", "torch-plain"], autouse=True)
def by(request):
    """Each test runs with the kernel and without it, in deterministic mode, where fresh memory is NaN (F007)."""
    with open_road(request.param) as road:
        yield road


def tensor(*shape, dtype=torch.float32, seed=5, **rest):
    return torch.from_numpy(random(*shape, seed=seed)).to(dtype).requires_grad_(rest.get("requires_grad", False))


def wide(one):
    return one.detach().double().numpy()


# -- modes


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_without_gradients(mode):
    x = tensor(2, 4, 3, 96, requires_grad=True)
    with mode():
        found = rotate(x, IDS, ROPES["half"])
    assert not found.requires_grad
    assert torch.equal(found, rotate(x.detach(), IDS, ROPES["half"]))
    with mode():
        again = rotate(x.detach() * 1, IDS, ROPES["half"], out=torch.full((2, 4, 3, 96), torch.nan))
    assert torch.equal(again, found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_f006_autocast_changes_nothing(dtype):
    x = tensor(2, 4, 3, 96, dtype=dtype, requires_grad=True)
    outside = rotate(x, IDS, ROPES["half"])
    outside.sum().backward()
    grad, x.grad = x.grad, None
    for inner in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=inner):
            inside = rotate(x, IDS, ROPES["half"])
            inside.sum().backward()
        assert inside.dtype == dtype
        assert torch.equal(inside, outside) and torch.equal(x.grad, grad)
        x.grad = None


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float64, torch.float16])
def test_f008_the_default_dtype_changes_nothing(default):
    description = rope(96, theta=1e4 + int(torch.finfo(default).bits) + (default == torch.bfloat16))  # a table unseen
    x = tensor(2, 4, 3, 96)
    torch.set_default_dtype(default)
    try:
        found = rotate(x, IDS, description)
        fractional = rotate(x, IDS.double() / 3, description)
    finally:
        torch.set_default_dtype(torch.float32)
    assert_turned(wide(found), wide(x), IDS.numpy(), description, "float32")
    assert_turned(wide(fractional), wide(x), IDS.numpy() / 3, description, "float32")


def test_threads_share_one_tensor():
    description = ROPES["interleaved"]
    x, ids = tensor(1, 1000, 9, 128), np.arange(1000) * 977
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            assert_turned(wide(rotate(x, torch.as_tensor(ids), description)), wide(x), ids, description, "float32")
    finally:
        torch.set_num_threads(threads)


# -- in place


def test_out_marks_its_memory_as_changed():
    weight = tensor(2, 4, 3, 96, requires_grad=True)
    x = tensor(2, 4, 3, 96)
    product = (weight * x).sum()  # saves x
    rotate(x, IDS, ROPES["half"], out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    q, k, version = tensor(2, 4, 3, 96), tensor(2, 4, 3, 96), 0
    out = (torch.empty_like(q), torch.empty_like(k))
    version = [one._version for one in out]
    rotate_qk(q, k, IDS, ROPES["half"], out=out)
    assert all(one._version > before for one, before in zip(out, version, strict=True))


def test_out_with_gradients_to_keep_is_refused():
    leaf, plain = tensor(2, 4, 3, 96, requires_grad=True), tensor(2, 4, 3, 96)
    before = plain.clone()
    for x, out in ((leaf, leaf), (leaf, plain), (leaf * 1, plain), (plain, leaf)):
        with pytest.raises(RopewalkError, match="grad"):
            rotate(x, IDS, ROPES["half"], out=out)
        with pytest.raises(RopewalkError, match="grad"):
            rotate_qk(plain, x, IDS, ROPES["half"], out=(torch.empty_like(plain), out))
    assert torch.equal(plain, before)
    with torch.no_grad():
        assert torch.equal(
            rotate(leaf, IDS, ROPES["half"], out=torch.empty_like(plain)), rotate(plain, IDS, ROPES["half"])
        )


# -- kinds of tensors


def test_parameters_give_tensors():
    found = rotate(torch.nn.Parameter(tensor(2, 4, 3, 96)), IDS, ROPES["half"])
    assert type(found) is torch.Tensor and found.requires_grad


def test_lazily_negated_tensors_turn_as_what_they_mean():
    x = torch.complex(tensor(2, 4, 3, 96), tensor(2, 4, 3, 96, seed=6)).conj().imag
    assert x.is_neg()
    assert_turned(wide(rotate(x, IDS, ROPES["half"])), wide(x), IDS.numpy(), ROPES["half"], "float32")
    for one in rotate_qk(x, x, IDS, ROPES["half"]):
        assert_turned(wide(one), wide(x), IDS.numpy(), ROPES["half"], "float32")


def test_meta_tensors_give_meta_tensors():
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.empty(2, 4, 3, 96, dtype=dtype, device="meta")
        for ids in (torch.empty(4, dtype=torch.int64, device="meta"), torch.empty(2, 4, device="meta")):
            found = rotate(x, ids, ROPES["half"])
            assert (found.shape, found.dtype, found.device.type) == (x.shape, dtype, "meta")


def test_sparse_tensors_are_refused():
    with pytest.raises(RopewalkError, match=r"sparse|strided|dense"):
        rotate(tensor(2, 4, 3, 96).to_sparse(), IDS, ROPES["half"])


# -- devices without float64


@pytest.mark.parametrize("kind", ["half", "interleaved", "yarn", "mrope-interleaved", "hybrid", "backward"])
def test_f701_a_device_without_float64_stays_near_the_truth(kind, monkeypatch):
    from ropewalk.turning import kernel, torch_ops

    monkeypatch.setattr(kernel, "module", None)
    monkeypatch.setattr(torch_ops, "WITHOUT_FLOAT64", ("cpu",))
    description = ROPES[kind]
    x = tensor(2, 4, 3, description.head_dim)
    ids = torch.as_tensor(positions(description, 2, 4))
    for given in (ids, ids.int(), -ids, ids % 3 + 2**30 - 3):
        found = rotate(x, given, description)
        expected = truth(wide(x), given.numpy(), description)
        assert found.dtype == torch.float32
        assert_allclose(wide(found), expected, rtol=0, atol=5e-6)


def test_positions_left_out_are_refused_and_not_counted_in_silence():
    x = torch.ones(1, 3, 2, 8)
    with pytest.raises(RopewalkError, match="position_ids must be given"):
        rotate(x, None, rope(8))
    with pytest.raises(RopewalkError, match="position_ids must be given"):
        rotate_qk(x, x, None, rope(8))


def test_a_key_left_out_is_one_clear_error():
    from ropewalk.torch import Rotary

    with pytest.raises(RopewalkError, match="k must be a torch tensor"):
        Rotary(rope(8))(torch.ones(1, 3, 2, 8), None)
