"""ONNX graphs: base and scaling out of the tables that RotaryEmbedding nodes read."""

import numpy as np
import pytest

from ropewalk import Rope, RopewalkError, read
from ropewalk.scaling import Llama3, LongRope, Yarn

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def graph(tmp_path, rope, *, interleaved=0, dtype=np.float32, operator="RotaryEmbedding", domain="", outside=False):
    """A graph of two layers, queries and keys, over float64 tables that owe nothing to the reader."""
    pairs = rope.pairs()
    angles = np.arange(32)[:, None] * pairs.inv_freq
    tables = [numpy_helper.from_array((f(angles) * pairs.cos_sin_factor).astype(dtype), name)
              for f, name in ((np.cos, "cos"), (np.sin, "sin"))]  # fmt: skip
    if outside:
        onnx.external_data_helper.set_external_data(tables[0], "weights.bin", offset=64, length=len(tables[0].raw_data))
        (tmp_path / "weights.bin").write_bytes(bytes(64) + tables[0].raw_data)
        tables[0].ClearField("raw_data")
    places = ["cos", "sin"] if domain == "" else ["ids", "cos", "sin"]
    flags = {"interleaved": interleaved}
    if operator == "GroupQueryAttention":
        places, flags = [*"abcdef", "cos", "sin"], {"rotary_interleaved": interleaved, "do_rotary": 1}
    nodes = [helper.make_node(operator, ["x", *places], [f"y{n}"], domain=domain, **flags) for n in range(4)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, [], initializer=tables))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("operator", "domain"),
    [("RotaryEmbedding", ""), ("RotaryEmbedding", "com.microsoft"), ("GroupQueryAttention", "com.microsoft")],
)
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_base_and_pairing_are_read_from_the_tables(tmp_path, operator, domain, pairing):
    rope = Rope(head_dim=96, rope_theta=250000.0, pairing=pairing, max_position_embeddings=32)
    model = read(graph(tmp_path, rope, interleaved=int(pairing == "interleaved"), operator=operator, domain=domain))
    assert model.rope == rope
    assert len(model.layers) == (4 if operator == "GroupQueryAttention" else 2)
    assert {one.code for one in model.findings} == {"RW178"}


def test_llama3_is_fitted(tmp_path):
    scaling = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    rope = Rope(head_dim=64, rope_theta=500000.0, pairing="half", scaling=scaling, max_position_embeddings=32)
    assert read(graph(tmp_path, rope)).rope == rope


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_yarn_is_fitted_with_its_magnitude(tmp_path, dtype):
    scaling = Yarn(factor=8.0, original_max_position_embeddings=4096)
    rope = Rope(head_dim=64, rope_theta=10000.0, pairing="half", scaling=scaling, max_position_embeddings=32)
    assert read(graph(tmp_path, rope, dtype=dtype)).rope == rope


def test_what_cannot_be_fitted_is_kept_as_a_table(tmp_path):
    divisors = tuple(1 + np.random.default_rng(0).random(32))
    scaling = LongRope(
        short_factor=divisors, long_factor=divisors, original_max_position_embeddings=99, attention_factor=1.2
    )
    rope = Rope(head_dim=64, rope_theta=10000.0, pairing="half", scaling=scaling, max_position_embeddings=32)
    model = read(graph(tmp_path, rope))
    pairs, right = model.rope.pairs(10), rope.pairs(10)
    np.testing.assert_allclose(pairs.inv_freq, right.inv_freq, rtol=1e-6)
    assert pairs.cos_sin_factor == pytest.approx(1.2, rel=1e-7)
    assert {one.code for one in model.findings} == {"RW181"}


def test_tables_outside_the_graph_are_read_beside_it(tmp_path):
    rope = Rope(head_dim=16, rope_theta=10000.0, pairing="half", max_position_embeddings=32)
    path = graph(tmp_path, rope, outside=True)
    assert read(path).rope == rope
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(RopewalkError, match="cannot be read"):
        read(path)


def test_a_graph_without_tables_is_refused(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [])).SerializeToString())
    with pytest.raises(RopewalkError, match="cannot be read"):
        read(path)
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(RopewalkError, match="no ONNX graph"):
        read(path)
