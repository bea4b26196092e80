"""rotate and rotate_qk on JAX arrays, as ropewalk.rotate calls them."""

from typing import Any

from ..errors import RopewalkError
from ..rope import Rope
from . import jax_ops


def rotate(x: Any, position_ids: Any, rope: Rope, *, out: Any = None, **rest: Any) -> Any:
    """Turn one array; see ropewalk.rotate."""
    _no_out(out)
    return jax_ops.rotate(x, position_ids, rope, **rest)


def rotate_qk(q: Any, k: Any, position_ids: Any, rope: Rope, *, out: Any = None, **rest: Any) -> Any:
    """Turn queries and keys; see ropewalk.rotate_qk."""
    _no_out(out)
    return jax_ops.rotate_qk(q, k, position_ids, rope, **rest)


def _no_out(out: Any) -> None:
    if out is not None:
        raise RopewalkError("JAX arrays do not change: leave out away, and donate x to jit to turn in its memory.")
