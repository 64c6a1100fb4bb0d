"""Validation rounds: decode an answer to every held-out question and compare it."""

from __future__ import annotations

from dataclasses import dataclass

from chat_tiny import chat, generate
from chat_tiny.data import Row
from chat_tiny.transformer import Transformer


@dataclass(frozen=True)
class Round:
    """The samples of one validation round, in the format of `signalbox.Run.validation`."""

    samples: list[dict]

    @property
    def exact_match(self) -> float:
        """The fraction of samples whose answer equals the expected answer."""
        return sum(sample["reward"] for sample in self.samples) / len(self.samples)


def validate(model: Transformer, rows: list[Row]) -> Round:
    """Decode an answer to every row greedily. The reward is 1 for an exact match, else 0."""
    limit = max(len(chat.answer_ids(row.answer)) for row in rows) + 1
    answers = generate.greedy(model, [chat.prompt_ids(row.question) for row in rows], limit)
    return Round([_sample(row, answer) for row, answer in zip(rows, answers)])


def _sample(row: Row, answer: generate.Answer) -> dict:
    """Return the sample of one row.

    The reward compares token ids. In the text, NUL is replaced, because many
    databases cannot store it.
    """
    right = answer.ids == chat.answer_ids(row.answer)
    return {
        "user": row.question,
        "assistant": answer.text.replace("\x00", "\ufffd"),
        "env": {"expected": row.answer},
        "reward": 1.0 if right else 0.0,
    }
