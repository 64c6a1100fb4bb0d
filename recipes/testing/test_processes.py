"""Train with two processes on a CPU: they must compute what one process computes with twice the batch.

    OMP_NUM_THREADS=1 python -m pytest -q test_processes.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import harness
import pytest
import tiny_base
import toys

HPARAMS = {
    "train.max_steps": 6,
    "train.accumulate": 1,
    "lora.dropout": 0,
    "optim.lr": 3e-3,
    "val.every_steps": 3,
    "val.max_tokens": 4,
    "data.held_out": 0.2,
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A tiny base model."""
    return tiny_base.make(tmp_path / "base")


def two_processes(folder: Path, model: Path, rows: Path, hparams: dict) -> harness.Result:
    """Run sft/lora as a job with two GPUs would: train.py starts torchrun, which starts two processes."""
    folder.mkdir()
    (folder / "hparams.json").write_text(json.dumps(hparams))
    (folder / "bindings.json").write_text(json.dumps({"model": {"path": str(model)}, "datasets": {"train": {"path": str(rows)}}}))
    environment = {
        **os.environ,
        "PYTHONPATH": str(harness.RECIPES.parent / "sdk" / "python" / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SERVICE_JOB_ENABLED": "0",
        "SERVICE_JOB_GPUS_PER_NODE": "2",
        "SERVICE_JOB_DIR": str(folder),
        "SERVICE_JOB_WORKDIR": str(folder),
        "SERVICE_JOB_HPARAMS_FILE": str(folder / "hparams.json"),
        "SERVICE_JOB_BINDINGS_FILE": str(folder / "bindings.json"),
    }
    script = harness.RECIPES / "sft" / "lora" / "train.py"
    done = subprocess.run([sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-4000:]
    return harness.read(0, folder)


def test_two_processes_compute_like_one(base: Path, tmp_path: Path) -> None:
    rows = toys.write(tmp_path / "rows", toys.colors())
    both = two_processes(tmp_path / "both", base, rows, {**HPARAMS, "train.batch": 8})
    alone = harness.run("sft/lora", tmp_path / "alone", base, rows, {**HPARAMS, "train.batch": 16})
    want, found = alone.curve("train/loss"), both.curve("train/loss")
    assert found.keys() == want.keys()
    assert all(abs(found[step] - want[step]) < 1e-3 for step in want), (found, want)
    assert both.curve("val/loss").keys() == {0, 3, 6}
    assert both.artifacts() == [("hf_export", "peft")], "only the first process exports"
    assert [report["step"] for report in both.rounds()] == [0, 3, 6], "only the first process validates"
