"""All exhibits, in order."""

from . import (
    extras,
    frequencies,
    interface,
    numbers,
    pairing,
    positions,
    right_declared,
    right_forms,
    right_numbers,
    scaling_lengths,
    scaling_static,
    several_axes,
    width,
)
from .exhibit import Exhibit

_ROOMS = (
    *(pairing, width, frequencies, scaling_static, scaling_lengths, positions, numbers, several_axes, interface),
    *(right_forms, right_numbers, right_declared),
)


def exhibits(*, extra: bool = False) -> tuple[Exhibit, ...]:
    """Give all exhibits in the order of their ids: mutants M01 to M48, then right variants V01 to V28.

    Args:
        extra: give the extras X01 … too: faults outside the list, and two faults at once.
    """
    rooms = (*_ROOMS, extras) if extra else _ROOMS
    return tuple(sorted((one for room in rooms for one in room.EXHIBITS), key=_order))


def _order(one: Exhibit) -> tuple[int, str]:
    return "MVX".index(one.id[0]), one.id
