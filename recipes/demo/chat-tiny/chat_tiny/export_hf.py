"""Write and read models in the Hugging Face layout, from which training can continue."""

from __future__ import annotations

import json
from pathlib import Path

from chat_tiny import chat, safetensors_file, tokenizer
from chat_tiny.config import ModelConfig
from chat_tiny.params import Params, shapes

WEIGHTS = "model.safetensors"


def write(folder: Path, params: Params) -> None:
    """Write weights, configuration and tokenizer to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    safetensors_file.write(folder / WEIGHTS, params)
    documents = {
        "config.json": _config(params.config),
        "generation_config.json": _generation(),
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": _tokenizer_config(params.config),
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read(folder: Path) -> Params:
    """Read the parameters from a folder that `write` created, bit for bit.

    Raises ValueError if a file is missing or does not describe such a model.
    """
    for name in ("config.json", WEIGHTS):
        if not (folder / name).is_file():
            raise ValueError(f"model to start from: {name} is missing")
    config = _read_config(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    tensors = safetensors_file.read(folder / WEIGHTS)
    params = Params.zeros(config)
    for name, shape in shapes(config).items():
        if name not in tensors or tensors[name].shape != shape:
            found = tensors[name].shape if name in tensors else "nothing"
            raise ValueError(f"model to start from: tensor {name} must have shape {shape}, found {found}")
        params[name][...] = tensors[name]
    return params


def _config(config: ModelConfig) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab,
        "hidden_size": config.width,
        "intermediate_size": config.ffn,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.heads,
        "head_dim": config.head_size,
        "hidden_act": "silu",
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.norm_eps,
        # Some engines read only the top-level value, others only the nested one.
        "rope_theta": config.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "dtype": "float32",
        "torch_dtype": "float32",
        "bos_token_id": None,
        "eos_token_id": tokenizer.END_ID,
        "pad_token_id": tokenizer.PAD_ID,
    }


def _read_config(document: dict) -> ModelConfig:
    if document.get("model_type") != "llama" or document.get("vocab_size") != tokenizer.VOCAB:
        raise ValueError(f"model to start from: must be a llama with this recipe's {tokenizer.VOCAB} tokens")
    try:
        return ModelConfig(
            vocab=document["vocab_size"],
            layers=document["num_hidden_layers"],
            width=document["hidden_size"],
            heads=document["num_attention_heads"],
            ffn=document["intermediate_size"],
            context=document["max_position_embeddings"],
            rope_theta=document["rope_theta"],
            norm_eps=document["rms_norm_eps"],
        )
    except KeyError as error:
        raise ValueError(f"model to start from: config.json has no {error}") from None


def _generation() -> dict:
    return {"do_sample": False, "eos_token_id": tokenizer.END_ID, "pad_token_id": tokenizer.PAD_ID}


def _special(index: int) -> dict:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": 256 + index, "content": tokenizer.SPECIAL[index], **flags}


def _tokenizer() -> dict:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(i) for i in range(len(tokenizer.SPECIAL))],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokenizer.byte_alphabet())},
            "merges": [],
        },
    }


def _tokenizer_config(config: ModelConfig) -> dict:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.context,
        "eos_token": tokenizer.END,
        "pad_token": tokenizer.PAD,
        "clean_up_tokenization_spaces": False,
        "chat_template": chat.TEMPLATE,
    }
