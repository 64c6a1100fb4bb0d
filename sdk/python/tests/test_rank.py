"""The rank of the process, which is part of what identifies its reports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import QUICK, Env, Start
from control import Control
from signalbox import IngestError, machine
from signalbox.config import load
from signalbox.outbox import Outbox


@pytest.mark.parametrize(
    ("given", "rank"),
    [(None, 0), ("0", 0), ("3", 3), ("16777216", 16777216), ("16777217", 0), ("-1", 0), ("x", 0), ("", 0), ("\u0663", 0)],
)
def test_rank_is_read_from_environment(env: Env, given: "str | None", rank: int) -> None:
    env["WORLD_SIZE"] = "16777217"
    if given is not None:
        env["RANK"] = given
    assert load(env).rank == rank


@pytest.mark.parametrize("size", [None, "", "0", "1", "x", "-2"])
def test_rank_of_single_process_is_0(
    control: Control, start: Start, env: Env, monkeypatch: pytest.MonkeyPatch, size: "str | None"
) -> None:
    """Without other processes, RANK comes from somewhere else. No rank must keep the run from its start and end."""
    given = {"RANK": "3", "LOCAL_RANK": "3", **({} if size is None else {"WORLD_SIZE": size})}
    env.update(given)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with start() as run:
        run.running()
        run.environment()
    assert control.events() == ["running", "succeeded"]
    assert all("rank" not in body for body in control.bodies("lifecycle"))
    assert len(control.bodies("environment")) == 1
    assert machine.first(os.environ, "LOCAL_RANK"), "the hardware of a single process is reported"


NODES = {"SERVICE_JOB_NNODES": "4", "SERVICE_JOB_NODE_RANK": "2"}


@pytest.mark.parametrize(
    ("given", "rank"),
    [
        ({}, 2),
        ({"RANK": "7", "LOCAL_RANK": "1"}, 2),  # they mean nothing without WORLD_SIZE
        ({"WORLD_SIZE": "1", "RANK": "0"}, 2),
        ({"WORLD_SIZE": "8", "RANK": "5"}, 5),
        ({"WORLD_SIZE": "8", "RANK": "0"}, 0),
        ({"WORLD_SIZE": "8"}, 0),
        ({"SERVICE_JOB_NODE_RANK": "0"}, 0),
        ({"SERVICE_JOB_NODE_RANK": "x"}, 0),
        ({"SERVICE_JOB_NODE_RANK": "16777217"}, 0),
        ({"SERVICE_JOB_NNODES": "1"}, 0),
        ({"SERVICE_JOB_NNODES": ""}, 0),
    ],
)
def test_process_without_launcher_has_rank_of_node(
    control: Control, start: Start, env: Env, monkeypatch: pytest.MonkeyPatch, given: "dict[str, str]", rank: int
) -> None:
    """A job on several nodes without torchrun has one process on each, and their points must not replace each other."""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**NODES, **given}.items():
        env[name] = value
        monkeypatch.setenv(name, value)
    assert load(env).rank == rank
    with start() as run:
        run.log({"loss": 1.0}, step=1)
        run.environment()
    (body,) = control.bodies("metrics")
    assert body.get("rank", 0) == rank
    assert len(control.bodies("environment")) == (1 if rank == 0 else 0)


@pytest.mark.parametrize("rank", ["0", "1"])
def test_run_that_the_first_process_has_ended(
    control: Control, start: Start, env: Env, capsys: pytest.CaptureFixture[str], rank: str
) -> None:
    """It must not fail the training of another process, whose last reports come too late."""
    env.update({"RANK": rank, "WORLD_SIZE": "2"})
    run = start()
    control.judge = lambda stream, body: (409, "run_closed")
    run.log({"loss": 1.0}, step=1)
    if rank == "0":
        with pytest.raises(IngestError, match="refused on purpose"):
            run.finish()
        return
    assert run.flush()
    run.hardware([{"node": "n", "key": "util", "value": 1}])
    run.succeeded()
    assert run.finish() == 0
    assert capsys.readouterr().err.count("has ended the run") == 1


@pytest.mark.parametrize("code", ["attempt_replaced", "metric_keys", ""])
def test_other_refusals_fail_every_process(control: Control, start: Start, env: Env, code: str) -> None:
    env.update({"RANK": "1", "WORLD_SIZE": "2"})
    run = start()
    control.judge = lambda stream, body: (409, code)
    run.log({"loss": 1.0}, step=1)
    with pytest.raises(IngestError):
        run.finish()


def test_artifact_after_the_end_is_an_error(control: Control, start: Start, env: Env, tmp_path: Path) -> None:
    env.update({"RANK": "1", "WORLD_SIZE": "2"})
    control.judge = lambda stream, body: (409, "run_closed") if stream == "artifact" else None
    (tmp_path / "weights").write_bytes(b"w")
    run = start()
    with pytest.raises(IngestError):
        run.artifact(tmp_path / "weights", kind="hf_export", format="x", step=1)
    with pytest.raises(IngestError):
        run.finish()


def test_every_report_has_rank(control: Control, start: Start, env: Env) -> None:
    env.update({"RANK": "3", "WORLD_SIZE": "4"})
    with start() as run:
        run.running()
        run.log({"loss": 1.0}, step=1)
        run.hparams({"lr": 1})
        run.validation(1, [{"user": "x"}])
        run.text("hello")
    for stream in ("lifecycle", "metrics", "hparams", "validation", "logs"):
        bodies = control.bodies(stream)
        assert bodies and all(body["rank"] == 3 for body in bodies), stream


def test_first_process_sends_no_rank(control: Control, start: Start, env: Env) -> None:
    env.update({"RANK": "0", "WORLD_SIZE": "2"})
    with start() as run:
        run.log({"loss": 1.0}, step=1)
    assert all("rank" not in body for body in control.bodies("metrics"))


def test_adopted_reports_keep_their_rank(control: Control, start: Start, env: Env, tmp_path: Path) -> None:
    root = env["SERVICE_JOB_SPOOL_DIR"]
    control.stop()
    ended = Outbox(load({**env, "RANK": "5", "WORLD_SIZE": "8"}), root, QUICK)
    ended.put("metrics", [(b'{"key":"loss","step":1,"value":1,"ts":"2026-11-21T03:00:00Z"}', 1)])
    ended.close()
    control.start()
    with start() as run:
        assert run.flush()
    (body,) = control.bodies("metrics")
    assert body["rank"] == 5
