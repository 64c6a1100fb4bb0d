"""The Adam optimizer over one flat vector, and the learning rate schedule."""

from __future__ import annotations

import math

import numpy as np


class Adam:
    """Adam with decoupled weight decay and gradient clipping by the global norm."""

    def __init__(self, size: int, beta1: float, beta2: float, clip: float, decay: np.ndarray | None = None) -> None:
        self.first = np.zeros(size, np.float32)
        self.second = np.zeros(size, np.float32)
        self.beta1, self.beta2, self.clip = beta1, beta2, clip
        self.decay = decay
        self.steps = 0

    def step(self, params: np.ndarray, gradient: np.ndarray, lr: float) -> None:
        """Update `params` in place. Clipping scales `gradient` in place."""
        self.steps += 1
        norm = float(np.sqrt(np.dot(gradient, gradient)))
        if norm > self.clip:
            gradient *= np.float32(self.clip / norm)
        self.first += np.float32(1 - self.beta1) * (gradient - self.first)
        self.second += np.float32(1 - self.beta2) * (gradient * gradient - self.second)
        root = np.sqrt(self.second / np.float32(1 - self.beta2**self.steps))
        root += np.float32(1e-8)
        if self.decay is not None:
            params -= np.float32(lr) * self.decay * params
        params -= np.float32(lr / (1 - self.beta1**self.steps)) * self.first / root


def learning_rate(step: int, peak: float, warmup: int, total: int, floor: float = 0.05) -> float:
    """Return the learning rate of a step: linear warm-up to `peak`, then cosine decay to `floor * peak` at `total`."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
