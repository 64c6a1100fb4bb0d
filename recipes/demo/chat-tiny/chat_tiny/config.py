"""The shape of the transformer, shared by training, both exports and loading."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a Llama-architecture decoder.

    `width` is the residual stream, `ffn` the inner width of the SwiGLU block;
    the width is divided evenly over the heads, and a head's size must be even
    because the rotary embedding turns pairs of numbers.
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
        """Numbers per attention head."""
        return self.width // self.heads
