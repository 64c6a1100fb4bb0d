"""With SERVICE_JOB_ENABLED=0, the same calls use no network."""

from __future__ import annotations

import json
import math
import socket
from pathlib import Path
from typing import Any, List

import pytest
import signalbox


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if a socket is created."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)


def everything(run: signalbox.Run, file: Path) -> str:
    file.write_text("abc")
    with run:
        run.starting()
        run.running()
        run.hparams({"a": {"b": 1}})
        run.log({"loss": math.nan, "acc": 1}, step=1)
        run.validation(step=1, samples=[{"user": "u", "reward": 1.0}], accuracy=1.0)
        run.text("line")
        run.hardware([{"node": "n", "key": "util", "value": 1}])
        run.benchmark("b", "acc", 0.5)
        run.environment()
        assert run.flush()
        return run.artifact(file, kind="checkpoint", format="x", step=1)


def test_offline_without_folder_writes_nothing(tmp_path: Path) -> None:
    run = signalbox.init(env={"SERVICE_JOB_ENABLED": "0"})
    assert everything(run, tmp_path / "m") == str(tmp_path / "m")
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_offline_with_folder_writes_one_line_per_report(tmp_path: Path) -> None:
    env = {"SERVICE_JOB_ENABLED": "0", "SERVICE_JOB_DIR": str(tmp_path / "job")}
    everything(signalbox.init(env=env), tmp_path / "m")
    lines: List[Any] = [
        json.loads(line) for line in (tmp_path / "job" / "signalbox.jsonl").read_text().splitlines()
    ]
    streams = [line["stream"] for line in lines]
    assert streams == [
        "lifecycle",
        "lifecycle",
        "hparams",
        "metrics",
        "validation",
        "logs",
        "hardware",
        "benchmark",
        "environment",
        "artifact",
        "lifecycle",
    ]
    points = lines[3]["report"]
    assert [(p["key"], p["value"]) for p in points] == [("loss", "NaN"), ("acc", 1)]
    assert lines[9]["report"]["size_bytes"] == 3
    assert lines[-1]["report"]["event"] == "succeeded"


def test_offline_checks_arguments(tmp_path: Path) -> None:
    run = signalbox.init(env={"SERVICE_JOB_ENABLED": "0"})
    with pytest.raises(TypeError):
        run.log({"a": "text"}, step=0)
    with pytest.raises(ValueError):
        run.artifact(tmp_path, kind="weights", format="x", step=0)


def test_file_that_cannot_be_written_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = {"SERVICE_JOB_ENABLED": "0", "SERVICE_JOB_DIR": str(tmp_path)}
    (tmp_path / "signalbox.jsonl").mkdir()
    run = signalbox.init(on_error="warn", env=env, handle_sigterm=False)
    run.log({"a": 1}, step=1)
    assert f"cannot write {tmp_path / 'signalbox.jsonl'}" in capsys.readouterr().err
    with pytest.raises(signalbox.SpoolError):
        signalbox.init(env=env, handle_sigterm=False).log({"a": 1}, step=1)
