"""A model and its tokenizer from a directory or a GGUF file: nothing downloaded, nothing of the files executed."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .._checks import choice
from ..errors import RopewalkError
from ..rope import Rope

if TYPE_CHECKING:
    import torch
    from torch import nn

DTYPES = ("bfloat16", "float32", "float16", "float64")
_PICKLED = (".bin", ".pt", ".pth")


class Loaded(NamedTuple):
    """A model in eval mode, and its tokenizer."""

    model: "nn.Module"
    tokenizer: Any


def load(path: str | Path, *, dtype: str = "bfloat16", device: str = "cpu") -> Loaded:
    """Load a causal language model with transformers, from files alone.

    Args:
        path: a directory with config.json, safetensors weights and a tokenizer; or a GGUF file, whose quantized
            weights are unpacked.
        dtype: of weights and activations: "bfloat16", "float32", "float16" or "float64".
        device: where torch puts the model.

    Raises:
        RopewalkError: where torch, transformers or gguf is missing; where the weights or the tokenizer are missing,
            pickled or damaged; where the model needs code of its own, or is no causal language model.

    >>> model, tokenizer = load("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
    """
    choice("dtype", dtype, DTYPES)
    path = Path(path)
    torch, transformers = _needed(path)
    where = _place(path)
    with _quiet(transformers):
        config = _asked(transformers.AutoConfig.from_pretrained, where, f"the model's configuration in {path}")
        tokenizer = _asked(transformers.AutoTokenizer.from_pretrained, where, f"the tokenizer in {path}")
        number = getattr(torch, dtype)
        if "gguf_file" in where:
            model = _from_gguf(path, config, number)
        else:
            wanted = {**where, "dtype": number, "use_safetensors": True}
            model = _asked(transformers.AutoModelForCausalLM.from_pretrained, wanted, f"the model in {path}")
    if not len(tokenizer):
        raise RopewalkError(f"the tokenizer in {path} is empty: put the model's tokenizer.json beside the weights.")
    return Loaded(model.to(device).eval(), tokenizer)


def own_ropes(model: "nn.Module") -> Mapping[str | None, Rope]:
    """Give the ropes that the model's text part turns by: one under None, or one for each layer type.

    Raises:
        RopewalkError: for a model without a rotary module that can be swapped.
    """
    from ..compat.transformers import use

    with use(model) as swap:
        return dict(swap.swapped[0].ropes)


def trained_tokens(model: "nn.Module") -> int:
    """Give L0, the tokens that the model was trained at: before scaling, where it is scaled.

    Raises:
        RopewalkError: where nothing says it.
    """
    lengths = []
    for rope in own_ropes(model).values():
        original = getattr(rope.scaling, "original_max_position_embeddings", None)
        lengths.append(original or rope.max_position_embeddings)
    known = [length for length in lengths if length]
    if not known:
        raise RopewalkError("the model's configuration does not say at which length it was trained: say it, trained=N.")
    return max(known)


def _needed(path: Path) -> tuple[Any, Any]:
    """Import torch and transformers (and gguf, for such a file), or say which is missing."""
    found = []
    wanted = {"torch": "pip install 'ropewalk[torch]'", "transformers": "pip install transformers"}
    wanted |= {"gguf": "pip install 'ropewalk[gguf]'"} if path.suffix.lower() == ".gguf" else {}
    for name, remedy in wanted.items():
        try:
            found.append(import_module(name))
        except ImportError as error:
            raise RopewalkError(f"measuring a model needs {name} ({error}): {remedy}.") from error
    return found[0], found[1]


def _place(path: Path) -> dict[str, Any]:
    """Give what transformers' from_pretrained is asked with, or raise where there is nothing to load."""
    safe = {"local_files_only": True, "trust_remote_code": False}
    if path.is_file() and path.suffix.lower() == ".gguf":
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise RopewalkError(f"{path} is no GGUF file: it does not begin with GGUF.")
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name, **safe}
    if not path.is_dir():
        what = "a file of another kind" if path.exists() else "not there"
        raise RopewalkError(
            f"the model to measure must be a directory with config.json and weights, or a .gguf file; {path} is {what}."
            " Name one with --model."
        )
    if not (path / "config.json").is_file():
        raise RopewalkError(f"{path} has no config.json: give the model's directory, or a .gguf file.")
    if not any(path.glob("*.safetensors")):
        pickled = [one.name for one in sorted(path.iterdir()) if one.suffix in _PICKLED]
        seen = f"only pickled ones ({pickled[0]}), which run code when they are read" if pickled else "no weights"
        raise RopewalkError(
            f"{path} holds {seen}: measuring needs *.safetensors. Download or convert them, or give a .gguf file."
        )
    return {"pretrained_model_name_or_path": str(path), **safe}


def _asked(ask: Any, where: Mapping[str, Any], what: str) -> Any:
    """Call transformers, and tell what went wrong in a line: a damaged file can raise anything there."""
    try:
        return ask(**where)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise RopewalkError(
            f"{what} cannot be loaded by transformers: {type(error).__name__}: {reason[:300]}"
        ) from error


def _from_gguf(path: Path, config: Any, dtype: "torch.dtype") -> "nn.Module":
    """Unpack a GGUF file's weights: from_pretrained would need accelerate for that."""
    transformers = import_module("transformers")
    loading = import_module("transformers.modeling_gguf_pytorch_utils")
    skip = import_module("transformers.initialization").no_init_weights
    what = f"the model in {path}"
    with skip():
        model = _asked(transformers.AutoModelForCausalLM.from_config, {"config": config, "dtype": dtype}, what)
    asked = {"return_tensors": True, "model_to_load": model, "torch_dtype": dtype}
    with _without_bar(loading):
        weights = _asked(loading.load_gguf_checkpoint, {"gguf_checkpoint_path": str(path), **asked}, what)["tensors"]
    missing = set(_asked(model.load_state_dict, {"state_dict": weights, "strict": False}, what).missing_keys)
    model.tie_weights()
    tied = {id(one) for name, one in model.named_parameters(remove_duplicate=False) if name not in missing}
    absent = [name for name in missing if id(model.get_parameter(name)) not in tied]
    if absent:
        raise RopewalkError(f"{path} lacks {len(absent)} of the model's tensors, {sorted(absent)[0]} among them.")
    return model


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence transformers' log and progress bars for a while."""
    log = transformers.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


@contextmanager
def _without_bar(module: Any) -> Iterator[None]:
    """Take away the progress bar that unpacking draws whatever transformers' log is told."""
    bar = getattr(module, "tqdm", None)
    if bar is None:
        yield
        return
    module.tqdm = lambda items, **_: items
    try:
        yield
    finally:
        module.tqdm = bar
