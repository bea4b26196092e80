"""RoPE in ONNX: an exported turn is the operator RotaryEmbedding of opset 23, or plain operators where it says less."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._checks import whole
from .errors import RopewalkError

try:
    import torch

    from .turning.onnx_ops import OPSET, Turn
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "ropewalk.onnx needs torch, onnx and onnxscript: pip install 'ropewalk[torch,onnx]'", name=error.name
    ) from error

__all__ = ["export", "translations"]


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    path: str | Path | None = None,
    *,
    dynamic_shapes: Any = None,
    max_position: int | None = None,
    plain: bool = False,
    **options: Any,
) -> torch.onnx.ONNXProgram:
    """Export a module in which Rotary or rotate turns vectors.

    Args:
        module: a Rotary, or a module with one or several inside.
        args: example inputs, as for torch.onnx.export.
        path: the file to write; None writes none.
        dynamic_shapes: which dimensions may change from run to run, as for torch.export.
        max_position: write cos and sin of the positions 0 … max_position - 1 into the model and hand position_ids to
            the operator, where they are whole numbers along one axis; a position outside is the runtime's error.
            None works cos and sin out for each token, from tables of 1.5 MB for 64 pairs, up to position 2^30.
        plain: never use the operator.
        options: further arguments of torch.onnx.export; below opset_version 23, the default, nothing uses the operator.

    Returns:
        torch's program: `model_proto`, `save(path)`, and a call that runs it in onnxruntime.

    Raises:
        RopewalkError: for a turn that cannot be written: its length is missing, or its position_ids do not fit.

    Source: ONNX 1.18, RotaryEmbedding-23.

    >>> from ropewalk import Rope
    >>> from ropewalk.torch import Rotary
    >>> rotary = Rotary(Rope(head_dim=4, rope_theta=100.0, pairing="half")).eval()
    >>> program = export(rotary, (torch.ones(1, 3, 4, 4), torch.ones(1, 3, 2, 4)))
    >>> [node.op_type for node in program.model_proto.graph.node].count("RotaryEmbedding")
    2
    """
    options.setdefault("opset_version", OPSET)
    options.setdefault("verbose", False)
    given = options.pop("custom_translation_table", None) or {}
    table = {**translations(max_position=max_position, plain=plain), **given}
    options |= {"dynamo": True, "dynamic_shapes": dynamic_shapes, "custom_translation_table": table}
    try:
        with warnings.catch_warnings():
            # torch 2.13 copies its own trees through a deprecated check
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
            program = torch.onnx.export(module, args, path, **options)
    except RuntimeError as error:  # torch wraps what stops a translation, more than once
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, RopewalkError):
            cause = cause.__cause__
        if cause is None:
            raise
        raise RopewalkError(str(cause)) from error
    assert program is not None
    return program


def translations(*, max_position: int | None = None, plain: bool = False) -> dict[Any, Callable[..., Any]]:
    """Give the custom_translation_table for those who call torch.onnx.export themselves.

    Args:
        max_position: as for export.
        plain: as for export.

    Raises:
        RopewalkError: for a max_position that is no whole number from 1 to 2^24.

    >>> [str(target) for target in translations()]
    ['ropewalk.turn.default']
    """
    rows = None if max_position is None else whole("max_position", max_position, at_least=1, at_most=2**24)

    # without annotations: torch would take `rope: str` for an attribute of a node
    def turn(x, position_ids, rope, length, layout, transpose, inverse):
        return Turn(x, position_ids, rope, length, layout, transpose, inverse).written(rows, plain)

    return {torch.ops.ropewalk.turn.default: turn}
