"""OpenAI's own gpt-oss configuration."""

from ropewalk import read
from ropewalk.scaling import Default

ORIGINAL = {
    "num_hidden_layers": 4,
    "hidden_size": 2880,
    "head_dim": 64,
    "num_attention_heads": 64,
    "initial_context_length": 4096,
    "rope_theta": 150000,
    "rope_scaling_factor": 32.0,
    "rope_ntk_alpha": 1,
    "rope_ntk_beta": 32,
}


def test_it_is_the_rope_of_its_hugging_face_twin():
    block = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
    twin = read(
        {
            "model_type": "gpt_oss",
            "head_dim": 64,
            "num_hidden_layers": 4,
            "max_position_embeddings": 131072,
            "rope_theta": 150000,
            "rope_scaling": {**block, "original_max_position_embeddings": 4096},
        }
    )
    model = read(ORIGINAL)
    assert model.rope == twin.rope.replace(max_position_embeddings=None)
    assert [layer.kind for layer in model.layers] == [layer.kind for layer in twin.layers]


def test_a_factor_of_one_is_no_scaling():
    assert read({**ORIGINAL, "rope_scaling_factor": 1.0}).rope.scaling == Default()


def test_a_missing_factor_is_the_default_of_the_code():
    data = {key: value for key, value in ORIGINAL.items() if key != "rope_scaling_factor"}
    model = read(data)
    assert model.rope.scaling.factor == 32
    assert model.sources["text.factor"] == "default of gpt-oss's ModelConfig"
