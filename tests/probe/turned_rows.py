"""Functions that turn by ids of our choice, and which faults the battery names in them."""

import numpy as np

from ropewalk import Rope
from ropewalk.probe.battery import run
from ropewalk.probe.box import Box

from .rotary import half_pairs

D = 16
ROPE = Rope(head_dim=D, rope_theta=5e5, pairing="half")
PAIRS = ROPE.pairs()
STILL = half_pairs(D, inv_freq=np.zeros(D // 2))


def faults(fn, pairs=PAIRS, expect=ROPE, *, box=None, **options):
    box = {"head_dim": D, "heads": 3, "max_position": 70_000, **(box or {})}
    return {one.name: one for one in run(Box(fn, **box), pairs, expect=expect, **options) if not one.ok}


def rows(x, ids):
    return np.broadcast_to(ids[:, :, None], x.shape[:3])
