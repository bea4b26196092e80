"""The big rotation matrix: where it is not zero, and the two products and one sum that do its work."""

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ...pairs import Pairs
from ...rope import Rope
from ...simulation import DEFAULT_QUERY
from ...turning.naive import rotate, tables
from ..figures import shade
from ..i18n import Speech
from ..wording import noise
from ._piece import Piece, Values, choice, joined, plain, svg, table, whole, words

D = 8
CELL = 38.0


def rope_of(pairing: str) -> Rope:
    """Give the lesson's rope with one of the two pairings."""
    return Rope(head_dim=D, rope_theta=10000.0, pairing=pairing)


def doubled(rope: Rope, position: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give cos and sin for every channel, each pair's value twice, [D] each."""
    pairs, (cos, sin) = rope.pairs(), tables(rope, [position])
    wide = np.empty((2, D))
    for channels in (pairs.first, pairs.second):
        wide[0, channels], wide[1, channels] = cos[0], sin[0]
    return wide[0], wide[1]


def quarter_turn(x: NDArray[np.float64], pairs: Pairs) -> NDArray[np.float64]:
    """Give rotate(x): the channels of each pair change places, and the first takes a minus."""
    turned = np.empty_like(x)
    turned[pairs.first], turned[pairs.second] = -x[pairs.second], x[pairs.first]
    return turned


def matrix(rope: Rope, position: int) -> NDArray[np.float64]:
    """Give the rotation matrix of a position, [D, D]: its columns are the turned unit vectors."""
    return rotate(np.eye(D)[:, None, None, :], [position], rope)[:, 0, 0].T


def _sparse(_: Speech, values: Values) -> Markup:
    position, pairing = values["position"], values["pairing"]
    drawings = Markup('<div class="drawings">{}{}</div>\n').format(
        _picture(_, "interleaved", position, _("Pairs (0,1), (2,3) …: the blocks lie on the diagonal")),
        _picture(_, "half", position, _("Pairs (i, i + d/2): the same numbers, spread out")),
    )
    count = Markup('<p class="note">{}</p>\n').format(
        _(
            "At d = {d} the blocks fill {count} of {total} places, two in each row; "
            "at d = 128 they fill {wide} of {wide_total}.",
            d=D,
            count=2 * D,
            total=D * D,
            wide=2 * 128,
            wide_total=128 * 128,
        )
    )
    rope = rope_of(pairing)
    x = np.array(DEFAULT_QUERY)
    cos, sin = doubled(rope, position)
    turned = quarter_turn(x, rope.pairs())
    result, whole_matrix = x * cos + turned * sin, matrix(rope, position) @ x
    work = table(
        _("x·cos + rotate(x)·sin for the simulator's query at position {position}", position=position),
        [_("dim"), "x", "cos", "rotate(x)", "sin", "x·cos + rotate(x)·sin", _("matrix times x"), _("difference")],
        [
            (
                c,
                *(plain(float(column[c])) for column in (x, cos, turned, sin, result, whole_matrix)),
                noise(abs(float(result[c] - whole_matrix[c]))),
            )
            for c in range(D)
        ],
    )
    return joined([drawings, count, work])


def _picture(_: Speech, pairing: str, position: int, label: Markup) -> Markup:
    rope = rope_of(pairing)
    full, pairs = matrix(rope, position), rope.pairs()
    pair_of = {int(c): i for channels in (pairs.first, pairs.second) for i, c in enumerate(channels)}
    parts = []
    for row in range(D):
        for column in range(D):
            x, y = column * CELL + CELL / 2, row * CELL + CELL / 2
            if pair_of[row] != pair_of[column]:
                parts.append(f'<circle class="zero" cx="{x:g}" cy="{y:g}" r="1" fill="currentColor"/>')
                continue
            parts.append(
                f'<rect class="s{shade(pair_of[row], D // 2)}" x="{x - CELL / 2 + 1:g}" y="{y - CELL / 2 + 1:g}" '
                f'width="{CELL - 2:g}" height="{CELL - 2:g}" fill-opacity="0.22" stroke-opacity="0"/>'
            )
            parts.append(words(x, y + 4, plain(float(full[row, column]), 3), kind="entry", size=10))
    parts.append(
        f'<rect class="axis" x="0.5" y="0.5" width="{D * CELL - 1:g}" height="{D * CELL - 1:g}" fill="none" '
        'stroke="currentColor"/>'
    )
    drawing = svg("grid", D * CELL, D * CELL, label, parts, fixed_size=True)
    return Markup("<figure>{}<figcaption>{}</figcaption></figure>\n").format(drawing, label)


SPARSE = Piece(
    name="sparse",
    draw=_sparse,
    title=lambda _: _("The rotation matrix of 8 dimensions"),
    controls=(whole("position", 7, -1_000_000, 1_000_000), choice("pairing", "interleaved", ("interleaved", "half"))),
    labels=lambda _: {"position": _("position"), "pairing": _("Pairing of the table")},
)
