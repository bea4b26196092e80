"""The figures, drawn on the server as SVG: they teach before anything is touched, and JavaScript only moves them."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from .i18n import Speech

if TYPE_CHECKING:
    from .data import Document

SHADES = 32  # pairs run through one scale from fast to slow; .s0 … .s31 in the style sheet
RADIUS = 92.0  # of the longer of the two drawn arrows, in the circle's own units
SPECTRUM_WIDTH, SPECTRUM_HEIGHT = 420.0, 72.0  # near to its size on the page, so that its words stay readable
STROKE_TOP, STROKE_BOTTOM = 25.0, 56.0
THUMB_STROKES, THUMB_SHADES = 24, 4  # strokes of a thumbnail, and how many neighbouring shades it draws as one


def shade(pair: int, pairs: int) -> int:
    """Give the shade of a pair, 0 for the fastest to 31 for the slowest."""
    return 0 if pairs < 2 else round((SHADES - 1) * pair / (pairs - 1))


def circle(document: "Document", _: Speech) -> Markup:
    """Draw one pair turning: query before and after, key after, the arc between, on the query's dashed circle."""
    row, key = document.turns[document.pair], document.key_turns[document.pair]
    longest = max(row.radius_before, key.radius_before, row.radius_after, key.radius_after, 1e-9)
    scale = RADIUS / longest
    label = _("Pair {pair} turning: drag the arrows", pair=document.pair)
    parts = [
        f'<svg id="circle" class="circle" viewBox="-128 -128 256 256" role="group" data-scale="{scale!r}" '
        f'aria-label="{label}">',
        _DIAL,
        f'<circle class="orbit" r="{row.radius_before * scale:.3f}"/>',
        f'<path class="arc query-arc" d="{arc(row.before, row.angle, 34.0)}"/>',
        f'<path class="arc key-arc" d="{arc(key.before, key.angle, 26.0)}"/>',
        _arrow("before", row.before, scale, _("query vector of this pair before turning"), ""),
        _arrow("key", key.after, scale, _("key position"), str(document.state.n)),
        _arrow("query", row.after, scale, _("query position"), str(document.state.m)),
        "</svg>",
    ]
    return Markup("".join(map(str, parts)))


_DIAL = (
    '<path class="axis" d="M-104 0H104M0-104V104"/><path class="dial" d="'
    + "".join(
        f"M{r * math.cos(a):.1f} {r * math.sin(a):.1f}L{104 * math.cos(a):.1f} {104 * math.sin(a):.1f}"
        for a, r in ((math.pi * step / 12, 98 if step % 6 == 0 else 101) for step in range(24))
    )
    + '"/><g class="degrees"><text x="108" y="3.5">0°</text><text y="-109" text-anchor="middle">90°</text>'
    '<text x="-108" y="3.5" text-anchor="end">180°</text><text y="117" text-anchor="middle">270°</text></g>'
)


def arc(before: Sequence[float], angle: float, radius: float) -> str:
    """Give the path of the arc from the unturned arrow through the angle, full turns left out."""
    start = math.atan2(before[1], before[0])
    sweep = math.fmod(angle, 2 * math.pi)
    end = start + sweep
    large, side = int(abs(sweep) > math.pi), int(sweep < 0)
    return (
        f"M{radius * math.cos(start):.3f} {-radius * math.sin(start):.3f}"
        f"A{radius:g} {radius:g} 0 {large} {side} {radius * math.cos(end):.3f} {-radius * math.sin(end):.3f}"
    )


def _arrow(kind: str, tip: Sequence[float], scale: float, label: str, value: str) -> str:
    x, y = tip[0] * scale, -tip[1] * scale
    turn = math.degrees(math.atan2(y, x))
    slider = f' role="slider" tabindex="0" aria-valuenow="{escape(value)}"' if value else ' role="img" tabindex="-1"'
    return (
        f'<g class="arrow {kind}" data-arrow="{kind}"{slider} aria-label="{label}">'
        f'<line class="shaft" x2="{x:.3f}" y2="{y:.3f}"/>'
        f'<path class="head" d="M0 0L-9 3.6L-9 -3.6Z" transform="translate({x:.3f} {y:.3f}) rotate({turn:.3f})"/>'
        f'<circle class="grip" cx="{x:.3f}" cy="{y:.3f}" r="16"/></g>'
    )


def spectrum(document: "Document", _: Speech, *, link: bool = True) -> Markup:
    """Draw one stroke a pair on a log axis of wavelength, with the window and the original length: the picker."""
    rows = [row for row in document.speeds.rows if row.wavelength is not None]
    marks = [(document.state.window, "window", _("window"))]
    original = getattr(document.rope.scaling, "original_max_position_embeddings", None)
    if original:
        marks.append((original, "original", _("original length")))
    place = _log_axis([row.wavelength or 1.0 for row in rows] + [float(mark[0]) for mark in marks])
    total = len(document.speeds.rows)
    label = _("Wavelengths of all pairs, short to long, on a logarithmic axis")
    parts = [
        f'<svg class="spectrum" viewBox="0 0 {SPECTRUM_WIDTH:g} {SPECTRUM_HEIGHT:g}" role="group" '
        f'aria-label="{label}" stroke-width="{min(14.0, (SPECTRUM_WIDTH - 16) / max(len(rows), 1)):.1f}">',
        f'<path class="ground" d="M0 {STROKE_BOTTOM:g}H{SPECTRUM_WIDTH:g}"/>',
    ]
    lines, labels = [], []
    for value, kind, label in marks:
        x = place(float(value))
        anchor, shift = ("end", -4) if x > SPECTRUM_WIDTH - 130 else ("start", 4)
        lines.append(f'<path class="mark {kind}" d="M{x:.1f} 0V{STROKE_BOTTOM:g}"/>')
        labels.append(
            f'<text class="mark-label" x="{x + shift:.1f}" y="{9 if kind == "window" else 20}" '
            f'text-anchor="{anchor}">{label} {value}</text>'
        )
    parts += lines + labels
    links = document.state.links("pair", range(total))
    words = str(_("pair {pair}, wavelength {wavelength}"))
    for row in rows:
        x = place(row.wavelength or 1.0)
        chosen = " chosen" if row.pair == document.pair else ""
        stroke = (
            f'<path class="hit" d="M{x:.1f} {STROKE_TOP - 2:g}V{STROKE_BOTTOM + 2:g}"/>'
            f'<path class="stroke s{shade(row.pair, total)}" d="M{x:.1f} {STROKE_TOP:g}V{STROKE_BOTTOM:g}"/>'
        )
        name = words.format(pair=row.pair, wavelength=f"{row.wavelength:.2f}")
        if link:
            href = escape(links[row.pair])
            pick = f'<a class="pick{chosen}" data-pair="{row.pair}" href="{href}" aria-label="{name}">{stroke}</a>'
            parts.append(pick)
        else:
            parts.append(f'<g class="pick{chosen}" data-pair="{row.pair}">{stroke}</g>')
    parts += _decades(place, SPECTRUM_WIDTH, STROKE_BOTTOM)
    parts.append("</svg>")
    return Markup("".join(map(str, parts)))


def thumbnail(wavelengths: Sequence[float], window: float | None) -> Markup:
    """Draw a preset as the small picture of its wavelengths, one path a shade, at most THUMB_STROKES strokes."""
    place = _log_axis([1.0, 1e8], width=120.0)
    count = len(wavelengths)
    chosen = range(count) if count <= THUMB_STROKES else np.linspace(0, count - 1, THUMB_STROKES).round().astype(int)
    shades: dict[int, str] = {}
    for i in chosen:
        tone = THUMB_SHADES * (shade(int(i), count) // THUMB_SHADES) + THUMB_SHADES // 2
        shades[tone] = shades.get(tone, "") + f"M{place(wavelengths[i]):.1f} 2v16"
    strokes = "".join(f'<path class="stroke s{tone}" d="{d}"/>' for tone, d in shades.items())
    mark = f'<path class="mark window" d="M{place(window):.1f} 0v20"/>' if window else ""
    return Markup(f'<svg class="thumb" viewBox="0 0 120 20" aria-hidden="true">{mark}{strokes}</svg>')


def score_curve(data: dict[str, Any], distance: int, _: Speech) -> Markup:
    """Draw the score against the distance: the mean cosine over pairs, and the given query and key."""
    width, height = SPECTRUM_WIDTH, 150.0
    middle, reach_y = (height - 16) / 2, (height - 16) / 2 - 6
    distances = data["distances"]
    place = _log_axis([1.0, float(max(distances[-1], 10))], width=width)
    series = {"mean": data["mean"], "given": data["given"]}
    reach = {name: max(map(abs, values)) or 1.0 for name, values in series.items()}
    label = _("Score against distance, on a logarithmic axis")
    parts = [
        f'<svg class="curve" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}">',
        f'<line class="axis" x1="0" x2="{width:g}" y1="{middle:g}" y2="{middle:g}"/>',
    ]
    across = [f"{place(max(float(at), 1.0)):.1f}" for at in distances[1:]]
    for name, values in series.items():
        up = reach_y / reach[name]
        points = " ".join(f"{x},{middle - value * up:.1f}" for x, value in zip(across, values[1:], strict=True))
        parts.append(f'<polyline class="line {name}" points="{points}"/>')
    if 1 <= abs(distance) <= distances[-1]:
        x = place(float(abs(distance)))
        parts.append(f'<line class="mark here" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 16:g}"/>')
    parts += _decades(place, width, height - 16)
    parts.append("</svg>")
    return Markup("".join(map(str, parts)))


def heat_map(data: dict[str, Any], _: Speech) -> Markup:
    """Draw cos of the angle by position (across) and pair (down), dark to light."""
    rows, columns = len(data["pairs"]), len(data["positions"])
    width, height = 640.0, 8.0 * rows
    dx, dy = width / columns, height / rows
    label = _("Cosine of the angle, by position and pair")
    parts = [
        f'<svg class="heat" viewBox="0 0 {width:g} {height:g}" role="img" preserveAspectRatio="none" '
        f'aria-label="{label}">'
    ]
    tones = np.minimum(8, ((np.asarray(data["cos"]) + 1) * 4.5).astype(int)).tolist()
    runs: dict[int, list[str]] = {}
    for y, line in enumerate(tones):  # neighbours of one tone are one rectangle, all rectangles of a tone one path
        x = 0
        for tone, run in groupby(line):
            end = x + len(list(run))
            runs.setdefault(tone, []).append(f"M{x} {y}h{end - x}v1H{x}z")
            x = end
    parts.append(f'<g transform="scale({dx:g} {dy:g})">')
    parts += [f'<path class="h{tone}" d="{"".join(runs[tone])}"/>' for tone in sorted(runs) if tone]
    parts.append("</g></svg>")
    return Markup("".join(map(str, parts)))


def _log_axis(values: Sequence[float], width: float = SPECTRUM_WIDTH) -> Any:
    low, high = math.log(min(values)), math.log(max(values))
    span = high - low or 1.0

    def place(value: float) -> float:
        return 4 + (math.log(value) - low) / span * (width - 8)

    return place


def _decades(place: Any, width: float, y: float) -> list[str]:
    """Draw the powers of ten under a logarithmic axis: a tick and a number for each that lies on it."""
    parts = []
    for decade in range(12):
        x = place(10.0**decade)
        if 0 <= x <= width:
            anchor = "start" if x < 8 else "end" if x > width - 12 else "middle"
            parts.append(f'<path class="tick-mark" d="M{x:.1f} {y:g}v4"/>')
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{y + 14:g}" text-anchor="{anchor}">{_decade(decade)}</text>'
            )
    return parts


def _decade(exponent: int) -> str:
    return str(10**exponent) if exponent < 4 else f"10{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(c)] for c in str(exponent))}"
