"""Compare the backward pass with finite differences.

The derivative with respect to each parameter is checked in float64 with central differences.
For each tensor, the largest error divided by the largest numeric derivative must
be at most 1e-4.
"""

from __future__ import annotations

import numpy as np
import pytest

from chat_tiny import layers
from chat_tiny.config import ModelConfig
from chat_tiny.params import Params, shapes
from chat_tiny.transformer import Batch, Transformer

BOUND = 1e-4
STEP = 1e-5
CONFIG = ModelConfig(vocab=11, layers=2, width=8, heads=2, ffn=12, context=16)


def make_case() -> tuple[Transformer, Batch]:
    """Return a model, and a batch with left padding, short answers and repeated tokens."""
    rng = np.random.default_rng(7)
    params = Params.random(CONFIG, rng, np.float64)
    for name, view in params.items():
        if view.ndim == 1:
            view += rng.normal(0, 0.3, view.shape)
    params["lm_head.weight"][:] = rng.normal(0, 0.5, (CONFIG.vocab, CONFIG.width))
    tokens = rng.integers(0, CONFIG.vocab, (3, 8))
    targets = rng.integers(0, CONFIG.vocab, (3, 3))
    targets[1, 2] = targets[2, 1] = targets[2, 2] = -1
    return Transformer(CONFIG, params), Batch(tokens, np.array([0, 2, 4]), targets)


def numeric(model: Transformer, batch: Batch) -> Params:
    """Return the derivatives of the loss with respect to all parameters, from central differences."""
    found = Params.zeros(CONFIG, np.float64)
    flat = model.params.flat
    for i in range(flat.size):
        kept = flat[i]
        flat[i] = kept + STEP
        above = model.loss(batch)
        flat[i] = kept - STEP
        below = model.loss(batch)
        flat[i] = kept
        found.flat[i] = (above - below) / (2 * STEP)
    return found


@pytest.fixture(scope="module")
def expected() -> Params:
    return numeric(*make_case())


def analytic() -> Params:
    model, batch = make_case()
    gradient = Params.zeros(CONFIG, np.float64)
    loss = model.loss_and_gradient(batch, gradient)
    assert loss == pytest.approx(model.loss(batch), rel=1e-12)
    return gradient


def wrong_tensors(gradient: Params, expected: Params) -> dict[str, float]:
    """Return the tensors whose relative error exceeds the bound, with this error."""
    wrong = {}
    for name in shapes(CONFIG):
        largest = np.abs(expected[name]).max()
        assert largest > 1e-6, f"{name} has no derivative to check"
        error = np.abs(gradient[name] - expected[name]).max() / largest
        if not error <= BOUND:
            wrong[name] = float(error)
    return wrong


def test_gradient_agrees_with_finite_differences(expected: Params) -> None:
    assert wrong_tensors(analytic(), expected) == {}


@pytest.mark.parametrize("name", shapes(CONFIG))
def test_flipped_sign_of_one_derivative_is_detected(name: str, expected: Params) -> None:
    gradient = analytic()
    tensor = gradient[name].reshape(-1)
    # Flip a derivative of median size: a check of only the largest derivative would not detect that.
    nonzero = np.flatnonzero(np.abs(tensor) > 2 * BOUND * np.abs(tensor).max())
    at = nonzero[np.argsort(np.abs(tensor[nonzero]))[len(nonzero) // 2]]
    tensor[at] *= -1
    assert list(wrong_tensors(gradient, expected)) == [name]


def flipped_swiglu(dy: np.ndarray, cache: tuple) -> tuple[np.ndarray, np.ndarray]:
    dgate, dup = swiglu_backward(dy, cache)
    return dgate, -dup


def flipped_rope(dy: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    return layers.rope(dy, cos, sin)


def flipped_attention(dy: np.ndarray, cache: tuple) -> tuple[np.ndarray, ...]:
    dq, dk, dv = attend_backward(dy, cache)
    return -dq, dk, dv


def flipped_norm(dy: np.ndarray, cache: tuple, dgain: np.ndarray) -> np.ndarray:
    before = dgain.copy()
    dx = rms_norm_backward(dy, cache, dgain)
    dgain[:] = before - (dgain - before)
    return dx


swiglu_backward = layers.swiglu_backward
attend_backward = layers.attend_backward
rms_norm_backward = layers.rms_norm_backward


@pytest.mark.parametrize(
    ("function", "broken"),
    [
        ("swiglu_backward", flipped_swiglu),
        ("rope_backward", flipped_rope),
        ("attend_backward", flipped_attention),
        ("rms_norm_backward", flipped_norm),
    ],
)
def test_flipped_sign_in_the_code_is_detected(
    function: str, broken: object, expected: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, function, broken)
    assert wrong_tensors(analytic(), expected) != {}
