"""The end of a run is owed until it is written, and of several processes only one continues a run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
import signalbox
from conftest import Env, Start
from control import Control
from signalbox import ConfigError, SignalboxError, SpoolError, UndeliveredError, kept
from signalbox.server import Server
from signalbox.sinks import Online
from signalbox.spool import Segment
from test_outside import Begin, begin, files, user

__all__ = ["begin", "user"]  # fixtures

Fill = Callable[[int], None]


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fill]:
    """A function that lets the disk be full for the given number of attempts to write the end of a run."""
    left: List[int] = []
    real = Segment.append

    def append(segment: Segment, line: bytes) -> None:
        if b" lifecycle " in line and left:
            left.pop()
            raise SpoolError("no space left")
        real(segment, line)

    monkeypatch.setattr(Segment, "append", append)
    yield lambda times: left.extend(range(times))
    assert not left, "the end was tried less often"


def test_end_on_a_full_disk_stays_owed(control: Control, begin: Begin, user: Env, fill: Fill) -> None:
    run = begin()
    run.log({"loss": 1}, step=1)
    fill(2)
    for _ in range(2):
        with pytest.raises(SpoolError, match=r"the end of the run \(succeeded\) is not reported yet, because no space left"):
            run.finish()
    assert not run.finished and control.events() == [] and not any(f.endswith("ended") for f in files(user))
    assert run.finish() == 0
    assert run.finished and control.events() == ["succeeded"] and files(user) == []


@pytest.mark.parametrize("failing", [False, True])
def test_block_tries_the_end_again(control: Control, begin: Begin, start: Start, fill: Fill, failing: bool) -> None:
    for init in (begin, start):
        fill(1)
        try:
            with init() as run:
                run.log({"loss": 1}, step=1)
                if failing:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert failing
        assert run.finished
    assert control.events() == [["succeeded", "failed"][failing]] * 2


def test_run_whose_end_is_never_written_can_be_continued(
    control: Control, begin: Begin, fill: Fill, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(on_error="warn")
    fill(3)
    run.failed()
    assert run.finish() == 1 and not run.finished
    assert run.leave() == 1 and run.finished
    said = capsys.readouterr().err
    assert "the end of run run_0001 (failed) is not reported, because no space left" in said
    assert "end the run with init(project=..., resume='run_0001').finish()" in said
    assert control.events() == []
    assert begin(resume="run_0001").finish() == 0
    assert control.events() == ["succeeded"]


def test_end_of_a_job_that_is_never_written_is_an_error(control: Control, start: Start, fill: Fill) -> None:
    run = start()
    fill(2)
    with pytest.raises(SpoolError, match="not reported yet"):
        run.succeeded()
    with pytest.raises(SpoolError, match="the state of the job follows from the exit status"):
        run.leave()
    assert control.events() == []


@pytest.mark.parametrize("block", [False, True])
def test_finish_does_not_outlast_its_timeout(control: Control, begin: Begin, block: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin()
    assert run.flush()
    control.stop()
    begun = time.monotonic()
    with pytest.raises(UndeliveredError):
        if block:
            leave = run.leave
            monkeypatch.setattr(run, "leave", lambda timeout=0.05: leave(0.05))
            with run:
                pass
        else:
            run.finish(timeout=0.05)
    assert time.monotonic() - begun < 5, "it waits as long as a call that must be delivered"


def test_left_run_accepts_no_end(control: Control, begin: Begin) -> None:
    run = begin()
    run.leave()
    with pytest.raises(SignalboxError, match="this run is finished"):
        run.succeeded()
    assert begin(resume=run.id).id == run.id
    assert control.events() == []


@pytest.mark.parametrize("moment", ["continued", "created"])
def test_one_of_two_processes_continues_a_run(begin: Begin, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    if moment == "continued":
        begin().leave()
    other: List[signalbox.Run] = []
    state, online = Server.state, Online

    def meanwhile() -> None:
        monkeypatch.undo()
        other.append(begin(resume=True))

    def asked(server: Server, run_id: str) -> object:
        meanwhile()
        return state(server, run_id)

    def opened(*given: object) -> object:
        meanwhile()
        return online(*given)  # type: ignore[arg-type]

    if moment == "continued":
        monkeypatch.setattr(Server, "state", asked)
        run = begin(resume=True)
    else:
        monkeypatch.setattr(signalbox, "Online", opened)
        run = begin()
    assert (run.id, other[0].id) == ("run_0001", "run_0002")
    run.leave()
    other[0].leave()


def test_forked_child_does_not_keep_the_claim(begin: Begin, user: Env) -> None:
    begin().leave()
    (path,) = Path(user["XDG_STATE_HOME"]).rglob("run_0001")
    folder, other = kept.Folder(str(path)), kept.Folder(str(path))
    assert folder.claim() and not other.claim()
    (wait, go), (begun, begin_child) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.write(begin_child, b"x")
        os.read(wait, 1)  # until the parent closes it
        os._exit(0)
    os.read(begun, 1)
    folder.release()
    claimed = other.claim()
    other.release()
    for descriptor in (go, wait, begun, begin_child):
        os.close(descriptor)
    os.waitpid(child, 0)
    assert claimed


def test_full_disk_prevents_the_run(control: Control, begin: Begin, user: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kept, "_write", full)
        with pytest.raises(ConfigError, match="the run's token cannot be kept in .*No space left"):
            begin()
    assert not control.created and not list(Path(user["XDG_STATE_HOME"]).rglob(".new-*"))
    begin().finish()


def test_deleted_folder_prevents_no_end(control: Control, begin: Begin, user: Env) -> None:
    run = begin()
    for path in Path(user["XDG_STATE_HOME"]).rglob("run.json"):
        path.unlink()
    run.finish()
    assert control.events() == ["succeeded"]
