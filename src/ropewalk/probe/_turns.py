"""What the images of pairs say of the map: angles at growing positions, the axis behind each, what position 0 does."""

import numpy as np
from numpy.typing import NDArray

from ._phases import Ladder, offset_of, unwrap
from ._structure import Structure


def ladders_of(
    turns: NDArray[np.complex128], positions: NDArray[np.int64], noise: float, as_angles: bool
) -> list[Ladder]:
    """Give the ladder of each axis."""
    if as_angles:
        sine = np.arcsin(np.clip(turns.imag, -np.sin(1), np.sin(1)))
        cosine = np.sqrt(np.clip(1 - sine**2, 0, None))
        return [
            unwrap(positions, np.arctan2(sine, cosine)[a], 64 * noise, np.arctan2(sine, -cosine)[a])
            for a in range(len(turns))
        ]
    return [unwrap(positions, np.angle(one * np.conj(one[:1])), noise) for one in turns]


def axis_of(ladders: list[list[Ladder]], noise: float) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Give the axis that drives each pair: the one it turns with fastest; and a note where there are several."""
    speed = np.array([np.maximum(*(np.abs(row[a].inv_freq) for row in ladders)) for a in range(len(ladders[0]))])
    bar = np.array([np.maximum(*(8 * row[a].error for row in ladders)) for a in range(len(ladders[0]))])
    moving = speed > np.maximum(bar, 1e-12)
    notes = ()
    if (moving.sum(axis=0) > 1).any():
        notes = (f"{int((moving.sum(axis=0) > 1).sum())} pairs listen to more than one axis",)
    return speed.argmax(axis=0).astype(np.int64), notes


def of_two_axes(ladders: list[list[Ladder]], structure: Structure) -> str:
    """Say in words which pairs have their two channels turned by different axes; "" where none has."""
    speeds = np.abs(np.array([[one.inv_freq for one in row] for row in ladders]))  # [2, A, P]
    errors = np.array([[one.error for one in row] for row in ladders])
    driven = speeds > np.maximum(8 * errors, 1e-12)
    axis = speeds.argmax(axis=1)
    apart = (axis[0] != axis[1]) & (driven.sum(axis=1) == 1).all(axis=0)
    if not apart.any():
        return ""
    at = int(np.flatnonzero(apart)[0])
    first, second = int(structure.first[at]), int(structure.second[at])
    return (
        f"the two channels of {int(apart.sum())} pairs are turned by different axes (channel {first} by axis "
        f"{int(axis[0][at])}, its partner {second} by axis {int(axis[1][at])})"
    )


def picked(ladders: list[Ladder], axis: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    columns = np.arange(len(axis))
    return tuple(np.stack([getattr(one, name) for one in ladders])[axis, columns] for name in Ladder._fields)


def angles_of_tables(turns: tuple[NDArray[np.complex128], ...], noise: float) -> bool:
    """Whether each number is cos(cos a) + i·sin(sin a) for some a: the two undone give one point of the circle."""
    both = np.stack(turns)
    if (np.abs(both.real) > 1 + 64 * noise).any() or (np.abs(np.abs(both) - 1) <= 0.02).all():
        return False
    cosine, sine = np.arccos(np.clip(both.real, -1, 1)), np.arcsin(np.clip(both.imag, -1, 1))
    return bool((np.abs(cosine**2 + sine**2 - 1) <= 1e-3 + 256 * noise).all())


def kind_of(seen, first, second, even, factor) -> tuple[str, tuple[str, ...]]:  # type: ignore[no-untyped-def]
    """Tell a rotation from a reflection and from a map that stretches."""
    if not even:
        return "linear", ("lengths are not kept: the pairs' radius changes with the position",)
    det = seen[:, 0][..., first] * seen[:, 1][..., second] - seen[:, 1][..., first] * seen[:, 0][..., second]
    mirrored = (det < -0.9 * factor**2).all(axis=(0, 1))
    if mirrored.any():
        return "reflection", ("every pair is mirrored" if mirrored.all() else "some pairs are mirrored",)
    return "rotation", ()


def standing_at_zero(at_zero, inv_freq, noise, kind) -> tuple[float, bool, bool]:  # type: ignore[no-untyped-def]
    """Give (offset, identity at zero, quarter turn at zero)."""
    angle = np.angle(at_zero)
    tolerance = 1e-3 + 64 * noise
    if kind != "rotation":
        return 0.0, bool(np.abs(angle).max() <= tolerance), False
    if np.abs(angle).max() <= max(16 * noise, 1e-9):
        return 0.0, True, False
    if np.abs(np.abs(angle) - np.pi / 2).max() <= tolerance:
        return 0.0, False, True
    constant = offset_of(angle[0], inv_freq, noise)
    if constant is None:
        return 0.0, bool(np.abs(angle).max() <= tolerance), False
    near = round(constant)
    return float(near) if abs(constant - near) <= 1e-3 * max(abs(near), 1) else constant, False, False
