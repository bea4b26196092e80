"""(cos, sin) by position_ids, as the rotary modules of transformers give them, from float64 angles."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .._checks import choice, shown
from ..errors import RopewalkError
from ..models.model import Model
from ..models.targets import read
from ..pairs import Pairs
from ..rope import Rope
from ..scaling import LongRope
from ._turning import check_floating

COLUMNS = ("doubled", "repeated", "channels", "single")


class _Numbers(NamedTuple):
    """What a rope's tables are made of, on one device."""

    inv_freq: Tensor  # [P] float64
    factor: float
    axis: Tensor  # [P]
    column: Tensor  # [R] or [P], the pair of each column
    both: Tensor | None  # LongRoPE: [2, P + 1] float64, frequencies and factor up to the original length and past it

    @classmethod
    def of(cls, rope: Rope, columns: str) -> "_Numbers":
        pairs, both = rope.pairs(), None
        if isinstance(rope.scaling, LongRope):
            far = rope.pairs(rope.scaling.original_max_position_embeddings + 1)
            both = _cpu([[*one.inv_freq.tolist(), one.cos_sin_factor] for one in (pairs, far)])
        return cls(
            inv_freq=_cpu(pairs.inv_freq.tolist()),
            factor=pairs.cos_sin_factor,
            axis=_cpu(pairs.axis.tolist()),
            column=_cpu(pair_of_column(pairs, rope.rotary_start, columns)),
            both=both,
        )

    def to(self, device: torch.device) -> "_Numbers":
        return self._replace(
            inv_freq=self.inv_freq.to(device),
            axis=self.axis.to(device),
            column=self.column.to(device),
            both=None if self.both is None else self.both.to(device),
        )


def _cpu(values: list[Any]) -> Tensor:
    """Give floats as float64 and ints as int64, whatever the default dtype and device are."""
    return torch.from_numpy(np.array(values))


class RotaryEmbedding(nn.Module):
    """Cos and sin of any position, as the rotary modules of transformers give them: `(cos, sin) = rotary(x, ids)`.

    Angles are float64, rounded once, finished, to x's dtype. There are no buffers and no parameters, so that casts,
    autocast, meta initialisation and checkpoints cannot harm it. Dynamic NTK and LongRoPE take the length from the
    highest position, as transformers does, anew in every call.

    Args:
        rope: a Rope; a dict of Ropes by layer type; or whatever `ropewalk.read` takes, a `PretrainedConfig` or a
            model's name included: then the ropes of its text part, by layer type where there are several.
        columns: how P pairs become the columns of the tables. "doubled": the P columns twice, one after the other
            (Llama, and nearly all others, whatever the pairing); "repeated": each column twice in a row (Cohere);
            "channels": a column for each turned channel, in their order; "single": the P columns (gpt-oss).

    Raises:
        RopewalkError: for a map that is no rotation, a model without RoPE, or several ropes in one layer type.

    Source: transformers 5.24, `LlamaRotaryEmbedding`, `Gemma3RotaryEmbedding` and `Qwen2VLRotaryEmbedding`.

    >>> rotary = RotaryEmbedding(Rope(head_dim=4, rope_theta=100.0, pairing="half"))
    >>> cos, sin = rotary(torch.zeros(1, 1, 8), torch.tensor([[10]]))
    >>> cos
    tensor([[[-0.8391,  0.5403, -0.8391,  0.5403]]])
    """

    def __init__(self, rope: Any, columns: str = "doubled") -> None:
        super().__init__()
        self.ropes: dict[str | None, Rope] = _ropes(rope)
        self.columns: str = choice("columns", columns, COLUMNS)
        for one in self.ropes.values():
            if not one.pairs().is_rotation:
                raise RopewalkError(
                    f"a table has one cos and sin a pair; this rope ({one.pairing}) turns the two channels of a pair "
                    "by different angles."
                )
        cpu = torch.device("cpu")
        with torch.inference_mode(False):
            self._held: dict[tuple[str | None, torch.device], _Numbers] = {
                (label, cpu): _Numbers.of(one, self.columns) for label, one in self.ropes.items()
            }

    def forward(
        self, x: Tensor, position_ids: Tensor, layer_type: str | None = None, *, length: int | None = None
    ) -> Any:
        """Give the tables of these positions.

        Args:
            x: only its dtype and device are looked at.
            position_ids: [B, S] (or [S]); [A, B, S] for a rope with A axes (M-RoPE takes [B, S] too, for text);
                integers or floats of any size and sign.
            layer_type: which rope, where there are several by layer type.
            length: tokens in the sequence, for dynamic NTK and LongRoPE; None takes the highest position + 1.

        Returns:
            (cos, sin), each [B, S, R] in x's dtype ([B, S, P] for "single"), the factor applied.

        Raises:
            RopewalkError: for positions of the wrong shape or dtype, or an unknown layer_type.
        """
        check_floating(x=x)
        label = self._label(layer_type)
        ids = axes_first(position_ids, self.ropes[label])
        return self._tables(label, ids, x.device, x.dtype, length)

    def _label(self, layer_type: str | None) -> str | None:
        if None in self.ropes:  # one rope for all layers; ESM passes a layer_type all the same
            return None
        if layer_type not in self.ropes:
            known = ", ".join(map(str, self.ropes))
            raise RopewalkError(f"layer_type must be one of {known}, got {shown(layer_type)}.")
        return layer_type

    def _tables(
        self, label: str | None, ids: Tensor, device: torch.device, dtype: torch.dtype, length: int | None
    ) -> tuple[Tensor, Tensor]:
        """Give (cos, sin) for ids [A, ...]."""
        work = torch.device("cpu") if device.type == "mps" else device  # MPS has no float64
        numbers = self._held.get((label, work))
        if numbers is None:
            numbers = self._held[label, work] = self._held[label, torch.device("cpu")].to(work)
        by_axis = ids.to(device=work, dtype=torch.float64)
        inv_freq, factor = self._speeds(self.ropes[label], numbers, by_axis, length)
        by_pair = by_axis[0].unsqueeze(-1) if by_axis.shape[0] == 1 else by_axis.movedim(0, -1)[..., numbers.axis]
        angles = by_pair * inv_freq
        cos, sin = (
            part.to(device=device, dtype=dtype)[..., numbers.column.to(device)]
            for part in (angles.cos() * factor, angles.sin() * factor)
        )
        return cos, sin

    @staticmethod
    def _speeds(rope: Rope, numbers: "_Numbers", ids: Tensor, length: int | None) -> tuple[Tensor, Tensor | float]:
        """Give the frequencies [P] and the factor on cos and sin for these positions."""
        if not rope.length_dependent or (length is None and not ids.numel()):
            return numbers.inv_freq, numbers.factor
        if length is None and numbers.both is not None and isinstance(rope.scaling, LongRope):
            # no look at the number: it would wait for the device and break a compiled graph
            beyond = ids.max() + 1 > rope.scaling.original_max_position_embeddings
            chosen = torch.where(beyond, numbers.both[1], numbers.both[0])
            return chosen[:-1], chosen[-1]
        pairs = rope.pairs(max(int(ids.max()) + 1, 0) if length is None else length)
        return _cpu(pairs.inv_freq.tolist()).to(ids.device), pairs.cos_sin_factor

    def __getstate__(self) -> dict[str, Any]:
        held = {key: numbers for key, numbers in self._held.items() if key[1].type == "cpu"}
        return {**self.__dict__, "_held": held}  # those of other devices are made anew where they are needed

    def extra_repr(self) -> str:
        """Give the ropes, for the module's repr."""
        named = (f"{label}: {words(rope)}" if label else words(rope) for label, rope in self.ropes.items())
        return "; ".join([*named, self.columns])


def axes_first(position_ids: object, rope: Rope) -> Tensor:
    """Give position_ids as [A, ...] for a rope with A axes."""
    if not isinstance(position_ids, Tensor) or position_ids.is_complex() or position_ids.dtype == torch.bool:
        given = position_ids.dtype if isinstance(position_ids, Tensor) else type(position_ids).__name__
        raise RopewalkError(f"position_ids must be a torch tensor of integers or floats, got {given}.")
    axes, ndim = rope.axes.num_axes, position_ids.ndim
    if axes == 1 and ndim in (1, 2):
        return position_ids[None]
    if axes > 1 and ndim == 3 and position_ids.shape[0] in (1, axes):
        return position_ids.expand(axes, -1, -1)
    if axes > 1 and rope.axes.kind == "sections" and ndim in (1, 2):
        return position_ids[None]  # text: the same on every axis
    expected = "[batch, seq]" if axes == 1 else f"[axes={axes}, batch, seq]"
    raise RopewalkError(f"position_ids must be {expected} for this rope, got shape {list(position_ids.shape)}.")


def pair_of_column(pairs: Pairs, start: int, columns: str) -> list[int]:
    """Give, for each column of the tables, the pair whose cos and sin stand there."""
    steps = range(len(pairs))
    if columns == "single":
        return list(steps)
    if columns == "doubled":
        return [*steps, *steps]
    if columns == "repeated":
        return [i for i in steps for _ in range(2)]
    channels = {int(channel): i for i in steps for channel in (pairs.first[i], pairs.second[i])}
    return [channels[start + channel] for channel in range(2 * len(pairs))]


def words(rope: Rope) -> str:
    """Describe a rope in a line."""
    axes = f", {rope.axes.num_axes} axes" if rope.axes.num_axes > 1 else ""
    part = f"{rope.width} of {rope.head_dim} channels" if rope.width < rope.head_dim else f"{rope.width} channels"
    return f"θ={rope.rope_theta:g}, {part}, {rope.scaling.rope_type}{axes}"


def _ropes(given: Any) -> dict[str | None, Rope]:
    if isinstance(given, Rope):
        return {None: given}
    if isinstance(given, Mapping) and given and all(isinstance(one, Rope) for one in given.values()):
        return dict(given)
    return text_ropes(read(given))


def text_ropes(model: Model) -> dict[str | None, Rope]:
    """Give the attention ropes of a model's text part: one under None, or one for each layer type."""
    layers = [layer for layer in model.layers if layer.rope is not None]
    if len({layer.rope for layer in layers}) == 1 and layers[0].rope is not None:
        return {None: layers[0].rope}
    ropes: dict[str | None, Rope] = {}
    for layer in layers:
        assert layer.rope is not None
        if layer.kind is None or ropes.setdefault(layer.kind, layer.rope) != layer.rope:
            raise RopewalkError(
                f"layers of one type ({layer.kind}) have different ropes: take one from model.layers[…].rope."
            )
    if not ropes:
        model.rope  # noqa: B018  raises, with the reason
        raise RopewalkError("the model's text part has no RoPE: take a rope from model.ropes.")
    return ropes
