"""Cos and sin inside a JAX program: turns counted in whole numbers, so that float32 is exact at any position.

JAX has no float64 unless it is asked for, and a float32 angle loses a digit with every factor of ten in the position.
But only the fraction of a turn matters, and whole numbers keep that: a speed is written as turns a position in units
of 2^-64, the product with a position is taken in uint32, whose overflow drops the full turns, and the top 32 bits are
left. That needs no table and no gather, and is as exact at position 2^31 - 1 as at position 1.
"""

import math
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import MAX_POSITION
from ..pairs import Pairs
from .tables import speeds as column_speeds

FLOAT_LIMIT = 2.0**31  # traced float32 positions from here on give NaN
_BITS = 1152  # of 1/2π: the largest float64 has 1024 before the point, 64 are wanted behind it
_DIGIT = 24  # bits of a float32
# cos and sin of t·π/4 for t in -1 … 1, as series in t²; the first term left out is below 2e-9
_COS = [np.float32((-1) ** j * (math.pi / 4) ** (2 * j) / math.factorial(2 * j)) for j in range(6)]
_SIN = [np.float32((-1) ** j * (math.pi / 4) ** (2 * j + 1) / math.factorial(2 * j + 1)) for j in range(5)]


class Speeds(NamedTuple):
    """How fast C columns turn: constants [C], or [B, 1, C] where every row has its own.

    Attributes:
        high: uint32 for each digit k: turns that 2^(-24k) of a position makes, modulo 1, in units of 2^-32.
        low: uint32, what follows them, in units of 2^-64.
        rest: float32, units of 2^-32 of a turn that 2^(-24k) of a position makes, for what is left after the last k.
        radians: float32 radians a position, for the derivative; float64 and alone where JAX has float64.
    """

    high: tuple[Any, ...]
    low: tuple[Any, ...]
    rest: Any
    radians: Any


def digits(fastest: float) -> int:
    """Give how many digits of 24 bits a fraction of a position needs, so that what is left moves less than 2^-8 turns.

    >>> digits(1.0), digits(1e9)
    (1, 2)
    """
    return max(1, math.ceil((math.frexp(fastest / (2 * math.pi))[1] + 8) / _DIGIT))


@lru_cache(maxsize=256)
def constants(pairs: Pairs, count: int | None) -> Speeds:
    """Give the speeds of these pairs with count digits behind whole positions, 0 for integers, None for float64.

    >>> one = constants(Pairs(first=[0], second=[1], axis=[0], inv_freq=[1.0]), 0)
    >>> hex(int(one.high[0][0])), hex(int(one.low[0][0]))  # the first 64 bits of 1/2π
    ('0x28be60db', '0x9391054a')
    """
    columns = column_speeds(pairs)
    if count is None:
        return Speeds((), (), None, columns)
    words = np.array([[_word(w, _DIGIT * k) for w in columns.tolist()] for k in range(count + 1)], dtype=np.uint64)
    high = tuple((words >> np.uint64(32)).astype(np.uint32))
    low = tuple((words & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    if count == 0:
        return Speeds(high, low, None, None)
    rest = np.array([math.ldexp(w / (2 * math.pi), 32 - _DIGIT * count) for w in columns.tolist()])
    return Speeds(high, low, rest.astype(np.float32), columns.astype(np.float32))


def ranked(array: Any, ndim: int) -> Any:
    """Give array with leading axes of one: programs may forbid that ranks are promoted in silence."""
    return array.reshape((1,) * (ndim - array.ndim) + array.shape)


def cos_sin(ids: jax.Array, speeds: Speeds) -> tuple[jax.Array, jax.Array]:
    """Give cos and sin of the angles of positions ids [..., S, 1 or C], each [..., S, C].

    Float32 off by at most 1.2e-7 whatever the position, or float64 where JAX has it. NaN for a position that is not
    finite, a float32 one from 2^31 on, or a 64-bit integer beyond 2^53.
    """
    ndim = max(ids.ndim, *(leaf.ndim for leaf in jax.tree_util.tree_leaves(speeds)))
    ids, speeds = ranked(ids, ndim), jax.tree_util.tree_map(lambda leaf: ranked(leaf, ndim), speeds)
    if not speeds.high:
        return _wide(ids, speeds.radians)
    if jnp.issubdtype(ids.dtype, jnp.floating):
        return _of_floats(ids.astype(np.float32), speeds)
    if jnp.issubdtype(ids.dtype, jnp.unsignedinteger):
        return _of_turns(_product(ids.astype(np.uint32), speeds, 0), np.False_)
    ids = ids.astype(np.int32)
    bits = jax.lax.bitcast_convert_type(ids, np.uint32)
    return _of_turns(_product(jnp.where(ids < 0, 0 - bits, bits), speeds, 0), ids < 0)


def _wide(ids: jax.Array, radians: jax.Array) -> tuple[jax.Array, jax.Array]:
    position = ids.astype(np.float64)
    if jnp.issubdtype(ids.dtype, jnp.integer):
        position = jnp.where(jnp.abs(position) <= MAX_POSITION, position, np.nan)
    angle = position * radians
    return jnp.cos(angle), jnp.sin(angle)


@jax.custom_jvp
def _of_floats(ids: jax.Array, speeds: Speeds) -> tuple[jax.Array, jax.Array]:
    """Take a float32 position apart, without error, into whole numbers of 24 bits, and add up their turns."""
    size = jnp.abs(ids)
    whole = jnp.floor(size)
    turns, left = _product(whole.astype(np.uint32), speeds, 0), size - whole
    for k in range(1, len(speeds.high)):
        left = left * np.float32(2**_DIGIT)
        whole = jnp.floor(left)
        turns, left = turns + _product(whole.astype(np.uint32), speeds, k), left - whole
    last = jnp.round(left * speeds.rest).astype(np.int32)
    cos, sin = _of_turns(turns + jax.lax.bitcast_convert_type(last, np.uint32), ids < 0)
    reached = size < np.float32(FLOAT_LIMIT)
    return jnp.where(reached, cos, np.float32(np.nan)), jnp.where(reached, sin, np.float32(np.nan))


@_of_floats.defjvp
def _of_floats_jvp(primals: Any, tangents: Any) -> Any:
    (ids, speeds), (moved, _) = primals, tangents
    cos, sin = _of_floats(ids, speeds)
    rate = moved * speeds.radians  # whole numbers have no derivative; the angle's is the speed
    return (cos, sin), (-sin * rate, cos * rate)


def _product(count: jax.Array, speeds: Speeds, k: int) -> jax.Array:
    """Multiply uint32 counts by a digit's speed; give the fraction of a turn in 2^-32, short by at most 4 of them."""
    high, low = speeds.high[k], speeds.low[k]
    count_1, count_0, low_1, low_0 = count >> 16, count & 0xFFFF, low >> 16, low & 0xFFFF
    return count * high + count_1 * low_1 + ((count_1 * low_0) >> 16) + ((count_0 * low_1) >> 16)


def _of_turns(turns: jax.Array, negative: Any) -> tuple[jax.Array, jax.Array]:
    """Give cos and sin of uint32 fractions of a turn, float32; sin with the other sign where negative."""
    quarter = (turns + (1 << 29)) >> 30
    rest = jax.lax.bitcast_convert_type(turns - (quarter << 30), np.int32)
    t = rest.astype(np.float32) * np.float32(2.0**-29)  # eighths of a turn
    cos, sin = _series(_COS, t * t), t * _series(_SIN, t * t)
    odd = (quarter & 1) != 0
    cos, sin = jnp.where(odd, sin, cos), jnp.where(odd, cos, sin)
    cos_down, sin_down = ((quarter + 1) & 2) != 0, ((quarter & 2) != 0) ^ negative
    return jnp.where(cos_down, -cos, cos), jnp.where(sin_down, -sin, sin)


def _series(terms: list[np.float32], square: jax.Array) -> jax.Array:
    total = jnp.full_like(square, terms[-1])
    for term in terms[-2::-1]:
        total = total * square + term
    return total


def _word(speed: float, shift: int) -> int:
    """Give the turns that 2^-shift of a position makes, modulo 1, in units of 2^-64."""
    numerator, denominator = speed.as_integer_ratio()
    return (numerator * _inverse_turn() >> (_BITS + denominator.bit_length() - 1 + shift - 64)) & (2**64 - 1)


@cache
def _inverse_turn() -> int:
    """Give 1/2π in units of 2^-1152, by Machin's formula π/4 = 4·arctan(1/5) - arctan(1/239)."""
    one = 1 << (_BITS + 64)

    def arctan_of_inverse(n: int) -> int:
        total, power, k = 0, one // n, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power, k = power // (n * n), k + 2
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    return (one << _BITS) // (2 * pi)
