"""Named parameter tensors, stored as views of one flat vector.

The optimizer therefore works on one array, and gradients have the same layout
as the parameters. Names and shapes are those of Llama in Hugging Face, so that
export needs no conversion. The weight of a linear layer is (outputs, inputs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from chat_tiny.config import ModelConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"


def layer_name(layer: int, part: str) -> str:
    """Return the full name of a layer's tensor, for a part such as `self_attn.q_proj`."""
    return f"model.layers.{layer}.{part}.weight"


def shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all tensors by name, in storage order."""
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
    """A mapping from tensor names to views of `flat`, the vector of all parameters."""

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
            raise ValueError(f"the vector has {flat.size} numbers, but the model has {offset} parameters")

    @classmethod
    def zeros(cls, config: ModelConfig, dtype: np.dtype | type = np.float32) -> "Params":
        """Return parameters that are all zero."""
        return cls(config, np.zeros(count(config), dtype))

    @classmethod
    def random(cls, config: ModelConfig, rng: np.random.Generator, dtype: np.dtype | type = np.float32) -> "Params":
        """Return initial parameters: normally distributed weights, and gains of one in the norms.

        The standard deviation depends on the number of inputs. It is smaller for
        the two projections that write to the residual stream, so that the stream
        does not grow with depth.
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
    """Return the standard deviation of the initial weights of a matrix.

    Small weights of the head make the initial predictions nearly uniform. Large
    embeddings keep the few distinct bytes of a question apart from the start.
    """
    if name == EMBEDDING:
        return 0.5
    if name == HEAD:
        return 0.02
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        return 1.0 / np.sqrt(2.0 * inputs * depth)
    return 1.0 / np.sqrt(inputs)


def count(config: ModelConfig) -> int:
    """Return the number of parameters of the model."""
    return sum(int(np.prod(shape)) for shape in shapes(config).values())
