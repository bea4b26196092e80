"""RoPE as a torch module: `Rotary`, without state, exact after any cast, and quick where nobody records gradients."""

from typing import Any

import torch
from torch import Tensor, nn

from .errors import RopewalkError
from .rope import Rope
from .turning import torch_calls, torch_ops
from .turning._inputs import check_layout, check_rope
from .turning.tables import speeds

__all__ = ["Rotary"]


class Rotary(nn.Module):
    """Turns queries and keys by their positions.

    It has no parameters and no buffers: frequencies live outside what ``.to(bfloat16)``, meta initialisation,
    ``state_dict`` or FSDP touch, and are computed in float64 whatever the model's dtype.

    Args:
        rope: the description.
        layout: "bshd" for q [B, S, H, D], "bhsd" for q [B, H, S, D] (transformers), "thd" for packed [T, H, D].
        learnable: keep the speeds (radians a position) as a float32 parameter ``inv_freq`` that trains; turning then
            goes through plain torch operations.

    Raises:
        RopewalkError: for what is no Rope, an unknown layout, or learnable speeds of a rope whose speeds depend on the
            length.

    >>> rotary = Rotary(Rope(head_dim=4, rope_theta=100.0, pairing="half"))
    >>> q, k = rotary(torch.ones(1, 3, 4, 4), torch.ones(1, 3, 2, 4))
    >>> q.shape, [round(value, 4) for value in k[0, 2, 0].tolist()]
    (torch.Size([1, 3, 4, 4]), [-1.3254, 0.7814, 0.4932, 1.1787])
    """

    def __init__(self, rope: Rope, layout: str = "bshd", *, learnable: bool = False) -> None:
        super().__init__()
        self.rope = check_rope(rope)
        self.layout = check_layout(layout)
        self._quick = torch_calls.Quick(rope, layout)
        self.inv_freq: nn.Parameter | None = None
        self._recipe: torch_ops.Recipe | None = None
        if learnable:
            if rope.length_dependent:
                raise RopewalkError(
                    f"{rope.scaling.rope_type} scaling derives the speeds from the length: they cannot be learned."
                )
            self.inv_freq = nn.Parameter(torch.empty(len(speeds(rope.pairs())), dtype=torch.float32))
            self._recipe = torch_ops.recipe_of(rope)
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set learnable speeds back to those of the description; without them, nothing."""
        if self.inv_freq is not None:
            with torch.no_grad():
                self.inv_freq.copy_(torch.tensor(speeds(self.rope.pairs()).tolist(), dtype=torch.float32))

    def forward(self, q: Tensor, k: Tensor, position_ids: Any = None, length: Any = None) -> tuple[Tensor, Tensor]:
        """Turn q and k.

        Args:
            q: queries in the module's layout: float32, float64, bfloat16 or float16.
            k: keys, with as many or fewer heads.
            position_ids: [S], [B, S], or [A, B, S] for a rope with A axes; integers or floats; None is 0 … S - 1.
            length: tokens in the sequence, an int or one a row; needed by dynamic NTK and LongRoPE.

        Returns:
            (q', k') of the same shapes and dtype.

        Raises:
            RopewalkError: for what does not fit, and for a missing length.
        """
        if not torch.compiler.is_compiling() and self.inv_freq is None:
            turned = self._quick(q, k, position_ids, length, in_place=False)
            if turned is not None:
                return turned
        turned = torch_calls.turn_all(
            (("q", q, None), ("k", k, None)), position_ids, self.rope, length, self.layout, False, self._learned()
        )
        return turned[0], turned[1]

    def rotate_(self, q: Tensor, k: Tensor, position_ids: Any = None, length: Any = None) -> tuple[Tensor, Tensor]:
        """Turn q and k in place, without recording gradients; arguments as for a call.

        Raises:
            RopewalkError: as a call does, and where q or k needs a gradient that is being recorded.
        """
        if not torch.compiler.is_compiling() and self.inv_freq is None:
            turned = self._quick(q, k, position_ids, length, in_place=True)
            if turned is not None:
                return turned
        given = (("q", q, q), ("k", k, k))
        turned = torch_calls.turn_all(given, position_ids, self.rope, length, self.layout, False, self._learned())
        return turned[0], turned[1]

    def _learned(self) -> tuple[Tensor, torch_ops.Recipe] | None:
        return None if self.inv_freq is None or self._recipe is None else (self.inv_freq, self._recipe)

    def extra_repr(self) -> str:
        """Say what turns, for print(model)."""
        scaling = self.rope.scaling.rope_type
        learned = ", learnable=True" if self.inv_freq is not None else ""
        return (
            f"head_dim={self.rope.head_dim}, rotary_dim={self.rope.width}, rope_theta={self.rope.rope_theta:g}, "
            f"pairing={self.rope.pairing!r}, rope_type={scaling!r}, layout={self.layout!r}{learned}"
        )
