"""Position ids: of padded, packed, decoded, multimodal and shared-out tokens; and cached keys moved to new positions.

NumPy in, NumPy out; torch in, torch out, on the same device. Every result is what `rotate` takes: [B, S], [T] for
packed tokens, or [A, B, S] for a rope with several axes.
"""

from .chatglm import chatglm, chatglm_from_ids
from .grids import grid2d, patch_grid
from .multimodal import Grid, MRope, mrope, mrope_from_ids
from .parallel import shard, shard_packed
from .rerotation import rerotate
from .text import decode, from_cu_seqlens, from_mask, next_positions

__all__ = [
    "Grid",
    "MRope",
    "chatglm",
    "chatglm_from_ids",
    "decode",
    "from_cu_seqlens",
    "from_mask",
    "grid2d",
    "mrope",
    "mrope_from_ids",
    "next_positions",
    "patch_grid",
    "rerotate",
    "shard",
    "shard_packed",
]
