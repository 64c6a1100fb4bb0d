"""The specification's rules for reporters: errors of all routes except the log raise, and each key has one body."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Callable, Dict, List

import pytest
import signalbox
from conftest import QUICK, Env, Start
from control import Control
from signalbox import ConfigError, IngestError, Run

Call = Callable[[Run], object]

CALLS: Dict[str, Call] = {
    "lifecycle": lambda run: run.running(),
    "metrics": lambda run: run.log({"a": 1}, step=-1),
    "hparams": lambda run: run.hparams({"a": {"b": 1}}),
    "validation": lambda run: run.validation(step=1, samples=[{"user": "u"}]),
    "hardware": lambda run: run.hardware([{"node": "n", "key": "util", "value": 1}]),
    "environment": lambda run: run.environment(),
    "environment_nodes": lambda run: run.nodes([{"rank": 0, "host": "a"}]),
    "benchmark": lambda run: run.benchmark("sums", "accuracy", 0.5),
}
ALL: Dict[str, Call] = {**CALLS, "logs": lambda run: run.text("line")}


@pytest.mark.parametrize("flag", [None, "", "2", "-1", "true", "1.0", "0x1", "\u0661"])
def test_invalid_enabled_raises_before_side_effects(
    control: Control, env: Env, monkeypatch: pytest.MonkeyPatch, flag: "str | None"
) -> None:
    for name in list(os.environ):
        if name.startswith("SERVICE_JOB_"):
            monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SERVICE_JOB_ENABLED")
    if flag is not None:
        monkeypatch.setenv("SERVICE_JOB_ENABLED", flag)
    for on_error in ("raise", "warn"):  # a configuration error always raises
        with pytest.raises(ConfigError, match="SERVICE_JOB_ENABLED"):
            signalbox.init(on_error=on_error)
    assert not os.path.exists(env["SERVICE_JOB_SPOOL_DIR"]) and control.connections == 0


@pytest.mark.parametrize("stream", sorted(CALLS))
@pytest.mark.parametrize("status", [400, 409, 422])
def test_every_route_except_log_raises(
    control: Control, start: Start, stream: str, status: int
) -> None:
    control.refuse[stream] = (status, "refused on purpose")
    run = start()
    with pytest.raises(IngestError, match=f"{stream}: HTTP {status}: refused on purpose"):
        CALLS[stream](run)
        run.flush()
        run.finish()


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422, 501])
def test_log_refusal_does_not_raise(control: Control, start: Start, status: int) -> None:
    control.refuse["logs"] = (status, "refused on purpose")
    with start() as run:
        for line in range(3):
            run.text(f"line {line}")
            assert run.flush()
        run.log({"a": 1}, step=0)
    assert control.points() == [("a", 0, 1)] and control.events() == ["succeeded"]


def test_log_spool_error_does_not_raise(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start()
    with monkeypatch.context() as broken:
        broken.setattr(run, "_sink", None)
        run.text("the sink is missing")
        with pytest.raises(AttributeError):
            run.log({"a": 1}, step=0)
    run.finish()


def test_eof_is_never_sent(control: Control, start: Start) -> None:
    for end in ("succeeded", "failed"):
        with start() as run:
            run.text("line")
            getattr(run, end)()
    start().finish()
    bodies = control.bodies("logs")
    assert bodies and all(set(body) == {"run_id", "chunks"} for body in bodies)
    assert not hasattr(signalbox.Run, "eof"), "the API must have no method for it"


@pytest.mark.parametrize("stream", sorted(ALL))
def test_lost_response_is_retried_with_same_key(
    control: Control, start: Start, stream: str
) -> None:
    control.script_for[stream] = deque(["lose", "lose"])
    with start() as run:
        ALL[stream](run)
    keys = _keys(control)
    assert control.repeats == 2 and not control.conflicts and not control.gaps()
    assert len(control.bodies(stream)) == (2 if stream == "lifecycle" else 1)
    assert max(keys.count(key) for key in set(keys)) >= 3


ODD: Dict[str, Call] = {
    "hparams": lambda run: run.hparams({"name": "caf\u00e9 \ud800", "nan": float("nan"), "b": [1e-7]}),
    "metrics": lambda run: run.log({"a": 0.1, "b": float("inf")}, step=1 << 62),
    "logs": lambda run: run.text("a line\x00 and \U0001f600"),
}


@pytest.mark.parametrize("stream", sorted(ODD))
def test_next_process_repeats_identical_request(
    control: Control, start: Start, stream: str
) -> None:
    control.script = deque(["lose"] + ["drop"] * 10_000)
    run = start(on_error="warn")
    ODD[stream](run)
    while not control.stored:  # until it is stored; the response is lost
        run.flush(0.01)
    control.stop()
    run.finish(timeout=0.05)
    ((key, body),) = control.stored.items()
    assert key[0] == stream and control.repeats == 0
    control.script.clear()
    control.start()
    start().finish()
    assert control.repeats == 1 and not control.conflicts, "the body must be the same for the same key"
    assert control.stored == {key: body}


def test_key_conflict_raises_except_in_log(
    control: Control, start: Start, env: Env
) -> None:
    run = start()
    run.running()  # creates the spool, whose folder has the name of the writer
    (writer,) = (name for name in os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) if name[0] != ".")
    other = b'{"run_id":"run_1","points":[],"chunks":[]}'
    control.stored["metrics", writer, 1] = control.stored["logs", writer, 1] = other
    run.text("line")
    assert run.flush()
    run.log({"a": 1}, step=0)
    assert run.flush()
    with pytest.raises(IngestError, match="metrics: HTTP 409: another body with this key"):
        run.finish()
    assert {stream for stream, _, _ in control.conflicts} == {"metrics", "logs"}


def _keys(control: Control) -> List[str]:
    return [h["Idempotency-Key"] for h in control.headers]


def test_offline_accepts_all_calls_and_writes_nothing(tmp_path: Path) -> None:
    run = signalbox.init(env={"SERVICE_JOB_ENABLED": "0", "SERVICE_JOB_TOKEN": "not\nchecked"})
    for call in CALLS.values():
        call(run)
    run.text("line")
    assert run.flush() and run.finish() == 0 and list(tmp_path.iterdir()) == []
