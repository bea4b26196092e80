"""The four numbers of each pair, as JAX arrays: for positions and lengths that are known, or traced."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from numpy.typing import NDArray

from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope
from ..scaling import LongRope
from . import jax_angles, tables
from ._inputs import by_row, lengths_of


class Choice(NamedTuple):
    """The tables a call needs, and how they become one: the only one, one a row, or the second where long holds."""

    pairs: tuple[Pairs, ...]
    by_row: bool = False
    long: jax.Array | None = None


def is_traced(values: Any) -> bool:
    """Say whether values, or any of a list of them, are known only when the program runs."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree_util.tree_leaves(values))


def chosen_tables(rope: Rope, length: Any) -> Choice:
    """Resolve the rope for its length: a number, one a row, or one that is known only when the program runs."""
    if not rope.length_dependent:
        return Choice((rope.pairs(),))
    if not is_traced(length):
        lengths = lengths_of(rope, length)
        if isinstance(lengths, list):
            return Choice(tuple(rope.pairs(entry) for entry in lengths), by_row=True)
        return Choice((rope.pairs(lengths),))
    scaling = rope.scaling
    if not isinstance(scaling, LongRope):
        raise RopewalkError(
            f"{scaling.rope_type} scaling computes its frequencies from the length, in float64 and before the program "
            "runs: length must be known when it is traced, got a traced one. Make it a static argument of jit."
        )
    tokens = jnp.asarray(length)
    if tokens.ndim > 1 or not jnp.issubdtype(tokens.dtype, jnp.integer):
        raise RopewalkError(
            f"length must be one whole number or one a row, got shape {list(tokens.shape)} of {tokens.dtype}."
        )
    original = scaling.original_max_position_embeddings
    long = tokens > min(original, jnp.iinfo(tokens.dtype).max)
    if tokens.ndim:
        long = long[:, None, None]
    return Choice((rope.pairs(original), rope.pairs(original + 1)), long=long)


def coefficients_known(
    ids: NDArray[np.float64], chosen: Choice, inverse: bool, dtype: np.dtype[Any]
) -> tuple[Any, ...]:
    """Compute cos and sin in float64 on the host and ship them; a traced length picks on the device."""
    rows = by_row(ids, len(chosen.pairs)) if chosen.by_row else None
    found = []
    for row, pairs in enumerate(chosen.pairs):
        cos, sin = tables.cos_sin(pairs, ids if rows is None else rows[:, row])
        four, between = _four(cos, sin, pairs.cos_sin_factor, pairs.is_rotation, inverse)
        if np.any(np.abs(between) < 1e-9):
            raise RopewalkError("this map has no inverse at these positions: its two angles differ by a quarter turn.")
        found.append(tuple(part.astype(dtype) for part in four))
    return _picked(found, chosen, stack=np.stack)


def coefficients_traced(ids: Any, chosen: Choice, inverse: bool, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Compute cos and sin on the device; what depends on the length are small constants, picked or stacked first."""
    count, dtype_of_angles = 0, np.float32
    if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        count, dtype_of_angles = None, np.float64
    elif jnp.issubdtype(ids.dtype, jnp.floating):
        count = jax_angles.digits(max(float(np.abs(tables.speeds(pairs)).max()) for pairs in chosen.pairs))
    constants = [
        (jax_angles.constants(pairs, count), np.array([pairs.cos_sin_factor], dtype_of_angles))
        for pairs in chosen.pairs
    ]
    speeds, factor = _picked(constants, chosen, stack=lambda entries: np.stack(entries)[:, None])
    axis = tuple(tables.column_axes(chosen.pairs[0]).tolist()) if ids.shape[0] > 1 else (0,)
    return _traced_four(
        ids,
        speeds,
        None if all(pairs.cos_sin_factor == 1 for pairs in chosen.pairs) else factor,
        axis=axis if len(set(axis)) > 1 else axis[:1],
        rotation=chosen.pairs[0].is_rotation,
        inverse=inverse,
        dtype=dtype,
    )


def _picked(entries: list[Any], chosen: Choice, *, stack: Any) -> Any:
    if (long := chosen.long) is not None:
        ndim = long.ndim
        entries = [jax.tree_util.tree_map(lambda leaf: jax_angles.ranked(leaf, ndim), entry) for entry in entries]
        return jax.tree_util.tree_map(lambda short, other: jnp.where(long, other, short), *entries)
    if chosen.by_row:
        return jax.tree_util.tree_map(lambda *rows: stack(rows), *entries)
    return entries[0]


@partial(jax.jit, static_argnames=("axis", "rotation", "inverse", "dtype"), inline=True)
def _traced_four(
    ids: jax.Array, speeds: Any, factor: Any, *, axis: Sequence[int], rotation: bool, inverse: bool, dtype: Any
) -> tuple[jax.Array, ...]:
    columns = ids[axis[0]][..., None] if len(axis) == 1 else jnp.moveaxis(ids[np.array(axis)], 0, -1)
    cos, sin = jax_angles.cos_sin(columns, speeds)
    four, between = _four(cos, sin, None if factor is None else jax_angles.ranked(factor, cos.ndim), rotation, inverse)
    if not rotation and inverse:
        four = tuple(jnp.where(jnp.abs(between) < 1e-6, np.nan, part) for part in four)
    return tuple(part.astype(dtype) for part in four)


def _four(cos: Any, sin: Any, g: Any, rotation: bool, inverse: bool) -> tuple[tuple[Any, ...], Any]:
    """Give (c, s) of a' = a·c - b·s, b' = b·c + a·s, or (c, s, d, t) of a' = a·c - b·s, b' = b·d + a·t.

    Second, the determinant of the map over g², by which an inverse is divided.
    """
    if rotation:
        four, between = ((cos, -sin) if inverse else (cos, sin)), np.float32(1)
    else:
        pairs = cos.shape[-1] // 2
        c, d, s, t = cos[..., :pairs], cos[..., pairs:], sin[..., :pairs], sin[..., pairs:]
        four, between = (c, s, d, t), np.float32(1)
        if inverse:
            between = c * d + s * t
            four = (d / between, -s / between, c / between, -t / between)
    if g is None:
        return four, between
    return tuple(part / g if inverse else part * g for part in four), between
