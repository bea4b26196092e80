"""mesh-transformer-jax's training configurations."""

import numpy as np
import pytest

from ropewalk import read

SMALL = {"layers": 3, "d_model": 512, "n_heads": 8, "pe": "rotary", "pe_rotary_dims": 16, "seq": 2048}


def test_the_first_channels_turn_as_neighbours():
    pairs = read(SMALL).rope.pairs()
    assert pairs.first.tolist() == list(range(0, 16, 2))
    np.testing.assert_allclose(pairs.inv_freq, 1e4 ** (-2 * np.arange(8) / 16), rtol=1e-14)


def test_the_whole_head_turns_without_a_width():
    assert read({**SMALL, "pe_rotary_dims": None}).rope.rotary_dim == 64


@pytest.mark.parametrize(("pe", "words"), [("fixed", "learned absolute"), ("t5", "relative bias"), (3, "unknown")])
def test_other_positions(pe, words):
    model = read({**SMALL, "pe": pe})
    assert (len(model.layers), model.ropes, model.positions) == (3, (), {"text": words})
