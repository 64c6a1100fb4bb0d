"""Validation rounds: the four known fields, `extra`, and splitting by size."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List

import pytest
from conftest import QUICK, Start
from control import Control
from hypothesis import given
from hypothesis import strategies as st
from signalbox import samples


def test_unknown_keys_go_to_extra() -> None:
    shaped = samples.sample(
        {"user": "u", "assistant": "a", "env": {"n": 1}, "reward": 1, "logp": -2.0, "extra": {"x": 1}}
    )
    assert shaped == {
        "user": "u",
        "assistant": "a",
        "env": {"n": 1},
        "reward": 1,
        "extra": {"x": 1, "logp": -2.0},
    }


def test_sample_omits_empty_extra_and_null() -> None:
    assert samples.sample({"user": "u", "reward": None}) == {"user": "u"}


def test_non_finite_numbers_are_strings() -> None:
    assert samples.sample({"reward": math.nan, "kl": math.inf}) == {
        "reward": "NaN",
        "extra": {"kl": "Infinity"},
    }


def test_sample_must_be_mapping() -> None:
    with pytest.raises(TypeError):
        samples.sample(["user"])  # type: ignore[arg-type]


def test_empty_round_is_one_chunk() -> None:
    (only,) = samples.chunks(4, [], None, None, 100)
    assert json.loads(only) == {"step": 4, "samples": [], "chunk_index": 0, "total_chunks": 1}


@given(st.lists(st.text(max_size=60), max_size=30), st.integers(50, 400))
def test_chunks_contain_each_sample_once_in_order(texts: List[str], limit: int) -> None:
    given_: List[Dict[str, Any]] = [{"user": t, "assistant": "", "reward": 0.5} for t in texts]
    rounds = [json.loads(c) for c in samples.chunks(1, given_, 0.5, 1.0, limit)]
    back = [s["user"] for r in rounds for s in r["samples"]]
    assert back == [json.loads(json.dumps(t)) for t in texts]
    assert [r["chunk_index"] for r in rounds] == list(range(len(rounds)))
    assert {r["total_chunks"] for r in rounds} == {len(rounds)}
    assert all(r["avg_reward"] == 0.5 and r["accuracy"] == 1.0 for r in rounds)
    for encoded, round_ in zip(samples.chunks(1, given_, 0.5, 1.0, limit), rounds):
        assert len(round_["samples"]) == 1 or len(encoded) < limit + 120


def test_large_round_is_split(control: Control, start: Start) -> None:
    big = [{"user": f"q{i}", "assistant": "x" * 1000, "reward": i} for i in range(50)]
    with start(policy=QUICK._replace(chunk_bytes=10_000)) as run:
        run.validation(step=9, samples=big, avg_reward=24.5)
    rounds = control.bodies("validation")
    assert len(rounds) == 6 and [r["chunk_index"] for r in rounds] == list(range(6))
    assert [s["user"] for r in rounds for s in r["samples"]] == [f"q{i}" for i in range(50)]
    assert all("accuracy" not in r and r["step"] == 9 for r in rounds)
