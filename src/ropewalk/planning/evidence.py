"""What is known of each method, how thin it is, and what follows from it."""

from collections.abc import Collection
from typing import NamedTuple

from ..inspection import number_words
from ..scaling import Default, Dynamic, Proportional
from .plan import Recommendation
from .targets import Chosen


class Evidence(NamedTuple):
    """How far a method has been tried, and by whom."""

    words: str
    sources: tuple[str, ...]


EVIDENCE = {
    "untouched": Evidence(
        "models trained at one length are known to fail soon beyond it; the slow pairs meet angles they never had",
        ("Press et al. 2021, ALiBi (arXiv 2108.12409)", "Chen et al. 2023, Position Interpolation (arXiv 2306.15595)"),
    ),
    "linear": Evidence(
        "published results are of LLaMA models after further training at the new length; without it every pair is "
        "moved, and short prompts suffer too",
        ("Chen et al. 2023, Position Interpolation (arXiv 2306.15595)",),
    ),
    "ntk": Evidence(
        "a forum post with perplexity curves of LLaMA 7B, without training; no paper of its own",
        ("bloc97, NTK-aware scaled RoPE (2023)", "Peng et al. 2023, YaRN (arXiv 2309.00071), section 3.1"),
    ),
    "dynamic": Evidence(
        "a forum post with perplexity curves of LLaMA 7B, without training; caches and batches of unequal length were "
        "not its subject",
        ("emozilla, dynamically scaled RoPE (2023)", "Peng et al. 2023, YaRN (arXiv 2309.00071), section 3.3"),
    ),
    "yarn": Evidence(
        "Llama 2 7B and 13B after some hundred steps of training at the new length, by perplexity and passkeys; some "
        "released models (Qwen2.5, Qwen3) tell users to set it without training, with few figures",
        ("Peng et al. 2023, YaRN (arXiv 2309.00071)",),
    ),
    "longrope": Evidence(
        "lists searched and trained for one model each; they say nothing of another",
        ("Ding et al. 2024, LongRoPE (arXiv 2402.13753)",),
    ),
    "llama3": Evidence(
        "the released Llama 3.1 to 3.3, which were trained at long lengths; nothing published on its use without "
        "training, and no ablation of its bounds",
        ("Meta's llama-models, apply_scaling of models/llama3/model.py",),
    ),
}
REASONS = {
    "dynamic": "It leaves every prompt within the trained length exactly as it is, and beyond it slows pairs only as "
    "far as the text needs. Where the engine does not follow the length (the table says which), take yarn.",
    "yarn": "It keeps the fast pairs and squeezes the slow ones into the angles of the training.",
    "ntk": "A larger base is read by every engine and leaves the fastest pairs nearly as they are.",
    "linear": "No other method can be described for this rope.",
    "untouched": "No method can be described for this rope.",
}
RELEASED = "its makers released it for this length; whether it uses all of it is another matter"
SAME = {"proportional": "linear"}  # the factor of proportional RoPE divides every pair that turns
MEASURE = "Measure it on your own model and text before relying on it: ropewalk extend … --measure FILE."


def recommend(chosen: Chosen, available: Collection[str], trained: int, to: int) -> Recommendation:
    """Choose among the methods that can be planned, and say why and how little is known."""
    if released(chosen, to):
        longest, own = chosen.rope.max_position_embeddings, chosen.rope.scaling.rope_type
        return Recommendation(
            method="untouched",
            trained="untouched",
            reason=f"The model already reaches {longest} tokens with its own {own} scaling, and was released so: "
            "change nothing.",
            evidence=f"{_sentence(RELEASED)}. {MEASURE}",
        )
    with_training = _first(("yarn", "ntk", "linear"), available)
    if is_scaled(chosen):
        kind = chosen.rope.scaling.rope_type
        untrained = _first((SAME.get(kind, kind),), available)
        why = f"The model was trained with {kind} scaling, and any other kind moves pairs that it has learnt; "
        if untrained == "untouched":
            why += "its own cannot be carried further without a search or training."
        else:
            why += (
                f"of its own kind a larger factor, {number_words(to / trained)} from {trained} tokens, moves the least."
            )
            with_training = untrained
    else:
        untrained = _first(("dynamic", "yarn", "ntk", "linear"), available)
        why = REASONS[untrained]
    reason = f"Without training: {untrained}. {why} With training at {to} tokens: {with_training}"
    reason += ", that is a larger base." if with_training == "ntk" else ", or a larger base and more training."
    evidence = (
        f"{_sentence(EVIDENCE[untrained].words)}. The larger the stretch (here {number_words(to / trained)}), the "
    )
    evidence += f"less of it those figures cover. {MEASURE}"
    return Recommendation(method=untrained, trained=with_training, reason=reason, evidence=evidence)


def is_scaled(chosen: Chosen) -> bool:
    """Say whether the rope was stretched before."""
    own = chosen.rope.scaling
    return not isinstance(own, Default) and not (isinstance(own, Proportional) and own.factor == 1)


def released(chosen: Chosen, to: int) -> bool:
    """Say whether the model's own scaling was released for so many tokens."""
    longest = chosen.rope.max_position_embeddings
    return is_scaled(chosen) and not isinstance(chosen.rope.scaling, Dynamic) and to <= (longest or 0)


def _first(wished: tuple[str, ...], available: Collection[str]) -> str:
    return next((name for name in wished if name in available), "untouched")


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
