"""The picture of a comparison, drawn by matplotlib (extra plot)."""

import math
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import RopewalkError

if TYPE_CHECKING:
    from ..comparison import Comparison, Group

SUFFIXES = (".png", ".svg")


def check_plot(path: Path) -> None:
    """Raise where no picture can be drawn at path: before any work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise RopewalkError(f"a plot is a {' or '.join(SUFFIXES)} file, got {path}. Give the file such a name.")
    if find_spec("matplotlib") is None:
        raise RopewalkError("a plot needs matplotlib, which is not installed: pip install 'ropewalk[plot]'.")


def draw(compared: "Comparison", path: Path) -> None:
    """Draw the first group that differs: speeds of A and B, and how far their angles drift apart."""
    matplotlib = import_module("matplotlib")  # by name: a type checker need not have it
    figures = import_module("matplotlib.figure")
    group = next((one for one in (compared.first, *compared.groups) if one is not None and one.result), None)
    if group is None:
        raise RopewalkError("there is nothing to draw: no layer has RoPE on both sides.")
    figure = figures.Figure(figsize=(9, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    _draw_speeds(above, group)
    _draw_angles(below, group)
    figure.suptitle(f"A: {compared.a}\nB: {compared.b}\n{group.place}", fontsize=10)
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
