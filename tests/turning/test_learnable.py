"""Rotary(learnable=True): one parameter, whose gradient is that of finite differences in float64."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ropewalk.turning import naive

from . import _cases
from ._cases import ROPES, positions, rope

torch = pytest.importorskip("torch")
from ropewalk.torch import Rotary  # noqa: E402


def random(*shape, seed=5, dtype=torch.float32):
    return torch.from_numpy(_cases.random(*shape, seed=seed)).to(dtype)


def qk(description, dtype=torch.float32):
    return tuple(random(2, 5, heads, description.head_dim, seed=heads, dtype=dtype) for heads in (6, 2))


def wide(x):
    return x.detach().double().numpy()


def test_learnable_frequencies_are_one_parameter_that_starts_at_the_ropes():
    rotary = Rotary(ROPES["half"], learnable=True)
    ((_, parameter),) = rotary.named_parameters()
    assert parameter.requires_grad and parameter.shape == (48,)
    assert parameter.detach().double().numpy() == pytest.approx(ROPES["half"].pairs().inv_freq, rel=2**-23)
    assert len(rotary.state_dict()) == 1
    q, k = qk(ROPES["half"])
    ids = torch.tensor([0, 1, 7, 31, 100])
    for found, x in zip(rotary(q, k, ids), (q, k), strict=True):
        assert_allclose(wide(found), naive.rotate(wide(x), ids.numpy(), ROPES["half"]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["half", "yarn-tail-interleaved", "mrope-interleaved", "odd-pass"])
def test_the_gradient_of_learnable_frequencies(kind):
    description = ROPES[kind]
    table, ids = description.pairs(), torch.as_tensor(positions(description, 2, 5) % 90)
    rotary = Rotary(description, learnable=True).double()
    (parameter,) = rotary.parameters()
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(table.inv_freq.copy()))
    q, k = (x.requires_grad_() for x in qk(description, torch.float64))
    ups = [random(*x.shape, seed=seed, dtype=torch.float64) for seed, x in enumerate((q, k))]
    found = rotary(q, k, ids)
    for one, x in zip(found, (q, k), strict=True):
        assert_allclose(wide(one), naive.rotate(wide(x), ids.numpy(), description), rtol=0, atol=1e-11)
    torch.autograd.backward(found, ups)

    by_axis = ids.numpy() if ids.ndim == 3 else ids.numpy()[None]
    m = np.moveaxis(by_axis[table.axis], 0, -1)[:, :, None].astype(float)

    def loss(inv_freq):
        """The sum of ups times what turns, in NumPy."""
        total, cos, sin = 0.0, np.cos(m * inv_freq), np.sin(m * inv_freq)
        for x, up in zip((q, k), ups, strict=True):
            a, b, u, v = (wide(one)[..., channels] for one in (x, up) for channels in (table.first, table.second))
            total += table.cos_sin_factor * (u * (a * cos - b * sin) + v * (b * cos + a * sin)).sum()
        return total

    step = 1e-6
    for i in (0, 1, len(table) - 1):
        shift = np.zeros(len(table))
        shift[i] = step
        slope = (loss(table.inv_freq + shift) - loss(table.inv_freq - shift)) / (2 * step)
        assert parameter.grad[i].item() == pytest.approx(slope, rel=1e-5, abs=1e-4)
    assert q.grad is not None and k.grad is not None


def test_learnable_frequencies_are_trained():
    target, rotary = Rotary(rope(12, theta=500)), Rotary(rope(12, theta=600), learnable=True)
    q, k = qk(rope(12))
    expected = target(q, k)[0]
    optimizer = torch.optim.Adam(rotary.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (rotary(q, k)[0] - expected).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 20
