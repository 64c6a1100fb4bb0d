"""How signalbox.hf starts a training, and that it costs nothing until it is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest
from signalbox import hf
from signalbox.hf import launch
from signalbox.hf.names import metrics

SOURCES = str(Path(hf.__file__).parents[2])


def loaded(statement: str) -> List[str]:
    """Return which of the large packages, and of signalbox, a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": SOURCES}
    found = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, check=True, timeout=60)
    names = found.stdout.decode().split()
    return [name for name in names if name.startswith("signalbox.hf") or name in ("torch", "transformers", "trl", "peft", "numpy")]


def test_import_of_reporter_loads_no_training() -> None:
    assert loaded("import signalbox") == []


def test_import_of_training_loads_no_framework() -> None:
    assert all(name.startswith("signalbox.hf") for name in loaded("from signalbox import hf"))


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        hf.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("env", "want"),
    [
        ({}, None),
        ({"SERVICE_JOB_GPUS_PER_NODE": "0"}, None),
        ({"SERVICE_JOB_GPUS_PER_NODE": "1", "SERVICE_JOB_NNODES": "1"}, None),
        ({"SERVICE_JOB_GPUS_PER_NODE": "8", "WORLD_SIZE": "8"}, None),
        ({"SERVICE_JOB_GPUS_PER_NODE": "x"}, None),
        ({"SERVICE_JOB_GPUS_PER_NODE": "2"}, "--nproc-per-node 2 --nnodes 1"),
        (
            {"SERVICE_JOB_GPUS_PER_NODE": "8", "SERVICE_JOB_MASTER_PORT": "4001"},
            "--nproc-per-node 8 --nnodes 1 --master-port 4001",
        ),
        (
            {"SERVICE_JOB_NNODES": "2", "SERVICE_JOB_NODE_RANK": "1", "SERVICE_JOB_MASTER_ADDR": "n1"},
            "--nproc-per-node 1 --nnodes 2 --node-rank 1 --master-addr n1",
        ),
    ],
)
def test_several_gpus_need_torchrun(env: Dict[str, str], want: Optional[str]) -> None:
    command = launch.torchrun("train.py", env)
    if want is None:
        assert command is None
        return
    assert command is not None
    assert command[:3] == [sys.executable, "-m", "torch.distributed.run"]
    assert command[3:] == [*want.split(), "train.py"]


def test_main_reports_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.json").write_text('{"params_schema": {"properties": {"a": {"type": "integer", "default": 1}}}}')
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "bindings.json").write_text(json.dumps({"model": {"path": str(tmp_path)}}))
    for name in launch.DEFAULTS:
        monkeypatch.setenv(name, "the user's")
    monkeypatch.setenv("SERVICE_JOB_ENABLED", "0")
    monkeypatch.setenv("SERVICE_JOB_DIR", str(tmp_path))
    monkeypatch.setenv("SERVICE_JOB_BINDINGS_FILE", str(tmp_path / "bindings.json"))
    seen: List[Any] = []
    assert hf.main(lambda run, job: seen.append(job.hparams), str(tmp_path / "train.py")) == 0
    assert seen == [{"a": 1}]
    assert os.environ["HF_HUB_OFFLINE"] == "the user's"
    reports = [json.loads(line) for line in (tmp_path / "signalbox.jsonl").read_text().splitlines()]
    assert [r["report"].get("event") or r["report"]["params"] for r in reports] == ["starting", {"a": 1}, "succeeded"]
    (tmp_path / "bindings.json").write_text("{}")
    assert hf.main(lambda run, job: None, str(tmp_path / "train.py")) == launch.INVALID
    assert "no model is bound" in capfd.readouterr().err
    assert '"failed"' in (tmp_path / "signalbox.jsonl").read_text()


def test_names_of_metrics() -> None:
    logs = {"loss": 1, "learning_rate": 0.1, "mean_token_accuracy": 0.5, "grad_norm": 2.0, "num_tokens": 9, "epoch": 0.5, "note": "x"}
    assert metrics(logs) == {"train/loss": 1.0, "train/lr": 0.1, "train/token_accuracy": 0.5, "train/grad_norm": 2.0, "train/epoch": 0.5}
    ends = {"eval_loss": 1.5, "eval_runtime": 3, "eval_samples_per_second": 1, "eval_num_tokens": 9, "epoch": 1, "eval_rewards/margins": 2}
    assert metrics(ends) == {"val/loss": 1.5, "train/epoch": 1.0, "val/rewards/margins": 2.0}
    assert metrics({"train_runtime": 1, "train_loss": 2, "total_flos": 3, "train_steps_per_second": 1}) == {}
