"""The ropes that a caller of `use` wants instead of the model's own."""

import contextlib
from collections.abc import Mapping, Sequence

from torch import nn

from .._checks import shown
from ..errors import RopewalkError
from ..models.targets import read
from ..rope import Rope


class Refused(RopewalkError):
    """A wish that cannot be granted."""


class Wishes:
    """The ropes that the caller wants instead of the model's own."""

    def __init__(self, model: nn.Module, rope: Rope | Mapping[str, Rope] | None) -> None:
        by_label = isinstance(rope, Mapping) and all(isinstance(one, Rope) for one in rope.values())
        if not (rope is None or isinstance(rope, Rope) or by_label):
            raise RopewalkError(f"rope must be a Rope or a dict of Ropes by layer type, got {shown(rope)}.")
        self.rope = rope
        self.granted: set[str | None] = set()
        self.text: set[Rope | None] = set()
        config = getattr(model, "config", None)
        self.text_config = getattr(config, "get_text_config", lambda: config)()
        with contextlib.suppress(RopewalkError):
            self.text = {layer.rope for layer in read(config).layers}

    def get(self, label: str | None, own: Rope | None, config: object) -> Rope | None:
        """Give the rope wished for a layer type of a module with this config; None where there is no wish.

        own is the rope that the module was found to hold, None where that is not known.
        """
        of_text = own in self.text if own is not None else config is self.text_config
        if self.rope is None or (self.text and not of_text):
            return None
        if isinstance(self.rope, Mapping):
            wish = self.rope.get(label) if label is not None else None
        elif label is None:
            wish = self.rope
        else:
            raise Refused(f"the model has a rope for each layer type: give a dict with {label!r} among its keys.")
        return wish

    def check_all_granted(self, reasons: Sequence[str]) -> None:
        """Raise where a wish went to no module."""
        wanted = set(self.rope) if isinstance(self.rope, Mapping) else {None} if self.rope is not None else set()
        if wanted - self.granted:
            names = ", ".join(str(name) for name in wanted - self.granted if name is not None)
            because = "; ".join(reasons) or "no module of the text part takes it"
            raise RopewalkError(f"rope{f' for {names}' if names else ''} was given and not used ({because}).")


def check_wish(wish: Rope, own: Rope | None, label: str | None) -> list[str]:
    """Raise where a table cannot make this model turn by the wished rope; say what the table leaves out."""
    where = f" for {label}" if label else ""
    fields = ("width", "pairing", "direction")
    if own is not None:
        pairs = [(name, getattr(wish, name), getattr(own, name)) for name in fields]
        pairs.append(("axes", wish.axes.num_axes, own.axes.num_axes))
        told = ", ".join(f"{name}={ours!r}, the model has {theirs!r}" for name, ours, theirs in pairs if ours != theirs)
        if told:
            raise Refused(f"the rope{where} does not fit the model, whose apply function decides that: {told}.")
    if wish.pairs().softmax_factor != (own.pairs().softmax_factor if own else 1.0):
        return [f"softmax_factor {wish.pairs().softmax_factor:g}{where} is not applied: the attention keeps its scale"]
    return []
