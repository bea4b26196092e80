"""rotate over memory: views of every kind, out=, in place, and outputs that overlap."""

import numpy as np
import pytest

from ropewalk import RopewalkError, rotate, rotate_qk

from ._cases import DTYPES, ROPES, assert_turned, open_road, positions, random, rope

B, S, H, D = 2, 7, 3, 96
KINDS = ["half", "interleaved", "middle-odd-start-interleaved", "yarn-tail-interleaved", "llama3"]
assert all(ROPES[kind].head_dim in (96, 128) for kind in KINDS)


def views(road, width, dtype="float32"):
    """Views [B, S, H, width] that are not contiguous, by name, each of a buffer of its own."""
    fused = road.give(random(B, S, H, 3 * width), dtype)
    packed = road.give(random(B, S, H + 4, width), dtype)
    wide = road.give(random(B, S, H, 2 * width), dtype)
    offset = road.give(random(B * S * H * width + 3), dtype)
    yield "q of fused qkv", fused[..., :width]
    yield "k of fused qkv", fused[..., width : 2 * width]
    yield "v of fused qkv, last channels", fused[..., 2 * width :]
    yield "heads of packed qkv", packed[:, :, 2 : 2 + H]
    yield "every second channel", wide[..., ::2]
    yield "every second channel from 1", wide[..., 1::2]
    yield "heads before tokens", road.give(random(B, H, S, width), dtype).swapaxes(1, 2)
    yield "tokens before rows", road.give(random(S, B, H, width), dtype).swapaxes(0, 1)
    yield "channels before heads", road.give(random(B, S, width, H), dtype).swapaxes(2, 3)
    yield "channels first of all", road.give(random(width, S, H, B), dtype).swapaxes(0, 3)
    yield "every second token", road.give(random(B, 2 * S, H, width), dtype)[:, 1::2]
    yield "three values in", offset[3:].reshape(B, S, H, width)
    yield "one value in", offset[1:-2].reshape(B, S, H, width)
    if road.library == "numpy":
        yield "channels backwards", road.give(random(B, S, H, width), dtype)[..., ::-1]
        yield "tokens and rows backwards", road.give(random(B, S, H, width), dtype)[::-1, ::-1]
        yield "heads backwards", road.give(random(B, S, H, width), dtype)[:, :, ::-1]


def equal_views(road, width, dtype):
    """Inputs whose elements share memory: legal to read."""
    one = road.give(random(1, 1, H, width), dtype)
    scalar = road.give(random(B, S, H, 1), dtype)
    if road.library == "numpy":
        return np.broadcast_to(one, (B, S, H, width)), np.broadcast_to(scalar, (B, S, H, width))
    return one.expand(B, S, H, width), scalar.expand(B, S, H, width)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_views_are_read_where_they_lie_and_left_unchanged(road, kind, dtype):
    description = ROPES[kind]
    ids = positions(description, B, S)
    given = [one for _, one in views(road, description.head_dim, dtype)]
    for x in (*given, *equal_views(road, description.head_dim, dtype)):
        before = road.bits(x)
        found = rotate(x, road.ids(ids), description)
        assert_turned(road.take(found), road.take(x), ids, description, dtype)
        assert road.bits(x) == before


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_out_may_be_any_view_and_nothing_around_it_changes(road, kind, dtype):
    description = ROPES[kind]
    width, ids = description.head_dim, positions(description, B, S)
    x = road.give(random(B, S, H, width), dtype)
    for slices in (
        np.s_[1:3, 1:8, 1:4, 5 : 5 + width],
        np.s_[::2, 2:9, :3, width : 2 * width],
        np.s_[:2, 1:15:2, 3:6, 1 : 1 + 2 * width : 2],
    ):
        buffer = road.give(np.full((4, 16, 6, 2 * width + 8), np.nan), dtype)
        out = buffer[slices]
        assert rotate(x, road.ids(ids), description, out=out) is out
        assert_turned(road.take(out), road.take(x), ids, description, dtype)
        out[...] = x  # finite now, so that what is still NaN is the frame
        frame = np.ones(buffer.shape, bool)
        frame[slices] = False
        assert np.isnan(road.take(buffer)[frame]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [*KINDS, "hybrid", "chatglm", "odd-pass-interleaved"])
def test_out_that_is_x_turns_in_place(road, kind, dtype):
    description = ROPES[kind]
    ids = positions(description, B, S)
    for inverse in (False, True):
        x = road.give(random(B, S, H, description.head_dim), dtype)
        before = road.take(x).copy()
        assert rotate(x, road.ids(ids), description, out=x, inverse=inverse) is x
        assert_turned(road.take(x), before, ids, description, dtype, inverse=inverse)


@pytest.mark.parametrize("kind", KINDS)
def test_in_place_on_every_view(road, kind):
    description = ROPES[kind]
    ids = positions(description, B, S)
    for name, x in views(road, description.head_dim):
        before = road.take(x).copy()
        again = x[...]  # another object over the same memory
        rotate(x, road.ids(ids), description, out=again)
        assert road.same_memory(again, x), name
        assert_turned(road.take(x), before, ids, description, "float32")


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_out_in_another_layout_of_memory(road, layout):
    description = ROPES["half"]
    ids = positions(description, B, S)
    x = road.give(random(B, S, H, D))
    out = road.give(np.full((B, H, S, D), np.nan)).swapaxes(1, 2)
    if layout == "bhsd":
        rotate(x.swapaxes(1, 2), road.ids(ids), description, out=out.swapaxes(1, 2), layout=layout)
    else:
        rotate(x, road.ids(ids), description, out=out)
    assert_turned(road.take(out), road.take(x), ids, description, "float32")


def test_slices_side_by_side_do_not_overlap(road):
    fused, ids = road.give(random(B, S, H, 3 * D)), positions(ROPES["half"], B, S)
    before = road.take(fused).copy()
    rotate(fused[..., :D], road.ids(ids), ROPES["half"], out=fused[..., D : 2 * D])
    after = road.take(fused)
    assert_turned(after[..., D : 2 * D], before[..., :D], ids, ROPES["half"], "float32")
    assert (after[..., :D] == before[..., :D]).all() and (after[..., 2 * D :] == before[..., 2 * D :]).all()
    even, odd = fused[:, :, :, 0 : 2 * D : 2], fused[:, :, :, 1 : 2 * D : 2]
    given = road.take(even).copy()
    rotate(even, road.ids(ids), ROPES["half"], out=odd)
    assert_turned(road.take(odd), given, ids, ROPES["half"], "float32")
    assert (road.take(even) == given).all()


def overlaps(road):
    """(what, buffer, x, out) whose memory is shared in part."""
    flat = road.give(random(S * H * D + 5))
    yield "one value further", flat, flat[:-5].reshape(1, S, H, D), flat[1:-4].reshape(1, S, H, D)
    rows = road.give(random(1, S + 1, H, D))
    yield "one token further", rows, rows[:, :-1], rows[:, 1:]
    yield "one token back", rows, rows[:, 1:], rows[:, :-1]
    heads = road.give(random(1, S, H + 1, D))
    yield "one head further", heads, heads[:, :, :-1], heads[:, :, 1:]
    wide = road.give(random(1, S, H, D + 2))
    yield "two channels further", wide, wide[..., :-2], wide[..., 2:]
    square = road.give(random(1, H, H, D))
    yield "the same memory, heads and tokens exchanged", square, square, square.swapaxes(1, 2)
    if road.library == "numpy":
        x = road.give(random(1, S, H, D))
        yield "the same memory, backwards", x, x, x[:, ::-1]
        yield "the same memory, channels backwards", x, x, x[..., ::-1]


def test_out_that_overlaps_x_in_part_is_refused_and_x_stays(road):
    for what, buffer, x, out in overlaps(road):
        before, ids = road.bits(buffer), road.ids(np.arange(x.shape[1]) + 5)
        with pytest.raises(RopewalkError, match="overlap"):
            rotate(x, ids, ROPES["half"], out=out)
        assert road.bits(buffer) == before, what
        other = road.give(random(1, x.shape[1], 2, D))
        spare = road.give(np.full((1, x.shape[1], 2, D), np.nan))
        for q, k, outs in ((x, other, (out, spare)), (other, x, (spare, out))):
            with pytest.raises(RopewalkError, match="overlap"):
                rotate_qk(q, k, ids, ROPES["half"], out=outs)
            assert road.bits(buffer) == before, what


def test_outputs_that_exchange_or_share_memory_are_refused(road):
    q, k = road.give(random(1, S, H, D)), road.give(random(1, S, H, D, seed=6))
    ids, spare = road.ids(np.arange(S)), road.give(np.full((1, S, H, D), np.nan))
    before = road.bits(q), road.bits(k)
    for outs in ((k, q), (k, spare), (spare, q), (spare, spare)):
        with pytest.raises(RopewalkError, match="overlap"):
            rotate_qk(q, k, ids, ROPES["half"], out=outs)
        assert (road.bits(q), road.bits(k)) == before


def test_outputs_whose_elements_share_memory_are_refused(road):
    # repeat_kv by expand: turned in place, the one key would turn once for each of its heads
    keys, ids = road.give(random(B, S, 1, D)), road.ids(np.arange(S) + 3)
    q, before = road.give(random(B, S, H, D)), road.bits(keys)
    if road.library == "numpy":
        repeated = np.lib.stride_tricks.as_strided(keys, (B, S, H, D), (*keys.strides[:2], 0, keys.strides[3]))
    else:
        repeated = keys.expand(B, S, H, D)
    for x, out in ((repeated, repeated), (q, repeated)):
        with pytest.raises(RopewalkError, match=r"overlap|share|same memory"):
            rotate(x, ids, ROPES["half"], out=out)
        assert road.bits(keys) == before
    before_q = road.bits(q)
    with pytest.raises(RopewalkError, match=r"overlap|share|same memory"):
        rotate_qk(q, repeated, ids, ROPES["half"], out=(q, repeated))
    assert (road.bits(q), road.bits(keys)) == (before_q, before)


def test_queries_and_keys_that_share_memory_are_not_turned_twice_in_place(road):
    packed, ids = road.give(random(B, S, 6, D)), road.ids(np.arange(S) + 3)
    before = road.bits(packed)
    for q, k in ((packed, packed), (packed[:, :, :4], packed[:, :, 3:])):
        with pytest.raises(RopewalkError, match="overlap"):
            rotate_qk(q, k, ids, ROPES["half"], out=(q, k))
        assert road.bits(packed) == before
    for found, x in zip(
        rotate_qk(packed, packed, ids, ROPES["half"]), (packed, packed), strict=True
    ):  # but this may be
        assert road.bits(found) == road.bits(rotate(x, ids, ROPES["half"]))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_large_result_is_its_parts(road, dtype):
    # results of many megabytes are written and allocated in ways of their own
    x = road.give(np.resize(random(1, 50, 33, 128), (1, 1550, 33, 128)), dtype)
    ids = np.random.default_rng(8).integers(0, 2**24, 1550)
    whole = rotate(x, road.ids(ids), ROPES["interleaved"])
    for start in range(0, 1550, 50):
        part = slice(start, start + 50)
        alone = rotate(x[:, part], road.ids(ids[part]), ROPES["interleaved"])
        assert road.bits(whole[:, part]) == road.bits(alone)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_queries_and_keys_of_one_buffer_turn_in_place_and_values_stay(road, dtype):
    packed = road.give(random(B, S, 6 + 2 + 2, 128), dtype)  # GQA: 6 query, 2 key, 2 value heads
    before, ids, description = road.take(packed).copy(), positions(ROPES["interleaved"], B, S), ROPES["interleaved"]
    q, k = packed[:, :, :6], packed[:, :, 6:8]
    returned = rotate_qk(q, k, road.ids(ids), description, out=(q, k))
    assert returned[0] is q and returned[1] is k
    after = road.take(packed)
    assert_turned(after[:, :, :8], before[:, :, :8], ids, description, dtype)
    assert (after[:, :, 8:] == before[:, :, 8:]).all()  # F024


def test_queries_and_keys_go_into_given_outputs(road):
    q, k = road.give(random(B, S, 6, D)), road.give(random(B, S, 2, D, seed=6))
    outs = road.give(np.full((B, S, 6, D), np.nan)), road.give(np.full((B, S, 2, D), np.nan))
    ids = positions(ROPES["yarn"], B, S)
    returned = rotate_qk(q, k, road.ids(ids), ROPES["yarn"], out=outs)
    for one, out, x in zip(returned, outs, (q, k), strict=True):
        assert one is out
        assert_turned(road.take(out), road.take(x), ids, ROPES["yarn"], "float32")


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_outputs_are_returned(road, rows):
    x, out = road.give(np.zeros((rows, 0, 2, 8))), road.give(np.zeros((rows, 0, 2, 8)))
    assert rotate(x, road.ids(np.zeros(0, int)), rope(8), out=out) is out
    assert rotate(x, road.ids(np.zeros(0, int)), rope(8), out=x) is x


# -- memory that only NumPy can give


@pytest.mark.parametrize("by", ["kernel", "plain"])
def test_numpy_arrays_read_only_unaligned_or_byte_swapped(by):
    with open_road(f"numpy-{by}") as road:
        ids = np.array([1, 70_000, 1500])
        for dtype in ("float32", "float64", "float16"):
            values = road.give(random(3, 2, D), dtype)
            locked = values.copy()
            locked.setflags(write=False)
            raw = np.zeros(values.nbytes + 1, np.uint8)
            unaligned = raw[1:].view(dtype).reshape(values.shape)
            unaligned[...] = values
            for x in (locked, unaligned, values.astype(values.dtype.newbyteorder())):
                assert_turned(road.take(rotate(x, ids, ROPES["half"])), road.take(values), ids, ROPES["half"], dtype)
            rotate(unaligned, ids, ROPES["half"], out=unaligned)
            assert_turned(road.take(unaligned), road.take(values), ids, ROPES["half"], dtype)
            with pytest.raises(RopewalkError, match=r"read.only|writ"):
                rotate(locked, ids, ROPES["half"], out=locked)
            with pytest.raises(RopewalkError, match=r"read.only|writ"):
                rotate(values, ids, ROPES["half"], out=locked)
            assert (locked == values).all()


@pytest.mark.parametrize("by", ["kernel", "plain"])
def test_torch_tensors_over_one_numpy_array_overlap_too(by):
    # two storages, one memory
    with open_road(f"torch-{by}") as road:
        flat = np.zeros(S * H * D + D, np.float32)
        flat[:] = random(flat.size)
        x, out = (road.torch.from_numpy(part).view(1, S, H, D) for part in (flat[:-D], flat[D:]))
        before = flat.copy()
        with pytest.raises(RopewalkError, match="overlap"):
            rotate(x, road.ids(np.arange(S)), ROPES["half"], out=out)
        assert (flat == before).all()
        again = road.torch.from_numpy(flat[:-D]).view(1, S, H, D)  # a third storage over all of x
        rotate(x, road.ids(np.arange(S)), ROPES["half"], out=again)
        given = before[:-D].reshape(1, S, H, D)
        assert_turned(road.take(again), given, np.arange(S), ROPES["half"], "float32")


@pytest.mark.parametrize("by", ["kernel", "plain"])
def test_torch_tensors_at_odd_addresses_turn_too(by):
    torch = pytest.importorskip("torch")
    with open_road(f"torch-{by}") as road:
        raw, ids = torch.zeros(4 * 3 * 2 * D + 1, dtype=torch.uint8), torch.tensor([1, 70_000, 1500])
        odd = torch.frombuffer(raw.numpy(), dtype=torch.float32, offset=1, count=3 * 2 * D).view(3, 2, D)
        values = road.give(random(3, 2, D), "float32")
        odd.copy_(values)
        assert odd.data_ptr() % 4
        assert_turned(
            road.take(rotate(odd, ids, ROPES["half"])), road.take(values), ids.numpy(), ROPES["half"], "float32"
        )
        rotate(odd, ids, ROPES["half"], out=odd)
        assert_turned(road.take(odd), road.take(values), ids.numpy(), ROPES["half"], "float32")
