"""Question-and-answer rows: reading, splitting and batching."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chat_tiny import chat, tokenizer
from chat_tiny.transformer import Batch


class DataError(ValueError):
    """The dataset cannot be trained on; the message says where and why."""


@dataclass(frozen=True, order=True)
class Row:
    """One question and the answer that counts as right."""

    question: str
    answer: str


def load(folder: Path) -> list[Row]:
    """Every row of every .jsonl file of a folder, duplicates dropped."""
    files = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else []
    if not files:
        raise DataError(f"dataset 'train': no .jsonl file in {folder.name or folder}")
    answers: dict[str, str] = {}
    for file in files:
        # Not splitlines: a text may hold U+2028 and other line ends as it is.
        for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
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
        raise DataError(f"{where}: not UTF-8") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON: {error.msg}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: a row is an object with 'question' and 'answer'")
    for key in ("question", "answer"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise DataError(f"{where}: '{key}' must be a text that is not empty")
        if any(0xD800 <= ord(letter) < 0xE000 for letter in value[key]):
            raise DataError(f"{where}: '{key}' holds half of a surrogate pair")
    return Row(value["question"], value["answer"])


def split(rows: list[Row], held_out: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Training rows and held-out rows.

    A row's side depends on the seed, its question and the other questions, not
    on the order of the file: rows are ranked by a hash of seed and question.
    """
    ranked = sorted(rows, key=lambda row: hashlib.sha256(f"{seed}\n{row.question}".encode()).digest())
    count = round(len(ranked) * held_out)
    if count < 1 or count >= len(ranked):
        raise DataError(f"{len(ranked)} rows are too few to hold out a share of {held_out}")
    return sorted(ranked[count:]), sorted(ranked[:count])


@dataclass(frozen=True)
class Encoded:
    """All rows as one left-padded block, ready to be cut into batches."""

    tokens: np.ndarray
    padding: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, index: np.ndarray) -> Batch:
        """The rows of an index array."""
        return Batch(self.tokens[index], self.padding[index], self.targets[index])


def encode(rows: list[Row], context: int) -> Encoded:
    """Rows to ids.

    Prompts end at the same column in every row, so the answers take the same
    last columns; shorter answers are padded on the right without a target.
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
