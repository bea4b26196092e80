"""Three ways to write RoPE, as NumPy twins, run on one vector and held against ropewalk's float64 truth."""

from collections.abc import Callable

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ...rope import Rope
from ...simulation import DEFAULT_QUERY, default_rope
from ...turning.naive import rotate
from ..i18n import Speech
from ..wording import noise
from ._piece import Piece, Values, joined, plain, table, vector, whole

Array = NDArray[np.float64]
D = 8
TO_HALVES = np.r_[0:D:2, 1:D:2]  # channels of neighbouring pairs, in the order of the half-split forms


def chatglm(x: Array, position_id: NDArray[np.int64], base: float = 10000.0) -> Array:
    """Turn x [S, B, H, D] by position_id [S, B], as ChatGLM-6B's code does: one table, gathered by position."""
    d = x.shape[-1]
    theta = base ** (-np.arange(0, d, 2) / d)
    angles = np.outer(np.arange(position_id.max() + 1), theta)
    table = np.concatenate([angles, angles], axis=-1)[:, None]
    cos, sin = np.cos(table)[position_id], np.sin(table)[position_id]
    return x * cos + rotate_half(x) * sin


def llama(x: Array, position_ids: NDArray[np.int64], base: float = 10000.0) -> Array:
    """Turn x [B, H, S, D] by position_ids [B, S], as Llama in transformers does: angles from the positions."""
    d = x.shape[-1]
    inv_freq = base ** (-np.arange(0, d, 2) / d)
    freqs = position_ids[:, :, None] * inv_freq
    emb = np.concatenate([freqs, freqs], axis=-1)[:, None]
    return x * np.cos(emb) + rotate_half(x) * np.sin(emb)


def complex_form(x: Array, positions: NDArray[np.int64], base: float = 10000.0) -> Array:
    """Turn x [B, S, H, D] by positions [B, S], as Meta's Llama does: neighbours are one complex number."""
    d = x.shape[-1]
    theta = base ** (-np.arange(0, d, 2) / d)
    turn = np.exp(1j * positions[:, :, None, None] * theta)
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def rotate_half(x: Array) -> Array:
    """Give (-second half, first half)."""
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([-x2, x1], axis=-1)


def run(x: Array, position: int) -> dict[str, Array]:
    """Run the three forms on one vector of neighbouring pairs; each answers in its own order of channels."""
    halves, at = x[TO_HALVES], np.array([[position]])
    return {
        "ChatGLM-6B": chatglm(halves[None, None, None], at).ravel(),
        "Llama": llama(halves[None, None, None], at).ravel(),
        "complex": complex_form(x[None, None, None], at).ravel(),
    }


def deviations(x: Array, position: int) -> dict[str, float]:
    """Give each form's largest difference from the truth, both with neighbouring pairs."""
    truth = _turned(x, position, default_rope())
    return {
        name: float(np.abs((out if name == "complex" else _neighbours(out)) - truth).max())
        for name, out in run(x, position).items()
    }


def _turned(x: Array, position: int, rope: Rope) -> Array:
    return rotate(x[None, None], [position], rope)[0, 0]


def _neighbours(x: Array) -> Array:
    """Bring channels from halves to neighbouring pairs."""
    back = np.empty_like(x)
    back[TO_HALVES] = x
    return back


def _codes(_: Speech, values: Values) -> Markup:
    position = values["position"]
    x = np.array(DEFAULT_QUERY)
    outputs, gaps = run(x, position), deviations(x, position)
    truth = _turned(x, position, default_rope())
    in_one_order = {name: out if name == "complex" else _neighbours(out) for name, out in outputs.items()}
    names = {"ChatGLM-6B": "ChatGLM-6B", "Llama": "Llama", "complex": _("complex")}
    own = table(
        _("The simulator's query at position {position}, each form in its own order of channels", position=position),
        [_("form"), _("order of channels"), _("output"), _("largest difference from ropewalk")],
        [
            (
                names[name],
                " ".join(map(str, range(D) if name == "complex" else TO_HALVES)),
                vector(out, 3),
                noise(gaps[name]),
            )
            for name, out in outputs.items()
        ],
    )
    one = table(
        _("The same outputs, brought to one order"),
        [_("dim"), "x", *names.values(), "ropewalk"],
        [
            (c, plain(x[c], 3), *(plain(float(out[c])) for out in in_one_order.values()), plain(float(truth[c])))
            for c in range(D)
        ],
    )
    return joined([own, one, _halves(_, x, position)])


def exchanged(x: Array) -> Array:
    """Give (x1, -x0, x3, -x2, …), the wrong sign that rotate_half is sometimes drawn with."""
    return np.stack([x[1::2], -x[0::2]], axis=-1).ravel()


def quarter_turn(x: Array) -> Array:
    """Give (-x1, x0, -x3, x2, …), the quarter turn of neighbouring pairs."""
    return -exchanged(x)


def misread(x: Array, position: int, turn: Callable[[Array], Array], *, halves: bool) -> float:
    """Give the largest error of x·cos + turn(x)·sin with some turn, on halves or on neighbours."""
    angle = position * default_rope().pairs().inv_freq
    angles, given = (np.tile(angle, 2), x[TO_HALVES]) if halves else (np.repeat(angle, 2), x)
    out = given * np.cos(angles) + turn(given) * np.sin(angles)
    truth = _turned(x, position, default_rope())
    return float(np.abs((_neighbours(out) if halves else out) - truth).max())


def _halves(_: Speech, x: Array, position: int) -> Markup:
    """Show rotate_half's order and sign, and what another order or sign costs at a position and at 0."""
    on_halves, on_neighbours = _("halves"), _("neighbours")
    forms = (
        ("rotate_half", rotate_half, on_halves, True),
        ("rotate", quarter_turn, on_neighbours, False),
        (_("signs exchanged"), exchanged, on_neighbours, False),
        (_("order and signs exchanged"), exchanged, on_halves, True),
    )
    rows = []
    for name, turn, where, halves in forms:
        errors = (misread(x, at, turn, halves=halves) for at in (0, position))
        rows.append((name, where, _symbols(turn), *(noise(e) if e < 1e-9 else plain(e) for e in errors)))
    return joined(
        [
            table(
                _("Order and sign: x·cos + f(x)·sin, and its largest error"),
                [
                    "f",
                    _("pairs are"),
                    _("gives"),
                    _("error at position {position}", position=0),
                    _("error at position {position}", position=position),
                ],
                rows,
            ),
            Markup('<p class="note">{}</p>\n').format(
                _("At position 0 sine is 0, and nobody notices a wrong order or sign.")
            ),
        ]
    )


def _symbols(turn: Callable[[Array], Array]) -> str:
    """Write what a turn gives, by trying it on 1 to 8."""
    places = turn(np.arange(1.0, D + 1))
    return f"({', '.join(('−' if value < 0 else '') + f'x{abs(int(value)) - 1}' for value in places)})"


CODES = Piece(
    name="codes",
    draw=_codes,
    title=lambda _: _("Three programs, one rotation"),
    controls=(whole("position", 7, 0, 20_000),),
    labels=lambda _: {"position": _("position")},
)
