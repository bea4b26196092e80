"""What a real model made of each way: SmolLM2-135M beyond its 8192 tokens, as it was measured and shipped."""

from collections.abc import Iterator

from markupsafe import Markup

from ...measuring.curves import Curve, Measurement
from ...measuring.shipped import shipped
from ..i18n import Speech
from ..wording import fixed
from ._piece import Piece, Values, choice, joined, line, polyline, svg, table, words
from .stretch import method_names

ROWS = 16
WIDTH, HEIGHT, LEFT, RIGHT, FOOT = 460.0, 240.0, 18.0, 100.0, 34.0
GAP = 15.0  # between the names at the curves' ends


def folded(curve: Curve, rows: int) -> Iterator[float]:
    """Give the mean losses of a curve in so many parts of equal length."""
    size = len(curve.losses) // rows
    for i in range(0, size * rows, size):
        losses, counts = curve.losses[i : i + size], curve.counts[i : i + size]
        yield sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)


def _measured(_: Speech, values: Values) -> Markup:
    told = shipped()
    one = told.measurements[values["times"]]
    names = method_names(_)
    span = one.tokens // ROWS
    rows = zip(*(folded(curve, ROWS) for curve in one.curves), strict=True)
    losses = table(
        _("Mean loss in nats a token, by position; nothing was trained"),
        [_("positions"), *(names[curve.name] for curve in one.curves)],
        [(f"{i * span}–{(i + 1) * span - 1}", *(fixed(loss, 2) for loss in row)) for i, row in enumerate(rows)],
    )
    means = table(
        _("On average within the {trained} tokens that it was trained on, and beyond them", trained=one.trained),
        [_("method"), _("within"), _("beyond")],
        [(names[curve.name], fixed(curve.inside, 2), fixed(curve.beyond, 2)) for curve in one.curves],
    )
    source = Markup('<p class="note">{}</p>\n').format(
        _(
            "SmolLM2-135M-Instruct in {dtype}, over the first {tokens} tokens of Python's help texts, in one pass for "
            "each method, on {date}; a length-dependent method takes the whole length. To measure it again: {command}",
            dtype=one.dtype,
            tokens=one.tokens,
            date=told.date,
            command=Markup("<code>{}</code>").format(told.command),
        )
    )
    details = Markup("<details><summary>{}</summary>\n{}</details>\n").format(_("All numbers"), losses)
    return joined([_picture(_, one), means, details, source])


def _picture(_: Speech, one: Measurement) -> Markup:
    top = max(max(curve.losses) for curve in one.curves) * 1.05
    right, bottom = WIDTH - RIGHT, HEIGHT - FOOT

    def x(position: float) -> float:
        return LEFT + position / one.tokens * (right - LEFT)

    def y(loss: float) -> float:
        return bottom - loss / top * (bottom - 8)

    parts = [line(LEFT, bottom, right, bottom)]
    for loss in range(1, int(top) + 1):
        parts += [line(LEFT, y(loss), right, y(loss), "guide"), words(LEFT - 5, y(loss) + 4, loss, anchor="end")]
    for k in range(5):
        position = k * one.tokens // 4
        parts.append(words(x(position), bottom + 14, position, anchor="middle" if k else "start"))
    parts += [
        line(x(one.trained), 8, x(one.trained), bottom, "mark original"),
        words(x(one.trained) + 4, 16, _("trained"), anchor="start"),
        words((LEFT + right) / 2, HEIGHT - 4, _("position"), kind="tick"),
        words(LEFT, 4, _("loss, nats a token"), anchor="start"),
    ]
    names, place = method_names(_), HEIGHT
    for curve in sorted(one.curves, key=lambda curve: curve.losses[-1]):
        points = [(x((i + 0.5) * one.bucket), y(loss)) for i, loss in enumerate(curve.losses)]
        parts.append(polyline(points, f"line m-{curve.name}"))
        place = min(y(curve.losses[-1]) + 4, place - GAP)
        parts.append(words(right + 8, place, names[curve.name], kind=f"name m-{curve.name}", anchor="start"))
        lead = [(points[-1][0] + 2, points[-1][1]), (right + 5, place - 4)]
        parts.append(polyline(lead, f"line lead m-{curve.name}"))
    label = _("Loss by position for each method, {tokens} tokens, trained at {trained}", tokens=one.tokens,
              trained=one.trained)  # fmt: skip
    return svg("measured", WIDTH, HEIGHT, label, parts)


MEASURED = Piece(
    name="measured",
    draw=_measured,
    title=lambda _: _("A measurement: one small model, beyond the length it was trained at"),
    controls=(choice("times", 2, (2, 4)),),
    labels=lambda _: {"times": _("Times the trained length")},
)
