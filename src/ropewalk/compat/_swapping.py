"""`use`: the rotary modules of a live transformers model, swapped for exact ones and back."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import RopewalkError
from ..rope import Rope
from . import _fitting
from ._fitting import Style
from ._rotary import RotaryEmbedding, axes_first, words
from ._wishes import Refused, Wishes, check_wish

_NAMES = re.compile(r"(Rotary|Rope|RoPE)\w*Embedding$")
_KEPT = ("config", "rope_type", "layer_types", "mrope_section")  # what models read off their rotary module


class ExactRotaryEmbedding(RotaryEmbedding):
    """A RotaryEmbedding that returns its tables as the module did whose place it took."""

    def __init__(self, ropes: Mapping[str | None, Rope], style: Style) -> None:
        super().__init__(dict(ropes), columns=style.columns)
        self.style = style

    def forward(
        self, x: Tensor, position_ids: Tensor, layer_type: str | None = None, *, length: int | None = None
    ) -> Any:
        """Give the tables of these positions, as the original module returns them."""
        style, label = self.style, self._label(layer_type)
        ids = position_ids.movedim(-1, 0) if style.axes_last else axes_first(position_ids, self.ropes[label])
        if len(ids) > 1:
            ids = ids[list(style.order)]
        cos, sin = self._tables(label, ids, x.device, style.dtype or x.dtype, length)
        sin = -sin if style.negated else sin
        if style.as_complex:
            return torch.complex(cos, sin)
        return (sin, cos) if style.sin_first else (cos, sin)


@dataclass(frozen=True, kw_only=True)
class Swapped:
    """A module that was swapped: its first path in the model, its class, its ropes by layer type, and remarks."""

    path: str
    class_name: str
    ropes: Mapping[str | None, Rope]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Left:
    """A rotary module that was left as it is, and why."""

    path: str
    class_name: str
    reason: str


class Swap:
    """What `use` did, and the way back: `undo()`, or leaving a `with` block.

    Attributes:
        swapped: what was swapped.
        left: rotary modules that were left as they are, each with the reason.
    """

    def __init__(
        self, model: nn.Module, plan: list[tuple[list[str], nn.Module, ExactRotaryEmbedding, Swapped]], left: list[Left]
    ) -> None:
        self.swapped: tuple[Swapped, ...] = tuple(entry for *_, entry in plan)
        self.left: tuple[Left, ...] = tuple(left)
        self._model, self._plan = model, plan
        for paths, _, new, _ in plan:
            for path in paths:
                _put(model, path, new)

    def undo(self) -> None:
        """Put the original modules back; what was put in the place of ours since stays. A second call does nothing."""
        for paths, original, new, _ in self._plan:
            device = next((one.device for one in self._model.parameters() if not one.is_meta), None)
            if device is not None and not any(one.is_meta for one in original.buffers()):
                original.to(device)  # it was not in the model while the model moved
            for path in paths:
                if self._model.get_submodule(path) is new:
                    _put(self._model, path, original)
        self._plan = []

    def __enter__(self) -> "Swap":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.undo()

    def __repr__(self) -> str:
        total = len(self.swapped) + len(self.left)
        lines = [f"{len(self.swapped)} of {total} rotary modules of {type(self._model).__name__} swapped"]
        for one in self.swapped:
            named = (f"{label}: {words(rope)}" if label else words(rope) for label, rope in one.ropes.items())
            lines.append(f"  {one.path}  {one.class_name}  {'; '.join(named)}")
            lines += [f"    {remark}" for remark in one.remarks]
        lines += [f"  left: {one.path}  {one.class_name}: {one.reason}" for one in self.left]
        return "\n".join(lines)


def use(model: nn.Module, rope: Rope | Mapping[str, Rope] | None = None) -> Swap:
    """Swap the rotary modules of a transformers model for exact ones, in place; its apply functions stay its own.

    A module is swapped only where one made from its own class and config returns, at small positions, the tables of
    a rope that `ropewalk.read` finds in the model's config: the swap then changes rounding and nothing else. The new
    module returns what the old one did in shape, dtype, order and doubling, from float64 angles. It has no buffers, so
    that `model.to(torch.bfloat16)` before or after no longer rounds frequencies. Dynamic NTK takes its base from each
    call's own length, where transformers keeps the base of the longest call so far.

    Args:
        model: a live model; its `config` is read.
        rope: a Rope that the text part's modules take instead of their own, or a dict of Ropes by layer type. Width,
            axes, pairing and direction must be those of the model, whose apply function they belong to.

    Returns:
        What was swapped and what was left, and why; `undo()` puts everything back, as leaving a `with` block does.

    Raises:
        RopewalkError: where nothing can be swapped, or a rope does not fit.

    >>> swap = use(transformers.AutoModelForCausalLM.from_pretrained("…"))  # doctest: +SKIP
    >>> swap  # doctest: +SKIP
    1 of 1 rotary modules of LlamaForCausalLM swapped
      model.rotary_emb  LlamaRotaryEmbedding  θ=500000, 128 channels, llama3
    >>> swap.undo()  # doctest: +SKIP
    """
    if not isinstance(model, nn.Module):
        raise RopewalkError(f"model must be a live torch module, got {type(model).__name__}.")
    plan, left, wishes = [], [], Wishes(model, rope)
    for paths, module in _rotary_modules(model):
        name = type(module).__name__
        try:
            new, remarks = _exact(module, model, wishes)
        except Refused:
            raise
        except RopewalkError as error:
            left.append(Left(path=paths[0], class_name=name, reason=str(error)))
            continue
        entry = Swapped(path=paths[0], class_name=name, ropes=new.ropes, remarks=tuple(remarks))
        plan.append((paths, module, new, entry))
    wishes.check_all_granted([f"{one.path}: {one.reason}" for one in left])
    if not plan:
        found = "; ".join(f"{one.path} ({one.class_name}): {one.reason}" for one in left)
        raise RopewalkError(f"no rotary module of {type(model).__name__} can be swapped: {found or 'it has none'}.")
    return Swap(model, plan, left)


def _rotary_modules(model: nn.Module) -> Iterator[tuple[list[str], nn.Module]]:
    """Give every rotary module with all its paths."""
    paths: dict[nn.Module, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        if path and not isinstance(module, RotaryEmbedding) and _is_rotary(module):
            paths.setdefault(module, []).append(path)
    if not paths and any(isinstance(module, RotaryEmbedding) for module in model.modules()):
        raise RopewalkError(f"the rotary modules of {type(model).__name__} are swapped already: undo that first.")
    yield from ((found, module) for module, found in paths.items())


def _is_rotary(module: nn.Module) -> bool:
    if next(module.children(), None) is not None:
        return False
    code = getattr(getattr(type(module).forward, "__wrapped__", type(module).forward), "__code__", None)
    takes = code is not None and code.co_varnames[1:3] == ("x", "position_ids")
    return bool(_NAMES.search(type(module).__name__)) or takes


def _exact(module: nn.Module, model: nn.Module, wishes: Wishes) -> tuple[ExactRotaryEmbedding, list[str]]:
    """Build the module that takes another's place, or raise with the reason why there is none."""
    twin = _fitting.twin_of(module, check=wishes.rope is None)
    ropes: dict[str | None, Rope] = {}
    styles: list[Style] = []
    remarks: list[str] = []
    for label in _fitting.labels_of(module):
        own, style = _own(twin, module, model, label)
        wish = wishes.get(label, own, getattr(module, "config", None))
        if wish is not None:
            style = style or _fitting.shape_of(twin, wish, label)
            remarks += check_wish(wish, own, label)
            wishes.granted |= {label} if style is not None else set()
        rope = wish or own
        if rope is None or style is None:
            raise RopewalkError(_why_not(twin, module, model, label))
        ropes[label] = rope
        styles.append(style)
    if len(set(styles)) != 1:
        raise RopewalkError("its layer types return tables of different forms")
    new = ExactRotaryEmbedding(ropes, styles[0])
    for name in _KEPT:
        if hasattr(module, name):
            setattr(new, name, getattr(module, name))
    return new.train(module.training), remarks


def _own(twin: nn.Module, module: nn.Module, model: nn.Module, label: str | None) -> tuple[Rope | None, Style | None]:
    for rope in _fitting.candidates(module, model, label):
        style = _fitting.fit(twin, rope, label)
        if style is not None:
            return rope, style
    return None, None


def _why_not(twin: nn.Module, module: nn.Module, model: nn.Module, label: str | None) -> str:
    found = list(_fitting.candidates(module, model, label))
    answers = any(True for axes in (1, 2, 3, 4) for _ in _fitting.ask(twin, _fitting.asked_ids(axes), label))
    if not answers:
        return "it does not give tables of (x, position_ids): it makes its positions itself, or takes other arguments"
    if not found:
        return "ropewalk.read finds no rope in its config: see ropewalk.inspect(model.config)"
    return f"its tables are not those of {'; '.join(words(rope) for rope in found[:3])}, which its config says"


def _put(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)
