"""Named parameter tensors kept as views of one flat vector.

The optimizer then works on one array, and a gradient has exactly the layout of
the parameters. Names and shapes are those of Hugging Face's Llama, so that the
export is a plain write: a linear layer's weight is (outputs, inputs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from chat_tiny.config import ModelConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"


def layer_name(layer: int, part: str) -> str:
    """The full name of a tensor of one layer, e.g. part `self_attn.q_proj`."""
    return f"model.layers.{layer}.{part}.weight"


def shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name to shape of every tensor, in storage order."""
    width, ffn = config.width, config.ffn
    found: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab, width)}
    for layer in range(config.layers):
        found[layer_name(layer, "input_layernorm")] = (width,)
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            found[layer_name(layer, f"self_attn.{part}")] = (width, width)
        found[layer_name(layer, "post_attention_layernorm")] = (width,)
        found[layer_name(layer, "mlp.gate_proj")] = (ffn, width)
        found[layer_name(layer, "mlp.up_proj")] = (ffn, width)
        found[layer_name(layer, "mlp.down_proj")] = (width, ffn)
    found[FINAL_NORM] = (width,)
    found[HEAD] = (config.vocab, width)
    return found


class Params(Mapping[str, np.ndarray]):
    """A mapping of tensor names to views of `flat`, a vector of all numbers."""

    def __init__(self, config: ModelConfig, flat: np.ndarray) -> None:
        self.config = config
        self.flat = flat
        self._views: dict[str, np.ndarray] = {}
        offset = 0
        for name, shape in shapes(config).items():
            size = int(np.prod(shape))
            self._views[name] = flat[offset : offset + size].reshape(shape)
            offset += size
        if offset != flat.size:
            raise ValueError(f"{flat.size} numbers given, the model has {offset}")

    @classmethod
    def zeros(cls, config: ModelConfig, dtype: np.dtype | type = np.float32) -> "Params":
        """All tensors filled with zero."""
        return cls(config, np.zeros(count(config), dtype))

    @classmethod
    def random(cls, config: ModelConfig, rng: np.random.Generator, dtype: np.dtype | type = np.float32) -> "Params":
        """Normal weights scaled by the number of inputs; norms start at one.

        The two projections that write into the residual stream start smaller,
        so that the stream does not grow with depth.
        """
        made = cls.zeros(config, dtype)
        for name, view in made.items():
            if view.ndim == 1:
                view[:] = 1.0
                continue
            view[:] = rng.normal(0.0, _deviation(name, view.shape[1], config.layers), view.shape)
        return made

    def __getitem__(self, name: str) -> np.ndarray:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


def _deviation(name: str, inputs: int, depth: int) -> float:
    """The standard deviation of a matrix's first weights.

    A nearly silent head makes the first guesses uniform; wide embeddings keep
    the few distinct bytes of a question apart from the start.
    """
    if name == EMBEDDING:
        return 0.5
    if name == HEAD:
        return 0.02
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        return 1.0 / np.sqrt(2.0 * inputs * depth)
    return 1.0 / np.sqrt(inputs)


def count(config: ModelConfig) -> int:
    """How many numbers the model has."""
    return sum(int(np.prod(shape)) for shape in shapes(config).values())
