"""DeepSeek's inference configurations: YaRN in the defaults of the code."""

import math

from ropewalk import read
from ropewalk.scaling import Default

V3 = {"dim": 7168, "inter_dim": 18432, "n_layers": 3, "n_heads": 128, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
WRITTEN = {"original_seq_len": 4096, "rope_factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0}


def names(model):
    return [finding.name for finding in model.findings]


def test_it_is_the_rope_of_its_hugging_face_twin():
    block = {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}
    twin = read(
        {
            "model_type": "deepseek_v3",
            "hidden_size": 7168,
            "num_attention_heads": 128,
            "num_hidden_layers": 3,
            "qk_rope_head_dim": 64,
            "max_position_embeddings": 163840,
            "rope_theta": 10000,
            "rope_scaling": {**block, "original_max_position_embeddings": 4096},
        }
    )
    assert read(V3).rope == twin.rope.replace(max_position_embeddings=None)


def test_what_is_implied_is_listed_and_what_is_written_is_not():
    assert "scaling-implied" in names(read(V3))
    assert "scaling-implied" not in names(read({**V3, **WRITTEN}))
    (finding,) = [one for one in read({**V3, **WRITTEN, "beta_slow": None}).findings if one.name == "scaling-implied"]
    assert finding.right == "beta_slow 1"


def test_the_magnitude_is_on_the_softmax_scale_alone():
    pairs = read({**V3, "mscale": 0.707}).rope.pairs()
    assert pairs.cos_sin_factor == 1
    assert math.isclose(pairs.softmax_factor, (0.0707 * math.log(40) + 1) ** 2, rel_tol=1e-14)


def test_an_mscale_of_zero_is_no_magnitude():
    pairs = read({**V3, "mscale": 0}).rope.pairs()
    assert (pairs.cos_sin_factor, pairs.softmax_factor) == (1, 1)


def test_a_short_run_is_not_scaled():
    model = read({**V3, "max_seq_len": 4096})
    assert model.rope.scaling == Default()
    assert model.rope.max_position_embeddings == 4096


def test_the_indexer_of_v32_turns_halves_of_its_own_head():
    model = read({**V3, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048})
    attention, indexer = model.layers[0].ropes["attention"], model.layers[0].ropes["indexer"]
    assert (attention.pairing, attention.head_dim) == ("interleaved", 64)
    assert (indexer.pairing, indexer.head_dim, indexer.rotary_dim) == ("half", 128, 64)
    assert "indexer-pairing" in names(model)
