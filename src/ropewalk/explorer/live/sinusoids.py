"""The additive sinusoidal code: a picture of its numbers, and the dot product of two codes by distance."""

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray

from ..i18n import Speech
from ._piece import Piece, Values, choice, joined, line, plain, polyline, short, svg, table, vector, whole, words

POSITIONS = 64
BASE = 10000.0
WIDTH = 640.0


def code(positions: ArrayLike, d: int) -> NDArray[np.float64]:
    """Give p_m = (sin mθ_0, cos mθ_0, sin mθ_1, …) for each position, [..., d]."""
    angles = np.asarray(positions, dtype=np.float64)[..., None] * BASE ** (-2.0 * np.arange(d // 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*angles.shape[:-1], d)


def _sinusoids(_: Speech, values: Values) -> Markup:
    d, m, n = values["d"], values["m"], values["n"]
    query, key = code(m, d), code(n, d)
    rows = [
        (i, plain(BASE ** (-2.0 * i / d)), *(vector(p[2 * i : 2 * i + 2]) for p in (query, key)),
         plain(float(query[2 * i : 2 * i + 2] @ key[2 * i : 2 * i + 2])))
        for i in range(d // 2)
    ]  # fmt: skip
    total = plain(float(query @ key))
    numbers = table(
        _("The two codes, pair by pair, and what each pair adds to their dot product"),
        [_("pair"), "θ", _("code of {position}", position=m), _("code of {position}", position=n), _("product")],
        rows,
        foot=(_("total"), "", "", "", total),
    )
    heat = Markup("<figure>{}<figcaption>{}</figcaption></figure>\n").format(
        _heat(_, d, m, n),
        _("Positions 0 to 63 across, {d} dimensions down: sine and cosine in turn, from fast to slow.", d=d),
    )
    curve = Markup("<figure>{}<figcaption>{}</figcaption></figure>\n").format(
        _curve(_, d, m - n),
        _(
            "Dot product of two codes by distance, −63 to 63. At distance {distance} it is {total}; "
            "the curve is even: before and after look alike.",
            distance=m - n,
            total=total,
        ),
    )
    return joined([heat, curve, numbers])


def _heat(_: Speech, d: int, m: int, n: int) -> Markup:
    tones = np.minimum(8, ((code(np.arange(POSITIONS), d) + 1) / 2 * 9).astype(int))
    cell = WIDTH / POSITIONS
    parts = []
    for tone in range(1, 9):  # one path a tone keeps the picture small; tone 0 is the ground
        cells = "".join(
            f"M{p * cell:g} {c * cell:g}h{cell:g}v{cell:g}h-{cell:g}z" for p, c in np.argwhere(tones == tone)
        )
        parts.append(f'<path class="h{tone}" d="{cells}"/>')
    for position, kind in ((m, "query"), (n, "key")):
        if 0 <= position < POSITIONS:
            parts.append(
                f'<rect class="mark {kind}" x="{position * cell:g}" y="0" width="{cell:g}" height="{d * cell:g}" '
                'fill="none" stroke="currentColor"/>'
            )
            parts.append(words(position * cell + cell / 2, d * cell + 13, position))
    for tone in range(1, 9):
        parts.append(f'<path class="h{tone}" d="M{WIDTH - 116 + 10 * tone:g} {d * cell + 5:g}h10v10h-10z"/>')
    parts.append(words(WIDTH - 112, d * cell + 14, "−1", anchor="end"))
    parts.append(words(WIDTH - 22, d * cell + 14, "1", anchor="start"))
    return svg("heat", WIDTH, d * cell + 18, _("The sinusoidal code of positions 0 to 63"), parts)


def _curve(_: Speech, d: int, distance: int) -> Markup:
    top, bottom = 10.0, 130.0
    reach = np.arange(-POSITIONS + 1, POSITIONS)
    products = code(reach, d) @ code(0, d)
    low, high = min(0.0, float(products.min())), float(products.max())

    def place(at: float, value: float) -> tuple[float, float]:
        x = WIDTH / 2 + at * (WIDTH / 2 - 8) / (POSITIONS - 1)
        return x, bottom - (value - low) / (high - low) * (bottom - top)

    zero = place(0, 0.0)[1]
    parts = [
        line(0, zero, WIDTH, zero),
        polyline(place(at, value) for at, value in zip(reach.tolist(), products.tolist(), strict=True)),
    ]
    parts.append(words(place(0, high)[0] + 12, top + 4, short(high), anchor="start"))
    for at in sorted({distance, -distance}):
        if abs(at) < POSITIONS:
            x, y = place(at, float(products[at + POSITIONS - 1]))
            parts.append(line(x, top, x, bottom, "mark here"))
            parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4" fill="currentColor"/>')
    parts += [words(place(at, 0)[0], bottom + 16, at, anchor="middle") for at in (-60, -40, -20, 0, 20, 40, 60)]
    return svg("curve", WIDTH, bottom + 20, _("Dot product of two codes by their distance"), parts)


SINUSOIDS = Piece(
    name="sinusoids",
    draw=_sinusoids,
    title=lambda _: _("The additive sinusoidal code"),
    controls=(
        choice("d", 16, (4, 8, 16, 32)),
        whole("m", 7, -1_000_000, 1_000_000),
        whole("n", 2, -1_000_000, 1_000_000),
    ),
    labels=lambda _: {"d": _("Dimension d"), "m": _("position m"), "n": _("position n")},
)
