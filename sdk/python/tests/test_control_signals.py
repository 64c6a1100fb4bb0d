"""Signals of the control plane: checkpoint, pause, stop."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import signalbox
from conftest import QUICK, Env, Start
from control import Control
from signalbox import IngestError, Paused, Signal

Until = Callable[[Callable[[], bool]], None]


def until(holds: Callable[[], bool]) -> None:
    """Wait until holds() returns True, as an effect of the run's waiting thread."""
    for _ in range(2000):
        if holds():
            return
        threading.Event().wait(0.005)
    raise AssertionError("timed out waiting for a condition")


def saved(folder: Path) -> Path:
    path = folder / "state.npz"
    path.write_bytes(b"the state")
    return path


def test_no_signal_request_without_check(control: Control, start: Start) -> None:
    with start() as run:
        run.log({"a": 1}, step=0)
        run.flush()
    assert control.waits == []


def test_no_signal_by_default(control: Control, start: Start) -> None:
    with start() as run:
        assert not run.should_checkpoint() and not run.should_stop()
        until(lambda: len(control.waits) > 1)  # when a wait ends, the next one begins
        assert not run.should_checkpoint() and not run.should_stop()
    assert control.waits[0] == {"run_id": ["run_1"], "wait": ["1"]}
    assert control.events() == ["succeeded"]


def test_pause_saves_checkpoint_and_exits_zero(control: Control, start: Start, tmp_path: Path) -> None:
    with pytest.raises(Paused) as ended:
        with start() as run:
            run.running()
            assert not run.should_checkpoint()
            control.ask("checkpoint", "sig_1", then=("pause", "sig_1.saved"))
            until(run.should_checkpoint)
            run.log({"a": 1}, step=6)
            run.checkpoint(saved(tmp_path), format="npz", step=7)
    assert ended.value.code == 0
    assert control.acks == [{"run_id": "run_1", "id": "sig_1"}]
    artifact = control.bodies("artifact")[0]
    assert (artifact["kind"], artifact["format"], artifact["step"]) == ("checkpoint", "npz", 7)
    assert control.events() == ["running"], "a paused run must not report its end"
    assert control.points() == [("a", 6, 1.0)], "earlier reports must be delivered"
    assert control.acked_after == 1, "the checkpoint must be stored before the signal is acknowledged"


def test_checkpoint_signal_without_pause(control: Control, start: Start, tmp_path: Path) -> None:
    with start() as run:
        control.ask("checkpoint", "sig_1", then=("none", ""))
        run.should_checkpoint()
        until(run.should_checkpoint)
        run.checkpoint(saved(tmp_path), format="npz", step=7)
        assert not run.should_checkpoint(), "an acknowledged signal must not be returned again"
        assert run.checkpoint(saved(tmp_path), format="npz", step=8), "a checkpoint without a request must be stored too"
    assert len(control.acks) == 1
    assert control.events() == ["succeeded"]


def test_stop_signal(control: Control, start: Start) -> None:
    with start() as run:
        run.should_stop()
        control.ask("stop", "stop.1")
        until(run.should_stop)
        assert not run.should_checkpoint()


def test_pause_when_training_exits_by_itself(control: Control, start: Start, tmp_path: Path) -> None:
    with start() as run:
        run.should_stop()
        control.ask("pause", "sig_1.saved")
        until(run.should_stop)
    assert control.events() == [], "the end of a paused attempt must not end the run"


def test_callback_gets_each_signal_once(control: Control, start: Start) -> None:
    heard: List[Signal] = []
    with start() as run:
        run.on_signal(heard.append)
        control.ask("checkpoint", "sig_1")
        until(lambda: len(heard) == 1)
        control.ask("stop", "stop.1")
        until(lambda: len(heard) == 2)
        seen = len(control.waits)
        until(lambda: len(control.waits) > seen + 1)
    assert [(s.signal, s.id) for s in heard] == [("checkpoint", "sig_1"), ("stop", "stop.1")]


@pytest.mark.parametrize("fault", ["drop", "503", "html"])
def test_signal_survives_network_faults(control: Control, start: Start, tmp_path: Path, fault: str) -> None:
    control.script_for["signals"].extend([fault] * 3)
    control.script_for["signals_ack"].extend([fault] * 3)
    control.ask("checkpoint", "sig_1", then=("pause", "sig_1.saved"))
    with pytest.raises(Paused):
        with start() as run:
            until(run.should_checkpoint)
            run.checkpoint(saved(tmp_path), format="npz", step=7)


@pytest.mark.parametrize("status", [401, 404, 409])
def test_signal_polling_ends_on_permanent_error(control: Control, start: Start, status: int) -> None:
    control.script_for["signals"].append(str(status))
    with start() as run:
        assert not run.should_checkpoint()
        until(lambda: not any(t.name == "signalbox-signals" for t in threading.enumerate()))
        assert not run.should_checkpoint()
    assert control.waits == []
    assert control.events() == ["succeeded"]


def test_refused_ack_raises(control: Control, start: Start, tmp_path: Path) -> None:
    control.ask("checkpoint", "sig_1")
    run = start()
    until(run.should_checkpoint)
    control.script_for["signals_ack"].append("409")
    with pytest.raises(IngestError, match="signals/ack: HTTP 409"):
        run.checkpoint(saved(tmp_path), format="npz", step=7)
    run.finish()


def test_resume_from(env: Env) -> None:
    run = signalbox.init(policy=QUICK, env=env, handle_sigterm=False)
    assert run.resume_from is None
    run.finish()
    again = signalbox.init(
        policy=QUICK, env={**env, "SERVICE_JOB_RESUME_FROM": "/inputs/resume/a.npz"}, handle_sigterm=False
    )
    assert again.resume_from == "/inputs/resume/a.npz"
    again.finish()


def test_offline_has_no_signals(tmp_path: Path) -> None:
    env = {"SERVICE_JOB_ENABLED": "0", "SERVICE_JOB_DIR": str(tmp_path)}
    with signalbox.init(env=env) as run:
        run.on_signal(lambda signal: None)
        assert not run.should_checkpoint() and not run.should_stop()
        assert run.checkpoint(saved(tmp_path), format="npz", step=1)


def test_waiting_thread_does_not_delay_exit(env: Env, control: Control) -> None:
    code = "import signalbox\nwith signalbox.init() as run: run.should_checkpoint()\n"
    source = str(Path(signalbox.__file__).parent.parent)
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**env, "PYTHONPATH": source}, timeout=60, capture_output=True
    )
    assert ended.returncode == 0, ended.stderr
