"""Meta's complex form, against naive float64 and against the formula of Meta's own code."""

import numpy as np
import pytest

from ropewalk import Ladders, Rope, RopewalkError, read
from ropewalk.scaling import Dynamic, Llama3
from ropewalk.turning.naive import rotate, tables

torch = pytest.importorskip("torch")
from ropewalk.compat.meta import apply_rotary_emb, freqs_cis, precompute_freqs_cis  # noqa: E402


def random(*shape, dtype=torch.float32, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def complex_product(x, cis):
    """Meta's own way: adjacent channels as complex numbers, times the table."""
    pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * cis[..., :, None, :].to(torch.complex128)).flatten(-2)


def test_the_table_holds_float64_angles_rounded_once():
    cis = precompute_freqs_cis(128, 70_000, theta=500000.0)
    assert cis.shape == (70_000, 64) and cis.dtype == torch.complex64
    rope = Rope(head_dim=128, rope_theta=500000.0, pairing="interleaved")
    rows = [0, 1, 4095, 16_383, 16_384, 65_537, 69_999]
    cos, sin = tables(rope, rows)
    assert np.abs(cis.real[rows].double().numpy() - cos).max() < 3.1e-8
    assert np.abs(cis.imag[rows].double().numpy() - sin).max() < 3.1e-8


@pytest.mark.parametrize("numbers", [{}, {"scale_factor": 32.0}, {"scale_factor": 16.0, "high_freq_factor": 1.0}])
def test_scaled_tables_are_those_of_llama3_scaling(numbers):
    cis = precompute_freqs_cis(128, 9000, 500000.0, True, **numbers)
    scaling = Llama3(
        factor=numbers.get("scale_factor", 8.0),
        low_freq_factor=1.0,
        high_freq_factor=numbers.get("high_freq_factor", 4.0),
        original_max_position_embeddings=8192,
    )
    cos, _ = tables(Rope(head_dim=128, rope_theta=500000.0, pairing="interleaved", scaling=scaling), [8999])
    assert np.abs(cis.real[8999].double().numpy() - cos[0]).max() < 3.1e-8


def test_scaled_tables_are_those_of_llama_3_1_itself():
    cos, sin = tables(read("llama-3.1-8b").rope, [4095])
    cis = precompute_freqs_cis(128, 4096, 500000.0, use_scaled=True)[4095]
    assert np.abs(cis.real.double().numpy() - cos).max() < 3.1e-8
    assert np.abs(cis.imag.double().numpy() - sin).max() < 3.1e-8


def test_the_table_does_not_depend_on_the_default_dtype_or_device():
    plain = precompute_freqs_cis(48, 100, theta=30000.0)
    for dtype in (torch.bfloat16, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            assert torch.equal(precompute_freqs_cis(48, 100, theta=30000.0), plain)
        finally:
            torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert torch.equal(precompute_freqs_cis(48, 100, theta=30000.0), plain)
    assert precompute_freqs_cis(48, 100, theta=30000.0, device="meta").is_meta


@pytest.mark.parametrize("width", [6, 10, 48, 96])
def test_queries_and_keys_turn_interleaved_with_heads_of_their_own(width):
    rope = Rope(head_dim=width, rope_theta=10000.0, pairing="interleaved")
    start = 1021
    q, k = random(2, 5, 6, width), random(2, 5, 2, width, seed=4)
    cis = precompute_freqs_cis(width, 2048)[start : start + 5]
    for x, y in zip((q, k), apply_rotary_emb(q, k, cis), strict=True):
        assert np.abs(y.numpy() - rotate(x.numpy(), start + np.arange(5), rope)).max() < 1e-6
        assert (y.double() - complex_product(x, cis)).abs().max() < 1e-6


def test_rows_of_their_own_for_each_sequence():
    rope = Rope(head_dim=10, rope_theta=10000.0, pairing="interleaved")
    ids = torch.tensor([[7, 8, 9], [0, 900, 3]])
    q, k = random(2, 3, 6, 10), random(2, 3, 2, 10, seed=4)
    cis = precompute_freqs_cis(10, 1024)
    q_out, k_out = apply_rotary_emb(q, k, cis[ids])
    assert np.abs(q_out.numpy() - rotate(q.numpy(), ids.numpy(), rope)).max() < 1e-6
    assert np.abs(k_out.numpy() - rotate(k.numpy(), ids.numpy(), rope)).max() < 1e-6
    one_row = apply_rotary_emb(q, k, cis[ids[:1]])
    assert np.abs(one_row[0].numpy() - rotate(q.numpy(), ids[0].numpy(), rope)).max() < 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half, torch.float64])
def test_the_dtype_is_kept_and_rounded_once(dtype):
    rope = Rope(head_dim=64, rope_theta=500000.0, pairing="interleaved")
    q = random(1, 2, 3, 64, dtype=dtype)
    out, _ = apply_rotary_emb(q, q, precompute_freqs_cis(64, 8002, 500000.0)[8000:])
    exact = torch.from_numpy(rotate(q.double().numpy(), [8000, 8001], rope))
    assert out.dtype == dtype
    assert ((out.double() - exact).abs() <= exact.abs() * torch.finfo(dtype).eps / 2 * 1.01 + 4e-7).all()


def test_differentiable_twice():
    cis = precompute_freqs_cis(6, 9)[[8, 3]].to(torch.complex128)
    q, k = (random(1, 2, heads, 6, dtype=torch.float64).requires_grad_() for heads in (3, 2))
    assert torch.autograd.gradcheck(lambda q, k: apply_rotary_emb(q, k, cis), (q, k))
    assert torch.autograd.gradgradcheck(lambda q, k: apply_rotary_emb(q, k, cis), (q, k))


def test_the_factor_on_cos_and_sin_is_in_the_table_of_a_rope():
    rope = read("gpt-oss-20b").rope.replace(pairing="interleaved")
    cos, _ = tables(rope, [100])
    assert rope.pairs().cos_sin_factor > 1.3
    assert np.abs(freqs_cis(rope, 101).real[100].double().numpy() - cos[0]).max() < 6e-8


def test_nan_and_infinity_stay_in_their_own_pair():
    q = random(1, 1, 1, 8)
    q[..., 2], q[..., 5] = float("nan"), float("inf")
    out, _ = apply_rotary_emb(q, q, precompute_freqs_cis(8, 4)[3:])
    assert out[..., [0, 1, 6, 7]].isfinite().all() and not out[..., [2, 3, 4, 5]].isfinite().any()


@pytest.mark.parametrize(
    ("rope", "told"),
    [
        (Rope(head_dim=8, rope_theta=10000.0, pairing="half"), "pairing is 'half'"),
        (Rope(head_dim=8, rotary_dim=4, rope_theta=10000.0, pairing="interleaved"), "4 of 8"),
        (Rope(head_dim=8, rotary_start=4, rope_theta=10000.0, pairing="interleaved"), r"from channel 0 on"),
        (
            Rope(
                head_dim=8,
                rope_theta=10000.0,
                pairing="interleaved",
                axes=Ladders(widths=(4, 4), pairing_within="axis"),
            ),
            "2 axes",
        ),
        (Rope(head_dim=8, rope_theta=10000.0, pairing="hybrid_tile"), "hybrid_tile"),
        (
            Rope(
                head_dim=8,
                rope_theta=10000.0,
                pairing="interleaved",
                scaling=Dynamic(factor=2.0),
                max_position_embeddings=16,
            ),
            "dynamic.*length=",
        ),
        (None, "needs a Rope"),
    ],
)
def test_ropes_that_complex_numbers_cannot_say_are_refused(rope, told):
    with pytest.raises(RopewalkError, match=told):
        freqs_cis(rope, 4)


def test_dynamic_scaling_takes_the_length_that_is_given():
    rope = Rope(
        head_dim=8, rope_theta=10000.0, pairing="interleaved", scaling=Dynamic(factor=2.0), max_position_embeddings=16
    )
    cos, _ = tables(rope, [39], length=40)
    assert np.abs(freqs_cis(rope, 40, length=40).real[39].double().numpy() - cos[0]).max() < 3.1e-8


X, CIS = torch.zeros(2, 3, 4, 8), precompute_freqs_cis(8, 3)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((X, X, CIS[:2]), r"\[seq=3, head_dim/2=4\].*got \[2, 4\]"),
        ((X, X, precompute_freqs_cis(6, 3)), r"got \[3, 3\]"),
        ((X, X[..., :6], CIS), r"head_dim/2=3"),
        ((X[0], X[0], CIS), r"got shape \[3, 4, 8\]"),
        ((X, X, CIS.real), "complex"),
        ((X, X, None), "complex"),
        ((X.int(), X, CIS), "xq must be a torch tensor of floating"),
        ((X, X.numpy(), CIS), "xk must be a torch tensor of floating.*ndarray"),
        ((X, X, CIS.expand(5, 3, 4)), r"got \[5, 3, 4\]"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_numbers(arguments, told):
    with pytest.raises(RopewalkError, match=told):
        apply_rotary_emb(*arguments)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [((7, 4), "even"), ((8, -1), "max_position"), ((8, 4, 0.0), "rope_theta"), ((8, 2**40), "GiB")],
)
def test_numbers_out_of_range_are_refused(arguments, told):
    with pytest.raises(RopewalkError, match=told):
        precompute_freqs_cis(*arguments)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.float32])
def test_autocast_changes_nothing(dtype):
    q = random(1, 2, 3, 8, dtype=dtype)
    plain = apply_rotary_emb(q, q, precompute_freqs_cis(8, 2))[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(apply_rotary_emb(q, q, precompute_freqs_cis(8, 2))[0], plain)
