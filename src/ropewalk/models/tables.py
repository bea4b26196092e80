"""Tables of cos and sin, as engines cache them, taken back to a description."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import MAX_HEAD_DIM, choice, whole
from ..errors import RopewalkError
from ..fitting.rows import Recovered, known, recover
from ..rope import Rope
from ..scaling import Scaling
from ..scaling._frequencies import ladder
from ._reading import Reading
from .gguf_divisors import table
from .model import Layer, Model
from .npy_file import Array, read_npy, read_npz

# of the arrays of a file, those that belong together
NAMES = (
    ("cos", "sin"),
    ("cos_cached", "sin_cached"),
    ("cos_cache", "sin_cache"),
    ("freqs_cos", "freqs_sin"),
    ("cos_sin_cache",),
    ("freqs_cis",),
)
_COMPARED = 1024  # rows in which one half of a table is held against the other


def read_tables(
    cos: Any,
    sin: Any = None,
    *,
    head_dim: int | None = None,
    pairing: str | None = None,
    target: str = "tables of cos and sin",
) -> Model:
    """Describe the rope whose cos and sin these are: frequencies from the rows, then a known theta and scaling.

    Args:
        cos: [positions, R/2], or [positions, R] with each entry twice (tiled, or repeated); axes of one entry are
            left out. An array or a tensor of any floating-point type.
        sin: likewise; None where cos is one array of both: cos beside sin [positions, R], cos and sin in a last axis
            of two, or complex numbers.
        head_dim: D, where the table turns only part of a head; else R.
        pairing: "half" or "interleaved". Where it is None, a table with each entry twice tells it (tiled: half,
            repeated: interleaved), and for one that does not "half" is taken and reported.
        target: what was read, in words, for the Model.

    Returns:
        A Model of one layer. Its rope has the known scaling that reproduces the table to its type, or the
        frequencies themselves as a longrope whose two lists are equal.

    Raises:
        RopewalkError: where these are no cos and sin of positions from 0 on times fixed frequencies.

    >>> import numpy as np
    >>> angles = np.arange(64)[:, None] * 500000.0 ** (-np.arange(8) / 8)
    >>> read_tables(np.cos(angles), np.sin(angles), pairing="half").rope.rope_theta
    500000.0
    """
    arrays = [_array(cos, "cos")] if sin is None else [_array(cos, "cos"), _array(sin, "sin")]
    return _described(arrays, head_dim, pairing, target)


def read_table_file(path: Path, *, target: str = "") -> Model:
    """Read the tables of a .npy or .npz file.

    Args:
        path: the file.
        target: what was read, in words, for the Model.

    Raises:
        RopewalkError: for a file that is none, is damaged, or holds no cos and sin.
    """
    arrays = [read_npy(path)] if path.suffix.lower() != ".npz" else list(read_npz(path, NAMES).values())
    return _described(arrays, None, None, target or str(path))


def rope_of(
    reading: Reading,
    seen: Recovered,
    *,
    length: int,
    pairing: str,
    key: str,
    form: str,
    head_dim: int | None = None,
) -> Rope:
    """Describe what was recovered from a table, with the finding that says how.

    Args:
        reading: where findings and sources go.
        seen: what was recovered.
        length: rows of the whole table.
        pairing: "half" or "interleaved".
        key: what the table is called in its file.
        form: of the file, in words: "an ONNX graph".
        head_dim: D; None takes the width of the table.

    Raises:
        RopewalkError: for a table that turns nothing, or pairs that turn both ways.
    """
    width = 2 * len(seen.inv_freq)
    turning = seen.inv_freq[seen.inv_freq != 0]
    if not len(turning):
        raise RopewalkError("no pair of the table turns at any position, so it is no RoPE.")
    if (turning > 0).any() and (turning < 0).any():
        raise RopewalkError("some pairs of the table turn one way and some the other, which no description says.")
    shape = {
        "head_dim": width if head_dim is None else head_dim,
        "rotary_dim": width,
        "pairing": pairing,
        "direction": 1 if turning[0] > 0 else -1,
        "max_position_embeddings": length,
    }
    fit = known(seen, length=length)
    rope, open_, kept = None, (), False
    if fit is not None:
        try:
            rope, open_ = Rope(rope_theta=fit.rope_theta, scaling=fit.scaling, **shape), fit.open
        except RopewalkError:
            rope = None
    if rope is None:
        theta, scaling = _kept(seen, width, length)
        rope, kept = Rope(rope_theta=theta, scaling=scaling, **shape), True
    how = "the table itself" if kept else rope.scaling.rope_type
    reading.source("rope_theta", f"{key}, its frequencies")
    reading.source("scaling", f"{key}, kept as a table" if kept else f"{key}, fitted")
    reading.source("max_position_embeddings", "rows of the tables")
    words = f"{len(seen.inv_freq)} frequencies from {len(seen.rows)} of {length} rows, {seen.kind}"
    left = f" Left open: {'; '.join(open_)}." if open_ else ""
    if kept:
        reading.find(
            "table-kept",
            key=key,
            seen=words,
            right="the frequencies themselves, at every length",
            message=f"no known scaling reproduces these tables to {seen.kind}, so their frequencies are kept as they "
            "are: a longrope whose two lists are equal.",
        )
    else:
        reading.find(
            "frequencies-fitted",
            key=key,
            seen=words,
            right=f"base {rope.rope_theta:g}, {how}",
            message=f"{form} holds tables of cos and sin, not parameters: the base and the scaling shown are fitted, "
            f"and reproduce the rows to {seen.kind}. The width of the tables is taken for that of the head unless it "
            f"is given.{left}",
        )
    return rope


def _kept(seen: Recovered, width: int, length: int) -> tuple[float, Scaling]:
    freq = np.abs(seen.inv_freq)
    theta = 10_000.0
    if len(freq) > 1 and 0 < freq[1] < freq[0]:
        with np.errstate(all="ignore"):
            exact = float((freq[1] / freq[0]) ** (-width / 2))
        theta = float(f"{exact:.4g}") if 1 < exact < 1e15 else theta
    divisors = ladder(theta, width) / np.where(freq > 0, freq, 1e-30)
    return theta, table(divisors, length, seen.magnitude)


def _described(arrays: list[Array], head_dim: int | None, pairing: str | None, target: str) -> Model:
    reading = Reading("text")
    if pairing is not None:
        choice("pairing", pairing, ("half", "interleaved"))
    if head_dim is not None:
        whole("head_dim", head_dim, at_least=2, at_most=MAX_HEAD_DIM)
    try:
        cos, sin = _both(arrays)
        length = max(cos.shape[0], arrays[0].shape[0])
        cos, sin, told = _single(cos, sin)
        reading.source("pairing", "given" if pairing else "each entry of the table twice" if told else "taken")
        if pairing is None and told is None:
            reading.find(
                "pairing-open",
                key="cos, sin",
                seen=f"{cos.shape[1]} columns, each pair once",
                right="half is taken",
                message="a table of one cosine a pair does not say which two channels a pair is: (i, i + R/2), half, "
                "is taken. Ask the code that reads it, and pass pairing= to read_tables.",
            )
        rope = rope_of(
            reading,
            recover(cos, sin),
            length=length,
            pairing=pairing or told or "half",
            key="cos, sin",
            form="a table file",
            head_dim=head_dim,
        )
    except RopewalkError as error:
        raise RopewalkError(f"{target}: {error}") from error
    return Model(
        parts={"text": (Layer(ropes={"attention": rope}),)},
        model_type="tables",
        target=target,
        findings=tuple(reading.findings),
        sources=reading.sources,
    )


def _array(given: Any, name: str) -> Array:
    values = given
    if hasattr(values, "detach"):  # a tensor; NumPy has no bfloat16
        values = values.detach().cpu()
        values = values.float() if "bfloat16" in str(values.dtype) else values
    try:
        values = np.asarray(values)
        values = values.astype(np.float32) if values.dtype.name == "bfloat16" else values
    except (TypeError, ValueError) as error:
        raise RopewalkError(
            f"{name} must be an array of floating-point numbers, got {type(given).__name__}."
        ) from error
    if values.dtype.kind not in "fc" or values.ndim < 2 or min(values.shape) < 1:
        raise RopewalkError(
            f"{name} must be a table [positions, pairs] of floating-point numbers, got shape {list(values.shape)} of "
            f"{values.dtype}."
        )
    return Array(values, values.shape)


def _both(arrays: list[Array]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Give cos and sin [S, W] of two arrays, or of the two parts of one."""
    if len(arrays) == 2:
        parts = tuple(_flat(one.values, 2) for one in arrays)
        if any(part.dtype.kind == "c" for part in parts):
            raise RopewalkError("cos and sin are complex; give the complex table alone.")
    else:
        values = arrays[0].values
        if values.dtype.kind == "c":
            flat = _flat(values, 2)
            parts = np.real(flat), np.imag(flat)
        elif values.ndim > 2 and values.shape[-1] == 2:
            flat = _flat(values, 3)
            parts = flat[..., 0], flat[..., 1]
        else:
            flat = _flat(values, 2)
            half = flat.shape[1] // 2
            parts = flat[:, :half], flat[:, half:]
            with np.errstate(all="ignore"):
                first = np.asarray(flat[0], dtype=np.float64)
            if flat.shape[1] % 2 or not (first[:half] > 0).all() or (np.abs(first[half:]) > 1e-6).any():
                raise RopewalkError(
                    f"one array [positions, R] must hold cos, then sin; its first row starts with "
                    f"{[float(f'{value:.4g}') for value in first[:3].tolist()]}. Give cos and sin in one .npz file."
                )
    cos, sin = parts
    if cos.shape != sin.shape or cos.shape[0] < 2 or cos.shape[1] > MAX_HEAD_DIM:
        raise RopewalkError(
            f"cos and sin must be equal tables [positions, pairs] of two rows or more, got {list(cos.shape)} and "
            f"{list(sin.shape)}."
        )
    return cos, sin


def _flat(values: NDArray[Any], ndim: int) -> NDArray[Any]:
    """Leave out axes of one entry until ndim are left."""
    for axis in reversed(range(values.ndim - (ndim == 3))):
        if values.ndim > ndim and values.shape[axis] == 1:
            values = np.squeeze(values, axis)
    if values.ndim != ndim:
        raise RopewalkError(
            f"a table is [positions, pairs], one row a position, got shape {list(values.shape)}. Give one sequence."
        )
    return values


def _single(cos: NDArray[Any], sin: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], str | None]:
    """Give the tables with each entry once, and the pairing that having it twice tells."""
    half = cos.shape[1] // 2
    if cos.shape[1] % 2 or half < 1:
        return cos, sin, None
    few = slice(min(len(cos), _COMPARED))
    c, s = cos[few], sin[few]
    if np.array_equal(c[:, :half], c[:, half:]):
        if np.array_equal(s[:, :half], s[:, half:]):
            return cos[:, :half], sin[:, :half], "half"
        if np.array_equal(s[:, :half], -s[:, half:]):  # the sign of rotate_half put into the table
            return cos[:, half:], sin[:, half:], "half"
    if np.array_equal(c[:, 0::2], c[:, 1::2]):
        if np.array_equal(s[:, 0::2], s[:, 1::2]):
            return cos[:, 0::2], sin[:, 0::2], "interleaved"
        if np.array_equal(s[:, 0::2], -s[:, 1::2]):
            return cos[:, 1::2], sin[:, 1::2], "interleaved"
    return cos, sin, None
