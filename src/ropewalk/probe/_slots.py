"""Which argument of a foreign function is which, told by the parameters' names."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import RopewalkError

_NAMES: dict[str, tuple[str, ...]] = {
    "x": ("x", "xs", "q", "xq", "query", "queries", "query_states", "query_layer", "tensor", "t", "input", "inputs"),
    "k": ("k", "xk", "key", "keys", "key_states", "key_layer"),
    "v": ("v", "value", "values", "value_states", "value_layer"),
    "ids": ("position_ids", "positions", "position", "pos", "input_pos", "pos_ids", "ids", "token_positions"),
    "cos": ("cos", "cosine", "cos_q"),
    "sin": ("sin", "sine", "sin_q"),
    "cos_k": ("cos_k",),
    "sin_k": ("sin_k",),
    "complex": ("freqs_cis", "freqs_ci", "freq_cis", "freqs", "pos_cis"),
}
_ROLES = {name: role for role, names in _NAMES.items() for name in names}


@dataclass(frozen=True, slots=True)
class Slots:
    """A function, and the role of each argument that it is given, in its own order."""

    function: Callable[..., Any]
    roles: tuple[tuple[str, str], ...]  # (parameter, role)
    first: int  # how many can be passed by position only

    def has(self, role: str) -> bool:
        """Say whether the function takes this."""
        return any(own == role for _, own in self.roles)

    def call(self, values: Mapping[str, Any]) -> Any:
        """Call the function with the values of its roles."""
        given = [(name, values[role]) for name, role in self.roles if role in values]
        return self.function(*(value for _, value in given[: self.first]), **dict(given[self.first :]))


def slots_of(function: Callable[..., Any], needed: Sequence[str]) -> Slots:
    """Give the roles of a function's arguments.

    A parameter that has a default and no role is left alone. Where the names do not say what the required parameters
    are, and there are as many as needed, they are taken in the order of needed.

    Raises:
        RopewalkError: where neither is so, or the parameters cannot be seen.
    """
    seen = getattr(function, "forward", function)  # a torch module's __call__ takes anything
    name = getattr(seen, "__qualname__", type(function).__name__)
    advice = f"write def fn(x, position_ids): … that calls {name} and returns the turned x, and check that."
    try:
        parameters = list(inspect.signature(seen).parameters.values())
    except (TypeError, ValueError) as error:
        raise RopewalkError(f"the parameters of {name} cannot be seen; {advice}") from error
    single = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    required = [one.name for one in single if one.default is one.empty]
    first = sum(one.kind is one.POSITIONAL_ONLY for one in single)
    named = [(one.name, _ROLES[one.name]) for one in single if one.name in _ROLES]
    known = [own for own, _ in named]
    if all(own in known for own in required) and set(needed) <= {role for _, role in named}:
        return Slots(function, tuple(named), first)
    for order in (tuple(needed), (needed[0], "k", *needed[1:])):
        fits = len(required) == len(order)
        if fits and all(_ROLES.get(one, role) == role for one, role in zip(required, order, strict=True)):
            return Slots(function, tuple(zip(required, order, strict=True)), first)
    if not single and len(parameters) > 0:  # (*args, **kwargs): by position, and nothing can be known
        return Slots(function, tuple((f"argument {place}", role) for place, role in enumerate(needed)), len(needed))
    listed = ", ".join(str(one) for one in parameters)
    raise RopewalkError(
        f"{name}({listed}) must take {', '.join(needed)}, and the names do not say which argument is which; {advice}"
    )
