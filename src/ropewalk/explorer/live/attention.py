"""Attention on numbers: three tokens read each other; and tokens that change places take their outputs along."""

import math
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ..i18n import Speech
from ..wording import noise
from ._piece import Piece, Values, flag, joined, letters, line, plain, short, svg, table, vector, words

Matrix = NDArray[np.float64]

NAMES = "ABC"
QUERIES = np.array([[2.0, 0, 0, 0], [0, 2, 0, 0], [1, 1, 1, 1]])
KEYS = np.array([[2.0, 0, 1, 0], [1, 1, 0, 0], [0, 2, 0, 1]])
VALUES = np.array([[1.0, 0], [0, 1], [-1, 0]])
TOKENS = {"A": (1.0, 0.0), "B": (0.0, 1.0), "C": (2.0, 1.0), "D": (1.0, 1.0)}  # each its own query, key and value


def attend(q: Matrix, k: Matrix, v: Matrix, *, causal: bool = False) -> tuple[Matrix, Matrix, Matrix]:
    """Give scores, weights and outputs of softmax attention, scores divided by sqrt(d)."""
    scores = q @ k.T / math.sqrt(q.shape[1])
    seen = np.tril(np.ones_like(scores, dtype=bool)) if causal else np.ones_like(scores, dtype=bool)
    weights = np.where(seen, np.exp(scores - scores.max(axis=1, keepdims=True)), 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return scores, weights, weights @ v


def _attention(_: Speech, values: Values) -> Markup:
    scores, weights, outputs = attend(QUERIES, KEYS, VALUES)
    given = table(
        _("Three tokens: what each asks for, answers to and hands over"),
        [_("token"), _("query q"), _("key k"), _("value v")],
        [(name, vector(QUERIES[i], 0), vector(KEYS[i], 0), vector(VALUES[i], 0)) for i, name in enumerate(NAMES)],
    )
    read = table(
        _("Who reads whom: scores q·k/√4, weights after softmax, and outputs"),
        [
            _("query of"),
            *(_("score with {token}", token=name) for name in NAMES),
            *(_("weight of {token}", token=name) for name in NAMES),
            _("output"),
        ],
        [
            (name, *(short(s) for s in scores[i]), *(plain(w) for w in weights[i]), vector(outputs[i]))
            for i, name in enumerate(NAMES)
        ],
    )
    note = Markup('<p class="note">{}</p>\n').format(
        _(
            "A larger square is a larger weight. Each output is a weighted mean of the values, so it lies inside "
            "their triangle."
        )
    )
    drawings = Markup('<div class="drawings">{}{}</div>\n').format(_squares(_, weights), _triangle(_, outputs))
    return joined([given, drawings, note, read])


def _squares(_: Speech, weights: Matrix) -> Markup:
    parts = []
    for i, name in enumerate(NAMES):
        parts.append(words(12, 58 + 50 * i, name))
        parts.append(words(55 + 50 * i, 16, name))
        for j in range(3):
            side = 44 * math.sqrt(weights[i, j])
            x, y = 55 + 50 * j - side / 2, 54 + 50 * i - side / 2
            parts.append(
                f'<rect class="weight" x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" '
                'fill="currentColor"/>'
            )
    return svg("squares", 190, 190, _("Weights: a row for each query, a column for each key"), parts, fixed_size=True)


def _triangle(_: Speech, outputs: Matrix) -> Markup:
    def place(point: Any) -> tuple[float, float]:
        return 110 + 75 * float(point[0]), 150 - 115 * float(point[1])

    corners = " ".join("{:.1f},{:.1f}".format(*place(value)) for value in VALUES)
    parts = [f'<polygon class="line" points="{corners}" fill="none" stroke="currentColor"/>']
    for name, value, output in zip(NAMES, VALUES, outputs, strict=True):
        (x, y), (at, down) = place(value), place(output)
        parts.append(words(x, y - 8 if value[1] > 0 else y + 18, f"v {name}"))
        parts.append(f'<circle class="dot" cx="{at:.1f}" cy="{down:.1f}" r="4" fill="currentColor"/>')
        parts.append(words(at, down + 16, f"y {name}", kind="tick output"))
    return svg("plane", 220, 190, _("Values at the corners, outputs between them"), parts, fixed_size=True)


def shuffle(order: str) -> tuple[str, list[int]]:
    """Give the tokens in alphabetical order, and for each token of the order given the place where it stood there."""
    before = "".join(sorted(order))
    places = [before.index(name) + order[:i].count(name) for i, name in enumerate(order)]
    return before, places


def _permute(_: Speech, values: Values) -> Markup:
    order, causal = values["order"], values["mask"]
    before, places = shuffle(order)
    was, now = (_self_attention(tokens, causal) for tokens in (before, order))
    rows = []
    for i, name in enumerate(order):
        difference = float(np.abs(now[i] - was[places[i]]).max())
        rows.append((i, name, vector(now[i]), places[i], vector(was[places[i]]), noise(difference)))
    largest = float(np.abs(now - was[places]).max())
    first = table(
        _("Before: the tokens in alphabetical order"),
        [_("place"), _("token"), _("vector"), _("output")],
        [(i, name, vector(TOKENS[name], 0), vector(was[i])) for i, name in enumerate(before)],
    )
    second = table(
        _("After: the same tokens in your order"),
        [_("place"), _("token"), _("output"), _("stood at"), _("output there"), _("difference")],
        rows,
    )
    verdict = (
        _(
            "With the causal mask a token sees only itself and those before it: outputs differ by up to {largest}.",
            largest=noise(largest),
        )
        if causal
        else _(
            "The same rows, moved. The largest difference of an output is {largest}: at most the noise of float64.",
            largest=noise(largest),
        )
    )
    note = Markup('<p class="note">{} {}</p>\n').format(
        _("Each token is its own query, key and value; scores are divided by √2."), verdict
    )
    return joined([first, _crossing(_, before, order, places), second, note])


def _self_attention(order: str, causal: bool) -> Matrix:
    x = np.array([TOKENS[name] for name in order])
    return attend(x, x, x, causal=causal)[2]


def _crossing(_: Speech, before: str, order: str, places: list[int]) -> Markup:
    parts = []
    for i, name in enumerate(order):
        shade = 8 * "ABCD".index(name)
        parts.append(line(30 + 60 * places[i], 24, 30 + 60 * i, 76, f"stroke s{shade}"))
        parts.append(words(30 + 60 * i, 96, name, size=16))
    parts += [words(30 + 60 * i, 16, name, size=16) for i, name in enumerate(before)]
    return svg("crossing", 60 * len(order), 104, _("Where each token moved"), parts, fixed_size=True)


ATTENTION = Piece(name="attention", draw=_attention, title=lambda _: _("Three tokens reading each other"))
PERMUTE = Piece(
    name="permute",
    draw=_permute,
    title=lambda _: _("Tokens that change places"),
    controls=(letters("order", "CABD", "ABCD", 2, 6), flag("mask")),
    labels=lambda _: {"order": _("order of the tokens (2 to 6 letters from A to D)"), "mask": _("causal mask")},
)
