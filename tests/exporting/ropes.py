"""One rope of every kind that the exporters meet."""

from ropewalk import Ladders, Rope, Sections
from ropewalk.scaling import Default, Dynamic, Linear, Llama3, LongRope, Ntk, Proportional, Yarn

BASE = {"head_dim": 128, "rope_theta": 500000.0, "max_position_embeddings": 32768}
SHORT = tuple(1 + i / 100 for i in range(64))
LONG = tuple(1 + i / 2 for i in range(64))
L0 = {"original_max_position_embeddings": 8192}
SCALINGS = {
    "default": Default(),
    "linear": Linear(factor=4.0),
    "ntk": Ntk(factor=4.0),
    "ntk-vllm": Ntk(factor=4.0, method="vllm"),
    "ntk-base": Ntk(factor=4.0, method="base"),
    "dynamic": Dynamic(factor=4.0),
    "yarn": Yarn(factor=4.0, **L0),
    "yarn-loose": Yarn(factor=4.0, truncate=False, **L0),
    "yarn-betas": Yarn(factor=4.0, beta_fast=16.0, beta_slow=2.0, **L0),
    "yarn-magnitude": Yarn(factor=4.0, attention_factor=1.5, **L0),
    "yarn-mscales": Yarn(factor=4.0, mscale=1.0, mscale_all_dim=0.5, **L0),
    "yarn-softmax": Yarn(factor=4.0, mscale=0.7, mscale_all_dim=0.7, scale_softmax=True, **L0),
    "longrope": LongRope(short_factor=SHORT, long_factor=LONG, **L0),
    "longrope-mscales": LongRope(short_factor=SHORT, long_factor=LONG, short_mscale=1.1, long_mscale=1.3, **L0),
    "llama3": Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, **L0),
    "proportional": Proportional(partial_rotary_factor=0.25),
    "proportional-factor": Proportional(partial_rotary_factor=0.25, factor=2.0),
}
PLAIN = {name: Rope(pairing="half", scaling=scaling, **BASE) for name, scaling in SCALINGS.items()}
SHAPES = {
    "interleaved": Rope(pairing="interleaved", **BASE),
    "partial": Rope(pairing="half", rotary_dim=48, **BASE),
    "partial-interleaved": Rope(pairing="interleaved", rotary_dim=96, **BASE),
    "third": Rope(pairing="half", head_dim=192, rotary_dim=64, rope_theta=1e4, max_position_embeddings=4096),
    "tail": Rope(pairing="half", rotary_dim=64, rotary_start=64, **BASE),
    "backwards": Rope(pairing="half", direction=-1, **BASE),
    "odd": Rope(pairing="half", rotary_dim=63, odd="pass", **BASE),
    "tiled": Rope(pairing="hybrid_tile", **BASE),
    "chunked": Rope(pairing="half", axes=Sections(sections=(16, 24, 24)), **BASE),
    "dealt": Rope(pairing="half", axes=Sections(sections=(24, 20, 20), arrangement="interleaved"), **BASE),
    "alternating": Rope(pairing="interleaved", axes=Sections(sections=(20, 22, 22), arrangement="alternating"), **BASE),
    "ladders": Rope(pairing="half", axes=Ladders(widths=(64, 64)), **BASE),
    "softmax": Rope(pairing="interleaved", scaling=SCALINGS["yarn-softmax"], **(BASE | {"head_dim": 64})),
    "open-length": Rope(pairing="half", head_dim=96, rope_theta=71738.123),
}
ROPES = PLAIN | SHAPES
