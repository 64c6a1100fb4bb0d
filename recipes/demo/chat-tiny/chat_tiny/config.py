"""The sizes of the transformer, shared by training, the exports and loading."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a decoder with the Llama architecture.

    `width` is the width of the residual stream and must be a multiple of
    `heads`. `ffn` is the inner width of the SwiGLU block. The head size must be
    even because the rotary embedding rotates pairs of numbers.
    """

    vocab: int
    layers: int = 2
    width: int = 64
    heads: int = 4
    ffn: int = 176
    context: int = 128
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"model.width {self.width} is not a multiple of model.heads {self.heads}")
        if self.head_size % 2:
            raise ValueError(f"model.width / model.heads is {self.head_size}; it must be even")

    @property
    def head_size(self) -> int:
        """The width of one attention head."""
        return self.width // self.heads
