"""The transformer: forward pass, loss and backward pass of a batch.

Only the tokens of the answer contribute to the loss, and they are the last
positions of every row, because rows are padded on the left. The last layer
therefore computes its queries and its feed-forward block only for these
positions; its keys and values cover the whole row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chat_tiny import layers
from chat_tiny.config import ModelConfig
from chat_tiny.params import EMBEDDING, FINAL_NORM, HEAD, Params, layer_name


@dataclass(frozen=True)
class Batch:
    """Rows of tokens, padded on the left.

    tokens (B, T): the input ids.
    padding (B,): the number of padding positions at the start of each row.
    targets (B, Q): the id expected after each of the last Q positions, or -1
    for positions that do not contribute to the loss.
    """

    tokens: np.ndarray
    padding: np.ndarray
    targets: np.ndarray


@dataclass
class LayerCache:
    """The values of a layer's forward pass that its backward pass needs."""

    start: int
    norm_in: tuple
    normed: np.ndarray
    attention: tuple
    joined: np.ndarray
    norm_mid: tuple
    normed_mid: np.ndarray
    swiglu: tuple
    inner: np.ndarray


def attention_mask(batch_padding: np.ndarray, positions: int, dtype: np.dtype) -> np.ndarray:
    """Return the attention mask (B, 1, T, T): 0 for allowed pairs, a large negative number for the others.

    A padding position may attend to itself and to all positions before it: its
    output is never used, but every row of the softmax needs an allowed position.
    """
    keys = np.arange(positions)
    causal = keys[None, :] > keys[:, None]
    unused = keys[None, None, :] < batch_padding[:, None, None]
    real = keys[None, :, None] >= batch_padding[:, None, None]
    return np.where(causal[None] | (unused & real), dtype.type(-1e30), dtype.type(0))[:, None]


class Transformer:
    """A decoder with the Llama architecture and the parameters `params`."""

    def __init__(self, config: ModelConfig, params: Params) -> None:
        self.config = config
        self.params = params
        self.cos, self.sin = layers.rope_tables(
            config.context, config.head_size, config.rope_theta, params.flat.dtype
        )

    def loss(self, batch: Batch) -> float:
        """Return the mean cross entropy of a batch in nats per answer token."""
        logits, _ = self._forward(batch)
        return _cross_entropy(logits, batch.targets)[0]

    def loss_and_gradient(self, batch: Batch, gradient: Params) -> float:
        """Return the loss and write its gradient into `gradient`."""
        gradient.flat[:] = 0
        logits, caches = self._forward(batch)
        loss, dlogits = _cross_entropy(logits, batch.targets)
        self._backward(batch, dlogits, caches, gradient)
        return loss

    def _forward(self, batch: Batch) -> tuple[np.ndarray, tuple]:
        """Return the logits (B, Q, vocab) of the last Q positions, and the caches for the backward pass."""
        p, config = self.params, self.config
        positions, queries = batch.tokens.shape[1], batch.targets.shape[1]
        if positions > config.context:
            raise ValueError(f"a row of {positions} tokens exceeds the context of {config.context}")
        mask = attention_mask(batch.padding, positions, p.flat.dtype)
        x = p[EMBEDDING][batch.tokens]
        caches = []
        for layer in range(config.layers):
            last = layer == config.layers - 1
            x, cache = self._layer(layer, x, mask, positions - queries if last else 0)
            caches.append(cache)
        normed, norm_cache = layers.rms_norm(x, p[FINAL_NORM], config.norm_eps)
        return normed @ p[HEAD].T, (caches, norm_cache, normed)

    def _layer(self, layer: int, x: np.ndarray, mask: np.ndarray, start: int) -> tuple[np.ndarray, LayerCache]:
        """Return the output of a layer for the positions from `start` on, and the cache for the backward pass."""
        p, config = self.params, self.config
        w = lambda part: p[layer_name(layer, part)].T  # noqa: E731
        positions = x.shape[1]
        normed, norm_in = layers.rms_norm(x, p[layer_name(layer, "input_layernorm")], config.norm_eps)
        q = layers.split_heads(normed[:, start:] @ w("self_attn.q_proj"), config.heads)
        k = layers.split_heads(normed @ w("self_attn.k_proj"), config.heads)
        v = layers.split_heads(normed @ w("self_attn.v_proj"), config.heads)
        q = layers.rope(q, self.cos[start:positions], self.sin[start:positions])
        k = layers.rope(k, self.cos[:positions], self.sin[:positions])
        mixed, attention = layers.attend(q, k, v, mask[:, :, start:])
        joined = layers.join_heads(mixed)
        middle = x[:, start:] + joined @ w("self_attn.o_proj")
        normed_mid, norm_mid = layers.rms_norm(
            middle, p[layer_name(layer, "post_attention_layernorm")], config.norm_eps
        )
        inner, swiglu = layers.swiglu(normed_mid @ w("mlp.gate_proj"), normed_mid @ w("mlp.up_proj"))
        cache = LayerCache(start, norm_in, normed, attention, joined, norm_mid, normed_mid, swiglu, inner)
        return middle + inner @ w("mlp.down_proj"), cache

    def _backward(self, batch: Batch, dlogits: np.ndarray, caches: tuple, gradient: Params) -> None:
        """Add the gradients of all tensors to `gradient`."""
        p = self.params
        layer_caches, norm_cache, normed = caches
        dx = layers.linear_backward(dlogits, normed, p[HEAD], gradient[HEAD])
        dx = layers.rms_norm_backward(dx, norm_cache, gradient[FINAL_NORM])
        for layer in reversed(range(self.config.layers)):
            dx = self._layer_backward(layer, dx, layer_caches[layer], gradient)
        width = self.config.width
        order = np.argsort(batch.tokens, axis=None, kind="stable")
        tokens, starts = np.unique(batch.tokens.ravel()[order], return_index=True)
        gradient[EMBEDDING][tokens] += np.add.reduceat(dx.reshape(-1, width)[order], starts, axis=0)

    def _layer_backward(self, layer: int, dy: np.ndarray, cache: LayerCache, gradient: Params) -> np.ndarray:
        """Return the gradient with respect to the layer's input (B, T, W). Add the weights' gradients to `gradient`."""
        name = lambda part: layer_name(layer, part)  # noqa: E731
        p, g, start = self.params, gradient, cache.start

        def linear(dout: np.ndarray, x: np.ndarray, part: str) -> np.ndarray:
            return layers.linear_backward(dout, x, p[name(part)], g[name(part)])

        dgate, dup = layers.swiglu_backward(linear(dy, cache.inner, "mlp.down_proj"), cache.swiglu)
        dmid = linear(dgate, cache.normed_mid, "mlp.gate_proj")
        dmid += linear(dup, cache.normed_mid, "mlp.up_proj")
        dmid = dy + layers.rms_norm_backward(dmid, cache.norm_mid, g[name("post_attention_layernorm")])

        djoined = linear(dmid, cache.joined, "self_attn.o_proj")
        dq, dk, dv = layers.attend_backward(layers.split_heads(djoined, self.config.heads), cache.attention)
        positions = cache.normed.shape[1]
        dq = layers.rope_backward(dq, self.cos[start:positions], self.sin[start:positions])
        dk = layers.rope_backward(dk, self.cos[:positions], self.sin[:positions])
        dnormed = linear(layers.join_heads(dk), cache.normed, "self_attn.k_proj")
        dnormed += linear(layers.join_heads(dv), cache.normed, "self_attn.v_proj")
        dnormed[:, start:] += linear(layers.join_heads(dq), cache.normed[:, start:], "self_attn.q_proj")
        dx = layers.rms_norm_backward(dnormed, cache.norm_in, g[name("input_layernorm")])
        dx[:, start:] += dmid
        return dx


def _cross_entropy(logits: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean loss over targets >= 0 and its gradient with respect to the logits."""
    wanted = targets >= 0
    rows = logits[wanted]
    picked = targets[wanted]
    rows -= rows.max(axis=-1, keepdims=True)
    exp = np.exp(rows)
    total = exp.sum(axis=-1, keepdims=True)
    index = np.arange(len(picked))
    loss = float(np.mean(np.log(total[:, 0]) - rows[index, picked]))
    exp /= total
    exp[index, picked] -= 1.0
    exp /= logits.dtype.type(len(picked))
    dlogits = np.zeros_like(logits)
    dlogits[wanted] = exp
    return loss, dlogits
