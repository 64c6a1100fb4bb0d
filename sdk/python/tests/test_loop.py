"""All reports of a run over real HTTP, in the format of the specification."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import pytest
from conftest import Env, Start
from control import TOKEN, Control

ISO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$")


def test_run_from_start_to_end(control: Control, start: Start, tmp_path: Path, env: Env) -> None:
    weights = tmp_path / "model.gguf"
    weights.write_bytes(os.urandom(300_000))
    with start() as run:
        run.starting()
        run.hparams({"optim": {"lr": 0.1}, "layers": [1, 2]})
        run.running()
        for step in range(50):
            run.log({"train": {"loss": 1.0 / (step + 1)}, "odd": math.nan}, step=step)
        run.text("half way")
        run.validation(
            step=50,
            samples=[{"user": "1+1", "assistant": "2", "env": "sums", "reward": 1.0, "seed": 7}],
            avg_reward=1.0,
            accuracy=1.0,
        )
        uri = run.artifact(weights, kind="hf_export", format="gguf", step=50)
        run.environment()
        run.benchmark("sums", "accuracy", 0.5, n=10)
        run.hardware([{"node": "a", "gpu": 0, "key": "util", "value": 0.5}])
    assert control.events() == ["starting", "running", "succeeded"]
    assert control.order[-1][0] == "lifecycle"
    assert control.bodies("hparams") == [
        {"run_id": "run_1", "params": {"optim.lr": 0.1, "layers": [1, 2]}}
    ]
    assert len(control.points()) == 100
    assert ("train.loss", 1, 0.5) in control.points()
    assert ("odd", 0, "NaN") in control.points()
    assert control.lines() == "half way\n"
    (round_,) = control.bodies("validation")
    assert round_ == {
        "run_id": "run_1",
        "step": 50,
        "samples": [
            {"user": "1+1", "assistant": "2", "env": "sums", "reward": 1.0, "extra": {"seed": 7}}
        ],
        "chunk_index": 0,
        "total_chunks": 1,
        "avg_reward": 1.0,
        "accuracy": 1.0,
    }
    assert control.bodies("artifact") == [
        {
            "run_id": "run_1",
            "kind": "hf_export",
            "format": "gguf",
            "step": 50,
            "path": uri,
            "size_bytes": 300_000,
        }
    ]
    assert control.blobs[uri] == weights.read_bytes()
    assert control.bodies("benchmark")[0]["value"] == 0.5
    assert control.bodies("hardware")[0]["points"][0]["key"] == "util"
    assert control.bodies("environment")[0]["python"]
    assert not control.gaps() and not control.conflicts
    assert os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) == []


def test_payload_fields_match_specification(
    control: Control, start: Start
) -> None:
    with start() as run:
        run.running()
        run.log({"a": 1}, step=0)
        run.text("line")
    lifecycle, metrics, logs = (control.bodies(s)[0] for s in ("lifecycle", "metrics", "logs"))
    assert set(lifecycle) == {"run_id", "event", "ts"} and ISO.match(lifecycle["ts"])
    assert set(metrics) == {"run_id", "points"}
    assert set(metrics["points"][0]) == {"key", "step", "value", "ts"}
    assert ISO.match(metrics["points"][0]["ts"])
    assert set(logs) == {"run_id", "chunks"}, "the body must not contain eof"


def test_requests_have_headers_and_share_one_connection(control: Control, start: Start) -> None:
    with start() as run:
        for step in range(5):
            run.log({"a": step}, step=step)
            assert run.flush()
    keys = [h["Idempotency-Key"] for h in control.headers]
    assert all(h["Authorization"] == f"Bearer {TOKEN}" for h in control.headers)
    assert all(h["Content-Type"] == "application/json" for h in control.headers)
    assert [k.split(":")[1] for k in keys] == ["1", "2", "3", "4", "5", "1"]
    assert re.match(r"^[0-9a-f]{32}:1$", keys[0]) and len({k.split(":")[0] for k in keys}) == 1
    assert control.connections == 1


def test_lifecycle_event_is_stored_after_earlier_reports(
    control: Control, start: Start
) -> None:
    control.script_for["metrics"] = __import__("collections").deque(["500", "drop", "503"])
    run = start()
    for step in range(2500):
        run.log({"a": step}, step=step)
    run.succeeded()
    assert len(control.points()) == 2500, "succeeded() must return after all earlier reports are stored"
    run.finish()
    sizes = [len(body["points"]) for body in control.bodies("metrics")]
    assert max(sizes) <= 1000


def test_exception_fails_run_and_propagates(control: Control, start: Start) -> None:
    with pytest.raises(ZeroDivisionError):
        with start() as run:
            run.log({"a": 1 / 0}, step=0)
    assert control.events() == ["failed"]
    assert control.lines() == "failed: ZeroDivisionError: division by zero\n"


def test_zero_exit_is_success(control: Control, start: Start) -> None:
    with pytest.raises(SystemExit):
        with start():
            raise SystemExit(0)
    assert control.events() == ["succeeded"]


def test_explicit_event_is_not_repeated(control: Control, start: Start) -> None:
    with start() as run:
        run.failed("no luck")
    assert control.events() == ["failed"]
