"""transformers models of a configuration alone, over their own caches."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from ropewalk import RopewalkError  # noqa: E402
from ropewalk.probe._live import check_live, live  # noqa: E402
from ropewalk.probe._live_small import small  # noqa: E402
from ropewalk.probe._models import config_of  # noqa: E402
from ropewalk.probe.decoding import check_decoder  # noqa: E402

TINY = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "vocab_size": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LONGROPE = {
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "short_factor": [1, 1, 1, 1],
        "long_factor": [1, 2, 4, 30],
    },
}
SWEEP = (
    "llama mistral mixtral qwen2 qwen3 qwen3_moe qwen2_vl qwen2_5_vl qwen3_vl phi phi3 phimoe gptj codegen gpt_neox "
    "falcon gemma gemma2 gemma3_text cohere cohere2 glm glm4 olmo2 stablelm deepseek_v3 gpt_oss llama4_text smollm3 "
    "nanochat exaone4 persimmon granite starcoder2 qwen3_next falcon_h1"
).split()


def asked(config, **options):
    made = live(config)
    decoder = made.decoder
    hooks = {"merge": decoder.merge, "evict": decoder.evict, "hooks_need_positions": True} if decoder.plain else {}
    return made, check_decoder(
        decoder.step,
        decoder.prefill,
        vocab=made.vocab,
        switch=made.switch,
        **{"window_sizes": (3,), **hooks, **options},
    )


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text"])
def test_a_model_over_its_own_cache_has_no_finding(model_type):
    more = {"head_dim": 8, "sliding_window": 512, "num_hidden_layers": 6} if model_type == "gemma3_text" else {}
    config = transformers.AutoConfig.for_model(model_type, **{**TINY, **more})
    made, report = asked(config)
    assert report.findings == () and len(report.evidence) >= 18
    assert max(one.detail["gap"] for one in report.evidence) < 1e-5  # far from the 2e-4 that is allowed
    assert ("sliding_window 512 → 8" in made.notes) is (model_type == "gemma3_text")


def test_longrope_shows_its_switch_as_a_warning_and_nothing_else():
    made, report = asked(transformers.Phi3Config(**TINY, **LONGROPE))
    assert [(one.name, one.severity) for one in report.findings] == [("cached-keys-keep-table", "warning")]
    assert made.switch == 16 and "RW128 longrope-switch" in made.says
    assert "original_max_position_embeddings 4096 → 16" in made.notes


def test_a_fault_put_into_a_model_is_named():
    made = live(transformers.LlamaConfig(**TINY))
    decoder, rotary = made.decoder, made.decoder.model.model.rotary_emb
    forward = rotary.forward

    def behind(x, position_ids):
        return forward(x, position_ids - 1 if position_ids.shape[1] == 1 else position_ids)

    rotary.forward = behind
    report = check_decoder(decoder.step, decoder.prefill, vocab=made.vocab, window_sizes=())
    assert [one.name for one in report.findings] == ["stepwise-differs"]
    assert "one behind" in report.findings[0].seen


def test_a_model_in_bfloat16_rounds_and_is_not_flagged():
    made = live(transformers.LlamaConfig(**TINY))
    made.decoder.model.to(torch.bfloat16)
    report = check_decoder(made.decoder.step, made.decoder.prefill, vocab=made.vocab, window_sizes=(2,))
    assert report.dtype == "bfloat16" and report.findings == ()
    assert max(one.detail["gap"] for one in report.evidence) > 1e-3


def test_a_large_configuration_is_made_small_and_stays_as_it_was():
    config = config_of("deepseek_v3")
    before = copy.deepcopy(config.to_dict())
    made, notes, switch = small(config, switch=16, narrow=True)
    assert config.to_dict() == before and switch is None
    assert made.num_hidden_layers == 2 and made.vocab_size == 128 and made.qk_rope_head_dim == config.qk_rope_head_dim
    assert "num_hidden_layers 61 → 2" in notes


def test_every_kind_of_layer_is_kept():
    config = config_of("gemma3_text")
    made, _, _ = small(config, switch=16, narrow=True)
    assert set(made.layer_types) == set(config.layer_types) and len(made.layer_types) == made.num_hidden_layers == 6


def test_weights_are_drawn_without_touching_the_callers_random_numbers():
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    live(transformers.LlamaConfig(**TINY))
    assert torch.equal(torch.rand(3), wanted)


def test_a_model_without_a_decoder_is_an_error_that_says_so():
    with pytest.raises(RopewalkError, match="no decoder of ViTConfig can be run: no class takes it"):
        live(transformers.ViTConfig())


@pytest.mark.census
@pytest.mark.parametrize("model_type", SWEEP)
def test_no_model_type_is_flagged(model_type):
    _, report = asked(config_of(model_type), timeout=600.0)
    assert report.findings == (), [one.to_dict() for one in report.findings]
    assert not any(name.startswith(("faults by", "what comes after")) for name, _ in report.left)


@pytest.mark.census
def test_a_scan_that_starts_anew_in_every_window_is_found():
    _, report = asked(config_of("jamba"), timeout=600.0)
    assert [one.name for one in report.findings] == ["stepwise-differs"] and "windows" in report.findings[0].where


@pytest.mark.census
def test_positions_that_start_again_at_0_in_each_call_are_found_where_none_are_given():
    """Bamba's own code: arange of the tokens of the call, whatever lies in the cache."""
    config = transformers.BambaConfig(attn_layer_indices=[1], **{**TINY, "hidden_size": 64}, mamba_n_heads=8)
    _, report = asked(config, timeout=600.0)
    assert [one.name for one in report.findings if one.severity == "error"][:1] == ["stepwise-differs"]
    first = next(one for one in report.evidence if not one.ok)
    assert "no position_ids given" in first.detail["question"]
    assert first.detail["as_if"] == "the length of the cache is not added: every new token is at position 0"


@pytest.mark.census
def test_everything_is_asked_of_a_plain_cache():
    _, report = check_live(transformers.LlamaConfig(**TINY))
    assert report.findings == () and report.left == ()
    assert np.sum([one.name == "eviction-breaks-distances" for one in report.evidence]) == 4
