"""Both exports contain exactly the parameters of the model."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from chat_tiny import chat, export_gguf, export_hf, layers, safetensors_file, tokenizer
from chat_tiny.config import ModelConfig
from chat_tiny.params import Params

CONFIG = ModelConfig(vocab=tokenizer.VOCAB, layers=2, width=16, heads=2, ffn=24, context=64)


@pytest.fixture
def params() -> Params:
    made = Params.random(CONFIG, np.random.default_rng(11))
    made.flat[:4] = [np.float32(1e-42), np.float32(-0.0), np.float32(3.4e38), np.float32(0.1)]
    return made


def test_hugging_face_layout_is_read_back_bit_for_bit(params: Params, tmp_path: Path) -> None:
    export_hf.write(tmp_path / "hf", params)
    again = export_hf.read(tmp_path / "hf")
    assert again.config == CONFIG
    assert again.flat.tobytes() == params.flat.tobytes()
    export_hf.write(tmp_path / "twice", again)
    for file in sorted((tmp_path / "hf").iterdir()):
        assert (tmp_path / "twice" / file.name).read_bytes() == file.read_bytes()


def test_safetensors_file_has_the_specified_layout(params: Params, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors_file.write(path, params)
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    assert size % 8 == 0 and header.pop("__metadata__") == {"format": "pt"}
    end = 0
    for name, entry in header.items():
        assert entry["data_offsets"][0] == end, "the tensors must have no gaps and no overlaps"
        end = entry["data_offsets"][1]
        assert entry["shape"] == list(params[name].shape) and entry["dtype"] == "F32"
    assert 8 + size + end == len(raw)


def damaged(folder: Path, what: str) -> None:
    """Damage an export in the way that `what` names."""
    weights, config = folder / "model.safetensors", folder / "config.json"
    document = json.loads(config.read_text())
    if what == "truncated":
        weights.write_bytes(weights.read_bytes()[:-4])
    elif what == "junk":
        weights.write_bytes(b"junk")
    elif what == "half":
        weights.write_bytes(weights.read_bytes().replace(b'"F32"', b'"F16"', 1))
    elif what == "absent":
        weights.unlink()
    elif what == "renamed":
        weights.write_bytes(weights.read_bytes().replace(b"lm_head.weight", b"lm_tail.weight"))
    elif what == "family":
        config.write_text(json.dumps({**document, "model_type": "qwen2"}))
    elif what == "wider":
        config.write_text(json.dumps({**document, "intermediate_size": 25}))
    elif what == "lacking":
        config.write_text(json.dumps({k: v for k, v in document.items() if k != "hidden_size"}))


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("truncated", "is outside the file"),
        ("junk", "not a safetensors file"),
        ("half", "is F16, only F32 is supported"),
        ("absent", "model.safetensors is missing"),
        ("renamed", "tensor lm_head.weight must have shape .* found nothing"),
        ("family", "must be a llama"),
        ("wider", "gate_proj.weight must have shape"),
        ("lacking", "config.json has no 'hidden_size'"),
    ],
)
def test_damaged_export_is_rejected(params: Params, tmp_path: Path, what: str, words: str) -> None:
    export_hf.write(tmp_path, params)
    damaged(tmp_path, what)
    with pytest.raises(ValueError, match=words):
        export_hf.read(tmp_path)


def test_tokenizer_files_contain_the_vocabulary(params: Params, tmp_path: Path) -> None:
    export_hf.write(tmp_path, params)
    document = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    words = {**document["model"]["vocab"], **{t["content"]: t["id"] for t in document["added_tokens"]}}
    assert sorted(words, key=words.get) == tokenizer.vocabulary()
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert settings["chat_template"] == chat.TEMPLATE
    assert settings["eos_token"] == tokenizer.END
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["LlamaForCausalLM"] and config["rope_theta"] == CONFIG.rope_theta


def test_template_ends_with_an_expression() -> None:
    assert chat.TEMPLATE.endswith("{{ '<|im_start|>assistant\\n' }}{% endif %}")
    assert "\n" not in chat.TEMPLATE


def test_gguf_contains_all_tensors_and_the_tokenizer(params: Params, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    export_gguf.write(path, params, "tiny")
    reader = gguf.GGUFReader(path)
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    assert len(tensors) == len(params)
    for name, values in params.items():
        if not name.endswith(("q_proj.weight", "k_proj.weight")):
            np.testing.assert_array_equal(tensors[export_gguf.gguf_name(name)], values)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert fields["general.architecture"] == "llama"
    assert fields["llama.block_count"] == CONFIG.layers
    assert fields["llama.rope.dimension_count"] == CONFIG.head_size
    assert fields["tokenizer.ggml.tokens"] == tokenizer.vocabulary()
    assert fields["tokenizer.ggml.merges"] == [export_gguf.UNUSED_MERGE]
    assert fields["tokenizer.ggml.eos_token_id"] == tokenizer.END_ID
    assert fields["tokenizer.chat_template"] == chat.TEMPLATE


def test_interleaved_projection_gives_the_same_scores() -> None:
    """llama.cpp rotates adjacent rows. With the permuted projection, the attention scores are the same."""
    rng = np.random.default_rng(2)
    heads, size, width = 2, 8, 16
    weight, x = rng.normal(size=(width, width)), rng.normal(size=(1, 5, width))
    cos, sin = layers.rope_tables(5, size, 10000.0, np.dtype(np.float64))
    halves = layers.rope(layers.split_heads(x @ weight.T, heads), cos, sin)
    plain = layers.split_heads(x @ export_gguf.interleave(weight, heads).T, heads)
    even, odd = plain[..., 0::2], plain[..., 1::2]
    half_cos, half_sin = cos[:, : size // 2], sin[:, : size // 2]
    turned = np.stack([even * half_cos - odd * half_sin, odd * half_cos + even * half_sin], axis=-1)
    scores = halves @ halves.swapaxes(-1, -2)
    neighbours = turned.reshape(halves.shape)
    np.testing.assert_allclose(neighbours @ neighbours.swapaxes(-1, -2), scores, atol=1e-10)
