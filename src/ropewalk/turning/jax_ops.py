"""Turning JAX arrays: plain jax.numpy operations around static facts, for jit, grad, vmap and any device."""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._checks import choice, shown, truth
from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope
from ._inputs import LAYOUTS, numbers, positions_by_axis
from .jax_angles import ranked
from .jax_tables import Choice, chosen_tables, coefficients_known, coefficients_traced, is_traced

_DTYPES = ("float32", "bfloat16", "float16", "float64")
_FITS = np.iinfo(np.int32)


class Region(NamedTuple):
    """Neighbouring channels [start, stop) that form blocks of two halves; the halves turn together, pair by pair."""

    start: int
    stop: int
    half: int
    pair: int  # the first one's number in the table


def rotate(
    x: ArrayLike,
    position_ids: Any,
    rope: Rope,
    *,
    inverse: bool = False,
    length: Any = None,
    layout: str = "bshd",
) -> jax.Array:
    """Turn the vectors of x by their positions: multiply each pair by g·R, under jit, grad and vmap alike.

    Args:
        x: [..., S, H, D], float32, bfloat16, float16, or float64 where JAX has it enabled; what is no JAX array yet
            is made one, so that a NumPy float64 array becomes float32 unless jax_enable_x64 is set.
        position_ids: [S], [B, S], or [A, B, S] for a rope with A axes (M-RoPE takes [S] and [B, S] too, for text);
            integers or floats, traced or not. Traced floats are exact below 2^31 and give NaN from there on.
        rope: the description; its head_dim is D. Hashable: it may be a static argument of jit.
        inverse: undo it: multiply by R transposed, divided by g.
        length: tokens in the sequence, one int or one a row [B]; needed by dynamic NTK and LongRoPE, unused by others.
            LongRoPE takes a traced one too.
        layout: ``"bshd"`` [..., S, H, D], ``"bhsd"`` [..., H, S, D], or ``"thd"`` packed [T, H, D].

    Returns:
        An array of x's shape and dtype; the arithmetic is float32 (float64 for float64), rounded once at the end.

    Raises:
        RopewalkError: when traced or called, for shapes that do not fit, a missing length, a traced length of dynamic
            NTK, or the inverse of a map that has none at positions known then (NaN at traced ones).

    Source: Su et al. 2021, RoFormer, equation 34.

    >>> rope = Rope(head_dim=2, rope_theta=1.0, pairing="half")
    >>> rotate(jnp.array([[[1.0, 0.0]]]), jnp.array([1]), rope).round(4).tolist()
    [[[0.5403000116348267, 0.8414999842643738]]]
    """
    return _rotated({"x": x}, position_ids, rope, inverse, length, layout)[0]


def rotate_qk(
    q: ArrayLike,
    k: ArrayLike,
    position_ids: Any,
    rope: Rope,
    *,
    inverse: bool = False,
    length: Any = None,
    layout: str = "bshd",
) -> tuple[jax.Array, jax.Array]:
    """Turn queries and keys by the same positions; cos and sin are computed once.

    Args:
        q: [..., S, H, D] as x of rotate.
        k: the same with its own number of heads.
        position_ids: as for rotate.
        rope: as for rotate.
        inverse: as for rotate.
        length: as for rotate.
        layout: as for rotate.

    Returns:
        (q', k'), each of its input's shape and dtype.

    Raises:
        RopewalkError: as rotate does.

    >>> rope = Rope(head_dim=4, rope_theta=100.0, pairing="interleaved")
    >>> q, k = rotate_qk(jnp.ones((1, 3, 6, 4)), jnp.ones((1, 3, 2, 4)), jnp.arange(3), rope)
    >>> q.shape, k.shape
    ((1, 3, 6, 4), (1, 3, 2, 4))
    """
    turned = _rotated({"q": q, "k": k}, position_ids, rope, inverse, length, layout)
    return turned[0], turned[1]


def _rotated(
    given: dict[str, ArrayLike], position_ids: Any, rope: Rope, inverse: bool, length: Any, layout: str
) -> list[jax.Array]:
    choice("layout", layout, LAYOUTS)
    truth("inverse", inverse)
    vectors = {name: _vectors(name, x, rope, layout) for name, x in given.items()}
    chosen = chosen_tables(rope, length)
    # A map that is no rotation may lack an inverse, which only positions known now can show.
    ids, known = _positions(rope, position_ids, settle=inverse and not chosen.pairs[0].is_rotation)
    for name, x in vectors.items():
        _check_fit(name, x, ids.shape, chosen, layout)
    dtype = np.result_type(np.float32, *(x.dtype for x in vectors.values() if x.dtype == np.float64))
    if known:
        coefficients = coefficients_known(ids, chosen, inverse, dtype)
    else:
        coefficients = coefficients_traced(ids, chosen, inverse, dtype)
    return [
        _turn(
            x,
            coefficients,
            regions=_regions(chosen.pairs[0]),
            heads=-3 if layout == "bhsd" else -2,
            views=jax.default_backend() == "cpu",
        )
        for x in vectors.values()
    ]


# -- what was given


def _vectors(name: str, x: ArrayLike, rope: Rope, layout: str) -> jax.Array:
    try:
        array = jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise RopewalkError(f"{name} must be a JAX array or become one, got {shown(x)}.") from error
    if array.dtype not in _DTYPES:
        raise RopewalkError(f"{name} must be one of {', '.join(_DTYPES)}, got {array.dtype}. Cast it first.")
    expected = {"bshd": "[..., seq, heads, ", "bhsd": "[..., heads, seq, ", "thd": "[tokens, heads, "}[layout]
    if array.ndim < 3 or (layout == "thd" and array.ndim > 3) or array.shape[-1] != rope.head_dim:
        raise RopewalkError(
            f"{name} must be {expected}head_dim={rope.head_dim}] for layout={layout!r}, got shape {list(array.shape)}."
        )
    return array


def _positions(rope: Rope, position_ids: Any, *, settle: bool) -> tuple[Any, bool]:
    """Give positions as [A or 1, ..., S], and whether they are float64 numbers on the host.

    Those that are known and not 32-bit integers are settled there, in float64, and so are all known ones on demand.
    """
    if is_traced(position_ids):
        ids = jnp.asarray(position_ids)
        if not (jnp.issubdtype(ids.dtype, jnp.integer) or jnp.issubdtype(ids.dtype, jnp.floating)):
            raise RopewalkError(f"position_ids must be integers or floats, got {ids.dtype}.")
        return _by_axis(rope, ids), False
    if isinstance(position_ids, jax.Array):
        narrow = jnp.issubdtype(position_ids.dtype, jnp.integer) and position_ids.dtype.itemsize <= 4
        if (narrow and not settle) or not position_ids.is_fully_addressable:
            return _by_axis(rope, position_ids), False  # without waiting for the device
    ids = numbers("position_ids", position_ids)
    if ids.dtype.kind in "iu" and not settle:
        if not ids.size or (ids.min() >= _FITS.min and ids.max() <= _FITS.max):
            return _by_axis(rope, ids.astype(np.int32)), False
    return positions_by_axis(rope, ids), True


def _by_axis(rope: Rope, ids: Any) -> Any:
    axes = rope.axes.num_axes
    if ids.ndim == 3 and ids.shape[0] == axes:
        return ids
    if 1 <= ids.ndim <= 2 and (axes == 1 or rope.axes.kind == "sections"):  # text: one position on every axis
        return ids[None]
    expected = "[seq] or [batch, seq]" if axes == 1 else f"[axes={axes}, batch, seq]"
    raise RopewalkError(f"position_ids must be {expected} for this rope, got shape {list(ids.shape)}.")


def _check_fit(name: str, x: jax.Array, ids: tuple[int, ...], chosen: Choice, layout: str) -> None:
    seq = x.shape[-2] if layout == "bhsd" else x.shape[-3]
    batch = x.shape[-4] if x.ndim > 3 else None
    if ids[-1] != seq or (len(ids) == 3 and ids[1] not in (1, batch)):
        rows = f" or [batch={batch}, seq={seq}]" if batch is not None else ""
        raise RopewalkError(
            f"position_ids {list(ids[1:])} (behind its axes) do not fit {name} {list(x.shape)} with layout={layout!r}: "
            f"expected [seq={seq}]{rows}, with a leading axis for a rope with several axes."
        )
    rows = len(chosen.pairs) if chosen.by_row else None
    if chosen.long is not None and chosen.long.ndim:
        rows = chosen.long.shape[0]
    if rows is not None and rows != batch:
        raise RopewalkError(
            f"length must be one whole number or one a row of {name}, got {rows} lengths for {name} {list(x.shape)}."
        )


# -- turning


@partial(jax.jit, static_argnames=("regions", "heads", "views"), inline=True)
def _turn(
    x: jax.Array, coefficients: tuple[jax.Array, ...], *, regions: tuple[Region, ...], heads: int, views: bool
) -> jax.Array:
    dtype = np.float64 if x.dtype == np.float64 else np.float32
    shape = coefficients[0].shape[-(x.ndim - 1) :]  # [S, P] of [1, S, P] where x has no batch
    four = [jnp.expand_dims(ranked(part.reshape(shape), x.ndim - 1).astype(dtype), heads) for part in coefficients]
    edges = sorted({edge for region in regions for edge in region[:2]} - {0, x.shape[-1]})
    by_start = {region.start: region for region in regions}
    pieces = []
    for start, piece in zip([0, *edges], jnp.split(x, edges, axis=-1), strict=True):
        if start in by_start:
            region = by_start[start]
            own = [part[..., region.pair : region.pair + piece.shape[-1] // 2] for part in four]
            piece = _turn_region(piece.astype(dtype), own, region.half, views).astype(x.dtype)
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces, axis=-1)


def _turn_region(x: jax.Array, four: list[jax.Array], half: int, views: bool) -> jax.Array:
    # One block of two halves is cut and joined, but for XLA's CPU compiler, which is three times as fast with a view.
    if 2 * half == x.shape[-1] and not views:
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate(_turn_pairs(a, b, *four), axis=-1)
    count = x.shape[-1] // (2 * half)
    blocks = x.reshape(*x.shape[:-1], count, 2, half)
    own = [part.reshape(*part.shape[:-1], count, half) for part in four]
    return jnp.stack(_turn_pairs(blocks[..., 0, :], blocks[..., 1, :], *own), axis=-2).reshape(x.shape)


def _turn_pairs(a: Any, b: Any, c: Any, s: Any, d: Any = None, t: Any = None) -> tuple[jax.Array, jax.Array]:
    d, t = (c, s) if d is None else (d, t)
    return a * c - b * s, b * d + a * t


@lru_cache(maxsize=256)
def _regions(pairs: Pairs) -> tuple[Region, ...]:
    """Cut the table into the fewest regions of equal blocks: interleaved pairs are blocks with halves of one channel.

    >>> _regions(Rope(head_dim=8, rope_theta=100.0, pairing="half", rotary_dim=6).pairs())
    (Region(start=0, stop=6, half=3, pair=0),)
    """
    first, second = pairs.first.tolist(), pairs.second.tolist()
    regions: list[Region] = []
    pair = 0
    while pair < len(first):
        start, half = first[pair], second[pair] - first[pair]
        for table, begin in ((first, start), (second, start + half)):  # every Rope is made of such blocks
            assert table[pair : pair + half] == list(range(begin, begin + half))
        last = regions[-1] if regions else None
        if last is not None and (last.stop, last.half) == (start, half):
            regions[-1] = last._replace(stop=start + 2 * half)
        else:
            regions.append(Region(start, start + 2 * half, half, pair))
        pair += half
    return tuple(regions)
