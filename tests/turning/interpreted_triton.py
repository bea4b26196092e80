"""The Triton kernel against the float64 truth; test_triton.py runs this file where Triton interprets on the CPU."""

import numpy as np
import pytest
import torch

from ropewalk import Ladders, Rope, RopewalkError, Sections, Strided, rotate, tables
from ropewalk.pairs import Pairs
from ropewalk.scaling import Dynamic, Linear, Proportional, Yarn
from ropewalk.turning import triton as kernel

NAN = float("nan")
PAIRINGS = ("half", "interleaved")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
# Half a unit in the last place, relative. Triton's interpreter cuts bfloat16 off instead of rounding: a whole one.
ROUNDING = {torch.float32: 0.0, torch.float64: 0.0, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-11}
YARN = Yarn(factor=4.0, original_max_position_embeddings=32)  # its factor on cos and sin is 1.1386


def rope(head_dim=48, pairing="half", **rest):
    return Rope(**{"head_dim": head_dim, "rope_theta": 10000.0, "pairing": pairing, **rest})


def random(*shape, dtype=torch.float32, seed=5):
    """Unit-normal numbers inside a larger buffer of NaN, so that a read beside them shows."""
    numbers = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)
    return buffer(*shape, dtype=dtype, filled=NAN).copy_(numbers)


def buffer(*shape, dtype, filled):
    """[B, S, H, D] inside a larger buffer, every number of it filled."""
    batch, seq, heads, width = shape
    return torch.full((batch + 2, seq + 2, heads + 2, width + 16), filled, dtype=dtype)[1:-1, 1:-1, 1:-1, :width]


def poisoned(*shape, dtype=torch.float32):
    """[B, S, H, D] of NaN inside a larger buffer of sevens, so that a write beside it shows."""
    return buffer(*shape, dtype=dtype, filled=7.0).fill_(NAN)


def surroundings_are_untouched(out):
    """Whether the buffer that poisoned made holds sevens beside out, and no NaN."""
    whole = torch.empty(0, dtype=out.dtype).set_(out.untyped_storage())
    return int((whole == 7).sum()) == whole.numel() - out.numel() and not whole.isnan().any()


def ids_of(position_ids):
    """Positions as the kernel takes them, [A, B, S], from [S], [B, S] or [A, B, S]."""
    ids = torch.from_numpy(np.array(position_ids))
    return ids.reshape((1,) * (3 - ids.ndim) + ids.shape)


def allowed(x, position_ids, description, dtype, inverse=False, length=None):
    """[B, S, H, D] how far a result may be from the truth: its arithmetic and that of its cos and sin.

    Arithmetic: cos, two products and a sum are rounded, 2.5 · 2^-24 of abs(a) + abs(b). An angle in float64 is off by
    2^-53 of itself, in the truth and in each of three tables.
    """
    pairs = description.pairs(length)
    g = 1 / pairs.cos_sin_factor if inverse else pairs.cos_sin_factor
    size = np.zeros(x.shape)
    both = np.abs(x[..., pairs.first]) + np.abs(x[..., pairs.second])
    ids = ids_of(position_ids).double().abs().numpy()
    rows = np.broadcast_to(ids, (pairs.num_axes, *ids.shape[1:]))
    angles = np.moveaxis(rows[pairs.axis], 0, -1) * np.abs(pairs.inv_freq)
    unit = 2.0**-53 if dtype == torch.float64 else 2.0**-24
    error = both * g * (2.6 * unit + (8 + 4 * angles[..., None, :]) * 2.0**-53)
    size[..., pairs.first] = size[..., pairs.second] = error
    return size


def check(x, position_ids, description, *, inverse=False, length=None, **rest):
    """Turn x into a poisoned buffer and compare with the truth; give the result."""
    exact = x.double().numpy()
    ids = np.asarray(position_ids)
    truth = rotate(exact, ids, description, inverse=inverse, length=length)
    out = poisoned(*x.shape, dtype=x.dtype)
    given = kernel.turn(x, ids_of(position_ids), description.pairs(length), inverse=inverse, out=out, **rest)
    assert given is out
    bound = allowed(exact, ids, description, x.dtype, inverse, length)
    bound += (np.abs(truth) + bound) * ROUNDING[x.dtype] + (2.0**-25 if x.dtype == torch.float16 else 0)
    moved = np.zeros(x.shape[-1], dtype=bool)
    pairs = description.pairs(length)
    moved[pairs.first] = moved[pairs.second] = True
    error = np.abs(out.double().numpy() - truth)
    assert (error <= np.where(moved, bound, 0)).all(), float((error / np.maximum(bound, 1e-300)).max())
    assert surroundings_are_untouched(out)
    return out


# -- widths, dtypes, tables of pairs


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize(
    ("head_dim", "rotary_dim"), [(d, r) for d in (6, 48, 96, 128) for r in (2, 6, 32, 48, 64) if r <= d]
)
def test_every_width_is_turned_whatever_the_heads_and_the_length(head_dim, rotary_dim, pairing):
    for heads, seq in ((1, 1), (3, 1), (5, 1), (1, 7), (3, 7), (5, 7)):
        ids = [1_000_003 - 199_999 * s for s in range(seq)]
        check(random(1, seq, heads, head_dim), ids, rope(head_dim, pairing, rotary_dim=rotary_dim))


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_rounded_once(dtype, pairing):
    ids = [0, 1, -3, 8000, 262_145, 2**24 + 1, 2**30 + 5]
    out = check(random(2, 7, 6, 96, dtype=dtype), ids, rope(96, pairing, rotary_dim=64, scaling=YARN))
    assert out.dtype == dtype


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize(("start", "width"), [(0, 10), (3, 10), (16, 32), (47, 2), (46, 2), (0, 48)])
def test_the_rotated_channels_may_lie_anywhere_in_the_head(start, width, pairing):
    description = rope(49, pairing, rotary_start=start, rotary_dim=width)
    x = random(2, 3, 3, 49)
    out = check(x, [[7, 1, 90], [0, 3000, 2]], description)
    rest = [*range(start), *range(start + width, 49)]
    assert torch.equal(out[..., rest].view(torch.int32), x[..., rest].view(torch.int32))


def test_an_odd_last_channel_passes_through():
    check(random(1, 4, 2, 11), [1, 2, 3, 4], rope(11, odd="pass"))


def test_angles_turn_backwards_where_the_direction_is_negative():
    check(random(1, 3, 2, 10), [1, 2000, 3_000_000], rope(10, direction=-1))


@pytest.mark.parametrize(
    "axes",
    [
        Ladders(widths=(20, 28)),
        Ladders(widths=(20, 28), pairing_within="axis"),
        Ladders(widths=(24, 24), arrangement="alternate"),
        Strided(axes=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_axes_of_a_grid_turn_their_own_pairs(axes, pairing):
    ids = np.stack(np.meshgrid([0, 3, 1], [5, 900], indexing="ij")).reshape(2, 1, 6)
    check(random(2, 6, 3, 48), np.broadcast_to(ids, (2, 2, 6)), rope(48, pairing, axes=axes))


@pytest.mark.parametrize("arrangement", ["chunked", "interleaved"])
def test_multimodal_positions_differ_on_every_axis(arrangement):
    axes = Sections(sections=(8, 4, 12), arrangement=arrangement)
    ids = [[[0, 4, 4, 1_500_000], [7, 7, 9, 10]], [[0, 4, 5, 70], [3, 8, 9, 10]], [[0, 6, 4, 7], [5, 7, 9, -10]]]
    check(random(2, 4, 6, 48), ids, rope(48, axes=axes))


def test_text_positions_drive_every_axis():
    description = rope(48, axes=Sections(sections=(8, 4, 12)))
    x, ids = random(2, 4, 2, 48), [[3, 4, 5, 6], [0, 90, 1, 2]]
    out = check(x, ids, description)  # [1, B, S]
    spread = kernel.turn(x, ids_of(ids).expand(3, 2, 4), description.pairs())
    assert torch.equal(out, spread)


def test_pairs_that_all_follow_a_later_axis_read_that_one():
    pairs = Pairs(first=[0, 1], second=[2, 3], axis=[1, 1], inv_freq=[1.0, 0.01])
    x = random(1, 2, 2, 4)
    out = kernel.turn(x, ids_of([[[NAN, NAN]], [[3.0, 50.0]]]), pairs)
    cos, sin = np.cos(np.array([[3, 0.03], [50, 0.5]])), np.sin(np.array([[3, 0.03], [50, 0.5]]))
    a, b = x[..., :2].double().numpy(), x[..., 2:].double().numpy()
    cos, sin = cos[None, :, None], sin[None, :, None]
    np.testing.assert_allclose(out, np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1), atol=1e-6)


def test_any_table_of_pairs_is_turned_and_its_holes_are_kept():
    first, second, inv_freq = np.array([9, 2, 30, 5]), np.array([0, 31, 7, 12]), np.array([1.0, 0.3, 0.0, -0.02])
    pairs = Pairs(first=first, second=second, axis=[0] * 4, inv_freq=inv_freq, cos_sin_factor=1.5)
    x, ids = random(2, 5, 3, 33), np.array([0, 1, 7, 2000, 5_000_000])
    out = kernel.turn(x, ids_of(ids), pairs, out=poisoned(*x.shape))
    angle = (ids[:, None] * inv_freq)[:, None]
    a, b = x[..., first].double().numpy(), x[..., second].double().numpy()
    truth = x.double().numpy().copy()
    truth[..., first] = 1.5 * (a * np.cos(angle) - b * np.sin(angle))
    truth[..., second] = 1.5 * (b * np.cos(angle) + a * np.sin(angle))
    np.testing.assert_allclose(out, truth, atol=2e-6)
    rest = np.setdiff1d(np.arange(33), [*first, *second])
    assert torch.equal(out[..., rest], x[..., rest])


def test_runs_whose_second_channels_come_first_are_turned():
    pairs = Pairs(first=[4, 5], second=[0, 1], axis=[0, 0], inv_freq=[1.0, 0.1])
    x = random(1, 1, 1, 6)
    out = kernel.turn(x, ids_of([2]), pairs)[0, 0, 0].double().numpy()
    v = x[0, 0, 0].double().numpy()
    for first, second, angle in ((4, 0, 2.0), (5, 1, 0.2)):
        turned = complex(v[first], v[second]) * np.exp(1j * angle)
        assert out[first] == pytest.approx(turned.real, abs=1e-6)
        assert out[second] == pytest.approx(turned.imag, abs=1e-6)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_heads_wider_than_a_block_are_turned_block_by_block(pairing):
    check(random(1, 2, 3, 1050), [3, 700_001], rope(1050, pairing, rotary_dim=1040, rotary_start=5))


@pytest.mark.parametrize("programs", [1, 3, 100_000])
@pytest.mark.parametrize("heads", [1, 2, 3, 17])
def test_heads_are_dealt_to_programs_without_loss(monkeypatch, heads, programs):
    monkeypatch.setattr(kernel, "_PROGRAMS", programs)
    check(random(2, 3, heads, 96), [5, 6, 7], rope(96, rotary_dim=64))


# -- positions


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rope_theta", [1e4, 5e5, 1e7])
def test_positions_of_any_size_and_sign_are_exact(rope_theta, dtype):
    sizes = [0, 1, 1023, 1024, 1025, 2**20 - 1, 2**20, 2**20 + 1, 16_777_215, 16_777_217, 2**30 - 1, 2**30, 2**40 + 3]
    ids = [*sizes, *(-size for size in sizes), 2**53, -(2**53)]
    check(random(1, len(ids), 2, 48, dtype=dtype), ids, rope(48, rope_theta=rope_theta))


def test_a_million_tokens_stay_within_a_millionth():
    ids = np.linspace(0, 16_777_216, 64).astype(np.int64)
    x, description = random(1, 64, 2, 128), rope(128, rope_theta=5e5)
    out = kernel.turn(x, ids_of(ids), description.pairs())
    assert np.abs(out.double().numpy() - rotate(x.numpy(), ids, description)).max() <= 1e-6


def test_a_far_row_beside_near_ones_changes_none_of_them():
    x, pairs = random(2, 2, 2, 48), rope(48).pairs()
    near = kernel.turn(x, ids_of([[5, 6], [7, 8]]), pairs)
    mixed = kernel.turn(x, ids_of([[5, 2**45], [7, 8]]), pairs)
    assert torch.equal(near[0, 0], mixed[0, 0])
    assert torch.equal(near[1], mixed[1])


@pytest.mark.parametrize("ids", [[0.5, -2.25, 1e6 + 0.125], [[0.1, 0.2, 3e9], [7.0, -0.0, 1e-9]]], ids=["S", "BS"])
def test_float_positions_are_not_rounded(ids):
    check(random(2, 3, 3, 48), ids, rope(48))
    check(random(2, 3, 3, 48, dtype=torch.float64), ids, rope(48))


def test_float_positions_of_a_grid_keep_their_axes():
    ids = np.array([[[0.25, 1.5, 7.0]] * 2, [[3.75, 0.5, 1000.125]] * 2])
    check(random(2, 3, 3, 48), ids, rope(48, axes=Ladders(widths=(24, 24))))


def test_without_positions_every_row_counts_from_zero():
    x, description = random(3, 5, 2, 10), rope(10)
    out = kernel.turn(x, None, description.pairs(), out=poisoned(*x.shape))
    assert torch.equal(out, check(x, np.arange(5), description))


def test_one_token_of_every_row_is_turned_by_its_own_position():
    x = random(5, 1, 4, 96)
    check(x, [[50], [20], [0], [999_999], [3]], rope(96))
    equal = kernel.turn(x[:1].repeat(5, 1, 1, 1), ids_of([5]), rope(96).pairs())
    assert all(torch.equal(row, equal[0]) for row in equal)


def test_positions_may_have_any_strides():
    x, description = random(2, 3, 2, 10), rope(10)
    ids = torch.tensor([[4, 9], [70_000, 2], [8, 5]]).T  # [B, S], with steps of 1 and 2
    expected = check(x, ids.numpy(), description)
    assert torch.equal(kernel.turn(x, ids[None], description.pairs()), expected)


# -- strides


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_heads_may_come_before_the_sequence(pairing):
    x, description = random(2, 3, 5, 48), rope(48, pairing)
    across = torch.empty(2, 3, 5, 48).copy_(x).transpose(1, 2).contiguous().transpose(1, 2)
    assert across.stride()[1:3] == (48, 144)
    assert torch.equal(check(across, [3, 1, 4000], description), check(x, [3, 1, 4000], description))


@pytest.mark.parametrize("offset", [0, 1, 2, 7])
def test_a_slice_of_a_joint_projection_is_turned_where_it_lies(offset):
    joint = torch.full((2, 3, 4 * 48 + 16), NAN)
    view = joint[..., offset : offset + 4 * 48].unflatten(-1, (4, 48))
    x = random(2, 3, 4, 48)
    view.copy_(x)
    expected = check(x, [3, 1, 4000], rope(48))
    kernel.turn(view, ids_of([3, 1, 4000]), rope(48).pairs(), out=view)
    assert torch.equal(view, expected)
    assert int((~joint.isnan()).sum()) == x.numel()


def test_rows_that_share_their_memory_can_be_read():
    x = random(1, 3, 2, 48)
    out = kernel.turn(x.expand(4, 3, 2, 48), ids_of([[1, 2, 3]] * 4), rope(48).pairs())
    assert torch.equal(out, check(x, [1, 2, 3], rope(48)).expand(4, 3, 2, 48))


@pytest.mark.parametrize("dimension", [0, 1, 2], ids=["batch", "seq", "heads"])
def test_offsets_beyond_32_bits_reach_their_rows(dimension, tmp_path):
    far = 2**30 + 1  # entries from row to row; the file behind them is sparse and takes a few kilobytes
    memory = torch.from_file(str(tmp_path / "memory"), shared=True, size=2 * far + 4096, dtype=torch.float16)
    steps = [72, 24, 8]
    steps[dimension] = far
    x = memory.as_strided((3, 3, 3, 8), (*steps, 1))
    near = random(3, 3, 3, 8, dtype=torch.float16)
    x.copy_(near)
    expected = check(near, [5, 6, 7], rope(8))
    ids, pairs = ids_of([5, 6, 7]), rope(8).pairs()
    assert torch.equal(kernel.turn(x, ids, pairs, out=torch.full_like(near, NAN)), expected)
    kernel.turn(x, ids, pairs, out=x)
    assert torch.equal(x, expected)


@pytest.mark.parametrize("shape", [(0, 3, 2, 48), (2, 0, 2, 48), (2, 3, 0, 48)])
def test_an_empty_tensor_stays_empty(shape):
    x = torch.empty(shape)
    ids = torch.zeros(1, shape[0], shape[1], dtype=torch.int64)
    assert kernel.turn(x, ids, rope(48).pairs()).shape == shape
    assert kernel.turn(x, None, rope(48).pairs(), out=x) is x


# -- inverse, transpose, in place


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_inverse_divides_by_the_factor(dtype, pairing):
    description = rope(48, pairing, rotary_dim=32, scaling=YARN)
    assert description.pairs().cos_sin_factor > 1.1
    check(random(2, 3, 3, 48, dtype=dtype), [4, -1, 90_000], description, inverse=True)


def test_the_inverse_undoes_a_turn():
    x, pairs, ids = random(2, 3, 3, 48), rope(48, scaling=YARN).pairs(), ids_of([4, -1, 3_000_000])
    back = kernel.turn(kernel.turn(x, ids, pairs), ids, pairs, inverse=True)
    assert (back - x).abs().max() <= 2e-6


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("inverse", [False, True])
def test_the_transpose_is_the_inverse_but_for_the_factor_twice(inverse, pairing):
    description = rope(48, pairing, rotary_dim=32, scaling=YARN)
    x, ids, g = random(2, 3, 3, 48), [4, -1, 90_000], description.pairs().cos_sin_factor
    out = kernel.turn(x, ids_of(ids), description.pairs(), inverse=inverse, transpose=True, out=poisoned(*x.shape))
    truth = rotate(x.numpy(), ids, description, inverse=not inverse)
    truth[..., :32] *= g**-2 if inverse else g**2
    np.testing.assert_allclose(out, truth, atol=2e-6)


@pytest.mark.parametrize("axes", [Ladders(widths=(20, 12), pairing_within="axis"), None], ids=["listed", "runs"])
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_place_gives_the_same_bits(dtype, pairing, axes):
    description = rope(48, pairing, rotary_dim=32, rotary_start=5, **({"axes": axes} if axes else {}))
    ids = [[[3, 1, 4]], [[1, 5, 9]]] if axes else [3, 1, 4]
    numbers = random(1, 3, 6, 48, dtype=dtype)
    expected = check(numbers, ids, description)
    x = poisoned(1, 3, 6, 48, dtype=dtype).copy_(numbers)
    assert kernel.turn(x, ids_of(ids), description.pairs(), out=x) is x
    assert torch.equal(x, expected)
    assert surroundings_are_untouched(x)


def test_in_place_through_another_view_of_the_same_memory():
    x = random(1, 3, 2, 48)
    expected = check(x, [3, 1, 4], rope(48, rotary_dim=32))
    kernel.turn(x, ids_of([3, 1, 4]), rope(48, rotary_dim=32).pairs(), out=x[:])
    assert torch.equal(x, expected)


# -- NaN, bits, factors, ropes that depend on the length


@pytest.mark.parametrize("value", [NAN, float("inf")])
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_number_that_is_none_stays_in_its_own_pair(pairing, value):
    description = rope(48, pairing, rotary_dim=32)
    x = random(2, 3, 3, 48)
    clean = check(x, [3, 1, 4], description)
    x[1, 1, 2, 20] = value
    out = kernel.turn(x, ids_of([3, 1, 4]), description.pairs(), out=poisoned(*x.shape))
    spoiled = ~out.isfinite()
    partner = 4 if pairing == "half" else 21
    assert spoiled.nonzero().tolist() == sorted([[1, 1, 2, partner], [1, 1, 2, 20]])
    assert torch.equal(out[~spoiled], clean[~spoiled])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_channels_in_no_pair_keep_every_bit(dtype):
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    x = random(1, 2, 3, 48, dtype=dtype).contiguous()
    x[..., 10:40] = -0.0
    bits = x.view(integers)
    bits[..., 12:20] += torch.arange(1, 9, dtype=integers)  # denormal
    bits[..., 20] = torch.tensor(NAN, dtype=dtype).view(integers) + 5  # a NaN that carries a number
    out = kernel.turn(x, ids_of([3, 100]), rope(48, rotary_dim=10).pairs(), out=torch.full_like(x, 7.0))
    assert torch.equal(out.view(integers)[..., 10:], bits[..., 10:])


def test_pairs_that_keep_still_keep_every_bit():
    description = rope(48, scaling=Proportional(partial_rotary_factor=0.25))
    still = [channel for i in range(6, 24) for channel in (i, i + 24)]
    assert not description.pairs().inv_freq[6:].any()
    x = random(2, 3, 3, 48)
    out = check(x, [3, 70, 2_000_000], description)
    assert torch.equal(out[..., still].view(torch.int32), x[..., still].view(torch.int32))


def test_pairs_that_keep_still_take_the_factor():
    pairs = Pairs(first=[0, 1], second=[2, 3], axis=[0, 0], inv_freq=[0.5, 0.0], cos_sin_factor=1.25)
    x = random(1, 2, 2, 5)
    out = kernel.turn(x, ids_of([3, 70]), pairs)
    assert torch.equal(out[..., [1, 3]], x[..., [1, 3]] * 1.25)


def test_a_table_of_still_pairs_alone_copies():
    x, pairs = random(1, 2, 2, 5), Pairs(first=[0], second=[3], axis=[0], inv_freq=[0.0])
    assert torch.equal(kernel.turn(x, ids_of([3, 70]), pairs, out=poisoned(*x.shape)), x)
    assert kernel.turn(x, ids_of([3, 70]), pairs, out=x) is x


def test_a_wavelength_longer_than_any_context_turns_slowly():
    check(random(1, 3, 2, 10), [1, 9_000, 10_000_000], rope(10, scaling=Linear(factor=1e6)))


@pytest.mark.parametrize("direct", [False, True])
def test_a_length_changes_the_pairs(direct):
    description = rope(48, scaling=Dynamic(factor=3.0), max_position_embeddings=64)
    x, ids = random(1, 3, 2, 48), [0, 63, 200]
    short, long = (check(x, ids, description, length=length, direct=direct) for length in (10, 201))
    assert not torch.equal(short, long)


def test_angles_multiplied_out_agree_with_the_tables():
    ids = [0, 5, -7, 1024, 1_048_577, 2**40]
    for dtype in (torch.float32, torch.float64):
        check(random(1, 6, 3, 48, dtype=dtype), ids, rope(48), direct=True)


def test_two_ropes_of_one_shape_do_not_share_a_table():
    x = random(1, 2, 2, 48)
    for rope_theta in (1e4, 5e5):
        check(x, [5, 600], rope(48, rope_theta=rope_theta))
    check(x, [5, 600], rope(48, pairing="interleaved"))
    check(x, [5, 600], rope(48, scaling=YARN))


def test_scores_depend_on_the_distance_alone():
    description = rope(96, rope_theta=5e5)
    q, k = (random(1, 1, 1, 96, dtype=torch.float64, seed=seed) for seed in (1, 2))

    def score(m, n):
        turned = [kernel.turn(x, ids_of([at]), description.pairs()) for x, at in ((q, m), (k, n))]
        return float((turned[0] * turned[1]).sum())

    assert score(9, 4) == pytest.approx(score(1_000_009, 1_000_004), abs=1e-8)


def test_the_positions_turn_as_the_cos_and_sin_of_the_truth_say():
    description = rope(10, scaling=YARN)
    x = torch.zeros(1, 4, 1, 10, dtype=torch.float64)
    x[..., :5] = 1.0  # (1, 0) turns to (cos, sin)
    ids = [0, 2, 3000, 5_000_000]
    out = kernel.turn(x, ids_of(ids), description.pairs())[0, :, 0].numpy()
    np.testing.assert_allclose(out, np.concatenate(tables(description, ids), axis=-1), atol=1e-8)


# -- what is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": torch.zeros(3, 2, 48)}, r"\[batch, seq, heads, head_dim\].*got shape \[3, 2, 48\]"),
        ({"x": torch.zeros(1, 3, 48, 2).transpose(2, 3)}, "last stride of 1.*Make it contiguous"),
        ({"x": torch.zeros(1, 3, 2, 48, dtype=torch.int32)}, "must be float32.*got torch.int32"),
        ({"x": torch.zeros(1, 3, 2, 24)}, "24 channels a head.*reach channel 47"),
        ({"x": torch.zeros(1, 3, 2, 48, device="meta")}, "cannot be used: .* this one is meta"),
        ({"position_ids": torch.zeros(1, 1, 3, dtype=torch.int32)}, "int64 or float64.*got torch.int32"),
        ({"position_ids": torch.zeros(1, 1, 3, dtype=torch.int64, device="meta")}, "on cpu, got torch.int64 on meta"),
        ({"position_ids": torch.zeros(3, dtype=torch.int64)}, r"position_ids must be .*seq=3.*got \[3\]"),
        ({"position_ids": torch.zeros(1, 1, 4, dtype=torch.int64)}, r"seq=3\], got \[1, 1, 4\]"),
        ({"position_ids": torch.zeros(1, 2, 3, dtype=torch.int64)}, r"batch=1 or 1.*got \[1, 2, 3\]"),
        ({"position_ids": torch.zeros(0, 1, 3, dtype=torch.int64)}, r"axes=1.*got \[0, 1, 3\]"),
        ({"out": torch.zeros(1, 3, 2, 40)}, r"out must be like x, \[1, 3, 2, 48\].*got \[1, 3, 2, 40\]"),
        ({"out": torch.zeros(1, 3, 2, 48, dtype=torch.float16)}, "torch.float32.*got .*torch.float16"),
        ({"out": torch.zeros(1, 3, 48, 2).transpose(2, 3)}, "out must be like x"),
        ({"pairs": rope(48, "hybrid_tile").pairs()}, "rotations only"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(change, words):
    given = {"x": torch.zeros(1, 3, 2, 48), "position_ids": None, "pairs": rope(48).pairs(), **change}
    with pytest.raises(RopewalkError, match=words):
        kernel.turn(given.pop("x"), given.pop("position_ids"), given.pop("pairs"), **given)


def test_too_few_axes_are_refused():
    pairs = rope(48, axes=Sections(sections=(8, 4, 12))).pairs()
    with pytest.raises(RopewalkError, match=r"axes=3 or 1, .*got \[2, 1, 3\]"):
        kernel.turn(torch.zeros(1, 3, 2, 48), torch.zeros(2, 1, 3, dtype=torch.int64), pairs)
