"""`rotate` and `rotate_qk`: one call for NumPy, torch and JAX, dispatched on what x is."""

from typing import Any

from .._checks import truth
from ..errors import RopewalkError
from ..rope import Rope
from ._inputs import Length


def rotate(
    x: Any,
    position_ids: Any,
    rope: Rope,
    *,
    inverse: bool = False,
    length: Length = None,
    out: Any = None,
    layout: str = "bshd",
) -> Any:
    """Turn the vectors of x by their positions: multiply each pair by g·R.

    Args:
        x: [..., S, H, D] ([..., H, S, D] with layout "bhsd", [T, H, D] with "thd"); a NumPy array, torch tensor or JAX
            array of float32, float64, float16 or bfloat16. Channels in no pair pass through unchanged.
        position_ids: [S], [B, S], or [A, B, S] for a rope with A axes (M-RoPE takes [S] and [B, S] too, for text: one
            position on every axis); integers of any sign up to 2^53, or floats.
        rope: the description; its head_dim is D.
        inverse: undo it: multiply by R transposed, divided by g.
        length: tokens in the sequence, one int or one a row [B]; needed by dynamic NTK and LongRoPE, unused by others.
        out: where to write; x itself turns in place. Not for JAX, and not where torch records gradients.
        layout: "bshd", "bhsd" or "thd".

    Returns:
        An array of x's library, shape and dtype. cos and sin are exact (float64), the arithmetic is float32 (float64
        for float64), and the result is rounded once. torch and JAX differentiate it.

    Raises:
        RopewalkError: for shapes, types or positions that do not fit, a missing length, an out that overlaps x in part,
            or the inverse of a map that has none.

    Source: Su et al. 2021, RoFormer, equation 34.

    >>> import numpy as np
    >>> rope = Rope(head_dim=2, rope_theta=1.0, pairing="half")
    >>> x = np.array([[[1.0, 0.0]]], dtype=np.float32)
    >>> turned = rotate(x, [np.pi / 2], rope)
    >>> turned.dtype.name, turned.round(6).tolist()
    ('float32', [[[0.0, 1.0]]])
    """
    truth("inverse", inverse)
    return _home(x).rotate(x, position_ids, rope, inverse=inverse, length=length, out=out, layout=layout)


def rotate_qk(
    q: Any,
    k: Any,
    position_ids: Any,
    rope: Rope,
    *,
    inverse: bool = False,
    length: Length = None,
    out: Any = None,
    layout: str = "bshd",
) -> tuple[Any, Any]:
    """Turn queries and keys of the same tokens in one call; they may differ in their number of heads.

    Args:
        q: queries [..., S, H, D], as x of rotate.
        k: keys [..., S, KV, D], of q's library and dtype.
        position_ids: as for rotate.
        rope: as for rotate.
        inverse: as for rotate.
        length: as for rotate.
        out: (for q, for k); (q, k) turns in place.
        layout: as for rotate.

    Returns:
        (q', k').

    Raises:
        RopewalkError: as rotate does, and where q and k do not belong together.

    >>> import numpy as np
    >>> rope = Rope(head_dim=4, rope_theta=100.0, pairing="half")
    >>> q, k = rotate_qk(np.ones((3, 4, 4)), np.ones((3, 2, 4)), range(3), rope)
    >>> q.shape, k.shape
    ((3, 4, 4), (3, 2, 4))
    """
    truth("inverse", inverse)
    home = _home(q)
    if _home(k) is not home:
        raise RopewalkError(
            f"q and k must be arrays of one library, got {type(q).__module__}.{type(q).__name__} and "
            f"{type(k).__module__}.{type(k).__name__}. Convert one of them."
        )
    return home.rotate_qk(q, k, position_ids, rope, inverse=inverse, length=length, out=out, layout=layout)


def _home(x: Any) -> Any:
    """Give the module that turns what x is; a library is imported only for its own arrays."""
    libraries = {base.__module__.partition(".")[0] for base in type(x).__mro__}  # tracers are of jax._src too
    if "torch" in libraries:
        from . import torch_calls

        return torch_calls
    if libraries & {"jax", "jaxlib"}:
        from . import jax_calls

        return jax_calls
    from . import numpy_ops

    return numpy_ops
