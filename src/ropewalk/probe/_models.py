"""The rotary modules of a transformers configuration, alive on the CPU.

The model is built on the meta device, so that it costs no memory and no weights; its rotary modules alone are built
again on the CPU, from their own classes and configurations. Nothing is downloaded, no code of a configuration is run.
"""

import inspect
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import RopewalkError
from ._errors import first_line

_ROTARY = re.compile(r"(Rotary|Rope|RoPE)\w*Embedding$")
# transformers' tables of models, the plainest first: any model of a configuration has its rotary modules
_MAPPINGS = tuple(
    f"MODEL_{name}MAPPING"
    for name in (
        *("", "FOR_CAUSAL_LM_", "FOR_IMAGE_TEXT_TO_TEXT_", "FOR_MULTIMODAL_LM_", "FOR_SEQ_TO_SEQ_CAUSAL_LM_"),
        *("FOR_PRETRAINING_", "FOR_SPEECH_SEQ_2_SEQ_", "FOR_KEYPOINT_MATCHING_", "FOR_TEXT_TO_WAVEFORM_"),
        *("FOR_UNIVERSAL_SEGMENTATION_", "FOR_TIME_SERIES_PREDICTION_"),
    )
)


@dataclass(frozen=True, kw_only=True)
class Found:
    """A rotary module: its path in the model (or its class alone), itself (None: it cannot be built), its config.

    An attention that turns vectors without one stands here itself, as it was built on the meta device.
    """

    path: str
    class_name: str
    module: nn.Module | None
    config: Any


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
            raise RopewalkError(
                f"transformers cannot read the configuration in {folder}: {first_line(error)}"
            ) from error
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
            f"the class of {target!r} has no default configuration to use: {first_line(error)}. Give a directory."
        ) from error


def rotary_modules(config: Any) -> list[Found]:
    """Give each kind of rotary module of a configuration's model once.

    Raises:
        RopewalkError: where the model cannot be built, or has no rotary module.
    """
    try:
        model = _built(config)
    except RopewalkError:
        found = list(_by_class(config))
        if not found:
            raise
        return found
    found = list(_distinct(model))
    if not found:
        raise RopewalkError(f"{type(model).__name__} has no rotary module: there is nothing to check.")
    return found


def classes_of(config: Any, mappings: Iterable[str] = _MAPPINGS) -> tuple[Any, ...]:
    """Give the model classes that a configuration names, then those that transformers' mappings have for it."""
    library, auto = _library(), import_module("transformers.models.auto.modeling_auto")
    classes = [getattr(library, name, None) for name in getattr(config, "architectures", None) or ()]
    for name in mappings:
        mapping = getattr(auto, name, {})
        known = mapping[type(config)] if type(config) in mapping else None
        classes += list(known) if isinstance(known, tuple | list) else [known]
    return tuple(dict.fromkeys(one for one in classes if one is not None))


def _built(config: Any) -> nn.Module:
    """Build the model of a configuration on the meta device."""
    reason = "no class takes it"
    for cls in classes_of(config):
        try:
            with torch.device("meta"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return cls(config).eval()
        except Exception as error:  # a class that does not fit, in foreign code
            reason = f"{cls.__name__}: {first_line(error)}"
    raise RopewalkError(f"no model of {type(config).__name__} can be built: {reason}")


def _library() -> Any:
    try:
        library = import_module("transformers")
    except ImportError as error:
        raise RopewalkError("this target needs transformers and torch: pip install transformers torch") from error
    library.logging.set_verbosity_error()
    return library


def _distinct(model: nn.Module) -> Iterator[Found]:
    """Give each kind of rotary module at its first path, rebuilt on the CPU."""
    seen: set[tuple[Any, ...]] = set()
    seen_attentions: set[str] = set()
    for path, module in model.named_modules():
        name = type(module).__name__
        if callable(getattr(module, "apply_rotary_embeddings", None)) and name not in seen_attentions:
            seen_attentions.add(name)  # an attention that turns without a rotary module
            yield Found(path=path, class_name=name, module=module, config=getattr(module, "config", model.config))
        if not _ROTARY.search(name):
            continue
        owners = [model.get_submodule(path.rsplit(".", cut)[0]) for cut in range(1, path.count(".") + 1)]
        given = [getattr(one, "config", None) for one in (module, *owners, model)]
        configs = [one for one in given if one is not None]
        shapes = {buffer: tuple(one.shape) for buffer, one in module.named_buffers()}
        key = (name, id(configs[0]) if configs else None, tuple(shapes.items()))
        if key in seen:
            continue
        seen.add(key)
        twin, config = _first_built(type(module), configs, shapes)
        yield Found(path=path, class_name=name, module=twin, config=config)


def _by_class(config: Any) -> Iterator[Found]:
    """Give the rotary modules of the files of a configuration, where the model around them cannot be built."""
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
                module, taken = _first_built(cls, (*fitting, *configs), None)
                yield Found(path=name, class_name=name, module=module, config=taken)


def _first_built(cls: Any, configs: Iterable[Any], shapes: dict[str, Any] | None) -> tuple[nn.Module | None, Any]:
    """Build a module on the CPU from the first configuration that it takes, and that gives these shapes."""
    for config in configs:
        try:
            with torch.device("cpu"), torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = cls(config).eval()
        except Exception:  # another configuration than the class takes, in foreign code
            continue
        if shapes is None or {name: tuple(one.shape) for name, one in module.named_buffers()} == shapes:
            return module, config
    return None, None


def _walk(config: Any) -> Iterator[Any]:
    yield config
    for key in getattr(config, "sub_configs", None) or {}:
        below = getattr(config, key, None)
        if hasattr(below, "sub_configs"):
            yield from _walk(below)
