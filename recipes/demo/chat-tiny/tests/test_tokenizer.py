"""Encoding and decoding text, and the byte alphabet of the exported files."""

from __future__ import annotations

import pytest

from chat_tiny import chat, tokenizer


@pytest.mark.parametrize("text", ["07+15?", "", "Grüße, 世界 🙂", "\n\t\x00 <|im_end|>", "a" * 500])
def test_round_trip(text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 <= i < 256 for i in ids), "encode must not return special tokens"


def test_decode_omits_special_tokens_and_replaces_invalid_utf8() -> None:
    assert tokenizer.decode([tokenizer.START_ID, 0x32, tokenizer.END_ID]) == "2"
    assert tokenizer.decode([0xFF, 0x32]) == "\ufffd2"


def test_byte_alphabet_is_that_of_gpt2() -> None:
    letters = tokenizer.byte_alphabet()
    assert len(set(letters)) == 256
    assert [letters[ord(c)] for c in "A0?+"] == list("A0?+")
    assert (letters[ord(" ")], letters[ord("\n")], letters[0], letters[0xFF]) == ("Ġ", "Ċ", "Ā", "ÿ")
    assert all(letter.isprintable() and not letter.isspace() for letter in letters)


def test_vocabulary_contains_the_special_tokens_at_their_ids() -> None:
    words = tokenizer.vocabulary()
    assert len(words) == tokenizer.VOCAB
    assert words[tokenizer.PAD_ID] == tokenizer.PAD
    assert words[tokenizer.START_ID] == tokenizer.START
    assert words[tokenizer.END_ID] == tokenizer.END


def test_prompt_has_the_chat_format() -> None:
    ids = chat.prompt_ids("07+15?")
    words = tokenizer.vocabulary()
    text = "".join(words[i] for i in ids)
    assert text == "<|im_start|>userĊ07+15?<|im_end|>Ċ<|im_start|>assistantĊ"
    assert chat.answer_ids("22") == [0x32, 0x32, tokenizer.END_ID]
