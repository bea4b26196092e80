"""The gate: right results pass in every type, and each kind of wrong one is seen."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ropewalk import Rope, rotate  # noqa: E402
from ropewalk.bench.parity import FEW, ROUNDING, Precision, Truth  # noqa: E402
from ropewalk.turning import naive  # noqa: E402

DTYPES = list(ROUNDING)


def made(dtype="float32", pairing="half", *, batch=2, seq=50, heads=6, kv=2, width=96, theta=5e5, start=0):
    generator = torch.Generator().manual_seed(1)
    kind = getattr(torch, dtype)
    q = torch.randn(batch, seq, heads, width, generator=generator).to(kind)
    k = torch.randn(batch, seq, kv, width, generator=generator).to(kind)
    ids = torch.arange(start, start + seq).expand(batch, -1).contiguous()
    return Rope(head_dim=width, rope_theta=theta, pairing=pairing), ids, (q, k)


def right(rope, ids, tensors, **options):
    """The truth, rounded once to the tensors' type."""
    return [
        torch.from_numpy(naive.rotate(x.double().numpy(), ids.numpy(), rope, **options)).to(x.dtype) for x in tensors
    ]


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_truth_rounded_once_passes(dtype, pairing):
    rope, ids, tensors = made(dtype, pairing, start=100_000)
    parity = Truth(rope, ids, tensors).judge(right(rope, ids, tensors), Precision.exact(dtype))
    assert (parity.ok, parity.why) == (True, "")
    assert parity.share <= 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("steps", [1, 2])
def test_one_number_that_is_a_step_off_is_red(dtype, steps):
    rope, ids, tensors = made(dtype)
    results = right(rope, ids, tensors)
    largest = int(results[0].abs().argmax())
    results[0].view(torch.int16).view(-1)[largest] += steps  # away from 0, to the next number of the type
    parity = Truth(rope, ids, tensors).judge(results, Precision.exact(dtype))
    assert not parity.ok
    assert 1 < parity.share < 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_number_that_is_some_roundings_off_is_red(dtype):
    rope, ids, tensors = made(dtype)
    results = right(rope, ids, tensors)
    results[0].view(-1)[int(results[0].abs().argmax())] *= 1 + 40 * ROUNDING[dtype]
    parity = Truth(rope, ids, tensors).judge(results, Precision.exact(dtype))
    assert not parity.ok
    assert 1 < parity.share < 40


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "change",
    [{"rope_theta": 4.9e5}, {"pairing": "interleaved"}, {"direction": -1}],
    ids=lambda change: next(iter(change)),
)
def test_another_rope_is_red(dtype, change):
    rope, ids, tensors = made(dtype)
    wrong = right(rope.replace(**change), ids, tensors)
    for precision in (
        Precision.exact(dtype),
        Precision.float32_angles(dtype, rope.rope_theta, table=dtype, arithmetic=dtype),
    ):
        parity = Truth(rope, ids, tensors).judge(wrong, precision)
        assert not parity.ok
        assert "times what its precision allows" in parity.why


def test_positions_off_by_one_are_red():
    rope, ids, tensors = made()
    assert not Truth(rope, ids, tensors).judge(right(rope, ids + 1, tensors), Precision.exact("float32")).ok


def test_arithmetic_in_bfloat16_is_red_for_who_states_float32():
    rope, ids, tensors = made("bfloat16")
    cos, sin = (torch.from_numpy(part)[None, :, None] for part in naive.tables(rope, ids[0].numpy()))
    cos, sin = (torch.cat((part, part), dim=-1).to(torch.bfloat16) for part in (cos, sin))
    crude = []
    for x in tensors:
        a, b = x.chunk(2, dim=-1)
        crude.append(x * cos + torch.cat((-b, a), dim=-1) * sin)
    truth = Truth(rope, ids, tensors)
    assert not truth.judge(crude, Precision.exact("bfloat16")).ok
    stated = Precision.float32_angles("bfloat16", rope.rope_theta, table="bfloat16", arithmetic="bfloat16")
    assert truth.judge(crude, stated).ok


@pytest.mark.parametrize("width", [64, 96])
@pytest.mark.parametrize("theta", [1e4, 5e5, 1e7])
def test_float32_angles_are_red_far_out_for_who_states_exact_ones(theta, width):
    rope, ids, tensors = made(theta=theta, width=width, start=4000)
    exponents = torch.arange(0, width, 2, dtype=torch.float32) / width
    angles = ids[..., None, None].float() * (1.0 / theta**exponents)
    cos, sin = angles.cos().double(), angles.sin().double()
    turned = []
    for x in tensors:
        a, b = x.double().chunk(2, dim=-1)
        turned.append(torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).float())
    truth = Truth(rope, ids, tensors)
    assert not truth.judge(turned, Precision.exact("float32")).ok
    parity = truth.judge(turned, Precision.float32_angles("float32", theta, table="float32", arithmetic="float32"))
    assert parity.ok
    assert parity.share > 0.02  # nor is the tolerance so wide that fifty times this error would pass


@pytest.mark.parametrize("token", [1, 31, 61 * 5, FEW + 99])
def test_a_single_wrong_number_is_seen_near_the_start_and_at_the_end_of_a_long_sequence(token):
    rope, ids, tensors = made(batch=1, seq=FEW + 100, heads=2, kv=1, width=8)
    results = right(rope, ids, tensors)
    results[1][0, token, 0, 3] += 0.01
    assert not Truth(rope, ids, tensors).judge(results, Precision.exact("float32")).ok


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_finite_number_is_red(bad):
    rope, ids, tensors = made()
    results = right(rope, ids, tensors)
    results[0][1, 7, 5, 95] = bad
    assert "NaN" in Truth(rope, ids, tensors).judge(results, Precision.exact("float32")).why


def test_another_shape_type_or_number_of_results_is_red():
    rope, ids, tensors = made()
    truth, (q, k) = Truth(rope, ids, tensors), right(rope, ids, tensors)
    exact = Precision.exact("float32")
    assert truth.judge((q, k), exact).ok
    assert "[2, 50, 6, 96]" in truth.judge((q[:1], k), exact).why
    assert "float64" in truth.judge((q.double(), k), exact).why
    assert "ndarray" in truth.judge((q.numpy(), k), exact).why
    assert truth.judge((q,), exact).why == "2 tensors were expected"
    assert truth.judge(None, exact).why == "2 tensors were expected"


def test_gradients_are_turned_back_and_judged_too():
    rope, ids, tensors = made()
    generator = torch.Generator().manual_seed(3)
    grads = tuple(torch.randn(x.shape, generator=generator) for x in tensors)
    truth = Truth(rope, ids, tensors, grads)
    forward, exact = right(rope, ids, tensors), Precision.exact("float32")
    assert truth.judge((*forward, *right(rope, ids, grads, inverse=True)), exact).ok
    assert not truth.judge((*forward, *right(rope, ids, grads)), exact).ok  # turned onward


def test_inputs_that_were_written_to_are_noticed():
    rope, ids, (q, k) = made()
    truth = Truth(rope, ids, (q, k))
    assert truth.untouched((q, k))
    rotate(q, ids, rope, out=q)
    assert not truth.untouched((q, k))
