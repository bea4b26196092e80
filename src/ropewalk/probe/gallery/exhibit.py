"""One exhibit: a small implementation as people write it, faulty or right, and what it claims to be."""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...rope import Rope

Turn = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """A runnable implementation `fn(x, position_ids) -> x'` with the rope that it claims to be.

    Attributes:
        id: ``"M01a"`` for a mutant, ``"V01"`` for a right variant, ``"X01"`` for an extra; a letter tells readings of
            one entry apart ("and the reverse"), and ``.2``, ``.3`` … further parameter sets of the same code.
        slug: the fault's name; None for a right variant; ``"any"`` where the fault has no name of its own.
        title: one line on what it does.
        factory: makes fn from the parameters; its source is the lesson. State lives in what it makes.
        parameters: the numbers given to the factory.
        expect: the description that is declared for it, or None where nothing is declared.
        options: further arguments for a check: head_dim, heads, batch, and layout, dtype, backend or max_position (the
            largest position that it is made for) where they are not the usual ones.
        also: names of further faults in the same code, for an extra with two at once.
        needs_torch: whether make() imports torch.
    """

    id: str
    slug: str | None
    title: str
    factory: Callable[..., Turn] = field(repr=False)
    parameters: dict[str, Any]
    expect: Rope | None
    options: dict[str, Any]
    also: tuple[str, ...] = ()
    needs_torch: bool = False

    def make(self) -> Turn:
        """Give a fresh fn(x, position_ids), with no state from earlier calls."""
        return self.factory(**self.parameters)

    @property
    def entry(self) -> str:
        """The entry of the list of faults or variants that it shows: ``"M01"`` for ``"M01b.2"``."""
        return self.id[:3]

    @property
    def extra(self) -> bool:
        """Whether it stands outside the list of 48 faults and 28 right variants."""
        return self.id.startswith("X")

    @property
    def source(self) -> str:
        """The factory's code."""
        return textwrap.dedent(inspect.getsource(self.factory))


def shown(
    id: str,
    slug: str | None,
    title: str,
    factory: Callable[..., Turn],
    expect: Callable[..., Rope] | None,
    *sets: dict[str, Any],
    also: tuple[str, ...] = (),
    **options: Any,
) -> tuple[Exhibit, ...]:
    """Give one exhibit for each parameter set.

    Args:
        id: of the first set; the others get ``.2``, ``.3`` …
        slug: the fault's name, or None.
        title: one line.
        factory: called with a set's parameters, makes fn.
        expect: called with the same parameters, gives the declared description; None declares nothing.
        sets: parameters of the factory; the key ``options`` holds arguments for a check of that set alone.
        also: further names.
        options: arguments for a check of every set.
    """
    made = []
    for number, given in enumerate(sets, start=1):
        parameters = {name: value for name, value in given.items() if name != "options"}
        rope = None if expect is None else expect(**parameters)
        head_dim = parameters["head_dim"] if rope is None else rope.head_dim
        usual = {"head_dim": head_dim, "heads": 3, "batch": 2}
        asked = {**usual, **options, **given.get("options", {})}
        made.append(
            Exhibit(
                id=id if number == 1 else f"{id}.{number}",
                slug=slug,
                title=title,
                factory=factory,
                parameters=parameters,
                expect=rope,
                options=asked,
                also=also,
                needs_torch=asked.get("backend") == "torch",
            )
        )
    return tuple(made)
