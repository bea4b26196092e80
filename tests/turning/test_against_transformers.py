"""rotate beside transformers: the same frequencies, the same vectors near 0, nearer to float64 behind."""

import numpy as np
import pytest

from ropewalk import read, rotate
from ropewalk.turning import naive

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")

HEADS, WIDTH, TRAINED = 4, 64, 2048
SCALINGS = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 8.0, "original_max_position_embeddings": 512},
    "longrope": {
        "factor": 4.0,
        "short_factor": [1.0 + 0.05 * i for i in range(WIDTH // 2)],
        "long_factor": [2.0 + 0.1 * i for i in range(WIDTH // 2)],
        "original_max_position_embeddings": 512,
    },
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "proportional": {"partial_rotary_factor": 0.5},
}


def config_of(rope_type, theta=500_000.0):
    parameters = {"rope_type": rope_type, "rope_theta": theta, **SCALINGS[rope_type]}
    return transformers.LlamaConfig(
        hidden_size=HEADS * WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        head_dim=WIDTH,
        max_position_embeddings=TRAINED,
        rope_parameters=parameters,
    )


def theirs(config, x, position_ids):
    """x [1, S, H, D] turned by transformers' module and function, in x's dtype."""
    cos, sin = llama.LlamaRotaryEmbedding(config)(x, position_ids)
    return llama.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=2)[0]


def case(rope_type, positions, theta=500_000.0):
    config = config_of(rope_type, theta)
    rope = read(config).rope
    length = int(positions.max()) + 1
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((1, len(positions), HEADS, WIDTH)).astype(np.float32))
    truth = naive.rotate(x.numpy(), positions, rope, length=length)
    ours = rotate(x, torch.from_numpy(positions), rope, length=length).numpy()
    return truth, ours, theirs(config, x, torch.from_numpy(positions)[None]).numpy()


@pytest.mark.parametrize("rope_type", SCALINGS)
def test_frequencies_are_those_of_transformers(rope_type):
    config = config_of(rope_type)
    expected = llama.LlamaRotaryEmbedding(config).inv_freq.numpy().astype(np.float64)
    pairs = read(config).rope.pairs(1)
    assert len(pairs) == len(expected)
    # float32 powers and products
    assert np.abs(pairs.inv_freq - expected).max() <= 2e-6 * np.abs(expected).max()
    turning = expected != 0
    assert np.array_equal(turning, pairs.inv_freq != 0)
    assert np.abs(pairs.inv_freq[turning] / expected[turning] - 1).max() <= 2e-6


@pytest.mark.parametrize("rope_type", SCALINGS)
def test_vectors_near_position_0_are_those_of_transformers(rope_type):
    truth, ours, other = case(rope_type, np.arange(32), theta=10_000.0)
    assert np.abs(ours - other).max() <= 4e-6  # nearly all of it is theirs: float32 angles
    assert np.abs(ours - truth).max() <= 5e-7


@pytest.mark.parametrize("rope_type", SCALINGS)
@pytest.mark.parametrize("start", [300, 4000, 131_000])
def test_vectors_far_away_are_nearer_to_float64_than_those_of_transformers(rope_type, start):
    truth, ours, other = case(rope_type, np.arange(start, start + 64))
    assert np.abs(ours - truth).max() <= np.abs(other - truth).max()
    assert np.abs(ours - truth).max() <= 1e-6


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_are_nearer_to_float64_than_those_of_transformers(dtype):
    config, positions = config_of("llama3"), np.arange(7000, 7256)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((1, 256, HEADS, WIDTH))).to(getattr(torch, dtype))
    rope = read(config).rope
    truth = naive.rotate(x.double().numpy(), positions, rope)
    ours = rotate(x, torch.from_numpy(positions), rope).double().numpy()
    other = theirs(config, x, torch.from_numpy(positions)[None]).double().numpy()
    # one rounding where theirs rounds tables, products and sums: measured 0.63
    assert np.abs(ours - truth).mean() < 0.75 * np.abs(other - truth).mean()
