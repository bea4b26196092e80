"""What a rotary module of transformers returns, found by asking it: the layout of its tables, and whose they are."""

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import RopewalkError
from ..models.targets import read
from ..pairs import Pairs
from ..rope import Rope
from ._rotary import COLUMNS, pair_of_column

_ASKED = np.array([0, 1, 2, 3, 5, 8, 13, 23])  # small: some modules hold a table, and float32 angles are still good
_ANGLE = 3e-6  # relative: float32 powers and products
_VALUE = 3e-7  # relative: float32 cos and sin, and their factor
_ROUNDED = 2.0**-7  # relative: a frequency that was cast to bfloat16 or half is off by less


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a module returns its tables.

    Attributes:
        columns: as RotaryEmbedding's.
        axes_last: position_ids are [..., A] instead of [A, ...].
        order: the row of position_ids for each axis of the rope; () for one axis.
        negated: sin has the other sign than the rope's, which the model's apply function takes back (nanochat).
        sin_first: (sin, cos) is returned (GPT-J).
        as_complex: one complex tensor is returned (Llama 4, DeepSeek-V2).
        dtype: of the tables, or None where it is that of x.
    """

    columns: str
    axes_last: bool = False
    order: tuple[int, ...] = ()
    negated: bool = False
    sin_first: bool = False
    as_complex: bool = False
    dtype: torch.dtype | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a module said of the asked positions: two tables [S, W] in its own order, or the parts of a complex one."""

    first: np.ndarray
    second: np.ndarray
    axes_last: bool
    as_complex: bool
    dtype: torch.dtype | None


def labels_of(module: nn.Module) -> list[str | None]:
    """Give the layer types that a module wants to be told, or [None]."""
    kinds = getattr(module, "rope_type", None)
    return list(kinds) if isinstance(kinds, dict) and kinds else [None]


def twin_of(module: nn.Module, *, check: bool = True) -> nn.Module:
    """Give a module like this one, on the CPU, with frequencies nobody has cast, from its own class and config.

    Raises:
        RopewalkError: where it cannot be made, or, to be checked, its frequencies are not those of its config.
    """
    if next(module.parameters(), None) is not None:
        names = ", ".join(name for name, _ in module.named_parameters())
        raise RopewalkError(f"it has learned parameters ({names}), so that its frequencies are not those of a rope")
    config = getattr(module, "config", None)
    twin = None
    with torch.device("cpu"), torch.no_grad():
        try:
            twin = type(module)(config) if config is not None else None
        except Exception:  # another signature: foreign code may raise anything
            twin = None
        if twin is None and not any(buffer.is_meta for buffer in module.buffers()):
            twin = copy.deepcopy(module).to("cpu")
    if twin is None:
        raise RopewalkError("it is on the meta device and cannot be made from its config")
    if check:
        _check_same_frequencies(module, twin)
    return twin.eval()


def _check_same_frequencies(module: nn.Module, twin: nn.Module) -> None:
    """Raise where someone has changed the module's frequencies; a cast, which swapping repairs, is no change."""
    ours = dict(twin.named_buffers())
    kinds = getattr(module, "rope_type", None)
    kinds = set(kinds.values()) if isinstance(kinds, dict) else {kinds}
    for name, buffer in module.named_buffers():
        if not name.endswith("inv_freq") or buffer.is_meta or name not in ours:
            continue
        if kinds & {"dynamic", "longrope"} and not name.endswith("original_inv_freq"):
            continue  # the last call's
        live, built = (one.detach().double().cpu().numpy() for one in (buffer, ours[name]))
        if live.shape != built.shape or not np.allclose(live, built, rtol=_ROUNDED, atol=2.0**-24):
            raise RopewalkError(
                f"its {name} is not that of its config (first entries {live.ravel()[:2].round(6).tolist()} against "
                f"{built.ravel()[:2].round(6).tolist()}); name the rope that is meant: use(model, rope=…)"
            )


def candidates(module: nn.Module, model: nn.Module, label: str | None) -> Iterator[Rope]:
    """Give the ropes that a module may hold: those of its own config first, of this layer type first."""
    seen: set[Rope] = set()
    for config in (getattr(module, "config", None), getattr(model, "config", None)):
        try:
            found = read(config) if config is not None else None
        except RopewalkError:
            continue
        if found is None:
            continue
        own = [layer.rope for layer in found.layers if label is not None and layer.kind == label]
        for rope in (*own, *found.ropes):
            if rope is not None and rope not in seen:
                seen.add(rope)
                yield rope


def asked_ids(axes: int, beyond: int | None = None) -> np.ndarray:
    """Give positions [A, S], unequal on every axis; a last one far out where the length matters."""
    rows = np.stack([np.roll(_ASKED, 3 * axis) for axis in range(axes)])
    return rows if beyond is None else np.concatenate([rows, np.full((axes, 1), beyond)], axis=1)


def ask(twin: nn.Module, ids: np.ndarray, label: str | None) -> Iterator[Answer]:
    """Call the module at positions ids [A, S] in each form that modules take them; give every answer of tables."""
    given = torch.from_numpy(ids)
    forms = ((False, given[:, None]), (True, given.T), (True, given.T[None])) if len(ids) > 1 else ((False, given),)
    extra = {} if label is None else {"layer_type": label}
    for axes_last, form in forms:
        try:
            with torch.no_grad():
                out = twin(torch.zeros(1, 1, 1), form, **extra)
                low = twin(torch.zeros(1, 1, 1, dtype=torch.half), form, **extra)
        except Exception:  # the wrong form of positions, in foreign code
            continue
        parts = (out.real, out.imag) if isinstance(out, Tensor) and out.is_complex() else out
        if not isinstance(parts, tuple) or len(parts) != 2 or not all(isinstance(part, Tensor) for part in parts):
            continue
        shape = (ids.shape[1],) if axes_last and form.ndim == 2 else (1, ids.shape[1])
        if parts[0].shape != parts[1].shape or tuple(parts[0].shape[:-1]) != shape:
            continue
        as_complex = isinstance(out, Tensor)
        followed = not as_complex and low[0].dtype == torch.half
        first, second = (part.double().reshape(ids.shape[1], -1).numpy() for part in parts)
        yield Answer(
            first=first,
            second=second,
            axes_last=axes_last,
            as_complex=as_complex,
            dtype=None if followed else torch.float32,
        )


def fit(twin: nn.Module, rope: Rope, label: str | None) -> Style | None:
    """Give the style in which a module returns exactly the tables of this rope, but for float32 rounding; else None."""
    found = _fit(twin, rope, label, None)
    if found is None or not rope.length_dependent:
        return found
    border = getattr(rope.scaling, "original_max_position_embeddings", None) or rope.max_position_embeddings
    assert border is not None
    return found if _fit(twin, rope, label, border + 5) == found else None


def _fit(twin: nn.Module, rope: Rope, label: str | None, beyond: int | None) -> Style | None:
    axes = rope.axes.num_axes
    ids = asked_ids(axes, beyond)
    pairs = rope.pairs(None if beyond is None else beyond + 1)
    if not pairs.is_rotation:
        return None
    orders = itertools.permutations(range(axes))
    for answer, order, columns in itertools.product(ask(twin, ids, label), orders, COLUMNS):
        column = pair_of_column(pairs, rope.rotary_start, columns)
        if len(column) != answer.first.shape[1]:
            continue
        angles = (ids[list(order)][pairs.axis].T * pairs.inv_freq)[:, column]
        for sin_first, negated in itertools.product((False, True), repeat=2):
            cos, sin = (answer.second, answer.first) if sin_first else (answer.first, answer.second)
            if _equal(cos, -sin if negated else sin, angles, pairs):
                return Style(
                    columns=columns,
                    axes_last=answer.axes_last,
                    order=order if axes > 1 else (),
                    negated=negated,
                    sin_first=sin_first,
                    as_complex=answer.as_complex,
                    dtype=answer.dtype,
                )
    return None


def _equal(cos: np.ndarray, sin: np.ndarray, angles: np.ndarray, pairs: Pairs) -> bool:
    """Compare at the first positions; a far one only sets the length."""
    few, g = slice(len(_ASKED)), pairs.cos_sin_factor
    for theirs, ours in ((cos, g * np.cos(angles)), (sin, g * np.sin(angles))):
        room = _ANGLE * np.abs(angles) * g + _VALUE * np.abs(ours)
        if not (np.abs(theirs - ours)[few] <= room[few]).all():
            return False
    return True


def shape_of(twin: nn.Module, rope: Rope, label: str | None) -> Style | None:
    """Give the style of a module whose own rope is not known, as far as the form of its tables shows it."""
    for answer in ask(twin, asked_ids(rope.axes.num_axes), label):
        table, columns = answer.second, None
        left, right = table[:, : rope.num_pairs], table[:, rope.num_pairs :]
        if table.shape[1] == rope.num_pairs:
            columns = "single"
        elif table.shape[1] == 2 * rope.num_pairs and np.array_equal(left, right):
            columns = "doubled"
        elif table.shape[1] == 2 * rope.num_pairs and np.array_equal(table[:, 0::2], table[:, 1::2]):
            columns = "repeated"
        if columns is not None:
            return Style(
                columns=columns,
                axes_last=answer.axes_last,
                order=tuple(range(rope.axes.num_axes)) if rope.axes.num_axes > 1 else (),
                sin_first=not answer.as_complex and bool(answer.first[0, 0] == 0),
                as_complex=answer.as_complex,
                dtype=answer.dtype,
            )
    return None
