"""From 4096 to 32768: what each way of stretching does to every pair, and to the score curve."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ...models.targets import read
from ...rope import Rope
from ...scaling import Default, Dynamic, Linear, Llama3, Ntk, Scaling, Yarn
from ..figures import shade
from ..i18n import Speech
from ._piece import Piece, Values, choice, joined, line, plain, polyline, real, short, svg, table, whole, words

TRAINED, WANTED = 4096, 32768
BASE = 10000.0
LONGROPE_PRESET = "phi-3-mini-128k"
DISTANCES = (0, 1, 8, 64, 512, 4096, 32768)
POINTS = 140
WIDTH, SPECTRUM, CURVE = 640.0, 56.0, 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretched:
    """One method at one length.

    Attributes:
        name: the method.
        plain: the untouched frequencies of its own width.
        inv_freq: the stretched ones.
        full: the divisor of the pairs that it slows wholly, or None where each pair has its own.
        nominal: by how much it is meant to stretch the context.
        factor: multiplies cos and sin; scores take its square.
    """

    name: str
    plain: NDArray[np.float64]
    inv_freq: NDArray[np.float64]
    full: float | None
    nominal: float
    factor: float

    @property
    def divisors(self) -> NDArray[np.float64]:
        """By how much each pair is slowed."""
        return self.plain / self.inv_freq

    @property
    def kinds(self) -> tuple[str, ...]:
        """For each pair "kept", "blended" or "stretched"."""
        return tuple(self._kind(float(divisor)) for divisor in self.divisors)

    def _kind(self, divisor: float) -> str:
        if abs(divisor - 1) < 1e-9:
            return "kept"
        return "stretched" if self.full is not None and abs(divisor / self.full - 1) < 1e-9 else "blended"

    def score(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the mean cosine over all pairs at each distance, times the factor squared."""
        return self.factor**2 * np.cos(distances[:, None] * self.inv_freq).mean(axis=1)


def methods(width: int, factor: float, length: int) -> tuple[Stretched, ...]:
    """Give every method at one width and length; LongRoPE keeps its preset's own width and lists."""
    scalings: dict[str, tuple[Scaling, float | None]] = {
        "untouched": (Default(), None),
        "linear": (Linear(factor=factor), factor),
        "ntk": (Ntk(factor=factor), factor),
        "dynamic": (Dynamic(factor=factor), ratio(factor, length)),
        "yarn": (Yarn(factor=factor, original_max_position_embeddings=TRAINED), factor),
        "llama3": (
            Llama3(factor=factor, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=TRAINED),
            factor,
        ),
    }
    base = Rope(head_dim=width, rope_theta=BASE, pairing="half", max_position_embeddings=TRAINED)
    found = {
        name: _stretched(name, base.replace(scaling=scaling), length, full, full or 1.0)
        for name, (scaling, full) in scalings.items()
    }
    lists = longrope()
    reach = (lists.max_position_embeddings or TRAINED) / TRAINED
    found["longrope"] = _stretched("longrope", lists, length, None, reach)
    return tuple(found[name] for name in ("untouched", "linear", "ntk", "dynamic", "yarn", "longrope", "llama3"))


@cache
def longrope() -> Rope:
    """Give the rope of the preset whose searched lists are drawn."""
    return read(LONGROPE_PRESET).rope


def ratio(factor: float, length: int) -> float:
    """Give what dynamic NTK raises the base by: s·L/L0 - (s - 1), and 1 up to the trained length."""
    return max(1.0, factor * length / TRAINED - (factor - 1))


def _stretched(name: str, rope: Rope, length: int, full: float | None, nominal: float) -> Stretched:
    pairs = rope.pairs(length)
    return Stretched(
        name=name,
        plain=rope.replace(scaling=Default()).pairs().inv_freq,
        inv_freq=pairs.inv_freq,
        full=full,
        nominal=nominal,
        factor=pairs.cos_sin_factor,
    )


def pair_range(kinds: tuple[str, ...], kind: str) -> str:
    """Write which pairs are of a kind: their count, and their numbers where they stand together.

    >>> pair_range(("kept", "kept", "blended"), "kept"), pair_range(("kept",), "blended")
    ('2 (0–1)', '0')
    """
    found = [i for i, entry in enumerate(kinds) if entry == kind]
    if not found:
        return "0"
    if len(found) == 1:
        return f"1 ({found[0]})"
    together = found[-1] - found[0] + 1 == len(found)
    return f"{len(found)} ({found[0]}–{found[-1]})" if together else str(len(found))


def method_names(_: Speech) -> dict[str, Markup | str]:
    """Give what the page calls each method."""
    return {
        "untouched": _("untouched"),
        "linear": _("linear"),
        "ntk": _("NTK-aware"),
        "dynamic": _("dynamic NTK"),
        "yarn": "YaRN",
        "longrope": "LongRoPE",
        "llama3": "llama3",
    }


def _stretch(_: Speech, values: Values) -> Markup:
    shown = methods(values["d"], values["factor"], values["length"])
    names = method_names(_)
    pairs = table(
        _("What each method does to the pairs, for a text of {length} tokens", length=values["length"]),
        [
            _("method"),
            _("pairs kept"),
            _("blended"),
            _("slowed by the full factor"),
            _("divisors"),
            _("times cos and sin"),
            _("times the score"),
        ],
        [
            (
                names[method.name],
                *(pair_range(method.kinds, kind) for kind in ("kept", "blended", "stretched")),
                _span(method.divisors),
                plain(method.factor),
                plain(method.factor**2),
            )
            for method in shown
        ],
    )
    distances = np.array(DISTANCES, dtype=np.float64)
    scores = table(
        _("The score curve, at distances to check: the mean cosine over all pairs, times the factor squared"),
        [_("method"), *DISTANCES],
        [(names[method.name], *(plain(float(score), 4) for score in method.score(distances))) for method in shown],
    )
    reading = Markup('<p class="note">{}</p>\n').format(
        _(
            "Above, a stroke for each pair at its wavelength before stretching; its height is the divisor on a "
            "logarithmic scale, a dot is a pair that is kept. Below, the score curve (solid) over the untouched one "
            "(faint), on the same axis. The upright line is the trained length, {trained} tokens.",
            trained=TRAINED,
        )
    )
    own = Markup('<p class="note">{}</p>\n').format(
        _(
            "LongRoPE is drawn with the lists of {preset}: {pairs} pairs of its own, stretched from 4096 to {reach} "
            "tokens, whatever is chosen above.",
            preset=LONGROPE_PRESET,
            pairs=len(next(method for method in shown if method.name == "longrope").plain),
            reach=longrope().max_position_embeddings,
        )
    )
    top = max(float(method.divisors.max()) for method in shown)
    reach = _reach(shown)
    pictures = [
        Markup('<figure class="stretched"><figcaption>{}</figcaption>{}</figure>\n').format(
            names[method.name], _picture(_, method, names[method.name], top, reach)
        )
        for method in shown
    ]
    return joined([pairs, reading, *pictures, own, scores])


def _span(divisors: NDArray[np.float64]) -> str:
    low, high = short(float(divisors.min()), 4), short(float(divisors.max()), 4)
    return low if low == high else f"{low} … {high}"


def _samples() -> NDArray[np.float64]:
    return np.unique(np.round(np.geomspace(1, WANTED, POINTS)))


def _reach(shown: tuple[Stretched, ...]) -> tuple[float, float]:
    curves = [method.score(_samples()) for method in shown]
    return min(0.0, *(float(curve.min()) for curve in curves)), max(float(curve.max()) for curve in curves)


def _place(value: float) -> float:
    """Give the place of a wavelength or distance on the axis that all methods share, 1 to 100,000."""
    return 4 + math.log10(value) / 5 * (WIDTH - 8)


def _picture(_: Speech, method: Stretched, name: Markup | str, top: float, reach: tuple[float, float]) -> Markup:
    floor, total = SPECTRUM, len(method.plain)
    height = floor + 12 + CURVE
    left, right, trained = _place(1), _place(1e5), _place(TRAINED)
    parts = [line(left, floor, right, floor), line(trained, 0, trained, height, "mark original")]
    scale = (SPECTRUM - 12) / math.log(top) if top > 1 else 0.0
    if method.nominal > 1:
        y = floor - scale * math.log(method.nominal)
        parts += [line(left, y, right, y, "guide"), words(right, y - 2, f"÷{short(method.nominal, 2)}", anchor="end")]
    for i, (inv_freq, divisor, kind) in enumerate(zip(method.plain, method.divisors, method.kinds, strict=True)):
        x, shaded = _place(2 * math.pi / float(inv_freq)), f"s{shade(i, total)}"
        if kind == "kept":
            parts.append(f'<circle class="{shaded} kept" cx="{x:.1f}" cy="{floor:g}" r="2.5"/>')
        else:
            y = floor - scale * math.log(float(divisor))
            parts.append(f'<path class="stroke {shaded} {kind}" d="M{x:.1f} {floor:g}V{y:.1f}"/>')
    low, high = reach
    distances = _samples()

    def points(inv_freq: NDArray[np.float64], gain: float) -> list[tuple[float, float]]:
        curve = gain * np.cos(distances[:, None] * inv_freq).mean(axis=1)
        return [
            (_place(float(at)), height - (float(value) - low) / (high - low) * CURVE)
            for at, value in zip(distances, curve, strict=True)
        ]

    for value, kind in ((0, "axis"), (1, "guide")):
        y = height - (value - low) / (high - low) * CURVE
        parts += [line(left, y, right, y, kind), words(right, y - 2, value, anchor="end")]
    parts.append(polyline(points(method.plain, 1.0), "line before"))
    parts.append(polyline(points(method.inv_freq, method.factor**2), "line mean"))
    parts += [
        words(_place(10.0**k), height + 14, 10**k, anchor="middle" if 0 < k < 5 else "start" if k == 0 else "end")
        for k in range(6)
    ]
    label = _("{method}: divisor by pair, and the score curve to distance {distance}", method=name, distance=WANTED)
    return svg("stretch", WIDTH, height + 18, label, parts)


STRETCH = Piece(
    name="stretch",
    draw=_stretch,
    title=lambda _: _("Six ways to stretch the context"),
    controls=(
        choice("d", 128, (64, 80, 96, 112, 128)),
        real("factor", WANTED / TRAINED, 1.0, 64.0),
        whole("length", WANTED, 1, WANTED),
    ),
    labels=lambda _: {"d": _("Dimension d"), "factor": _("Factor"), "length": _("Length of the sequence")},
)
