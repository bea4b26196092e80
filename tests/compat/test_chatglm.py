"""ChatGLM-6B's PyTorch form, against naive float64 and against the lesson's numbers."""

import copy
import io
import pickle

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError, read
from ropewalk.turning.naive import rotate

torch = pytest.importorskip("torch")
from ropewalk.compat.chatglm import (  # noqa: E402
    RotaryEmbedding,
    apply_rotary_pos_emb_2d,
    apply_rotary_pos_emb_index,
    rotate_half,
)

ULP = {
    torch.half: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-52,
}  # half of one, at 1


def ladder(dim, base=10000.0):
    return base ** (-np.arange(0, dim, 2) / dim)


def angles(dim, seq, base=10000.0):
    return np.arange(seq)[:, None] * ladder(dim, base)


def random(*shape, dtype=torch.float32, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def turned(x, position_id, rope):
    """Float64 truth for x [S, B, H, D], position_id [S, B]."""
    by_row = rotate(x.double().transpose(0, 1).detach().numpy(), position_id.T.numpy(), rope)
    return np.swapaxes(by_row, 0, 1)


@pytest.mark.parametrize("precision", ULP)
@pytest.mark.parametrize(("dim", "base"), [(64, 10000), (10, 30000.5)])
def test_tables_are_float64_angles_rounded_once_to_the_precision(precision, dim, base):
    cos, sin = RotaryEmbedding(dim, base=base, precision=precision)(torch.zeros(1, 2048))
    assert cos.shape == sin.shape == (2048, 1, dim)
    assert cos.dtype == sin.dtype == precision
    for table, exact in ((cos, np.cos(angles(dim, 2048, base))), (sin, np.sin(angles(dim, 2048, base)))):
        doubled = np.concatenate([exact, exact], axis=-1)[:, None]
        assert np.abs(table.double().numpy() - doubled).max() <= ULP[precision] * 1.01 + 2.0**-53


def test_length_comes_from_x_along_seq_dim_or_from_seq_len():
    rotary = RotaryEmbedding(8)
    x = torch.zeros(5, 7, 3)
    assert rotary(x)[0].shape[0] == 7
    assert rotary(x, seq_dim=0)[0].shape[0] == 5
    assert rotary(x, seq_len=11)[0].shape[0] == 11
    assert rotary(x, seq_len=torch.tensor([[3, 9]]).max() + 1)[0].shape[0] == 10
    assert rotary(x, seq_len=0)[0].shape[0] == 0


def test_the_dtype_of_x_does_not_matter_and_a_grown_table_keeps_its_rows():
    rotary = RotaryEmbedding(48, precision=torch.float32)
    first = rotary(torch.zeros(1, 64, dtype=torch.bfloat16))[0].clone()
    grown = rotary(torch.zeros(1, 201, dtype=torch.bfloat16))[0]
    assert torch.equal(first, grown[:64])
    assert np.abs(grown[[64, 65, 200], 0, :24].numpy() - np.cos(angles(48, 201)[[64, 65, 200]])).max() < 6e-8


def test_shorter_lengths_are_slices_of_one_table(monkeypatch):
    rotary = RotaryEmbedding(8)
    built = []
    monkeypatch.setattr(rotary, "_exact", lambda rows, exact=rotary._exact: built.append(rows) or exact(rows))
    for seq in (*range(1, 1001), 50):
        assert rotary(torch.zeros(1, seq))[0].shape[0] == seq
    assert len(built) <= 5 and built[-1] < 2048


def test_no_state_and_no_harm_from_casts_meta_copies_and_pickles():
    exact = RotaryEmbedding(64, precision=torch.float32)(torch.zeros(1, 300))[0]
    rotary = RotaryEmbedding(64, precision=torch.float32)
    assert not rotary.state_dict() and not list(rotary.parameters()) and not list(rotary.buffers())
    with torch.device("meta"):
        on_meta = RotaryEmbedding(64, precision=torch.float32)
    variants = [
        rotary.to(torch.bfloat16),
        copy.deepcopy(rotary).half(),
        pickle.loads(pickle.dumps(rotary)),
        on_meta.to_empty(device="cpu"),
    ]
    for variant in variants:
        assert torch.equal(variant(torch.zeros(1, 300))[0], exact)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(rotary(torch.zeros(1, 300))[0], exact)


def test_pickle_holds_no_tables():
    rotary = RotaryEmbedding(64)
    before = len(pickle.dumps(rotary))
    rotary(torch.zeros(1, 4096))
    file = io.BytesIO()
    torch.save(rotary, file)
    assert len(pickle.dumps(rotary)) == before
    assert file.tell() < 20_000


def test_tables_follow_the_device_of_x():
    rotary = RotaryEmbedding(8)
    assert rotary(torch.zeros(1, 3))[0].device.type == "cpu"
    assert rotary(torch.zeros(1, 3, device="meta"))[0].device.type == "meta"
    assert rotary(torch.zeros(1, 3))[0].device.type == "cpu"


def test_a_table_made_while_inferring_serves_training():
    rotary = RotaryEmbedding(4, precision=torch.float32)
    with torch.inference_mode():
        rotary(torch.zeros(1, 3))
    q = torch.ones(3, 1, 4, requires_grad=True)
    cos, sin = rotary(torch.zeros(1, 3))
    (q * cos + rotate_half(q) * sin).sum().backward()  # keeps the tables themselves
    assert q.grad is not None


def test_learnable_frequencies_are_a_parameter_and_get_the_gradient_of_finite_differences():
    rotary = RotaryEmbedding(6, base=100, precision=torch.float64, learnable=True)
    assert list(rotary.state_dict()) == ["inv_freq"] and rotary.inv_freq.dtype == torch.float32
    assert np.abs(rotary.inv_freq.detach().numpy() - ladder(6, 100)).max() < 3e-8
    weights = random(5, 1, 6, dtype=torch.float64)
    cos, sin = rotary(torch.zeros(1, 5))
    ((cos + 2 * sin) * weights).sum().backward()
    half = weights[:, 0, :3].numpy() + weights[:, 0, 3:].numpy()
    m, w = np.arange(5)[:, None], rotary.inv_freq.detach().double().numpy()
    expected = ((-np.sin(m * w) + 2 * np.cos(m * w)) * m * half).sum(axis=0)
    assert np.allclose(rotary.inv_freq.grad.numpy(), expected, rtol=1e-6)


def test_learnable_caches_nothing():
    rotary = RotaryEmbedding(6, learnable=True, precision=torch.float32)
    before = rotary(torch.zeros(1, 5))[0]
    with torch.no_grad():
        rotary.inv_freq.mul_(2)
    after = rotary(torch.zeros(1, 5))[0]
    assert torch.allclose(after[2], before[4], atol=1e-7) and not torch.equal(after, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half])
def test_learnable_frequencies_stay_float32_through_a_cast_of_the_model(dtype):
    rotary = RotaryEmbedding(64, learnable=True, precision=torch.float32)
    parameter, exact = rotary.inv_freq, rotary(torch.zeros(1, 300))[0].detach()
    torch.nn.Sequential(rotary, torch.nn.Linear(2, 2)).to(dtype)
    assert rotary.inv_freq is parameter and parameter.dtype == torch.float32
    assert torch.equal(rotary(torch.zeros(1, 300))[0], exact)
    assert rotary.double().inv_freq.dtype == torch.float64


def test_learnable_frequencies_come_back_after_meta_initialisation():
    with torch.device("meta"):
        rotary = RotaryEmbedding(64, learnable=True)
    assert rotary.inv_freq.is_meta
    rotary = rotary.to_empty(device="cpu")
    rotary.reset_parameters()
    assert rotary.inv_freq[0] == 1 and torch.equal(rotary.inv_freq, RotaryEmbedding(64, learnable=True).inv_freq)


@pytest.mark.parametrize(("position", "loss"), [(4096, 0.495), (32768, 1.66)])
def test_half_precision_frequencies_alone_lose_the_cosine(position, loss):
    rounded = RotaryEmbedding(128, learnable=True, match_original=True).inv_freq.detach()
    assert rounded.dtype == torch.half
    gap = np.abs(np.cos(position * rounded.double().numpy()) - np.cos(position * ladder(128))).max()
    assert round(float(gap), 3 if loss < 1 else 2) == loss


def test_match_original_rounds_frequencies_positions_and_angles():
    cos, sin = RotaryEmbedding(64, match_original=True)(torch.zeros(1, 2048))
    assert cos.dtype == torch.half
    exact = np.cos(angles(64, 2048))
    assert round(float(np.abs(cos[:, 0, :32].double().numpy() - exact).max()), 2) == 0.78
    half = np.arange(2048, dtype=np.float16)[:, None] * ladder(64).astype(np.float32).astype(np.float16)
    assert half.dtype == np.float16
    for table, function in ((cos, np.cos), (sin, np.sin)):
        gap = np.abs(table[:, 0, 32:].double().numpy() - function(half.astype(np.float64))).max()
        assert gap <= ULP[torch.half] * 1.001  # one rounding of the finished value, none before but those three


def test_match_original_bfloat16_is_computed_in_float32_and_cast_at_the_end():
    cos, _ = RotaryEmbedding(64, match_original=True, precision=torch.bfloat16)(torch.zeros(1, 2048))
    half = np.arange(2048, dtype=np.float16)[:, None] * ladder(64).astype(np.float32).astype(np.float16)
    expected = torch.from_numpy(np.cos(half.astype(np.float32)))
    assert cos.dtype == torch.bfloat16
    assert (cos[:, 0, :32].float() - expected).abs().max() <= 2.0**-9 + 1e-7


def test_match_original_learnable_gives_the_same_tables():
    tables = RotaryEmbedding(64, match_original=True)(torch.zeros(1, 100))
    learned = RotaryEmbedding(64, match_original=True, learnable=True)(torch.zeros(1, 100))
    assert all(torch.equal(a, b) for a, b in zip(tables, learned, strict=True))


def test_match_original_ends_where_half_precision_does():
    with pytest.raises(RopewalkError, match="65504"):
        RotaryEmbedding(4, match_original=True)(torch.zeros(1), seq_len=65_506)
    assert RotaryEmbedding(4, match_original=True)(torch.zeros(1), seq_len=65_505)[0].isfinite().all()


def test_rotate_half_has_the_order_and_signs_of_the_code():
    assert rotate_half(torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])).tolist() == [[-3.0, -4.0, -5.0, 0.0, 1.0, 2.0]]
    with pytest.raises(RopewalkError, match="even"):
        rotate_half(torch.zeros(2, 3))


@pytest.mark.parametrize("dim", [6, 10, 48, 96])
def test_apply_turns_each_token_by_its_own_position(dim):
    rope = Rope(head_dim=dim, rope_theta=10000.0, pairing="half")
    position_id = torch.tensor([[0, 1999, 5], [1, 0, 5], [777, 3, 4], [2047, 1024, 5]])
    q, k = random(4, 3, 6, dim), random(4, 3, 2, dim, seed=4)
    cos, sin = RotaryEmbedding(dim, precision=torch.float32)(q, seq_len=2048)
    untouched = q.clone()
    out = apply_rotary_pos_emb_index(q, k, cos, sin, position_id)
    for x, y in zip((q, k), out, strict=True):
        assert y.dtype == torch.float32
        assert np.abs(y.numpy() - turned(x, position_id, rope)).max() < 1e-6
    assert torch.equal(q, untouched)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half])
def test_apply_computes_in_float32_and_rounds_once(dtype):
    rope = Rope(head_dim=64, rope_theta=10000.0, pairing="half")
    position_id = torch.tensor([[2000, 17], [2001, 18]])
    q, k = random(2, 2, 3, 64, dtype=dtype), random(2, 2, 1, 64, dtype=dtype, seed=5)
    cos, sin = RotaryEmbedding(64, precision=torch.float32)(q, seq_len=2048)
    exact = torch.from_numpy(turned(q, position_id, rope))
    out, _ = apply_rotary_pos_emb_index(q, k, cos, sin, position_id)
    assert out.dtype == dtype
    bits = torch.finfo(dtype).eps / 2
    assert ((out.double() - exact).abs() <= exact.abs() * bits * 1.01 + 1e-6).all()


def test_the_answer_is_that_of_the_formula_with_rotate_half():
    q, k = random(5, 2, 3, 8), random(5, 2, 1, 8, seed=4)
    cos, sin = RotaryEmbedding(8, precision=torch.float32)(q, seq_len=9)
    position_id = torch.tensor([[8, 0], [7, 1], [3, 2], [0, 8], [5, 5]])
    gathered = [part[:, 0][position_id].unsqueeze(2) for part in (cos, sin)]
    for x, y in zip((q, k), apply_rotary_pos_emb_index(q, k, cos, sin, position_id), strict=True):
        assert torch.allclose(y, x * gathered[0] + rotate_half(x) * gathered[1], atol=1e-7)


def test_apply_is_differentiable_twice():
    cos, sin = RotaryEmbedding(4, precision=torch.float64)(torch.zeros(1, 9))
    position_id = torch.tensor([[8, 1], [3, 7], [0, 2]])
    q, k = (random(3, 2, heads, 4, dtype=torch.float64).requires_grad_() for heads in (3, 2))

    def call(q, k):
        return apply_rotary_pos_emb_index(q, k, cos, sin, position_id)

    assert torch.autograd.gradcheck(call, (q, k))
    assert torch.autograd.gradgradcheck(call, (q, k))


def test_autograd_keeps_no_copy_of_q():
    q, k = (random(3, 2, 2, 64).requires_grad_() for _ in range(2))
    cos, sin = RotaryEmbedding(64, precision=torch.float32)(torch.zeros(1, 9))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        apply_rotary_pos_emb_index(q, k, cos, sin, torch.tensor([[8, 1], [3, 7], [0, 2]]))
    assert kept and all(x.shape[2] == 1 and x.shape[-1] == 32 for x in kept if x.is_floating_point())


def test_two_halves_turn_by_positions_of_their_own_as_chatglm_6b_does():
    rope = read("chatglm-6b").rope
    token = torch.tensor([[0, 1, 2, 2, 2], [0, 1, 2, 3, 3]])
    block = torch.tensor([[0, 0, 0, 1, 2], [0, 0, 0, 0, 1]])
    q, k = random(5, 2, 32, 128), random(5, 2, 4, 128, seed=9)
    cos, sin = RotaryEmbedding(64, precision=torch.float32)(q, seq_len=4)
    out = apply_rotary_pos_emb_2d(q, k, cos, sin, torch.stack([token, block], dim=1))
    for x, y in zip((q, k), out, strict=True):
        exact = rotate(x.double().transpose(0, 1).numpy(), np.stack([token.numpy(), block.numpy()]), rope)
        assert np.abs(y.numpy() - np.swapaxes(exact, 0, 1)).max() < 1e-6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"dim": 7}, "rotary_dim must be even"),
        ({"dim": 8, "base": 0}, "base"),
        ({"dim": 8, "precision": torch.int32}, "precision"),
        ({"dim": 8, "precision": "half"}, "precision"),
        ({"dim": 8, "learnable": 1}, "learnable"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments, told):
    with pytest.raises(RopewalkError, match=told):
        RotaryEmbedding(**arguments)


COS, SIN = RotaryEmbedding(8, precision=torch.float32)(torch.zeros(1, 9))
Q = torch.zeros(3, 2, 4, 8)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((Q, Q, COS, SIN, torch.full((3, 2), 9)), r"0 … 8.*got 9"),
        ((Q, Q, COS, SIN, torch.full((3, 2), -1)), r"0 … 8.*got -1"),
        ((Q, Q, COS, SIN, torch.zeros(2, 3, dtype=torch.long)), r"\[seq=3, batch=2\].*\[2, 3\]"),
        ((Q, Q, COS, SIN, torch.zeros(3, 2)), "integers, got torch.float32"),
        ((Q, Q, COS, SIN, None), "integers, got NoneType"),
        ((Q[..., :6], Q[..., :6], COS, SIN, torch.zeros(3, 2, dtype=torch.long)), r"\[rows, 1, 6\]"),
        ((Q, Q[..., :6], COS, SIN, torch.zeros(3, 2, dtype=torch.long)), r"one head_dim, got 8 and 6"),
        ((Q[0], Q[0], COS, SIN, torch.zeros(2, dtype=torch.long)), r"\[2, 4, 8\]"),
        ((Q.long(), Q, COS, SIN, torch.zeros(3, 2, dtype=torch.long)), "q must be a torch tensor of floating"),
        ((Q, Q, COS, SIN[:4], torch.zeros(3, 2, dtype=torch.long)), r"\[4, 1, 8\]"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_numbers(arguments, told):
    with pytest.raises(RopewalkError, match=told):
        apply_rotary_pos_emb_index(*arguments)


def test_two_dimensional_positions_of_another_shape_are_refused():
    q = torch.zeros(3, 2, 4, 16)
    with pytest.raises(RopewalkError, match=r"\[batch, 2, seq\].*\[2, 3\]"):
        apply_rotary_pos_emb_2d(q, q, COS, SIN, torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(RopewalkError, match=r"\[rows, 1, 4\]"):
        apply_rotary_pos_emb_2d(q[..., :8], q[..., :8], COS, SIN, torch.zeros(2, 2, 3, dtype=torch.long))


def test_half_precision_passes_under_autocast_which_refuses_to_concatenate_it():
    q = random(3, 2, 4, 16, dtype=torch.half)
    position_ids = torch.tensor([[[0, 1, 8], [3, 3, 4]], [[2, 7, 1], [0, 0, 1]]])

    def both():
        tables = RotaryEmbedding(8)(q, seq_len=9)
        whole = apply_rotary_pos_emb_2d(q, q, *tables, position_ids)[0]
        original = RotaryEmbedding(8, match_original=True)(q, seq_len=9)[0]
        return *tables, whole, original, rotate_half(q)

    plain = both()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(torch.equal(a, b) for a, b in zip(plain, both(), strict=True))
