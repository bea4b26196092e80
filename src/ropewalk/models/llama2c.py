"""llama2.c checkpoints (run.c's `.bin`): seven numbers, weights, and in the first format the tables of cos and sin."""

import math
import struct
from pathlib import Path

import numpy as np

from .._checks import MAX_HEAD_DIM, MAX_LAYERS
from ..rope import Rope
from ._files import Window, as_float64, open_regular
from ._reading import Reading
from .model import Layer, Model

_NAMES: tuple[str, ...] = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")
_ORIGIN = "llama2.c's run.c"


def llama2c_header(path: Path) -> dict[str, int] | None:
    """Give the header of a llama2.c checkpoint, or None where the size of the file is not the one it asks for."""
    header: dict[str, int]
    with open_regular(path) as stream:
        window = Window(stream, path)
        if window.size < 28:
            return None
        header = dict(zip(_NAMES, struct.unpack("<7i", window.take(28)), strict=True))
    dim, heads, kv_heads = header["dim"], header["n_heads"], header["n_kv_heads"]
    bounds = {"dim": 2**24, "hidden_dim": 2**26, "n_layers": MAX_LAYERS, "n_heads": 2**16, "n_kv_heads": 2**16}
    if not all(0 < header[name] <= most for name, most in bounds.items()) or dim % heads or header["seq_len"] <= 0:
        return None
    if dim // heads > MAX_HEAD_DIM or dim // heads % 2 or not header["vocab_size"]:
        return None
    vocab, layers, hidden = abs(header["vocab_size"]), header["n_layers"], header["hidden_dim"]
    kv_dim = dim // heads * kv_heads
    floats = vocab * dim + layers * (2 * dim + 2 * dim * dim + 2 * dim * kv_dim + 3 * dim * hidden) + dim
    header["tables"] = 28 + 4 * floats
    floats += header["seq_len"] * (dim // heads) + (vocab * dim if header["vocab_size"] < 0 else 0)
    return header if window.size == 28 + 4 * floats else None


def read_llama2c(path: Path, header: dict[str, int], *, target: str = "") -> Model:
    """Read a llama2.c checkpoint: sizes from the header, the base from the tables that it carries.

    Args:
        path: the file.
        header: what llama2c_header gave.
        target: what was read, in words.

    Raises:
        RopewalkError: for a file that changes or ends while it is read.
    """
    reading = Reading("text")
    width = header["dim"] // header["n_heads"]
    theta, origin = 10000.0, f"constant of {_ORIGIN}"
    angles = _second_row(path, header, width // 2)
    if angles is not None and width > 2:
        found = _base(angles, width)
        if found is None:
            reading.find(
                "stored-frequencies",
                key="freq_cis_real",
                seen="a table of no plain ladder",
                right="the ladder of base 10000 that run.c computes",
                message="the tables of cos and sin in the file are no ladder of one base. llama2.c's run.c does not "
                "read them and computes base 10000, which is described; the model may have been trained otherwise.",
            )
        else:
            if found != theta:
                reading.find(
                    "stored-frequencies",
                    key="freq_cis_real",
                    seen=f"base {found:g}",
                    right=f"base {found:g}, from the file",
                    message=f"the tables of cos and sin in the file belong to base {found:g}. llama2.c's run.c does "
                    "not read them and computes base 10000.",
                )
            theta, origin = found, "freq_cis_real and freq_cis_imag, row 1"
    for name, words in (
        ("head_dim", "dim / n_heads"),
        ("rotary_dim", "dim / n_heads"),
        ("layers", "n_layers"),
        ("max_position_embeddings", "seq_len"),
        ("pairing", _ORIGIN),
        ("scaling", _ORIGIN),
        ("rope_theta", origin),
    ):
        reading.source(name, words)
    rope = Rope(
        head_dim=width,
        rotary_dim=width,
        rope_theta=theta,
        pairing="interleaved",
        max_position_embeddings=header["seq_len"],
    )
    return Model(
        parts={"text": (Layer(ropes={"attention": rope}),) * header["n_layers"]},
        model_type="llama2.c",
        target=target or str(path),
        findings=tuple(reading.findings),
        sources=reading.sources,
    )


def _second_row(path: Path, header: dict[str, int], pairs: int) -> np.ndarray | None:
    """Give the angles of position 1, or None where the model has a single position."""
    if header["seq_len"] < 2:
        return None
    rows = []
    with open_regular(path) as stream:
        window = Window(stream, path)
        for table in range(2):
            window.at = header["tables"] + 4 * pairs * (table * header["seq_len"] + 1)
            rows.append(as_float64(np.frombuffer(window.take(4 * pairs), dtype="<f4")))
    if not np.isfinite(rows).all():
        return np.full(pairs, np.nan)
    return np.arctan2(rows[1], rows[0])


def _base(angles: np.ndarray, width: int) -> float | None:
    """Give the base whose ladder these angles are, or None."""
    if not (np.isfinite(angles).all() and abs(angles[0] - 1) < 1e-5 and (angles > 0).all()):
        return None
    slowest = len(angles) - 1
    try:
        theta = float(angles[slowest]) ** (-width / (2 * slowest))
    except OverflowError:
        return None
    theta = float(f"{theta:.4g}")
    right = theta ** (-2.0 * np.arange(len(angles)) / width)
    return theta if math.isfinite(theta) and np.allclose(angles, right, rtol=1e-4, atol=0) else None
