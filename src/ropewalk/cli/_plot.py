"""The pictures of a comparison and of a plan, drawn by matplotlib (extra plot)."""

import math
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import RopewalkError

if TYPE_CHECKING:
    from ..comparison import Comparison, Group
    from ..planning import Plan

SUFFIXES = (".png", ".svg")
# Okabe and Ito's colours, told apart without colour by their strokes
STROKES = {
    "untouched": ("#000000", ":"),
    "linear": ("#E69F00", "--"),
    "ntk": ("#56B4E9", "-."),
    "dynamic": ("#0072B2", (0, (4, 1, 1, 1))),
    "yarn": ("#D55E00", "-"),
    "longrope": ("#CC79A7", (0, (7, 1, 1, 1, 1, 1))),
    "llama3": ("#009E73", (0, (6, 2))),
}


def check_plot(path: Path) -> None:
    """Raise where no picture can be drawn at path: before any work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise RopewalkError(f"a plot is a {' or '.join(SUFFIXES)} file, got {path}. Give the file such a name.")
    if find_spec("matplotlib") is None:
        raise RopewalkError("a plot needs matplotlib, which is not installed: pip install 'ropewalk[plot]'.")


def draw(compared: "Comparison", path: Path) -> None:
    """Draw the first group that differs: speeds of A and B, and how far their angles drift apart."""
    group = next((one for one in (compared.first, *compared.groups) if one is not None and one.result), None)
    if group is None:
        raise RopewalkError("there is nothing to draw: no layer has RoPE on both sides.")
    figure, above, below = _two_panels()
    _draw_speeds(above, group)
    _draw_angles(below, group)
    figure.suptitle(f"A: {compared.a}\nB: {compared.b}\n{group.place}", fontsize=10)
    _save(figure, path)


def draw_plan(plan: "Plan", path: Path) -> None:
    """Draw what each method of a plan does: wavelengths against both contexts, and by how much pairs are slowed."""
    figure, above, below = _two_panels()
    turned = plan.full_turns - 0.5
    for method in plan.methods:
        colour, dashes = STROKES[method.name]
        speeds = np.abs(method.rope.pairs(plan.to).inv_freq)
        with np.errstate(divide="ignore"):
            waves = np.where(speeds > 0, 2 * math.pi / speeds, np.nan)
        slowed = [math.nan if divisor is None else divisor for divisor in method.divisors]
        style = {"color": colour, "linestyle": dashes, "linewidth": 1.8}
        above.plot(waves, label=method.name, **style)
        below.plot(slowed, label=method.name, **style)
    for tokens, words in ((plan.trained, "trained"), (plan.to, "wished")):
        above.axhline(tokens, color="0.45", linewidth=0.9)
        label = f"{words}: {tokens:,} tokens"
        above.annotate(label, (0, tokens), xytext=(2, 3), textcoords="offset points", color="0.3", fontsize=8)
    for axes in (above, below):
        axes.set_yscale("log")
        axes.grid(alpha=0.25)
        axes.axvspan(turned, plan.rope.num_pairs - 0.5, color="0.93", zorder=0, linewidth=0)
        axes.set_xlim(-0.5, plan.rope.num_pairs - 0.5)
    above.set_ylabel("wavelength (tokens for one turn)")
    above.legend(fontsize=8, loc="lower right", handlelength=4)
    if plan.full_turns < plan.rope.num_pairs:
        words = "less than one turn\nin training"
        place = ((turned + plan.rope.num_pairs) / 2, 0.97)
        transform = below.get_xaxis_transform()
        below.text(*place, words, transform=transform, ha="center", va="top", fontsize=8, color="0.3")
    below.set_ylabel(r"slowed by (divisor of $\theta_i$)")
    below.set_xlabel("pair")
    top = max(below.get_ylim())
    step = math.sqrt(2) if top < 6 else 2.0 if top < 300 else 4.0
    below.set_yticks([step**k for k in range(64) if step**k <= top])
    below.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    below.yaxis.set_minor_locator(import_module("matplotlib.ticker").NullLocator())
    figure.suptitle(f"{plan.target}, {plan.place}: {plan.trained:,} to {plan.to:,} tokens", fontsize=10)
    _save(figure, path)


def _two_panels() -> tuple[Any, Any, Any]:
    figure = import_module("matplotlib.figure").Figure(figsize=(9, 7), layout="constrained")
    return figure, *figure.subplots(2, 1, sharex=True)


def _save(figure: Any, path: Path) -> None:
    matplotlib = import_module("matplotlib")  # by name: a type checker need not have it
    # no date in the file: the same comparison gives the same bytes
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}
    try:
        with matplotlib.rc_context({"svg.hashsalt": "ropewalk"}):
            figure.savefig(path, dpi=144, metadata=metadata)
    except OSError as error:
        raise RopewalkError(f"{path} cannot be written: {error.strerror or error}.") from error


def _draw_speeds(axes: Any, group: "Group") -> None:
    assert group.result is not None
    for letter, marker, colour in (("a", "o", "#0072B2"), ("b", "x", "#D55E00")):
        turns = [getattr(row, letter) for row in group.result.pairs]
        speeds = [abs(turn.inv_freq) if turn is not None and turn.inv_freq else math.nan for turn in turns]
        axes.plot(speeds, marker, color=colour, markersize=5, fillstyle="none", label=letter.upper())
    axes.set_yscale("log")
    axes.set_ylabel("θ_i (radians a position)")
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_angles(axes: Any, group: "Group") -> None:
    assert group.result is not None
    for row in group.result.angles:
        wrapped = np.abs(row.wrapped)
        axes.plot(np.where(wrapped > 0, wrapped, np.nan), "-o", markersize=3, label=f"distance {row.distance}")
    if any(row.wrapped.any() for row in group.result.angles):  # a logarithm of nothing is a warning
        axes.set_yscale("log")
    axes.axhline(math.pi, color="black", linewidth=0.8, linestyle=":")
    axes.set_ylabel("angle difference (radians, wrapped)")
    axes.set_xlabel("pair")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
