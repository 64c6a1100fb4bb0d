"""Reports that are too large for a request: refused in their call, split if possible, and stated once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from conftest import QUICK, Env, Start
from control import Control
from signalbox import IngestError, Run, SpoolError, limits
from signalbox.spool import Spool

LARGE = "x" * 8_500_000

# Reports that no request can hold, and the names and sizes in their errors.
TOO_LARGE: Dict[str, Any] = {
    "hparams": (lambda run: run.hparams({"lr": 1, "prompt": LARGE}), r"params\.prompt has 8,500,0\d\d bytes"),
    "validation": (
        lambda run: run.validation(step=1, samples=[{"user": "a"}, {"user": LARGE, "reward": 1}, {"user": "b"}]),
        r"samples\.1\.user has 8,500,0\d\d bytes",
    ),
    "benchmark": (
        lambda run: run.rollouts("sums", [{"task": "t", "rollout": k, "reward": 1, "text": "x" if k else LARGE} for k in range(3)]),
        r"rollouts\.0\.text has 8,500,0\d\d bytes",
    ),
    "environment_nodes": (
        lambda run: run.nodes([{"rank": 0, "host": "a"}, {"rank": 1, "host": "x" * 1_100_000}]),
        r"nodes\.1\.host has 1,100,0\d\d bytes",
    ),
}


@pytest.mark.parametrize("stream", sorted(TOO_LARGE))
def test_report_that_no_request_can_hold(
    control: Control, start: Start, env: Env, capsys: pytest.CaptureFixture[str], stream: str
) -> None:
    call, named = TOO_LARGE[stream]
    run = start()
    with pytest.raises(IngestError, match=f"{stream}: HTTP 413: {named}; a report may have at most .* bytes"):
        call(run)
    run.log({"m": 1.0}, step=1)
    run.finish()
    assert control.points() == [("m", 1, 1.0)]
    with start(on_error="warn") as second:
        call(second)
    printed = capsys.readouterr().err
    assert printed.count("signalbox:") == 1 and "HTTP 413" in printed
    assert os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) == []


def test_rest_of_a_report_is_sent(control: Control, start: Start) -> None:
    run = start()
    for stream in ("hparams", "validation", "benchmark"):
        with pytest.raises(IngestError):
            TOO_LARGE[stream][0](run)
    run.finish()
    assert [body["params"] for body in control.bodies("hparams")] == [{"lr": 1}]
    rounds = control.bodies("validation")
    assert sorted(body["chunk_index"] for body in rounds) == list(range(rounds[0]["total_chunks"])), "the round is complete"
    assert [sample["user"] for body in rounds for sample in body["samples"]] == ["a", "b"]
    assert [rollout["rollout"] for body in control.bodies("benchmark") for rollout in body["rollouts"]] == [1, 2]


def test_hparams_are_split(control: Control, start: Start) -> None:
    given = {f"p{k}": "x" * 3_000_000 for k in range(6)}
    with start() as run:
        run.hparams(given)
    bodies = control.bodies("hparams")
    assert len(bodies) == 3
    assert {k: v for body in bodies for k, v in body["params"].items()} == given
    assert all(len(content) <= limits.BULK_BYTES for content in control.stored.values())


def test_largest_reports_fit(control: Control, start: Start) -> None:
    with start() as run:
        run.hparams({"a": "x" * (limits.most("hparams") - len('{"params":{"a":""}}'))})
        with pytest.raises(IngestError):
            run.hparams({"a": "x" * (limits.most("hparams") - len('{"params":{"a":""}}') + 1)})
    assert len(control.bodies("hparams")) == 1
    assert all(len(content) <= limits.BULK_BYTES for content in control.stored.values())


def left_behind(control: Control, start: Start, monkeypatch: pytest.MonkeyPatch, report: Callable[[Run], object]) -> None:
    """Leave a report in the spool of a process that has ended, without the check of its size."""
    control.stop()
    with monkeypatch.context() as older:
        older.setattr(limits, "BULK_BYTES", 1 << 30)
        run = start(on_error="warn")
        report(run)
        run.finish(0.05)
    control.start()


def test_oversized_report_of_earlier_process(
    control: Control, start: Start, env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_behind(control, start, monkeypatch, lambda run: run.hparams({"prompt": LARGE}))
    control.early["hparams"] = "413"
    run = start()
    with pytest.raises(IngestError, match="hparams: HTTP 413: refused early"):
        run.running()
    run.log({"m": 1.0}, step=1)
    run.succeeded()
    assert control.points() == [("m", 1, 1.0)] and control.events() == ["running", "succeeded"] and control.cuts == 1
    with pytest.raises(IngestError):
        run.finish()
    start().finish()
    assert control.cuts == 1 and os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) == []


@pytest.mark.parametrize("earlier", [False, True])
def test_report_that_cannot_be_read_is_given_up(
    control: Control, start: Start, env: Env, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    if earlier:
        left_behind(control, start, monkeypatch, lambda run: run.hparams({"a": 1}))
    read = Spool.read

    def truncated(spool: Spool, record: Any) -> bytes:
        if record.stream == "hparams":
            raise SpoolError("the spool was truncated by another process")
        return read(spool, record)

    with monkeypatch.context() as broken:
        broken.setattr(Spool, "read", truncated)
        run = start()
        with pytest.raises(SpoolError, match=r"1 report\(s\) of hparams cannot be read from the spool and are lost"):
            if not earlier:
                run.hparams({"a": 1})
            run.running()
        run.log({"m": 1.0}, step=1)
        run.succeeded()
        with pytest.raises(SpoolError):
            run.finish()
    assert control.points() == [("m", 1, 1.0)] and control.events()[-1] == "succeeded"
    assert os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) == []


def test_report_that_can_be_read_later_is_delivered(
    control: Control, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, faults = Spool.read, [OSError(5, "Input/output error")] * 3

    def flaky(spool: Spool, record: Any) -> bytes:
        if record.stream == "hparams" and faults:
            raise faults.pop()
        return read(spool, record)

    monkeypatch.setattr(Spool, "read", flaky)
    with start() as run:
        run.hparams({"a": 1})
    assert not faults and len(control.bodies("hparams")) == 1


def test_unread_log_lines_raise_no_error(control: Control, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def truncated(spool: Spool, record: Any) -> bytes:
        if record.stream == "logs":
            raise SpoolError("truncated")
        return read(spool, record)

    read = Spool.read
    monkeypatch.setattr(Spool, "read", truncated)
    with start() as run:
        run.text("line")
        run.running()
    assert control.events() == ["running", "succeeded"]


def test_refusals_are_bounded(
    control: Control, start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from signalbox import outbox

    monkeypatch.setattr(outbox, "MAX_REFUSED", 5)
    control.refuse["hparams"] = (422, "refused on purpose")
    run = start(policy=QUICK)
    box = run._sink.box  # type: ignore[attr-defined]
    errors: List[Exception] = []
    for k in range(20):
        box.put("hparams", [(json.dumps({"params": {"a": k}}).encode(), 1)])
    assert run.flush() and len(box.refused) == 5
    try:
        run.finish()
    except IngestError as err:
        errors.append(err)
    printed = capsys.readouterr().err
    assert len(errors) + printed.count("refused on purpose") == 5 and "15 more report(s) were refused" in printed


def test_offline_has_no_limit(tmp_path: Path) -> None:
    import signalbox

    run = signalbox.init(env={"SERVICE_JOB_ENABLED": "0", "SERVICE_JOB_DIR": str(tmp_path)})
    run.hparams({"prompt": LARGE})
    run.finish()
    assert (tmp_path / "signalbox.jsonl").stat().st_size > len(LARGE)
