"""How a measured geometry deviates from a declared one: pairing, direction, width, start, partner and axes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..axes import Ladders, Sections
from ..fitting.bands import partial_share
from ..fitting.numbers import Array
from ..inspection import number_words
from ..rope import Rope
from ..scaling import Proportional
from ._fitting_geometry import HYBRID_REPEAT, Geometry
from ._fitting_measured import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One difference from what was declared.

    Attributes:
        slug: the name of the mistake, or None where it has none.
        kind: ``"pairing"``, ``"direction"``, ``"width"``, ``"start"``, ``"partner"``, ``"axes"``, ``"frequencies"`` or
            ``"magnitude"``.
        words: what was seen.
        right: what was declared, in words.
        seen: the measured value, where it is one number or word.
        declared: the right value.
    """

    slug: str | None
    kind: str
    words: str
    right: str
    seen: float | int | str | None = None
    declared: float | int | str | None = None


class Shape(NamedTuple):
    """A reading of the geometry: its deviations, the width its exponents are over, and how many pairs turn."""

    deviations: tuple[Deviation, ...]
    over: int | None
    turning: int | None


def shape_words(geometry: Geometry, measured: Measured, head_dim: int, expect: Rope) -> tuple[Deviation, ...]:
    """Give the deviations of a geometry alone."""
    return next(iter(shapes(geometry, measured, head_dim, expect))).deviations


def shapes(geometry: Geometry, measured: Measured, head_dim: int, expect: Rope) -> Iterator[Shape]:
    """Give the readings of a geometry, the likeliest first."""
    common: list[Deviation] = []
    hybrid = geometry.pairing in (HYBRID_REPEAT, "hybrid_tile")
    if geometry.pairing != expect.pairing and not geometry.width == expect.width == 2:
        slug = geometry.pairing.replace("_", "-") if hybrid else "interleaved-for-half"
        if expect.pairing == "hybrid_tile":
            slug = None
        words = {
            "half": "pairs (i, i + R/2)",
            "interleaved": "adjacent pairs (2i, 2i + 1)",
            HYBRID_REPEAT: "half pairs over a table doubled in place: each channel of a pair by another angle",
            "hybrid_tile": "adjacent pairs over a tiled table: each channel of a pair by another angle",
        }
        common.append(
            Deviation(
                slug=slug,
                kind="pairing",
                words=words[geometry.pairing],
                right=words[expect.pairing],
                seen=geometry.pairing,
                declared=expect.pairing,
            )
        )
    turns = np.abs(measured.angles) > 0
    if turns.any() and geometry.direction != expect.direction and measured.direction is not None:
        common.append(
            Deviation(
                slug="conjugate",
                kind="direction",
                words="the angle negated",
                right=f"direction {expect.direction:+d}",
                seen=geometry.direction,
                declared=expect.direction,
            )
        )
    common += _axes_deviations(geometry, measured, expect)
    width, declared_width = geometry.width, expect.width
    still = isinstance(expect.scaling, Proportional)
    declared_turning = int(expect.scaling.partial_rotary_factor * declared_width // 2) if still else None  # type: ignore[union-attr]
    turning = None if any(one.slug == "axes-swapped" for one in common) else geometry.turning
    same_start = geometry.start == expect.rotary_start
    if width == declared_width and (turning is None or turning == declared_turning):
        if not same_start:
            common.append(_start(geometry, expect))
        yield Shape(tuple(common), None, None)
        return
    if width == declared_width:  # what is too slow to be seen may turn all the same
        yield Shape((*common, *(() if same_start else (_start(geometry, expect),))), None, None)
    if not still and turning is not None and 2 * turning == declared_width and geometry.pairing == "half":
        right = f"partner i + R/2 = i + {declared_width // 2}"
        partner = Deviation(
            slug="partner-of-full-head",
            kind="partner",
            words=f"width and frequencies right, partner i + {width // 2} for i + {declared_width // 2}",
            right=right,
            seen=width // 2,
            declared=declared_width // 2,
        )
        yield Shape((*common, partner), declared_width, turning)
        share = partial_share(turning, width)
        proportional = Deviation(
            slug="proportional-for-ordinary",
            kind="partner",
            words=f"proportional: pairs (i, i + {width // 2}), exponents over {width}, {number_words(share)} of them",
            right=f"pairs (i, i + {declared_width // 2}), exponents over {declared_width}",
            seen=width,
            declared=declared_width,
        )
        yield Shape((*common, proportional), None, turning)
        return
    if still and turning is None and width == 2 * (declared_turning or 0) and geometry.pairing == "half":
        ordinary = Deviation(
            slug="proportional-for-ordinary",
            kind="partner",
            words=f"ordinary: pairs (i, i + {width // 2}), exponents over {width}",
            right=f"proportional: pairs (i, i + {declared_width // 2}), exponents over {declared_width}",
            seen=width,
            declared=declared_width,
        )
        yield Shape((*common, ordinary), None, None)
        partner = Deviation(
            slug="partner-of-full-head",
            kind="partner",
            words=f"frequencies right, partner i + {width // 2} for i + {declared_width // 2}",
            right=f"partner i + {declared_width // 2}",
            seen=width // 2,
            declared=declared_width // 2,
        )
        yield Shape((*common, partner), declared_width, None)
        return
    if width == declared_width:
        few = Deviation(
            slug="full-for-partial" if still and turning is None else None,
            kind="width",
            words=f"{turning if turning is not None else width // 2} of {width // 2} pairs turn",
            right=f"{declared_turning if still else width // 2} pairs turn",
            seen=turning if turning is not None else width // 2,
            declared=declared_turning if still else width // 2,
        )
        yield Shape((*common, few), None, turning)
        return
    room = head_dim - geometry.start
    slug = None
    if width in (room, head_dim, room - room % 2) and width > declared_width:
        slug = "full-for-partial"
    elif width in {one // 2 * 2 for one in (declared_width // 2, declared_width**2 // head_dim)}:
        slug = "partial-twice"
    wide = Deviation(
        slug=slug,
        kind="width",
        words=f"{width} channels turn",
        right=f"rotary_dim {declared_width}",
        seen=width,
        declared=declared_width,
    )
    moved = () if same_start or slug == "full-for-partial" else (_start(geometry, expect),)
    if slug == "partial-twice" and geometry.start >= expect.rotary_start > 0:
        moved = ()
    yield Shape((*common, wide, *moved), None, turning)
    words = f"{width} channels turn, by the frequencies of {declared_width}"
    yield Shape((*common, replace(wide, words=words), *moved), declared_width, turning)


def _start(geometry: Geometry, expect: Rope) -> Deviation:
    return Deviation(
        slug="leading-for-tail",
        kind="start",
        words=f"channels from {geometry.start} on turn",
        right=f"channels from {expect.rotary_start} on",
        seen=geometry.start,
        declared=expect.rotary_start,
    )


def _axes_deviations(geometry: Geometry, measured: Measured, expect: Rope) -> list[Deviation]:
    if geometry.axes == expect.axes:
        turning = np.unique(geometry.target.seen & (np.abs(geometry.target.freq) > geometry.target.room))
        if expect.axes.num_axes == 1 or len(turning) == 1:
            return []
        plan = expect.axes.plan(expect.width)
        silent = silent_axes(geometry, plan.axis)
        return [] if not silent else [_silent_deviation(silent, expect)]
    mine, theirs = geometry.axes, expect.axes
    right = axes_words(theirs)
    seen = axes_words(mine)
    heard = np.unique(measured.axis)
    if len(heard) == 1 and max(theirs.num_axes, mine.num_axes) > 1:
        words = f"axis {axis_name(theirs, int(heard[0]))} drives every pair"
        return [axes_deviation(None, words, right, words, right)]
    if isinstance(mine, Sections) and isinstance(theirs, Sections):
        if mine.arrangement != theirs.arrangement:
            return [axes_deviation("mrope-chunked", f"{seen} sections", f"{right} sections", seen, right)]
    try:
        pattern = mine.plan(geometry.width).axis
        expected = theirs.plan(geometry.width).axis
    except ValueError:
        return [axes_deviation(None, seen, right, seen, right)]
    mapping = {int(a): int(b) for a, b in zip(expected, pattern, strict=True)}
    permuted = all(mapping[int(a)] == int(b) for a, b in zip(expected, pattern, strict=True))
    if permuted and not np.array_equal(pattern, expected):
        words = ", ".join(
            f"{axis_name(theirs, b)} for {axis_name(theirs, a)}" for a, b in sorted(mapping.items()) if a != b
        )
        return [axes_deviation("axes-swapped", f"axes exchanged: {words}", right, words, right)]
    if np.array_equal(pattern, expected):
        if isinstance(mine, Ladders) != isinstance(theirs, Ladders):
            words = "the ladder restarts on each axis" if isinstance(mine, Ladders) else "one ladder across the axes"
            return [axes_deviation(None, words, right, seen, right)]
        return []
    return [axes_deviation(None, seen, right, seen, right)]


def axis_name(axes: object, number: int) -> str:
    """Give the name of an axis, or its number."""
    names = getattr(axes, "names", ())
    return names[number] if number < len(names) else str(number)


def axes_words(axes: object) -> str:
    """Say in words how axes are dealt."""
    if isinstance(axes, Sections):
        return f"{axes.arrangement} {list(axes.sections)}"
    if isinstance(axes, Ladders):
        return f"ladders {list(axes.widths)} in {axes.arrangement}"
    return str(getattr(axes, "kind", "single"))


def axes_deviation(slug: str | None, words: str, right: str, seen: str, declared_words: str) -> Deviation:
    """Give a deviation of the axes."""
    return Deviation(slug=slug, kind="axes", words=words, right=right, seen=seen, declared=declared_words)


def silent_axes(geometry: Geometry, axis: Array) -> list[int]:
    """Give the axes whose pairs all keep still; axis holds that of each pair."""
    still = np.abs(geometry.target.freq) <= geometry.target.room
    still = still[: len(axis)]
    return [number for number in range(int(axis.max()) + 1) if (axis == number).any() and still[axis == number].all()]


def _silent_deviation(silent: list[int], expect: Rope) -> Deviation:
    words = " and ".join(axis_name(expect.axes, number) for number in silent)
    return axes_deviation(
        "axes-swapped", f"axis {words} turns nothing (zeroed)", "every axis turns its pairs", words, ""
    )
