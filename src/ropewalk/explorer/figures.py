"""The figures, drawn on the server as SVG: they teach before anything is touched, and JavaScript only moves them."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from .i18n import Speech

if TYPE_CHECKING:
    from .data import Document

SHADES = 32  # pairs run through one scale from fast to slow; .s0 … .s31 in the style sheet
RADIUS = 92.0  # of the longer of the two drawn arrows, in the circle's own units
SPECTRUM_WIDTH, SPECTRUM_HEIGHT = 640.0, 56.0


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
        '<line class="axis" x1="-120" x2="120" y1="0" y2="0"/><line class="axis" y1="-120" y2="120" x1="0" x2="0"/>',
        f'<circle class="orbit" r="{row.radius_before * scale:.3f}"/>',
        f'<path class="arc query-arc" d="{arc(row.before, row.angle, 34.0)}"/>',
        f'<path class="arc key-arc" d="{arc(key.before, key.angle, 26.0)}"/>',
        _arrow("before", row.before, scale, _("query vector of this pair before turning"), ""),
        _arrow("key", key.after, scale, _("key position"), str(document.state.n)),
        _arrow("query", row.after, scale, _("query position"), str(document.state.m)),
        "</svg>",
    ]
    return Markup("".join(map(str, parts)))


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
    slider = f' role="slider" tabindex="0" aria-valuenow="{escape(value)}"' if value else ' tabindex="-1"'
    return (
        f'<g class="arrow {kind}" data-arrow="{kind}"{slider} aria-label="{label}">'
        f'<line class="shaft" x2="{x:.3f}" y2="{y:.3f}"/>'
        f'<path class="head" d="M0 0L-9 3.6L-9 -3.6Z" transform="translate({x:.3f} {y:.3f}) rotate({turn:.3f})"/>'
        f'<circle class="grip" cx="{x:.3f}" cy="{y:.3f}" r="16"/></g>'
    )


def spectrum(document: "Document", _: Speech, *, link: bool = True) -> Markup:
    """Draw one stroke a pair on a log axis of wavelength, with the window and the original length; the pair's picker."""
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
        f'aria-label="{label}">'
    ]
    for value, kind, label in marks:
        x = place(float(value))
        anchor = "end" if x > SPECTRUM_WIDTH - 90 else "start"
        shift = -4 if anchor == "end" else 4
        y = 10 if kind == "window" else 21
        parts.append(
            f'<line class="mark {kind}" x1="{x:.2f}" x2="{x:.2f}" y1="0" y2="{SPECTRUM_HEIGHT - 12:g}"/>'
            f'<text class="mark-label" x="{x + shift:.2f}" y="{y}" text-anchor="{anchor}">{label} {value}</text>'
        )
    for row in rows:
        x = place(row.wavelength or 1.0)
        chosen = " chosen" if row.pair == document.pair else ""
        stroke = (
            f'<line class="stroke s{shade(row.pair, total)}" x1="{x:.2f}" x2="{x:.2f}" y1="16" '
            f'y2="{SPECTRUM_HEIGHT - 12:g}"/>'
        )
        name = _("pair {pair}, wavelength {wavelength}", pair=row.pair, wavelength=f"{row.wavelength:.2f}")
        if link:
            href = escape(document.state.link(pair=row.pair))
            parts.append(f'<a class="pick{chosen}" data-pair="{row.pair}" href="{href}" aria-label="{name}">{stroke}</a>')
        else:
            parts.append(f'<g class="pick{chosen}" data-pair="{row.pair}">{stroke}</g>')
    for decade in range(12):
        x = place(10.0**decade)
        if 0 <= x <= SPECTRUM_WIDTH - 8:
            parts.append(f'<text class="tick" x="{x:.1f}" y="{SPECTRUM_HEIGHT - 1:g}">{_decade(decade)}</text>')
    parts.append("</svg>")
    return Markup("".join(map(str, parts)))


def thumbnail(wavelengths: Sequence[float], window: float | None) -> Markup:
    """Draw a preset as the small picture of its wavelengths."""
    place = _log_axis([1.0, 1e8], width=120.0)
    strokes = "".join(
        f'<line class="stroke s{shade(i, len(wavelengths))}" x1="{place(value):.1f}" x2="{place(value):.1f}" y1="2" y2="18"/>'
        for i, value in enumerate(wavelengths)
    )
    mark = f'<line class="mark window" x1="{place(window):.1f}" x2="{place(window):.1f}" y1="0" y2="20"/>' if window else ""
    return Markup(f'<svg class="thumb" viewBox="0 0 120 20" aria-hidden="true">{mark}{strokes}</svg>')


def score_curve(data: dict[str, Any], distance: int, _: Speech) -> Markup:
    """Draw the score against the distance: the mean cosine over pairs, and the given query and key."""
    width, height = 640.0, 180.0
    distances = data["distances"]
    place = _log_axis([1.0, float(max(distances[-1], 10))], width=width)
    series = {"mean": data["mean"], "given": data["given"]}
    reach = {name: max(map(abs, values)) or 1.0 for name, values in series.items()}
    label = _("Score against distance, on a logarithmic axis")
    parts = [
        f'<svg class="curve" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{label}">',
        f'<line class="axis" x1="0" x2="{width:g}" y1="{height / 2:g}" y2="{height / 2:g}"/>',
    ]
    for name, values in series.items():
        points = " ".join(
            f"{place(max(float(at), 1.0)):.1f},{height / 2 - value / reach[name] * (height / 2 - 14):.1f}"
            for at, value in zip(distances[1:], values[1:], strict=True)
        )
        parts.append(f'<polyline class="line {name}" points="{points}"/>')
    if distance:
        x = place(float(abs(distance)))
        parts.append(f'<line class="mark here" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 14:g}"/>')
    for decade in range(12):
        x = place(10.0**decade)
        if 0 <= x <= width - 8:
            parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 2:g}">{_decade(decade)}</text>')
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
    for y, values in enumerate(data["cos"]):
        for tone in range(1, 9):  # one path a tone keeps the picture small
            cells = "".join(
                f"M{x * dx:.1f} {y * dy:.1f}h{dx:.2f}v{dy:.2f}h-{dx:.2f}z"
                for x, value in enumerate(values)
                if min(8, int((value + 1) / 2 * 9)) == tone
            )
            if cells:
                parts.append(f'<path class="h{tone}" d="{cells}"/>')
    parts.append("</svg>")
    return Markup("".join(map(str, parts)))


def _log_axis(values: Sequence[float], width: float = SPECTRUM_WIDTH) -> Any:
    low, high = math.log(min(values)), math.log(max(values))
    span = high - low or 1.0

    def place(value: float) -> float:
        return 4 + (math.log(value) - low) / span * (width - 8)

    return place


def _decade(exponent: int) -> str:
    return str(10**exponent) if exponent < 4 else f"10{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(c)] for c in str(exponent))}"
