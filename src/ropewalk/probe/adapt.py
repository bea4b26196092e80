"""What people have, as a function fn(x, position_ids) -> x' that `check` takes, x [B, S, H, D].

Nothing here repairs anything: a fault of the wrapped function is a fault of the adapted one. A function of queries and
keys is given x as its queries and the first heads of x as its keys, and must turn both alike.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import choice, whole
from ..errors import RopewalkError
from ._layouts import copied, laid, packed, plain, rows_of, unlaid
from ._slots import Slots, slots_of

Turn = Callable[[Any, Any], Any]
LAYOUTS = ("bshd", "bhsd", "thd")
KINDS = ("both", "q", "k")


def calling(
    function: Callable[..., Any], *, layout: str = "bshd", kv_heads: int | None = None, of: str = "both"
) -> Turn:
    """Adapt a function, or a torch module, called with (q, k, positions), (x, positions), or either by name.

    Args:
        function: what is called. Which argument is which is told by the parameters' names (q, query, xq …, k, key …,
            position_ids, positions, input_pos …), in whatever order; it returns x', or a tuple (q', k', …).
        layout: of what the function takes: "bshd", "bhsd", or "thd" (packed: all rows one after the other).
        kv_heads: heads of the keys; None means as many as x has.
        of: what is looked at: "q", "k", or "both", which must then be turned alike.

    Raises:
        RopewalkError: where the parameters do not say which argument is which.

    >>> def turn(positions, q, k):
    ...     return q * 2, k * 2
    >>> calling(turn)(np.ones((1, 1, 1, 2)), np.zeros(1)).ravel().tolist()
    [2.0, 2.0]
    """
    slots = slots_of(function, ("x", "ids"))
    return Adapted(slots, lambda position_ids: {"ids": position_ids}, layout, kv_heads, of)


def module(nn_module: Any, *, layout: str = "bshd", kv_heads: int | None = None, of: str = "both") -> Turn:
    """Adapt an `nn.Module` called with (q, k, positions), (x, positions), or either by name; see `calling`.

    The module stays within reach (`fn.module`), so that `check` can look at it under autocast and casts.
    """
    return calling(nn_module, layout=layout, kv_heads=kv_heads, of=of)


def tables(
    apply: Callable[..., Any],
    source: Any,
    *,
    layout: str = "bshd",
    kv_heads: int | None = None,
    of: str = "both",
) -> Turn:
    """Adapt apply(q, k, cos, sin) or apply(x, cos, sin), given the caller's tables.

    Args:
        apply: what turns. Its cos and sin are told by their names.
        source: (cos, sin), each [N, W], from which the rows of the positions are taken; or a function of
            position_ids that gives (cos, sin). apply gets them as [B, S, W] ([S, W] where position_ids are [S]).
        layout: as in `calling`: what apply takes.
        kv_heads: as in `calling`.
        of: as in `calling`.

    Raises:
        RopewalkError: where the parameters do not say which argument is which.

    >>> cos, sin = np.ones((8, 1)), np.zeros((8, 1))
    >>> turn = tables(lambda x, cos, sin: x * cos[..., None, :] + x[..., ::-1] * sin[..., None, :], (cos, sin))
    >>> turn(np.ones((1, 3, 1, 2)), np.arange(3)).shape
    (1, 3, 1, 2)
    """

    def given(position_ids: Any) -> dict[str, Any]:
        rows: Any = source(position_ids) if callable(source) else [rows_of(one, position_ids) for one in source]
        cos, sin = rows
        return {"cos": cos, "sin": sin, "cos_k": cos, "sin_k": sin}

    return Adapted(slots_of(apply, ("x", "cos", "sin")), given, layout, kv_heads, of)


def complex_form(
    apply: Callable[..., Any],
    source: Any,
    *,
    layout: str = "bshd",
    kv_heads: int | None = None,
    of: str = "both",
) -> Turn:
    """Adapt apply(q, k, freqs_cis) or apply(x, freqs_cis), given complex numbers, as Meta's Llama has it.

    Args:
        apply: what turns.
        source: freqs_cis [N, P], from which the rows of the positions are taken; or a function of position_ids.
        layout: as in `calling`: what apply takes.
        kv_heads: as in `calling`.
        of: as in `calling`.

    Raises:
        RopewalkError: where the parameters do not say which argument is which.
    """

    def given(position_ids: Any) -> dict[str, Any]:
        return {"complex": source(position_ids) if callable(source) else rows_of(source, position_ids)}

    return Adapted(slots_of(apply, ("x", "complex")), given, layout, kv_heads, of)


def transformers(
    rotary: Any,
    apply: Callable[..., Any],
    *,
    layer_type: str | None = None,
    axes: int = 1,
    kv_heads: int | None = None,
    of: str = "both",
) -> Turn:
    """Adapt a rotary module of transformers and the apply function of its file.

    How the two are called is found by calling them: position_ids [B, S], [A, B, S], [B, S, A] or [tokens, A]; tables
    (cos, sin), (sin, cos) or complex; x with the heads before or after the sequence, or packed; the whole head, or
    the turned channels alone, which the attention cuts out where the apply function does not.

    Args:
        rotary: the module, called with (x, position_ids), and layer_type where that is given.
        apply: apply(q, k, cos, sin), apply(x, cos, sin), apply(tensor, sin, cos), apply(q, k, freqs_cis) …
        layer_type: for modules that hold several ropes.
        axes: rows of the positions.
        kv_heads: as in `calling`.
        of: as in `calling`.

    Raises:
        RopewalkError: when no way of calling them works (at the first call).

    >>> transformers(model.model.rotary_emb, modeling_llama.apply_rotary_pos_emb)  # doctest: +SKIP
    """
    from ._transformers import Rotated

    return Rotated(rotary, apply, layer_type=layer_type, axes=axes, kv_heads=kv_heads, of=of)


def numpy(function: Turn) -> Turn:
    """Adapt a function of NumPy arrays: whatever it is given is made one, and the result given back as one."""
    return lambda x, position_ids: function(np.asarray(x), np.asarray(position_ids))


def torch(function: Turn) -> Turn:
    """Adapt a function of torch tensors, which may be given arrays; gradients pass."""

    def turn(x: Any, position_ids: Any) -> Any:
        import torch as library

        return function(library.as_tensor(x), library.as_tensor(position_ids))

    if hasattr(function, "named_buffers"):
        turn.module = function  # type: ignore[attr-defined]
    return turn


def jax(function: Turn) -> Turn:
    """Adapt a function of JAX arrays, which may be given other arrays."""

    def turn(x: Any, position_ids: Any) -> Any:
        import jax.numpy as library

        return function(library.asarray(x), library.asarray(position_ids))

    return turn


def onnx(path: str | Path, *, layout: str = "bshd", kv_heads: int | None = None, of: str = "both") -> Turn:
    """Adapt an ONNX file, run by onnxruntime on the CPU.

    Args:
        path: a graph whose floating input, or two, are x, or q and k, and whose integer input is the positions (a
            floating input called position_ids or the like is taken too); its first outputs are x', or q' and k'.
        layout: as in `calling`: what the graph takes.
        kv_heads: as in `calling`.
        of: as in `calling`.

    Raises:
        RopewalkError: where onnxruntime is missing or the file is not such a graph.
    """
    from ._onnx_file import graph

    return calling(graph(Path(path)), layout=layout, kv_heads=kv_heads, of=of)


class Adapted:
    """fn(x, position_ids) from a function of queries, keys, positions or tables, in a layout of its own.

    Args:
        slots: the function and its arguments' roles.
        given: what the arguments besides x, k and v are, by role, of position_ids.
        layout: as in `calling`.
        kv_heads: as in `calling`.
        of: as in `calling`.
    """

    def __init__(
        self, slots: Slots, given: Callable[[Any], dict[str, Any]], layout: str, kv_heads: int | None, of: str
    ) -> None:
        self.slots, self.given = slots, given
        self.layout = choice("layout", layout, LAYOUTS)
        self.kv_heads = None if kv_heads is None else whole("kv_heads", kv_heads, at_least=1)
        self.of = choice("of", of, KINDS)
        self.module = slots.function if hasattr(slots.function, "named_buffers") else None

    def __call__(self, x: Any, position_ids: Any) -> Any:
        """Turn x [B, S, H, D]."""
        values = self.given(position_ids)
        if self.layout == "thd":
            values = {role: packed(value, x.shape) for role, value in values.items()}
        values["x"] = laid(x, self.layout)
        if self.slots.has("k"):
            keys = x if self.kv_heads is None else x[:, :, : self.kv_heads]
            values["k"] = laid(copied(keys), self.layout)
        if self.slots.has("v"):
            values["v"] = copied(values.get("k", values["x"]))
        return both(self.slots.call(values), x, self.layout, self.of if self.slots.has("k") else "q")


def both(out: Any, x: Any, layout: str, of: str) -> Any:
    """Give of a function's result what stands for x', laid out as x is.

    Raises:
        RopewalkError: where keys and queries, which were the same vectors, were not turned alike.
    """
    if of == "q":
        return unlaid(out[0] if isinstance(out, tuple | list) else out, x, layout)
    if not isinstance(out, tuple | list) or len(out) < 2:
        raise RopewalkError(f"a function of q and k must return (q', k'), got {type(out).__name__}.")
    q, k = (unlaid(one, x, layout) for one in out[:2])
    if of == "k":
        return k
    if getattr(k, "ndim", 0) == 4 and k.shape[:2] == q.shape[:2] and k.shape[3:] == q.shape[3:]:
        same = q[:, :, : k.shape[2]]
        gap = float(abs(plain(same) - plain(k)).max()) if k.shape[2] else 0.0
        if gap != gap:  # not a number somewhere, which is another verdict than an unlike turn
            return k if (k != k).any() else q
        room = 1e-2 if "16" in str(k.dtype) else 1e-5
        if not gap <= room * max(1.0, float(abs(plain(k)).max())):
            raise RopewalkError(
                f"queries and keys that are the same vectors at the same positions are turned differently (by up to "
                f"{gap:.3g}): right is one turn for both. Check each alone, of q and of k."
            )
    return q
