"""Delivery despite failures of the network and the control plane, and errors for refused reports."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from conftest import QUICK, Env, Start
from control import Control
from signalbox import IngestError, SignalboxError, SpoolError, UndeliveredError, transport
from signalbox.spool import Segment
from signalbox.transport import Reply, _wait


@pytest.mark.parametrize("fault", ["drop", "lose", "500", "502", "503", "504", "408", "429", "html"])
def test_transient_fault_neither_loses_nor_duplicates(
    control: Control, start: Start, fault: str
) -> None:
    control.script = deque([fault] * 4)
    with start() as run:
        run.running()
        for step in range(20):
            run.log({"a": step}, step=step)
    assert sorted(control.points()) == [("a", s, s) for s in range(20)]
    assert control.events() == ["running", "succeeded"]
    assert not control.conflicts and not control.gaps()
    if fault == "lose":
        assert control.repeats > 0


@pytest.mark.parametrize("code", transport.INCOMPLETE)
def test_body_that_arrived_incomplete_is_sent_again(control: Control, start: Start, tmp_path: Path, code: str) -> None:
    """The control plane does not refuse the report, although the status is 400."""
    file = tmp_path / "weights"
    file.write_bytes(b"w")
    for route in ("lifecycle", "metrics", "logs", "artifact", "put"):
        control.script_for[route].extend([f"400 {code}"] * 4)
    with start() as run:
        run.running()
        run.log({"a": 1}, step=1)
        run.text("line")
        run.artifact(file, kind="hf_export", format="x", step=1)
    assert control.points() == [("a", 1, 1)] and control.lines() == "line\n"
    assert control.events() == ["running", "succeeded"] and len(control.bodies("artifact")) == 1
    assert not control.conflicts and not control.gaps()


def test_control_plane_restart(control: Control, start: Start) -> None:
    run = start()
    run.running()
    control.stop()
    for step in range(100):
        run.log({"a": step}, step=step)
        run.text(f"line {step}")
    timer = threading.Timer(0.2, control.start)
    timer.start()
    run.succeeded()
    timer.join()
    assert len(control.points()) == 100 and control.events() == ["running", "succeeded"]
    run.finish()
    assert control.lines().count("\n") == 100
    assert not control.conflicts and not control.gaps()


def test_network_failure_warns_once(
    control: Control, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    control.script = deque(["drop", "500", "drop", "503"])
    with start() as run:
        run.running()
    printed = capsys.readouterr().err
    assert printed.count("signalbox:") == 1 and "reports are kept in" in printed


def test_retry_after_is_honoured(control: Control, start: Start) -> None:
    control.script = deque(["503"])
    control.retry_after = "1"
    with start() as run:
        began = time.monotonic()
        run.running()
        assert 1.0 <= time.monotonic() - began < 3.0


def test_retry_after_does_not_shorten_the_pause(control: Control, start: Start) -> None:
    slow = QUICK._replace(backoff_base=1e6, backoff_cap=1e6, settle_timeout=0.2)
    control.script = deque(["503"])
    run = start(policy=slow)
    with pytest.raises(UndeliveredError, match="503"):
        run.running()
    with pytest.raises(UndeliveredError):
        run.finish(timeout=0.1)
    assert control.requests == 1


def test_retry_after_formats() -> None:
    later = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 20))
    assert 15 < (_wait(later) or 0) <= 20
    assert [_wait(x) for x in ("7", "", "soon", "99999")] == [7.0, None, None, 300.0]


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422, 501, 302])
def test_refusal_raises_at_next_call_and_finish(
    control: Control, start: Start, status: int
) -> None:
    control.refuse["hparams"] = (status, [{"loc": ["body", "params"], "msg": "bad", "type": "x"}])
    run = start()
    run.hparams({"lr": 1})
    assert run.flush()
    with pytest.raises(IngestError, match="hparams: HTTP .*body.params: bad") as caught:
        run.log({"a": 1}, step=0)
    assert caught.value.status == status
    run.log({"a": 2}, step=1)
    with pytest.raises(IngestError):
        run.finish()
    assert control.points() == [("a", 0, 1), ("a", 1, 2)], "the report of the call that raised must be stored"


def test_refused_event_raises_in_its_call(control: Control, start: Start) -> None:
    control.refuse["lifecycle"] = (409, "lifecycle: the run is over")
    run = start()
    with pytest.raises(IngestError, match="the run is over"):
        run.running()
    with pytest.raises(IngestError):
        run.finish()


def test_refused_token_stops_delivery_and_keeps_reports(control: Control, env: Env, start: Start) -> None:
    env["SERVICE_JOB_TOKEN"] = "ing_revoked"
    run = start()
    run.log({"a": 1}, step=0)
    began = time.monotonic()
    with pytest.raises(IngestError, match="401"):
        run.running()
    for _ in range(2):
        with pytest.raises(IngestError, match="401"):
            run.log({"a": 1}, step=1)
    with pytest.raises(IngestError, match="401"):
        run.finish()
    assert time.monotonic() - began < 5 and not control.stored
    assert len(os.listdir(env["SERVICE_JOB_SPOOL_DIR"])) == 1


def test_refused_log_lines_do_not_raise(
    control: Control, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    control.refuse["logs"] = (422, "no")
    with start() as run:
        for i in range(5):
            run.text(f"line {i}")
            run.flush()
    assert control.events() == ["succeeded"]
    printed = capsys.readouterr().err
    assert printed.count("refused log lines") == 1
    assert "they are dropped" in printed and "sent again" not in printed


def test_reports_beyond_limit_of_run_do_not_raise(
    control: Control, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    control.refuse["metrics"] = (400, "too many points")
    control.refusal_code = "points_limit"
    with start() as run:
        for step in range(5):
            run.log({"a": 1}, step=step)
            run.flush()
    assert control.events() == ["succeeded"] and not control.points()
    printed = capsys.readouterr().err
    assert printed.count("stores no more of these reports") == 1
    assert "too many points" in printed and "they are dropped" in printed


def test_limit_of_run_is_stated_after_an_outage(
    control: Control, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    control.script = deque(["500"])
    with start() as run:
        run.log({"a": 1}, step=0)
        run.flush()
        control.refuse["metrics"] = (400, "too many points")
        control.refusal_code = "points_limit"
        run.log({"a": 1}, step=1)
    printed = capsys.readouterr().err
    assert printed.count("will be sent again") == 1
    assert printed.count("they are dropped") == 1


def test_failing_log_route_delays_no_other_stream(control: Control, start: Start, env: Env) -> None:
    control.script_for["logs"] = deque(["500"] * 10_000)
    with start() as run:
        run.text("line")
        run.running()
        run.log({"a": 1}, step=0)
    assert control.events() == ["running", "succeeded"] and control.points() == [("a", 0, 1)]
    assert os.listdir(env["SERVICE_JOB_SPOOL_DIR"]), "the log line must stay in the spool"


def test_text_never_raises(start: Start) -> None:
    run = start()
    run.text(object())  # type: ignore[arg-type]
    run.text("a\x00b\ud800")
    run.finish()
    run.text("after the end")


def test_failing_stream_does_not_stop_others(control: Control, start: Start) -> None:
    control.script_for["benchmark"] = deque(["500"] * 10_000)
    run = start()
    run.benchmark("sums", "accuracy", 0.5)
    run.log({"a": 1}, step=0)
    run.flush(0.3)
    assert control.points() == [("a", 0, 1)]
    with pytest.raises(UndeliveredError, match="1 report.*benchmark: HTTP 500"):
        run.finish(timeout=0.2)


def test_finish_is_bounded_and_names_the_spool(
    control: Control, start: Start, env: Env
) -> None:
    run = start()
    control.stop()
    run.log({"a": 1}, step=0)
    began = time.monotonic()
    with pytest.raises(UndeliveredError, match="python -m signalbox flush") as caught:
        run.finish(timeout=0.3)
    assert time.monotonic() - began < 2
    assert caught.value.records == 1 and caught.value.spool == env["SERVICE_JOB_SPOOL_DIR"]
    assert run.finish() == 0, "a second finish must do nothing"
    control.start()
    start().finish()
    assert control.points() == [("a", 0, 1)], "the next process of the run must deliver the report"


def test_finish_rejects_later_reports(start: Start) -> None:
    run = start()
    run.finish()
    with pytest.raises(SignalboxError, match="finished"):
        run.log({"a": 1}, step=0)


def test_on_error_warn_prints_errors(
    control: Control, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    control.refuse["hparams"] = (422, "no such key")
    run = start(on_error="warn")
    run.hparams({"lr": 1})
    run.running()
    assert "hparams: HTTP 422: no such key" in capsys.readouterr().err
    with pytest.raises(TypeError):
        run.log({"a": "text"}, step=0)
    control.stop()
    run.log({"a": 1}, step=0)
    assert run.finish(timeout=0.2) == 1
    assert "not delivered" in capsys.readouterr().err


def test_refusal_in_with_block_closes_run(control: Control, start: Start) -> None:
    control.refuse["lifecycle"] = (409, "over")
    with pytest.raises(IngestError):
        with start() as run:
            run.log({"a": 1}, step=0)
    assert control.points() == [("a", 0, 1)]
    with pytest.raises(SignalboxError, match="finished"):
        run.log({"a": 2}, step=1)


def test_threads_report_concurrently(control: Control, start: Start) -> None:
    with start() as run:

        def work(k: int) -> None:
            for step in range(200):
                run.log({f"k{k}": step}, step=step)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(control.points())) == len(control.points()) == 800
    for k in range(4):
        assert [s for key, s, _ in control.points() if key == f"k{k}"] == list(range(200))


def test_long_run_deletes_old_segments(control: Control, start: Start, env: Env) -> None:
    run = start(policy=QUICK._replace(segment_bytes=2000))
    for step in range(200):
        run.log({"a": step}, step=step)
    assert run.flush()
    run.running()
    (writer,) = os.listdir(env["SERVICE_JOB_SPOOL_DIR"])
    assert len(os.listdir(Path(env["SERVICE_JOB_SPOOL_DIR"]) / writer)) == 2, "only the lock and one segment must remain"
    run.finish()
    assert len(control.points()) == 200


def test_temporary_spool_folder_is_deleted(control: Control, env: Env, start: Start) -> None:
    del env["SERVICE_JOB_SPOOL_DIR"]
    run = start()
    root = run._sink.box.root  # type: ignore[attr-defined]
    run.log({"a": 1}, step=0)
    assert os.path.isdir(root) and os.stat(root).st_mode & 0o077 == 0
    run.finish()
    assert not os.path.exists(root)


def test_transient_statuses() -> None:
    again = [s for s in range(200, 600) if Reply(s, b"").transient]
    assert again == [408, 429, 500] + list(range(502, 600))


def test_sender_survives_unexpected_errors(
    control: Control, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, odd = transport.connection, [LookupError("unknown encoding"), MemoryError(), ValueError()]

    def connection(address: str, timeout: float) -> Any:
        if odd:
            raise odd.pop()
        return real(address, timeout)

    monkeypatch.setattr(transport, "connection", connection)
    with start() as run:
        run.log({"a": 1}, step=0)
    assert not odd and control.points() == [("a", 0, 1)] and control.events() == ["succeeded"]


def test_full_disk_loses_only_the_report_that_raises(
    control: Control, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start()
    run.log({"a": 0}, step=0)
    with monkeypatch.context() as full:
        full.setattr(Segment, "append", _no_space)
        with pytest.raises(SpoolError):
            run.log({"a": 1}, step=1)
        run.text("the loss of a log line raises no error")
    run.log({"a": 2}, step=2)
    run.succeeded()
    run.finish()
    assert control.points() == [("a", 0, 0), ("a", 2, 2)]
    assert not control.conflicts and not control.gaps()


def _no_space(segment: Segment, line: bytes) -> None:
    raise SpoolError("no space left")
