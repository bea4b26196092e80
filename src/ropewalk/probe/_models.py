"""The rotary modules of a transformers configuration, each with its apply function and the rope that its config says.

The model is built on the meta device, so that it costs no memory and no weights; its rotary modules alone are built
again on the CPU, from their own classes and configurations. Nothing is downloaded, no code of a configuration is run.
"""

import contextlib
import inspect
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from ..compat._fitting import labels_of
from ..errors import RopewalkError
from ..models.model import Model
from ..models.targets import read
from ..rope import Rope
from ..turning import naive
from ._transformers import Rotated

_ROTARY = re.compile(r"(Rotary|Rope|RoPE)\w*Embedding$")
_APPLY = re.compile(r"^_?(vision_)?apply_\w*(rotary|rope)\w*$")
_MAPPINGS = (
    *("MODEL_MAPPING", "MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING"),
    *("MODEL_FOR_MULTIMODAL_LM_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_FOR_PRETRAINING_MAPPING"),
    *("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING", "MODEL_FOR_KEYPOINT_MATCHING_MAPPING", "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING"),
    *("MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING", "MODEL_FOR_TIME_SERIES_PREDICTION_MAPPING"),
)
_NEAR = 1e-3  # of the largest entry: at small positions a module that holds this rope is nearer than that
_ASKED = np.array([[1, 6, 3, 11], [4, 2, 9, 5], [7, 3, 1, 8], [2, 5, 10, 3]])  # unlike on every axis


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A rotary module that can be asked: its name, the function, the rope of its config, and where it stands."""

    name: str
    fn: Callable[[Any, Any], Any]
    rope: Rope
    apply_name: str
    agrees: bool


@dataclass(frozen=True, kw_only=True)
class Unasked:
    """A rotary module that cannot be asked from outside, and why."""

    name: str
    reason: str


def config_of(target: str) -> Any:
    """Give the configuration of a model type, or of a directory with a config.json.

    Raises:
        RopewalkError: where transformers is missing, or knows no such type, or cannot read the file.
    """
    library = _library()
    path = Path(target)
    if path.exists():
        folder = path if path.is_dir() else path.parent
        try:
            return library.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        except Exception as error:  # transformers raises whatever it meets
            raise RopewalkError(f"transformers cannot read the configuration in {folder}: {_first(error)}") from error
    types = import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    if target not in types:
        near = ", ".join(sorted(name for name in types if target.lower()[:4] in name)[:6])
        raise RopewalkError(
            f"transformers {library.__version__} knows no model type {target!r}, and there is no such path"
            f"{f'; it knows {near}' if near else ''}."
        )
    try:
        return types[target]()
    except Exception as error:
        raise RopewalkError(
            f"the class of {target!r} has no usable default configuration: {_first(error)}. Give a directory instead."
        ) from error


def rotary_modules(config: Any) -> Iterator[Asked | Unasked]:
    """Give every rotary module of a configuration's model, once for each layer type and use.

    Raises:
        RopewalkError: where the model cannot be built, or has no rotary module.
    """
    root = _read(config)
    try:
        model = build(config)
    except RopewalkError:
        found = list(_by_class(config))
        if not found:
            raise
    else:
        found = list(_distinct(model))
        if not found:
            raise RopewalkError(f"{type(model).__name__} has no rotary module: there is nothing to check.")
    for path, module, owner_config in found:
        for label in labels_of(module):
            yield from _uses(path, module, owner_config, label, root)


def build(config: Any) -> nn.Module:
    """Build the model of a configuration on the meta device."""
    library = _library()
    auto = import_module("transformers.models.auto.modeling_auto")
    classes = [getattr(library, name, None) for name in getattr(config, "architectures", None) or ()]
    for name in _MAPPINGS:
        mapping = getattr(auto, name, {})
        known = mapping[type(config)] if type(config) in mapping else None
        classes += list(known) if isinstance(known, tuple | list) else [known]
    reason = "no class takes it"
    for cls in dict.fromkeys(one for one in classes if one is not None):
        try:
            with torch.device("meta"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return cls(config).eval()
        except Exception as error:  # a class that does not fit, in foreign code
            reason = f"{cls.__name__}: {_first(error)}"
    raise RopewalkError(f"no model of {type(config).__name__} can be built: {reason}")


def _library() -> Any:
    try:
        library = import_module("transformers")
    except ImportError as error:
        raise RopewalkError("this target needs transformers and torch: pip install transformers torch") from error
    library.logging.set_verbosity_error()
    return library


def _first(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _read(config: Any) -> Model | None:
    try:
        return read(config)
    except RopewalkError:
        return None


def _distinct(model: nn.Module) -> Iterator[tuple[str, nn.Module, Any]]:
    """Give each kind of rotary module once, at its first path, rebuilt on the CPU, with the configuration it has."""
    seen: set[tuple[Any, ...]] = set()
    for path, module in model.named_modules():
        name = type(module).__name__
        if not _ROTARY.search(name) and name not in ("RotaryEmbedding",):
            continue
        owners = [model.get_submodule(path.rsplit(".", cut)[0]) for cut in range(1, path.count(".") + 1)]
        configs = [getattr(one, "config", None) for one in (module, *owners, model)]
        known = [one for one in configs if one is not None]
        key = (name, id(known[0]) if known else None, tuple(tuple(one.shape) for one in module.buffers()))
        if key in seen:
            continue
        seen.add(key)
        yield path, *_rebuilt(module, known)


def _rebuilt(module: nn.Module, configs: list[Any]) -> tuple[nn.Module | None, Any]:
    """Build a module of the same class on the CPU from the first configuration that gives the same shapes."""
    shapes = {name: tuple(one.shape) for name, one in module.named_buffers()}
    for config in configs:
        try:
            with torch.device("cpu"), torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                twin = type(module)(config)
        except Exception:  # another configuration than the class takes
            continue
        if {name: tuple(one.shape) for name, one in twin.named_buffers()} == shapes:
            return twin.eval(), config
    return None, None


def _by_class(config: Any) -> Iterator[tuple[str, nn.Module | None, Any]]:
    """Give the rotary modules of the file of a configuration, where the model around them cannot be built."""
    configs = list(_walk(config))
    for home in dict.fromkeys(type(one).__module__ for one in configs):
        try:
            file = import_module(home.replace("configuration_", "modeling_"))
        except ImportError:
            continue
        for name, cls in vars(file).items():
            if inspect.isclass(cls) and cls.__module__ == file.__name__ and _ROTARY.search(name):
                wanted = [one.annotation for one in inspect.signature(cls).parameters.values()][:1]
                fitting = [one for one in configs if type(one) in wanted or type(one).__name__ in wanted]
                for one in (*fitting, *configs):
                    with contextlib.suppress(Exception), torch.device("cpu"), torch.no_grad():
                        yield name, cls(one).eval(), one
                        break


def _walk(config: Any) -> Iterator[Any]:
    yield config
    for key in getattr(config, "sub_configs", None) or {}:
        below = getattr(config, key, None)
        if hasattr(below, "sub_configs"):
            yield from _walk(below)


def _uses(path: str, module: nn.Module | None, config: Any, label: str | None, root: Model | None) -> Iterator[Any]:
    name = f"{path}[{label}]" if label else path
    if module is None:
        yield Unasked(name=name, reason="its class cannot be built from a configuration alone")
        return
    name = f"{name} ({type(module).__name__})"
    ropes, located = _ropes(config, label, root)
    if not ropes:
        yield Unasked(name=name, reason="ropewalk.read finds no rope for it in the configuration")
        return
    file = sys.modules[type(module).__module__]
    applies = list(_applies(file))
    best: dict[str, Asked] = {}
    reason = "its file has no apply function of its own" if not applies else ""
    gaps: dict[str, float] = {}
    for (use, rope), apply in itertools.product(ropes, applies):
        try:
            fn, gap = _nearest_order(module, apply, label, rope)
        except Exception as error:  # a function for something else, in foreign code
            reason = reason or _first(error)
            continue
        if use not in gaps or gap < gaps[use]:
            gaps[use] = gap
            best[use] = Asked(
                name=name if use == "attention" else f"{name} {use}",
                fn=fn,
                rope=rope,
                apply_name=apply.__name__,
                agrees=gap <= _NEAR,
            )
    if not best:
        yield Unasked(name=name, reason=reason or "no apply function of its file takes what it gives")
        return
    agreeing = [one for one in best.values() if one.agrees]
    if not agreeing and not located:
        yield Unasked(name=name, reason=f"no layer of the configuration uses {label}, as far as ropewalk.read sees")
        return
    yield from agreeing or [next(iter(best.values()))]


def _applies(file: Any) -> Iterator[Callable[..., Any]]:
    """Give what a file turns vectors with: its functions, and what its attention does around them."""
    sorts = getattr(file, "deinterleave_head_dim", None)  # Qwen2.5-Omni's DiT sorts the channels first
    for name, one in vars(file).items():
        if _APPLY.match(name) and inspect.isfunction(one):
            yield one
            if sorts is not None:
                yield _sorted_first(one, sorts)
        elif inspect.isclass(one) and hasattr(one, "_apply_rotary_embedding"):  # the conformers
            yield _of_hidden_states(one)
            return


def _sorted_first(apply: Any, sorts: Any) -> Callable[..., Any]:
    def deinterleaved(q: Any, k: Any, cos: Any, sin: Any) -> Any:
        return apply(sorts(q), sorts(k), cos, sin)

    return deinterleaved


def _of_hidden_states(owner: Any) -> Callable[..., Any]:
    """Give the method of an attention that turns hidden states [B, S, H·D], all rows by one table, as a function."""

    def of_hidden_states(x: Any, cos: Any, sin: Any) -> Any:
        rows = []
        for row, *tables in zip(x, cos, sin, strict=True):  # x [B, S, H, D]
            held = SimpleNamespace(num_heads=x.shape[2], head_size=x.shape[3])
            table = torch.stack(tables)[:, :, None, None, :]
            out = owner._apply_rotary_embedding(held, row.flatten(1)[None], table)
            rows.append(out.view(row.shape))
        return torch.stack(rows)

    return of_hidden_states


def _ropes(config: Any, label: str | None, root: Model | None) -> tuple[list[tuple[str, Rope]], bool]:
    """Give each (use, rope) of the module's own configuration, or else of the whole model's, and whether by label."""
    own_model = _read(config)
    for model in (own_model or root,):
        layers = [layer for layers in model.parts.values() for layer in layers] if model is not None else []
        own = [layer for layer in layers if label is not None and layer.kind == label]
        found = list(dict.fromkeys((use, rope) for layer in own or layers for use, rope in layer.ropes.items()))
        if found:
            return found, bool(own) or label is None
    return [], False


def _nearest_order(module: nn.Module, apply: Any, label: str | None, rope: Rope) -> tuple[Any, float]:
    """Give the function for this rope, its rows of positions in the order that is nearest, and how far off it is."""
    axes = rope.axes.num_axes
    names = tuple(getattr(rope.axes, "names", ()) or ())
    orders = [tuple(range(axes))] if axes == 1 or names == ("t", "h", "w") else list(itertools.permutations(range(axes)))
    rotated = Rotated(module, apply, layer_type=label, axes=axes, kv_heads=1, of="both")
    options = [_Ordered(rotated, order) for order in orders]
    gaps = [_gap(one, rope) for one in options]
    least = int(np.argmin(gaps))
    return (rotated if options[least].plain else options[least]), gaps[least]


class _Ordered:
    """A function whose rows of positions stand in another order than the rope's axes."""

    def __init__(self, fn: Rotated, order: tuple[int, ...]) -> None:
        self.fn, self.order, self.module = fn, list(order), fn.module
        self.plain = self.order == sorted(self.order)

    def __call__(self, x: Any, position_ids: Any) -> Any:
        return self.fn(x, position_ids[self.order] if position_ids.ndim == 3 else position_ids)


def _gap(fn: Any, rope: Rope) -> float:
    """Give how far a function is from a rope at a few small positions, its output's order left open."""
    axes = rope.axes.num_axes
    ids = _ASKED[:axes, None, :] if axes > 1 else _ASKED[:1]
    x = np.random.default_rng(5).standard_normal((1, ids.shape[-1], 2, rope.head_dim))
    with torch.no_grad():
        theirs = fn(torch.from_numpy(x).float(), torch.from_numpy(ids)).double().numpy()
    ours = naive.rotate(x, ids, rope, length=12 if rope.length_dependent else None)
    start, width = rope.rotary_start, rope.width
    sorted_ = np.concatenate([np.arange(start, start + width, 2), np.arange(start + 1, start + width, 2)])
    moved = ours.copy()
    moved[..., start : start + width] = ours[..., sorted_]
    return min(float(np.abs(theirs - one).max()) for one in (ours, moved)) / float(np.abs(x).max())
