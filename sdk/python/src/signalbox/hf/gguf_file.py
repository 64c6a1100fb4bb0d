"""Write a model in the Hugging Face layout as one GGUF file, for llama.cpp.

The architectures are those of Llama, Qwen2 and Qwen3, with a byte-level BPE tokenizer.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from .inputs import InputError

NONE = "none"
ARCHITECTURES = ("llama", "qwen2", "qwen3")
# llama.cpp knows the expressions by which tokenizers split a text into words by name. These two differ in one part.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITTERS: Mapping[str, str] = {_WORDS % r"\p{N}{1,3}": "llama-bpe", _WORDS % r"\p{N}": "qwen2"}
_UNUSED_MERGE = "\u00ff \u00ff"  # the byte 0xFF never occurs in UTF-8; llama.cpp refuses an empty list

_LAYER: Mapping[str, str] = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OUTSIDE: Mapping[str, str] = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def check(folder: Path, tokenizer: Any) -> None:
    """Raise InputError unless the model and its tokenizer can be written."""
    config = _read(folder / "config.json")
    kind = config.get("model_type")
    if kind not in ARCHITECTURES:
        raise InputError(f"export.gguf: the architecture {kind} is not one of {', '.join(ARCHITECTURES)}; set export.gguf to none")
    scaling = _rope(config).get("rope_type", "default")
    if scaling not in ("default", "llama3"):
        raise InputError(f"export.gguf: rope_type {scaling} of the model is not supported; set export.gguf to none")
    if config.get("use_sliding_window"):
        raise InputError("export.gguf: sliding window attention is not supported; set export.gguf to none")
    if (config.get("mlp_bias") or config.get("attention_bias")) and kind == "llama":
        raise InputError("export.gguf: biases of a Llama model are not supported; set export.gguf to none")
    _splitter(json.loads(tokenizer.backend_tokenizer.to_str()))


def write(folder: Path, file: Path, dtype: str, name: str) -> None:
    """Write the model of a folder as a file. `dtype` is f32, f16 or bf16; vectors are always f32."""
    import gguf
    from transformers import AutoTokenizer

    config = _read(folder / "config.json")
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    check(folder, tokenizer)
    file.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(str(file), config["model_type"], use_temp_file=True)
    writer.add_name(name)
    _add_sizes(writer, config)
    writer.add_file_type({"f32": 0, "f16": 1, "bf16": 32}[dtype])
    _add_tokenizer(writer, tokenizer, config["vocab_size"])
    if _rope(config).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", _rope_factors(config))
    for tensor, values in _tensors(folder):
        if tensor == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        if config["model_type"] == "llama" and tensor.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config["num_attention_heads" if "q_proj" in tensor else "num_key_value_heads"]
            values = interleave(values, heads)
        _add_tensor(writer, _gguf_name(tensor), values, dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def interleave(weight: Any, heads: int) -> Any:
    """Permute the rows of a query or key projection within each head.

    The rotary embedding of Hugging Face pairs row i with row i + S/2, where S is the head size; llama.cpp pairs adjacent
    rows for Llama. After the permutation, both rotate the same pairs.
    """
    outputs, inputs = weight.shape
    return weight.reshape(heads, 2, outputs // heads // 2, inputs).swapaxes(1, 2).reshape(outputs, inputs)


def _gguf_name(tensor: str) -> str:
    if tensor in _OUTSIDE:
        return _OUTSIDE[tensor]
    stem, _, suffix = tensor.rpartition(".")
    parts = stem.split(".", 3)
    if len(parts) != 4 or parts[:2] != ["model", "layers"] or parts[3] not in _LAYER:
        raise InputError(f"export.gguf: the tensor {tensor} has no place in GGUF; set export.gguf to none")
    return f"blk.{parts[2]}.{_LAYER[parts[3]]}.{suffix}"


def _tensors(folder: Path) -> Iterator[Tuple[str, Any]]:
    """Return the name and the float32 values of each tensor, one after the other."""
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(str(file), framework="pt") as opened:
            for name in opened.keys():
                yield name, opened.get_tensor(name).float().numpy()


def _add_tensor(writer: Any, name: str, values: Any, dtype: str) -> None:
    import gguf
    import numpy as np

    values = np.ascontiguousarray(values, np.float32)
    if dtype == "f16" and values.ndim > 1:
        writer.add_tensor(name, values.astype(np.float16))
    elif dtype == "bf16" and values.ndim > 1:
        kind = gguf.GGMLQuantizationType.BF16
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    else:
        writer.add_tensor(name, values)


def _add_sizes(writer: Any, config: Mapping[str, Any]) -> None:
    heads = config["num_attention_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(float(_rope(config).get("rope_theta", 10000.0)))
    writer.add_vocab_size(config["vocab_size"])


def _rope(config: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the parameters of the rotary embedding, in the form of transformers 5."""
    found = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    if "rope_theta" in config:
        found.setdefault("rope_theta", config["rope_theta"])
    return found


def _rope_factors(config: Mapping[str, Any]) -> Any:
    """Return by what llama.cpp divides each frequency, for the scaling of Llama 3."""
    import numpy as np

    rope = _rope(config)
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    low, high, factor = rope.get("low_freq_factor", 1.0), rope.get("high_freq_factor", 4.0), rope.get("factor", 8.0)
    context = rope.get("original_max_position_embeddings", 8192)
    factors: List[float] = []
    for i in range(0, size, 2):
        wavelength = 2 * math.pi * rope.get("rope_theta", 10000.0) ** (i / size)
        if wavelength < context / high:
            factors.append(1.0)
        elif wavelength > context / low:
            factors.append(factor)
        else:
            smooth = (context / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


def _add_tokenizer(writer: Any, tokenizer: Any, size: int) -> None:
    import gguf

    data = json.loads(tokenizer.backend_tokenizer.to_str())
    kinds = {token["id"]: token["special"] for token in data["added_tokens"]}
    texts = {index: token for token, index in tokenizer.get_vocab().items()}
    tokens, types = [], []
    for index in range(size):
        tokens.append(texts.get(index, f"[PAD{index}]"))
        if index not in texts:
            types.append(int(gguf.TokenType.UNUSED))
        elif index in kinds:
            types.append(int(gguf.TokenType.CONTROL if kinds[index] else gguf.TokenType.USER_DEFINED))
        else:
            types.append(int(gguf.TokenType.NORMAL))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in data["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_splitter(data))
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges or [_UNUSED_MERGE])
    for index, add in (
        (tokenizer.bos_token_id, writer.add_bos_token_id),
        (tokenizer.eos_token_id, writer.add_eos_token_id),
        (tokenizer.pad_token_id, writer.add_pad_token_id),
    ):
        if index is not None:
            add(index)
    begins = tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
    writer.add_add_bos_token(begins)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)


def _splitter(data: Mapping[str, Any]) -> str:
    """Return llama.cpp's name of the rule by which the tokenizer splits a text. Raises InputError."""
    model, rule = data["model"], data.get("pre_tokenizer") or {}
    steps = rule.get("pretokenizers", [rule])
    kinds = [step.get("type") for step in steps]
    if model.get("type") != "BPE" or model.get("byte_fallback") or kinds[-1] != "ByteLevel":
        raise InputError("export.gguf: only byte-level BPE tokenizers are supported; set export.gguf to none")
    if kinds == ["ByteLevel"] and steps[0].get("use_regex", True):
        return "gpt-2"
    expression = steps[0].get("pattern", {}).get("Regex", "") if kinds == ["Split", "ByteLevel"] else ""
    if expression not in _SPLITTERS:
        raise InputError("export.gguf: the tokenizer splits texts by a rule that is not supported; set export.gguf to none")
    return _SPLITTERS[expression]


def _read(file: Path) -> Dict[str, Any]:
    found = json.loads(file.read_text(encoding="utf-8"))
    return dict(found)
