"""What TARGET of `ropewalk check` means: functions of x and position_ids, with the rope that each is expected to be."""

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._checks import shown
from ..errors import RopewalkError
from ..rope import Rope
from . import adapt
from ._errors import first_line

_MODULE = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
_HELP = (
    "Give package.module:attribute, file.py:attribute, file.onnx, or transformers:MODEL_TYPE or transformers:DIRECTORY."
)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One function to check.

    Attributes:
        name: what it is, in words.
        fn: fn(x, position_ids) -> x'.
        expect: the rope that it should be, where the target itself says so.
        options: for `check`: head_dim, kv_heads and the like.
        note: how it was reached.
        place: (file, line) where it is written, if that is known.
    """

    name: str
    fn: Callable[[Any, Any], Any]
    expect: Rope | None = None
    options: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    place: tuple[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Targets:
    """What a TARGET names.

    Attributes:
        found: the functions, one for each rotary module, layer type and use of a model.
        left: (name, reason) of what cannot be asked from outside.
        runs: whose code runs, in words.
    """

    found: tuple[Target, ...]
    left: tuple[tuple[str, str], ...] = ()
    runs: str = ""


def resolve(target: str, *, layout: str = "bshd", kv_heads: int | None = None, of: str = "both") -> Targets:
    """Give what a TARGET names; code of the user's own is imported and run, nothing is downloaded.

    Args:
        target: "package.module:attribute"; "file.py:attribute", imported from that path; "file.onnx", run by
            onnxruntime; "transformers:MODEL_TYPE" or "transformers:DIRECTORY", whose configuration is built without
            weights. An attribute may be fn(x, position_ids), a function of (q, k, positions), an nn.Module, or a
            class or function without required arguments that gives one of them. Where it has an attribute `rope`
            that is a Rope, that is what it is expected to be.
        layout: of what the function takes; transformers' own are asked as they are.
        kv_heads: heads of the keys, for functions of queries and keys.
        of: which of the two is looked at: "q", "k" or "both".

    Raises:
        RopewalkError: where there is no such thing, or it cannot be imported or adapted.
    """
    if target.startswith("transformers:"):
        return _of_transformers(target.removeprefix("transformers:"))
    if target.lower().endswith(".onnx"):
        if not Path(target).is_file():
            raise RopewalkError(f"there is no file {target}. {_HELP}")
        fn = adapt.onnx(target, layout=layout, kv_heads=kv_heads, of=of)
        found = Target(name=target, fn=fn, options={"backend": "numpy"})
        return Targets(found=(found,), runs=f"onnxruntime runs the graph in {target}")
    home, colon, attribute = target.rpartition(":")
    if not colon or not home or not attribute:
        raise RopewalkError(f"{shown(target)} is no target. {_HELP}")
    module, runs = _imported(home)
    value = _attribute(module, attribute, home)
    fn = _function(value, target, {"layout": layout, "kv_heads": kv_heads, "of": of})
    options = {"layout": "bshd" if isinstance(fn, adapt.Adapted) else layout}
    told = getattr(fn.module if isinstance(fn, adapt.Adapted) and fn.module is not None else fn, "rope", None)
    expect = told if isinstance(told, Rope) else None
    found = Target(name=target, fn=fn, expect=expect, options=options, place=_place(value))
    return Targets(found=(found,), runs=runs)


def decoder_of(target: str) -> tuple[Any, str]:
    """Give the object "package.module:attribute" or "file.py:attribute", made where it is a class, and whose code runs.

    Raises:
        RopewalkError: where there is no such thing, or it cannot be imported or made.
    """
    home, colon, attribute = target.rpartition(":")
    if not colon or not home or not attribute:
        raise RopewalkError(f"{shown(target)} is no target. {_HELP}")
    module, runs = _imported(home)
    value = _attribute(module, attribute, home)
    if callable(value) and (inspect.isclass(value) or not hasattr(value, "step")):
        try:
            value = value()
        except Exception as error:
            raise RopewalkError(f"{target}() raised {first_line(error)}: put an instance into the file.") from error
    return value, runs


def _imported(home: str) -> tuple[Any, str]:
    path = Path(home)
    if home.endswith(".py") or path.is_file():
        if not path.is_file():
            raise RopewalkError(f"there is no file {home}. {_HELP}")
        return _from_path(path.resolve()), f"{path} is imported and its code run"
    if not _MODULE.match(home):
        raise RopewalkError(f"{shown(home)} is neither a file ending in .py nor a module's name. {_HELP}")
    here = str(Path.cwd())
    if here not in sys.path:  # as `python -m` has it
        sys.path.insert(0, here)
    try:
        return importlib.import_module(home), f"the module {home} is imported and its code run"
    except BaseException as error:
        _let_go(error)
        raise RopewalkError(f"the module {home} cannot be imported: {first_line(error)}.") from error


def _from_path(path: Path) -> Any:
    name = re.sub(r"\W", "_", path.stem)
    name = name if name not in sys.modules and name not in sys.stdlib_module_names else f"ropewalk_target_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RopewalkError(f"{path} is not a file of Python code. {_HELP}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    if str(path.parent) not in sys.path:  # its neighbours, as when it is run
        sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        _let_go(error)
        raise RopewalkError(f"{path} cannot be imported: {first_line(error)}.") from error
    return module


def _attribute(module: Any, attribute: str, home: str) -> Any:
    value = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            names = [name for name, one in vars(module).items() if callable(one) and not name.startswith("_")]
            raise RopewalkError(f"{home} has no {attribute}; it has {', '.join(names[:12]) or 'nothing to call'}.")
        value = getattr(value, part)
    return value


def _function(value: Any, target: str, options: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """Give fn(x, position_ids) from what a user wrote."""
    if not callable(value):
        raise RopewalkError(f"{target} is {shown(value)}, which cannot be called as fn(x, position_ids).")
    made = _made(value, target)
    if hasattr(made, "forward") and hasattr(made, "named_buffers"):
        return adapt.module(made, **options)
    parameters = _parameters(made)
    single = [one for one in parameters or () if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    required = [one for one in single if one.default is one.empty and one.kind is not one.KEYWORD_ONLY]
    if parameters is None or (len(required) == 2 and not {"k", "key", "xk"} & {one.name for one in required}):
        return _in_order(made, required, options)
    return adapt.calling(made, **options)


def _in_order(made: Any, required: list[Any], options: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """Give a function of two, x first unless its names say that the positions are."""
    from ._slots import slots_of

    if required and slots_of(made, ("x", "ids")).roles[0][1] == "ids":
        return adapt.calling(made, **options)
    return made


def _made(value: Any, target: str) -> Any:
    """Give what a class, or a function without arguments, makes; anything else as it is."""
    parameters = _parameters(value)
    takes = [one for one in parameters or () if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    required = [one for one in takes if one.default is one.empty]
    if inspect.isclass(value):
        if required:
            named = ", ".join(one.name for one in required)
            raise RopewalkError(
                f"{target} is a class that must be told {named}: put an instance into the file, "
                f"rope = {value.__name__}(…), and give that."
            )
    elif parameters is None or parameters or hasattr(value, "forward"):
        return value
    try:
        made = value()
    except Exception as error:
        raise RopewalkError(f"{target}() raised {first_line(error)}.") from error
    if not callable(made):
        raise RopewalkError(f"{target}() gave {shown(made)}, which cannot be called as fn(x, position_ids).")
    return made


def _place(value: Any) -> tuple[str, int] | None:
    """Give where a function, or the class of a module, is written."""
    code = getattr(value, "forward", value) if hasattr(value, "named_buffers") else value
    code = code if hasattr(code, "__code__") or hasattr(code, "__func__") or inspect.isclass(code) else type(code)
    try:
        file = inspect.getsourcefile(code)
        return (file, inspect.getsourcelines(code)[1]) if file else None
    except (TypeError, OSError):
        return None


def _parameters(value: Any) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return None


def _of_transformers(name: str) -> Targets:
    if not name:
        raise RopewalkError(f"transformers: must be followed by a model type or a directory. {_HELP}")
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        raise RopewalkError("a target transformers:… needs torch and transformers: pip install torch transformers")
    from ._models import config_of

    return of_config(config_of(name), name)


def of_config(config: Any, name: str = "") -> Targets:
    """Give every rotary module of a transformers configuration, with the rope that `ropewalk.read` finds for it.

    Args:
        config: a `PretrainedConfig`.
        name: what to call it.

    Raises:
        RopewalkError: where its model cannot be built, or has no rotary module.
    """
    from ._uses import Unasked, ask

    found: list[Target] = []
    left: list[tuple[str, str]] = []
    for one in ask(config):
        if isinstance(one, Unasked):
            left.append((one.name, one.reason))
            continue
        options: dict[str, Any] = {"head_dim": one.rope.head_dim, "backend": "torch"}
        found.append(
            Target(
                name=one.name,
                fn=one.fn,
                expect=one.rope,
                options=options,
                note=one.note,
            )
        )
    library = importlib.import_module("transformers")
    runs = f"transformers {library.__version__} builds {name or type(config).__name__} without weights"
    return Targets(found=tuple(found), left=tuple(left), runs=runs)


def _let_go(error: BaseException) -> None:
    """Raise what is not a fault of the imported code: an interrupt."""
    if isinstance(error, KeyboardInterrupt):
        raise error
