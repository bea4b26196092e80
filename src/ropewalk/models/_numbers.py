"""The base and the width of a rope, under all the names that configurations give them."""

import math
from collections.abc import Iterable

from .._checks import MAX_POSITION
from ._reading import Reading, View
from .architectures import Architecture, Label

THETA_KEYS = (
    "rope_theta",
    "rotary_emb_base",
    "rope_embedding_base",
    "global_rope_theta",
    "rotary_base",
    "rope_base",
    "rope_freq_base",
)
THETA_HOMES = ("attn_config",)  # objects that carry theta in place of the top level (DBRX, MPT)
FRACTION_KEYS = (
    "partial_rotary_factor",
    "rotary_pct",
    "rope_pct",
    "rope_percent",
    "rotary_percent",
    "rotary_emb_fraction",
)
ROTARY_DIM_KEYS = ("rotary_dim", "rope_dim")


def theta_of(
    view: View, block: View, arch: Architecture, facts: Label, label: str | None, *, nested: bool, scaled: bool
) -> float:
    """Give θ from the first of its homes, note another that contradicts it, or take the class default and say so."""
    reading = view.reading
    candidates: list[tuple[float, str]] = []
    if scaled or nested:
        candidates += _thetas_in(block, ("rope_theta",))
    candidates += _thetas_in(view, facts.theta_keys)
    of_file = candidates and candidates[0][1] != arch.described()
    if not facts.theta_keys and not (nested and of_file):
        candidates += _thetas_in(view, (*arch.theta_keys, *THETA_KEYS))
        for home in THETA_HOMES:
            inner = view.sub(home)
            candidates += _thetas_in(inner, THETA_KEYS) if inner else []
    if not candidates and arch.ratio_key:
        ratio = view.number(arch.ratio_key, above=0)
        if ratio is not None:
            candidates.append((10000.0 * ratio, view.key(arch.ratio_key)))
    if candidates:
        theta, origin = candidates[0]
        for other, other_origin in candidates[1:]:
            if not math.isclose(other, theta, rel_tol=1e-9):
                reading.find(
                    "theta-conflict",
                    key=other_origin,
                    seen=f"{theta:g} at {origin}, {other:g} at {other_origin}",
                    right=f"{theta:g}, from {origin}",
                    message=f"two bases: {theta:g} at {origin} and {other:g} at {other_origin}. The first is taken, as "
                    "transformers takes it. Remove the wrong one.",
                )
        reading.source("rope_theta", origin, label)
        if origin == arch.described() and len(candidates) == 1:
            _note_class_theta(view, arch, theta, label)
        return theta
    default = facts.theta if facts.theta is not None and not (nested and arch.theta) else arch.theta
    where = block.key("rope_theta") if block.path else view.key("rope_theta")
    if default is None:
        reading.source("rope_theta", "missing", label)
        raise reading.fail(
            "theta-missing",
            key=where,
            seen="absent",
            right="the base that the model was trained with",
            message="there is no rope_theta, and the architecture's own default is not known here. Add rope_theta to "
            "the file; a guess would turn every pair at a wrong speed.",
        )
    reading.source("rope_theta", arch.described(), label)
    _note_class_theta(view, arch, default, label, where)
    return default


def _note_class_theta(view: View, arch: Architecture, theta: float, label: str | None, where: str = "") -> None:
    kind = f" of {label}" if label else ""
    if arch.theta_fixed:
        view.reading.find(
            "class-default",
            key=where or view.key("rope_theta"),
            seen="absent",
            right=f"{theta:g}, a constant of the model's code",
            message=f"rope_theta{kind} is {theta:g}, a constant in the code of {arch.config_class}, not in the file.",
        )
    else:
        view.reading.find(
            "theta-default",
            key=where or view.key("rope_theta"),
            seen="absent",
            right=f"{theta:g}, the default of {arch.config_class}",
            message=f"there is no rope_theta{kind}: the default of {arch.config_class}, {theta:g}, is taken. The "
            "checkpoint may have been trained with another; add rope_theta to the file.",
        )


def _thetas_in(view: View, names: tuple[str, ...]) -> list[tuple[float, str]]:
    found = []
    for name in dict.fromkeys(names):
        value = view.number(name, above=0)
        if value is not None:
            found.append((value, view.key(name)))
            if name in ("rotary_emb_base", "rope_embedding_base", "rotary_base", "rope_base"):
                _old_key(view, name, "rope_theta")
    return found


def _old_key(view: View, name: str, today: str) -> None:
    view.reading.find(
        "old-spelling",
        key=view.key(name),
        seen=name,
        right=today,
        message=f"{view.key(name)} is another spelling of {today}; it is read as that.",
    )


def fraction_of(view: View, block: View, arch: Architecture, facts: Label, *, alone: bool) -> tuple[float | None, str]:
    """Give the rotated fraction of the head and where it came from; alone: from the block and the class only."""
    value = block.number("partial_rotary_factor", above=0)
    if value is not None:
        return value, block.key("partial_rotary_factor")
    if arch.ignore_partial:
        return None, arch.described()
    name = None if alone else view.first(FRACTION_KEYS)
    if name is not None:
        if name != "partial_rotary_factor":
            _old_key(view, name, "partial_rotary_factor")
        return view.number(name, above=0), view.key(name)
    default = facts.partial_rotary_factor if facts.partial_rotary_factor is not None else arch.partial_rotary_factor
    return default, arch.described()


def rotary_dim_of(
    view: View,
    arch: Architecture,
    width: int,
    width_origin: str,
    fraction: float | None,
    fraction_origin: str,
    label: str | None,
) -> int:
    """Give R from a stated width, else the fraction of the head, else the class default, else the whole head."""
    reading = view.reading
    name = view.first((*arch.rotary_dim_keys, *(() if arch.ignore_rotary_dim else ROTARY_DIM_KEYS)))
    stated = None if name is None else view.whole(name)
    by_fraction = None if fraction is None or arch.ignore_partial else int(min(width * fraction, MAX_POSITION))
    from_default = fraction_origin.startswith("default")
    if stated is not None and name is not None:
        if by_fraction is not None and by_fraction != stated and not from_default:
            reading.find(
                "width-conflict",
                key=view.key(name),
                seen=f"{stated} at {view.key(name)}, int({width} · {fraction:g}) = {by_fraction} by {fraction_origin}",
                right=f"{stated} channels, as {name} says",
                message=f"{view.key(name)} says {stated} rotated channels, {fraction_origin} says {by_fraction}. The "
                "first is taken. Make them agree.",
            )
        rotary_dim, origin = stated, view.key(name)
    elif by_fraction is not None:
        rotary_dim, origin = by_fraction, fraction_origin
        if from_default:
            reading.find(
                "class-default",
                key=view.key("partial_rotary_factor"),
                seen="absent",
                right=f"{fraction:g}, the default of {arch.config_class}",
                message=f"partial_rotary_factor is absent: the default of {arch.config_class}, {fraction:g}, is taken.",
            )
    elif arch.rotary_dim is not None:
        rotary_dim, origin = arch.rotary_dim, arch.described()
    elif arch.axes is not None and arch.axes.get("kind") == "ladders":
        unit = 2 * sum(arch.axes.get("split", (1, 1)))  # every axis takes an even width, the rest keeps still
        rotary_dim, origin = width // unit * unit, width_origin
    else:
        rotary_dim, origin = width, width_origin
    check_even(reading, rotary_dim, width, origin, (origin,), "Correct the head width or partial_rotary_factor.")
    reading.source("rotary_dim", origin, label)
    return rotary_dim


def check_even(reading: Reading, rotary_dim: int, width: int, key: str, origins: Iterable[str], remedy: str) -> None:
    """Raise UnreadableError behind an error finding where no pairs of channels fill a width of the head."""
    if rotary_dim % 2 or not 2 <= rotary_dim <= width:
        raise reading.fail(
            "width-odd",
            key=key,
            seen=f"rotary_dim {rotary_dim}, head_dim {width}",
            right="an even width from 2 to head_dim",
            message=f"rotary_dim must be even and at most head_dim, got rotary_dim={rotary_dim}, head_dim={width} "
            f"(from {' and '.join(origins)}). {remedy}",
        )
