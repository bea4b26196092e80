"""Adapters: what people have, as fn(x, position_ids), against the float64 truth."""

import copy

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError
from ropewalk.probe import adapt
from ropewalk.turning import naive

B, S, H, D = 2, 4, 6, 12
ROPE = Rope(head_dim=D, rope_theta=500.0, pairing="half")
ADJACENT = ROPE.replace(pairing="interleaved")
X = np.random.default_rng(0).standard_normal((B, S, H, D))
ROWS = np.array([[3, 9, 1, 40], [0, 7, 7, 2]])
INV = 500.0 ** (-np.arange(0, D, 2) / D)


def half(x, cos, sin):
    left, right = np.split(x, 2, axis=-1)
    return x * cos + np.concatenate([-right, left], axis=-1) * sin


def doubled(ids):
    angles = np.asarray(ids)[..., None] * np.concatenate([INV, INV])
    return np.cos(angles), np.sin(angles)


def right(x, ids, rope=ROPE):
    return naive.rotate(x, ids, rope)


def near(got, wanted, room=1e-9):
    assert got.shape == wanted.shape
    assert np.abs(np.asarray(got) - wanted).max() <= room


def turn_both(q, k, position_ids):
    cos, sin = (one[:, :, None] for one in doubled(position_ids))
    return half(q, cos, sin), half(k, cos, sin)


def test_a_function_of_queries_and_keys_turns_x():
    near(adapt.calling(turn_both)(X, ROWS), right(X, ROWS))


def test_arguments_are_told_by_their_names_in_whatever_order():
    def vllm_like(positions, query, key):
        return turn_both(query, key, positions)

    near(adapt.calling(vllm_like)(X, ROWS), right(X, ROWS))


def test_positions_may_be_keyword_only():
    def tune_like(x, *, input_pos=None):
        return turn_both(x, x, input_pos)[0]

    near(adapt.calling(tune_like)(X, ROWS), right(X, ROWS))


def test_names_that_say_nothing_are_taken_in_order():
    near(adapt.calling(lambda a, b: turn_both(a, a, b)[0])(X, ROWS), right(X, ROWS))
    near(adapt.calling(lambda a, b, c: turn_both(a, b, c))(X, ROWS), right(X, ROWS))


def test_a_parameter_without_a_role_is_refused_with_the_way_out():
    with pytest.raises(RopewalkError, match=r"spice.*write def fn\(x, position_ids\)"):
        adapt.calling(lambda q, k, position_ids, spice: None)


def test_fewer_heads_of_keys_reach_the_function():
    seen = {}

    def function(q, k, position_ids):
        seen.update(q=q.shape, k=k.shape)
        return turn_both(q, k, position_ids)

    near(adapt.calling(function, kv_heads=2)(X, ROWS), right(X, ROWS))
    assert seen == {"q": (B, S, H, D), "k": (B, S, 2, D)}


def test_keys_that_are_turned_otherwise_are_reported():
    def function(q, k, position_ids):
        return turn_both(q, k, position_ids)[0], turn_both(q, k, position_ids + 1)[1]

    with pytest.raises(RopewalkError, match=r"queries and keys .* turned differently"):
        adapt.calling(function)(X, ROWS)
    near(adapt.calling(function, of="q")(X, ROWS), right(X, ROWS))
    near(adapt.calling(function, of="k")(X, ROWS), right(X, ROWS + 1))


def test_a_function_that_overwrites_its_queries_does_so_to_x():
    def function(q, k, position_ids):
        q[...], k[...] = turn_both(q, k, position_ids)
        return q, k

    given = X.copy()
    adapt.calling(function)(given, ROWS)
    near(given, right(X, ROWS))


def test_heads_before_the_sequence():
    def function(q, k, position_ids):
        assert q.shape == (B, H, S, D)
        cos, sin = (one[:, None] for one in doubled(position_ids))
        return half(q, cos, sin), half(k, cos, sin)

    near(adapt.calling(function, layout="bhsd")(X, ROWS), right(X, ROWS))


@pytest.mark.parametrize("ids", [ROWS, ROWS[:1], ROWS[0]], ids=["rows", "one row", "no batch"])
def test_packed_functions_get_all_rows_one_after_the_other(ids):
    def function(positions, q, k):
        assert q.shape == (B * S, H, D) and positions.shape == (B * S,)
        cos, sin = (one[:, None] for one in doubled(positions))
        return half(q, cos, sin), half(k, cos, sin)

    near(adapt.calling(function, layout="thd")(X, ids), right(X, ids))


@pytest.mark.parametrize("source", [doubled(np.arange(64)), doubled], ids=["a table", "a function"])
def test_tables_of_the_caller(source):
    def apply(q, k, cos, sin):
        cos, sin = cos[:, :, None], sin[:, :, None]
        return half(q, cos, sin), half(k, cos, sin)

    near(adapt.tables(apply, source)(X, ROWS), right(X, ROWS))


def test_sin_before_cos_is_told_by_name():
    def apply(tensor, sin, cos):
        return half(tensor, cos[:, :, None], sin[:, :, None])

    near(adapt.tables(apply, doubled(np.arange(64)))(X, ROWS), right(X, ROWS))


def test_the_complex_form():
    def apply_rotary_emb(xq, xk, freqs_cis):
        def turned(x):
            pairs = x.reshape(*x.shape[:-1], -1, 2)
            out = (pairs[..., 0] + 1j * pairs[..., 1]) * freqs_cis[:, :, None]
            return np.stack([out.real, out.imag], axis=-1).reshape(x.shape)

        return turned(xq), turned(xk)

    freqs_cis = np.exp(1j * np.arange(64)[:, None] * INV)
    near(adapt.complex_form(apply_rotary_emb, freqs_cis)(X, ROWS), right(X, ROWS, ADJACENT))
    near(adapt.complex_form(apply_rotary_emb, lambda ids: freqs_cis[ids])(X, ROWS), right(X, ROWS, ADJACENT))


def test_numpy_functions_take_lists():
    near(adapt.numpy(lambda x, ids: turn_both(x, x, ids)[0])(X.tolist(), ROWS.tolist()), right(X, ROWS))


def test_modules_stay_within_reach_and_are_copied_with_their_function():
    torch = pytest.importorskip("torch")

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("inv_freq", torch.from_numpy(np.concatenate([INV, INV])))

        def forward(self, q, k, position_ids):
            angles = (position_ids[..., None] * self.inv_freq)[:, :, None]
            cos, sin = angles.cos(), angles.sin()
            return tuple(x * cos + torch.cat([-x[..., D // 2 :], x[..., : D // 2]], -1) * sin for x in (q, k))

    fn = adapt.module(Rotary(), kv_heads=2)
    near(fn(torch.from_numpy(X), torch.from_numpy(ROWS)).numpy(), right(X, ROWS))
    other = copy.deepcopy(fn)
    other.module.inv_freq.zero_()
    near(other(torch.from_numpy(X), torch.from_numpy(ROWS)).numpy(), X)
    near(fn(torch.from_numpy(X), torch.from_numpy(ROWS)).numpy(), right(X, ROWS))


def test_torch_functions_take_arrays():
    torch = pytest.importorskip("torch")
    fn = adapt.torch(lambda x, ids: torch.flip(x, (-1,)) * ids[..., None, None])
    near(fn(X, ROWS), X[..., ::-1] * ROWS[..., None, None])


def test_jax_functions_take_arrays():
    jax = pytest.importorskip("jax")
    fn = adapt.jax(jax.jit(lambda x, ids: x[..., ::-1] * ids[..., None, None]))
    near(fn(X.astype(np.float32), ROWS), X[..., ::-1] * ROWS[..., None, None], 1e-5)


# --- transformers ----------------------------------------------------------------------------------------------------


def tiny(kind, **changes):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": 2}
    return getattr(transformers, f"{kind}Config")(**{**sizes, **changes})


def file_of(name):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import importlib

    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def check_turn(fn, rope, ids=ROWS, room=3e-5):
    import torch

    x = np.random.default_rng(1).standard_normal((B, S, H, rope.head_dim)).astype(np.float32)
    got = fn(torch.from_numpy(x), torch.from_numpy(ids)).numpy()
    near(got, naive.rotate(x, ids, rope), room)


def test_llama_is_called_with_the_heads_before_the_sequence():
    file = file_of("llama")
    rotary = file.LlamaRotaryEmbedding(tiny("Llama", rope_theta=500.0))
    fn = adapt.transformers(rotary, file.apply_rotary_pos_emb, kv_heads=2)
    check_turn(fn, Rope(head_dim=16, rope_theta=500.0, pairing="half"))
    assert fn.way.layout == "bhsd" and fn.module is rotary


def test_gptj_gives_sin_first_and_its_attention_cuts_the_head():
    file = file_of("gptj")
    from transformers import GPTJConfig

    config = GPTJConfig(n_embd=96, n_head=6, rotary_dim=8, n_layer=1)
    fn = adapt.transformers(file.GPTJRotaryEmbedding(config), file.apply_rotary_pos_emb)
    check_turn(fn, Rope(head_dim=16, rotary_dim=8, rope_theta=10000.0, pairing="interleaved"))
    assert (fn.way.width, fn.way.layout) == (8, "bshd")


def test_llama4_gives_complex_numbers():
    file = file_of("llama4")
    from transformers import Llama4TextConfig

    config = Llama4TextConfig(hidden_size=96, num_attention_heads=6, head_dim=16, rope_theta=500.0)
    fn = adapt.transformers(file.Llama4TextRotaryEmbedding(config), file.apply_rotary_emb)
    check_turn(fn, Rope(head_dim=16, rope_theta=500.0, pairing="interleaved"))


def test_layer_types_have_ropes_of_their_own():
    file = file_of("gemma3")
    from transformers import Gemma3TextConfig

    own = {"full_attention": {"rope_type": "default", "rope_theta": 9000.0}}
    own["sliding_attention"] = {"rope_type": "default", "rope_theta": 300.0}
    rotary = file.Gemma3RotaryEmbedding(Gemma3TextConfig(head_dim=16, rope_parameters=own))
    for label, theta in (("full_attention", 9000.0), ("sliding_attention", 300.0)):
        fn = adapt.transformers(rotary, file.apply_rotary_pos_emb, layer_type=label)
        check_turn(fn, Rope(head_dim=16, rope_theta=theta, pairing="half"))


def test_three_rows_of_positions():
    from ropewalk import read

    file = file_of("qwen2_vl")
    from transformers import Qwen2VLConfig

    config = Qwen2VLConfig()
    rope = read(config.text_config).ropes[0]
    fn = adapt.transformers(file.Qwen2VLRotaryEmbedding(config.text_config), file.apply_rotary_pos_emb, axes=3)
    check_turn(fn, rope, np.stack([ROWS, ROWS[::-1] + 1, 2 * ROWS]))
    check_turn(fn, rope, ROWS)


def test_vision_towers_are_called_with_tokens():
    from ropewalk import read

    file = file_of("qwen2_vl")
    from transformers import Qwen2VLConfig

    config = Qwen2VLConfig().vision_config
    rope = read(config).ropes[0]
    fn = adapt.transformers(file.Qwen2VLVisionRotaryEmbedding(config), file.apply_rotary_pos_emb_vision, axes=2)
    check_turn(fn, rope, np.stack([ROWS, ROWS[::-1] + 1]))
    assert fn.way.ids == "tokens"


def test_what_does_not_fit_together_is_an_error_that_says_why():
    file = file_of("llama")
    fn = adapt.transformers(file.LlamaRotaryEmbedding(tiny("Llama")), lambda q, k, cos, sin: 1 / 0)
    import torch

    with pytest.raises(RopewalkError, match=r"cannot be called together.*ZeroDivisionError"):
        fn(torch.zeros(B, S, H, 16), torch.from_numpy(ROWS))


# --- ONNX ------------------------------------------------------------------------------------------------------------


def graph_file(path, *, keys=False, extra=False):
    """An interleaved rope as a graph of plain operators, written by hand; x [B, S, H, D]."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper, numpy_helper

    def constant(name, value):
        return numpy_helper.from_array(np.asarray(value), name)

    names = ["q", "k"] if keys else ["x"]
    nodes = [
        helper.make_node("Cast", ["position_ids"], ["places"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["places", "last"], ["column"]),
        helper.make_node("Mul", ["column", "inv"], ["angles"]),
        helper.make_node("Unsqueeze", ["angles", "heads"], ["spread"]),
        helper.make_node("Cos", ["spread"], ["cos"]),
        helper.make_node("Sin", ["spread"], ["sin"]),
    ]
    for one in names:
        nodes += [
            helper.make_node("Gather", [one, "even"], [f"{one}a"], axis=3),
            helper.make_node("Gather", [one, "odd"], [f"{one}b"], axis=3),
            helper.make_node("Mul", [f"{one}a", "cos"], [f"{one}ac"]),
            helper.make_node("Mul", [f"{one}b", "sin"], [f"{one}bs"]),
            helper.make_node("Sub", [f"{one}ac", f"{one}bs"], [f"{one}first"]),
            helper.make_node("Mul", [f"{one}b", "cos"], [f"{one}bc"]),
            helper.make_node("Mul", [f"{one}a", "sin"], [f"{one}as"]),
            helper.make_node("Add", [f"{one}bc", f"{one}as"], [f"{one}second"]),
            helper.make_node("Concat", [f"{one}first", f"{one}second"], [f"{one}sorted"], axis=3),
            helper.make_node("Gather", [f"{one}sorted", "back"], [f"{one}_out"], axis=3),
        ]
    back = np.stack([np.arange(D // 2), np.arange(D // 2) + D // 2], axis=1).ravel()
    constants = [
        constant("last", np.array([2])),
        constant("heads", np.array([2])),
        constant("inv", INV.astype(np.float32)),
        constant("even", np.arange(0, D, 2)),
        constant("odd", np.arange(1, D, 2)),
        constant("back", back),
    ]
    inputs = [helper.make_tensor_value_info(one, TensorProto.FLOAT, ["B", "S", f"H{one}", D]) for one in names]
    inputs.append(helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["B", "S"]))
    if extra:
        inputs.append(helper.make_tensor_value_info("scale_ids", TensorProto.INT64, [1]))
    outputs = [helper.make_tensor_value_info(f"{one}_out", TensorProto.FLOAT, None) for one in names]
    graph = helper.make_graph(nodes, "rope", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.parametrize("keys", [False, True], ids=["x", "q and k"])
def test_an_onnx_file_turns_x(tmp_path, keys):
    fn = adapt.onnx(graph_file(tmp_path / "rope.onnx", keys=keys), kv_heads=2 if keys else None)
    out = fn(X.astype(np.float32), ROWS)
    assert out.dtype == np.float32
    near(out, right(X, ROWS, ADJACENT), 1e-5)
    near(fn(X.astype(np.float32), ROWS[0]), right(X, ROWS[0], ADJACENT), 1e-5)


def test_a_graph_with_other_inputs_is_refused_with_what_it_has(tmp_path):
    with pytest.raises(RopewalkError, match=r"scale_ids: tensor\(int64\)"):
        adapt.onnx(graph_file(tmp_path / "rope.onnx", extra=True))


def test_a_file_that_is_no_graph_is_one_line(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "rope.onnx"
    path.write_bytes(b"not a graph")
    with pytest.raises(RopewalkError, match="cannot be loaded by onnxruntime"):
        adapt.onnx(path)
