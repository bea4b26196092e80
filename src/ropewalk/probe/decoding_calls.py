"""A decoder as two functions: how they are called is told by their parameters; answers come back as float64."""

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import shown
from ..errors import RopewalkError
from ._libraries import LIBRARIES, libraries_for, module_of
from ._worker import Worker
from .box import BoxFailure, Failure

NAMES = {
    "cache": ("cache", "past_key_values", "past", "kv_cache", "caches", "state"),
    "mask": ("attention_mask", "mask", "padding_mask", "attn_mask"),
    "ids": ("position_ids", "positions", "pos_ids", "position", "pos", "input_pos"),
}
WANTED = {
    "prefill": "prefill(tokens, attention_mask=None, position_ids=None, cache=None) -> (outputs, cache)",
    "step": "step(tokens, cache, attention_mask=None, position_ids=None) -> (outputs, cache)",
}
# of the outputs' own size, as the root of the mean square over one token's outputs; rounding of honest models of some
# dozen layers stays below half of it
ROOMS = {"float64": 1e-8, "float32": 2e-4, "tf32": 0.02, "float16": 0.02, "bfloat16": 0.1}


class OutOfTime(Exception):
    """The time for all calls together is used up, by calls none of which hung."""


@dataclass(frozen=True, slots=True)
class Takes:
    """Which arguments a function takes: role to parameter name, and the roles that it cannot do without."""

    names: dict[str, str]
    needed: frozenset[str]


class Caller:
    """The two functions and the hooks, asked with whole numbers [B, S].

    Args:
        step: as WANTED has it; attention_mask and position_ids may be missing.
        prefill: as WANTED has it; all but tokens may be missing.
        merge: merge(caches) -> cache.
        evict: evict(cache, keep) -> cache.
        backend: "auto", "numpy", "torch" or "jax".
        device: of the tokens, for torch.
        timeout: seconds for all calls together.
    """

    def __init__(
        self, step: Any, prefill: Any, *, merge: Any, evict: Any, backend: str, device: Any, timeout: float
    ) -> None:
        self._step, self._prefill = step, prefill
        self._hooks = {"merge": merge, "evict": evict}
        self.step_takes = takes("step", step)
        self.prefill_takes = takes("prefill", prefill)
        for name, hook in self._hooks.items():
            if hook is not None and not callable(hook):
                raise RopewalkError(f"{name} must be a function, got {shown(hook)}.")
        self.library = None if backend == "auto" else LIBRARIES[backend]
        self.device, self.timeout = device, timeout
        self.calls, self.seconds, self.longest = 0, 0.0, 0.0
        self.last_only = False
        self.dtype = ""
        self._worker = Worker()
        self._told: dict[tuple[bytes, bytes], NDArray] = {}

    def both_take(self, role: str) -> bool:
        """Whether prefill and step take attention masks ("mask"), or position ids ("ids")."""
        return role in self.prefill_takes.names and role in self.step_takes.names

    def needs(self, role: str) -> bool:
        """Whether one of the two cannot do without."""
        return role in self.prefill_takes.needed or role in self.step_takes.needed

    def has(self, hook: str) -> bool:
        """Whether a hook was given."""
        return self._hooks[hook] is not None

    def prefill(
        self, tokens: NDArray, *, mask: NDArray | None = None, ids: NDArray | None = None, cache: Any = None
    ) -> tuple[NDArray, Any]:
        """Give the outputs [B, S, V] of a prompt, or of a window of tokens after cache; and the cache."""
        given = {"cache": cache} if cache is not None else {}
        return self._ask("prefill", self._prefill, self.prefill_takes, tokens, mask, ids, given)

    def step(
        self, tokens: NDArray, cache: Any, *, mask: NDArray | None = None, ids: NDArray | None = None
    ) -> tuple[NDArray, Any]:
        """Give the outputs [B, S, V] of the next tokens, and the cache; mask is of the cache and of these tokens."""
        return self._ask("step", self._step, self.step_takes, tokens, mask, ids, {"cache": cache})

    def hook(self, name: str, *arguments: Any) -> Any:
        """Give what a hook gives."""
        return self._timed(lambda: self._hooks[name](*arguments), f"{name}({', '.join(map(_brief, arguments))})")

    def whole(self, tokens: NDArray, ids: NDArray | None = None) -> NDArray:
        """Give the outputs [S, V] of one sequence [S] as prefill has them by itself; asked once for each sequence."""
        key = (tokens.tobytes(), b"" if ids is None else ids.tobytes())
        if key not in self._told:
            self._told[key] = self.anew(tokens, ids)
        return self._told[key]

    def anew(self, tokens: NDArray, ids: NDArray | None = None) -> NDArray:
        """Give what whole gives, asked again."""
        rows = None if ids is None else ids[None]
        out, _ = self.prefill(tokens[None], ids=rows)
        if not self.last_only:
            return out[0]
        parts = [
            self.prefill(tokens[None, :end], ids=None if rows is None else rows[:, :end])[0]
            for end in range(1, len(tokens))
        ]
        return np.concatenate([*(part[0, -1:] for part in parts), out[0, -1:]])

    def _ask(
        self,
        name: str,
        function: Any,
        taken: Takes,
        tokens: NDArray,
        mask: NDArray | None,
        ids: NDArray | None,
        given: dict[str, Any],
    ) -> tuple[NDArray, Any]:
        values = dict(given)
        if "mask" in taken.names and (mask is not None or "mask" in taken.needed):
            values["mask"] = np.ones_like(tokens) if mask is None else mask
        if "ids" in taken.names and (ids is not None or "ids" in taken.needed):
            values["ids"] = ids if ids is not None else np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
        where = f"{name}(tokens {list(tokens.shape)}{''.join(f', {taken.names[one]}' for one in values)})"
        if self.library is None:
            self.library = self._found(function, taken, tokens, values, where)
        return self._read(self._called(self.library, function, taken, tokens, values, where), name, tokens, where)

    def _found(self, function: Any, taken: Takes, tokens: NDArray, values: dict[str, Any], where: str) -> Any:
        """Give the first library whose arrays the function takes."""
        kinds = [LIBRARIES[name] for name in libraries_for(function)]
        failure = None
        for kind in kinds:
            try:
                out = self._called(kind, function, taken, tokens, values, where)
            except BoxFailure as error:
                if error.failure.kind == "hang":
                    raise
                failure = failure or error
                continue
            if any(kind.takes(one) for one in (out if isinstance(out, tuple | list) else ())):
                return kind
        if failure is not None:
            raise failure
        return kinds[0]

    def _called(
        self, kind: Any, function: Any, taken: Takes, tokens: NDArray, values: dict[str, Any], where: str
    ) -> Any:
        given = {
            taken.names[role]: value if role == "cache" else kind.give(np.asarray(value, np.int64), None, self.device)
            for role, value in values.items()
        }
        array = kind.give(np.asarray(tokens, np.int64), None, self.device)
        if "cache" in given and taken.names["cache"] == "":
            return self._timed(lambda: kind.run(lambda a, b: function(a, b, **given), array, given.pop("")), where)
        return self._timed(lambda: kind.run(lambda a, _: function(a, **given), array, None), where)

    def _timed(self, function: Callable[[], Any], where: str) -> Any:
        self.calls += 1
        began = time.perf_counter()
        left = self.timeout - self.seconds
        if left < self.timeout / 4 and left < self.longest:
            raise OutOfTime
        try:
            return self._worker.call(function, left)
        except TimeoutError:
            if left < self.timeout / 4:
                raise OutOfTime from None
            words = f"no answer within {self.timeout:g} s ({self.calls} calls in all)"
            raise BoxFailure(Failure(kind="hang", message=words, where=where)) from None
        except BaseException as error:
            lines = str(error).strip().splitlines() or [""]
            words = f"{type(error).__name__}: {lines[0][:200]}".rstrip(": ")
            raise BoxFailure(Failure(kind="raised", message=words, where=where)) from error
        finally:
            took = time.perf_counter() - began
            self.seconds, self.longest = self.seconds + took, max(self.longest, took)

    def _read(self, answer: Any, name: str, tokens: NDArray, where: str) -> tuple[NDArray, Any]:
        assert self.library is not None
        if not isinstance(answer, tuple | list) or len(answer) < 2:
            raise RopewalkError(f"{name} must return (outputs, cache), got {type(answer).__name__}: {WANTED[name]}.")
        if not self.library.takes(answer[0]):
            words = f"outputs are {type(answer[0]).__name__}, no array of {self.library.name}"
            raise BoxFailure(Failure(kind="type", message=words, where=where))
        out = self.library.read(answer[0])
        self.dtype = self.dtype or self._working(answer[0], out)
        batch, seq = tokens.shape
        if out.ndim == 2 and out.shape[0] == batch:
            out = out[:, None]
        if out.ndim != 3 or out.shape[0] != batch or out.shape[1] not in (1, seq):
            words = f"outputs are {list(out.shape)}, expected [{batch}, {seq}, vocab] or [{batch}, vocab]"
            raise BoxFailure(Failure(kind="shape", message=words, where=where))
        self.last_only = self.last_only or out.shape[1] != seq
        return out, answer[1]

    def _working(self, outputs: Any, numbers: NDArray) -> str:
        """Give the dtype that the decoder computes in: its weights', else what its numbers look like."""
        assert self.library is not None
        module = module_of(self._prefill)
        weights = next((one for one in module.parameters() if one.is_floating_point()), None) if module else None
        dtype = self.library.dtype_of(outputs if weights is None else weights)
        if dtype == "float32":
            few = numbers[np.isfinite(numbers)].astype(np.float32)
            for name, low in (("bfloat16", 0xFFFF), ("float16", 0x1FFF)):  # logits are often widened at the end
                if few.size > 8 and not (few.view(np.uint32) & low).any():
                    return name
            if self.library.name == "torch" and not self.library.device_of(outputs).startswith("cpu"):
                import torch

                return "tf32" if torch.backends.cuda.matmul.allow_tf32 else dtype
        return dtype


def takes(kind: str, function: Any) -> Takes:
    """Give which arguments a function takes, "step" or "prefill".

    Raises:
        RopewalkError: for something that cannot be called so, with what is missing.

    >>> takes("step", lambda tokens, cache, position_ids: None).names
    {'cache': 'cache', 'ids': 'position_ids'}
    """
    if not callable(function):
        raise RopewalkError(f"{kind} must be a function, got {shown(function)}: {WANTED[kind]}.")
    try:
        inner: Any = getattr(function, "forward", None) if hasattr(function, "named_buffers") else function
        parameters = list(inspect.signature(inner).parameters.values())
    except (TypeError, ValueError):  # built in: told by nothing
        return Takes({} if kind == "prefill" else {"cache": ""}, frozenset())
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if not named and not any(one.kind == one.VAR_POSITIONAL for one in parameters):
        raise RopewalkError(f"{kind} takes no arguments, but must take tokens [B, S]: {WANTED[kind]}.")
    names: dict[str, str] = {}
    needed, unknown = set(), []
    for one in named[1:]:
        role = next((role for role, words in NAMES.items() if one.name in words), None)
        if role is None and kind == "step" and one is named[1] and not _keyword(one):
            role = "cache"
        if role is not None and role not in names:
            names[role] = "" if one.kind is one.POSITIONAL_ONLY else one.name
            needed |= {role} if one.default is one.empty else set()
        elif one.default is one.empty:
            unknown.append(one.name)
    if unknown:
        raise RopewalkError(
            f"{kind} requires {', '.join(unknown)}, which nothing here is. Wrap it so that it can be called as "
            f"{WANTED[kind]}."
        )
    if kind == "step" and "cache" not in names:
        if named[1:] or not any(one.kind == one.VAR_POSITIONAL for one in parameters):
            listed = ", ".join(one.name for one in named) or "nothing"
            raise RopewalkError(f"step must take the cache that prefill returned, it takes {listed}: {WANTED['step']}.")
        names["cache"] = ""
    return Takes(names, frozenset(needed))


def _keyword(one: inspect.Parameter) -> bool:
    return one.kind is one.KEYWORD_ONLY


def _brief(value: Any) -> str:
    return f"[{len(value)}]" if isinstance(value, list | np.ndarray) else type(value).__name__
