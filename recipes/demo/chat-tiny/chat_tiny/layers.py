"""The building blocks of the transformer, each with a hand-written backward pass.

Letters in shapes: B is the batch size, T the number of positions, Q the number
of query positions (the last Q of T), H the number of heads, S the head size,
W the width, F the inner width of the feed-forward block.

Every `*_backward` takes the gradient of the loss with respect to the output of
the block. It returns the gradient with respect to the input, and adds the
gradients of the weights to the arrays that are passed for them.
"""

from __future__ import annotations

import numpy as np


def rms_norm(x: np.ndarray, gain: np.ndarray, eps: float) -> tuple[np.ndarray, tuple]:
    """Divide x (..., W) by its root mean square and multiply it by gain (W,)."""
    inverse = 1.0 / np.sqrt(np.einsum("...w,...w->...", x, x)[..., None] / x.dtype.type(x.shape[-1]) + x.dtype.type(eps))
    normed = x * inverse
    return normed * gain, (normed, inverse, gain)


def rms_norm_backward(dy: np.ndarray, cache: tuple, dgain: np.ndarray) -> np.ndarray:
    """Backward pass of rms_norm. Adds the gradient of the gain to dgain (W,)."""
    normed, inverse, gain = cache
    dgain += (dy * normed).reshape(-1, len(gain)).sum(axis=0)
    dnormed = dy * gain
    mean = np.einsum("...w,...w->...", dnormed, normed)[..., None] / dy.dtype.type(dy.shape[-1])
    dnormed -= normed * mean
    dnormed *= inverse
    return dnormed


def linear_backward(dy: np.ndarray, x: np.ndarray, weight: np.ndarray, dweight: np.ndarray) -> np.ndarray:
    """Backward pass of `x @ weight.T` for x (..., in) and dy (..., out)."""
    flat = dy.reshape(-1, dy.shape[-1])
    dweight += flat.T @ x.reshape(-1, x.shape[-1])
    return dy @ weight


def rope_tables(positions: int, size: int, theta: float, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines (T, S) of the rotary embedding. Both halves of S have the same angles."""
    speeds = theta ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    angles = np.tile(np.arange(positions, dtype=np.float64)[:, None] * speeds, 2)
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def rotate_half(x: np.ndarray) -> np.ndarray:
    """Replace the halves (first, second) of the last axis by (-second, first).

    The product with a signed permutation matrix is exact, and several times
    faster than copying the halves, which are only a few numbers long.
    """
    half = x.shape[-1] // 2
    swap = np.zeros((2 * half, 2 * half), x.dtype)
    index = np.arange(half)
    swap[half + index, index] = -1
    swap[index, half + index] = 1
    return (x.reshape(-1, 2 * half) @ swap).reshape(x.shape)


def rope(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Apply the rotary embedding to x (B, H, T, S). As in Hugging Face, i is paired with i + S/2."""
    turned = rotate_half(x)
    turned *= sin
    turned += x * cos
    return turned


def rope_backward(dy: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Backward pass of rope: the inverse rotation, because a rotation's transpose is its inverse."""
    return rope(dy, cos, -sin)


def split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    """Reshape (B, T, W) to a contiguous (B, H, T, S)."""
    b, t, w = x.shape
    return np.ascontiguousarray(x.reshape(b, t, heads, w // heads).transpose(0, 2, 1, 3))


def join_heads(x: np.ndarray) -> np.ndarray:
    """Reshape (B, H, T, S) to a contiguous (B, T, W)."""
    b, h, t, s = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, t, h * s)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, tuple]:
    """Softmax attention of q (B, H, Q, S) over k and v (B, H, T, S). The mask is added to the scores."""
    scale = q.dtype.type(1.0 / np.sqrt(q.shape[-1]))
    weights = (q * scale) @ k.swapaxes(-1, -2)
    weights += mask
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v, (q, k, v, weights, scale)


def attend_backward(dy: np.ndarray, cache: tuple) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Backward pass of attend. Returns the gradients with respect to q, k and v."""
    q, k, v, weights, scale = cache
    dv = weights.swapaxes(-1, -2) @ dy
    dweights = dy @ v.swapaxes(-1, -2)
    dweights -= np.einsum("...qt,...qt->...q", dweights, weights)[..., None]
    dweights *= weights
    dweights *= scale
    return dweights @ k, dweights.swapaxes(-1, -2) @ q, dv


def swiglu(gate: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, tuple]:
    """Return silu(gate) * up for gate and up (..., F)."""
    sigmoid = np.negative(gate)
    np.exp(sigmoid, out=sigmoid)
    sigmoid += 1.0
    np.reciprocal(sigmoid, out=sigmoid)
    silu = gate * sigmoid
    return silu * up, (sigmoid, silu, up)


def swiglu_backward(dy: np.ndarray, cache: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Backward pass of swiglu, with silu' = s + silu * (1 - s). Returns the gradients of gate and up."""
    sigmoid, silu, up = cache
    dgate = 1.0 - sigmoid
    dgate *= silu
    dgate += sigmoid
    dgate *= up
    dgate *= dy
    return dgate, dy * silu
