"""Turns as exported models: a table of cases, run in onnxruntime beside the float64 truth."""

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from ropewalk import Rope
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
