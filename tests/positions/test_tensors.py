"""Positions of torch tensors: the same numbers as NumPy's, the same device and kind, traced without loops (F704)."""

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError, Sections
from ropewalk.positions import (
    chatglm,
    chatglm_from_ids,
    decode,
    from_cu_seqlens,
    from_mask,
    grid2d,
    mrope,
    mrope_from_ids,
    next_positions,
    patch_grid,
    rerotate,
    shard,
    shard_packed,
)
from ropewalk.scaling import Dynamic, Linear, Yarn
from ropewalk.turning.naive import rotate as truth

torch = pytest.importorskip("torch")

MASK = [[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]]
EDGES = [0, 8, 12, 12]
GRIDS = [[1, 4, 6], [1, 2, 2]]
ROW = [7, *[9] * 6, 7, 9, 7, 7]
CHAT = [[5, 6, 130001, 130004, 7], [5, 130000, 8, 130004, 7]]

CASES = {
    "from_mask": (lambda mask: from_mask(mask), [MASK]),
    "next_positions": (lambda mask: next_positions(mask, 2), [MASK]),
    "decode": (lambda offsets: decode(offsets, 3), [[50, 20]]),
    "from_cu_seqlens": (lambda edges: from_cu_seqlens(edges), [EDGES]),
    "offsets": (lambda edges, offsets: from_cu_seqlens(edges, offsets=offsets, total=14), [EDGES, [4, 0, 9]]),
    "patch_grid": (lambda grids: patch_grid(grids, merge_size=2), [GRIDS]),
    "with_time": (lambda grids: patch_grid(grids, with_time=True, total=28), [GRIDS]),
    "shard_packed": (lambda edges: shard_packed(edges, cp_size=2, cp_rank=1), [EDGES]),
    "chatglm": (lambda contexts, masks: chatglm(contexts, masks, 4, start=2), [[4, 3], [3, 1]]),
    "chatglm_from_ids": (lambda ids: chatglm_from_ids(ids), [CHAT]),
    "mrope_from_ids": (
        lambda ids, grids: mrope_from_ids(ids, image_token_id=9, image_grid_thw=grids, spatial_merge_size=2),
        [[ROW, [7] * 11], GRIDS],
    ),
    "video": (
        lambda ids, grids, seconds: mrope_from_ids(
            ids,
            video_token_id=9,
            video_grid_thw=grids,
            spatial_merge_size=2,
            tokens_per_second=2,
            second_per_grid_ts=seconds,
        ),
        [[ROW, [7] * 11], GRIDS, [0.75, 1.5]],
    ),
}


def listed(found):
    return [one.tolist() for one in found] if isinstance(found, tuple) else found.tolist()


@pytest.mark.parametrize("name", CASES)
def test_tensors_give_the_numbers_of_arrays_as_int64_tensors(name):
    call, given = CASES[name]
    found = call(*map(torch.tensor, given))
    for one in found if isinstance(found, tuple) else (found,):
        assert isinstance(one, torch.Tensor)
        assert one.dtype == torch.int64
    assert listed(found) == listed(call(*map(np.array, given)))


@pytest.mark.parametrize("name", CASES)
def test_f704_tensors_can_be_exported_and_run_on_other_numbers(name):
    call, given = CASES[name]

    class Module(torch.nn.Module):
        def forward(self, *tensors):
            return call(*tensors)

    tensors = tuple(map(torch.tensor, given))
    exported = torch.export.export(Module(), tensors).module()
    other = {
        "patch_grid": [[[2, 2, 4], [1, 2, 8]]],
        "with_time": [[[1, 2, 2], [2, 3, 4]]],
        "from_mask": [[[1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1]]],
        "shard_packed": [[0, 4, 12, 20]],
        "mrope_from_ids": [[[7] * 11, [9, 9, *[7] * 5, 9, 9, 7, 7]], [[1, 2, 4], [1, 4, 2]]],
    }
    for numbers in (given, other.get(name, given)):
        assert listed(exported(*map(torch.tensor, numbers))) == listed(call(*map(np.array, numbers)))


def test_f704_the_number_of_patches_can_be_that_of_the_pixels():
    class Module(torch.nn.Module):
        def forward(self, grids, pixels):
            return patch_grid(grids, merge_size=2, total=pixels.shape[0])

    dynamic = {"grids": {0: torch.export.Dim("images")}, "pixels": {0: torch.export.Dim("patches")}}
    exported = torch.export.export(Module(), (torch.tensor(GRIDS), torch.zeros(28, 3)), dynamic_shapes=dynamic).module()
    other = [[1, 2, 4], [2, 6, 2], [1, 2, 2]]
    assert exported(torch.tensor(other), torch.zeros(36, 3)).tolist() == patch_grid(other, merge_size=2).tolist()


def test_masks_of_any_size_compile_into_one_graph():
    call = torch.compile(lambda mask: (from_mask(mask), next_positions(mask)), fullgraph=True, backend="eager")
    for mask in (torch.tensor(MASK), torch.ones(3, 5, dtype=torch.bool)):
        assert listed(call(mask)) == listed((from_mask(mask), next_positions(mask)))


def test_tensors_on_another_device_stay_there_and_are_not_read():
    meta = torch.tensor(MASK, device="meta")
    assert from_mask(meta).device.type == next_positions(meta).device.type == "meta"
    assert from_cu_seqlens(torch.tensor(EDGES, device="meta"), total=12).shape == (12,)
    found = mrope_from_ids(
        torch.tensor([ROW], device="meta"), image_token_id=9, image_grid_thw=GRIDS, spatial_merge_size=2
    )
    assert {one.device.type for one in found} == {"meta"}
    assert found.position_ids.shape == (3, 1, 11)


def test_like_decides_the_kind_of_what_has_no_tensors():
    like = torch.zeros(1)
    for found, expected in (
        (grid2d(2, 3, like=like), grid2d(2, 3)),
        (grid2d(2, 3, coordinates="unit", like=like), grid2d(2, 3, coordinates="unit")),
        (shard(8, cp_size=2, cp_rank=0, like=like), shard(8, cp_size=2, cp_rank=0)),
        *zip(mrope([[3, (1, 2, 2)], [2]], like=like), mrope([[3, (1, 2, 2)], [2]]), strict=True),
    ):
        assert isinstance(found, torch.Tensor)
        assert str(found.dtype).removeprefix("torch.") == expected.dtype.name
        assert found.tolist() == expected.tolist()


def test_lists_beside_tensors_become_tensors():
    found = from_cu_seqlens(torch.tensor([0, 2, 3], dtype=torch.int32), offsets=[5, 0])
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [5, 6, 0]


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (torch.ones(2, 3), r"whole numbers of shape \[batch, seq\], got torch.float32 of shape \[2, 3\]"),
        (torch.ones(2, 1, 3, 3, dtype=torch.int64), r"got torch.int64 of shape \[2, 1, 3, 3\]"),
        (torch.tensor([[1, 2]]), "values from 1 to 2"),
    ],
)
def test_tensors_that_are_no_mask_are_refused(mask, words):
    with pytest.raises(RopewalkError, match=words):
        from_mask(mask)


# -- cached keys


def rope(**rest):
    return Rope(head_dim=48, rope_theta=5e4, pairing="half", **rest)


@pytest.mark.parametrize(
    ("dtype", "allowed"), [("float64", 1e-10), ("float32", 4e-6), ("bfloat16", 2**-8), ("float16", 2**-11)]
)
@pytest.mark.parametrize(
    "after",
    [rope(), rope(scaling=Linear(factor=4.0)), rope(scaling=Yarn(factor=3.0, original_max_position_embeddings=64))],
)
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_cached_tensors_move_as_arrays_do(dtype, allowed, after, layout):
    x = torch.randn(2, 6, 3, 48, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    old, new = torch.arange(1000, 1006), torch.tensor([[0, 1, 2, 3, 4, 5], [9, 8, 7, 6, 5, 70]])
    k = torch.from_numpy(truth(x, old, rope())).to(getattr(torch, dtype))
    expected = truth(truth(k.double(), old, rope(), inverse=True), new, after)
    given = k if layout == "bshd" else k.transpose(1, 2)
    found = rerotate(given, rope(), old=old, new=new, new_rope=after, layout=layout)
    assert (found.dtype, found.shape) == (given.dtype, given.shape)
    found = found if layout == "bshd" else found.transpose(1, 2)
    assert float((found.double() - torch.from_numpy(expected)).abs().max()) <= allowed * float(abs(expected).max())


def test_positions_of_cached_tensors_may_be_lists():
    k = torch.randn(1, 3, 2, 48)
    found = rerotate(k, rope(), old=range(3), new=[4, 5, 6])
    assert torch.equal(found, rerotate(k, rope(), old=torch.arange(3), new=torch.arange(4, 7, dtype=torch.int32)))
    half = rerotate(k, rope(), old=torch.zeros(3), new=torch.tensor([0.5, 1.5, 2.5]))  # float32 positions
    assert torch.allclose(half, torch.from_numpy(truth(k, [0.5, 1.5, 2.5], rope())).float(), atol=4e-6)


def test_cached_tensors_with_a_length_a_row():
    dynamic = rope(scaling=Dynamic(factor=3.0), max_position_embeddings=64)
    k = torch.randn(2, 3, 2, 48, dtype=torch.float64)
    found = rerotate(k, dynamic, old=range(3), new=range(3), old_length=[64, 100], new_length=[10, 200])
    assert torch.allclose(found[0], k[0], atol=1e-12)
    expected = truth(truth(k[1:], range(3), dynamic, length=100, inverse=True), range(3), dynamic, length=200)
    assert torch.allclose(found[1:], torch.from_numpy(expected), atol=1e-10)


def test_gradients_reach_the_keys():
    k = torch.randn(1, 3, 2, 48, dtype=torch.float64, requires_grad=True)
    for after in (rope(), rope(scaling=Yarn(factor=3.0, original_max_position_embeddings=64))):
        found = rerotate(k, rope(), old=[5, 6, 7], new=[0, 1, 2], new_rope=after)
        (gradient,) = torch.autograd.grad(found.square().sum() / 2, k)
        g = after.pairs().cos_sin_factor
        assert torch.allclose(gradient, g * g * k, atol=1e-10)  # a turn keeps lengths, times g


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3fn", "float8_e5m2", "bool"])
def test_f313_quantised_tensors_are_refused(dtype):
    with pytest.raises(RopewalkError, match="quantised keys cannot be turned"):
        rerotate(torch.zeros(1, 3, 2, 48).to(getattr(torch, dtype)), rope(), old=range(3), new=range(3))


def test_f313_one_shift_of_tensors_for_several_axes_is_refused():
    multi = rope(axes=Sections(sections=(8, 8, 8)))
    with pytest.raises(RopewalkError, match=r"old must be \[axes=3, batch=1, seq=6\]"):
        rerotate(torch.zeros(1, 6, 2, 48), multi, old=torch.arange(6), new=torch.arange(6))
    k, ids = torch.randn(1, 6, 2, 48), torch.arange(18).reshape(3, 1, 6)
    found = rerotate(k, multi, old=ids, new=ids - torch.tensor([2, 0, 1])[:, None, None])
    expected = truth(k, -np.array([2, 0, 1])[:, None, None] * np.ones((1, 1, 6), dtype=int), multi)
    assert torch.allclose(found.double(), torch.from_numpy(expected), atol=4e-6)
