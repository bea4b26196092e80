"""Configurations that the tests of faults start from, and short ways to ask what is read out of them.

The numbers of the tests are float64, from the papers' formulas; transformers 5.24 agrees with them to float32 rounding.
"""

import pytest

import ropewalk
from ropewalk.scaling import Default

RTOL = 1e-9  # ten digits are given
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 16,
    "low_freq_factor": 1,
    "high_freq_factor": 4,
    "original_max_position_embeddings": 4096,
}
YARN = {"rope_type": "yarn", "factor": 12, "original_max_position_embeddings": 6144}


def config(block=None, *, head_dim=96, theta=3e5, **keys):
    """A Llama of two layers; a theta of None is left out."""
    rope = dict(block or {})
    if theta is not None:
        rope.setdefault("rope_theta", theta)
    return {
        "model_type": "llama",
        "head_dim": head_dim,
        "num_hidden_layers": 2,
        "max_position_embeddings": 4096,
        "rope_parameters": rope,
        **keys,
    }


def yarn(block=None, **keys):
    """The block of F206: R = 80, theta 250000, 6144 tokens stretched by 12."""
    given = {"head_dim": 80, "theta": 250000, "max_position_embeddings": 73728, **keys}
    return config({**YARN, **(block or {})}, **given)


def dynamic(**keys):
    """The block of F218."""
    given = {"theta": 5e4, "max_position_embeddings": 3072, **keys}
    return config({"rope_type": "dynamic", "factor": 3}, **given)


def longrope(**keys):
    """The block of F223."""
    block = {"rope_type": "longrope", "short_factor": [1.0] * 40, "long_factor": [2.5] * 40, **keys}
    block.setdefault("original_max_position_embeddings", 3072)
    return config(block, head_dim=80, theta=1e4, max_position_embeddings=49152)


def rope_of(target):
    return ropewalk.read(target).rope


def inv_freq(target, length=None):
    return rope_of(target).pairs(length).inv_freq


def close(right):
    return pytest.approx(right, rel=RTOL, abs=0)


def divisors(rope):
    """What scaling divides each frequency by."""
    return rope.replace(scaling=Default()).pairs().inv_freq / rope.pairs().inv_freq


def names(target, severity=None):
    """The names of the findings, of one severity where one is given."""
    return {one.name for one in ropewalk.read(target).findings if severity in (None, one.severity)}


def errors(target):
    """The messages of the error findings."""
    return [one.message for one in ropewalk.read(target).findings if one.severity == "error"]


def finding(target, name):
    (one,) = [one for one in ropewalk.read(target).findings if one.name == name]
    return one


def off_layers(target):
    """The numbers of the layers of the text part without RoPE."""
    return [number for number, layer in enumerate(ropewalk.read(target).layers) if layer.rope is None]
