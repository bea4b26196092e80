"""RoPE on JAX arrays: `ropewalk.jax.rotate` and `rotate_qk`, under jit, grad and vmap, on any device.

>>> import jax, jax.numpy as jnp
>>> from ropewalk import Rope
>>> rope = Rope(head_dim=64, rope_theta=500000.0, pairing="half")
>>> turn = jax.jit(lambda q, k, position_ids: rotate_qk(q, k, position_ids, rope))
>>> q, k = turn(jnp.ones((2, 5, 6, 64), jnp.bfloat16), jnp.ones((2, 5, 2, 64), jnp.bfloat16), jnp.arange(5))
>>> q.shape, str(k.dtype)
((2, 5, 6, 64), 'bfloat16')
"""

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("ropewalk.jax needs JAX: pip install 'ropewalk[jax]'", name="jax") from error

from .turning.jax_ops import rotate, rotate_qk

__all__ = ["rotate", "rotate_qk"]
