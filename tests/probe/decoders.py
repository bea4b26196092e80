"""Decoders to be checked: one or two layers of attention in NumPy, turned by ropewalk.rotate, and their faulty twins.

Everything is float64 and written for itself: no cache class, no mask helper, nothing of the code under test but rotate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ropewalk import Rope, rotate

VOCAB, HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 32, 36, 6, 2, 12
ROPE = Rope(head_dim=HEAD_DIM, rope_theta=500.0, pairing="half")


@dataclass
class Cache:
    """Keys and values of each layer [B, S, H, D], which of them are tokens [B, S], and the next position [B]."""

    keys: list[np.ndarray]
    values: list[np.ndarray]
    mask: np.ndarray
    next: np.ndarray
    frame: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass
class Decoder:
    """A right decoder; `fault` names the slip that is made instead."""

    layers: int = 1
    fault: str = ""
    dtype: Any = np.float64
    rope: Rope = ROPE

    def __post_init__(self) -> None:
        draw = np.random.default_rng(5)
        self.embedding = draw.standard_normal((VOCAB, HIDDEN))
        self.head = draw.standard_normal((HIDDEN, VOCAB)) / 6
        width = (HEADS + 2 * KV_HEADS) * HEAD_DIM
        self.qkv = [draw.standard_normal((HIDDEN, width)) / 4 for _ in range(self.layers)]
        self.out = [draw.standard_normal((HEADS * HEAD_DIM, HIDDEN)) / 8 for _ in range(self.layers)]
        self.counter = 0  # what only a faulty decoder keeps outside of its cache

    def prefill(self, tokens, attention_mask=None, position_ids=None, cache=None):
        """Give the logits of a prompt, or of a window after a cache."""
        if cache is not None:
            return self.step(tokens, cache, attention_mask, position_ids)
        batch, seq = tokens.shape
        mask = np.ones((batch, seq), int) if attention_mask is None else attention_mask
        ids = np.maximum(np.cumsum(mask, 1) - 1, 0) if position_ids is None else position_ids
        if self.fault == "row-0-mask" and position_ids is None:
            ids = np.broadcast_to(np.maximum(np.cumsum(mask[:1], 1) - 1, 0), mask.shape)
        if self.fault == "counts-padding-in-prompt" and position_ids is None:
            ids = np.broadcast_to(np.arange(seq), mask.shape)
        empty = np.zeros((batch, 0, KV_HEADS, HEAD_DIM))
        cache = Cache([empty] * self.layers, [empty] * self.layers, np.zeros((batch, 0), int), mask.sum(1))
        seen = np.ones_like(mask) if self.fault == "attends-padding" else mask
        if self.fault == "module-counter" or not self.counter:
            self.counter = seq
        return self._run(tokens, cache, ids, seen), cache

    def step(self, tokens, cache, attention_mask=None, position_ids=None):
        """Give the logits of the next tokens."""
        batch, seq = tokens.shape
        cache = replace(cache, keys=list(cache.keys), values=list(cache.values))
        held = cache.mask.shape[1]
        if attention_mask is not None:
            cache.mask = attention_mask[:, :held]
        mask = np.ones((batch, seq), int)
        after = np.arange(seq)
        ids = cache.next[:, None] + after if position_ids is None else position_ids
        slips = {
            "not-added": lambda: ids * 0 + after,
            "at-zero": lambda: ids * 0,
            "one-behind": lambda: ids - 1,
            "one-ahead": lambda: ids + 1,
            "window-constant": lambda: ids[:, :1] + 0 * after,
            "longest-row": lambda: cache.next.max() + ids * 0 + after,
            "module-counter": lambda: self.counter + ids * 0 + after,
            "counter-never-reset": lambda: self.counter + ids * 0 + after,
        }
        ids = slips[self.fault]() if self.fault in slips else ids
        self.counter += seq
        if self.fault == "frozen":
            cache = replace(cache, next=cache.next - seq)
        cache = replace(cache, next=cache.next + seq)
        if self.fault == "row-0-only" and seq == 1:
            ids = np.where(np.arange(batch)[:, None] == 0, ids, 0)
        if self.fault == "turned-again":
            cache.keys = [rotate(one, np.arange(one.shape[1]), self.rope) for one in cache.keys]
        return self._run(tokens, cache, ids, mask), cache

    def merge(self, caches: Sequence[Cache]) -> Cache:
        """Give one cache of rows padded on the left."""
        width = max(one.mask.shape[1] for one in caches)

        def joined(arrays):
            padded = [np.pad(one, ((0, 0), (width - one.shape[1], 0), *[(0, 0)] * (one.ndim - 2))) for one in arrays]
            return np.concatenate(padded)

        following = np.concatenate([one.next for one in caches])
        if self.fault == "merged-cursor":
            following = np.full_like(following, following.max())
        layers = range(self.layers)
        return Cache(
            [joined([one.keys[layer] for one in caches]) for layer in layers],
            [joined([one.values[layer] for one in caches]) for layer in layers],
            joined([one.mask for one in caches]),
            following,
        )

    def evict(self, cache: Cache, keep: np.ndarray) -> Cache:
        """Give the cache of the places that stay; the tokens to come go on where they would have."""
        tail = int(cache.mask.shape[1] - 1 - keep.max())
        left = len(keep) if self.fault == "rows-left" else cache.next - tail
        left = cache.next if self.fault == "not-taken-back" else left
        return Cache(
            [one[:, keep] for one in cache.keys],
            [one[:, keep] for one in cache.values],
            cache.mask[:, keep],
            left + 0 * cache.next,
        )

    def _run(self, tokens, cache, ids, mask):
        cache.mask = np.concatenate([cache.mask, mask], 1)
        x = self.embedding[tokens]
        batch, seq, _ = x.shape
        total = cache.mask.shape[1]
        causal = np.arange(total)[None] <= np.arange(total - seq, total)[:, None]
        seen = causal[None] & (cache.mask[:, None] > 0)
        for layer in range(self.layers):
            normed = x / np.sqrt((x**2).mean(-1, keepdims=True))
            qkv = (normed @ self.qkv[layer]).reshape(batch, seq, -1, HEAD_DIM)
            q, k, v = qkv[:, :, :HEADS], qkv[:, :, HEADS : HEADS + KV_HEADS], qkv[:, :, HEADS + KV_HEADS :]
            places = ids + (layer if self.fault == "upper-layers-ahead" and seq < total else 0)
            q, k = rotate(q, places, self.rope), rotate(k, places, self.rope)
            cache.keys[layer] = np.concatenate([cache.keys[layer], k], 1)
            cache.values[layer] = np.concatenate([cache.values[layer], v], 1)
            keys, values = (np.repeat(one[layer], HEADS // KV_HEADS, 2) for one in (cache.keys, cache.values))
            scores = np.einsum("bqhd,bkhd->bhqk", q, keys) / np.sqrt(HEAD_DIM)
            scores = np.where(seen[:, None], scores, -1e30)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            x = x + np.einsum("bhqk,bkhd->bqhd", weights, values).reshape(batch, seq, -1) @ self.out[layer]
        return (x @ self.head).astype(self.dtype)
