"""Which mistake turns a declared rope into a measured table: geometry by its fields, frequencies by trying each."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, permutations
from typing import NamedTuple

import numpy as np

from ..fitting.bands import partial_share
from ..fitting.numbers import Array, Target, digits_of, roundest, solve
from ..fitting.scalings import slopes
from ..inspection import number_words
from ..pairs import Pairs
from ..rope import Rope
from ..scaling import Default, Dynamic, Linear, Proportional, Scaling
from ._fitting_geometry import Geometry, Measured, geometries
from ._fitting_rules import Rule, rules
from ._fitting_shapes import Deviation, Shape, axes_deviation, axes_words, axis_name, shapes, silent_axes

_ALL = 3  # levels of which every way is given; of dearer ones the first


class Match(NamedTuple):
    """A way to make the measured table from the declared rope."""

    cost: float
    residual: float
    deviations: tuple[Deviation, ...]
    rope: Rope | None
    geometry: Geometry
    rope_theta: float
    factor: float | None


class _Ladder(NamedTuple):
    """Exponents: the slug of the mistake, in words, and x of theta^-x."""

    slug: str | None
    words: str
    right: str
    exponent: Array
    over: Array


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


class _Search:
    """The ways to make frequencies, tried in the order of how much they presume."""

    def __init__(self, geometry: Geometry, shape: Shape, head_dim: int, expect: Rope, length: int | None) -> None:
        self.geometry, self.shape, self.head_dim, self.expect, self.length = geometry, shape, head_dim, expect, length
        target = geometry.target
        silent = [] if expect.axes.num_axes == 1 else silent_axes(geometry, geometry.axes.plan(geometry.width).axis)
        if silent and any(deviation.slug == "axes-swapped" for deviation in shape.deviations):
            # an axis that turns nothing tells nothing of the frequencies
            axis = geometry.axes.plan(geometry.width).axis
            keep = np.tile(~np.isin(axis, silent), len(target.freq) // len(axis))
            target = Target(
                freq=target.freq[keep],
                error=target.error[keep],
                index=target.index[keep],
                width=target.width[keep],
                seen=target.seen[keep],
            )
        self.silent = bool(silent)
        self.target = target
        self.rules = list(rules(expect, length))
        self.ladders = list(self._ladders())
        self.guesses = [guess for guess in slopes(target) if math.isfinite(guess)] if target.turning.any() else []
        self.levels: tuple[Callable[[], Iterator[Match]], ...] = (
            self._right,
            self._one_mistake,
            self._one_number,
            self._two_mistakes,
            self._mistake_and_number,
            self._two_numbers,
        )

    def _ladders(self) -> Iterator[_Ladder]:
        target, head_dim, expect = self.target, self.head_dim, self.expect
        over = target.width if self.shape.over is None else np.full_like(target.width, self.shape.over)
        exponent = 2 * target.index / over
        yield _Ladder(None, "", "", exponent, over)
        widths = set(over.tolist())
        if len(widths) == 1:
            own = widths.pop()
            right = f"exponents over {own}"
            others = {head_dim: "exponent-over-head", expect.width: None}
            if expect.width == head_dim and isinstance(expect.scaling, Proportional):
                others[2 * int(expect.scaling.partial_rotary_factor * head_dim // 2)] = "exponent-over-head"
            for other, slug in others.items():
                if other not in (own, 0):
                    words = f"exponents over {'the head, ' if other == head_dim else ''}{other}"
                    yield _Ladder(slug, words, right, 2 * target.index / other, np.full_like(over, other))
        without = "exponent without its 2, θ^(-i/R)"
        yield _Ladder("exponent-without-2", without, "θ^(-2i/R)", target.index / over, over)

    def _table(self, ladder: _Ladder, rule: Rule, theta: float, factor: float) -> Array:
        index, over = self.target.index, ladder.over
        with np.errstate(all="ignore"):
            plain = theta**-ladder.exponent
            if len(set(over.tolist())) == 1:
                made = rule.function(plain, theta, factor, index, int(over[0]))
            else:
                made = np.empty_like(plain)
                for width in set(over.tolist()):
                    at = over == width
                    made[at] = rule.function(plain[at], theta, factor, index[at], int(width))
        return made if self.shape.turning is None else np.where(index < self.shape.turning, made, 0.0)

    def _match(
        self,
        cost: float,
        ladder: _Ladder,
        rule: Rule,
        theta: float,
        factor: float | None,
        table: Array,
        extra: tuple[Deviation, ...] = (),
        times: float = 1.0,
    ) -> Match:
        deviations = [*self.shape.deviations]
        if rule.words:
            deviations.append(Deviation(slug=rule.slug, kind="frequencies", words=rule.words, right=rule.right))
        rope = self._rope(ladder, rule, theta, factor, table, times)
        if ladder.words:
            equal = "" if rope is None else f" (equals theta {number_words(float(f'{rope.rope_theta:.6g}'))})"
            words = ladder.words + equal
            deviations.append(Deviation(slug=ladder.slug, kind="frequencies", words=words, right=ladder.right))
        deviations += extra
        cost += 1.5 * sum(1 if deviation.slug else 1.5 for deviation in self.shape.deviations)
        return Match(cost, self.target.residual(table), tuple(deviations), rope, self.geometry, theta, factor)

    def _rope(
        self, ladder: _Ladder, rule: Rule, theta: float, factor: float | None, table: Array, times: float
    ) -> Rope | None:
        """Give the known description that makes the same table, checked."""
        moving = np.flatnonzero(self.target.index > 0)
        power = 1.0
        if len(moving):
            at = moving[0]
            power = float(ladder.exponent[at] / (2 * self.target.index[at] / self.target.width[at]))
        scaling: Scaling | None = rule.scaling(1.0 if factor is None else factor)
        if times != 1:
            scaling = Linear(factor=1 / times) if isinstance(scaling, Default) else None
        if self.shape.turning is not None and scaling is not None:
            slowed = scaling.factor if isinstance(scaling, Linear) else 1.0
            share = partial_share(self.shape.turning, self.geometry.width)
            known = isinstance(scaling, Default | Linear)
            scaling = Proportional(partial_rotary_factor=share, factor=slowed) if known else None
        if scaling is None or self.silent:
            return None
        if power == 1 and self.geometry.pairing == self.expect.pairing and not self.shape.deviations:
            same_theta = self.expect.replace(rope_theta=theta) if theta != self.expect.rope_theta else self.expect
            if scaling == self.expect.scaling:
                return same_theta
        rope = self.geometry.rope(
            self.head_dim,
            theta**power,
            scaling=scaling,
            max_position_embeddings=self.expect.max_position_embeddings,
        )
        if rope is None:
            return None
        made = ordered(rope.pairs(), self.geometry)
        with np.errstate(all="ignore"):
            close = np.abs(made - times * table) <= 1e-9 * np.abs(made) if times == 1 else np.abs(made - table) <= 1e-9
        return rope if bool(close.all()) else None

    def _tried(
        self, cost: float, ladder: _Ladder, rule: Rule, theta: float, factor: float | None, **more: object
    ) -> Iterator[Match]:
        table = self._table(ladder, rule, theta, 1.0 if factor is None else factor)
        if self.target.agrees(table):
            yield self._match(cost, ladder, rule, theta, factor, table, **more)  # type: ignore[arg-type]

    def _right(self) -> Iterator[Match]:
        rule = self.rules[0]
        yield from self._tried(0, self.ladders[0], rule, self.expect.rope_theta, rule.factor)

    def _one_mistake(self) -> Iterator[Match]:
        theta, right = self.expect.rope_theta, self.rules[0]
        for rule in self.rules[1:]:
            yield from self._tried(1 if rule.slug else 1.2, self.ladders[0], rule, theta, rule.factor)
        for ladder in self.ladders[1:]:
            cost = 1 if ladder.slug else 1.2
            yield from self._tried(cost, ladder, right, theta, right.factor)
        table = self._table(self.ladders[0], right, theta, right.factor or 1.0)
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
                yield self._match(1.2, self.ladders[0], right, theta, right.factor, table * times, (extra,), times)
        coarse = self.ladders[0]._replace(exponent=_bfloat16(self.ladders[0].exponent))
        exponents = self._table(coarse, right, theta, right.factor or 1.0)
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
                match = self._match(1.1, self.ladders[0], right, theta, right.factor, made, (extra,))
                yield match._replace(rope=None)

    def _one_number(self) -> Iterator[Match]:
        right = self.rules[0]
        yield from self._free_theta(2, self.ladders[0], right)
        yield from self._free_factor(2, self.ladders[0], right)

    def _two_mistakes(self) -> Iterator[Match]:
        for rule in self.rules[1:]:
            for ladder in self.ladders[1:]:
                yield from self._tried(2.5, ladder, rule, self.expect.rope_theta, rule.factor)

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
            found = solve(lambda theta, s: self._table(ladder, right, theta, s), starts, self.target)
            if found is not None:
                extra = (self._theta_deviation(found[0]), self._factor_deviation(right, found[1]))
                yield from self._tried(4, ladder, right, *found, extra=extra)
        table = self._table(ladder, right, self.expect.rope_theta, right.factor or 1.0)
        found = solve(lambda times: table * times, [(1.0,)], self.target)
        if found is not None:
            words = f"every frequency times {number_words(found[0])}"
            slowed = found[0] < 1
            if slowed:
                words = f"every pair slowed {number_words(float(f'{1 / found[0]:.9g}'))} times"
            extra = Deviation(slug=None, kind="frequencies", words=words, right="the declared angles", seen=found[0])
            yield self._match(
                4.2, ladder, right, self.expect.rope_theta, right.factor, table * found[0], (extra,), found[0]
            )

    def _free_theta(self, cost: float, ladder: _Ladder, rule: Rule) -> Iterator[Match]:
        if not (self.target.turning & (self.target.index > 0)).any():
            return
        starts = [(guess,) for guess in (*self.guesses, self.expect.rope_theta)]
        found = solve(lambda theta: self._table(ladder, rule, theta, rule.factor or 1.0), starts, self.target)
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
        yield from self._tried(cost, ladder, rule, theta, rule.factor, extra=(extra,))

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

    def _free_factor(self, cost: float, ladder: _Ladder, rule: Rule) -> Iterator[Match]:
        if rule.factor is None:
            return
        starts = [(start,) for start in (rule.factor, 2.0, 8.0, 32.0, 1 / rule.factor)]
        theta = self.expect.rope_theta
        found = solve(lambda s: self._table(ladder, rule, theta, s), starts, self.target)
        if found is None:
            return
        extra = (self._factor_deviation(rule, found[0]),)
        yield from self._tried(cost, ladder, rule, theta, found[0], extra=extra)

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


def ordered(pairs: Pairs, geometry: Geometry) -> Array:
    """Give the frequencies of a rope of this geometry in the order of its target, the direction taken off."""
    columns = [pairs.inv_freq]
    if geometry.pairing == "hybrid_tile":
        columns.append(pairs.inv_freq if pairs.second_inv_freq is None else pairs.second_inv_freq)
    return np.concatenate(columns) * geometry.direction


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
