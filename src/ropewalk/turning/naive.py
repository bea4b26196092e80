"""The truth: NumPy float64, written to be read, that every faster path is tested against."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import shown, whole
from ..errors import RopewalkError
from ..pairs import Pairs
from ..rope import Rope

Length = int | Sequence[int] | NDArray[np.int64] | None


def tables(
    rope: Rope, position_ids: ArrayLike, *, length: Length = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give cos and sin of every pair's angle, the factor on cos and sin applied.

    Args:
        rope: a description whose pairs are rotations.
        position_ids: [S], [B, S], or [A, B, S] for a rope with A axes; integers of any sign, or floats.
        length: tokens in the sequence, one int or one a row [B]; needed by dynamic NTK and LongRoPE, unused by others.

    Returns:
        (cos, sin), each [..., S, P] float64.

    Raises:
        RopewalkError: for positions of the wrong shape, a missing length, or a map that is no rotation.

    >>> cos, sin = tables(Rope(head_dim=4, rope_theta=100.0, pairing="half"), [0, 10])
    >>> cos.shape, round(float(cos[1, 1]), 9)
    ((2, 2), 0.540302306)
    """
    rows = _resolve(rope, _positions(rope, position_ids), length)
    if not all(pairs.is_rotation for pairs, _ in rows):
        raise RopewalkError("this map turns the two channels of a pair by different angles: it has no single cos, sin.")
    cos = [np.cos(_angles(pairs, ids, pairs.inv_freq)) * pairs.cos_sin_factor for pairs, ids in rows]
    sin = [np.sin(_angles(pairs, ids, pairs.inv_freq)) * pairs.cos_sin_factor for pairs, ids in rows]
    return _joined(cos, rows), _joined(sin, rows)


def rotate(
    x: ArrayLike, position_ids: ArrayLike, rope: Rope, *, inverse: bool = False, length: Length = None
) -> NDArray[np.float64]:
    """Turn the vectors of x by their positions: multiply each pair by g·R, in float64.

    Args:
        x: [..., S, H, D]; channels outside the rotated ones pass through unchanged.
        position_ids: [S], [B, S], or [A, B, S] for a rope with A axes; integers of any sign, or floats.
        rope: the description; its head_dim is D.
        inverse: undo it: multiply by R transposed, divided by g.
        length: tokens in the sequence, one int or one a row [B]; needed by dynamic NTK and LongRoPE, unused by others.

    Returns:
        [..., S, H, D] float64; x is not changed.

    Raises:
        RopewalkError: for shapes that do not fit, a missing length, or the inverse of a map that has none.

    Source: Su et al. 2021, RoFormer, equation 34.

    >>> rope = Rope(head_dim=2, rope_theta=1.0, pairing="half")
    >>> rotate([[[1.0, 0.0]]], [math.pi / 2], rope).round(12).tolist()
    [[[0.0, 1.0]]]
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim < 3 or x.shape[-1] != rope.head_dim:
        raise RopewalkError(f"x must be [..., seq, heads, head_dim={rope.head_dim}], got shape {list(x.shape)}.")
    ids = _positions(rope, position_ids)
    batch = ids.shape[1:-1]
    if ids.shape[-1] != x.shape[-3] or (batch and batch != (1,) and batch != x.shape[-4:-3]):
        raise RopewalkError(
            f"position_ids {list(np.shape(position_ids))} do not fit x {list(x.shape)}: expected [seq={x.shape[-3]}]"
            f"{f' or [batch={x.shape[-4]}, seq={x.shape[-3]}]' if x.ndim > 3 else ''}, with a leading axis for a rope "
            "with several axes."
        )
    rows = _resolve(rope, ids, length)
    if len(rows) > 1 and (x.ndim < 4 or x.shape[-4] != len(rows)):
        raise RopewalkError(f"a length for each of {len(rows)} rows needs x with as many rows, got {list(x.shape)}.")
    if len(rows) == 1:
        return _turned(x, *rows[0], inverse)
    return np.stack([_turned(x[..., b, :, :, :], *row, inverse) for b, row in enumerate(rows)], axis=-4)


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

    >>> rope = Rope(head_dim=8, rope_theta=10000.0, pairing="interleaved")
    >>> q, k = [1, 0, 0.5, 0.5, 1, -1, 0.25, 0], [0, 1, 1, 0, 0.5, 0.5, 0, 0.25]
    >>> round(score_from_distance(q, k, 5, rope), 9)
    -0.709554095
    """
    q, k = _vector(q, rope), _vector(k, rope)
    [(pairs, ids)] = _resolve(rope, _positions(rope, _one_position(distance, rope)), length)
    if not pairs.is_rotation:
        raise RopewalkError("this map is no rotation: its scores do not depend on the distance alone.")
    phi = _angles(pairs, ids, pairs.inv_freq).reshape(-1)
    straight = q[pairs.first] * k[pairs.first] + q[pairs.second] * k[pairs.second]
    cross = q[pairs.first] * k[pairs.second] - q[pairs.second] * k[pairs.first]
    still = np.setdiff1d(np.arange(rope.head_dim), np.concatenate([pairs.first, pairs.second]))
    turning = straight * np.cos(phi) + cross * np.sin(phi)
    return float(pairs.cos_sin_factor**2 * turning.sum() + (q[still] * k[still]).sum())


def _positions(rope: Rope, position_ids: ArrayLike) -> NDArray[np.float64]:
    """Give positions as [A, ..., S] float64."""
    ids = np.asarray(position_ids)
    if ids.dtype.kind not in "iuf" or ids.ndim == 0:
        raise RopewalkError(f"position_ids must be an array of integers or floats, got {shown(position_ids)}.")
    ids = ids.astype(np.float64)
    if not np.isfinite(ids).all():
        raise RopewalkError("position_ids must be finite.")
    axes = rope.axes.num_axes
    if axes == 1 and ids.ndim <= 2:
        return ids[None]
    if ids.ndim == 3 and ids.shape[0] == axes:
        return ids
    if axes > 1 and ids.ndim <= 2 and rope.axes.kind == "sections":
        return np.broadcast_to(ids, (axes, *ids.shape))  # text tokens: one position on every axis
    expected = "[seq] or [batch, seq]" if axes == 1 else f"[axes={axes}, batch, seq]"
    raise RopewalkError(f"position_ids must be {expected} for this rope, got shape {list(ids.shape)}.")


def _resolve(rope: Rope, ids: NDArray[np.float64], length: Length) -> list[tuple[Pairs, NDArray[np.float64]]]:
    """Give the pairs with the positions they serve: one entry, or one for each row where lengths differ by row."""
    if length is None or isinstance(length, int | np.integer):
        if length is None and rope.length_dependent:
            raise RopewalkError(
                f"{rope.scaling.rope_type} scaling depends on the length of the sequence: pass length=, the number of "
                "tokens (one int, or one a row)."
            )
        return [(rope.pairs(None if length is None else int(length)), ids)]
    lengths = [whole("length", entry) for entry in np.asarray(length).reshape(-1).tolist()]
    if ids.ndim == 3 and ids.shape[1] not in (1, len(lengths)):
        raise RopewalkError(f"length must be one int or one a row, got {len(lengths)} for {ids.shape[1]} rows.")
    by_row = ids if ids.ndim == 3 else ids[:, None]
    by_row = np.broadcast_to(by_row, (by_row.shape[0], len(lengths), by_row.shape[2]))
    return [(rope.pairs(entry), by_row[:, b]) for b, entry in enumerate(lengths)]


def _angles(pairs: Pairs, ids: NDArray[np.float64], inv_freq: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply positions [A, ..., S] and frequencies [P] to angles [..., S, P] in radians."""
    return np.moveaxis(ids[pairs.axis], 0, -1) * inv_freq


def _joined(parts: list[NDArray[np.float64]], rows: list[tuple[Pairs, NDArray[np.float64]]]) -> NDArray[np.float64]:
    return parts[0] if len(rows) == 1 else np.stack(parts)


def _turned(x: NDArray[np.float64], pairs: Pairs, ids: NDArray[np.float64], inverse: bool) -> NDArray[np.float64]:
    first_angle = _angles(pairs, ids, pairs.inv_freq)[..., None, :]
    second_angle = first_angle
    if pairs.second_inv_freq is not None:
        second_angle = _angles(pairs, ids, pairs.second_inv_freq)[..., None, :]
    g = pairs.cos_sin_factor
    a, b = x[..., pairs.first], x[..., pairs.second]
    out = x.copy()
    if not inverse:
        out[..., pairs.first] = g * (a * np.cos(first_angle) - b * np.sin(first_angle))
        out[..., pairs.second] = g * (b * np.cos(second_angle) + a * np.sin(second_angle))
        return out
    determinant = g * np.cos(first_angle - second_angle)
    if np.any(np.abs(determinant) < 1e-9):
        raise RopewalkError("this map has no inverse at these positions: its two angles differ by a quarter turn.")
    out[..., pairs.first] = (a * np.cos(second_angle) + b * np.sin(first_angle)) / determinant
    out[..., pairs.second] = (b * np.cos(first_angle) - a * np.sin(second_angle)) / determinant
    return out


def _vector(values: ArrayLike, rope: Rope) -> NDArray[np.float64]:
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (rope.head_dim,):
        raise RopewalkError(f"a vector must have head_dim={rope.head_dim} numbers, got shape {list(vector.shape)}.")
    return vector


def _one_position(position: ArrayLike, rope: Rope) -> NDArray[np.float64]:
    """Give one token's position as [1, 1], or [A, 1, 1] for a rope with several axes."""
    value = np.asarray(position, dtype=np.float64)
    axes = rope.axes.num_axes
    if value.ndim == 0 and (axes == 1 or rope.axes.kind == "sections"):
        return value.reshape(1, 1)
    if value.shape == (axes,):
        return value.reshape(axes, 1, 1) if axes > 1 else value.reshape(1, 1)
    raise RopewalkError(
        f"a position must be one number{f' for each of {axes} axes' if axes > 1 else ''}, got {shown(position)}."
    )
