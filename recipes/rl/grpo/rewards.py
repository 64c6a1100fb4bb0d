"""The reward of a completion: change this file to train for something else.

A reward compares the text of a completion with the `answer` of its row, and returns a number; larger is better.
"""

from __future__ import annotations

import re
from typing import Callable, Dict

from signalbox.hf import InputError

Reward = Callable[[str, str], float]
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def exact(completion: str, answer: str) -> float:
    """Return 1 if the completion is the answer, without regard to spaces around it."""
    return float(completion.strip() == answer.strip())


def contains(completion: str, answer: str) -> float:
    """Return 1 if the answer is somewhere in the completion."""
    return float(answer.strip() in completion)


def last_number(completion: str, answer: str) -> float:
    """Return 1 if the last number in the completion is the number in the answer."""
    found, wanted = _NUMBER.findall(completion), _NUMBER.findall(answer)
    return float(bool(found and wanted) and _value(found[-1]) == _value(wanted[-1]))


def matching(pattern: "re.Pattern[str]") -> Reward:
    """Return the reward that is 1 if the pattern is in the completion and its first group, if it has one, is the answer."""

    def pattern_reward(completion: str, answer: str) -> float:
        found = pattern.search(completion)
        return float(found is not None and (not pattern.groups or (found[1] or "").strip() == answer.strip()))

    return pattern_reward


def choose(kind: str, pattern: str, format_weight: float) -> Reward:
    """Return the reward that the hyperparameters reward.* describe. Raises InputError."""
    try:
        compiled = re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise InputError(f"reward.pattern is not a regular expression: {error}") from None
    kinds: Dict[str, Reward] = {
        "exact": exact,
        "contains": contains,
        "last_number": last_number,
        "pattern": matching(compiled),
    }

    def reward(completion: str, answer: str) -> float:
        formatted = format_weight and compiled.search(completion) is not None
        return kinds[kind](completion, answer) + (format_weight if formatted else 0.0)

    return reward


def _value(number: str) -> float:
    return float(number.replace(",", ""))
