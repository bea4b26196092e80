"""FlashInfer's calls, against naive float64; signatures against its own source, spelled out here."""

import inspect

import numpy as np
import pytest

from ropewalk import Ladders, Rope, RopewalkError, read
from ropewalk.scaling import Linear, Llama3
from ropewalk.turning.naive import rotate, tables

torch = pytest.importorskip("torch")
from ropewalk.compat import flashinfer  # noqa: E402

PLAIN = "rotary_dim=None, interleave=False, rope_scale=1, rope_theta=10000.0"
SCALED = (
    "rotary_dim=None, interleave=False, rope_scale=8, rope_theta=500000.0, low_freq_factor=1, high_freq_factor=4, "
    "old_context_len=8192"
)
CACHE = "positions, query, key, head_size, cos_sin_cache, is_neox=True"
# Source: flashinfer/rope.py of FlashInfer 0.6.18 (fb28d72)
SIGNATURES = {
    "apply_rope": f"q, k, indptr, offsets, {PLAIN}",
    "apply_rope_pos_ids": f"q, k, pos_ids, {PLAIN}",
    "apply_llama31_rope": f"q, k, indptr, offsets, {SCALED}",
    "apply_llama31_rope_pos_ids": f"q, k, pos_ids, {SCALED}",
    "apply_rope_with_cos_sin_cache": CACHE,
}


def random(*shape, dtype=torch.float32, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("suffix", ["", "_inplace"])
@pytest.mark.parametrize("name", SIGNATURES)
def test_the_signatures_are_those_of_flashinfer(name, suffix):
    given = inspect.signature(getattr(flashinfer, name + suffix)).parameters.values()
    words = [one.name if one.default is one.empty else f"{one.name}={one.default!r}" for one in given]
    assert ", ".join(words) == SIGNATURES[name]


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt-oss-20b", "glm-4-9b"])
def test_the_cache_is_float32_cos_then_sin_of_float64_angles(name):
    rope = read(name).ropes[0]
    cache = flashinfer.cos_sin_cache(rope, 20_001)
    assert cache.shape == (20_001, rope.width) and cache.dtype == torch.float32
    rows = [0, 1, 16_384, 20_000]
    exact = np.concatenate(tables(rope, rows), axis=-1)
    assert np.abs(cache[rows].double().numpy() - exact).max() < 6.1e-8


def test_the_cache_refuses_what_flashinfer_cannot_turn():
    tail = Rope(head_dim=96, rotary_dim=32, rotary_start=64, rope_theta=1e4, pairing="half")
    with pytest.raises(RopewalkError, match="from 64 on"):
        flashinfer.cos_sin_cache(tail, 8)
    grid = Rope(head_dim=8, rope_theta=1e4, pairing="half", axes=Ladders(widths=(4, 4)))
    with pytest.raises(RopewalkError, match="2 axes"):
        flashinfer.cos_sin_cache(grid, 8)


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(6, 6), (10, 6), (48, 32), (96, 96)])
def test_tokens_turn_by_the_rows_of_the_cache(neox, head_dim, rotary_dim):
    pairing = "half" if neox else "interleaved"
    rope = Rope(head_dim=head_dim, rotary_dim=rotary_dim, rope_theta=1e4, pairing=pairing)
    positions = torch.tensor([0, 1, 17, 1023, 5])
    query, key = random(5, 6 * head_dim), random(5, 2 * head_dim, seed=4)
    cache = flashinfer.cos_sin_cache(rope, 1024)
    out = flashinfer.apply_rope_with_cos_sin_cache(positions, query, key, head_dim, cache, neox)
    for x, y in zip((query, key), out, strict=True):
        exact = rotate(x.reshape(5, -1, head_dim).numpy(), positions.numpy(), rope)
        assert np.abs(y.reshape(exact.shape).numpy() - exact).max() < 1e-6
    again = query.clone(), key.clone()
    assert flashinfer.apply_rope_with_cos_sin_cache_inplace(positions, *again, head_dim, cache, neox) is None
    assert all(torch.equal(a, b) for a, b in zip(again, out, strict=True))


def test_a_cache_of_another_dtype_and_a_position_outside_it_are_errors():
    cache = flashinfer.cos_sin_cache(Rope(head_dim=4, rope_theta=1e4, pairing="half"), 8)
    x = random(2, 8)
    with pytest.raises(RopewalkError, match=r"float32.*bfloat16"):
        flashinfer.apply_rope_with_cos_sin_cache(torch.tensor([0, 1]), x, x, 4, cache.bfloat16())
    with pytest.raises(RopewalkError, match="0 … 7"):
        flashinfer.apply_rope_with_cos_sin_cache(torch.tensor([0, 8]), x, x, 4, cache)


@pytest.mark.parametrize("interleave", [False, True])
@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(6, None), (10, 6), (48, 32), (96, None)])
@pytest.mark.parametrize("llama31", [False, True])
def test_packed_tokens_turn_from_their_offsets(interleave, head_dim, rotary_dim, llama31):
    indptr, offsets = torch.tensor([0, 3, 3, 8]), torch.tensor([7, 50, 120_000])
    positions = np.array([7, 8, 9, *range(120_000, 120_005)])
    q, k = random(9, 6, head_dim), random(9, 2, head_dim, seed=4)  # one token after the end
    scaling = Linear(factor=4.0)
    extra = {"rotary_dim": rotary_dim, "interleave": interleave, "rope_scale": 4.0, "rope_theta": 5e5}
    call, pos_call = flashinfer.apply_rope, flashinfer.apply_rope_pos_ids
    if llama31:
        call, pos_call = flashinfer.apply_llama31_rope, flashinfer.apply_llama31_rope_pos_ids
        extra |= {"low_freq_factor": 2.0, "high_freq_factor": 8.0, "old_context_len": 4096}
        scaling = Llama3(factor=4.0, low_freq_factor=2.0, high_freq_factor=8.0, original_max_position_embeddings=4096)
    pairing = "interleaved" if interleave else "half"
    rope = Rope(head_dim=head_dim, rotary_dim=rotary_dim, rope_theta=5e5, pairing=pairing, scaling=scaling)
    out = call(q, k, indptr, offsets, **extra)
    for x, y in zip((q, k), out, strict=True):
        assert np.abs(y[:8].numpy() - rotate(x[:8].numpy(), positions, rope)).max() < 1e-6
        assert torch.equal(y[8], x[8])
    by_ids = pos_call(q[:8], k[:8], torch.from_numpy(positions), **extra)
    assert all(torch.equal(a[:8], b) for a, b in zip(out, by_ids, strict=True))
    for name, rest in ((call.__name__, (indptr, offsets)), (pos_call.__name__, (torch.from_numpy(positions),))):
        tokens = 9 if len(rest) == 2 else 8
        again = q[:tokens].clone(), k[:tokens].clone()
        assert getattr(flashinfer, f"{name}_inplace")(*again, *rest, **extra) is None
        assert all(torch.equal(a, b[:tokens]) for a, b in zip(again, out, strict=True))


def test_the_defaults_are_llamas():
    q, k, ids = random(3, 6, 8), random(3, 2, 8), torch.tensor([5, 900, 9000])
    rope = read("llama-3.1-8b").rope.replace(head_dim=8, rotary_dim=8)
    exact = rotate(q.numpy(), ids.numpy(), rope)
    assert np.abs(flashinfer.apply_llama31_rope_pos_ids(q, k, ids)[0].numpy() - exact).max() < 1e-6
    plain = Rope(head_dim=8, rope_theta=1e4, pairing="half")
    exact = rotate(k.numpy(), ids.numpy(), plain)
    assert np.abs(flashinfer.apply_rope_pos_ids(q, k, ids)[1].numpy() - exact).max() < 1e-6


def test_half_precision_is_rounded_once():
    q, ids = random(4, 3, 16, dtype=torch.bfloat16), torch.tensor([0, 5, 70_000, 3])
    exact = rotate(q.double().numpy(), ids.numpy(), Rope(head_dim=16, rope_theta=1e4, pairing="half"))
    got = flashinfer.apply_rope_pos_ids(q, q, ids)[0]
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, torch.from_numpy(exact).float().bfloat16())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": torch.zeros(3, 8)}, r"tokens, heads, head_dim"),
        ({"k": torch.zeros(3, 2, 6)}, r"as many tokens and channels"),
        ({"pos_ids": torch.zeros(4, dtype=torch.int64)}, r"tokens=3"),
        ({"pos_ids": torch.zeros(3)}, r"integers"),
        ({"rotary_dim": 7}, r"7"),
        ({"rope_scale": 0}, r"0"),
    ],
)
def test_what_does_not_fit_is_named(change, words):
    given = {"q": torch.zeros(3, 6, 8), "k": torch.zeros(3, 2, 8), "pos_ids": torch.arange(3), **change}
    with pytest.raises(RopewalkError, match=words):
        flashinfer.apply_rope_pos_ids(**given)


def test_a_ragged_start_that_does_not_rise_is_named_as_indptr():
    x = torch.zeros(3, 2, 8)
    with pytest.raises(RopewalkError, match=r"^indptr must rise"):
        flashinfer.apply_rope(x, x, torch.tensor([0, 2, 1]), torch.tensor([0, 0]))
    with pytest.raises(RopewalkError, match=r"^offsets must be"):
        flashinfer.apply_rope(x, x, torch.tensor([0, 3]), torch.tensor([0, 0]))
