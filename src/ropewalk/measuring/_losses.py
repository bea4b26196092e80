"""The loss of every token of a text in one causal pass, without the logits of all of them at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ..errors import RopewalkError

LOGITS_AT_ONCE = 2**25  # numbers; 134 MB in float32

Progress = Callable[[float], None]  # called with the share that is done, 0 to 1


def token_losses(model: nn.Module, ids: Tensor, *, rows: int | None = None, progress: Progress | None = None) -> Tensor:
    """Give the loss of each token, predicted from those before it: [N] float64, nats; nan for the first.

    The model's own forward is run: its body once over all tokens, then its head over a few rows at a time.

    Args:
        model: a causal language model of transformers, in eval mode.
        ids: [N] token ids.
        rows: positions whose logits are held at once; None takes what keeps them small.
        progress: called with the share that is done.
    """
    ids = ids.to(_device(model))
    losses = torch.full((len(ids),), torch.nan, dtype=torch.float64)
    with torch.inference_mode(), wide_products(model), _layers_told(model, progress):
        for start, logits in logits_by_rows(model, ids, torch.arange(len(ids) - 1), rows):
            wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
            stop = start + len(wide)
            found = functional.cross_entropy(wide, ids[start + 1 : stop + 1], reduction="none")
            losses[start + 1 : stop + 1] = found.double().cpu()
    if not losses[1:].isfinite().all():
        raise RopewalkError(
            f"the model's losses are not finite numbers: its weights are damaged, or {_dtype(model)} is too narrow for "
            "them. Try another --dtype."
        )
    return losses


def logits_by_rows(model: nn.Module, ids: Tensor, at: Tensor, rows: int | None = None) -> Iterator[tuple[int, Tensor]]:
    """Run the body over all ids [N], then give the logits [rows, V] at some positions, a few at a time."""
    body = getattr(model, "base_model", model)
    if body is model:
        raise RopewalkError(f"{type(model).__name__} is no causal language model of transformers: it has no head.")
    outputs = body(input_ids=ids[None], use_cache=False)
    hidden = outputs.last_hidden_state
    if rows is None:
        head: Any = getattr(model, "get_output_embeddings", lambda: None)()
        rows = max(1, LOGITS_AT_ONCE // (len(head.weight) if head is not None else 2**18))
    for start in range(0, len(at), rows):
        chosen = at[start : start + rows].to(ids.device)
        outputs.last_hidden_state = hidden[:, chosen]
        with _answering(body, outputs):  # so that what the model does after its head (a soft cap, a scale) is kept
            yield start, model(input_ids=ids[None, chosen], use_cache=False).logits[0]


@contextmanager
def _answering(body: nn.Module, outputs: Any) -> Iterator[None]:
    """Let the model's body give these outputs for a while, whatever it is asked."""
    body.forward = lambda *args, **kwargs: outputs
    try:
        yield
    finally:
        del body.forward


@contextmanager
def _layers_told(model: nn.Module, progress: Progress | None) -> Iterator[None]:
    """Call progress after each layer of the model's longest list of layers."""
    lists = [one for one in model.modules() if isinstance(one, nn.ModuleList)]
    layers = max(lists, key=len, default=nn.ModuleList())
    done = 0

    def tell(*_: Any) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(min(1.0, done / len(layers)))

    handles = [layer.register_forward_hook(tell) for layer in layers] if progress is not None else []
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Wide(TorchFunctionMode):
    """Linear layers in bfloat16 by float32 products, rounded once: the same numbers, for processors that lack them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is functional.linear and not kwargs and args[0].dtype == torch.bfloat16:
            return func(*(None if one is None else one.float() for one in args)).to(torch.bfloat16)
        return func(*args, **(kwargs or {}))


@contextmanager
def wide_products(model: nn.Module) -> Iterator[None]:
    """Multiply bfloat16 in float32 for a while, where the processor has no bfloat16 (4 to 10 times quicker on AVX2)."""
    if _dtype(model) == torch.bfloat16 and _device(model).type == "cpu" and not _multiplies_bfloat16():
        with _Wide():
            yield
    else:
        yield


def _multiplies_bfloat16() -> bool:
    """Whether oneDNN has this processor multiply bfloat16 itself; without it PyTorch emulates each product.

    Asked, not timed: on a busy machine a timing gives either answer, and the wrong one makes a pass several times as
    long.
    """
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # built without oneDNN
        return False


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _dtype(model: nn.Module) -> torch.dtype:
    return next(model.parameters()).dtype
