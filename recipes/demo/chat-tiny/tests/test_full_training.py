"""The whole training at the manifest's defaults; run with `-m train`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from conftest import RecordingRun

from chat_tiny import inputs, settings, train


@pytest.mark.train
@pytest.mark.parametrize("seed", [0, 1])
def test_two_digit_additions_within_a_minute(run: RecordingRun, additions, tmp_path: Path, seed: int) -> None:
    began = time.monotonic()
    job = inputs.Inputs(settings.resolve({"train.seed": seed}), additions(2, 4000, seed), None, tmp_path)
    train.Trainer(run, job).train()
    seconds = time.monotonic() - began
    scores = [event[4] for event in run.of("validation")]
    print(f"seed {seed}: {seconds:.1f} s, exact match {' '.join(f'{score:.3f}' for score in scores)}")
    assert scores[0] <= 0.2
    assert scores[-1] >= 0.9
    assert seconds < 60
