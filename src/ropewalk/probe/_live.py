"""A transformers model of a configuration alone, small and with random weights, as a decoder that can be asked."""

import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import RopewalkError
from ._errors import first_line
from ._live_small import small
from ._models import classes_of
from .decoding import DecoderReport, check_decoder

SWITCH = 16
_SAYS = {"dynamic": "RW127 dynamic-cached-keys", "longrope": "RW128 longrope-switch"}
MOST_PARAMETERS = 250_000_000  # a gigabyte
_MAPPINGS = tuple(
    f"MODEL_FOR_{name}_MAPPING" for name in ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "PRETRAINING")
)


@dataclass(frozen=True, kw_only=True)
class Live:
    """A small model and its hooks.

    Attributes:
        name: its class.
        decoder: with prefill, step and, where its cache allows them, merge and evict.
        vocab: tokens are below it.
        switch: tokens beyond which its rope changes its table, or None.
        notes: what was made smaller.
        says: what its rope does at the switch, and which finding says so of the configuration.
        left: (question, reason) of what its cache does not allow.
    """

    name: str
    decoder: Any
    vocab: int
    switch: int | None
    notes: tuple[str, ...]
    says: str
    left: tuple[tuple[str, str], ...]


def live(config: Any) -> Live:
    """Give a decoder of a configuration: random weights in float32, eager attention, on the CPU.

    Raises:
        RopewalkError: where no class builds it, it is too large whatever is made smaller, or it has no cache.
    """
    reasons = []
    for narrow in (True, False):
        made, notes, switch = small(config, switch=SWITCH, narrow=narrow)
        for cls in _classes(made):
            try:
                model = _weighted(cls, made)
                decoder = _Decoder(model)
                decoder.tried()
            except Exception as error:  # a class that does not fit, or narrowing that breaks it, in foreign code
                reasons.append(f"{cls.__name__}: {first_line(error)}")
                continue
            left = () if decoder.plain else (("merged caches and eviction", f"the cache holds {decoder.holds}"),)
            vocab = min(int(made.get_text_config(decoder=True).vocab_size), 128)
            return Live(
                name=cls.__name__,
                decoder=decoder,
                vocab=vocab,
                switch=switch,
                notes=tuple(notes),
                says=_says(made, switch),
                left=left,
            )
    raise RopewalkError(
        f"no decoder of {type(config).__name__} can be run: {'; '.join(dict.fromkeys(reasons)) or 'no class takes it'}."
    )


def check_live(config: Any, *, timeout: float = 600.0) -> tuple[Live, DecoderReport]:
    """Check the small model of a configuration over its own cache.

    Raises:
        RopewalkError: as `live` does.
    """
    model = live(config)
    decoder, hooks = model.decoder, {}
    if decoder.plain:
        hooks = {"merge": decoder.merge, "evict": decoder.evict, "hooks_need_positions": True, "right_padding": True}
    report = check_decoder(
        decoder.step, decoder.prefill, vocab=model.vocab, switch=model.switch, timeout=timeout, backend="torch", **hooks
    )
    left = tuple(one for one in report.left if not model.left or one[0] not in ("merged caches", "eviction"))
    return model, replace(report, left=(*left, *model.left))


def _says(config: Any, switch: int | None) -> str:
    kinds = [words for kind, words in _SAYS.items() if f"'{kind}'" in str(config.to_dict())]
    if switch is None or not kinds:
        return ""
    return f"its rope changes its table beyond {switch} tokens, which `read` says of the configuration: {kinds[0]}"


def _classes(config: Any) -> Iterator[Any]:
    for cls in classes_of(config, _MAPPINGS):
        if _cache_name(cls) is not None:
            yield cls


def _cache_name(cls: Any) -> str | None:
    """Give what forward calls its cache: transformers renamed it, and old names are only half served."""
    names = inspect.signature(cls.forward).parameters
    return next((name for name in ("cache", "past_key_values", "cache_params") if name in names), None)


def _weighted(cls: Any, config: Any) -> nn.Module:
    """Build the model with weights that let tokens differ and positions matter."""
    for one in (config, *(getattr(config, key, None) for key in getattr(config, "sub_configs", None) or {})):
        if one is not None:
            one._attn_implementation = "eager"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.device("meta"):
            count = sum(one.numel() for one in cls(config).parameters())
        if count > MOST_PARAMETERS:
            raise RopewalkError(f"{count:,} parameters even when made small, more than {MOST_PARAMETERS:,}")
        with torch.random.fork_rng(devices=()), torch.no_grad():
            torch.manual_seed(0)
            model = cls(config).to(torch.float32).eval()
            embeddings = {id(one.weight) for one in model.modules() if isinstance(one, nn.Embedding)}
            for one in model.parameters():
                if one.ndim > 1:
                    wide = 1.0 if id(one) in embeddings else (one[0].numel() if one.ndim != 3 else one.shape[-1])
                    one.normal_(0.0, wide**-0.5)
    return model


class _Decoder:
    """A model called as its own `generate` calls it: masks of all tokens, positions where they are given, its cache."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.plain, self.holds = False, ""
        self.rows = 1
        self.name = _cache_name(type(model)) or "past_key_values"
        self.whole = {"logits_to_keep": 0} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}

    def prefill(self, tokens: Tensor, attention_mask=None, position_ids=None, cache=None):
        """Give (logits, cache)."""
        out = self.model(
            input_ids=tokens,
            attention_mask=attention_mask,
            position_ids=self._rows(position_ids),
            use_cache=True,
            **{self.name: cache},
            **self.whole,
        )
        return out.logits, getattr(out, self.name)

    def step(self, tokens: Tensor, cache: Any, attention_mask=None, position_ids=None):
        """Give (logits, cache)."""
        return self.prefill(tokens, attention_mask, position_ids, cache)

    def merge(self, caches: list[Any]) -> Any:
        """Give one cache of the batch, shorter rows padded on the left with zeros."""
        merged = caches[0]
        width = max(one.get_seq_length() for one in caches)
        for place, layer in enumerate(merged.layers):
            for name in ("keys", "values"):
                parts = [getattr(one.layers[place], name) for one in caches]
                padded = [nn.functional.pad(part, (0, 0, width - part.shape[-2], 0)) for part in parts]
                setattr(layer, name, torch.cat(padded))
        return merged

    def evict(self, cache: Any, keep: Any) -> Any:
        """Give the cache cropped, where the end goes; else its rows picked, which transformers has no call for."""
        kept, held = len(keep), cache.get_seq_length()
        if keep[-1] == kept - 1:
            cache.crop(kept - held)
            return cache
        for layer in cache.layers:
            layer.keys, layer.values = layer.keys[..., keep, :], layer.values[..., keep, :]
        return cache

    def tried(self) -> None:
        """Run once: whether it runs at all, what its cache holds, and whether positions need a row for each axis."""
        tokens = torch.tensor([[3, 5, 7, 9]])
        with torch.no_grad():
            out, cache = self.prefill(tokens)
            if getattr(cache, "layers", None) is None:
                raise RopewalkError(f"its cache is {type(cache).__name__}, which has no layers")
            try:
                again = self._at(tokens, rows=1)
            except Exception:  # a model of several axes, which wants a row for each
                again = self._at(tokens, rows=3)
        if not torch.isfinite(out).all() or not torch.isfinite(again).all():
            raise RopewalkError("its outputs are not finite with random weights")
        kinds = {type(layer).__name__ for layer in cache.layers}
        self.plain = kinds == {"DynamicLayer"}
        self.holds = ", ".join(sorted(kinds))

    def _at(self, tokens: Tensor, rows: int) -> Tensor:
        self.rows = rows
        return self.prefill(tokens, position_ids=torch.arange(tokens.shape[1])[None])[0]

    def _rows(self, ids: Tensor | None) -> Tensor | None:
        return ids if ids is None or self.rows == 1 else ids[None].expand(self.rows, -1, -1)
