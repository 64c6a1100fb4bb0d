"""Greedy decoding with a key-value cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chat_tiny import layers, tokenizer
from chat_tiny.params import EMBEDDING, FINAL_NORM, HEAD, layer_name
from chat_tiny.transformer import Transformer, attention_mask

CHUNK = 256


@dataclass(frozen=True)
class Answer:
    """One decoded answer.

    `margin` is the smallest difference between the two highest logits over all
    decoding steps. If it is tiny, rounding may decide between two answers.
    """

    text: str
    ids: list[int]
    margin: float


def greedy(model: Transformer, prompts: list[list[int]], limit: int) -> list[Answer]:
    """Decode an answer to every prompt, of at most `limit` tokens.

    Prompts of the same length are decoded together. They need no padding, so
    every token has the position that it would have in an engine.
    """
    answers: list[Answer | None] = [None] * len(prompts)
    for length in sorted({len(prompt) for prompt in prompts}):
        same = [i for i, prompt in enumerate(prompts) if len(prompt) == length]
        for at in range(0, len(same), CHUNK):
            part = same[at : at + CHUNK]
            decoded = _decode(model, np.array([prompts[i] for i in part]), limit)
            for i, answer in zip(part, decoded):
                answers[i] = answer
    return [answer for answer in answers if answer is not None]


def _decode(model: Transformer, tokens: np.ndarray, limit: int) -> list[Answer]:
    """Decode answers to prompts (B, T) of one length."""
    cache = _Cache(model)
    limit = min(limit, model.config.context - tokens.shape[1])
    ids: list[list[int]] = [[] for _ in tokens]
    margins = np.full(len(tokens), np.inf)
    open_rows = np.ones(len(tokens), bool)
    for _ in range(limit):
        logits = cache.extend(tokens)
        second, first = np.partition(logits, -2, axis=-1)[:, -2:].T
        margins[open_rows] = np.minimum(margins, first - second)[open_rows]
        chosen = logits.argmax(axis=-1)
        for row in np.flatnonzero(open_rows):
            ids[row].append(int(chosen[row]))
        open_rows &= chosen != tokenizer.END_ID
        if not open_rows.any():
            break
        tokens = chosen[:, None]
    return [Answer(tokenizer.decode(row), row, float(margin)) for row, margin in zip(ids, margins)]


class _Cache:
    """The keys and values (B, H, T, S) of each layer for the tokens so far."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.length = 0
        self.keys: list[np.ndarray | None] = [None] * model.config.layers
        self.values: list[np.ndarray | None] = [None] * model.config.layers

    def extend(self, tokens: np.ndarray) -> np.ndarray:
        """Append new tokens (B, N) and return the logits (B, vocab) after the last one."""
        p, config = self.model.params, self.model.config
        total = self.length + tokens.shape[1]
        mask = attention_mask(np.zeros(1, np.int64), total, p.flat.dtype)[:, :, self.length :]
        x = p[EMBEDDING][tokens]
        for layer in range(config.layers):
            x = self._layer(layer, x, mask)
        self.length = total
        normed, _ = layers.rms_norm(x[:, -1], p[FINAL_NORM], config.norm_eps)
        return normed @ p[HEAD].T

    def _layer(self, layer: int, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        model, p, config = self.model, self.model.params, self.model.config
        new = slice(self.length, self.length + x.shape[1])

        def linear(part: str, value: np.ndarray) -> np.ndarray:
            return value @ p[layer_name(layer, part)].T

        normed, _ = layers.rms_norm(x, p[layer_name(layer, "input_layernorm")], config.norm_eps)
        q, k, v = (
            layers.split_heads(linear(f"self_attn.{part}_proj", normed), config.heads) for part in "qkv"
        )
        q = layers.rope(q, model.cos[new], model.sin[new])
        k = self.keys[layer] = _append(self.keys[layer], layers.rope(k, model.cos[new], model.sin[new]))
        v = self.values[layer] = _append(self.values[layer], v)
        mixed, _ = layers.attend(q, k, v, mask)
        x = x + linear("self_attn.o_proj", layers.join_heads(mixed))
        normed, _ = layers.rms_norm(x, p[layer_name(layer, "post_attention_layernorm")], config.norm_eps)
        inner, _ = layers.swiglu(linear("mlp.gate_proj", normed), linear("mlp.up_proj", normed))
        return x + linear("mlp.down_proj", inner)


def _append(old: np.ndarray | None, new: np.ndarray) -> np.ndarray:
    return new if old is None else np.concatenate([old, new], axis=2)
