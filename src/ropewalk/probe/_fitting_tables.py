"""Frequencies as a declared rope and its known mistakes would make them, put into a measured geometry."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..fitting.bands import partial_share
from ..fitting.numbers import Array, Target
from ..fitting.scalings import slopes
from ..inspection import number_words
from ..pairs import Pairs
from ..rope import Rope
from ..scaling import Default, Linear, Proportional, Scaling
from ._fitting_geometry import Geometry
from ._fitting_rules import Rule, rules
from ._fitting_shapes import Deviation, Shape, silent_axes


class Match(NamedTuple):
    """A way to make the measured table from the declared rope."""

    cost: float
    residual: float
    deviations: tuple[Deviation, ...]
    rope: Rope | None
    geometry: Geometry
    rope_theta: float
    factor: float | None


class Steps(NamedTuple):
    """Exponents: the slug of the mistake, in words, and x of theta^-x."""

    slug: str | None
    words: str
    right: str
    exponent: Array
    over: Array


class Tables:
    """The frequencies that ladders and rules make in one reading of a measured geometry, and what they mean."""

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
        self.ladders = list(self.steps())
        self.guesses = [guess for guess in slopes(target) if math.isfinite(guess)] if target.turning.any() else []

    def steps(self) -> Iterator[Steps]:
        """Give the exponents as they should be, then each known mistake in them."""
        target, head_dim, expect = self.target, self.head_dim, self.expect
        over = target.width if self.shape.over is None else np.full_like(target.width, self.shape.over)
        exponent = 2 * target.index / over
        yield Steps(None, "", "", exponent, over)
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
                    words += ", which is the same as exponents without their 2" if other == 2 * own else ""
                    yield Steps(slug, words, right, 2 * target.index / other, np.full_like(over, other))
        without = "exponent without its 2, θ^(-i/R)"
        yield Steps("exponent-without-2", without, "θ^(-2i/R)", target.index / over, over)

    def table(self, ladder: Steps, rule: Rule, theta: float, factor: float) -> Array:
        """Give the frequencies that these exponents and this rule make, where the target has its own."""
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

    def match(
        self,
        cost: float,
        ladder: Steps,
        rule: Rule,
        theta: float,
        factor: float | None,
        table: Array,
        extra: tuple[Deviation, ...] = (),
        times: float = 1.0,
    ) -> Match:
        """Give a way to make the target, with the deviations of its geometry, its rule, its exponents and extra."""
        deviations = [*self.shape.deviations]
        if rule.words:
            deviations.append(Deviation(slug=rule.slug, kind="frequencies", words=rule.words, right=rule.right))
        rope = self.rope_of(ladder, rule, theta, factor, table, times)
        if ladder.words:
            equal = "" if rope is None else f" (equals theta {number_words(float(f'{rope.rope_theta:.6g}'))})"
            words = ladder.words + equal
            deviations.append(Deviation(slug=ladder.slug, kind="frequencies", words=words, right=ladder.right))
        deviations += extra
        cost += 1.5 * sum(1 if deviation.slug else 1.5 for deviation in self.shape.deviations)
        return Match(cost, self.target.residual(table), tuple(deviations), rope, self.geometry, theta, factor)

    def rope_of(
        self, ladder: Steps, rule: Rule, theta: float, factor: float | None, table: Array, times: float
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

    def tried(
        self, cost: float, ladder: Steps, rule: Rule, theta: float, factor: float | None, **more: object
    ) -> Iterator[Match]:
        """Give the match of these numbers, where they make the target."""
        table = self.table(ladder, rule, theta, 1.0 if factor is None else factor)
        if self.target.agrees(table):
            yield self.match(cost, ladder, rule, theta, factor, table, **more)  # type: ignore[arg-type]


def ordered(pairs: Pairs, geometry: Geometry) -> Array:
    """Give the frequencies of a rope of this geometry in the order of its target, the direction taken off."""
    columns = [pairs.inv_freq]
    if geometry.pairing == "hybrid_tile":
        columns.append(pairs.inv_freq if pairs.second_inv_freq is None else pairs.second_inv_freq)
    return np.concatenate(columns) * geometry.direction
