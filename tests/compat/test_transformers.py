"""RotaryEmbedding and apply_rotary_pos_emb, against naive float64 and against transformers' own functions."""

import copy
import io
import pickle

import numpy as np
import pytest

from ropewalk import Ladders, Rope, RopewalkError, Sections, read
from ropewalk.scaling import Dynamic
from ropewalk.turning.naive import rotate, tables

torch = pytest.importorskip("torch")
from ropewalk.compat.transformers import RotaryEmbedding, apply_rotary_pos_emb  # noqa: E402

X = torch.zeros(1, 1, 1)
FAR = [0, 1, 4095, 131_072, 1_000_003, 16_777_217]
MROPE = Rope(head_dim=48, rope_theta=10000.0, pairing="half", axes=Sections(sections=(8, 10, 6)))


def random(*shape, dtype=torch.float32, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def a_rope(**changes):
    return Rope(**{"head_dim": 96, "rope_theta": 500000.0, "pairing": "half", **changes})


def off(table, exact):
    return float(np.abs(table.double().numpy() - exact).max())


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt-neox-20b", "gpt-oss-20b", "deepseek-v3", "glm-4-9b"])
def test_tables_are_float64_angles_rounded_once_however_far(name):
    rope = read(name).ropes[0]
    ids = np.array([FAR, FAR[::-1]])
    cos, sin = RotaryEmbedding(rope)(X, torch.from_numpy(ids))
    assert cos.shape == sin.shape == (2, len(FAR), rope.width) and cos.dtype == torch.float32
    for table, exact in zip((cos, sin), tables(rope, ids), strict=True):
        assert off(table, np.concatenate([exact, exact], axis=-1)) < 6.1e-8  # half a step of float32 below 2


def test_columns_are_laid_out_as_asked():
    rope = a_rope(head_dim=6, rotary_dim=6)
    exact = tables(rope, [[5]])[0][0, 0]
    wanted = {"doubled": [0, 1, 2, 0, 1, 2], "repeated": [0, 0, 1, 1, 2, 2], "single": [0, 1, 2]}
    for columns, order in wanted.items():
        assert off(RotaryEmbedding(rope, columns)(X, torch.tensor([[5]]))[0], exact[order]) < 3.1e-8
    blocks = Rope(head_dim=8, rope_theta=9.0, pairing="half", axes=Ladders(widths=(4, 4), pairing_within="axis"))
    ids = np.array([[[5]], [[2]]])
    exact = tables(blocks, ids)[0][0, 0]
    cos, _ = RotaryEmbedding(blocks, "channels")(X, torch.from_numpy(ids))
    assert off(cos, exact[[0, 1, 0, 1, 2, 3, 2, 3]]) < 3.1e-8


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half, torch.float64])
def test_tables_take_the_dtype_of_x(dtype):
    cos, _ = RotaryEmbedding(a_rope())(X.to(dtype), torch.tensor([FAR]))
    exact = tables(a_rope(), [FAR])[0]
    assert cos.dtype == dtype
    assert off(cos[..., :48], exact) <= torch.finfo(dtype).eps / 4 * 1.001 + 3e-17


def test_negative_and_fractional_positions_are_exact():
    ids = [[-7.0, -1e6, 0.25, 1e7 + 0.5]]
    cos, sin = RotaryEmbedding(a_rope())(X, torch.tensor(ids, dtype=torch.float64))
    exact = tables(a_rope(), ids)
    assert off(cos[..., :48], exact[0]) < 3.1e-8 and off(sin[..., :48], exact[1]) < 3.1e-8
    negative = RotaryEmbedding(a_rope())(X, torch.tensor([[-5]]))[1]
    assert torch.equal(negative, -RotaryEmbedding(a_rope())(X, torch.tensor([[5]]))[1])


def test_unequal_positions_on_three_axes_and_text_on_all_of_them():
    ids = np.array([[[7, 7, 8]], [[0, 900, 3]], [[4, 1, 1000]]])
    rotary = RotaryEmbedding(MROPE)
    cos, sin = rotary(X, torch.from_numpy(ids))
    exact = tables(MROPE, ids)
    assert off(cos[..., :24], exact[0]) < 3.1e-8 and off(sin[..., 24:], exact[1]) < 3.1e-8
    text = torch.tensor([[3, 4, 5], [900, 901, 902]])
    assert torch.equal(rotary(X, text)[0], rotary(X, text.expand(3, -1, -1))[0])
    assert torch.equal(rotary(X, text)[0], rotary(X, text[None])[0])


def test_each_layer_type_has_its_own_rope():
    rotary = RotaryEmbedding("gemma-3-1b")
    assert set(rotary.ropes) == {"sliding_attention", "full_attention"}
    for label, theta in (("sliding_attention", 1e4), ("full_attention", 1e6)):
        exact = tables(Rope(head_dim=256, rope_theta=theta, pairing="half"), [[4000]])[0]
        assert off(rotary(X, torch.tensor([[4000]]), label)[0][..., :128], exact) < 3.1e-8
    for wrong in (None, "main"):
        with pytest.raises(RopewalkError, match=r"layer_type must be one of sliding_attention, full_attention"):
            rotary(X, torch.tensor([[0]]), wrong)


def test_one_rope_is_asked_for_with_or_without_a_layer_type():
    rotary = RotaryEmbedding(a_rope())
    assert torch.equal(rotary(X, torch.tensor([[5]]), "full_attention")[0], rotary(X, torch.tensor([[5]]))[0])


def test_targets_of_read_are_taken():
    rope = read("smollm3-3b").rope
    assert RotaryEmbedding("smollm3-3b").ropes == {None: rope}
    assert RotaryEmbedding(read("smollm3-3b")).ropes == {None: rope}
    assert RotaryEmbedding({"a": rope}).ropes == {"a": rope}
    config = {"model_type": "llama", "head_dim": 8, "num_hidden_layers": 2, "rope_theta": 10000}
    assert RotaryEmbedding(config).ropes[None].rope_theta == 10000


@pytest.mark.parametrize(("lengths"), [(10, 40, 17, 64), (64, 10)])
def test_dynamic_scaling_takes_each_calls_own_length(lengths):
    rope = a_rope(scaling=Dynamic(factor=2.0), max_position_embeddings=16)
    rotary = RotaryEmbedding(rope)
    for length in lengths:
        ids = np.arange(length)[None]
        exact = tables(rope, ids, length=length)[0]
        assert off(rotary(X, torch.from_numpy(ids))[0][..., :48], exact) < 3.1e-8
    one = rotary(X, torch.tensor([[3]]), length=64)[0]
    assert off(one[..., :48], tables(rope, [[3]], length=64)[0]) < 3.1e-8


def test_longrope_switches_past_the_original_length():
    rope = read("phi-3-mini-128k").rope
    rotary = RotaryEmbedding(rope)
    for ids in ([[0, 4095]], [[0, 4096]], [[0, 4095]]):
        exact = tables(rope, ids, length=max(ids[0]) + 1)[0]
        assert off(rotary(X, torch.tensor(ids))[0][..., : rope.num_pairs], exact) < 6.1e-8


def test_no_state_and_no_harm_from_casts_meta_copies_and_pickles():
    rotary = RotaryEmbedding(a_rope())
    exact = rotary(X, torch.tensor([FAR]))[0]
    assert not rotary.state_dict() and not list(rotary.parameters()) and not list(rotary.buffers())
    with torch.device("meta"):
        on_meta = RotaryEmbedding(a_rope())
    file = io.BytesIO()
    torch.save(rotary, file)
    assert file.tell() < 20_000
    file.seek(0)
    variants = [
        copy.deepcopy(rotary).to(torch.bfloat16),
        copy.deepcopy(rotary).half(),
        on_meta.to_empty(device="cpu"),
        pickle.loads(pickle.dumps(rotary)),
        torch.load(file, weights_only=False),
    ]
    for variant in variants:
        assert torch.equal(variant(X, torch.tensor([FAR]))[0], exact)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(rotary(X, torch.tensor([FAR]))[0], exact)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_default_dtype_does_not_matter(dtype):
    exact = RotaryEmbedding(a_rope())(X, torch.tensor([FAR]))[0]
    torch.set_default_dtype(dtype)
    try:
        again = RotaryEmbedding(a_rope())(X, torch.tensor([FAR]))[0]
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(again, exact)


def test_tables_follow_the_device_of_x():
    rotary = RotaryEmbedding(MROPE)
    assert rotary(X, torch.tensor([[5]]))[0].device.type == "cpu"
    assert rotary(X.to("meta"), torch.tensor([[5]]))[0].device.type == "meta"
    assert off(rotary(X, torch.tensor([[5]]))[0][..., :24], tables(MROPE, [[5]])[0]) < 3.1e-8


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen2-vl-7b", "phi-3-mini-128k"])
def test_one_compiled_graph_serves_every_length(name):
    rotary = RotaryEmbedding(read(name).layers[0].rope)
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph

    compiled = torch.compile(rotary, fullgraph=True, dynamic=True, backend=keep)
    for seq in (5, 6, 7, 31):
        ids = torch.arange(4070, 4070 + seq)[None]
        assert torch.equal(compiled(X, ids)[0], rotary(X, ids)[0])
    assert len(graphs) == 1


def test_exported_with_the_sequence_left_open():
    rotary = RotaryEmbedding(MROPE)
    open_seq = {"x": None, "position_ids": {2: torch.export.Dim("seq", min=2, max=4096)}}
    ids = torch.arange(7).expand(3, 1, 7)
    program = torch.export.export(rotary, (X, ids), dynamic_shapes=open_seq)
    longer = torch.arange(900, 915).expand(3, 1, 15)
    assert torch.equal(program.module()(X, longer)[0], rotary(X, longer)[0])


def test_a_module_used_while_inferring_serves_training():
    rotary = RotaryEmbedding(a_rope(head_dim=8))
    with torch.inference_mode():
        rotary(X, torch.tensor([[1, 2]]))
    q = torch.ones(1, 1, 2, 8, requires_grad=True)
    apply_rotary_pos_emb(q, q, *rotary(X, torch.tensor([[1, 2]])))[0].sum().backward()
    assert q.grad is not None


@pytest.mark.parametrize(("head_dim", "rotary_dim"), [(6, 6), (10, 6), (48, 32), (96, 96)])
@pytest.mark.parametrize("unsqueeze_dim", [1, 2])
def test_queries_and_keys_turn_half_split_and_the_rest_is_bit_equal(head_dim, rotary_dim, unsqueeze_dim):
    rope = a_rope(head_dim=head_dim, rotary_dim=rotary_dim)
    ids = np.array([[0, 3, 900], [5, 4, 100_000]])
    q, k = random(2, 3, 6, head_dim), random(2, 3, 2, head_dim, seed=4)
    cos, sin = RotaryEmbedding(rope)(X, torch.from_numpy(ids))
    given = [x.transpose(1, 2) if unsqueeze_dim == 1 else x for x in (q, k)]
    for x, y in zip((q, k), apply_rotary_pos_emb(*given, cos, sin, unsqueeze_dim), strict=True):
        y = y.transpose(1, 2) if unsqueeze_dim == 1 else y
        assert np.abs(y.numpy() - rotate(x.numpy(), ids, rope)).max() < 1e-6
        assert torch.equal(y[..., rotary_dim:], x[..., rotary_dim:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half])
@pytest.mark.parametrize("table_dtype", ["own", torch.float32])
def test_sixteen_bit_vectors_are_computed_in_float32_and_rounded_once(dtype, table_dtype):
    rope = a_rope(head_dim=128)
    q = random(1, 3, 2, 128, dtype=dtype)
    x = X.to(dtype) if table_dtype == "own" else X
    cos, sin = RotaryEmbedding(rope)(x, torch.tensor([[8000, 262_145]]))
    out, _ = apply_rotary_pos_emb(q, q, cos, sin)
    by_table = q.double() * cos.double() + torch.cat((-q[..., 64:], q[..., :64]), dim=-1).double() * sin.double()
    assert out.dtype == dtype
    assert ((out.double() - by_table).abs() <= by_table.abs() * torch.finfo(dtype).eps / 2 * 1.01 + 1e-6).all()


def test_in_float32_it_is_bit_for_bit_what_transformers_computes():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    neox = pytest.importorskip("transformers.models.gpt_neox.modeling_gpt_neox")
    q, k = random(2, 6, 5, 96), random(2, 2, 5, 96, seed=4)
    ids = torch.arange(3000, 3005).expand(2, 5)
    for theirs, rotary_dim in ((llama, 96), (neox, 32)):
        cos, sin = RotaryEmbedding(a_rope(rotary_dim=rotary_dim))(X, ids)
        for ours, expected in zip(
            apply_rotary_pos_emb(q, k, cos, sin), theirs.apply_rotary_pos_emb(q, k, cos, sin), strict=True
        ):
            assert torch.equal(ours, expected)


def test_apply_is_differentiable_twice():
    cos, sin = RotaryEmbedding(a_rope(head_dim=6, rotary_dim=4))(X.double(), torch.tensor([[7, 900]]))
    q, k = (random(1, heads, 2, 6, dtype=torch.float64).requires_grad_() for heads in (3, 2))
    assert torch.autograd.gradcheck(lambda q, k: apply_rotary_pos_emb(q, k, cos, sin), (q, k))
    assert torch.autograd.gradgradcheck(lambda q, k: apply_rotary_pos_emb(q, k, cos, sin), (q, k))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((Rope(head_dim=8, rope_theta=10000.0, pairing="hybrid_tile"),), "hybrid_tile"),
        ((a_rope(), "tiled"), "columns must be one of 'doubled'"),
        (("no-such-model",), "preset"),
        (({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8},), "no RoPE"),
    ],
)
def test_what_cannot_be_built_is_refused(given, told):
    with pytest.raises(RopewalkError, match=told):
        RotaryEmbedding(*given)


@pytest.mark.parametrize(
    ("rope", "ids", "told"),
    [
        (a_rope(), torch.zeros(3, 1, 4), r"\[batch, seq\].*\[3, 1, 4\]"),
        (MROPE, torch.zeros(2, 1, 4), r"\[axes=3, batch, seq\].*\[2, 1, 4\]"),
        (a_rope(axes=Ladders(widths=(48, 48)), head_dim=96), torch.zeros(2, 4), r"\[axes=2, batch, seq\].*\[2, 4\]"),
        (a_rope(), [[1, 2]], "position_ids must be a torch tensor.*list"),
        (a_rope(), torch.tensor([[True]]), "bool"),
    ],
)
def test_positions_of_another_shape_or_kind_are_refused(rope, ids, told):
    with pytest.raises(RopewalkError, match=told):
        RotaryEmbedding(rope)(X, ids)


def test_an_x_without_a_floating_dtype_is_refused():
    with pytest.raises(RopewalkError, match=r"x must be a torch tensor of floating.*int64"):
        RotaryEmbedding(a_rope())(torch.zeros(1, 1, dtype=torch.long), torch.tensor([[1]]))


Q, TABLE = torch.zeros(2, 3, 4, 8), torch.zeros(2, 4, 8)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((Q, Q, TABLE, TABLE[:1]), r"cos \[2, 4, 8\], sin \[1, 4, 8\]"),
        ((Q, Q, TABLE[0], TABLE[0]), r"cos \[4, 8\]"),
        ((Q[..., :6], Q[..., :6], TABLE, TABLE), r"R=8 columns do not fit q \[2, 3, 4, 6\]"),
        ((Q, Q, TABLE[..., :7], TABLE[..., :7]), r"R=7 .*even"),
        ((Q, Q, TABLE, TABLE, 2), r"unsqueeze_dim=2 makes \[2, 4, 1, 8\]"),
        ((Q, Q[:, :, :3], TABLE, TABLE), r"do not fit k \[2, 3, 3, 8\]"),
        ((Q, Q, TABLE, TABLE, 5), "unsqueeze_dim=5"),
        ((Q.long(), Q, TABLE, TABLE), "q must be a torch tensor of floating"),
        ((Q, Q, TABLE, None), "sin must be a torch tensor of floating.*NoneType"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_numbers(arguments, told):
    with pytest.raises(RopewalkError, match=told):
        apply_rotary_pos_emb(*arguments)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rotary_dim", [4, 8])
def test_autocast_changes_nothing_in_apply(dtype, rotary_dim):
    q, rotary = random(1, 3, 2, 8, dtype=dtype), RotaryEmbedding(a_rope(head_dim=8, rotary_dim=rotary_dim))

    def call():
        return apply_rotary_pos_emb(q, q, *rotary(q, torch.tensor([[5, 900]])))[0]

    plain = call()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(call(), plain) and plain.dtype == dtype
