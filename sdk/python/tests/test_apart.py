"""A request with several reports that is refused: only the reports are lost that are refused alone, and each is stated once."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, List, Optional, Tuple

import pytest
from conftest import QUICK, Env, Start
from control import Control
from signalbox import IngestError, Run, SignalboxError
from signalbox.backlog import FOREVER, REFUSED_PATIENCE, Backlog
from signalbox.config import load
from signalbox.outbox import Outbox
from signalbox.policy import Policy
from signalbox.recover import adopt
from signalbox.spool import Spool
from test_control_signals import until

# The reports of a test share a request, because none is sent before the test waits for them.
LATE = QUICK._replace(linger=60.0)
PATIENCE = 60.0  # seconds; a test that passes does not wait so long


def settled(run: Run) -> List[IngestError]:
    """Wait until all reports are settled, and finish. Return the refusals."""
    assert run.flush(PATIENCE)
    found: List[IngestError] = []
    for call in [lambda: run.hparams({"a": 1})] * 9 + [lambda: run.finish(PATIENCE)]:
        try:
            call()
        except IngestError as err:
            found.append(err)
    return list({id(err): err for err in found}.values())  # finish may raise one again that a call has raised


def keyed(stream: str, body: Any, status: int, code: str) -> Optional[Tuple[int, str]]:
    """Refuse requests that contain a point with the key `bad`."""
    bad = stream in ("metrics", "hardware") and any(point["key"] == "bad" for point in body["points"])
    return (status, code) if bad else None


@pytest.mark.parametrize("refusal", ["422 ", "400 metric_keys", "409 ", "404 ", "403 "])
@pytest.mark.parametrize("bad", [[0], [199], [70, 71, 150]])
def test_only_refused_points_are_lost(control: Control, start: Start, refusal: str, bad: List[int]) -> None:
    control.watermarks = True  # so that the token counts as valid after 403
    status, _, code = refusal.partition(" ")
    control.judge = lambda stream, body: keyed(stream, body, int(status), code)
    run = start(LATE)
    for step in range(200):
        run.log({"bad" if step in bad else "good": step}, step=step)
    raised = settled(run)
    assert control.points() == [("good", step, step) for step in range(200) if step not in bad]
    assert [err.status for err in raised] == [int(status)] * len(bad), "each refused report is stated once"
    most = 2 * len(bad) * (1 + math.log2(200))
    assert control.requests < (3 if status == "403" else 1) * most + 20
    assert not control.conflicts


def test_only_refused_samples_of_hardware_are_lost(control: Control, start: Start) -> None:
    control.judge = lambda stream, body: keyed(stream, body, 422, "")
    run = start(LATE)
    for k in range(5):
        run.hardware([{"node": "n", "key": "bad" if k == 2 else "util", "value": k}])
    assert len(settled(run)) == 1
    assert [p["value"] for body in control.bodies("hardware") for p in body["points"]] == [0, 1, 3, 4]


def test_only_refused_log_lines_are_lost(control: Control, start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    def judge(stream: str, body: Any) -> Optional[Tuple[int, str]]:
        return (406, "") if stream == "logs" and any("DROP TABLE" in chunk for chunk in body["chunks"]) else None

    control.judge = judge
    with start(LATE) as run:
        for k in range(100):
            run.text(f"line {k}" if k % 50 else "DROP TABLE")
    assert control.lines().split() == [word for k in range(100) if k % 50 for word in ("line", str(k))]
    assert control.events() == ["succeeded"], "the event waits for the lines"
    assert capsys.readouterr().err.count("refused log lines") == 1


def test_request_that_is_too_large_is_sent_in_parts(control: Control, start: Start) -> None:
    control.judge = lambda stream, body: (413, "") if stream == "metrics" and len(body["points"]) > 30 else None
    with start(LATE) as run:
        for step in range(300):
            run.log({"a": step}, step=step)
    assert control.points() == [("a", step, step) for step in range(300)]


@pytest.mark.parametrize("refusal", ["409 run_closed", "409 attempt_replaced", "400 points_limit", "501 ", "301 "])
def test_refusal_of_all_reports_is_not_repeated(control: Control, start: Start, refusal: str) -> None:
    status, _, code = refusal.partition(" ")
    control.judge = lambda stream, body: (int(status), code) if stream == "metrics" else None
    run = start(LATE)
    for step in range(100):
        run.log({"a": step}, step=step)
    assert len(settled(run)) == (0 if code == "points_limit" else 1)
    assert control.refusals == ["metrics"]


def test_all_reports_refused(control: Control, start: Start) -> None:
    """Each report is sent about once alone, and each is stated."""
    control.judge = lambda stream, body: (422, "") if stream == "metrics" else None
    run = start(LATE)
    for step in range(64):
        run.log({"a": step}, step=step)
    assert run.flush(PATIENCE)
    assert 64 <= len(control.refusals) <= 64 + 7
    stated: List[SignalboxError] = []
    while True:
        try:
            run.hparams({"a": 1})
            break
        except IngestError as err:
            stated.append(err)
    with pytest.raises(IngestError):  # finish raises the first one again
        run.finish()
    assert len({id(err) for err in stated}) == 64


def test_next_process_continues_to_take_apart(control: Control, start: Start, env: Env) -> None:
    """A process ends between two parts of a refused request. No report is lost, and none is sent twice."""
    control.judge = lambda stream, body: keyed(stream, body, 422, "")
    root = env["SERVICE_JOB_SPOOL_DIR"]
    ended = Outbox(load(env), root, LATE._replace(backoff_base=60.0, backoff_cap=60.0, request_timeout=5.0))
    points = [b'{"key":"%s","step":%d,"value":1,"ts":"2026-11-21T03:00:00Z"}' % (b"bad" if k == 9 else b"good", k) for k in range(16)]
    # The second request, which contains the first half, is stored, but the response is lost.
    control.script_for["metrics"].extend(["", "lose", "drop"])
    ended.put("metrics", [(point, 1) for point in points])
    ended.flush(0.0)
    until(lambda: ended.outages > 0)
    ended.close()
    run = start()
    assert len(settled(run)) == 1
    assert control.points() == [("good", k, 1) for k in range(16) if k != 9]
    assert control.repeats == 1 and not control.conflicts and os.listdir(root) == []


POLICY = Policy(linger=0.5)


@pytest.fixture
def backlog(tmp_path: Path) -> Backlog:
    """An empty backlog."""
    return Backlog(Spool.create(str(tmp_path), "run_1", 1 << 20), POLICY)


def test_recovered_spool_has_parts_in_order(backlog: Backlog, tmp_path: Path) -> None:
    lane = backlog.lanes["metrics"]
    for k in range(8):
        backlog.put("metrics", 1, b"%d" % k, 0.0)
    backlog.plan(lane, 1.0)
    backlog.take_apart(lane)  # 4 and 4
    backlog.plan(lane, 1.0)
    backlog.take_apart(lane)  # 2, and the others
    backlog.plan(lane, 1.0)
    backlog.answered(lane, 200)
    first = backlog.plan(lane, 1.0)
    assert [r.n for r in first.records] == [2, 3, 4, 5], "after a success, the requests grow again"
    backlog.spool.close(remove=False)
    left = adopt(str(tmp_path), backlog.spool.writer, "run_1", 1 << 20)
    assert left is not None and left.damaged == 0
    assert [(seq, [r.n for r in records]) for _, seq, records in left.batches] == [(4, [2, 3, 4, 5])]
    assert [r.n for r in left.pending] == [6, 7]


def test_full_disk_keeps_refused_request(backlog: Backlog, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError("no space left")

    lane = backlog.lanes["metrics"]
    for _ in range(2):
        backlog.put("metrics", 1, b"{}", 0.0)
    batch = backlog.plan(lane, 1.0)
    with monkeypatch.context() as broken, pytest.raises(OSError):
        broken.setattr(backlog.spool, "undo", full)
        backlog.take_apart(lane)
    assert backlog.plan(lane, 1.0) is batch and lane.most == FOREVER


def test_stream_whose_reports_are_all_refused_comes_last(backlog: Backlog) -> None:
    logs = backlog.lanes["logs"]
    for _ in range(REFUSED_PATIENCE):
        assert not logs.stuck
        backlog.put("logs", 1, b'"a"', 0.0)
        backlog.plan(logs, 1.0)
        backlog.answered(logs, 422)
    assert logs.stuck
    backlog.put("logs", 1, b'"a"', 0.0)
    backlog.put("metrics", 1, b"{}", 0.0)
    backlog.put("lifecycle", 1, b"{}", 0.0)
    order = []
    while (lane := backlog.next_lane(9.0, True)) is not None:
        order.append(backlog.plan(lane, 9.0).stream)
        backlog.answered(lane, 200)
    assert order == ["metrics", "lifecycle", "logs"]
    assert not logs.stuck and logs.most == FOREVER
