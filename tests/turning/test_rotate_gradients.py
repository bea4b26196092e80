"""Gradients through rotate and rotate_qk in torch: the transposed turn, what is saved for it, and transforms."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ropewalk import rotate, rotate_qk

from ._cases import ROPES, assert_turned, length_of, open_road, positions, random, transposed

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


# -- gradients


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "kind",
    ["half", "interleaved", "tail-interleaved", "odd-pass", "yarn", "yarn-small-factor", "longrope", "proportional",
     "mrope-partial-interleaved-pairs", "chatglm", "hybrid", "hybrid-yarn", "hybrid-3-axes"],
)  # fmt: skip
def test_the_gradient_is_turned_by_the_transpose(kind, dtype, inverse):
    description, length = ROPES[kind], length_of(ROPES[kind])
    ids = positions(description, 2, 4)
    x = tensor(2, 4, 3, description.head_dim, dtype=dtype, requires_grad=True)
    up = tensor(2, 4, 3, description.head_dim, dtype=dtype, seed=6)
    out = rotate(x, torch.as_tensor(ids), description, inverse=inverse, length=length)
    assert out.requires_grad and out.dtype == dtype
    out.backward(up)
    assert x.grad.dtype == dtype
    expected = transposed(wide(up), ids, description, inverse=inverse, length=length)
    relative = {torch.float32: 1e-6, torch.float64: 1e-8, torch.bfloat16: 2**-7, torch.float16: 2**-10}[dtype]
    assert_allclose(wide(x.grad), expected, rtol=0, atol=2 * relative * abs(expected).max())


@pytest.mark.parametrize("layout", ["bshd", "bhsd", "thd"])
def test_gradients_flow_through_queries_and_keys_of_every_layout(layout):
    description = ROPES["yarn-tail-interleaved"]
    q, k = (tensor(1, 4, heads, 96, seed=heads) for heads in (6, 2))
    place = {"bshd": lambda x: x, "bhsd": lambda x: x.transpose(1, 2), "thd": lambda x: x[0]}[layout]
    leaves = [place(one).contiguous().requires_grad_() for one in (q, k)]
    found = rotate_qk(*leaves, IDS[0], description, layout=layout)
    ups = [place(tensor(*one.shape, seed=one.shape[2] + 50)) for one in (q, k)]
    torch.autograd.backward(found, ups)
    for leaf, up in zip(leaves, ups, strict=True):
        grad, up = ((one.transpose(1, 2) if layout == "bhsd" else one) for one in (leaf.grad, up))
        grad, up = (one.reshape(1, 4, -1, 96) for one in (grad, up))
        assert_allclose(wide(grad), transposed(wide(up), IDS[0].numpy(), description), rtol=0, atol=3e-6)


def test_gradients_that_are_not_contiguous():
    description, ids = ROPES["half"], IDS.numpy()
    for up in (
        torch.tensor(1.0).expand(2, 4, 3, 96),  # what sum() sends back
        tensor(2, 3, 4, 96).transpose(1, 2),
        tensor(2, 4, 3, 192)[..., ::2],
        tensor(2, 4, 3, 192)[..., 96:],
        tensor(96, 4, 3, 2).permute(3, 1, 2, 0),
    ):
        x = tensor(2, 4, 3, 96, requires_grad=True)
        rotate(x, IDS, description).backward(up)
        assert_allclose(wide(x.grad), transposed(wide(up), ids, description), rtol=0, atol=3e-6)


def test_a_view_of_a_leaf_gets_its_gradient_and_the_rest_gets_zero():
    fused = tensor(2, 4, 3, 3 * 96, requires_grad=True)
    rotate(fused[..., 96:192], IDS, ROPES["half"]).sum().backward()
    expected = np.zeros((2, 4, 3, 3 * 96))
    expected[..., 96:192] = transposed(np.ones((2, 4, 3, 96)), IDS.numpy(), ROPES["half"])
    assert_allclose(wide(fused.grad), expected, rtol=0, atol=3e-6)


@pytest.mark.parametrize("kind", ["half", "yarn-tail-interleaved", "hybrid-yarn"])
def test_second_derivatives(kind):
    description = ROPES[kind]
    ids = torch.as_tensor(positions(description, 2, 4))
    x = tensor(2, 4, 3, description.head_dim, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(rotate(x, ids, description).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    y = rotate(x.detach(), ids, description).numpy()  # checked elsewhere
    of_ones = np.ones(y.shape)  # grad = Mᵀ 3y², its sum's gradient = Mᵀ (6y · M 1)
    inner = 6 * y * rotate(of_ones, ids.numpy(), description)
    assert_allclose(second.numpy(), transposed(inner, ids.numpy(), description), rtol=0, atol=1e-7)


def test_only_positions_are_saved_for_backward():
    q, k = tensor(2, 4, 6, 96, requires_grad=True), tensor(2, 4, 2, 96, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: saved.append(one) or one, lambda one: one):
        found = rotate_qk(q, k, IDS, ROPES["half"])
    assert all(one.dtype == IDS.dtype and one.numel() <= IDS.numel() for one in saved)
    torch.autograd.backward(found, [torch.ones_like(one) for one in found])
    assert q.grad is not None and k.grad is not None


def test_the_vectors_are_freed_before_backward():
    leaf = tensor(2, 4, 3, 96, requires_grad=True)
    x = leaf * 2
    seen = weakref.ref(x)
    out = rotate(x, IDS, ROPES["half"])
    del x
    gc.collect()
    assert seen() is None
    out.sum().backward()


def test_a_graph_may_be_walked_twice():
    x = tensor(2, 4, 3, 96, requires_grad=True)
    out = rotate(x, IDS, ROPES["half"]).sum()
    out.backward(retain_graph=True)
    once = x.grad.clone()
    out.backward()
    assert torch.equal(x.grad, 2 * once)


def test_gradients_do_not_depend_on_x_being_changed_later():
    x = tensor(2, 4, 3, 96, requires_grad=True)
    middle = x * 1
    out = rotate(middle, IDS, ROPES["half"])
    with torch.no_grad():
        middle.zero_()  # nothing of it was saved
    out.sum().backward()
    assert_allclose(wide(x.grad), transposed(np.ones(x.shape), IDS.numpy(), ROPES["half"]), rtol=0, atol=3e-6)


def test_positions_changed_before_backward_are_noticed():
    x, ids = tensor(2, 4, 3, 96, requires_grad=True), IDS.clone()
    out = rotate(x, ids, ROPES["half"]).sum()
    ids += 1  # the next step of decoding
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_only_what_requires_a_gradient_records_one():
    q, k = tensor(2, 4, 6, 96, requires_grad=True), tensor(2, 4, 2, 96)
    for pair in ((q, k), (k, q)):
        found = rotate_qk(*pair, IDS, ROPES["half"])
        assert [one.requires_grad for one in found] == [one.requires_grad for one in pair]


@pytest.mark.parametrize("kind", ["half", "interleaved", "yarn-tail-interleaved", "mrope-interleaved", "hybrid-yarn"])
def test_gradients_with_respect_to_float_positions(kind):
    description = ROPES[kind]
    table, axes = description.pairs(), description.axes.num_axes
    values = random(axes, 2, 3, seed=9) * 20
    ids = torch.tensor(values if axes > 1 else values[0], requires_grad=True)
    x, up = (random(2, 3, 4, description.head_dim, seed=seed) for seed in (5, 6))
    leaf = torch.tensor(x, requires_grad=True)
    out = rotate(leaf, ids, description)
    assert_turned(wide(out), x, ids.detach().numpy(), description, "float64")
    out.backward(torch.from_numpy(up))
    # d(g(a cos - b sin))/dm = -w g (a sin + b cos), d(g(b cos + a sin))/dm = w g (a cos - b sin)
    alpha, second = table.inv_freq, table.inv_freq if table.second_inv_freq is None else table.second_inv_freq
    a, b, u, v = (one[..., channels] for one in (x, up) for channels in (table.first, table.second))
    m = np.moveaxis(values[table.axis], 0, -1)[:, :, None]  # [B, S, 1, P]
    each = table.cos_sin_factor * (
        -u * alpha * (a * np.sin(m * alpha) + b * np.cos(m * alpha))
        + v * second * (a * np.cos(m * second) - b * np.sin(m * second))
    ).sum(2)
    expected = np.stack([each[..., table.axis == axis].sum(-1) for axis in range(axes)])
    assert_allclose(ids.grad.numpy(), expected if axes > 1 else expected[0], rtol=0, atol=1e-9)
    assert_allclose(wide(leaf.grad), transposed(up, ids.detach().numpy(), description), rtol=0, atol=1e-9)


# -- transforms


@pytest.mark.parametrize("kind", ["half", "yarn-tail-interleaved", "mrope-interleaved", "hybrid"])
def test_vmap_over_vectors_positions_and_both(kind):
    description = ROPES[kind]
    axes = description.axes.num_axes
    ids = torch.as_tensor(np.stack([positions(description, 2, 4, seed=seed) for seed in range(5)]))
    x = tensor(5, 2, 4, 3, description.head_dim)
    expected = torch.stack([rotate(x[n], ids[n], description) for n in range(5)])
    close = {"rtol": 0, "atol": 3e-6}
    torch.testing.assert_close(torch.vmap(lambda x, ids: rotate(x, ids, description))(x, ids), expected, **close)
    moved = torch.vmap(lambda x, ids: rotate(x, ids, description), in_dims=(2, axes and 0), out_dims=1)(
        x.movedim(0, 2), ids
    )
    torch.testing.assert_close(moved.movedim(1, 0), expected, **close)
    shared = torch.vmap(lambda x: rotate(x, ids[0], description))(x)
    torch.testing.assert_close(shared, torch.stack([rotate(one, ids[0], description) for one in x]), **close)
    swept = torch.vmap(lambda ids: rotate(x[0], ids, description))(ids)
    torch.testing.assert_close(swept, torch.stack([rotate(x[0], one, description) for one in ids]), **close)


@pytest.mark.parametrize("layout", ["bhsd", "thd"])
def test_vmap_in_other_layouts(layout):
    x, ids = tensor(5, 3, 4, 96) if layout == "thd" else tensor(5, 2, 4, 3, 96), IDS[0, :3]
    for given, in_dims in ((ids, (0, None)), (torch.stack([ids + n for n in range(5)]), (0, 0))):
        found = torch.vmap(lambda x, ids: rotate(x, ids, ROPES["half"], layout=layout), in_dims=in_dims)(x, given)
        rows = [given if in_dims[1] is None else given[n] for n in range(5)]
        alone = [rotate(one, row, ROPES["half"], layout=layout) for one, row in zip(x, rows, strict=True)]
        torch.testing.assert_close(found, torch.stack(alone), rtol=0, atol=3e-6)


def test_functional_gradients_and_per_sample_gradients():
    description, ids = ROPES["yarn-tail-interleaved"], IDS[0]
    x = tensor(4, 3, 96, dtype=torch.float64)

    def energy(x):
        return rotate(x, ids, description).pow(3).sum()

    y = rotate(x, ids, description).numpy()
    expected = transposed(3 * y**2, ids.numpy(), description)
    assert_allclose(torch.func.grad(energy)(x).numpy(), expected, rtol=0, atol=1e-7)
    batch = torch.stack([x, 2 * x, -x])
    per_sample = torch.vmap(torch.func.grad(energy))(batch)
    assert_allclose(per_sample.numpy(), np.stack([expected, 4 * expected, expected]), rtol=0, atol=4e-7)
    _, pull = torch.func.vjp(lambda x: rotate(x, ids, description), x)
    assert_allclose(
        pull(torch.ones_like(x))[0].numpy(), transposed(np.ones(x.shape), ids.numpy(), description), rtol=0, atol=1e-9
    )
