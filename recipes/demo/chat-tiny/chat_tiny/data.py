"""Read question-and-answer rows, split them and encode them into batches."""

from __future__ import annotations

import codecs
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chat_tiny import chat, tokenizer
from chat_tiny.transformer import Batch


class DataError(ValueError):
    """The dataset cannot be used for training. The message contains the place and the reason."""


@dataclass(frozen=True, order=True)
class Row:
    """A question and its correct answer."""

    question: str
    answer: str


def load(folder: Path) -> list[Row]:
    """Return the rows of all .jsonl files in a folder and its subfolders, without duplicates.

    Raises DataError if there is no such file, if a row is invalid, or if two
    rows have the same question but different answers.
    """
    files = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []
    if not files:
        raise DataError(f"dataset 'train': no .jsonl file in {folder.name or folder}")
    answers: dict[str, str] = {}
    for file in files:
        # Do not use splitlines: it also splits at U+2028, which may occur inside a JSON string.
        # Some editors begin a file with a byte order mark, which is not a part of the first row.
        for number, line in enumerate(file.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
            if not line.strip():
                continue
            row = _parse(line, f"{file.name}:{number}")
            if answers.setdefault(row.question, row.answer) != row.answer:
                raise DataError(f"{file.name}:{number}: question {row.question!r} has two different answers")
    return [Row(question, answer) for question, answer in answers.items()]


def _parse(line: bytes, where: str) -> Row:
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError:
        raise DataError(f"{where}: the row is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: the row is not JSON: {error.msg}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: a row must be an object with 'question' and 'answer'")
    for key in ("question", "answer"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise DataError(f"{where}: '{key}' must be a non-empty string")
        if any(0xD800 <= ord(letter) < 0xE000 for letter in value[key]):
            raise DataError(f"{where}: '{key}' contains half of a surrogate pair")
    return Row(value["question"], value["answer"])


def split(rows: list[Row], held_out: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Split the rows into a training set and a held-out set.

    `held_out` is the fraction of rows to hold out. Rows are ranked by a hash of
    `seed` and their question, so the split does not depend on the order of the
    file. Raises DataError if one of the sets would be empty.
    """
    ranked = sorted(rows, key=lambda row: hashlib.sha256(f"{seed}\n{row.question}".encode()).digest())
    count = round(len(ranked) * held_out)
    if count < 1 or count >= len(ranked):
        raise DataError(f"{len(ranked)} rows are too few to hold out a share of {held_out}")
    return sorted(ranked[count:]), sorted(ranked[:count])


@dataclass(frozen=True)
class Encoded:
    """All rows as arrays of token ids, with padding on both sides. See Batch for the shapes."""

    tokens: np.ndarray
    padding: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, index: np.ndarray) -> Batch:
        """Return the batch of the rows with these indices."""
        return Batch(self.tokens[index], self.padding[index], self.targets[index])


def encode(rows: list[Row], context: int) -> Encoded:
    """Encode rows as token ids.

    All prompts end in the same column, so all answers start in the same
    column. Shorter answers are padded on the right and have no target there.
    Raises DataError if the longest prompt and the longest answer together are
    longer than `context` tokens.
    """
    prompts = [chat.prompt_ids(row.question) for row in rows]
    answers = [chat.answer_ids(row.answer) for row in rows]
    longest, queries = max(map(len, prompts)), max(map(len, answers))
    if longest + queries - 1 > context:
        raise DataError(f"the longest row has {longest + queries - 1} tokens, more than model.context {context}")
    tokens = np.full((len(rows), longest + queries - 1), tokenizer.PAD_ID, np.int64)
    targets = np.full((len(rows), queries), -1, np.int64)
    for i, (prompt, answer) in enumerate(zip(prompts, answers)):
        tokens[i, longest - len(prompt) : longest] = prompt
        tokens[i, longest : longest + len(answer) - 1] = answer[:-1]
        targets[i, : len(answer)] = answer
    padding = np.array([longest - len(prompt) for prompt in prompts])
    return Encoded(tokens, padding, targets)
