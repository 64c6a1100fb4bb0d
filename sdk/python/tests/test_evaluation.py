"""Rollouts of an evaluation: opaque task keys, requests of limited size, masked rollouts."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List

import pytest
import signalbox
from conftest import QUICK, Start
from control import Control
from hypothesis import given
from hypothesis import strategies as st
from signalbox import evaluation

DIGEST = "sha256:" + "a" * 64


@given(st.text(max_size=200))
def test_task_key_is_opaque(task: str) -> None:
    key = signalbox.task_key(DIGEST, task)
    assert re.fullmatch("[0-9a-f]{64}", key) and key == signalbox.task_key(DIGEST, task)
    assert key != signalbox.task_key(DIGEST + "b", task) and key != signalbox.task_key(DIGEST, task + "x")


def test_task_key_requires_taskset_digest() -> None:
    with pytest.raises(ValueError, match="digest"):
        signalbox.task_key("", "task")


def test_evaluation_payloads(control: Control, start: Start) -> None:
    key = signalbox.task_key(DIGEST, "one")
    with start() as run:
        run.rollouts(
            "webshop",
            [
                {"task": key, "rollout": 0, "reward": 1, "parts": {"format": 0.5}, "turns": 3, "stop": None},
                {"task": key, "rollout": 1, "masked": True, "error": "sandbox"},
            ],
            version="2",
            evaluation={"taskset_digest": DIGEST, "tasks_total": 1},
        )
        run.rollouts("webshop", [], evaluation={"rollouts_per_task": 2})
    first, second = control.bodies("benchmark")
    assert first == {
        "run_id": "run_1",
        "name": "webshop",
        "version": "2",
        "evaluation": {"taskset_digest": DIGEST, "tasks_total": 1},
        "rollouts": [
            {"task": key, "rollout": 0, "reward": 1, "parts": {"format": 0.5}, "turns": 3},
            {"task": key, "rollout": 1, "masked": True, "error": "sandbox"},
        ],
    }
    assert second["rollouts"] == [] and second["evaluation"] == {"rollouts_per_task": 2}


@pytest.mark.parametrize(
    "wrong",
    [
        {"rollout": 0, "reward": 1},
        {"task": "a", "reward": 1},
        {"task": "a", "rollout": 0},
        {"task": "a", "rollout": 0, "masked": True},
        {"task": "a", "rollout": 0, "masked": True, "error": "e", "reward": 0},
        {"task": "a", "rollout": 0, "reward": None, "masked": False},
    ],
)
def test_rollout_requires_reward_or_mask(control: Control, start: Start, wrong: Dict[str, Any]) -> None:
    with start() as run:
        with pytest.raises(ValueError):
            run.rollouts("webshop", [wrong])
    assert control.bodies("benchmark") == []


def test_rollout_must_be_mapping() -> None:
    with pytest.raises(TypeError):
        evaluation.shaped(["task"])  # type: ignore[arg-type]


@given(st.lists(st.text(max_size=40), max_size=60), st.integers(100, 500))
def test_requests_contain_each_rollout_once_in_order(traces: List[str], limit: int) -> None:
    rows = [{"task": f"{n:016x}", "rollout": n, "reward": 0.5, "trace": t} for n, t in enumerate(traces)]
    made = [json.loads(body) for body, _ in evaluation.requests("n", rows, None, {"a": 1}, limit)]
    assert [r["rollout"] for body in made for r in body["rollouts"]] == list(range(len(rows)))
    assert ["evaluation" in body for body in made] == [True] + [False] * (len(made) - 1)
    for body, (raw, points) in zip(made, evaluation.requests("n", rows, None, {"a": 1}, limit)):
        assert points == 1 and (len(body["rollouts"]) <= 1 or len(raw) < limit + 100)


def test_request_rollout_limit(control: Control, start: Start) -> None:
    rows = [{"task": f"{n:016x}", "rollout": 0, "reward": 0} for n in range(evaluation.MOST + 1)]
    with start(policy=QUICK) as run:
        run.rollouts("n", rows)
    assert [len(body["rollouts"]) for body in control.bodies("benchmark")] == [evaluation.MOST, 1]
