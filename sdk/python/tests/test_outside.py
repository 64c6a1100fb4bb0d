"""Runs without a job: init(project=...) creates a run, and a later process continues it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, List

import pytest
import signalbox
from conftest import QUICK, Env, Start
from control import USER, Control
from signalbox import ConfigError, IngestError, Unreachable
from signalbox.__main__ import main

Begin = Callable[..., signalbox.Run]


@pytest.fixture
def user(control: Control, tmp_path: Path) -> Env:
    """The environment of a user who has a token."""
    return {
        "SERVICE_SERVER": f"http://127.0.0.1:{control.port}/",
        "SERVICE_TOKEN": USER,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


@pytest.fixture
def begin(user: Env) -> Begin:
    """A function that creates or continues a run."""

    def init(**options: object) -> signalbox.Run:
        options.setdefault("project", "lab")
        return signalbox.init(policy=QUICK, env=user, handle_sigterm=False, hardware=0, **options)  # type: ignore[arg-type]

    return init


def files(user: Env) -> List[str]:
    """Return the paths of all files in the state folder."""
    root = Path(user["XDG_STATE_HOME"])
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_run_is_created_reported_and_ended(control: Control, begin: Begin, user: Env) -> None:
    with begin(name="first", tags=["a"], labels={"study": "lr"}, silence=3600) as run:
        assert run.id == "run_0001"
        run.log({"loss": 0.5}, step=1)
    body = {"project": "lab", "name": "first", "tags": ["a"], "labels": {"study": "lr"}, "silence_s": 3600}
    assert control.created == [body]
    assert control.points() == [("loss", 1, 0.5)] and control.events() == ["succeeded"]
    assert files(user) == [], "the token of an ended run is deleted"


def test_finish_ends_the_run_and_an_error_fails_it(control: Control, begin: Begin) -> None:
    run = begin()
    run.finish()
    assert run.finish() == 0
    assert control.events() == ["succeeded"]
    with pytest.raises(ZeroDivisionError):
        with begin():
            raise ZeroDivisionError
    assert control.events() == ["succeeded", "failed"]


def test_token_is_kept_for_the_user_only(begin: Begin, user: Env, capfd: pytest.CaptureFixture[str]) -> None:
    run = begin()
    (saved,) = (f for f in files(user) if f.endswith("run.json"))
    path = Path(user["XDG_STATE_HOME"]) / saved
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    run.leave()
    out, err = capfd.readouterr()
    assert "run_0001" in err and USER not in out + err and "ing_test" not in out + err


def test_run_of_a_killed_process_is_continued(control: Control, begin: Begin, user: Env) -> None:
    env = {**os.environ, **user, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, str(Path(__file__).with_name("child.py")), "outside"], env=env, stdout=subprocess.PIPE)
    assert child.stdout is not None
    for line in child.stdout:
        if line == b"40\n":
            child.kill()
            break
    child.wait()
    child.stdout.close()
    with begin(name="killed", resume=True) as run:
        assert run.id == "run_0001"
        for step in range(41, 100):
            run.log({"loss": step}, step=step)
    assert len(control.created) == 1 and control.events() == ["succeeded"]
    steps = [step for _, step, _ in control.points()]
    assert sorted(steps) == list(range(100)), "lost or doubled"
    assert not control.conflicts and files(user) == []


def test_resume_takes_the_newest_of_the_name(control: Control, begin: Begin) -> None:
    for name in ("a", "b", "a", "c"):
        begin(name=name).leave()
    begin(project="other", name="a").leave()
    for options, want in (
        ({"name": "a"}, "run_0003"),
        ({"name": "b"}, "run_0002"),
        ({}, "run_0004"),
        ({"project": "other"}, "run_0005"),
        ({"name": "none"}, "run_0006"),
    ):
        run = begin(resume=True, **options)
        assert run.id == want, options
        run.leave()
    run = begin(resume="run_0001")
    assert run.id == "run_0001"
    run.leave()
    assert len(control.created) == 6


def test_run_in_use_is_not_continued(control: Control, begin: Begin) -> None:
    first = begin(name="a")
    other = begin(resume=True)  # another name, but any run of the project is wanted
    assert other.id == "run_0002"
    with pytest.raises(ConfigError, match="another process reports to it"):
        begin(resume="run_0001", name="b")
    first.leave()
    assert begin(resume="run_0001", name="b").id == "run_0001"
    assert control.events() == []


def test_cell_that_runs_again_leaves_its_run(control: Control, begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    first = begin(name="a")
    first.log({"loss": 1}, step=1)
    second = begin(name="a")
    assert first.finished and (first.id, second.id) == ("run_0001", "run_0002")
    assert "run run_0001 is left open" in capsys.readouterr().err
    third = begin(name="a", resume=True)
    assert third.id == "run_0002"
    third.finish()
    assert control.points() == [("loss", 1, 1)] and control.events() == ["succeeded"]


def test_run_with_undelivered_end_is_not_continued(
    control: Control, begin: Begin, user: Env, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(name="a")
    run.log({"loss": 1}, step=1)
    assert run.flush()
    control.stop()
    with pytest.raises(signalbox.UndeliveredError):
        try:
            run.finish(timeout=0.05)
        finally:
            control.start()
    again = begin(name="a", resume=True)
    assert again.id == "run_0002"
    said = capsys.readouterr().err
    assert "run run_0001 is not continued: its end was reported; deliver its last reports with python -m signalbox flush" in said
    again.finish()
    for name in [n for n in os.environ if n.startswith("SERVICE_JOB_")]:
        monkeypatch.delenv(name)
    assert main(["flush", said.split("signalbox flush ")[1].split()[0]], QUICK) == 0
    assert control.events() == ["succeeded", "succeeded"] and files(user) == []


def test_older_run_that_goes_on_is_continued(control: Control, begin: Begin, user: Env) -> None:
    for _ in range(3):
        begin(name="a").leave()
    control.states["run_0003"] = "failed"
    del control.states["run_0002"]  # it was deleted, or its project is hidden
    run = begin(name="a", resume=True)
    assert run.id == "run_0001"
    run.leave()
    assert {f.split("/")[2] for f in files(user)} == {"run_0001", "run_0002"}


@pytest.mark.parametrize("answer", [{"status": "ok"}, {"id": "run_0001"}, {"id": "run_9", "state": "failed"}])
def test_answer_of_another_server_deletes_nothing(control: Control, begin: Begin, user: Env, answer: object) -> None:
    begin(name="a").leave()
    before = files(user)
    control.state_answer = answer
    with pytest.raises(IngestError, match="not a Signalbox control plane"):
        begin(name="a", resume=True)
    assert files(user) == before and len(control.created) == 1


def test_refused_report_does_not_keep_the_token(control: Control, begin: Begin, user: Env) -> None:
    control.refuse["metrics"] = (422, "refused on purpose")
    run = begin()
    run.log({"loss": 1}, step=1)
    with pytest.raises(IngestError):
        run.finish()
    assert control.events() == ["succeeded"] and files(user) == []
    with pytest.raises(ZeroDivisionError):
        with begin() as run:
            run.log({"loss": 1}, step=1)
            assert run.flush()
            raise ZeroDivisionError
    assert run.finished and control.events() == ["succeeded", "failed"] and files(user) == []


def test_leave_inside_the_block(control: Control, begin: Begin, user: Env) -> None:
    with begin() as run:
        run.leave()
    assert control.events() == [] and len(files(user)) == 1


def test_no_run_without_a_folder_for_it(control: Control, begin: Begin, user: Env, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    user["XDG_STATE_HOME"] = str(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot be kept in .*; set XDG_STATE_HOME"):
        begin()
    with pytest.raises(ValueError, match="on_error"):
        begin(on_error="ignore")
    assert not control.created
    user["XDG_STATE_HOME"], user["HOME"] = "relative", str(tmp_path / "home")
    begin().leave()
    assert list((tmp_path / "home" / ".local" / "state" / "signalbox").rglob("run.json"))


def test_worker_that_imports_main_makes_no_run(control: Control, user: Env, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import multiprocessing, signalbox\n"
        "run = signalbox.init(project='lab', hardware=0)\n"
        "def work(): pass\n"
        "if __name__ == '__main__':\n"
        "    p = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    p.start(); p.join(); run.finish(); raise SystemExit(p.exitcode != 1)\n"
    )
    env = {**os.environ, **user, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert 'call it below if __name__ == "__main__"' in found.stderr
    assert len(control.created) == 1 and control.events() == ["succeeded"]


def test_ended_run_is_not_continued(control: Control, begin: Begin, user: Env) -> None:
    begin(name="a").leave()
    control.states["run_0001"] = "failed"
    with pytest.raises(ConfigError, match=r"run_0001 of http.* cannot be continued: it has ended \(failed\)"):
        begin(resume="run_0001")
    run = begin(resume=True, name="a")
    assert run.id == "run_0002"
    run.finish()
    control.states[run.id] = "succeeded"
    with pytest.raises(ConfigError, match=r"run_0002 of http.* cannot be continued: it has ended \(succeeded\)"):
        begin(resume=run.id)
    run = begin(name="a")
    run.leave()
    assert not any("run_0001" in name for name in files(user))


def test_expired_runs_are_deleted(control: Control, begin: Begin, user: Env) -> None:
    control.expires = "2026-11-01T09:00:00.25Z"
    begin().leave()
    control.expires = "2126-11-27T09:00:00.123456789+00:00"
    begin().leave()
    begin().leave()
    assert {f.split("/")[2] for f in files(user)} == {"run_0002", "run_0003"}


def test_left_reports_are_delivered_by_flush(
    control: Control, begin: Begin, user: Env, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin()
    control.stop()
    run.log({"loss": 1}, step=1)
    with pytest.raises(signalbox.UndeliveredError) as failure:
        run.leave(timeout=0.05)
    control.start()
    for name in [n for n in os.environ if n.startswith("SERVICE_JOB_")]:
        monkeypatch.delenv(name)
    assert failure.value.spool is not None
    assert main(["flush", failure.value.spool], QUICK) == 0
    assert control.points() == [("loss", 1, 1)]
    assert "1 of 1 report(s) delivered" in capsys.readouterr().out


def test_job_and_offline_win_over_project(control: Control, env: Env, start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    run = start(project="lab")
    assert run.id == "run_1" and "project lab is ignored" in capsys.readouterr().err
    run.finish()
    assert control.events() == [], "the platform reports the end of a job"
    env["SERVICE_JOB_ENABLED"] = "0"
    run = start(project="lab")
    run.log({"loss": 1}, step=1)
    run.finish()
    assert not control.created and not control.points()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"SERVICE_SERVER": ""}, "set SERVICE_SERVER or pass server="),
        ({"SERVICE_SERVER": "lab.example"}, "not an http"),
        ({"SERVICE_SERVER": "http://user:word@lab.example"}, "no user name or password"),
        ({"SERVICE_TOKEN": ""}, "set SERVICE_TOKEN"),
        ({"SERVICE_TOKEN": "a\nb"}, "SERVICE_TOKEN contains a character"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "another run for rank 1"),
    ],
)
def test_incomplete_configuration_is_refused(control: Control, begin: Begin, user: Env, change: Dict[str, str], words: str) -> None:
    user.update(change)
    with pytest.raises(ConfigError, match=words):
        begin()
    assert not control.created and files(user) == []


@pytest.mark.parametrize("run_id", ["run_0009", "../../etc", "run_../x", "job_1", ""])
def test_unknown_run_cannot_be_continued(control: Control, begin: Begin, run_id: str) -> None:
    if run_id == "":
        begin(resume=run_id).leave()  # as without resume
        return
    with pytest.raises(ConfigError, match="cannot be continued|not the id of a run"):
        begin(resume=run_id)
    assert not control.created


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("403", IngestError, "runs: HTTP 403: fault on demand"),
        ("422", IngestError, "runs: HTTP 422: fault on demand"),
        ("503", Unreachable, "HTTP 503: fault on demand"),
        ("drop", Unreachable, "127.0.0.1"),
        ("html", IngestError, "not a Signalbox control plane"),
    ],
)
def test_refused_run_raises(control: Control, begin: Begin, user: Env, fault: str, error: "type[Exception]", words: str) -> None:
    control.script_for["runs"].append(fault)
    with pytest.raises(error, match=words):
        begin()
    assert files(user) == []
    user["SERVICE_TOKEN"] = "wrong"
    with pytest.raises(IngestError, match="HTTP 401: no such token; check SERVICE_TOKEN"):
        begin()


def test_open_connection_is_named(user: Env, begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unreachable):
        begin(server="http://signalbox.invalid")
    assert "without encryption" in capsys.readouterr().err
