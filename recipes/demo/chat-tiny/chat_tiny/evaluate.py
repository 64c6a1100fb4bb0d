"""A validation round: every held-out question, answered and compared."""

from __future__ import annotations

from dataclasses import dataclass

from chat_tiny import chat, generate
from chat_tiny.data import Row
from chat_tiny.transformer import Transformer


@dataclass(frozen=True)
class Round:
    """The samples of one validation round, in the reporter's form."""

    samples: list[dict]

    @property
    def exact_match(self) -> float:
        """The share of questions answered exactly as expected."""
        return sum(sample["reward"] for sample in self.samples) / len(self.samples)


def validate(model: Transformer, rows: list[Row]) -> Round:
    """Answers every row greedily; the reward is 1 for an exact match, else 0."""
    limit = max(len(chat.answer_ids(row.answer)) for row in rows) + 1
    answers = generate.greedy(model, [chat.prompt_ids(row.question) for row in rows], limit)
    return Round([_sample(row, answer) for row, answer in zip(rows, answers)])


def _sample(row: Row, answer: generate.Answer) -> dict:
    """The reward is by ids; the text loses NUL, which few stores can keep in a text."""
    right = answer.ids == chat.answer_ids(row.answer)
    return {
        "user": row.question,
        "assistant": answer.text.replace("\x00", "\ufffd"),
        "env": {"expected": row.answer},
        "reward": 1.0 if right else 0.0,
    }
