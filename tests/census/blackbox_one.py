"""The one-axis rotary classes of transformers as black boxes: their own tables, their own apply functions."""

import ast
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedConfig

from .cases import Case, NotCovered, transformers_root
from .one_rules import (
    APPLY,
    AXES,
    CONFIGS,
    FIRST_ROPE_LAYER,
    HEAD_DIM,
    INDEXER,
    INDEXER_LABEL,
    INDEXER_LAYER,
    NOTES,
    PARTS,
    SLICED,
    SWITCH_ON,
    TOP_PARTS,
)

Tables = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Use:
    """One place where a model builds the rotary class: the root config and the way down to the one it is given."""

    root: type
    path: tuple[str, ...]
    part: str


# ---------------------------------------------------------------- finding configs


def _module(file: str) -> ModuleType:
    return importlib.import_module("transformers." + file.removesuffix(".py").replace("/", "."))


def _annotation(function: ast.FunctionDef) -> str | None:
    for argument in function.args.args:
        if argument.arg == "config" and argument.annotation is not None:
            return ast.unparse(argument.annotation)
    return None


def _builders(tree: ast.Module, class_name: str) -> Iterator[str]:
    """Config annotations of the __init__ methods that build the rotary class."""
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for method in (node for node in owner.body if isinstance(node, ast.FunctionDef)):
            calls = (node for node in ast.walk(method) if isinstance(node, ast.Call))
            if any(isinstance(call.func, ast.Name) and call.func.id == class_name for call in calls):
                yield _annotation(method) or ""


def _config_names(class_name: str, file: str) -> list[str]:
    if class_name in CONFIGS:
        return list(CONFIGS[class_name])
    tree = ast.parse((transformers_root() / file).read_text(encoding="utf-8"))
    names = [name for name in _builders(tree, class_name) if name.isidentifier()]
    if not names:
        raise NotCovered(f"no config class is named where {file} builds {class_name}")
    return list(dict.fromkeys(names))


@cache
def _config_classes(folder: str) -> dict[str, type]:
    """Every config class of one model folder, by name."""
    found: dict[str, type] = {}
    for path in sorted((transformers_root() / "models" / folder).glob("configuration_*.py")):
        module = importlib.import_module(f"transformers.models.{folder}.{path.stem}")
        for name, value in vars(module).items():
            if inspect.isclass(value) and issubclass(value, PreTrainedConfig) and value.__module__ == module.__name__:
                found[name] = value
    return found


def build_config(root: type) -> PreTrainedConfig:
    """The class's default config, with the switches that some models need for any rope at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return root(**SWITCH_ON.get(root.__name__, {}))


def _walk(config: PreTrainedConfig, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], PreTrainedConfig]]:
    yield path, config
    for key in getattr(config, "sub_configs", None) or {}:
        below = getattr(config, key, None)
        if isinstance(below, PreTrainedConfig):
            yield from _walk(below, (*path, key))


def part_of(path: tuple[str, ...]) -> str:
    """Name of the part that a path of sub-config keys leads to."""
    words = [key.removesuffix("_config") for key in path]
    last = next((word for word in reversed(words) if word not in {"text", "llm", "language", "thinker"}), "text")
    return PARTS.get(last, last)


def _outermost(folder: str, target: type) -> list[type]:
    """Composite config classes of the folder that hold the target and are not inside another one that does."""
    holders: dict[type, set[type]] = {}
    for root in _config_classes(folder).values():
        if root is not target and getattr(root, "sub_configs", None):
            inside = {type(config) for path, config in _walk(build_config(root)) if path}
            if target in inside:
                holders[root] = inside
    return [root for root in holders if not any(root in inside for inside in holders.values())]


def _uses(class_name: str, file: str) -> list[Use]:
    """Every place that builds the class, with the outermost config that leads there."""
    folder = Path(file).parent.name
    uses: list[Use] = []
    for name in _config_names(class_name, file):
        target = _config_classes(folder).get(name) or getattr(_module(file), name)
        found = [
            Use(root, path, part_of(path))
            for root in _outermost(folder, target)
            for path, config in _walk(build_config(root))
            if type(config) is target
        ]
        uses += found or [Use(target, (), part) for part in TOP_PARTS.get(class_name, ("text",))]
    return uses


# ---------------------------------------------------------------- tables


def _ids(positions: np.ndarray) -> torch.Tensor:
    tensor = torch.as_tensor(np.asarray(positions))
    return tensor[None] if tensor.ndim == 1 else tensor[:, None]


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def _call(module: torch.nn.Module, positions: np.ndarray, label: str | None) -> Any:
    """What the module's forward gives: (cos, sin), or complex numbers."""
    x = torch.zeros(1, 1, 1, dtype=torch.float32)
    extra = {"layer_type": label} if label is not None else {}
    with torch.no_grad():
        return module(x, _ids(positions), **extra)


def _cos_sin(module: torch.nn.Module, label: str | None) -> Tables:
    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given = _call(module, positions, label)
        if isinstance(given, torch.Tensor):
            return _numpy(given.real)[0], _numpy(given.imag)[0]
        return _numpy(given[0])[0], _numpy(given[1])[0]

    return tables


def _atoms(module: torch.nn.Module, label: str | None) -> Tables:
    """EsmFold2: x, y, z and a number of the molecule."""

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given = torch.as_tensor(np.asarray(positions))
        cos, sin = module(given[:3].T[None], given[3][None], torch.float32)
        return _numpy(cos)[0], _numpy(sin)[0]

    return tables


def _sin_cos(module: torch.nn.Module, label: str | None) -> Tables:
    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sin, cos = _call(module, positions, label)
        return _numpy(cos)[0], _numpy(sin)[0]

    return tables


def _by_length(module: torch.nn.Module, label: str | None) -> Tables:
    """Modules that look at the length only and give a table from position 0 on."""

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            table = module(torch.zeros(1, int(np.max(positions)) + 1, 1))
        if table.shape[0] == 2:
            return _numpy(table[0, positions, 0, 0]), _numpy(table[1, positions, 0, 0])
        return _numpy(table[0, positions].cos()), _numpy(table[0, positions].sin())

    return tables


# ---------------------------------------------------------------- apply functions: x [1, H, S, D] in, [1, H, S, D] out


def _torch_tables(tables: Tables, positions: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = tables(positions)
    return torch.as_tensor(cos)[None], torch.as_tensor(sin)[None]


def _pair(file: ModuleType, x: torch.Tensor, tables: Tables, positions: np.ndarray) -> torch.Tensor:
    return file.apply_rotary_pos_emb(x, x, *_torch_tables(tables, positions))[0]


def _single(file: ModuleType, x: torch.Tensor, tables: Tables, positions: np.ndarray) -> torch.Tensor:
    return file.apply_rotary_pos_emb(x, *_torch_tables(tables, positions))


def _interleave(file: ModuleType, x: torch.Tensor, tables: Tables, positions: np.ndarray) -> torch.Tensor:
    """The function leaves its channels sorted evens first: put them back, the scores do not see it."""
    out = file.apply_rotary_pos_emb_interleave(x, x, *_torch_tables(tables, positions))[0]
    return torch.stack(out.chunk(2, dim=-1), dim=-1).flatten(-2)


def _deinterleaved(file: ModuleType, x: torch.Tensor, tables: Tables, positions: np.ndarray) -> torch.Tensor:
    """Qwen2.5-Omni's DiT sorts the channels before it turns them (and turns head 0 only)."""
    out = _pair(file, file.deinterleave_head_dim(x), tables, positions)
    return torch.stack(out.chunk(2, dim=-1), dim=-1).flatten(-2)


def _complex_heads_first(file: ModuleType, x: torch.Tensor, tables: Tables, positions: np.ndarray) -> torch.Tensor:
    return file.apply_rotary_emb(x, x, torch.complex(*_torch_tables(tables, positions)))[0]


def _complex_heads_last(file: ModuleType, x: torch.Tensor, tables: Tables, positions: np.ndarray) -> torch.Tensor:
    x = x.transpose(1, 2)
    return file.apply_rotary_emb(x, x, torch.complex(*_torch_tables(tables, positions)))[0].transpose(1, 2)


def _sin_first(file: ModuleType, x: torch.Tensor, tables: Tables, positions: np.ndarray) -> torch.Tensor:
    cos, sin = _torch_tables(tables, positions)
    return file.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2)


def _with_value(file: ModuleType, x: torch.Tensor, tables: Tables, positions: np.ndarray) -> torch.Tensor:
    cos, sin = _torch_tables(tables, positions)
    order = torch.arange(x.shape[2])[None]
    return file.apply_rotary_pos_emb(x, x, x, cos[0], sin[0], order)[0]


def _conformer(file: ModuleType, x: torch.Tensor, tables: Tables, positions: np.ndarray) -> torch.Tensor:
    """A method of the attention, which turns the hidden states before the projections."""
    owner = next(value for name, value in vars(file).items() if hasattr(value, "_apply_rotary_embedding"))
    _, heads, length, width = x.shape
    fake = SimpleNamespace(num_heads=heads, head_size=width)
    table = torch.stack(_torch_tables(tables, positions))[:, 0, :, None, None, :]
    out = owner._apply_rotary_embedding(fake, x.transpose(1, 2).reshape(1, length, heads * width), table)
    return out.view(1, length, heads, width).transpose(1, 2)


_APPLY = {
    "pair": _pair,
    "atoms": _pair,
    "single": _single,
    "interleave": _interleave,
    "deinterleaved": _deinterleaved,
    "complex_heads_first": _complex_heads_first,
    "complex_heads_last": _complex_heads_last,
    "sin_first": _sin_first,
    "with_value": _with_value,
    "conformer": _conformer,
}
_TABLES = {"atoms": _atoms, "sin_first": _sin_cos, "with_value": _by_length, "conformer": _by_length}


def _family(class_name: str, file: ModuleType) -> str:
    if class_name in APPLY:
        return APPLY[class_name]
    if hasattr(file, "apply_rotary_pos_emb_interleave"):
        return "interleave"
    if not hasattr(file, "apply_rotary_pos_emb"):
        raise NotCovered(f"{file.__name__} has no apply_rotary_pos_emb")
    return "single" if next(iter(inspect.signature(file.apply_rotary_pos_emb).parameters)) == "x" else "pair"


def _turner(family: str, file: ModuleType, tables: Tables, width: int | None) -> Callable:
    """A function of x [S, H, D] and positions; `width` where the attention cuts the turned channels out itself."""

    def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        heads_first = torch.as_tensor(np.asarray(x, dtype=np.float64)).transpose(0, 1)[None]
        rest = heads_first[..., width:] if width is not None else heads_first[..., :0]
        turned = _APPLY[family](file, heads_first[..., :width], tables, positions)
        return _numpy(torch.cat([turned.double(), rest], dim=-1)[0].transpose(0, 1))

    return turn


# ---------------------------------------------------------------- cases


def _labels(module: torch.nn.Module) -> list[str | None]:
    kinds = getattr(module, "rope_type", None)
    return list(kinds) if isinstance(kinds, dict) and kinds else [None]


def _head_dim(class_name: str, config: PreTrainedConfig, label: str | None) -> int:
    if class_name in HEAD_DIM:
        return int(HEAD_DIM[class_name](config, label))
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _layer(class_name: str, config: PreTrainedConfig, label: str | None) -> int | None:
    if class_name in FIRST_ROPE_LAYER:
        return FIRST_ROPE_LAYER[class_name](config, label)
    if label is None:
        return 0
    kinds = list(getattr(config, "layer_types", None) or ())
    return kinds.index(label) if label in kinds else None


def _module_inv_freq(module: torch.nn.Module, label: str | None) -> np.ndarray | None:
    value = getattr(module, "inv_freq" if label is None else f"{label}_inv_freq", None)
    return None if value is None else _numpy(value)


def _sized(root: PreTrainedConfig, use: Use) -> PreTrainedConfig:
    config = root
    for key in use.path:
        config = getattr(config, key)
    return config


def _note(class_name: str, use: Use) -> str:
    switched = SWITCH_ON.get(use.root.__name__)
    return "; ".join(
        filter(None, [NOTES.get(class_name), switched and f"not the bare default: set {', '.join(switched)}"])
    )


def _case(class_name: str, file: str, use: Use, label: str | None, built: tuple) -> Case:
    root, config, module = built
    source = _module(file)
    family = _family(class_name, source)
    tables = _TABLES.get(family, _cos_sin)(module, label)
    scaling = getattr(module, "attention_scaling" if label is None else f"{label}_attention_scaling", 1.0)
    width = SLICED[class_name](config) if class_name in SLICED else None
    return Case(
        class_name=class_name,
        file=file,
        model_type=root.model_type,
        config=root.to_dict(),
        part=use.part,
        label=label,
        layer=_layer(class_name, config, label),
        rope_key="attention",
        head_dim=_head_dim(class_name, config, label),
        axes=AXES.get(class_name, 1),
        inv_freq=_module_inv_freq(module, label),
        attention_scaling=float(scaling),
        tables=tables,
        turn=_turner(family, source, tables, width),
        note=_note(class_name, use),
    )


def _indexer_case(main: Case, file: ModuleType, config: PreTrainedConfig) -> Case:
    """The same tables on the indexer's vectors; V4's apply function itself takes the last channels."""
    family, head_dim, start = INDEXER[main.class_name]
    base = _turner(family, file, main.tables, None)
    width = head_dim(config) if family == "single" else min(2 * len(main.inv_freq), head_dim(config))
    first = start(config)

    def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        out = np.array(x, dtype=np.float64)
        out[..., first : first + width] = base(out[..., first : first + width], positions)
        return out

    layer = INDEXER_LAYER[main.class_name](config, main.label) if main.class_name in INDEXER_LAYER else main.layer
    return replace(main, rope_key="indexer", head_dim=head_dim(config), turn=turn, layer=layer, note="the indexer")


def _cases_of_use(class_name: str, file: str, use: Use) -> Iterator[Case]:
    root = build_config(use.root)
    config = _sized(root, use)
    module = getattr(_module(file), class_name)(config).eval()
    for label in _labels(module):
        case = _case(class_name, file, use, label, (root, config, module))
        yield case
        if class_name in INDEXER and INDEXER_LABEL.get(class_name, label) == label:
            yield _indexer_case(case, _module(file), config)


def cases_for(class_name: str, file: str) -> list[Case]:
    """Cases of one rotary class, one for each part and label that uses it; raises NotCovered."""
    note = NOTES.get(class_name, "")
    if note.startswith("not covered: "):
        raise NotCovered(note.removeprefix("not covered: "))
    return [case for use in _uses(class_name, file) for case in _cases_of_use(class_name, file, use)]
