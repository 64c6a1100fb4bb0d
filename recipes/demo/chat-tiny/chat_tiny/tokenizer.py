"""A byte-level tokenizer with one token for each byte and three special tokens.

The ids 0 to 255 are the bytes. The exported files represent each byte by a
printable character, as in GPT-2, because the ByteLevel tokenizer of Hugging
Face and the `gpt2` tokenizer of llama.cpp expect this.
"""

from __future__ import annotations

from collections.abc import Iterable

PAD = "<|endoftext|>"
START = "<|im_start|>"
END = "<|im_end|>"
SPECIAL = (PAD, START, END)
PAD_ID, START_ID, END_ID = 256, 257, 258
VOCAB = 259


def byte_alphabet() -> list[str]:
    """Return the printable character for each of the 256 bytes, as in GPT-2."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters, free = [], 0x100
    for byte in range(256):
        if byte in printable:
            letters.append(chr(byte))
        else:
            letters.append(chr(free))
            free += 1
    return letters


def vocabulary() -> list[str]:
    """Return the token strings in the order of their ids, as in tokenizer files."""
    return byte_alphabet() + list(SPECIAL)


def encode(text: str) -> list[int]:
    """Return the ids of a text. The result never contains special tokens."""
    return list(text.encode())


def decode(ids: Iterable[int]) -> str:
    """Return the text of token ids. Special tokens are omitted, invalid UTF-8 is replaced by U+FFFD."""
    return bytes(i for i in ids if i < 256).decode(errors="replace")
