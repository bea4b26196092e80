"""ONNX: exported turns run in onnxruntime with the numbers of float64, by the operator where it can say them."""

import doctest
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ropewalk
from ropewalk import Rope, RopewalkError
from ropewalk.axes import Ladders, Sections
from ropewalk.scaling import Dynamic, LongRope, Proportional, Yarn
from ropewalk.turning import naive

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
ir = pytest.importorskip("onnxscript").ir
face = pytest.importorskip("ropewalk.onnx")
Rotary = pytest.importorskip("ropewalk.torch").Rotary
text_of = pytest.importorskip("ropewalk.turning.op").text_of

turn = torch.ops.ropewalk.turn
BATCH = SEQ = torch.export.Dim.DYNAMIC
SIZES = [(2, 5), (3, 11), (1, 1)]  # the model is exported at the first
PLACES = [0, 1, -5, 70_000, 2**24, 1023, 1024, 1_048_577, -(2**20), 2**29 + 3, 37]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One turn in an exported model."""

    rope: Rope
    heads: int = 6
    layout: str = "bshd"
    lead: int = 0  # a dimension in front of the batch
    dtype: str = "float32"
    positions: str = "ids"
    transpose: bool = False
    inverse: bool = False

    def shape(self, batch: int, seq: int) -> tuple[int, ...]:
        width = self.rope.head_dim
        if self.layout == "thd":
            return seq, self.heads, width
        rows = (batch, self.heads, seq, width) if self.layout == "bhsd" else (batch, seq, self.heads, width)
        return (self.lead, *rows) if self.lead else rows

    def dynamic(self) -> dict[int, Any]:
        if self.layout == "thd":
            return {0: SEQ}
        first = 1 if self.lead else 0
        return {first: BATCH, first + (2 if self.layout == "bhsd" else 1): SEQ}

    def turned(self, x: Any, given: dict[str, Any]) -> Any:
        """The turn as the model has it; half precision lives inside, since NumPy has no bfloat16 to feed."""
        own = x.to(getattr(torch, self.dtype))
        text = text_of(self.rope)
        return turn(own, given[self.positions], text, [], self.layout, self.transpose, self.inverse).to(x.dtype)

    def expected(self, x: np.ndarray, given: dict[str, Any]) -> np.ndarray:
        """The truth in float64, from the input as rounded to the case's own dtype."""
        x = torch.from_numpy(x).to(getattr(torch, self.dtype)).double().numpy()
        x = np.swapaxes(x, 1, 2) if self.layout == "bhsd" else x
        ids = given[self.positions]
        ids = np.arange(x.shape[-3]) if ids is None else ids
        if not self.transpose:
            out = naive.rotate(x, ids, self.rope, inverse=self.inverse)
        else:  # (Mᵀx)_i is the product of x with M's column i
            width = self.rope.head_dim
            columns = naive.rotate(np.broadcast_to(np.eye(width), (*x.shape[:-2], width, width)), ids, self.rope)
            out = np.einsum("...sij,...shj->...shi", columns, x)
        return np.swapaxes(out, 1, 2) if self.layout == "bhsd" else out

    def tolerance(self, expected: np.ndarray) -> np.ndarray:
        """The bar for float32, plus half a unit in the last place where the result is rounded to fewer bits."""
        if self.dtype == "float64":
            return np.full(expected.shape, 1e-12)
        half_ulp = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}[self.dtype]
        return 1e-6 * max(1.0, np.abs(expected).max() / 5) + half_ulp * np.abs(expected)


HALF = Rope(head_dim=64, rope_theta=5e5, pairing="half")
SMALL = Rope(head_dim=8, rope_theta=1e4, pairing="half")
YARN = Rope(
    head_dim=48, rope_theta=1e4, pairing="half", scaling=Yarn(factor=4.0, original_max_position_embeddings=4096)
)
MROPE = Rope(head_dim=16, rope_theta=1e6, pairing="half", axes=Sections(sections=(4, 2, 2), arrangement="interleaved"))
TILE = Rope(head_dim=8, rope_theta=1e4, pairing="hybrid_tile")
HALVES = Rope(head_dim=16, rope_theta=1e4, pairing="half", axes=Ladders(widths=(8, 8), pairing_within="axis"))
TAIL = Rope(head_dim=10, rotary_dim=4, rotary_start=6, rope_theta=1e4, pairing="half")

SAID = {
    "half": Case(rope=HALF, heads=32),
    "fewer key heads": Case(rope=HALF, heads=4),
    "interleaved": Case(rope=Rope(head_dim=96, rope_theta=1e4, pairing="interleaved")),
    "six wide": Case(rope=Rope(head_dim=6, rope_theta=1e4, pairing="half")),
    "part of the head": Case(rope=Rope(head_dim=96, rotary_dim=48, rope_theta=1e4, pairing="half")),
    "part, interleaved": Case(rope=Rope(head_dim=10, rotary_dim=6, rope_theta=1e4, pairing="interleaved")),
    "direction -1": Case(rope=SMALL.replace(direction=-1)),
    "still pairs": Case(rope=SMALL.replace(scaling=Proportional(partial_rotary_factor=0.5))),
    "yarn": Case(rope=YARN),
    "yarn undone": Case(rope=YARN, inverse=True),
    "yarn transposed": Case(rope=YARN, transpose=True),
    "heads first": Case(rope=HALF, layout="bhsd", heads=4),
    "packed": Case(rope=SMALL, layout="thd", positions="row"),
    "packed, one row of positions": Case(rope=SMALL, layout="thd", positions="row of a batch"),
    "packed, counted": Case(rope=SMALL, layout="thd", positions="none"),
    "counted": Case(rope=SMALL, positions="none"),
    "one row for all": Case(rope=SMALL, positions="row"),
    "one row for all, heads first": Case(rope=SMALL, layout="bhsd", positions="row of a batch"),
    "three axes": Case(rope=MROPE, positions="by axis"),
    "three axes, text": Case(rope=MROPE, positions="ids"),
    "three axes in chunks": Case(
        rope=MROPE.replace(axes=Sections(sections=(4, 2, 2), arrangement="chunked")), positions="by axis"
    ),
    "int32 positions": Case(rope=SMALL, positions="narrow"),
    "float positions": Case(rope=SMALL, positions="floats"),
    "float16": Case(rope=HALF, dtype="float16"),
    "bfloat16": Case(rope=HALF, dtype="bfloat16"),
    "bfloat16, part": Case(rope=SMALL.replace(rotary_dim=4), dtype="bfloat16"),
}
PLAIN = (
    *("half", "part, interleaved", "yarn undone", "heads first", "packed, counted", "one row for all"),
    *("three axes", "float positions", "bfloat16, part"),
)
NOT_SAID = {
    "tail": Case(rope=TAIL),
    "tail, interleaved": Case(rope=TAIL.replace(pairing="interleaved"), layout="bhsd"),
    "tail, bfloat16": Case(rope=TAIL, dtype="bfloat16"),
    "packed tail": Case(rope=TAIL, layout="thd", positions="row"),
    "middle": Case(rope=Rope(head_dim=12, rotary_dim=6, rotary_start=2, rope_theta=1e4, pairing="interleaved")),
    "odd head": Case(rope=Rope(head_dim=7, rotary_dim=4, rope_theta=1e4, pairing="half")),
    "odd width": Case(rope=Rope(head_dim=9, rope_theta=1e4, pairing="half", odd="pass")),
    "two halves": Case(
        rope=Rope(
            head_dim=16,
            rope_theta=1e4,
            pairing="half",
            axes=Ladders(widths=(8, 8), pairing_within="axis", names=("a", "b")),
        ),
        positions="two axes",
    ),
    "tiled": Case(rope=TILE, positions="near"),
    "tiled, undone": Case(rope=TILE, positions="near", inverse=True),
    "tiled, transposed": Case(rope=TILE, positions="near", transpose=True),
    "float64": Case(rope=SMALL, dtype="float64", heads=2),
    "five dimensions": Case(rope=SMALL, lead=2),
}


class Many(torch.nn.Module):
    """A model that makes every turn of a table."""

    def __init__(self, cases: dict[str, Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, xs, ids, by_axis, floats):
        given = positions(ids, by_axis, floats)
        return [case.turned(x, given) for case, x in zip(self.cases.values(), xs, strict=True)]


def positions(ids: Any, by_axis: Any, floats: Any) -> dict[str, Any]:
    """Every kind of positions that a case can name, of torch or of NumPy."""
    return {
        "ids": ids,
        "row": ids[0],
        "row of a batch": ids[:1],
        "by axis": by_axis,
        "two axes": by_axis[:2],
        "near": ids % 7,
        "narrow": ids.to(torch.int32) if isinstance(ids, torch.Tensor) else ids,
        "floats": floats,
        "none": None,
    }


def session_of(program: Any) -> Any:
    model = program.model_proto
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def feed(session: Any, *values: np.ndarray) -> list[np.ndarray]:
    names = [one.name for one in session.get_inputs()]
    return session.run(None, dict(zip(names, values, strict=True)))


def kinds(program: Any) -> Counter[str]:
    return Counter(node.op_type for node in program.model_proto.graph.node)


class Exported:
    """A table of cases as an exported model, run at one size after another."""

    def __init__(self, cases: dict[str, Case], places: list[int] = PLACES, **options: Any) -> None:
        self.cases, self.places = cases, np.array(places)
        xs, *rest = self.inputs(*SIZES[0])
        tensors = ([torch.from_numpy(x) for x in xs], *(torch.from_numpy(one) for one in rest))
        shapes = (
            [case.dynamic() for case in cases.values()],
            {0: BATCH, 1: SEQ},
            {1: BATCH, 2: SEQ},
            {0: BATCH, 1: SEQ},
        )
        self.program = face.export(Many(cases).eval(), tensors, dynamic_shapes=shapes, **options)
        self.session = session_of(self.program)

    def inputs(self, batch: int, seq: int) -> list[Any]:
        rng = np.random.default_rng(batch * seq)
        xs = [
            rng.standard_normal(case.shape(batch, seq)).astype("float64" if case.dtype == "float64" else "float32")
            for case in self.cases.values()
        ]
        ids = rng.permuted(np.resize(self.places, (batch, max(seq, len(self.places)))), axis=1)[:, :seq]
        by_axis = np.stack([ids, ids[:, ::-1], ids // 2 + 3])
        return [xs, ids, by_axis, ids / 4 + 0.125]

    @cache  # noqa: B019
    def run(self, batch: int, seq: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """What came out, and the truth, of every case."""
        xs, *rest = self.inputs(batch, seq)
        outs = feed(self.session, *xs, *rest)
        given = positions(*rest)
        named = zip(self.cases.items(), xs, outs, strict=True)
        return {name: (out, case.expected(x, given)) for (name, case), x, out in named}

    def check(self, name: str, size: tuple[int, int]) -> None:
        out, expected = self.run(*size)[name]
        assert out.shape == expected.shape
        assert (np.abs(out - expected) <= self.cases[name].tolerance(expected)).all()


@pytest.fixture(scope="module")
def said() -> Exported:
    return Exported(SAID)


@pytest.fixture(scope="module")
def not_said() -> Exported:
    return Exported(NOT_SAID)


@pytest.fixture(scope="module")
def plain() -> Exported:
    return Exported({name: SAID[name] for name in PLAIN}, plain=True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SAID)
def test_what_the_operator_can_say_is_turned_as_in_float64(said, name, size):
    said.check(name, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NOT_SAID)
def test_what_the_operator_cannot_say_is_turned_as_in_float64(not_said, name, size):
    not_said.check(name, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PLAIN)
def test_plain_operators_turn_everything_as_in_float64(plain, name, size):
    plain.check(name, size)


def test_the_operator_stands_in_the_graph_once_a_turn_where_it_can_say_it(said, not_said, plain):
    assert kinds(said.program)["RotaryEmbedding"] == len(SAID)
    assert kinds(not_said.program)["RotaryEmbedding"] == 0
    assert kinds(plain.program)["RotaryEmbedding"] == 0


def test_channels_outside_the_pairs_come_out_bit_for_bit(said, not_said):
    for exported, name, channels in ((said, "bfloat16, part", slice(4, 8)), (not_said, "tail, bfloat16", slice(0, 6))):
        out, expected = exported.run(*SIZES[1])[name]
        np.testing.assert_array_equal(out[..., channels], expected[..., channels])


def test_nan_and_infinity_stay_in_their_own_pair(said):
    xs, *rest = said.inputs(*SIZES[0])
    at = list(SAID).index("half")
    xs[at][:, :, 0, 3], xs[at][:, :, 1, 40] = np.nan, np.inf
    out = feed(said.session, *xs, *rest)[at]
    spoilt = ~np.isfinite(out)
    assert spoilt[:, :, 0, [3, 35]].all()
    assert spoilt[:, :, 1].any(axis=-1).all()
    spoilt[:, :, 0, [3, 35]] = spoilt[:, :, 1, [8, 40]] = False
    assert not spoilt.any()


def test_no_token_gives_no_output(said, not_said):
    for exported in (said, not_said):
        xs, *rest = exported.inputs(2, 0)
        outs = feed(exported.session, *xs, *rest)
        assert [out.shape for out in outs] == [x.shape for x in xs]


@pytest.mark.parametrize("position", [2**30, -(2**30), 2**62])
def test_a_whole_position_beyond_the_tables_is_an_error_when_the_model_runs(said, position):
    xs, ids, *rest = said.inputs(*SIZES[0])
    ids[1, 2] = position
    with pytest.raises(Exception, match="out of data bounds"):
        feed(said.session, *xs, ids, *rest)


BAKED = (
    *("half", "part, interleaved", "yarn undone", "direction -1", "heads first", "packed", "counted", "float16"),
    *("one row for all", "three axes, text"),
)
NOT_BAKED = ("three axes", "float positions")


@pytest.fixture(scope="module")
def baked() -> Exported:
    return Exported(
        {name: SAID[name] for name in (*BAKED, "three axes", "float positions")}, list(range(0, 96, 7)), max_position=96
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*BAKED, *NOT_BAKED])
def test_with_max_position_the_turn_is_that_of_float64(baked, name, size):
    baked.check(name, size)


def test_with_max_position_the_operator_takes_position_ids_where_it_can(baked):
    graph = baked.program.model_proto.graph
    sizes = {one.name: tuple(one.dims) for one in graph.initializer}
    nodes = [node for node in graph.node if node.op_type == "RotaryEmbedding"]
    by_ids = [node for node in nodes if len(node.input) == 4]
    assert (len(nodes), len(by_ids)) == (len(BAKED + NOT_BAKED), len(BAKED))
    assert {sizes[node.input[1]][0] for node in by_ids} == {96}
    assert sizes[by_ids[0].input[1]] == (96, 32)


@pytest.mark.parametrize("position", [96, -1])
def test_with_max_position_a_position_outside_is_an_error_when_the_model_runs(baked, position):
    xs, ids, *rest = baked.inputs(*SIZES[0])
    ids[1, 2] = position
    with pytest.raises(Exception, match="out of range"):
        feed(baked.session, *xs, ids, *rest)


LONG = Rope(
    head_dim=8,
    rope_theta=1e4,
    pairing="half",
    max_position_embeddings=64,
    scaling=LongRope(
        short_factor=(1.0, 1.1, 1.2, 1.3),
        long_factor=(1.0, 2.0, 3.0, 4.0),
        original_max_position_embeddings=8,
        short_mscale=1.1,
        long_mscale=1.3,
    ),
)
GROWING = Rope(head_dim=12, rope_theta=1e4, pairing="half", max_position_embeddings=8, scaling=Dynamic(factor=2.5))
GROWING_TAIL = GROWING.replace(rotary_dim=8, rotary_start=4)


class ByLength(torch.nn.Module):
    """Turns that depend on the length, which is that of the sequence, one that is fixed, or one a row."""

    def __init__(self) -> None:
        super().__init__()
        self.ropes = (LONG, GROWING, GROWING_TAIL)
        self.rotaries = torch.nn.ModuleList(Rotary(rope) for rope in self.ropes)

    def forward(self, xs, ids):
        outs = []
        for rotary, x in zip(self.rotaries, xs, strict=True):
            by_seq, _ = rotary(x, x, ids, length=x.shape[1])
            fixed, _ = rotary(x, x, ids, length=20)
            outs += [by_seq, fixed, ropewalk.rotate(x, ids, rotary.rope, length=[20, 3])]
        return outs


@pytest.fixture(scope="module")
def by_length() -> Any:
    xs = [torch.ones(2, 5, 3, rope.head_dim) for rope in (LONG, GROWING, GROWING_TAIL)]
    shapes = ([{1: SEQ}] * 3, {1: SEQ})
    program = face.export(ByLength().eval(), (xs, torch.arange(10).view(2, 5)), dynamic_shapes=shapes)
    return program, session_of(program)


@pytest.mark.parametrize("seq", [1, 8, 9, 40])
def test_a_rope_that_depends_on_the_length_is_right_on_both_sides_of_the_trained_one(by_length, seq):
    program, session = by_length
    assert kinds(program)["RotaryEmbedding"] == 6
    rng = np.random.default_rng(seq)
    ropes = (LONG, GROWING, GROWING_TAIL)
    xs = [rng.standard_normal((2, seq, 3, rope.head_dim)).astype(np.float32) for rope in ropes]
    ids = rng.integers(0, 100_000, (2, seq))
    outs = iter(feed(session, *xs, ids))
    for rope, x in zip(ropes, xs, strict=True):
        for length in (seq, 20, [20, 3]):
            np.testing.assert_allclose(next(outs), naive.rotate(x, ids, rope, length=length), rtol=0, atol=2e-6)


class Layer(torch.nn.Module):
    """Attention of 8 query and 2 key heads."""

    def __init__(self, rope: Rope) -> None:
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(32, heads * rope.head_dim) for heads in (8, 2, 2))
        self.rotary = Rotary(rope, layout="bhsd")

    def forward(self, x, position_ids):
        q, k, v = (one(x).unflatten(-1, (-1, 8)).transpose(1, 2) for one in (self.q, self.k, self.v))
        q, k = self.rotary(q, k, position_ids)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return x + out.transpose(1, 2).flatten(2)[..., :32]


class Stack(torch.nn.Module):
    """Three layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(SMALL) for _ in range(3))

    def forward(self, x, position_ids=None):
        for layer in self.layers:
            x = layer(x, position_ids)
        return x


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "position_ids"])
def test_all_layers_of_a_model_share_one_cos_and_sin(counted):
    torch.manual_seed(0)
    model = Stack().eval()
    ids = torch.tensor([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
    args = (torch.randn(2, 5, 32),) if counted else (torch.randn(2, 5, 32), ids)
    program = face.export(model, args, dynamic_shapes=({0: BATCH, 1: SEQ},) * len(args))
    found = kinds(program)
    assert (found["RotaryEmbedding"], found["Abs"], found["Range"]) == (6, 1, int(counted))
    tables = [one.dims for one in program.model_proto.graph.initializer if list(one.dims) == [1024, 4]]
    assert len(tables) == 6
    x, ids = torch.randn(3, 9, 32), torch.randint(0, 2**24, (3, 9))
    (out,) = feed(session_of(program), x.numpy(), *([] if counted else [ids.numpy()]))
    with torch.no_grad():
        expected = model(x, None if counted else ids)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5)


def test_below_opset_23_plain_operators_stand_in(tmp_path):
    x, ids = torch.randn(2, 5, 6, 8), torch.tensor([[0, 3, 70_000, 9, 4], [1, 2, 3, 4, 5]])
    path = tmp_path / "rotary.onnx"
    program = face.export(Rotary(SMALL).eval(), (x, x[:, :, :2].clone(), ids), path, opset_version=18)
    assert {one.domain: one.version for one in program.model_proto.opset_import}[""] == 18
    assert kinds(program)["RotaryEmbedding"] == 0
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    q, k = feed(session, x.numpy(), x[:, :, :2].numpy(), ids.numpy())
    np.testing.assert_allclose(q, naive.rotate(x, ids, SMALL), rtol=0, atol=1e-6)
    np.testing.assert_allclose(k, naive.rotate(x[:, :, :2], ids, SMALL), rtol=0, atol=1e-6)


def test_learned_speeds_are_exported_as_they_are():
    rotary = Rotary(SMALL, learnable=True).eval()
    with torch.no_grad():
        rotary.inv_freq.mul_(1.5)
    x, ids = torch.randn(2, 5, 6, 8), torch.arange(10).view(2, 5)
    program = face.export(rotary, (x, x.clone(), ids))
    q, _ = feed(session_of(program), x.numpy(), x.numpy(), ids.numpy())
    np.testing.assert_allclose(q, naive.rotate(x, ids * 1.5, SMALL), rtol=0, atol=2e-6)


def written(shape: list[int], ids: list[int] | None, rope: Rope, length: Any = (), layout: str = "bshd") -> None:
    """Translate one turn of values of these shapes."""
    (translate,) = face.translations().values()
    value: Callable[..., Any] = lambda size, kind: ir.Value(shape=ir.Shape(size), type=ir.TensorType(kind))  # noqa: E731
    x = value(shape, ir.DataType.FLOAT)
    translate(x, None if ids is None else value(ids, ir.DataType.INT64), text_of(rope), length, layout, False, False)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([2, 5, 6, 10], None, SMALL), "head_dim=8"),
        (([2, 5, 6, 8], [3, 2, 5], SMALL), r"must be \[seq\] or \[batch, seq\]"),
        (([2, 5, 6, 16], [2, 2, 5], MROPE), r"must be \[axes=3, batch, seq\]"),
        (([2, 5, 6, 16], None, HALVES), "2 axes"),
        (([2, 5, 6, 16], [2, 5], HALVES), r"must be \[axes=2, batch, seq\]"),
        (([2, 5, 6, 8], [2, 5], LONG), "longrope scaling depends on the length"),
        (([2, 5, 6, 12], [2, 5], GROWING), "dynamic scaling depends on the length"),
        (([2, 5, 6, 8], [2, 5], LONG, [3, 4, 5]), "3 lengths"),
        (([5, 6, 8], [5], LONG, [3, 4], "thd"), "2 lengths"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, says):
    with pytest.raises(RopewalkError, match=says):
        written(*arguments)


def test_a_refusal_comes_through_the_exporter_in_its_own_words():
    class Lengthless(torch.nn.Module):
        def forward(self, x, ids):
            return turn(x, ids, text_of(GROWING), [], "bshd", False, False)

    with pytest.raises(RopewalkError, match=r"^dynamic scaling depends on the length"):
        face.export(Lengthless().eval(), (torch.ones(2, 5, 6, 12), torch.arange(5)))


def test_what_torch_cannot_export_stays_torchs_own_error():
    class Branch(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(torch.onnx.OnnxExporterError):
        face.export(Branch().eval(), (torch.ones(3),))


@pytest.mark.parametrize("rows", [0, -1, 2.5, 2**24 + 1, "many"])
def test_a_max_position_that_is_no_count_is_refused(rows):
    with pytest.raises(RopewalkError, match="max_position"):
        face.translations(max_position=rows)


def test_without_onnxscript_the_error_says_what_to_install():
    code = "import sys; sys.modules['onnxscript'] = None\n"
    code += "try: import ropewalk.onnx\nexcept ImportError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'ropewalk[torch,onnx]'" in done.stdout


# torch 2.13 copies its own trees through a check that it has deprecated; export silences that, plain torch does not
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")
def test_the_examples_of_the_guide_run():
    guide = Path(__file__).parents[1] / "docs" / "onnx.md"
    failures, tries = doctest.testfile(str(guide), module_relative=False)
    assert tries > 10
    assert not failures
