"""The reporter's promise: it never blocks a training on a report that the server does not take, never loses one that it
takes, and states each refusal once. The server refuses in the middle of a body and resets the connection."""

from __future__ import annotations

import http.client
import os
import socket
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

import pytest
import signalbox
import signalbox.__main__ as command
from conftest import QUICK, Env
from control import Control
from draw import one_in
from signalbox import IngestError, Run, SignalboxError, UndeliveredError, machine, transport
from test_control_signals import until

BIG = "x" * 300_000
STATUSES = (400, 401, 403, 409, 413, 422, 429, 500, 503)
PERMANENT = (400, 409, 413, 422)
# Calls that wait for the response give up soon, so that a route that always fails does not delay the test.
POLICY = QUICK._replace(settle_timeout=0.6, request_timeout=1.0)
LIMIT = 0.4  # seconds; the timeout of finish
PATIENCE = 60.0  # seconds; a test that passes does not wait so long

Call = Callable[[Run, Path], object]


def saved(folder: Path) -> Path:
    """Write a file to upload, which is larger than the buffers of a connection."""
    file = folder / "weights"
    file.write_bytes(b"w" * len(BIG))
    return file


def points() -> Dict[str, float]:
    """Return metrics of about the size of BIG."""
    return {f"{k:03d}" + "k" * 250: 1.0 for k in range(1000)}


# The report of each route that is refused.
CALLS: Dict[str, Call] = {
    "lifecycle": lambda run, folder: run.running(),
    "metrics": lambda run, folder: run.log(points(), step=1),
    "hparams": lambda run, folder: run.hparams({"prompt": BIG}),
    "validation": lambda run, folder: run.validation(step=1, samples=[{"user": BIG}]),
    "logs": lambda run, folder: run.text(BIG),
    "artifact": lambda run, folder: run.artifact(saved(folder), kind="hf_export", format="x", step=1),
    "upload-url": lambda run, folder: run.artifact(saved(folder), kind="hf_export", format="x", step=1),
    "put": lambda run, folder: run.artifact(saved(folder), kind="hf_export", format="x", step=1),
    "hardware": lambda run, folder: run.hardware([{"node": BIG, "key": "util", "value": 1}]),
    "environment": lambda run, folder: run.environment(),
    "environment_nodes": lambda run, folder: run.nodes([{"rank": 0, "host": BIG}]),
    "benchmark": lambda run, folder: run.benchmark("sums", "accuracy", 0.5, version=BIG),
}
# Routes whose calls wait for the response.
WAITING = ("lifecycle", "artifact", "upload-url", "put")


class Training(NamedTuple):
    """What a training saw: the errors that its calls raised, and the time that finish took."""

    raised: List[SignalboxError]
    finish: float


def marker(route: str) -> Tuple[str, Callable[[Run, int], object]]:
    """Return a stream that is not refused, and a call that reports a number to it."""
    if route == "hparams":
        return "benchmark", lambda run, k: run.benchmark(f"mark{k}", "accuracy", 0.5)
    return "hparams", lambda run, k: run.hparams({f"mark{k}": k})


def marks(control: Control, route: str) -> List[int]:
    """Return the numbers that arrived."""
    stream, _ = marker(route)
    text = str(control.bodies(stream))
    return [k for k in range(8) if f"mark{k}'" in text]


def train(control: Control, run: Run, route: str, folder: Path, first: int, left: bool = False) -> Training:
    """Report a mark, the report of the route, and two other marks, as a training that survives errors does.

    Wait until the reports have arrived or been refused, except that of the route if it is left. Then finish.
    """
    raised: List[SignalboxError] = []
    _, mark = marker(route)
    calls: List[Callable[[], object]] = [
        lambda: mark(run, first),
        lambda: CALLS[route](run, folder),
        lambda: mark(run, first + 1),
        lambda: None if left else run.flush(PATIENCE),
        lambda: mark(run, first + 2),
        lambda: until(lambda: marks(control, route)[-3:] == [first, first + 1, first + 2]),
    ]
    for call in calls:
        try:
            call()
        except SignalboxError as err:
            raised.append(err)
    began = time.monotonic()
    try:
        run.finish(LIMIT)
    except SignalboxError as err:
        raised.append(err)
    return Training(raised, time.monotonic() - began)


def refusals(training: Training) -> List[IngestError]:
    """Return the different refusals that were raised. finish raises the last one again."""
    return list({id(err): err for err in training.raised if isinstance(err, IngestError)}.values())


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Control]:
    """A control plane whose connections have small buffers, so that a report of 300 kB is cut while it is sent."""
    plane = Control()
    plane.narrow = True
    plane.start()
    connect = http.client.HTTPConnection.connect

    def narrowed(conn: Any) -> None:
        connect(conn)
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", narrowed)
    monkeypatch.setattr(transport, "EARLY", 0.2)
    monkeypatch.setattr(machine, "picture", lambda: {"packages": {"p": BIG}})
    yield plane
    plane.stop()


@pytest.fixture
def begin(narrow: Control, env: Env) -> Callable[..., Run]:
    """A function that starts a process of the run. All have the same spool."""
    env["SERVICE_JOB_ENDPOINT"] = f"http://127.0.0.1:{narrow.port}/api/ingest"

    def start(on_error: str = "raise", settle: float = POLICY.settle_timeout) -> Run:
        policy = POLICY._replace(settle_timeout=settle)
        return signalbox.init(policy=policy, env=env, handle_sigterm=False, hardware=0, on_error=on_error)

    return start


ROWS = [f"{route} {status} {how}" for route in CALLS for status in STATUSES for how in ("once", "always")]


@pytest.mark.parametrize("row", one_in(16, "early", ROWS))
def test_early_refusal(narrow: Control, begin: Callable[..., Run], env: Env, tmp_path: Path, row: str) -> None:
    route, status, how = row.split()
    once, number = how == "once", int(status)
    again = number in (429, 500, 503) or (once and number in (401, 403) and route != "upload-url") or (once and route == "put")
    left = again and not once
    (narrow.early_once if once else narrow.early)[route] = status
    for first in (0, 3):  # two processes with the same spool
        training = train(narrow, begin(), route, tmp_path, first, left)
        assert training.finish < PATIENCE / 2
        found = [] if once and first else refusals(training)
        assert len(found) == (0 if again or route == "logs" or (once and first) else 1), training.raised
        assert all(err.status == number for err in found)
        undelivered = [err for err in training.raised if isinstance(err, UndeliveredError)]
        assert bool(undelivered) == (left and route != "logs"), "only a report that is left is stated"
    assert narrow.cuts, "the refusal must have happened"
    narrow.early.clear()
    begin().finish(PATIENCE)
    assert os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) == [], "what the server takes now must be delivered"
    assert not narrow.conflicts
    if left and route not in WAITING:
        assert len(narrow.bodies(route)) >= 2, "the reports of both processes arrive at last"


FAULTS = ("silent", "hang", "half 413", "half 503", "stall 413", "stall 503", "half 200", "stall 200")


@pytest.mark.parametrize("row", one_in(16, "broken", [f"{route},{fault}" for route in CALLS for fault in FAULTS]))
def test_connection_without_whole_response(
    narrow: Control, begin: Callable[..., Run], env: Env, tmp_path: Path, row: str
) -> None:
    route, fault = row.split(",")
    refused = "413" in fault and row != "put,stall 413"  # that one is left, because it takes too long
    narrow.early[route] = fault
    training = train(narrow, begin(), route, tmp_path, 0, left=not refused)
    assert training.finish < PATIENCE / 2
    assert len(refusals(training)) == (1 if refused and route != "logs" else 0), training.raised
    narrow.stop()
    narrow.early.clear()
    narrow.start()
    begin().finish(PATIENCE)
    assert os.listdir(env["SERVICE_JOB_SPOOL_DIR"]) == []


@pytest.mark.parametrize("fault", ["503", "silent"])
def test_next_process_does_not_wait_for_ever(narrow: Control, begin: Callable[..., Run], tmp_path: Path, fault: str) -> None:
    """A report of an earlier process that always fails must not delay the events of the next one."""
    narrow.early["metrics"] = fault
    train(narrow, begin(), "metrics", tmp_path, 0, left=True)
    run = begin(settle=PATIENCE)
    run.running()
    assert narrow.events() == ["running"] and not narrow.points()
    with pytest.raises(UndeliveredError, match="1 report"):
        run.finish(LIMIT)


@pytest.mark.parametrize("fault", ["401", "403", "413", "500", "silent", "half 200"])
def test_watermark_that_fails_blocks_nothing(
    narrow: Control, begin: Callable[..., Run], tmp_path: Path, fault: str
) -> None:
    narrow.early["metrics"] = "503"
    train(narrow, begin(), "metrics", tmp_path, 0, left=True)
    narrow.early = {"watermark": fault}
    with begin(settle=PATIENCE) as run:
        run.running()
    assert len(narrow.points()) == 1000 and narrow.events() == ["running", "succeeded"]


@pytest.mark.parametrize("status", ["401", "403"])
def test_refused_token_keeps_all_reports(
    narrow: Control, begin: Callable[..., Run], env: Env, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    """If the token itself is refused, each process states it once with on_error="warn", and no report is lost."""
    narrow.early = {**{route: status for route in CALLS}, "watermark": status}
    for k in range(2):
        run = begin("warn")
        for step in range(3):
            run.hparams({f"mark{3 * k + step}": step})
            assert not run.flush(PATIENCE)
        run.finish(PATIENCE)
        assert capsys.readouterr().err.count("refused early") == 1
    narrow.early.clear()
    begin().finish(PATIENCE)
    assert marks(narrow, "lifecycle") == [0, 1, 2, 3, 4, 5]


def test_flush_command_delivers_the_rest(
    narrow: Control,
    begin: Callable[..., Run],
    env: Env,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    narrow.early["hparams"] = "503"
    train(narrow, begin(), "hparams", tmp_path, 0, left=True)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    narrow.early["hparams"] = "413"
    capsys.readouterr()
    assert command.main(["flush", env["SERVICE_JOB_SPOOL_DIR"]], POLICY) == 1
    assert capsys.readouterr().err.count("refused: hparams: HTTP 413: refused early") == 1
    assert command.main(["flush", env["SERVICE_JOB_SPOOL_DIR"]], POLICY) == 0, "it is refused only once"


def test_all_refusals_are_stated_once(
    narrow: Control, begin: Callable[..., Run], capsys: pytest.CaptureFixture[str]
) -> None:
    for on_error in ("raise", "warn"):
        narrow.early["hparams"] = "422"
        run = begin(on_error)
        raised: Dict[int, IngestError] = {}
        capsys.readouterr()
        calls: List[Callable[[], object]] = [lambda: run.hparams({"a": 1})] * 3
        calls += [lambda: run.flush(PATIENCE), lambda: run.finish()]
        for call in calls:
            try:
                call()
            except IngestError as err:  # finish may raise one again that a call has raised
                raised[id(err)] = err
        assert len(raised) + capsys.readouterr().err.count("refused early") == 3
