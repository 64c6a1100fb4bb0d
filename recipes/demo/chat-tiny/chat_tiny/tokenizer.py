"""A byte-level tokenizer: every byte is a token, and three special tokens.

Ids 0 to 255 are the bytes themselves. In the exported files a byte is written
as the printable character that GPT-2's byte alphabet gives it, which is what
Hugging Face's ByteLevel and llama.cpp's `gpt2` tokenizer expect.
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
    """The printable character for each of the 256 bytes (GPT-2's table)."""
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
    """The token strings by id, as written into tokenizer files."""
    return byte_alphabet() + list(SPECIAL)


def encode(text: str) -> list[int]:
    """Plain text to ids; special tokens are never made from text."""
    return list(text.encode())


def decode(ids: Iterable[int]) -> str:
    """Ids to text; special tokens are left out, broken UTF-8 is replaced."""
    return bytes(i for i in ids if i < 256).decode(errors="replace")
