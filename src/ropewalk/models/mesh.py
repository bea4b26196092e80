"""mesh-transformer-jax's training configurations: GPT-J.

Source: kingoflolz/mesh-transformer-jax f8315e3 `mesh_transformer/layers.py` (fixed_pos_embedding with the constant
10000, rotate_every_two on the first pe_rotary_dims channels) and `transformer_shard.py`.
"""

from collections.abc import Mapping
from typing import Any

from .._checks import shown
from ._words import Words, model_of, read_part, without_rope
from .architectures import Architecture
from .model import Model

TEXT_WORDS = {
    "d_model": "hidden_size",
    "layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "pe_rotary_dims": "rotary_dim",
    "seq": "max_position_embeddings",
}
OTHER_POSITIONS = {"fixed": "learned absolute", "t5": "relative bias"}

_TEXT = Architecture(
    config_class="mesh-transformer-jax's layers.py", pairing="interleaved", theta=10_000.0, theta_fixed=True
)


def read_mesh(data: Mapping[str, Any], *, target: str = "") -> Model:
    """Read a configuration of mesh-transformer-jax.

    Args:
        data: the object of the file.
        target: what was read, in words, for the Model.

    >>> read_mesh({"pe": "rotary", "layers": 2, "d_model": 64, "n_heads": 4, "pe_rotary_dims": 8}).rope.width
    8
    """
    words = Words().take(data, TEXT_WORDS)
    kind = data.get("pe")
    if kind == "rotary":
        return model_of([read_part("text", words, _TEXT)], target=target)
    positions = OTHER_POSITIONS.get(kind) if isinstance(kind, str) else None
    part = without_rope("text", words, _TEXT, positions or "unknown", "pe")
    if positions is None:
        part.reading.find(
            "positions-unknown",
            key="pe",
            seen=shown(kind),
            right=f"rotary, {' or '.join(OTHER_POSITIONS)}",
            message=f"pe is {shown(kind)}, which mesh-transformer-jax does not know. Only pe = rotary turns pairs.",
        )
    return model_of([part], target=target)
