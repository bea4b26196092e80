"""mlx-lm's keys, read as its model files and rope_utils.py read them, give the rope; the rest is refused."""

import json
import math

import numpy as np
import pytest

from ropewalk import export, preset_names, read
from ropewalk.exporting import Refused

from .ropes import PLAIN, ROPES

REFUSED = {
    "ntk-vllm": ("scaling",),
    "ntk-base": ("scaling",),
    "yarn-loose": ("truncate",),
    "yarn-magnitude": ("attention_factor",),
    "yarn-softmax": ("pairing",),
    "longrope": ("short_factor", "factor"),
    "longrope-mscales": ("short_factor", "factor", "short_mscale"),
    "proportional": ("scaling",),
    "proportional-factor": ("scaling",),
    "partial-interleaved": ("model_type",),
    "tail": ("rotary_start",),
    "odd": ("odd",),
    "tiled": ("pairing",),
    "chunked": ("axes",),
    "dealt": ("axes",),
    "alternating": ("axes",),
    "ladders": ("axes",),
}


def rope_utils(dims, base, block, length, longest):
    """initialize_rope of mlx-lm 0.32.2, one pair after another: periods, and what multiplies the vector."""
    kind = block.get("type") or block.get("rope_type", "default")
    freqs = [base ** (i / dims) for i in range(0, dims, 2)]
    if kind == "default":
        return freqs, 1.0
    if kind == "linear":
        return [freq * block["factor"] for freq in freqs], 1.0
    if kind == "dynamic":
        if "alpha" in block:  # hunyuan_v1_dense.py
            raised = base * block["alpha"] ** (dims / (dims - 2))
        else:
            ratio = block["factor"] * max(length, longest) / longest - (block["factor"] - 1)
            raised = base * ratio ** (dims / (dims - 2))
        return [raised ** (i / dims) for i in range(0, dims, 2)], 1.0
    original, factor = block["original_max_position_embeddings"], block["factor"]
    if kind == "llama3":
        low, high, found = original / block["low_freq_factor"], original / block["high_freq_factor"], []
        for freq in freqs:
            wave = 2 * math.pi * freq
            slowed = freq * factor if wave > low else freq
            if high < wave < low:
                share = (original / wave - block["low_freq_factor"]) / (
                    block["high_freq_factor"] - block["low_freq_factor"]
                )
                slowed = slowed / ((1 - share) / factor + share)
            found.append(slowed)
        return found, 1.0
    assert kind == "yarn"

    def corrected(turns):
        return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    def scale(m):
        return 1.0 if factor <= 1 else 0.1 * m * math.log(factor) + 1

    low = max(math.floor(corrected(block.get("beta_fast", 32))), 0)
    high = min(math.ceil(corrected(block.get("beta_slow", 1))), dims - 1)
    found = []
    for i, freq in enumerate(freqs):
        kept = 1 - min(1, max(0, (i - low) / ((high - low) or 0.001)))
        slow = factor * freq
        found.append(slow * freq / (slow * kept + freq * (1 - kept)))
    return found, scale(block.get("mscale", 1)) / scale(block.get("mscale_all_dim", 0))


def check(part, rope, block=None):
    if block is None:
        block = part.get("rope_scaling") or part.get("rope_parameters") or {}
        base = part.get("rope_theta") or part.get("rotary_emb_base") or block.get("rope_theta") or 10000.0
    else:
        base = block["rope_theta"]
    dims = part.get("rotary_dim") or part.get("qk_rope_head_dim")
    if not dims:
        dims = int(rope.head_dim * (part.get("partial_rotary_factor") or part.get("rotary_pct") or 1.0))
    assert dims == rope.width
    for length in (None, 100, 100_000) if rope.length_dependent else (None,):
        longest = part.get("max_position_embeddings")
        periods, factor = rope_utils(dims, base, block, length or 0, longest)
        wanted = rope.pairs(length)
        np.testing.assert_allclose(1 / np.array(periods), np.abs(wanted.inv_freq), rtol=1e-12)
        assert factor == pytest.approx(wanted.cos_sin_factor, rel=1e-12)


@pytest.mark.parametrize("name", ROPES)
def test_every_rope_is_read_as_mlx_reads_it_or_refused(name):
    rope = ROPES[name]
    if name in REFUSED:
        with pytest.raises(Refused) as caught:
            export(rope, "mlx")
        assert caught.value.lost == REFUSED[name]
        return
    part = json.loads(export(rope, "mlx"))
    again = read(part).rope
    assert again.replace(max_position_embeddings=rope.max_position_embeddings) == rope
    check(part, rope)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_read_as_mlx_reads_it_or_refused(name):
    model = read(name)
    try:
        config = json.loads(export(name, "mlx"))
    except Refused as error:
        assert error.lost or "was verified" in error.reason
        return
    again = read(config)
    assert [layer.ropes for layer in again.layers] == [layer.ropes for layer in model.layers]
    part = config.get("text_config", config)
    ropes = {layer.kind: layer.rope for layer in model.layers if layer.rope is not None}
    if len(set(ropes.values())) == 1:
        check(part, next(iter(ropes.values())))
    elif "rope_local_base_freq" in part:  # gemma3_text.py
        check(part, ropes["full_attention"])
        assert part["rope_local_base_freq"] == ropes["sliding_attention"].rope_theta
    else:
        assert part["model_type"] == "gemma4_text"
        check(part, ropes["sliding_attention"], part["rope_parameters"]["sliding_attention"])
        block = part["rope_parameters"]["full_attention"]
        periods = [block["rope_theta"] ** (i / 512) for i in range(0, int(512 * block["partial_rotary_factor"]), 2)]
        wanted = ropes["full_attention"].pairs().inv_freq
        np.testing.assert_allclose(1 / np.array(periods), wanted[: len(periods)], rtol=1e-12)
        assert not wanted[len(periods) :].any()


def test_the_type_is_spelled_both_ways_because_files_differ():
    block = json.loads(export(PLAIN["linear"], "mlx"))["rope_scaling"]
    assert block == {"type": "linear", "rope_type": "linear", "factor": 4.0}


def test_a_file_that_reads_a_base_alone_takes_no_scaling():
    config = {"model_type": "qwen3_moe", "head_dim": 128, "num_hidden_layers": 2, "rope_theta": 1e6}
    assert "rope_theta" in export(config, "mlx")
    with pytest.raises(Refused, match="reads a base alone"):
        export({**config, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "mlx")


def test_a_plan_other_than_the_files_own_is_refused():
    kinds = ["full_attention", "sliding_attention"] * 6
    config = {"model_type": "gemma3_text", "num_hidden_layers": 12, "layer_types": kinds, "rope_theta": 1e6}
    with pytest.raises(Refused, match="every 6th layer"):
        export({**config, "rope_local_base_freq": 1e4, "max_position_embeddings": 8192}, "mlx")
