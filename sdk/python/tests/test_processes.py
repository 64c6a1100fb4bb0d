"""Signals, forks, exits and the flush command, tested with real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any, Dict, List

import pytest
import signalbox.__main__ as command
from conftest import QUICK, Env, Start
from control import Control
from signalbox.capture import _Screen, fold, overwritten, pause
from signalbox.config import load
from signalbox.control_signals import ControlSignals
from signalbox.policy import Policy
from signalbox.run import Run
from signalbox.sinks import Offline

HERE = Path(__file__).parent


def spawn(env: Env, *words: str) -> "subprocess.Popen[str]":
    paths = os.pathsep.join((str(HERE.parent / "src"), str(HERE)))
    return subprocess.Popen(
        [sys.executable, str(HERE / "child.py"), *words],
        env={**os.environ, **env, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(child: "subprocess.Popen[str]") -> Any:
    out, err = child.communicate(timeout=20)
    return child.returncode, out, err


def test_sigterm_flushes_and_then_ends_the_process(control: Control, env: Env) -> None:
    child = spawn(env, "term", "20")
    assert child.stdout and child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGTERM)
    code, _, err = ended(child)
    assert code == -signal.SIGTERM, err
    assert control.points() == [("a", 0, 1)]


def test_sigterm_handler_of_training_code_still_runs(control: Control, env: Env) -> None:
    child = spawn(env, "term_own", "20")
    assert child.stdout and child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGTERM)
    code, out, err = ended(child)
    assert (code, out) == (7, "own handler\n"), err
    assert control.points() == [("a", 0, 1)] and control.events() == ["failed"]


def test_second_sigterm_ends_wait(control: Control, env: Env) -> None:
    child = spawn(env, "term", "20")
    assert child.stdout and child.stdout.readline() == "ready\n"
    control.stop()
    child.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.3)
    child.send_signal(signal.SIGTERM)
    assert child.wait(2) == -signal.SIGTERM
    child.communicate()


def test_exit_without_finish_delivers(control: Control, env: Env) -> None:
    code, _, err = ended(spawn(env, "forgot", "5"))
    assert code == 0, err
    assert control.points() == [("a", 0, 1)]
    assert os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) == []


def test_exit_without_finish_or_network_warns(control: Control, env: Env) -> None:
    control.stop()
    code, _, err = ended(spawn(env, "forgot", "0.2"))
    assert code == 0 and "1 report(s) were not delivered" in err


def test_forked_workers_report_under_their_own_writers(control: Control, env: Env) -> None:
    code, _, err = ended(spawn(env, "forks", "4"))
    assert code == 0, err
    points = control.points()
    assert len(points) == len(set(points)) == 5 + 4 * 20
    writers = {writer for stream, writer, _ in control.stored if stream == "metrics"}
    assert len(writers) == 5 and not control.gaps() and not control.conflicts
    assert control.events() == ["succeeded"] and os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_captured_output_goes_to_log_and_terminal(control: Control, env: Env, unbuffered: str) -> None:
    env["PYTHONUNBUFFERED"] = unbuffered
    code, out, err = ended(spawn(env, "capture"))
    assert code == 0, err
    # In text mode, Popen converts \r to \n.
    assert out == "from print\nfrom child\nstep 1\nstep 2\nstep 3\ncaf\u00e9 no newline"
    assert err == "from stderr\n"
    assert control.order[-1][0] == "lifecycle", "the report that ends the run must be the last one"
    assert sorted(control.screen()) == [
        "caf\u00e9 no newline",
        "from child",
        "from print",
        "from stderr",
        "step 3",
    ]


def test_unfinished_line_is_shown_and_replaced(control: Control, env: Env) -> None:
    began = time.monotonic()
    child = spawn(env, "capture_bar")
    while control.lines().count("\rEpoch 1: ") < 3 or "reported" not in control.lines():
        assert child.poll() is None and time.monotonic() - began < 60
        time.sleep(0.02)
    code, out, err = ended(child)
    took = time.monotonic() - began
    assert code == 0, err
    assert err.count("Epoch 1:") > 20, "the terminal gets every update"
    most = next(n for n in range(10_000) if sum(pause(QUICK, k) for k in range(n + 1)) > took)
    assert control.lines().count("Epoch 1:") <= most + 1, "the log gets few of them, and the last one"
    *lines, last = control.screen()
    assert sorted(lines) == ["beside", "reported"] and last == "Epoch 1: done"


def test_other_ranks_show_finished_lines_only(control: Control, env: Env) -> None:
    child = spawn({**env, "RANK": "1", "WORLD_SIZE": "2"}, "capture_bar")
    while "reported" not in control.lines():  # longer than the pause after which rank 0 shows an unfinished line
        assert child.poll() is None
        time.sleep(0.02)
    code, _, err = ended(child)
    assert code == 0, err
    assert control.lines().count("Epoch 1:") == 1 and control.screen()[-1] == "Epoch 1: done"


def test_interval_of_an_unfinished_line_grows() -> None:
    pauses = [pause(Policy(), shown) for shown in range(1000)]
    assert pauses[:3] == [3.0, 4.5, 6.75] and set(pauses[3:]) == {10.0}


def test_forked_child_writes_to_log(control: Control, env: Env) -> None:
    code, _, err = ended(spawn(env, "capture_fork"))
    assert code == 0, err
    assert sorted(control.screen()) == ["failed: on purpose", "from child", "from parent"]


@pytest.mark.parametrize("held", ["offline", "signals", "run", "log"])
def test_forked_child_has_free_locks(env: Env, held: str) -> None:
    """A thread of the parent holds a lock during the fork. It does not exist in the child, so it never releases it."""
    things: Dict[str, Any] = {
        "offline": Offline(load({"SERVICE_JOB_ENABLED": "0"})),
        "signals": ControlSignals(load(env), QUICK),
        "run": Run(Offline(load({"SERVICE_JOB_ENABLED": "0"})), QUICK, "raise"),
        "log": _Screen(lambda text: None),
    }
    lock = things[held]._lock
    with lock:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if things[held]._lock.acquire(blocking=False) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_line_of_a_long_progress_bar_stays_one() -> None:
    rest = ""
    for n in range(10_000):
        rest = overwritten(rest + f"\rstep {n}")
        assert len(rest) < 20
    assert fold(rest) == "step 9999"
    assert overwritten("a\r") == "a\r" and overwritten("a\rb\r\r") == "b\r" and overwritten("ab") == "ab"


def test_notice_is_one_write() -> None:
    writes, stderr = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with writes:
        with stderr:
            code = "from signalbox.notices import notice; notice('refused'); notice('kept')"
            environ = {**os.environ, "PYTHONPATH": str(HERE.parent / "src"), "PYTHONUNBUFFERED": "1"}
            subprocess.run([sys.executable, "-c", code], env=environ, stderr=stderr.fileno(), check=True)
        writes.setblocking(False)
        got = []
        with contextlib.suppress(BlockingIOError):
            while True:
                got.append(writes.recv(100))
    assert [line for line in got if line] == [b"signalbox: refused\n", b"signalbox: kept\n"]


def test_output_flood_with_failing_network_does_not_deadlock(control: Control, env: Env) -> None:
    control.script = deque(["drop", "500"] * 20)
    code, out, _ = ended(spawn(env, "capture_flood", "1500"))
    assert code == 0 and len(out.splitlines()) == 1500
    assert len(control.lines().splitlines()) >= 1500 and len(control.points()) == 1500
    assert not control.conflicts and not control.gaps()


def flush(monkeypatch: pytest.MonkeyPatch, env: Env, *words: str) -> int:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return command.main(["flush", *words], QUICK)


def strand(control: Control, start: Start, count: int) -> None:
    """Leave `count` reports of an ended process in the spool."""
    run = start(on_error="warn")
    control.stop()
    for step in range(count):
        run.log({"a": step}, step=step)
    assert run.finish(timeout=0.05) == count
    control.start()


def test_flush_delivers_reports_of_dead_process(
    control: Control, start: Start, env: Env, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    strand(control, start, 30)
    root = env["SERVICE_JOB_SPOOL_DIR"]
    assert flush(monkeypatch, env, root) == 0
    assert "30 of 30 report(s) delivered" in capsys.readouterr().out
    assert len(control.points()) == 30 and os.listdir(root) == []
    assert flush(monkeypatch, env, root) == 0, "a second flush must find nothing to deliver"
    assert len(control.points()) == 30 and control.repeats == 0


def test_flush_reports_undelivered(
    control: Control, start: Start, env: Env, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    strand(control, start, 3)
    root = env["SERVICE_JOB_SPOOL_DIR"]
    assert flush(monkeypatch, {**env, "SERVICE_JOB_RUN_ID": "run_2"}, root) == 1
    assert "belongs to another run" in capsys.readouterr().err
    control.stop()
    assert flush(monkeypatch, env, root, "--timeout", "0.1") == 1
    assert "0 of 3" in capsys.readouterr().out
    control.start()
    control.refuse["metrics"] = (422, "bad")
    assert flush(monkeypatch, env, root) == 1
    assert "refused: metrics: HTTP 422: bad" in capsys.readouterr().err


def test_flush_does_not_count_dropped_reports(
    control: Control, start: Start, env: Env, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    strand(control, start, 3)
    control.refuse["metrics"] = (400, "too many points")
    control.refusal_code = "points_limit"
    assert flush(monkeypatch, env, env["SERVICE_JOB_SPOOL_DIR"]) == 1
    printed = capsys.readouterr()
    assert "0 of 3 report(s) delivered" in printed.out and "they are dropped" in printed.err


@pytest.mark.parametrize("missing", ["SERVICE_JOB_ENABLED", "SERVICE_JOB_TOKEN", "dir"])
def test_flush_with_invalid_configuration_exits_with_2(
    env: Env, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    monkeypatch.delenv(missing, raising=False)
    env.pop(missing, None)
    folder = str(tmp_path / "absent") if missing == "dir" else str(tmp_path)
    assert flush(monkeypatch, env, folder) == 2


def test_watermark_prevents_repeats(
    control: Control, start: Start, env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.watermarks = True
    run = start(on_error="warn")
    assert run.flush(10)
    control.script = deque(["lose"] + ["drop"] * 10_000)
    run.log({"a": 1}, step=0)
    while not control.points():  # until it is stored; the response is lost, so the spool does not record the delivery
        run.flush(0.001)
    control.stop()
    run.finish(timeout=0.05)
    control.start()
    control.script.clear()
    assert flush(monkeypatch, env, env["SERVICE_JOB_SPOOL_DIR"]) == 0
    assert control.asked > 0 and control.repeats == 0 and control.points() == [("a", 0, 1)]


def test_fork_has_complete_modules() -> None:
    """All modules are imported before the sender starts: a fork during an import would break the child."""
    code = (
        "import sys, signalbox.outbox as o, signalbox.sender as s, signalbox.config as c\n"
        "s.Sender.run = lambda self: None\n"
        "box = o.Outbox(c.load(__import__('os').environ), sys.argv[1], o.Policy())\n"
        "box.open()\n"
        "print([m in sys.modules for m in ('http.client', 'encodings.idna', 'ssl')])\n"
    )
    env = {
        **os.environ,
        "PYTHONPATH": str(HERE.parent / "src"),
        "SERVICE_JOB_ENABLED": "1",
        "SERVICE_JOB_ENDPOINT": "http://127.0.0.1:9/api/ingest",
        "SERVICE_JOB_RUN_ID": "run_1",
        "SERVICE_JOB_TOKEN": "ing_test",
    }
    with tempfile.TemporaryDirectory() as root:
        words: List[str] = [sys.executable, "-c", code, root]
        assert subprocess.check_output(words, env=env, text=True).strip() == "[True, True, True]"


def test_import_loads_no_network_or_framework() -> None:
    heavy = ("http.client", "ssl", "socket", "tarfile", "email", "logging", "asyncio", "subprocess")
    code = f"import sys, signalbox; print([m for m in {heavy!r} if m in sys.modules])"
    env = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    words: List[str] = [sys.executable, "-S", "-c", code]
    assert subprocess.check_output(words, env=env, text=True).strip() == "[]"
