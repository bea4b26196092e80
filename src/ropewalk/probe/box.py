"""A box around somebody's function: NumPy float64 in and out, whatever array library, dtype and layout it speaks."""

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import choice, real, whole
from ..errors import RopewalkError
from ._answers import BoxFailure, Failure, differing, expect_finite, expect_like, where_of
from ._errors import first_line
from ._layouts import positions_of, widened
from ._libraries import LIBRARIES, RESOLUTIONS, NumpyLibrary, libraries_for, module_of
from ._worker import Meter

LAYOUTS = ("bshd", "bhsd", "thd")


class Box:
    """Somebody's function behind one plain call.

    Args:
        fn: called as fn(x, position_ids); gives x turned.
        head_dim: D.
        layout: how x is laid out for fn: "bshd", "bhsd", or "thd" (packed, [T, H, D] with position_ids [T]).
        heads: H, heads of x in every call.
        kv_heads: heads of the keys where they differ; the battery tries that number too.
        batch: B of the calls that choose it themselves.
        dtype: of x by name: "float32" (the default), "float64", "bfloat16", "float16".
        device: for torch; None means where the module's tensors are, else the CPU.
        backend: "numpy", "torch", "jax", or "auto": whichever fn takes and gives back.
        timeout: seconds that one call may take, and all of them together (counted over copies, too).
        axes: A, rows of position_ids; above 1 they are given as [A, B, S].
        max_position: the largest position that is tried.

    Raises:
        RopewalkError: for options that do not exist.

    >>> box = Box(lambda x, ids: x * 2, head_dim=4, heads=3)
    >>> box.turn(np.ones((1, 2, 3, 4)), [0, 5]).shape, box.resolution == 2**-24
    ((1, 2, 3, 4), True)
    """

    def __init__(
        self,
        fn: Any,
        *,
        head_dim: int,
        layout: str = "bshd",
        heads: int = 2,
        kv_heads: int | None = None,
        batch: int = 2,
        dtype: Any = None,
        device: Any = None,
        backend: str = "auto",
        timeout: float = 60.0,
        axes: int = 1,
        max_position: int = 1_048_576,
        _meter: Meter | None = None,
    ) -> None:
        if not callable(fn):
            raise RopewalkError(f"fn must be callable as fn(x, position_ids), got {type(fn).__name__}.")
        self.fn = fn
        self.head_dim = whole("head_dim", head_dim, at_least=2, at_most=65_536)
        self.layout = choice("layout", layout, LAYOUTS)
        self.heads = whole("heads", heads, at_least=1, at_most=4096)
        self.kv_heads = None if kv_heads is None else whole("kv_heads", kv_heads, at_least=1, at_most=4096)
        self.batch = whole("batch", batch, at_least=1, at_most=4096)
        name = "float32" if dtype is None else str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
        self.dtype = choice("dtype", name, tuple(RESOLUTIONS))
        self.backend = choice("backend", backend, ("auto", *LIBRARIES))
        self.timeout = real("timeout", timeout, above=0)
        self.axes = whole("axes", axes, at_least=1, at_most=64)
        self.max_position = whole("max_position", max_position, at_least=1)
        self.module = module_of(fn)
        self.device = device if device is not None else _home(self.module)
        self.facts: dict[str, str] = {}
        self._working = self.dtype
        self._meter = _meter or Meter()
        self._library: NumpyLibrary | None = None
        self._forms: tuple[str, ...] = ()

    def turn(self, x: ArrayLike, position_ids: ArrayLike) -> NDArray[np.float64]:
        """Give what fn makes of x at these positions.

        Args:
            x: [B, S, H, D]; rounded to the box's dtype on the way in.
            position_ids: [S], [B, S] or [A, B, S]; handed on in the same shape where fn takes it, else row by row.

        Returns:
            [B, S, H, D] float64.

        Raises:
            BoxFailure: when fn raises, never returns, or gives another shape, type or device, or NaN.
        """
        x, ids = np.asarray(x, dtype=np.float64), positions_of(position_ids)
        if x.ndim != 4 or x.shape[2:] != (self.heads, self.head_dim):
            raise RopewalkError(f"x must be [B, S, {self.heads}, {self.head_dim}], got {list(x.shape)}.")
        library = self._prepare()
        batch, tokens = x.shape[:2]
        if self.axes > 1 or self.layout == "thd":
            return self._turned(library, x, widened(ids, self.axes, batch, tokens))
        if ids.ndim == 1 and "s" not in self._forms:
            ids = np.broadcast_to(ids, (batch, tokens))
        if ids.ndim == 2 and "bs" not in self._forms:
            if (ids == ids[:1]).all():
                return self._turned(library, x, ids[0])
            rows = np.broadcast_to(ids, (batch, tokens))
            return np.concatenate([self._turned(library, x[b : b + 1], rows[b]) for b in range(batch)])
        return self._turned(library, x, ids)

    def look_again(self) -> None:
        """Repeat one small call some times more: what differs only now and then may have been missed."""
        library = self._prepare()
        x = np.random.default_rng(3).integers(-8, 9, size=(self.batch, self._trial_tokens(), self.heads, self.head_dim))
        ids = np.broadcast_to(np.arange(x.shape[1]), (self.batch, x.shape[1]))
        try:
            self._look_for_state(library, x / 4.0, widened(ids, self.axes, *x.shape[:2]), times=8)
        except BoxFailure:
            return

    def rounded(self, x: ArrayLike) -> NDArray[np.float64]:
        """Give the numbers that fn really sees for x: rounded to the box's dtype."""
        library = self._prepare()
        return library.read(library.give(np.asarray(x, dtype=np.float64), self.dtype, None))

    def gradient(self, x: ArrayLike, position_ids: ArrayLike, grad: ArrayLike) -> NDArray[np.float64] | None:
        """Give the vector-Jacobian product of fn at x with grad; torch alone, None elsewhere.

        Raises:
            BoxFailure: as turn does; "raised" also where fn's output carries no gradient.
        """
        library = self._prepare()
        if library.name != "torch":
            return None
        import torch

        x, ids = np.asarray(x, dtype=np.float64), positions_of(position_ids)
        if self.axes > 1 or self.layout == "thd":
            ids = widened(ids, self.axes, *x.shape[:2])
        elif ids.ndim == 1 and "s" not in self._forms:
            ids = np.broadcast_to(ids, x.shape[:2])
        elif ids.ndim == 2 and "bs" not in self._forms:
            ids = ids[0]
        given, positions = self._given(library, x, ids)
        given.requires_grad_(True)
        weights = library.give(self._laid(np.asarray(grad, dtype=np.float64)), self.dtype, self.device)

        def back() -> Any:
            leaf = given * 1  # not a leaf itself: fn may write into it
            out: Any = self.fn(leaf, positions)
            return torch.autograd.grad(out, given, weights.to(out.dtype))[0]

        return self._unlaid(library.read(self._timed(back, x, ids)), x.shape)

    def with_(self, **changes: Any) -> "Box":
        """Give a copy with other options; time and calls are counted together with this one's."""
        names = ("fn", "head_dim", "layout", "heads", "kv_heads", "batch", "dtype", "device", "timeout", "axes")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        given["max_position"] = self.max_position
        given["backend"] = self._library.name if self._library else self.backend
        if "fn" in changes and "device" not in changes:
            given["device"] = None
        return Box(**{**given, **changes}, _meter=self._meter)

    @property
    def resolution(self) -> float:
        """The unit roundoff of the working dtype: 2^-24 for float32, 2^-53, 2^-11 (float16), 2^-8 (bfloat16)."""
        if self.dtype == "float64" and self._library is not None and self._library.name == "jax":
            return RESOLUTIONS[self._working]
        return RESOLUTIONS[self.dtype]

    @property
    def library(self) -> str:
        """The array library that fn takes, found out on first use."""
        return self._prepare().name

    @property
    def takes_rows(self) -> bool:
        """Whether fn takes positions of its own for every row, [B, S] (or is packed)."""
        self._prepare()
        return "bs" in self._forms or self.axes > 1 or self.layout == "thd"

    @property
    def calls(self) -> int:
        """How often fn was called, by this box and its copies."""
        return self._meter.calls

    @property
    def seconds(self) -> float:
        """Seconds spent in fn."""
        return self._meter.seconds

    def _prepare(self) -> NumpyLibrary:
        """Find out, once, which library fn takes and which shapes of positions."""
        if self._library is not None:
            return self._library
        names = libraries_for(self.fn) if self.backend == "auto" else (self.backend,)
        failures: list[tuple[str, BoxFailure]] = []
        for tokens in (self._trial_tokens(), self.heads):
            for name in names:
                try:
                    self._try(LIBRARIES[name], tokens)
                except BoxFailure as failure:
                    failures.append((name, failure))
                    if failure.failure.kind == "hang":
                        raise
                    continue
                if tokens == self.heads:
                    self.facts["tokens"] = "takes x only where it has as many tokens as heads"
                return LIBRARIES[name]
        # a function that answered, even wrongly, says more than one that refused the library
        raise next((failure for _, failure in failures if failure.failure.kind != "raised"), failures[0][1])

    def _trial_tokens(self) -> int:
        return next(s for s in (5, 6, 7, 8) if s not in (self.heads, self.batch))

    def _try(self, library: NumpyLibrary, tokens: int) -> None:
        rng = np.random.default_rng(0)
        x = rng.integers(-8, 9, size=(self.batch, tokens, self.heads, self.head_dim)) / 4.0
        ids = np.arange(tokens)
        forms: dict[str, NDArray[Any]] = {"bs": np.broadcast_to(ids, (self.batch, tokens)), "s": ids}
        if self.axes > 1 or self.layout == "thd":
            forms = {"abs": widened(ids, self.axes, self.batch, tokens)}
        taken, first, failure = [], None, None
        for form, positions in forms.items():
            try:
                out = self._turned(library, x, positions)
            except BoxFailure as caught:
                if caught.failure.kind == "hang":
                    raise
                failure = failure or caught
                continue
            taken.append(form)
            first = out if first is None else first
        if first is None:
            assert failure is not None
            raise failure
        self._forms, self._library = tuple(taken), library
        self._look_for_state(library, x, forms[taken[0]])

    def _look_for_state(self, library: NumpyLibrary, x: NDArray[np.float64], ids: NDArray[Any], times: int = 2) -> None:
        fact = differing(lambda: self._turned(library, x, ids), times, self.resolution)
        if fact is not None:
            kind, gap = fact
            self.facts[kind] = f"two equal calls differ by {gap:.3g}"

    def _given(self, library: NumpyLibrary, x: NDArray[np.float64], ids: NDArray[Any]) -> tuple[Any, Any]:
        packed = ids
        if self.layout == "thd":
            packed = ids.reshape(self.axes, 1, -1) if self.axes > 1 else ids.reshape(-1)
        return library.give(self._laid(x), self.dtype, self.device), library.give(packed, None, self.device)

    def _laid(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.layout == "bhsd":
            return np.ascontiguousarray(x.transpose(0, 2, 1, 3))
        return x.reshape(-1, *x.shape[2:]) if self.layout == "thd" else x

    def _unlaid(self, out: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
        return out.transpose(0, 2, 1, 3) if self.layout == "bhsd" else out.reshape(shape)

    def _turned(self, library: NumpyLibrary, x: NDArray[np.float64], ids: NDArray[Any]) -> NDArray[np.float64]:
        given, positions = self._given(library, x, ids)
        before = library.read(given)
        places = library.read(positions)
        out = self._timed(lambda: library.run(self.fn, given, positions), x, ids)
        where = where_of(x, ids)
        expect_like(library, out, given, where)
        self._note_dtypes(library, given, out)
        numbers = library.read(out)
        if not np.array_equal(library.read(given), before, equal_nan=True):
            self.facts["mutated"] = "x is overwritten" + (" and given back" if out is given else "")
        if not np.array_equal(library.read(positions), places):
            self.facts["mutated"] = "position_ids are overwritten"
        expect_finite(numbers, where)
        return self._unlaid(numbers, x.shape)

    def _note_dtypes(self, library: NumpyLibrary, given: Any, out: Any) -> None:
        taken, gave = library.dtype_of(given), library.dtype_of(out)
        self._working = taken if taken in RESOLUTIONS else self.dtype
        if taken != gave:
            self.facts["dtype"] = f"{taken} in, {gave} out"

    def _timed(self, function: Any, x: NDArray[np.float64], ids: NDArray[Any]) -> Any:
        left = min(self.timeout, self.timeout - self._meter.seconds)
        began = time.perf_counter()
        self._meter.calls += 1
        try:
            if left <= 0:
                raise TimeoutError
            return self._meter.worker.call(function, left)
        except TimeoutError:
            words = f"no answer within {self.timeout:g} s ({self._meter.calls} calls in all)"
            raise BoxFailure(Failure(kind="hang", message=words, where=where_of(x, ids))) from None
        except BaseException as error:
            if isinstance(error, RopewalkError) and error.__cause__ is not None:
                raise
            raise BoxFailure(Failure(kind="raised", message=first_line(error), where=where_of(x, ids))) from error
        finally:
            self._meter.seconds += time.perf_counter() - began


def _home(module: Any) -> Any:
    """Give the device of a module's first tensor, or None."""
    if module is None:
        return None
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device if tensor.device.type != "meta" else None
    return None
