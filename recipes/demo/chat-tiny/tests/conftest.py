"""Paths and fixtures of the recipe's tests.

The tests run in an environment with the packages of requirements.lock and
tests/requirements-test.lock. The reporter is imported from the checkout.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest

RECIPE = Path(__file__).resolve().parent.parent
ROOT = RECIPE.parents[2]
SDK = ROOT / "sdk" / "python" / "src"

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["SERVICE_JOB_ENABLED"] = "0"
# Compiled modules must not be written into the recipe's folder.
sys.dont_write_bytecode = sys.pycache_prefix is None
sys.path[:0] = [str(RECIPE), str(RECIPE / "tests"), str(RECIPE.parents[1] / "testing"), str(SDK)]

# `make test-long` sets TEST_LONG, which runs all comparisons and the complete training. `make test` runs a random part
# of the comparisons, selected by TEST_SEED. It runs a complete training in TestDemoOnce.
LONG = bool(os.environ.get("TEST_LONG"))
collect_ignore = [] if LONG else ["test_full_training.py"]


def drawn(rows: list, count: int) -> list:
    """Return `count` random rows, the same ones for the same TEST_SEED. Return all rows if TEST_LONG is set."""
    if LONG:
        return rows
    return random.Random(os.environ.get("TEST_SEED", "1")).sample(rows, count)


import signalbox  # noqa: E402  (from the checkout)
from chat_tiny import memory  # noqa: E402

memory.keep_freed_arrays()


class RecordingRun:
    """A run that records the trainer's reports in order."""

    def __init__(self, pause_after: int | None = None) -> None:
        self.events: list[tuple] = []
        self.pause_after = pause_after

    def running(self) -> None:
        self.events.append(("running",))

    def log(self, values: dict, step: int) -> None:
        self.events.append(("log", step, values))

    def validation(self, step: int, samples: list, avg_reward: float, accuracy: float) -> None:
        self.events.append(("validation", step, samples, avg_reward, accuracy))

    def artifact(self, path: Path, kind: str, format: str, step: int) -> None:
        self.events.append(("artifact", step, kind, format, Path(path)))

    def should_checkpoint(self) -> bool:
        """Request a checkpoint after `pause_after` calls of log."""
        return self.pause_after is not None and len(self.of("log")) >= self.pause_after

    def checkpoint(self, path: Path, format: str, step: int) -> None:
        self.artifact(path, kind="checkpoint", format=format, step=step)
        raise signalbox.Paused

    def of(self, name: str) -> list[tuple]:
        """Return all events with this name."""
        return [event for event in self.events if event[0] == name]


@pytest.fixture
def run() -> RecordingRun:
    return RecordingRun()


@pytest.fixture(scope="session")
def additions(tmp_path_factory: pytest.TempPathFactory):
    """Return a function that writes a dataset of additions and returns its folder."""
    import make_dataset

    def write(digits: int, pairs: int, seed: int = 1) -> Path:
        folder = tmp_path_factory.mktemp("additions")
        rows = make_dataset.rows(digits, pairs, seed)
        (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return folder

    return write
