"""Which mistake turns a declared rope into a measured table: geometry by its fields, frequencies by trying each."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, permutations

import numpy as np

from ..fitting.numbers import Array, digits_of, roundest, solve
from ..inspection import number_words
from ..rope import Rope
from ..scaling import Dynamic, Linear
from ._fitting_geometry import Geometry, geometries
from ._fitting_measured import Measured
from ._fitting_rules import Rule
from ._fitting_shapes import Deviation, Shape, axes_deviation, axes_words, axis_name, shapes
from ._fitting_tables import Match, Steps, Tables

_ALL = 3  # levels of which every way is given; of dearer ones the first


def declared(measured: Measured, head_dim: int, expect: Rope, length: int | None) -> list[Match]:
    """Give the ways to make a measured table from a declared rope, the likeliest first; empty where none is known."""
    found: list[Match] = []
    for geometry in geometries(measured, head_dim, expect):
        for shape in shapes(geometry, measured, head_dim, expect):
            found += _matches(geometry, shape, head_dim, expect, length)
            if any(match.cost == 0 for match in found):
                return found[-1:]
    if not found and expect.axes.num_axes > 1:
        found = list(_exchanged(measured, head_dim, expect, length))
    return sorted(found, key=lambda match: (match.cost, match.residual))


def _exchanged(measured: Measured, head_dim: int, expect: Rope, length: int | None) -> Iterator[Match]:
    """Give the ways that take another order of the axes."""
    count = expect.axes.num_axes
    for order in permutations(range(count)) if count <= 4 else ():
        if order == tuple(range(count)) or int(measured.axis.max()) >= count:
            continue
        words = ", ".join(
            f"{axis_name(expect.axes, b)} for {axis_name(expect.axes, a)}" for a, b in enumerate(order) if a != b
        )
        swapped = axes_deviation("axes-swapped", f"axes exchanged: {words}", axes_words(expect.axes), words, "")
        moved = replace(measured, axis=np.argsort(order)[measured.axis])
        for geometry in geometries(moved, head_dim, expect):
            if geometry.axes == expect.axes:
                for shape in shapes(geometry, moved, head_dim, expect):
                    for match in _matches(geometry, shape, head_dim, expect, length):
                        yield match._replace(cost=match.cost + 1.5, rope=None, deviations=(swapped, *match.deviations))


def _matches(geometry: Geometry, shape: Shape, head_dim: int, expect: Rope, length: int | None) -> list[Match]:
    """Give the ways to make the frequencies, all of the lowest cost at which there is one."""
    search = _Search(geometry, shape, head_dim, expect, length)
    for number, level in enumerate(search.levels):
        found = list(level()) if number < _ALL else list(islice(level(), 1))
        if found:
            return found
    return []


class _Search(Tables):
    """The ways to make frequencies, tried in the order of how much they presume."""

    def __init__(self, geometry: Geometry, shape: Shape, head_dim: int, expect: Rope, length: int | None) -> None:
        super().__init__(geometry, shape, head_dim, expect, length)
        self.levels: tuple[Callable[[], Iterator[Match]], ...] = (
            self._right,
            self._one_mistake,
            self._one_number,
            self._two_mistakes,
            self._mistake_and_number,
            self._two_numbers,
        )

    def _right(self) -> Iterator[Match]:
        rule = self.rules[0]
        yield from self.tried(0, self.ladders[0], rule, self.expect.rope_theta, rule.factor)

    def _one_mistake(self) -> Iterator[Match]:
        theta, right = self.expect.rope_theta, self.rules[0]
        for rule in self.rules[1:]:
            yield from self.tried(1 if rule.slug else 1.2, self.ladders[0], rule, theta, rule.factor)
        for ladder in self.ladders[1:]:
            cost = 1 if ladder.slug else 1.2
            yield from self.tried(cost, ladder, right, theta, right.factor)
        table = self.table(self.ladders[0], right, theta, right.factor or 1.0)
        for slug, times, words in (
            ("double-rotation", 2.0, "every angle doubled (turned twice)"),
            (None, 2 * math.pi, "every frequency times 2π"),
            (None, 1 / (2 * math.pi), "every frequency over 2π"),
            (None, 180 / math.pi, "every angle in degrees"),
            (None, 0.5, "every angle halved"),
        ):
            if isinstance(self.expect.scaling, Linear):
                continue  # another factor, which is the likelier mistake
            if self.target.agrees(table * times):
                extra = Deviation(slug=slug, kind="frequencies", words=words, right="the declared angles", seen=times)
                yield self.match(1.2, self.ladders[0], right, theta, right.factor, table * times, (extra,), times)
        coarse = self.ladders[0]._replace(exponent=_bfloat16(self.ladders[0].exponent))
        exponents = self.table(coarse, right, theta, right.factor or 1.0)
        with np.errstate(all="ignore"):
            inverse = np.where(table == 0, 0.0, 1 / _bfloat16(1 / table))
        for slug, words, made in (
            ("bf16-frequencies", "frequencies rounded to bfloat16", _bfloat16(table)),
            ("bf16-frequencies", "exponents rounded to bfloat16", exponents),
            ("bf16-frequencies", "the inverses of frequencies rounded to bfloat16", inverse),
            ("fp16-frequencies", "frequencies rounded to float16", table.astype(np.float16).astype(np.float64)),
        ):
            if self.target.agrees(made) and not self.target.agrees(table):
                extra = Deviation(slug=slug, kind="frequencies", words=words, right="frequencies in float32 or better")
                match = self.match(1.1, self.ladders[0], right, theta, right.factor, made, (extra,))
                yield match._replace(rope=None)

    def _one_number(self) -> Iterator[Match]:
        right = self.rules[0]
        yield from self._free_theta(2, self.ladders[0], right)
        yield from self._free_factor(2, self.ladders[0], right)

    def _two_mistakes(self) -> Iterator[Match]:
        for rule in self.rules[1:]:
            for ladder in self.ladders[1:]:
                yield from self.tried(2.5, ladder, rule, self.expect.rope_theta, rule.factor)

    def _mistake_and_number(self) -> Iterator[Match]:
        for rule in sorted(self.rules[1:], key=lambda rule: rule.slug != "unscaled"):
            yield from self._free_theta(3, self.ladders[0], rule)
            yield from self._free_factor(3, self.ladders[0], rule)
        for ladder in self.ladders[1:]:
            yield from self._free_factor(3.2, ladder, self.rules[0])

    def _two_numbers(self) -> Iterator[Match]:
        right, ladder = self.rules[0], self.ladders[0]
        if right.factor is not None:
            starts = [(theta, factor) for theta in self.guesses for factor in (right.factor, 2.0, 8.0, 32.0)]
            found = solve(lambda theta, s: self.table(ladder, right, theta, s), starts, self.target)
            if found is not None:
                extra = (self._theta_deviation(found[0]), self._factor_deviation(right, found[1]))
                yield from self.tried(4, ladder, right, *found, extra=extra)
        table = self.table(ladder, right, self.expect.rope_theta, right.factor or 1.0)
        found = solve(lambda times: table * times, [(1.0,)], self.target)
        if found is not None:
            words = f"every frequency times {number_words(found[0])}"
            slowed = found[0] < 1
            if slowed:
                words = f"every pair slowed {number_words(float(f'{1 / found[0]:.9g}'))} times"
            extra = Deviation(slug=None, kind="frequencies", words=words, right="the declared angles", seen=found[0])
            yield self.match(
                4.2, ladder, right, self.expect.rope_theta, right.factor, table * found[0], (extra,), found[0]
            )

    def _free_theta(self, cost: float, ladder: Steps, rule: Rule) -> Iterator[Match]:
        if not (self.target.turning & (self.target.index > 0)).any():
            return
        starts = [(guess,) for guess in (*self.guesses, self.expect.rope_theta)]
        found = solve(lambda theta: self.table(ladder, rule, theta, rule.factor or 1.0), starts, self.target)
        if found is None:
            return
        theta = found[0]
        length = self._length_of(theta) if not rule.words else None
        if length is not None:
            right = "at most the trained length" if self.length is None else f"{self.length} tokens"
            width = self.geometry.width
            base = float(f"{theta * self._stretch() ** (width / (width - 2)):.10g}")
            words = f"the base of a sequence of {number_words(length)} tokens ({number_words(base)})"
            extra = Deviation(
                slug="dynamic-frozen",
                kind="frequencies",
                words=words,
                right=f"the base of {right}",
                seen=length,
                declared=self.length,
            )
        else:
            extra = self._theta_deviation(theta)
        yield from self.tried(cost, ladder, rule, theta, rule.factor, extra=(extra,))

    def _stretch(self) -> float:
        """Give by how much dynamic scaling stretches, before the power, at the measured length."""
        scaling, lmax = self.expect.scaling, self.expect.max_position_embeddings
        if not isinstance(scaling, Dynamic) or self.length is None or lmax is None:
            return 1.0
        return max(1.0, scaling.factor * self.length / lmax - (scaling.factor - 1))

    def _length_of(self, theta: float) -> float | None:
        """Give the length at which dynamic scaling has this base, where it is a whole one."""
        scaling, lmax = self.expect.scaling, self.expect.max_position_embeddings
        width = self.geometry.width
        if not isinstance(scaling, Dynamic) or lmax is None or width <= 2 or digits_of(theta) <= 2:
            return None
        ratio = self._stretch() * (theta / self.expect.rope_theta) ** ((width - 2) / width)
        length = lmax * (ratio + scaling.factor - 1) / scaling.factor
        near = round(length)
        return near if near > lmax and abs(near - length) <= 1e-4 * length else None

    def _free_factor(self, cost: float, ladder: Steps, rule: Rule) -> Iterator[Match]:
        if rule.factor is None:
            return
        starts = [(start,) for start in (rule.factor, 2.0, 8.0, 32.0, 1 / rule.factor)]
        theta = self.expect.rope_theta
        found = solve(lambda s: self.table(ladder, rule, theta, s), starts, self.target)
        if found is None:
            return
        extra = (self._factor_deviation(rule, found[0]),)
        yield from self.tried(cost, ladder, rule, theta, found[0], extra=extra)

    def _theta_deviation(self, theta: float) -> Deviation:
        right = self.expect.rope_theta
        shown = roundest(theta, theta * 1e-9)
        return Deviation(
            slug="wrong-theta",
            kind="frequencies",
            words=f"theta {number_words(shown)} for {number_words(right)}",
            right=f"theta {number_words(right)}",
            seen=theta,
            declared=right,
        )

    def _factor_deviation(self, rule: Rule, factor: float) -> Deviation:
        assert rule.factor is not None
        linear = isinstance(self.expect.scaling, Linear)
        words = f"factor {number_words(factor)} for {number_words(rule.factor)}"
        if abs(factor * rule.factor - 1) < 1e-5:
            words += " (multiplied by the factor instead of divided)"
        elif linear and abs(2 * factor - rule.factor) < 1e-5 * factor:
            words += " (equals every angle doubled)"
        return Deviation(
            slug="factor-pinned",
            kind="frequencies",
            words=words,
            right=f"factor {number_words(rule.factor)}",
            seen=factor,
            declared=rule.factor,
        )


def _bfloat16(values: Array) -> Array:
    """Round to bfloat16, to nearest and even."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).astype(np.float64)


def with_magnitude(rope: Rope, factor: float) -> Rope:
    """Give the rope with this factor on cos and sin, where a description can carry it."""
    scaling = rope.scaling
    if abs(rope.pairs().cos_sin_factor - factor) <= 1e-12:
        return rope
    if hasattr(scaling, "attention_factor"):
        changes: dict[str, float | None] = {"attention_factor": factor}
        if hasattr(scaling, "short_mscale"):
            changes |= {"short_mscale": None, "long_mscale": None}
        return rope.replace(scaling=replace(scaling, **changes))  # type: ignore[type-var]
    return rope
