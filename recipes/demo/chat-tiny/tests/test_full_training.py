"""The complete training with the default hyperparameters takes at most one minute.

The test limits the CPU time, because other work on the machine does not change it. Training runs on
one thread, so on an idle machine the wall time is the same. The test prints both.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from conftest import RecordingRun

from chat_tiny import inputs, settings, train

MAX_SECONDS = 60


def test_two_digit_additions_within_a_minute(
    run: RecordingRun, additions, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    wall, cpu = time.monotonic(), time.process_time()
    job = inputs.Inputs(settings.resolve({}), additions(2, 4000, 0), None, tmp_path)
    train.Trainer(run, job).train()
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    scores = [event[4] for event in run.of("validation")]
    with capsys.disabled():
        print(f"\ntwo digits: {wall:.1f} s, {cpu:.1f} s of one core (limit {MAX_SECONDS} s), ", end="")
        print(f"exact match {' '.join(f'{score:.3f}' for score in scores)}")
    assert scores[0] <= 0.2
    assert scores[-1] >= 0.9
    assert cpu < MAX_SECONDS
