"""Where the ropes of one GGUF come from: its keys, its tensors of divisors, and what to note about them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import RopewalkError
from ._reading import View
from .gguf_divisors import nice
from .gguf_facts import ENGINE, Facts
from .gguf_file import GGUFHeader

KEY = "rope.scaling."
FLOAT32 = 1e-6  # two roads to a number agree to float32


@dataclass(frozen=True, slots=True)
class Source:
    """Where the ropes of one GGUF come from.

    Attributes:
        view: the keys of the architecture, without its name.
        facts: what the file does not say.
        name: the architecture.
        headers: all parts of the file, the first one first.
    """

    view: View
    facts: Facts
    name: str
    headers: tuple[GGUFHeader, ...]

    def tidy(self, value: float) -> float:
        """Give the number that was written before it became a float32."""
        return nice(value)

    @property
    def described(self) -> str:
        """Name the origin of what the file does not say."""
        return f"architecture {self.name} in {ENGINE}"

    def divisors(self, name: str, rotary_dim: int) -> NDArray[np.float64] | None:
        """Give a tensor of divisors, one for each pair, from whichever part has it."""
        reading = self.view.reading
        for header in self.headers:
            try:
                values = header.floats(name)
            except RopewalkError as error:
                raise reading.fail(
                    "value-unusable", key=name, seen="a tensor that cannot be read", right="a row of float32",
                    message=str(error),
                ) from error  # fmt: skip
            if values is None:
                continue
            pairs = rotary_dim // 2
            if len(values) < pairs or (len(values) > pairs and self.facts.full_share == 1):
                raise reading.fail(
                    "list-length",
                    key=name,
                    seen=f"{len(values)} entries",
                    right=f"rotary_dim/2 = {pairs} entries",
                    message=f"{name} has {len(values)} entries; it needs one for each pair, rotary_dim/2 = {pairs}. "
                    "Convert the model again.",
                )
            values = values[:pairs]
            if not (np.isfinite(values).all() and (values > 0).all()):
                raise reading.fail(
                    "value-unusable", key=name, seen="a divisor that is not finite and above 0",
                    right="divisors above 0",
                    message=f"{name} must hold finite numbers above 0, one for each pair. Convert the model again.",
                )  # fmt: skip
            return values
        return None

    def attn_factor(self, label: str | None) -> float:
        """Give the factor on cos and sin that the file adds to that of its scaling."""
        value = self.view.number(f"{KEY}attn_factor", above=0)
        if value is None:
            return 1.0
        self.view.reading.source("attention_factor", self.view.key(f"{KEY}attn_factor"), label)
        return self.tidy(value)

    def note_lost(self, key: str, seen: str, message: str) -> None:
        """Note a scaling that the converter left out of the file."""
        self.view.reading.find(
            "gguf-scale-lost",
            key=self.view.key(key),
            seen=seen,
            right="unscaled, as llama.cpp turns it",
            message=message,
        )

    def note_unread(self, key: str, seen: str, instead: str) -> None:
        """Note a key that llama.cpp does not read for this architecture."""
        self.view.reading.find(
            "gguf-engine",
            key=self.view.key(key),
            seen=seen,
            right=f"{seen}, as the file says",
            message=f"{self.view.key(key)} is {seen}; {ENGINE} does not read this key for {self.name} and {instead}.",
        )
