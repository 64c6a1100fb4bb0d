"""Adam compared with its definition, and the learning rate schedule."""

from __future__ import annotations

import numpy as np
import pytest

from chat_tiny.optim import Adam, learning_rate


def test_adam_agrees_with_its_definition() -> None:
    rng = np.random.default_rng(0)
    params = rng.normal(size=5).astype(np.float32)
    wanted, m, v = params.astype(np.float64), np.zeros(5), np.zeros(5)
    adam = Adam(5, beta1=0.9, beta2=0.98, clip=1e9)
    for t in range(1, 6):
        gradient = rng.normal(size=5).astype(np.float32)
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient.astype(np.float64) ** 2
        wanted -= 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.98**t)) + 1e-8)
        adam.step(params, gradient, 0.01)
    np.testing.assert_allclose(params, wanted, rtol=1e-5)


def test_large_gradient_is_clipped_to_the_maximum_norm() -> None:
    gradient = np.array([30.0, 40.0], np.float32)
    Adam(2, 0.9, 0.98, clip=1.0).step(np.zeros(2, np.float32), gradient, 0.1)
    np.testing.assert_allclose(gradient, [0.6, 0.8], rtol=1e-6)
    small = np.array([0.3, 0.4], np.float32)
    Adam(2, 0.9, 0.98, clip=1.0).step(np.zeros(2, np.float32), small, 0.1)
    np.testing.assert_array_equal(small, np.array([0.3, 0.4], np.float32))


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0.1), (9, 1.0), (10, 1.0), (60, 0.525), (110, 0.05), (500, 0.05)]
)
def test_learning_rate_warms_up_and_decays_to_its_floor(step: int, expected: float) -> None:
    assert learning_rate(step, peak=1.0, warmup=10, total=110) == pytest.approx(expected)


def test_learning_rate_without_warm_up_starts_at_the_peak() -> None:
    assert learning_rate(0, peak=2.0, warmup=0, total=10) == pytest.approx(2.0)
