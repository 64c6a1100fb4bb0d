"""Random SIGKILLs, restarts and failures of the network and the control plane neither lose nor duplicate reports."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from typing import Dict

import pytest
import signalbox.__main__ as command
from conftest import QUICK, Env
from control import Control
from test_processes import spawn

GENERATIONS = 4


def kill_one(env: Env, generation: int, after: float) -> int:
    """Start a process that reports, and kill it. Return the last step that it printed."""
    child = spawn(env, "chaos", str(generation))
    assert child.stdout
    first = child.stdout.readline()
    assert first == "0\n", child.stderr and child.stderr.read()
    timer = threading.Timer(after, child.send_signal, (signal.SIGKILL,))
    timer.start()
    lines = child.stdout.read().split("\n")
    timer.join()
    assert child.wait(10) == -signal.SIGKILL
    child.stderr and child.stderr.close()
    child.stdout.close()
    return int(lines[-2]) if len(lines) > 1 else 0


def restart(control: Control, stop: threading.Event, draw: random.Random) -> None:
    """Stop and restart the control plane repeatedly until `stop` is set."""
    while not stop.wait(draw.uniform(0.1, 0.4)):
        control.stop()
        time.sleep(draw.uniform(0.0, 0.1))
        control.start()


# `make test-long` runs the test with and without watermarks, `make test` only with the choice that TEST_SEED selects.
CHOICES = [False, True] if os.environ.get("TEST_LONG") else [int(os.environ.get("TEST_SEED", "1")) % 2 == 0]


@pytest.mark.parametrize("watermarks", CHOICES)
def test_chaos_neither_loses_nor_duplicates(
    control: Control, env: Env, monkeypatch: pytest.MonkeyPatch, watermarks: bool
) -> None:
    seed = int(os.environ.get("SIGNALBOX_CHAOS_SEED") or random.SystemRandom().randrange(10**6))
    print("SIGNALBOX_CHAOS_SEED", seed)
    draw = random.Random(seed)
    control.chaos, control.watermarks = random.Random(seed), watermarks
    stop = threading.Event()
    chaos = threading.Thread(target=restart, args=(control, stop, random.Random(seed)))
    chaos.start()
    kept: Dict[int, int] = {}
    for generation in range(GENERATIONS):
        kept[generation] = kill_one(env, generation, draw.uniform(0.0, 0.4))
    stop.set()
    chaos.join()
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert command.main(["flush", env["SERVICE_JOB_SPOOL_DIR"]], QUICK) == 0
    assert os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) == []
    check(control, kept)


def check(control: Control, kept: Dict[int, int]) -> None:
    """Compare the stored reports with the last step that each process printed."""
    assert not control.conflicts, "a key was used with two bodies"
    assert not control.gaps()
    points = Counter((key, step) for key, step, _ in control.points())
    assert set(points.values()) == {1}
    lines = Counter(re.findall(r"^gen(\d+) (\d+)$", control.lines(), re.MULTILINE))
    assert set(lines.values()) == {1}
    rounds = Counter(body["step"] for body in control.bodies("validation"))
    assert set(rounds.values()) == {1}
    for generation, last in kept.items():
        steps = sorted(step for key, step in points if key == f"gen{generation}")
        assert steps == list(range(len(steps)))
        # The step after the last printed one may be stored too: the process was killed before it printed the step.
        assert len(steps) - 1 in (last, last + 1)
        logged = sorted(int(step) for found, step in lines if found == str(generation))
        assert logged == list(range(len(logged))) and len(logged) - 1 in (last, last + 1)
        assert all(generation * 1_000_000 + s in rounds for s in range(0, last + 1, 100))
