"""vLLM's packed cache and its in-place op, against naive float64."""

import numpy as np
import pytest

from ropewalk import Ladders, Rope, RopewalkError, read
from ropewalk.turning.naive import rotate, tables

torch = pytest.importorskip("torch")
from ropewalk.compat.vllm import cos_sin_cache, is_neox, rotary_embedding  # noqa: E402


def random(*shape, dtype=torch.float32, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def a_rope(head_dim=96, neox=True, rotary_dim=None, **more):
    pairing = "half" if neox else "interleaved"
    return Rope(head_dim=head_dim, rotary_dim=rotary_dim, rope_theta=10000.0, pairing=pairing, **more)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v3", "gpt-oss-20b", "gpt-neox-20b", "glm-4-9b"])
def test_the_cache_is_cos_then_sin_of_float64_angles(name):
    rope = read(name).ropes[0]
    cache = cos_sin_cache(rope, 40_001)
    assert cache.shape == (40_001, rope.width) and cache.dtype == torch.float32
    rows = [0, 1, 16_383, 16_384, 32_769, 40_000]  # it is made in pieces of 16384 rows
    exact = np.concatenate(tables(rope, rows), axis=-1)
    assert np.abs(cache[rows].double().numpy() - exact).max() < 6.1e-8


@pytest.mark.parametrize(("dtype", "most"), [(torch.bfloat16, 2.0**-9), (torch.half, 2.0**-12), (torch.float64, 1e-16)])
def test_the_cache_is_rounded_once_to_its_dtype(dtype, most):
    rope = a_rope()
    exact = np.concatenate(tables(rope, np.arange(3000)), axis=-1)
    gap = np.abs(cos_sin_cache(rope, 3000, dtype).double().numpy() - exact).max()
    assert gap <= most * 1.001


def test_neox_is_told_from_the_pairs():
    assert is_neox(a_rope(neox=True)) and not is_neox(a_rope(neox=False))
    assert is_neox(read("llama-3.1-8b").rope) and not is_neox(read("gpt-j-6b").rope)


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(6, 6), (10, 6), (48, 32), (96, 96)])
@pytest.mark.parametrize("form", ["flat", "by head"])
def test_tokens_turn_in_place_by_their_positions(neox, head_dim, rotary_dim, form):
    rope = a_rope(head_dim, neox, rotary_dim)
    positions = torch.tensor([0, 1, 17, 1023, 5])
    query, key = random(5, 6, head_dim), random(5, 2, head_dim, seed=4)
    exact = [rotate(x.numpy(), positions.numpy(), rope) for x in (query, key)]
    given = [x.clone().flatten(1) if form == "flat" else x.clone() for x in (query, key)]
    assert rotary_embedding(positions, *given, head_dim, cos_sin_cache(rope, 1024), neox) is None
    for x, y, before in zip(given, exact, (query, key), strict=True):
        assert np.abs(x.reshape(y.shape).numpy() - y).max() < 1e-6
        assert torch.equal(x.reshape(y.shape)[..., rotary_dim:], before[..., rotary_dim:])


@pytest.mark.parametrize("form", ["flat", "by head"])
def test_batches_turn_in_place_by_their_positions(form):
    rope = a_rope(10, False, 8)
    positions = torch.tensor([[3, 4, 5], [90, 0, 7]], dtype=torch.int32)
    query = random(2, 3, 6, 10)
    exact = rotate(query.numpy(), positions.numpy(), rope)
    given = query.clone().flatten(2) if form == "flat" else query.clone()
    rotary_embedding(positions, given, None, 10, cos_sin_cache(rope, 91), False)
    assert np.abs(given.reshape(exact.shape).numpy() - exact).max() < 1e-6


def test_queries_and_keys_inside_a_fused_projection():
    rope = a_rope(8)
    fused = random(4, (6 + 2 + 2) * 8)
    before = fused.clone()
    query, key, value = fused.split([48, 16, 16], dim=-1)
    rotary_embedding(torch.arange(4), query, key, 8, cos_sin_cache(rope, 4), True)
    exact = rotate(before[:, :48].reshape(4, 6, 8).numpy(), np.arange(4), rope)
    assert np.abs(fused[:, :48].reshape(4, 6, 8).numpy() - exact).max() < 1e-6
    assert torch.equal(value, before[:, 64:]) and not torch.equal(key[1:], before[1:, 48:64])


@pytest.mark.parametrize("cache_dtype", [torch.float32, torch.bfloat16])
def test_sixteen_bit_vectors_are_computed_in_float32(cache_dtype):
    rope = a_rope(64)
    query = random(2, 3, 64, dtype=torch.bfloat16)
    positions = torch.tensor([8000, 8001])
    exact = torch.from_numpy(rotate(query.double().numpy(), positions.numpy(), rope))
    rotary_embedding(positions, query, None, 64, cos_sin_cache(rope, 8002, cache_dtype), True)
    table_error = 3e-7 if cache_dtype == torch.float32 else 2.0**-9
    assert query.dtype == torch.bfloat16
    assert ((query.double() - exact).abs() <= exact.abs() * 2.0**-8 * 1.01 + 2 * table_error * 4).all()


def test_the_tail_is_turned_with_an_offset_and_back_with_inverse():
    rope = a_rope(12, False, 4, rotary_start=8)
    cache = cos_sin_cache(rope, 100, rope_dim_offset=8)
    query = random(3, 5, 12, dtype=torch.float64)
    before = query.clone()
    positions = torch.tensor([99, 3, 50])
    rotary_embedding(positions, query, None, 12, cache, False, 8)
    assert np.abs(query.numpy() - rotate(before.numpy(), positions.numpy(), rope)).max() < 1e-6
    rotary_embedding(positions, query, None, 12, cache, False, rope_dim_offset=8, inverse=True)
    assert (query - before).abs().max() < 1e-6 and torch.equal(query[..., :8], before[..., :8])


def test_length_dependent_ropes_take_the_length_that_is_given():
    rope = read("phi-3-mini-128k").rope
    for length in (4096, 4097):
        exact = np.concatenate(tables(rope, [4000], length=length), axis=-1)
        assert np.abs(cos_sin_cache(rope, 4001, length=length)[4000].double().numpy() - exact).max() < 6.1e-8
    with pytest.raises(RopewalkError, match=r"longrope.*length="):
        cos_sin_cache(rope, 8)


@pytest.mark.parametrize(
    ("rope", "told"),
    [
        (read("qwen2-vl-7b").layers[0].rope, r"3 axes \(t, h, w\)"),
        (a_rope(12, rotary_dim=4, rotary_start=8), "rope_dim_offset=8"),
        (Rope(head_dim=8, rope_theta=10000.0, pairing="hybrid_tile"), "hybrid_tile"),
        (
            Rope(head_dim=8, rope_theta=10.0, pairing="half", axes=Ladders(widths=(4, 4), pairing_within="axis")),
            "2 axes",
        ),
        ("llama-3.1-8b", "needs a Rope"),
    ],
)
def test_ropes_that_the_cache_cannot_say_are_refused(rope, told):
    with pytest.raises(RopewalkError, match=told):
        cos_sin_cache(rope, 4)


def test_a_table_too_large_to_make_is_refused_with_its_size():
    with pytest.raises(RopewalkError, match=r"GiB; at most 64"):
        cos_sin_cache(a_rope(128), 2**30)
    with pytest.raises(RopewalkError, match=r"floating-point one, got torch\.int32"):
        cos_sin_cache(a_rope(128), 4, torch.int32)


CACHE, T = cos_sin_cache(a_rope(8), 16), torch.tensor([1, 2])
QUERY = torch.zeros(2, 24)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((torch.tensor([1, 16]), QUERY, None, 8, CACHE, True), r"0 … 15.*got 16.*at least 17"),
        ((torch.tensor([1, -1]), QUERY, None, 8, CACHE, True), "got -1"),
        ((T.float(), QUERY, None, 8, CACHE, True), "integers, got torch.float32"),
        ((T[None, None], QUERY, None, 8, CACHE, True), r"\[1, 1, 2\]"),
        ((T, QUERY, None, 7, CACHE, True), r"head_size=7"),
        ((T, QUERY, None, 6, CACHE, True), r"R even and .*\[16, 8\].*head_size=6"),
        ((T, QUERY, None, 8, CACHE, True, 4), r"rope_dim_offset=4, head_size=8"),
        ((T, torch.zeros(3, 24), None, 8, CACHE, True), r"query must be \[2, heads·head_size\].*got \[3, 24\]"),
        ((T, QUERY, torch.zeros(2, 12), 8, CACHE, True), r"key must be .*got \[2, 12\]"),
        ((T, QUERY.int(), None, 8, CACHE, True), "query must be a torch tensor of floating"),
        ((T, QUERY, None, 8, CACHE, 1), "is_neox"),
        ((T, QUERY, None, 0, CACHE, True), "head_size"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(arguments, told):
    with pytest.raises(RopewalkError, match=told):
        rotary_embedding(*arguments)
    assert not QUERY.any()


def test_autocast_changes_nothing():
    rope, query = a_rope(12, True, 8), random(2, 3, 12, dtype=torch.half)
    cache, other = cos_sin_cache(rope, 9, torch.half), query.clone()
    rotary_embedding(torch.tensor([8, 3]), query, None, 12, cache, True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = cos_sin_cache(rope, 9, torch.half)
        rotary_embedding(torch.tensor([8, 3]), other, None, 12, again, True)
    assert torch.equal(again, cache) and torch.equal(other, query)
