"""Export a model to one GGUF file with weights, tokenizer and chat template, for serving."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from chat_tiny import chat, tokenizer
from chat_tiny.config import ModelConfig
from chat_tiny.params import EMBEDDING, FINAL_NORM, HEAD, Params

# llama.cpp rejects an empty list of merges. The byte 0xFF never occurs in UTF-8,
# so this merge never applies.
UNUSED_MERGE = "ÿ ÿ"

_LAYER_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OUTSIDE = {EMBEDDING: "token_embd.weight", FINAL_NORM: "output_norm.weight", HEAD: "output.weight"}


def write(path: Path, params: Params, name: str) -> None:
    """Write the model as float32 with the architecture `llama`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(name)
    _add_sizes(writer, params.config)
    _add_tokenizer(writer)
    for tensor, values in params.items():
        if tensor.endswith(("q_proj.weight", "k_proj.weight")):
            values = interleave(values, params.config.heads)
        writer.add_tensor(gguf_name(tensor), np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(tensor: str) -> str:
    """Return the GGUF name of a tensor with this Hugging Face name."""
    if tensor in _OUTSIDE:
        return _OUTSIDE[tensor]
    _, _, layer, part = tensor.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{_LAYER_PARTS[part]}.weight"


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Permute the rows of a query or key projection within each head.

    The rotary embedding of Hugging Face pairs row i with row i + S/2, where S
    is the head size; llama.cpp pairs adjacent rows. After the permutation,
    both rotate the same pairs.
    """
    outputs, inputs = weight.shape
    return weight.reshape(heads, 2, outputs // heads // 2, inputs).swapaxes(1, 2).reshape(outputs, inputs)


def _add_sizes(writer: gguf.GGUFWriter, config: ModelConfig) -> None:
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.heads)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_dimension_count(config.head_size)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_vocab_size(config.vocab)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    normal, control = int(gguf.TokenType.NORMAL), int(gguf.TokenType.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokenizer.vocabulary())
    writer.add_token_types([normal] * 256 + [control] * len(tokenizer.SPECIAL))
    writer.add_token_merges([UNUSED_MERGE])
    writer.add_eos_token_id(tokenizer.END_ID)
    writer.add_pad_token_id(tokenizer.PAD_ID)
    writer.add_add_bos_token(False)
    writer.add_chat_template(chat.TEMPLATE)
