"""When reports are sent: batching delay, limits, order, and events that wait for all earlier reports."""

from __future__ import annotations

from pathlib import Path
from typing import List, Tuple

import pytest
from signalbox.backlog import FOREVER, LOG_PATIENCE, Backlog
from signalbox.policy import Policy, backoff, draw
from signalbox.spool import Spool

POLICY = Policy(linger=0.5, max_bytes=100, max_points=10)


@pytest.fixture
def backlog(tmp_path: Path) -> Backlog:
    """An empty backlog with small limits."""
    return Backlog(Spool.create(str(tmp_path), "run_1", 1 << 20), POLICY)


def drain(backlog: Backlog, now: float) -> List[Tuple[str, int, int]]:
    """Settle all requests that are due. Return (stream, seq, number of reports) of each, in order."""
    sent: List[Tuple[str, int, int]] = []
    while True:
        lane = backlog.next_lane(now, True)
        if lane is None:
            return sent
        batch = backlog.plan(lane, now)
        sent.append((batch.stream, batch.seq, len(batch.records)))
        backlog.answered(lane, 200)


def test_reports_linger_for_bounded_time(backlog: Backlog) -> None:
    for at in (10.0, 10.2, 10.4):
        backlog.put("metrics", 1, b"{}", at)
    assert drain(backlog, 10.49) == [] and backlog.wake_at(True) == 10.5
    assert drain(backlog, 10.5) == [("metrics", 1, 3)]
    assert backlog.wake_at(True) == FOREVER and backlog.owed() == 0


def test_full_request_is_sent_at_once(backlog: Backlog) -> None:
    for _ in range(3):
        backlog.put("metrics", 4, b"{}", 10.0)
    assert drain(backlog, 10.0) == [("metrics", 1, 2)], "the third report would exceed the limit of 10 points"
    for _ in range(2):
        backlog.put("logs", 1, b'"' + b"x" * 58 + b'"', 10.0)
    assert drain(backlog, 10.0) == [("logs", 1, 1)]


def test_oversized_report_is_sent(backlog: Backlog) -> None:
    backlog.put("metrics", 50, b"x" * 500, 10.0)
    assert drain(backlog, 10.0) == [("metrics", 1, 1)]


def test_streams_with_one_report_per_request(backlog: Backlog) -> None:
    for _ in range(3):
        backlog.put("hparams", 1, b"{}", 10.0)
    assert drain(backlog, 10.0) == [("hparams", 1, 1), ("hparams", 2, 1), ("hparams", 3, 1)]


def test_event_is_urgent_and_sent_last(backlog: Backlog) -> None:
    backlog.put("logs", 1, b'"a"', 10.0)
    backlog.put("metrics", 1, b"{}", 10.0)
    backlog.put("lifecycle", 1, b"{}", 10.0)
    backlog.put("metrics", 1, b"{}", 10.0)
    sent = drain(backlog, 10.0)
    assert [s for s, _, _ in sent] == ["logs", "metrics", "lifecycle"]
    assert sent[1] == ("metrics", 1, 2), "the request must also contain the later report of its stream"


def test_event_waits_for_failing_stream(backlog: Backlog) -> None:
    backlog.put("metrics", 1, b"{}", 10.0)
    backlog.put("lifecycle", 1, b"{}", 10.0)
    lane = backlog.lanes["metrics"]
    lane.failures, lane.not_before = 50, 11.0
    assert drain(backlog, 10.0) == [] and backlog.wake_at(True) == 11.0
    assert [s for s, _, _ in drain(backlog, 11.0)] == ["metrics", "lifecycle"]


def test_event_does_not_wait_for_failing_log(backlog: Backlog) -> None:
    backlog.put("logs", 1, b'"a"', 10.0)
    backlog.put("lifecycle", 1, b"{}", 10.0)
    lane = backlog.lanes["logs"]
    lane.failures, lane.not_before = LOG_PATIENCE - 1, 11.0
    assert drain(backlog, 10.0) == []
    lane.failures = LOG_PATIENCE
    assert drain(backlog, 10.0) == [("lifecycle", 1, 1)]
    assert backlog.owed() == 1 and backlog.owed(logs=False) == 0
    assert backlog.oldest(with_stuck=False) == FOREVER and backlog.oldest() == 0


def test_event_waits_for_earlier_writers(backlog: Backlog) -> None:
    backlog.put("lifecycle", 1, b"{}", 10.0)
    assert backlog.next_lane(10.0, earlier_done=False) is None
    assert backlog.wake_at(earlier_done=False) == FOREVER
    assert backlog.next_lane(10.0, earlier_done=True) is backlog.lanes["lifecycle"]


def test_request_keeps_key_and_body_over_retries(backlog: Backlog) -> None:
    backlog.put("metrics", 1, b'{"a":1}', 10.0)
    lane = backlog.lanes["metrics"]
    first = backlog.plan(lane, 11.0)
    key, body = backlog.key(first), backlog.body(first)
    backlog.put("metrics", 1, b'{"a":2}', 11.0)
    again = backlog.plan(lane, 12.0)
    assert (backlog.key(again), backlog.body(again)) == (key, body)
    assert body == b'{"run_id":"run_1","points":[{"a":1}]}'


def test_watermark_skips_stored_requests(backlog: Backlog) -> None:
    for _ in range(3):
        backlog.put("hparams", 1, b"{}", 10.0)
    lane = backlog.lanes["hparams"]
    backlog.plan(lane, 10.0)
    backlog.skip({"hparams": 1, "unheard_of": 9})
    assert drain(backlog, 10.0) == [("hparams", 2, 1), ("hparams", 3, 1)]


def test_backoff_grows_to_cap_with_full_jitter() -> None:
    policy = Policy()
    ceilings = [backoff(policy, n, 1.0) for n in range(1, 9)]
    assert ceilings == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert backoff(policy, 10_000, 1.0) == 30.0 and backoff(policy, 3, 0.0) == 0.0
    drawn = [draw() for _ in range(200)]
    assert all(0 <= d < 1 for d in drawn) and max(drawn) > 0.5 > min(drawn)
