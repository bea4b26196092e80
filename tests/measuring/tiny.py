"""Tiny models of transformers with random weights, and a tokenizer of single characters."""

import contextlib
from types import SimpleNamespace
from typing import Any

import torch
import transformers

TRAINED = 32
THETA = 50.0  # the slow pairs of so short a context must turn, or no method could be told from another


def tiny(family: str = "Llama", *, seed: int = 0, **changes: Any) -> Any:
    """A causal language model of float64 numbers, its weights large enough that positions matter to its losses."""
    sizes = {
        "vocab_size": 64,
        "hidden_size": 48,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": TRAINED,
        "rope_parameters": {"rope_type": "default", "rope_theta": THETA},
    }
    described = {"Gemma3": "Gemma3Text"}.get(family, family)
    config = getattr(transformers, f"{described}Config")(**{**sizes, **changes})
    torch.manual_seed(seed)
    model = getattr(transformers, f"{family}ForCausalLM")(config).double().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                weight.mul_(8 if "proj" in name else 20)
    return model


def ids(count: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, 64, (count,), generator=torch.Generator().manual_seed(seed))


def plain_losses(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """The losses from all logits at once: transformers' forward and a softmax written out, [N - 1] float64."""
    with torch.no_grad():
        logits = model(input_ids=tokens[None], use_cache=False).logits[0, :-1].double()
    chances = logits.exp() / logits.exp().sum(dim=1, keepdim=True)
    return -chances[torch.arange(len(tokens) - 1), tokens[1:]].log()


class Characters:
    """A tokenizer: a character's number, modulo 64."""

    def __call__(self, text: str, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(input_ids=[ord(letter) % 64 for letter in text])

    def __len__(self) -> int:
        return 64


@contextlib.contextmanager
def unchanged(model: Any):
    """Checks afterwards that a model is as it was: modules, forwards, hooks and weights."""
    modules = dict(model.named_modules())
    attributes = {name: set(vars(one)) for name, one in modules.items()}
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    yield
    assert dict(model.named_modules()) == modules
    assert {name: set(vars(one)) for name, one in modules.items()} == attributes
    assert not any(one._forward_hooks for one in modules.values())
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
