"""R_m^T R_n beside R_(n-m) and R_(m-n), in numbers: the transpose tells before from after."""

import math

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ..figures import arc
from ..i18n import Speech
from ..wording import noise
from ._piece import Piece, Values, joined, line, plain, real, svg, table, whole, words


def rotation(angle: float) -> NDArray[np.float64]:
    """Give [[cos, -sin], [sin, cos]]."""
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def _products(_: Speech, values: Values) -> Markup:
    m, n, theta = values["m"], values["n"], values["theta"]
    r_m, r_n = rotation(m * theta), rotation(n * theta)
    forward, backward = r_m.T @ r_n, r_n.T @ r_m
    there, back = rotation((n - m) * theta), rotation((m - n) * theta)
    matrices = Markup('<div class="matrices">{}</div>\n').format(
        joined(
            Markup("<p>{}</p>\n").format(shown)
            for shown in (
                equation(sub(m), r_m),
                equation(sub(n), r_n),
                equation(transposed(m) + sub(n), forward),
                equation(sub(n - m), there),
                equation(transposed(n) + sub(m), backward),
                equation(sub(m - n), back),
            )
        )
    )
    differences = table(
        _("The largest difference of two entries"),
        [
            _("product"),
            _("against R at n − m = {distance}", distance=n - m),
            _("against R at m − n = {distance}", distance=m - n),
        ],
        [
            (Markup("R<sub>{}</sub>ᵀ R<sub>{}</sub>").format(m, n), _gap(forward, there), _gap(forward, back)),
            (Markup("R<sub>{}</sub>ᵀ R<sub>{}</sub>").format(n, m), _gap(backward, there), _gap(backward, back)),
        ],
    )
    dials = Markup('<div class="drawings">{}{}</div>\n').format(
        _dial(_, n - m, theta, _("n − m")), _dial(_, m - n, theta, _("m − n"))
    )
    note = Markup('<p class="note">{}</p>\n').format(
        _(
            "The diagonal does not know which position came first; the corners carry the sign of the distance. "
            "The two rotations differ by 2·|sin((m − n)θ)| = {gap} at most.",
            gap=plain(2 * abs(math.sin((m - n) * theta))),
        )
    )
    return joined([matrices, dials, differences, note])


def _gap(one: NDArray[np.float64], other: NDArray[np.float64]) -> str:
    gap = float(np.abs(one - other).max())
    return noise(gap) if gap < 1e-6 else plain(gap)


def equation(name: Markup, matrix: NDArray[np.float64]) -> Markup:
    """Give "name = matrix" as MathML."""
    rows = joined(
        Markup("<mtr>{}</mtr>").format(joined(Markup("<mtd>{}</mtd>").format(_number(plain(float(x)))) for x in row))
        for row in matrix
    )
    return Markup("<math><mrow>{}<mo>=</mo><mrow><mo>(</mo><mtable>{}</mtable><mo>)</mo></mrow></mrow></math>").format(
        name, rows
    )


def sub(position: int) -> Markup:
    """Give R with a position under it, as MathML."""
    return Markup("<msub><mi>R</mi>{}</msub>").format(_number(position))


def transposed(position: int) -> Markup:
    """Give the transpose of R with a position under it, as MathML."""
    return Markup("<msubsup><mi>R</mi>{}<mo>⊤</mo></msubsup>").format(_number(position))


def _number(value: object) -> Markup:
    return Markup("<mn>{}</mn>").format(str(value).replace("-", "−"))


def _dial(_: Speech, distance: int, theta: float, name: Markup) -> Markup:
    angle = distance * theta
    x, y = 60 + 44 * math.cos(angle), 60 - 44 * math.sin(angle)
    parts = [
        '<circle class="orbit" cx="60" cy="60" r="44" fill="none" stroke="currentColor"/>',
        line(60, 60, 104, 60),
        f'<path class="arc" d="{arc((1.0, 0.0), angle, 20.0)}" transform="translate(60 60)" '
        'fill="none" stroke="currentColor"/>',
        line(60, 60, x, y, "line"),
        f'<circle class="dot" cx="{x:.2f}" cy="{y:.2f}" r="4" fill="currentColor"/>',
        words(60, 122, f"{name} = {distance}"),
    ]
    return svg("turned", 120, 128, _("(1, 0) turned by {angle} rad", angle=plain(angle)), parts, fixed_size=True)


PRODUCTS = Piece(
    name="products",
    draw=_products,
    title=lambda _: _("Products of two rotations"),
    controls=(
        whole("m", 7, -100_000, 100_000),
        whole("n", 2, -100_000, 100_000),
        real("theta", 1.0, -10.0, 10.0),
    ),
    labels=lambda _: {"m": _("position m"), "n": _("position n"), "theta": Markup("θ")},
)
