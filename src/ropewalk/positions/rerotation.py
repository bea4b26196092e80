"""Cached keys moved to new positions, or to another scaling, without the keys they were made from."""

from dataclasses import fields, replace

import numpy as np

from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope
from ..turning._inputs import (
    Length,
    check_layout,
    check_position_shape,
    check_position_values,
    check_rope,
    check_shape,
    lengths_of,
    token_axes,
)
from ..turning.dispatch import rotate
from ._arrays import Array, described, library, positions, readable

FLOATS = ("bfloat16", "float16", "float32", "float64")


def rerotate(
    k_cache: Array,
    rope: Rope,
    *,
    old: Array,
    new: Array,
    new_rope: Rope | None = None,
    layout: str = "bshd",
    old_length: Length = None,
    new_length: Length = None,
) -> Array:
    """Give cached keys that were turned at positions old as if they had been turned at positions new.

    For a shift, after tokens were dropped or caches joined, or for another scaling of the same rope, its factor on cos
    and sin included. Values are not turned and stay as they are. Where the pairs do not change, keys take one turn by
    new - old, so that shifts add up and a difference of 0 changes nothing; where they do, the old turn is undone and
    the new one made, with one rounding at the end.

    Args:
        k_cache: keys as they lie in the cache; float16, bfloat16, float32 or float64.
        rope: what they were turned with; its head_dim is the cache's width.
        old: where they were turned: [S] or [B, S] (packed: [T]); [A, B, S] for a rope with several axes.
        new: where they are to stand, likewise.
        new_rope: what they are to be turned with; None: rope. Its pairs are of the same channels and axes.
        layout: of k_cache: ``"bshd"`` [B, S, H, D], as everywhere in ropewalk; ``"bhsd"`` [B, H, S, D], which the
            caches of transformers hold; ``"thd"`` [T, H, D], packed.
        old_length: tokens in the sequence when the keys were turned, one int or one a row; needed by dynamic NTK and
            LongRoPE, unused by others.
        new_length: tokens in the sequence from now on, likewise. Keys in one cache must share one table: give it again
            whenever the length of a dynamic NTK rope changes, and once when a LongRoPE sequence crosses its switch.

    Returns:
        keys of the shape, dtype and kind of k_cache; arithmetic in float32, or float64 for float64.

    Raises:
        RopewalkError: for what is not defined, with the reason: a map that is no rotation, quantised keys, a latent
            (MLA) cache, one shift for a rope with several axes, another pairing or width, a missing length.

    >>> from ropewalk import Rope
    >>> rope = Rope(head_dim=4, rope_theta=100.0, pairing="half")
    >>> keys = np.ones((1, 3, 1, 4))
    >>> moved = rerotate(rotate(keys, [5, 6, 7], rope), rope, old=[5, 6, 7], new=[0, 1, 2])
    >>> bool(np.allclose(moved, rotate(keys, [0, 1, 2], rope)))
    True
    """
    before, after = check_rope(rope), rope if new_rope is None else check_rope(new_rope)
    keys = k_cache if hasattr(k_cache, "dtype") else np.asarray(k_cache)
    _check_keys(keys, before, check_layout(layout))
    before_pairs, after_pairs = _tables("old", before, old_length), _tables("new", after, new_length)
    _check_pairs(before_pairs[0], after_pairs[0], before, after)
    begin, end = (_places(name, value, keys, before, layout) for name, value in (("old", old), ("new", new)))
    if _alike(before_pairs, after_pairs):
        return rotate(keys, end - begin, _without_factor(after), length=new_length, layout=layout)
    plain = rotate(_widened(keys), begin, before, inverse=True, length=old_length, layout=layout)
    return _as_dtype(rotate(plain, end, after, length=new_length, layout=layout), keys)


def _check_keys(keys: Array, rope: Rope, layout: str) -> None:
    if str(keys.dtype).removeprefix("torch.") not in FLOATS:
        raise RopewalkError(
            f"quantised keys cannot be turned: a rotation mixes channels whose codes have their own scales. Got "
            f"{described(keys)}, expected one of {', '.join(FLOATS)}: dequantise, re-rotate, quantise again."
        )
    if keys.ndim and keys.shape[-1] != rope.head_dim:
        raise RopewalkError(
            f"k_cache must have head_dim={rope.head_dim} channels, as its rope has, got {keys.shape[-1]}. A latent "
            "cache (MLA) holds compressed keys that were never turned: give its rope part alone (qk_rope_head_dim "
            "channels)."
        )
    check_shape("k_cache", keys.shape, rope, layout)


def _check_pairs(before: Pairs, after: Pairs, rope: Rope, new_rope: Rope) -> None:
    for one, pairs in ((rope, before), (new_rope, after)):
        if not pairs.is_rotation:
            raise RopewalkError(
                f"{one.pairing} pairing turns the two channels of a pair by different angles: it is no rotation, two "
                "turns do not add up, and some cannot be undone. Turn the keys anew from those before the rope."
            )
    same = rope.head_dim == new_rope.head_dim and all(
        np.array_equal(getattr(before, name), getattr(after, name)) for name in ("first", "second", "axis")
    )
    if not same:
        raise RopewalkError(
            "new_rope must pair the same channels and drive them by the same axes as rope: keys were projected for "
            f"that pairing. Got {_words(rope)} and {_words(new_rope)}. Only frequencies and the factor on cos and sin "
            "may change."
        )


def _words(rope: Rope) -> str:
    return (
        f"head_dim={rope.head_dim}, rotary_dim={rope.width}, rotary_start={rope.rotary_start}, "
        f"pairing={rope.pairing!r}, axes={rope.axes.kind} ({rope.axes.num_axes})"
    )


def _places(name: str, value: Array, keys: Array, rope: Rope, layout: str) -> Array:
    """Give positions of the keys, checked."""
    ids, axes = positions(name, value, keys), rope.axes.num_axes
    if axes > 1 and ids.ndim < 3:
        batch, seq = token_axes(keys.shape, layout)
        raise RopewalkError(
            f"{name} must be [axes={axes}, batch={batch}, seq={seq}] for a rope with several axes, got shape "
            f"{list(ids.shape)}: one shift would move rows and columns of images along with time. Give every axis its "
            "own positions."
        )
    try:
        check_position_shape(ids.shape, keys.shape, rope, layout)
        if readable(ids):
            check_position_values(np.asarray(ids))
    except RopewalkError as error:
        raise RopewalkError(f"{name}: {error}") from None
    return ids


def _tables(which: str, rope: Rope, length: Length) -> list[Pairs]:
    """Give the pairs at a length, one table for all rows or one a row."""
    if not rope.length_dependent:
        return [rope.pairs()]
    if length is None:
        raise RopewalkError(
            f"{rope.scaling.rope_type} scaling depends on the length of the sequence: pass {which}_length=, the number "
            f"of tokens when the keys {'were turned' if which == 'old' else 'are read'} (one int, or one a row)."
        )
    lengths = lengths_of(rope, length)
    return [rope.pairs(entry) for entry in (lengths if isinstance(lengths, list) else [lengths])]


def _alike(before: list[Pairs], after: list[Pairs]) -> bool:
    """Whether every row keeps its angles and its factor (that of the softmax is no matter of the keys)."""
    rows = max(len(before), len(after))
    if {len(before), len(after)} - {1, rows}:
        return False
    both = zip(before * (rows // len(before)), after * (rows // len(after)), strict=True)
    return all(np.array_equal(a.inv_freq, b.inv_freq) and a.cos_sin_factor == b.cos_sin_factor for a, b in both)


def _without_factor(rope: Rope) -> Rope:
    """Give the rope with cos and sin as they are: the keys hold the factor already."""
    names = {one.name for one in fields(rope.scaling)}  # type: ignore[arg-type]
    if "attention_factor" not in names:
        return rope
    verbatim = {name: None for name in ("short_mscale", "long_mscale") if name in names}
    return rope.replace(scaling=replace(rope.scaling, attention_factor=1.0, **verbatim))  # type: ignore[type-var]


def _widened(keys: Array) -> Array:
    """Give half precision as float32, so that what lies between two turns is not rounded to half."""
    xp = library(keys)
    if str(keys.dtype).removeprefix("torch.") not in ("bfloat16", "float16"):
        return keys
    return keys.astype(np.float32) if xp is np else keys.to(xp.float32)


def _as_dtype(keys: Array, like: Array) -> Array:
    return keys.astype(like.dtype, copy=False) if library(like) is np else keys.to(like.dtype)
