"""The picture of a measurement, drawn by matplotlib (extra plot)."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._plot import STROKES, _save

if TYPE_CHECKING:
    from ..measuring import Curve, Measurement, Passkey
    from ..planning import Plan

GAP = 0.034  # of the axes' height, between the names at the curves' ends


def draw_measurement(plan: "Plan", result: "Measurement", keys: "Sequence[Passkey]", path: Path) -> None:
    """Draw the loss of each method by position; below it, where keys were hidden, how many were given back."""
    figure = import_module("matplotlib.figure").Figure(figsize=(9, 7.4 if keys else 5), layout="constrained")
    above, *below = figure.subplots(2 if keys else 1, 1, squeeze=False, height_ratios=(3, 1.4) if keys else None)[:, 0]
    _draw_losses(above, result)
    if keys:
        _draw_keys(below[0], keys)
    words = f"{plan.target}: {plan.trained:,} to {plan.to:,} tokens, nothing trained"
    figure.suptitle(words, fontsize=10)
    _save(figure, path)


def _draw_losses(axes: Any, result: "Measurement") -> None:
    ends = []
    for curve in result.curves:
        colour, dashes = STROKES.get(curve.name, ("0.4", "-"))
        places = [(i + 0.5) * result.bucket for i in range(len(curve.losses))]
        places[-1] = min(places[-1], result.tokens)
        axes.plot(places, curve.losses, color=colour, linestyle=dashes, linewidth=1.8, label=curve.name)
        ends.append((curve, places[-1], colour))
    axes.axvline(result.trained, color="0.45", linewidth=0.9)
    axes.annotate(
        f"trained: {result.trained:,}",
        (result.trained, 1),
        xycoords=("data", "axes fraction"),
        xytext=(4, -12),
        textcoords="offset points",
        color="0.3",
        fontsize=8,
    )
    axes.set_xlim(0, result.tokens)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("position (tokens)")
    axes.set_ylabel("loss (nats a token)")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.25)
    _name_ends(axes, ends)


def _name_ends(axes: Any, ends: "list[tuple[Curve, float, str]]") -> None:
    """Write each curve's name at its end, moved apart where two would meet, and none above the axes."""
    low, high = axes.get_ylim()
    ends = sorted(ends, key=lambda end: end[0].losses[-1])
    wanted = [(curve.losses[-1] - low) / (high - low) for curve, _, _ in ends]
    for (curve, _, colour), at in zip(ends, apart(wanted, GAP), strict=True):
        axes.text(1.01, at, curve.name, transform=axes.transAxes, va="center", fontsize=9, color=colour)


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Move rising places at least a gap apart, upwards, and back down from 1 where they would pass it.

    >>> [round(place, 2) for place in apart([0.1, 0.11, 0.99, 1.0], 0.05)]
    [0.1, 0.15, 0.95, 1.0]
    """
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + gap) if found else place)
    return [min(place, 1 - gap * (len(found) - 1 - i)) for i, place in enumerate(found)]


def _draw_keys(axes: Any, keys: "Sequence[Passkey]") -> None:
    lengths = list(dict.fromkeys(trial.length for trial in keys[0].trials))
    wide = 0.8 / len(keys)
    for i, one in enumerate(keys):
        colour, _ = STROKES.get(one.name, ("0.4", "-"))
        shares = [sum(trial.found for trial in one.at(n)) / len(one.at(n)) for n in lengths]
        places = [k + (i - (len(keys) - 1) / 2) * wide for k in range(len(lengths))]
        axes.bar(places, shares, width=0.9 * wide, color=colour, label=one.name)
    axes.set_xticks(range(len(lengths)), [f"{n:,}" for n in lengths])
    axes.set_ylim(0, 1)
    axes.set_xlabel("tokens of the text")
    axes.set_ylabel("keys given back")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(fontsize=8, ncols=len(keys), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
