"""flash-attention's rotary call, against naive float64."""

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError, read
from ropewalk.turning.naive import rotate

torch = pytest.importorskip("torch")
from ropewalk.compat.flash_attn import (  # noqa: E402
    apply_rotary_emb,
    apply_rotary_emb_kv_,
    apply_rotary_emb_qkv_,
    cos_sin,
)

PAIRINGS = [False, True]


def random(*shape, dtype=torch.float32, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def a_rope(head_dim, interleaved, rotary_dim=None):
    pairing = "interleaved" if interleaved else "half"
    return Rope(head_dim=head_dim, rotary_dim=rotary_dim, rope_theta=10000.0, pairing=pairing)


def close(out, x, ids, rope, tolerance=1e-6):
    return np.abs(out.double().numpy() - rotate(x.double().numpy(), ids, rope)).max() < tolerance


@pytest.mark.parametrize("interleaved", PAIRINGS)
@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(6, 2), (10, 6), (48, 32), (96, 96), (128, 64)])
@pytest.mark.parametrize("seq", [1, 7])
def test_leading_channels_turn_and_the_others_are_bit_equal(head_dim, rotary_dim, interleaved, seq):
    rope = a_rope(head_dim, interleaved, rotary_dim)
    x = random(2, seq, 3, head_dim)
    out = apply_rotary_emb(x, *cos_sin(rope, 1300), interleaved=interleaved, seqlen_offsets=1291)
    assert close(out, x, 1291 + np.arange(seq), rope)
    assert torch.equal(out[..., rotary_dim:], x[..., rotary_dim:])


@pytest.mark.parametrize("interleaved", PAIRINGS)
@pytest.mark.parametrize("seq", [1, 3])
def test_offsets_belong_to_rows_not_to_tokens(interleaved, seq):
    rope = a_rope(10, interleaved)
    x = random(2, seq, 3, 10)
    offsets = torch.tensor([50, 20], dtype=torch.int32)
    out = apply_rotary_emb(x, *cos_sin(rope, 64), interleaved, seqlen_offsets=offsets)
    assert close(out, x, np.array([[50], [20]]) + np.arange(seq), rope)


def test_every_row_of_a_one_token_decode_turns():
    x = random(1, 1, 4, 128).expand(2, 1, 4, 128)
    out = apply_rotary_emb(x, *cos_sin(a_rope(128, False), 8), seqlen_offsets=5)
    assert torch.equal(out[0], out[1]) and not torch.equal(out[0], x[0])


@pytest.mark.parametrize("interleaved", PAIRINGS)
@pytest.mark.parametrize("offsets", [0, 4, "tensor"])
def test_packed_sequences_restart_at_their_own_offset(interleaved, offsets):
    rope = a_rope(12, interleaved, 8)
    starts = torch.tensor([0, 3, 3, 8, 9], dtype=torch.int32)  # an empty sequence among them
    by_row = np.array([2, 0, 31, 7]) if offsets == "tensor" else np.full(4, offsets)
    x = random(9, 5, 12)
    given = torch.from_numpy(by_row) if offsets == "tensor" else offsets
    out = apply_rotary_emb(x, *cos_sin(rope, 40), interleaved, seqlen_offsets=given, cu_seqlens=starts, max_seqlen=5)
    lengths = np.diff(starts.numpy())
    ids = np.concatenate([offset + np.arange(n) for offset, n in zip(by_row, lengths, strict=True)])
    assert close(out, x, ids, rope)


def test_packed_equals_padded_and_tokens_after_the_end_are_left_alone():
    tables = cos_sin(a_rope(8, False), 16)
    x = random(11, 2, 8)
    x[9:] = float("nan")
    out = apply_rotary_emb(x, *tables, cu_seqlens=torch.tensor([0, 4, 9]))
    assert torch.equal(out[:4], apply_rotary_emb(x[None, :4], *tables)[0])
    assert torch.equal(out[4:9], apply_rotary_emb(x[None, 4:9], *tables)[0])
    assert out[9:].isnan().all()
    x[9:] = 7
    assert torch.equal(apply_rotary_emb(x, *tables, cu_seqlens=torch.tensor([0, 4, 9]))[9:], x[9:])


@pytest.mark.parametrize("interleaved", PAIRINGS)
def test_in_place_gives_x_itself_with_the_same_numbers(interleaved):
    tables = cos_sin(a_rope(10, interleaved, 6), 16)
    whole = random(2, 7, 3, 20)
    x = whole[..., 5:15]  # a strided view inside a larger buffer
    rest = whole.clone()
    expected = apply_rotary_emb(x, *tables, interleaved)
    out = apply_rotary_emb(x, *tables, interleaved, inplace=True)
    assert out is x and torch.equal(x, expected)
    assert torch.equal(whole[..., :5], rest[..., :5]) and torch.equal(whole[..., 11:], rest[..., 11:])


def test_out_of_place_leaves_x_alone():
    x = random(2, 7, 3, 10)
    before = x.clone()
    apply_rotary_emb(x, *cos_sin(a_rope(10, False), 7))
    assert torch.equal(x, before)


@pytest.mark.parametrize("interleaved", PAIRINGS)
def test_conjugate_turns_back(interleaved):
    rope = a_rope(48, interleaved)
    tables = cos_sin(rope, 40)
    x = random(2, 3, 4, 48, dtype=torch.float64)
    turned = apply_rotary_emb(x, *tables, interleaved, seqlen_offsets=30)
    back = apply_rotary_emb(turned, *tables, interleaved, seqlen_offsets=30, conjugate=True)
    assert (back - x).abs().max() < 1e-6  # float32 tables: c² + s² is 1 to their rounding
    alone = apply_rotary_emb(x, *tables, interleaved, seqlen_offsets=30, conjugate=True)
    assert np.abs(alone.numpy() - rotate(x.numpy(), -30.0 - np.arange(3), rope)).max() < 1e-6


@pytest.mark.parametrize("tables_in", [torch.float32, torch.bfloat16, torch.half])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half])
def test_the_dtype_is_kept_whatever_the_tables_are(dtype, tables_in):
    rope = a_rope(64, False)
    x = random(1, 2, 3, 64, dtype=dtype)
    out = apply_rotary_emb(x, *cos_sin(rope, 4002, tables_in), seqlen_offsets=4000)
    exact = torch.from_numpy(rotate(x.double().numpy(), [4000, 4001], rope))
    assert out.dtype == dtype
    table_error = {torch.float32: 3e-7, torch.bfloat16: 2.0**-9, torch.half: 2.0**-12}[tables_in]
    room = exact.abs() * torch.finfo(dtype).eps / 2 * 1.01 + 2 * table_error * x.double().abs().max()
    assert ((out.double() - exact).abs() <= room).all()


@pytest.mark.parametrize("interleaved", PAIRINGS)
@pytest.mark.parametrize("packed", [False, True])
def test_differentiable_twice(interleaved, packed):
    tables = cos_sin(a_rope(6, interleaved, 4), 16, torch.float64)
    x = random(*((5,) if packed else (1, 3)), 2, 6, dtype=torch.float64).requires_grad_()
    more = {"cu_seqlens": torch.tensor([0, 3, 5])} if packed else {"seqlen_offsets": torch.tensor([11])}
    assert torch.autograd.gradcheck(lambda x: apply_rotary_emb(x, *tables, interleaved, **more), x)
    assert torch.autograd.gradgradcheck(lambda x: apply_rotary_emb(x, *tables, interleaved, **more), x)


@pytest.mark.parametrize("interleaved", PAIRINGS)
def test_backward_is_the_turn_the_other_way_in_place_too(interleaved):
    tables = cos_sin(a_rope(12, interleaved, 8), 40)
    weights = random(2, 3, 4, 12, seed=8)
    expected = apply_rotary_emb(weights, *tables, interleaved, seqlen_offsets=30, conjugate=True)
    for inplace in (False, True):
        leaf = random(2, 3, 4, 12).requires_grad_()
        out = apply_rotary_emb(leaf * 1, *tables, interleaved, inplace, seqlen_offsets=30)
        (out * weights).sum().backward()
        assert torch.allclose(leaf.grad, expected, atol=1e-6)


def test_gradients_reach_learned_tables():
    cos, sin = (part.requires_grad_() for part in cos_sin(a_rope(4, False), 5, torch.float64))
    x = random(1, 3, 2, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda c, s: apply_rotary_emb(x, c, s, seqlen_offsets=2), (cos, sin))


@pytest.mark.parametrize("interleaved", PAIRINGS)
@pytest.mark.parametrize("grouped", [False, True])
def test_qkv_turns_queries_and_keys_in_place_and_never_values(interleaved, grouped):
    rope = a_rope(12, interleaved, 8)
    tables = cos_sin(rope, 16)
    q, k, v = (
        random(2, 3, 4, 12),
        random(2, 3, 2 if grouped else 4, 12, seed=4),
        random(2, 3, 2 if grouped else 4, 12, seed=5),
    )
    qkv = torch.cat([q, k, v], dim=2) if grouped else torch.stack([q, k, v], dim=2)
    out = apply_rotary_emb_qkv_(
        qkv, *tables, interleaved=interleaved, seqlen_offsets=9, num_heads_q=4 if grouped else None
    )
    assert out is qkv
    parts = out.split([4, 2, 2], dim=2) if grouped else out.unbind(2)
    assert close(parts[0], q, 9 + np.arange(3), rope) and close(parts[1], k, 9 + np.arange(3), rope)
    assert torch.equal(parts[2], v)


def test_keys_may_have_tables_of_their_own():
    (cos, sin), (cos_k, sin_k) = cos_sin(a_rope(8, False), 4), cos_sin(a_rope(8, False).replace(rope_theta=7.0), 4)
    qkv = random(1, 4, 3, 2, 8)
    before = qkv.clone()
    apply_rotary_emb_qkv_(qkv, cos, sin, cos_k, sin_k)
    assert torch.equal(qkv[:, :, 0], apply_rotary_emb(before[:, :, 0], cos, sin))
    assert torch.equal(qkv[:, :, 1], apply_rotary_emb(before[:, :, 1], cos_k, sin_k))


def test_kv_turns_keys_in_place_and_never_values():
    tables = cos_sin(a_rope(8, True), 9)
    kv = random(2, 3, 2, 4, 8)
    before = kv.clone()
    offsets = torch.tensor([6, 1])
    assert apply_rotary_emb_kv_(kv, *tables, True, offsets) is kv
    assert torch.equal(kv[:, :, 0], apply_rotary_emb(before[:, :, 0], *tables, True, seqlen_offsets=offsets))
    assert torch.equal(kv[:, :, 1], before[:, :, 1])


def test_the_last_row_passes_and_the_next_one_is_an_error():
    cos, sin = cos_sin(a_rope(8, False), 16)
    apply_rotary_emb(torch.zeros(1, 1, 1, 8), cos, sin, seqlen_offsets=15)
    apply_rotary_emb(torch.zeros(1, 4, 1, 8), cos, sin, seqlen_offsets=12)
    for x, more, told in [
        (torch.zeros(1, 1, 1, 8), {"seqlen_offsets": 16}, r"0 … 15.*got 16"),
        (torch.zeros(1, 8, 1, 8), {"seqlen_offsets": 12}, r"0 … 15.*got 19.*at least 20"),
        (torch.zeros(2, 1, 1, 8), {"seqlen_offsets": torch.tensor([3, 16])}, r"0 … 15.*got 16"),
        (torch.zeros(2, 1, 1, 8), {"seqlen_offsets": torch.tensor([3, -1])}, r"0 … 15.*got -1"),
        (torch.zeros(20, 1, 8), {"cu_seqlens": torch.tensor([0, 3, 20])}, r"0 … 15.*got 16"),
    ]:
        with pytest.raises(RopewalkError, match=told):
            apply_rotary_emb(x, cos, sin, **more)


X, (COS, SIN) = torch.zeros(2, 3, 4, 8), cos_sin(a_rope(8, False), 16)


@pytest.mark.parametrize(
    ("arguments", "more", "told"),
    [
        ((X[0], COS, SIN), {}, r"\[batch, seq, heads, head_dim\].*\[3, 4, 8\]"),
        ((X, COS, SIN), {"cu_seqlens": torch.tensor([0, 3])}, r"\[tokens, heads, head_dim\].*\[2, 3, 4, 8\]"),
        ((X[..., :6], COS, SIN), {}, r"head_dim=6.*\[16, 4\]"),
        ((X, COS, SIN[:9]), {}, r"\[16, 4\] and \[9, 4\]"),
        ((X.long(), COS, SIN), {}, "x must be a torch tensor of floating"),
        ((X, COS.numpy(), SIN), {}, "cos must be a torch tensor of floating"),
        ((X, COS.to("meta"), SIN), {}, "one device, got cpu, meta and cpu"),
        ((X, COS, SIN), {"seqlen_offsets": -1}, "seqlen_offsets.*-1"),
        ((X, COS, SIN), {"seqlen_offsets": 0.5}, "seqlen_offsets.*0.5"),
        ((X, COS, SIN), {"seqlen_offsets": torch.tensor([1.0, 2.0])}, "integers, got torch.float32"),
        ((X, COS, SIN), {"seqlen_offsets": torch.tensor([1, 2, 3])}, r"\[batch=2\].*\[3\]"),
        ((X, COS, SIN), {"max_seqlen": 2}, "at least the sequence's length 3, got 2"),
        ((X[0], COS, SIN), {"cu_seqlens": torch.tensor([0, 4])}, "number of tokens 3"),
        ((X[0], COS, SIN), {"cu_seqlens": torch.tensor([0, 2, 1])}, "rise from 0"),
        ((X[0], COS, SIN), {"cu_seqlens": torch.tensor([1, 3])}, "rise from 0"),
        ((X[0], COS, SIN), {"cu_seqlens": torch.tensor([0])}, r"\[batch \+ 1\]"),
        ((X[0], COS, SIN), {"cu_seqlens": torch.tensor([0, 3]), "max_seqlen": 2}, "3 tokens, got 2"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_numbers(arguments, more, told):
    with pytest.raises(RopewalkError, match=told):
        apply_rotary_emb(*arguments, **more)


def test_qkv_of_another_shape_is_refused_before_anything_is_written():
    for qkv, more, told in [
        (torch.ones(2, 3, 4, 8), {}, "num_heads_q=None"),
        (torch.ones(2, 3, 5, 8), {"num_heads_q": 4}, "5 heads with num_heads_q=4"),
        (torch.ones(2, 3, 2, 4, 8), {}, r"\[2, 3, 2, 4, 8\]"),
        (torch.ones(2, 3, 3, 4, 8), {"cos_k": COS[:, :2]}, r"\[16, 2\] and \[16, 4\]"),
    ]:
        with pytest.raises(RopewalkError, match=told):
            apply_rotary_emb_qkv_(qkv, COS, SIN, **more)
        assert (qkv == 1).all()
    with pytest.raises(RopewalkError, match=r"\[2, 3, 3, 4, 8\]"):
        apply_rotary_emb_kv_(torch.ones(2, 3, 3, 4, 8), COS, SIN)


def test_tables_of_a_rope_carry_its_scaling_and_factor():
    rope = read("gpt-oss-20b").rope
    x = random(1, 2, 3, 64)
    assert close(apply_rotary_emb(x, *cos_sin(rope, 5000), seqlen_offsets=4998), x, [4998, 4999], rope, 2e-6)


@pytest.mark.parametrize(
    ("rope", "told"),
    [
        (Rope(head_dim=8, rotary_start=4, rope_theta=10000.0, pairing="half"), "from channel 0 on"),
        (read("qwen2-vl-7b").layers[0].rope, "3 axes"),
        (read("phi-3-mini-128k").rope, "longrope.*length="),
    ],
)
def test_ropes_that_the_tables_cannot_say_are_refused(rope, told):
    with pytest.raises(RopewalkError, match=told):
        cos_sin(rope, 4)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.float32])
def test_autocast_changes_nothing(dtype):
    x, tables = random(1, 3, 2, 12, dtype=dtype), cos_sin(a_rope(12, False, 8), 9)
    plain = apply_rotary_emb(x, *tables, seqlen_offsets=6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(apply_rotary_emb(x, *tables, seqlen_offsets=6), plain)
        assert all(torch.equal(a, b) for a, b in zip(cos_sin(a_rope(12, False, 8), 9), tables, strict=True))
