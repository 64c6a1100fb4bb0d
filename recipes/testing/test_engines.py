"""GGUF files of each architecture: llama.cpp returns the text of transformers.

    OMP_NUM_THREADS=1 python -m pytest -q test_engines.py
"""

from __future__ import annotations

from pathlib import Path

import harness  # noqa: F401  (makes signalbox importable)
import pytest
import tiny_base
import torch
from engine import serving
from signalbox.hf import gguf_file, prompt_ids
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    set_seed,
)

SIZES = {
    "vocab_size": 264,
    "hidden_size": 96,
    "intermediate_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "initializer_range": 0.2,
}
# The scaling of Llama 3 takes effect for a text this short.
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS = {
    "llama": (LlamaConfig, LlamaForCausalLM, {"tie_word_embeddings": False}),
    "llama-3": (LlamaConfig, LlamaForCausalLM, {"rope_parameters": SCALED}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {"tie_word_embeddings": False}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 32, "tie_word_embeddings": True}),
}
PROMPTS = ("color 1?", "a longer text with Größe, 漢字, 2000 and 00100\n\n  and it's what follows", "x")


def whole(text: str) -> str:
    """Return a text without the bytes that are not UTF-8, which the two engines show differently."""
    return text.replace("\ufffd", "")


@pytest.mark.parametrize("name", list(MODELS))
def test_same_text(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    config, kind, more = MODELS[name]
    tokenizer = tiny_base.make_tokenizer()
    set_seed(3)
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = kind(config(**{**SIZES, **ends, **more})).float().eval()
    for parameter, values in model.named_parameters():
        if parameter.endswith("bias"):  # of Qwen2; they are 0 in a new model
            torch.nn.init.normal_(values, 0, 0.2)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    for dtype in ("f32", "f16", "bf16"):
        gguf_file.write(tmp_path / "model", tmp_path / f"{dtype}.gguf", dtype, name)
    assert (tmp_path / "f16.gguf").stat().st_size < 0.6 * (tmp_path / "f32.gguf").stat().st_size
    with serving(tmp_path / "f32.gguf", tmp_path, "--exact") as engine:
        for prompt in PROMPTS:
            ids = torch.tensor([prompt_ids(tokenizer, [{"role": "user", "content": prompt}])])
            found = model.generate(ids, max_new_tokens=24, do_sample=False)
            want = tokenizer.decode(found[0, ids.shape[1] :], skip_special_tokens=True)
            assert whole(engine.answer(prompt, 24)) == whole(want)
    for dtype in ("f16", "bf16"):  # rounded weights give another text, so only that the file is complete
        with serving(tmp_path / f"{dtype}.gguf", tmp_path, "--exact") as engine:
            assert engine.answer(PROMPTS[0], 4)
