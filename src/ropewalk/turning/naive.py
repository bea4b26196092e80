"""The truth: NumPy float64, written to be read, that every faster path is tested against."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import shown
from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope
from ._inputs import Length, by_row, lengths_of, numbers, positions_by_axis


def tables(
    rope: Rope, position_ids: ArrayLike, *, length: Length = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give cos and sin of every pair's angle, the factor on cos and sin applied.

    Args:
        rope: a description whose pairs are rotations.
        position_ids: [S], [B, S], or [A, B, S] for a rope with A axes (M-RoPE takes [S] and [B, S] too, for text:
            one position on every axis); integers of any sign up to 2^53, or floats.
        length: tokens in the sequence, one int or one a row [B]; needed by dynamic NTK and LongRoPE, unused by others.

    Returns:
        (cos, sin), each [S, P] or [B, S, P] float64. An angle is a float64 product: off by at most its own size
        times 2^-53 radians.

    Raises:
        RopewalkError: for positions of the wrong shape, a missing length, or a map that is no rotation.

    >>> cos, sin = tables(Rope(head_dim=4, rope_theta=100.0, pairing="half"), [0, 10])
    >>> cos.shape, round(float(cos[1, 1]), 9)
    ((2, 2), 0.540302306)
    """
    ids, lengths = positions_by_axis(rope, position_ids), lengths_of(rope, length)
    if not isinstance(lengths, list):
        return _cos_sin(rope.pairs(lengths), ids)
    rows_of = by_row(ids, len(lengths))
    rows = [_cos_sin(rope.pairs(entry), rows_of[:, b]) for b, entry in enumerate(lengths)]
    return np.stack([cos for cos, _ in rows]), np.stack([sin for _, sin in rows])


def rotate(
    x: ArrayLike, position_ids: ArrayLike, rope: Rope, *, inverse: bool = False, length: Length = None
) -> NDArray[np.float64]:
    """Turn the vectors of x by their positions: multiply each pair by g·R, in float64.

    Args:
        x: [..., S, H, D]; channels outside the rotated ones pass through unchanged.
        position_ids: [S], [B, S], or [A, B, S] for a rope with A axes (M-RoPE takes [S] and [B, S] too, for text:
            one position on every axis); integers of any sign up to 2^53, or floats.
        rope: the description; its head_dim is D.
        inverse: undo it: multiply by R transposed, divided by g.
        length: tokens in the sequence, one int or one a row [B]; needed by dynamic NTK and LongRoPE, unused by others.

    Returns:
        [..., S, H, D] float64; x is not changed.

    Raises:
        RopewalkError: for shapes that do not fit, a missing length, or the inverse of a map that has none.

    Source: Su et al. 2021, RoFormer, equation 34.

    >>> rope = Rope(head_dim=2, rope_theta=1.0, pairing="half")
    >>> rotate([[[1.0, 0.0]]], [np.pi / 2], rope).round(12).tolist()
    [[[0.0, 1.0]]]
    """
    x = numbers("x", x).astype(np.float64, copy=False)
    if x.ndim < 3 or x.shape[-1] != rope.head_dim:
        raise RopewalkError(f"x must be [..., seq, heads, head_dim={rope.head_dim}], got shape {list(x.shape)}.")
    ids = positions_by_axis(rope, position_ids)
    batch = ids.shape[1:-1]
    if ids.shape[-1] != x.shape[-3] or (batch and batch != (1,) and batch != x.shape[-4:-3]):
        raise RopewalkError(
            f"position_ids {list(np.shape(position_ids))} do not fit x {list(x.shape)}: expected [seq={x.shape[-3]}]"
            f"{f' or [batch={x.shape[-4]}, seq={x.shape[-3]}]' if x.ndim > 3 else ''}, with a leading axis for a rope "
            "with several axes."
        )
    lengths = lengths_of(rope, length)
    if not isinstance(lengths, list):
        return _turned(x, rope.pairs(lengths), ids, inverse)
    if x.ndim < 4 or x.shape[-4] != len(lengths):
        raise RopewalkError(
            f"length must be one int or one a row of x [..., batch, seq, heads, head_dim], got {len(lengths)} lengths "
            f"for x {list(x.shape)}."
        )
    rows_of = by_row(ids, len(lengths))
    turned = [_turned(x[..., b, :, :, :], rope.pairs(entry), rows_of[:, b], inverse) for b, entry in enumerate(lengths)]
    return np.stack(turned, axis=-4)


def score(q: ArrayLike, k: ArrayLike, m: ArrayLike, n: ArrayLike, rope: Rope, *, length: int | None = None) -> float:
    """Give the attention score of one query at position m with one key at position n, turning both vectors.

    Args:
        q: [D] the query.
        k: [D] the key.
        m: the query's position, one number (or [A], one for each axis).
        n: the key's position, likewise.
        rope: the description.
        length: tokens in the sequence, for dynamic NTK and LongRoPE.

    Returns:
        The dot product of the two turned vectors; not divided by sqrt(D), softmax_factor not applied.

    Raises:
        RopewalkError: for a vector that is not [D], a position of the wrong shape, or a missing length.

    >>> rope = Rope(head_dim=8, rope_theta=10000.0, pairing="interleaved")
    >>> q, k = [1, 0, 0.5, 0.5, 1, -1, 0.25, 0], [0, 1, 1, 0, 0.5, 0.5, 0, 0.25]
    >>> round(score(q, k, 7, 2, rope), 9)
    -0.709554095
    """
    turned = [
        rotate(_vector(vector, rope)[None, None, None], _one_position(position, rope), rope, length=length).ravel()
        for vector, position in ((q, m), (k, n))
    ]
    return float(turned[0] @ turned[1])


def score_from_distance(
    q: ArrayLike, k: ArrayLike, distance: ArrayLike, rope: Rope, *, length: int | None = None
) -> float:
    """Give the same score by the second road: from the angles of the distance m - n alone, turning no vector.

    Each pair contributes g²·(straight·cos φ + cross·sin φ), with straight = q_a·k_a + q_b·k_b,
    cross = q_a·k_b - q_b·k_a and φ = (m - n)·θ_i; channels that do not turn contribute their product.

    Args:
        q: [D] the query.
        k: [D] the key.
        distance: m - n, one number (or [A], one for each axis).
        rope: a description whose pairs are rotations.
        length: tokens in the sequence, for dynamic NTK and LongRoPE.

    Raises:
        RopewalkError: as score does, and for a map that is no rotation.

    Source: Su et al. 2021, RoFormer, equation 16.

    >>> rope = Rope(head_dim=8, rope_theta=10000.0, pairing="interleaved")
    >>> q, k = [1, 0, 0.5, 0.5, 1, -1, 0.25, 0], [0, 1, 1, 0, 0.5, 0.5, 0, 0.25]
    >>> round(score_from_distance(q, k, 5, rope), 9)
    -0.709554095
    """
    q, k = _vector(q, rope), _vector(k, rope)
    ids, one_length = positions_by_axis(rope, _one_position(distance, rope)), lengths_of(rope, length)
    if isinstance(one_length, list):
        raise RopewalkError(f"length must be one whole number here, got {shown(length)}.")
    pairs = rope.pairs(one_length)
    if not pairs.is_rotation:
        raise RopewalkError("this map is no rotation: its scores do not depend on the distance alone.")
    phi = _angles(ids, pairs.axis, pairs.inv_freq).reshape(-1)
    straight = q[pairs.first] * k[pairs.first] + q[pairs.second] * k[pairs.second]
    cross = q[pairs.first] * k[pairs.second] - q[pairs.second] * k[pairs.first]
    still = np.setdiff1d(np.arange(rope.head_dim), np.concatenate([pairs.first, pairs.second]))
    turning = straight * np.cos(phi) + cross * np.sin(phi)
    return float(pairs.cos_sin_factor**2 * turning.sum() + (q[still] * k[still]).sum())


def _angles(ids: NDArray[np.float64], axis: NDArray[np.int64], inv_freq: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply positions [A, ..., S] and frequencies [P] to angles [..., S, P] in radians."""
    with np.errstate(over="ignore"):
        angles = np.moveaxis(ids[axis], 0, -1) * inv_freq
    if not np.isfinite(angles).all():
        raise RopewalkError("a position times a frequency leaves float64: give smaller positions.")
    return angles


def _cos_sin(pairs: Pairs, ids: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not pairs.is_rotation:
        raise RopewalkError(
            "this map turns the two channels of a pair by different angles, so that it has no single cos and sin; "
            "use rotate."
        )
    angles = _angles(ids, pairs.axis, pairs.inv_freq)
    return np.cos(angles) * pairs.cos_sin_factor, np.sin(angles) * pairs.cos_sin_factor


def _turned(x: NDArray[np.float64], pairs: Pairs, ids: NDArray[np.float64], inverse: bool) -> NDArray[np.float64]:
    angle = _angles(ids, pairs.axis, pairs.inv_freq)[..., None, :]
    cos_a, sin_a = np.cos(angle), np.sin(angle)  # of the first channel of each pair
    cos_b, sin_b = cos_a, sin_a  # of the second
    if pairs.second_inv_freq is not None:
        angle = _angles(ids, pairs.axis, pairs.second_inv_freq)[..., None, :]
        cos_b, sin_b = np.cos(angle), np.sin(angle)
    g = pairs.cos_sin_factor
    a, b = x[..., pairs.first], x[..., pairs.second]
    out = x.copy()
    if not inverse:
        out[..., pairs.first] = g * (a * cos_a - b * sin_a)
        out[..., pairs.second] = g * (b * cos_b + a * sin_b)
        return out
    between = 1.0 if pairs.is_rotation else cos_a * cos_b + sin_a * sin_b  # the map's determinant is g² times this
    if np.any(np.abs(between) < 1e-9):
        raise RopewalkError("this map has no inverse at these positions: its two angles differ by a quarter turn.")
    out[..., pairs.first] = (a * cos_b + b * sin_a) / (g * between)
    out[..., pairs.second] = (b * cos_a - a * sin_b) / (g * between)
    return out


def _vector(values: ArrayLike, rope: Rope) -> NDArray[np.float64]:
    vector = numbers("a vector", values).astype(np.float64)
    if vector.shape != (rope.head_dim,):
        raise RopewalkError(f"a vector must have head_dim={rope.head_dim} numbers, got shape {list(vector.shape)}.")
    return vector


def _one_position(position: ArrayLike, rope: Rope) -> NDArray[np.float64]:
    """Give one token's position as [1, 1], or [A, 1, 1] for a rope with several axes."""
    value = numbers("a position", position)
    axes = rope.axes.num_axes
    if value.ndim == 0 and (axes == 1 or rope.axes.kind == "sections"):
        return value.reshape(1, 1)
    if value.shape == (axes,):
        return value.reshape(axes, 1, 1) if axes > 1 else value.reshape(1, 1)
    raise RopewalkError(
        f"a position must be one number{f' for each of {axes} axes' if axes > 1 else ''}, got {shown(position)}."
    )
