"""The odometer: a position as digits in base β on wheels, beside the circles that RoPE puts in their place."""

import math
from dataclasses import dataclass

from markupsafe import Markup

from ...rope import Rope
from ...simulation import wrapped_degrees
from ..figures import shade
from ..i18n import Speech
from ._piece import Piece, Values, choice, joined, line, plain, real, short, svg, table, whole, words

DRAWN = 8  # pairs that are drawn before the middle is left out
ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One digit of a position, and its circle.

    Attributes:
        pair: i, 0 for the units and the fastest circle.
        divisor: β^i.
        quotient: position / β^i.
        remainder: the quotient modulo β, from 0 up to but not including β.
        digit: the remainder's whole part where β is a whole number, else None.
        period: β^(i+1), tokens in which the wheel turns once.
        turns: full turns of the wheel so far.
        angle: position·θ_i, the circle's angle in radians.
        circle_period: 2π·β^i, tokens in which the circle turns once.
        circle_turns: full turns of the circle so far.
    """

    pair: int
    divisor: float
    quotient: float
    remainder: float
    digit: int | None
    period: float
    turns: int
    angle: float
    circle_period: float
    circle_turns: int


def radix(d: int, base: float) -> float:
    """Give β = base^(2/d); one that is whole but for float noise is made whole.

    >>> radix(8, 10000.0), radix(2, 1000.0), round(radix(128, 10000.0), 6)
    (10.0, 1000.0, 1.154782)
    """
    beta = base ** (2.0 / d)
    return float(round(beta)) if beta >= 1.5 and abs(beta - round(beta)) < 1e-12 * beta else beta


def wheels(position: int, d: int, base: float) -> tuple[Wheel, ...]:
    """Give the digits of a position, least significant first, with their circles."""
    beta = radix(d, base)
    pairs = Rope(head_dim=d, rope_theta=base, pairing="interleaved").pairs()
    rows = []
    for i, (inv_freq, wavelength) in enumerate(zip(pairs.inv_freq.tolist(), pairs.wavelength.tolist(), strict=True)):
        if beta.is_integer():  # whole numbers throughout: no digit is off by float noise
            power = int(beta) ** i
            turns, left = divmod(position, power * int(beta))
            divisor, remainder, digit = float(power), left / power, left // power
        else:
            divisor, digit = beta**i, None
            remainder = math.fmod(position / divisor, beta)
            turns = round((position / divisor - remainder) / beta)
        angle = position * inv_freq
        rows.append(
            Wheel(
                pair=i,
                divisor=divisor,
                quotient=position / divisor,
                remainder=remainder,
                digit=digit,
                period=divisor * beta,
                turns=turns,
                angle=angle,
                circle_period=wavelength,
                circle_turns=math.floor(angle / (2 * math.pi)),
            )
        )
    return tuple(rows)


def _odometer(_: Speech, values: Values) -> Markup:
    position, d, base = values["position"], values["d"], values["base"]
    beta, rows = radix(d, base), wheels(position, d, base)
    parts = [Markup("<p>{}</p>\n").format(_opening(_, position, beta, rows))]
    steps = [(-1, "−1"), (1, "+1")]
    links = [
        Markup('<a class="button" rel="nofollow" href="{}">{}</a>').format(
            ODOMETER.link(values, position=position + step), text
        )
        for step, text in steps
        if 0 <= position + step <= MAX_TOKENS
    ]
    parts.append(Markup('<p class="walk">{}</p>\n').format(Markup(" ").join(links)))
    drawn = rows if len(rows) <= DRAWN else (*rows[: DRAWN - 1], rows[-1])
    parts.append(
        Markup('<div class="drawings">{}</div>\n').format(joined(_pair(_, row, beta, len(rows)) for row in drawn))
    )
    parts.append(
        Markup('<p class="note">{} {}</p>\n').format(
            _(
                "Left the wheel of digits, right the circle; pair 0, the units, comes first. Wheels start at the top "
                "and run clockwise, circles start at the right and run the other way, as in the simulator. "
                "↻ counts full turns."
            ),
            _("{count} pairs between are not drawn.", count=len(rows) - len(drawn)) if len(drawn) < len(rows) else "",
        )
    )
    parts.append(_table(_, rows))
    parts.append(Markup("<p>{}</p>\n").format(_closing(_, position, rows[-1])))
    return joined(parts)


def _opening(_: Speech, position: int, beta: float, rows: tuple[Wheel, ...]) -> Markup:
    if rows[0].digit is None:
        return _(
            "Here β = {beta} is no whole number, so there are no digits to write down; the remainders are there "
            "all the same.",
            beta=plain(beta),
        )
    written = f"({', '.join(str(row.digit) for row in reversed(rows))})"
    if rows[-1].turns:
        return _(
            "In base β = {beta} the last {count} digits of position {position} are {digits}, the most significant "
            "first; the wheels stand the other way round, units first.",
            beta=short(beta),
            count=len(rows),
            position=position,
            digits=written,
        )
    return _(
        "In base β = {beta} position {position} is written {digits}, the most significant digit first; "
        "the wheels stand the other way round, units first.",
        beta=short(beta),
        position=position,
        digits=written,
    )


def _closing(_: Speech, position: int, last: Wheel) -> Markup:
    return _(
        "The slowest wheel turns once in {period} tokens, the slowest circle once in {circle_period}. "
        "Full turns by position {position}: that wheel {turns}, that circle {circle_turns}.",
        period=short(last.period, 2),
        circle_period=plain(last.circle_period, 2),
        position=position,
        turns=last.turns,
        circle_turns=last.circle_turns,
    )


def _table(_: Speech, rows: tuple[Wheel, ...]) -> Markup:
    shown = rows if len(rows) <= ROWS else (*rows[: ROWS - 1], rows[-1])
    cells = [
        (
            row.pair,
            short(row.divisor, 3),
            short(row.quotient, 3),
            short(row.remainder, 3),
            "–" if row.digit is None else row.digit,
            short(row.period, 2),
            row.turns,
            f"{plain(wrapped_degrees(row.angle), 2)}°",
            plain(row.circle_period, 2),
            row.circle_turns,
        )
        for row in shown
    ]
    caption = _("Wheels and circles, pair by pair")
    if len(shown) < len(rows):
        caption += Markup(" · ") + _("{count} rows are left out.", count=len(rows) - len(shown))
    return table(
        caption,
        [
            _("pair"),
            _("divided by"),
            _("gives"),
            _("remainder"),
            _("digit"),
            _("wheel turns once in"),
            _("wheel wrapped"),
            _("circle at"),
            _("circle turns once in"),
            _("circle wrapped"),
        ],
        cells,
    )


def _pair(_: Speech, row: Wheel, beta: float, total: int) -> Markup:
    shaded = f"s{shade(row.pair, total)}"
    parts = [words(88, 14, _("pair {pair}", pair=row.pair), size=12)]
    parts += _dial(46, "wheel", shaded, math.pi / 2 - 2 * math.pi * row.remainder / beta, row.turns > 0)
    parts += _dial(130, "round", shaded, row.angle, row.circle_turns > 0)
    if beta.is_integer() and beta <= 12:
        for digit in range(int(beta)):
            at = math.pi / 2 - 2 * math.pi * digit / beta
            parts.append(words(46 + 28 * math.cos(at), 65.5 - 28 * math.sin(at), digit, kind="digit", size=9))
    else:
        parts.append(words(46, 38, "0", kind="digit", size=9))
    parts.append(words(46, 116, short(row.remainder, 3)))
    parts.append(words(130, 116, f"{wrapped_degrees(row.angle):.2f}°"))
    for x, turns in ((46, row.turns), (130, row.circle_turns)):
        parts.append(words(x, 131, f"↻ {turns}", kind="tick turns wrapped" if turns else "tick turns"))
    name = _(
        "pair {pair}: wheel at {remainder}, full turns {turns}; circle at {degrees}°, full turns {circle_turns}",
        pair=row.pair,
        remainder=short(row.remainder, 3),
        turns=row.turns,
        degrees=plain(wrapped_degrees(row.angle), 2),
        circle_turns=row.circle_turns,
    )
    return svg("wheels", 176, 138, name, parts, fixed_size=True)


def _dial(x: float, kind: str, shaded: str, angle: float, wrapped: bool) -> list[str]:
    tip_x, tip_y = x + 17 * math.cos(angle), 62 - 17 * math.sin(angle)
    start_x, start_y = (x, 62 - 36.0) if kind == "wheel" else (x + 36.0, 62.0)
    inner = (start_x + (x - start_x) / 6, start_y + (62 - start_y) / 6)
    state = " wrapped" if wrapped else ""
    return [
        f'<circle class="orbit {kind}{state}" cx="{x:g}" cy="62" r="36" fill="none" stroke="currentColor"/>',
        line(start_x, start_y, *inner, kind="axis"),
        line(x, 62, tip_x, tip_y, f"stroke {shaded}"),
        f'<circle class="{shaded}" cx="{tip_x:.2f}" cy="{tip_y:.2f}" r="3"/>',
    ]


MAX_TOKENS = 10**9
ODOMETER = Piece(
    name="odometer",
    draw=_odometer,
    title=lambda _: _("The odometer beside the circles"),
    controls=(
        whole("position", 9999, 0, MAX_TOKENS),
        choice("d", 8, (2, 4, 6, 8, 16, 32, 64, 128)),
        real("base", 10000.0, 2.0, 1e12),
    ),
    labels=lambda _: {"position": _("position"), "d": _("Dimension d"), "base": _("Base θ")},
)
