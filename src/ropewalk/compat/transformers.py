"""The call shapes of transformers: (cos, sin) by position_ids, its apply function, and `use` for a live model.

transformers itself is not imported.
"""

from torch import Tensor

from ..errors import RopewalkError
from ._rotary import RotaryEmbedding
from ._swapping import Left, Swap, Swapped, use
from ._turning import check_floating, turn_doubled

__all__ = ["Left", "RotaryEmbedding", "Swap", "Swapped", "apply_rotary_pos_emb", "use"]


def apply_rotary_pos_emb(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    """Turn queries and keys half-split by doubled tables; channels past the tables' width pass through.

    The arithmetic is float32 (float64 for float64), where transformers' own is in q's dtype, with one rounding at the
    end; differentiable.

    Args:
        q: [B, H, S, D] queries; with unsqueeze_dim=2, [B, S, H, D].
        k: keys likewise, with a number of heads of their own.
        cos: [B, S, R] (or [1, S, R]), R at most D, as RotaryEmbedding gives it with columns "doubled".
        sin: likewise.
        unsqueeze_dim: where the heads stand.

    Returns:
        (q', k'), shapes and dtypes as given.

    Raises:
        RopewalkError: for shapes or dtypes that do not fit.

    Source: transformers 5.24, `apply_rotary_pos_emb` of modeling_llama.py, and of modeling_gpt_neox.py for R below D.

    >>> import torch
    >>> from ropewalk import Rope
    >>> rotary = RotaryEmbedding(Rope(head_dim=2, rope_theta=1.0, pairing="half"))
    >>> cos, sin = rotary(torch.zeros(1), torch.tensor([[7]]))
    >>> q = torch.tensor([1.0, 0.0]).view(1, 1, 1, 2)
    >>> apply_rotary_pos_emb(q, q, cos, sin)[0].flatten()
    tensor([0.7539, 0.6570])
    """
    check_floating(q=q, k=k, cos=cos, sin=sin)
    if cos.shape != sin.shape or cos.ndim != q.ndim - 1 or not -q.ndim < unsqueeze_dim < q.ndim - 1:
        raise RopewalkError(
            f"cos and sin must be [batch, seq, R] for q [batch, heads, seq, head_dim], unsqueeze_dim={unsqueeze_dim}; "
            f"got cos {list(cos.shape)}, sin {list(sin.shape)}, q {list(q.shape)}."
        )
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    for name, x in (("q", q), ("k", k)):
        width = cos.shape[-1]
        fits = all(c in (1, n) for c, n in zip(cos.shape[:-1], x.shape[:-1], strict=False))
        if x.ndim != cos.ndim or width % 2 or width > x.shape[-1] or not fits:
            raise RopewalkError(
                f"tables of R={width} columns do not fit {name} {list(x.shape)}: R must be even, at most its width, "
                f"batch and sequence as in the tables, which unsqueeze_dim={unsqueeze_dim} makes {list(cos.shape)}."
            )
    return turn_doubled(q, cos, sin), turn_doubled(k, cos, sin)
