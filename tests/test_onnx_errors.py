"""ONNX: what cannot be exported is refused in words."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ropewalk import Rope, RopewalkError

from ._onnx import GROWING, HALVES, LONG, MROPE, SMALL, face, ir, text_of, torch, turn


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
