"""The rewards of rl/grpo. These tests need no framework."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from signalbox.hf import InputError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rl" / "grpo"))

import rewards  # noqa: E402

TAGS = "<answer>(.*?)</answer>"


@pytest.mark.parametrize(
    ("kind", "completion", "answer", "reward"),
    [
        ("exact", " 4\n", "4", 1),
        ("exact", "4.", "4", 0),
        ("contains", "it is 4.", "4", 1),
        ("contains", "it is 5.", "4", 0),
        ("last_number", "3 + 1 = 4.", "4", 1),
        ("last_number", "4 or 5", "4", 0),
        ("last_number", "it costs $1,234.50", "The answer is 1234.5", 1),
        ("last_number", "none", "4", 0),
        ("last_number", "4", "none", 0),
        ("pattern", "so\n<answer> 4 </answer>", "4", 1),
        ("pattern", "<answer>5</answer>", "4", 0),
        ("pattern", "4", "4", 0),
    ],
)
def test_kinds(kind: str, completion: str, answer: str, reward: float) -> None:
    assert rewards.choose(kind, TAGS, 0.0)(completion, answer) == reward


def test_pattern_without_group_must_only_be_found() -> None:
    reward = rewards.choose("pattern", r"^\d+$", 0.0)
    assert (reward("12", "anything"), reward("a12", "anything")) == (1, 0)


def test_optional_group_that_does_not_take_part() -> None:
    assert rewards.choose("pattern", r"a(b)?", 0.0)("a", "b") == 0


def test_weight_of_the_format() -> None:
    reward = rewards.choose("exact", TAGS, 0.25)
    assert reward("<answer>5</answer>", "4") == 0.25
    assert reward("<answer>4</answer>", "<answer>4</answer>") == 1.25
    assert reward("4", "4") == 1


def test_invalid_pattern() -> None:
    with pytest.raises(InputError, match="reward.pattern is not a regular expression"):
        rewards.choose("exact", "(", 0.0)
