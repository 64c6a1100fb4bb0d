"""Runs without a job: on a laptop, in a notebook, on another cluster.

The user's token creates the run. The run's own token, with which it reports, is kept on this machine until the run
ends, so that a process can continue the run of a killed one:

    $XDG_STATE_HOME/signalbox/HOST/RUN_ID/run.json   the ingest address and token of the run
    $XDG_STATE_HOME/signalbox/HOST/RUN_ID/spool/     the reports that are not delivered yet
    $XDG_STATE_HOME/signalbox/HOST/RUN_ID/ended      exists once the end of the run was reported

Only the user can read these files. Without XDG_STATE_HOME they are in ~/.local/state.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional, Sequence, Union

from .config import Config, rank
from .errors import ConfigError, SignalboxError
from .kept import Folder, Kept, Saved
from .notices import notice
from .server import Server
from .transport import words

if TYPE_CHECKING:
    from .run import Run

MOST_TRIED = 20  # runs whose state init(resume=True) reads


class Request(NamedTuple):
    """The arguments of init. A value of None leaves the choice to the control plane."""

    project: str
    name: Optional[str] = None
    tags: Sequence[str] = ()
    labels: Optional[Mapping[str, str]] = None
    silence: Optional[int] = None  # seconds without a report after which the run counts as failed
    resume: Union[bool, str] = False
    server: Optional[str] = None


_runs: "weakref.WeakValueDictionary[tuple[str, Optional[str]], Run]" = weakref.WeakValueDictionary()


def opened(request: Request, run: "Run") -> None:
    """Remember a run of this process."""
    _runs[request.project, request.name] = run


def leave(request: Request) -> None:
    """Leave the run that this process has begun with the same project and name, if it has not finished."""
    earlier = _runs.pop((request.project, request.name), None)
    if earlier is not None and not earlier.finished:
        notice(f"run {earlier.id} is left open; init(resume=True) continues it")
        try:
            earlier.leave()
        except SignalboxError as err:  # of the run that is left, which must not prevent the new one
            notice(err)


def begin(request: Request, env: Mapping[str, str]) -> "tuple[Config, Folder]":
    """Create or continue a run. Return its configuration and its folder, which the caller releases once it reports.

    Raises ConfigError if the server or the token of the user is missing or if a run cannot be continued, IngestError if
    the server refuses the request, and Unreachable if it does not respond.
    """
    if os.name == "nt":
        raise ConfigError("init(project=...) needs a system with POSIX file locks; on Windows, use WSL")
    if _imported_by_worker():
        raise ConfigError(
            "init(project=...) would create another run, because a worker process imports the main module: "
            'call it below if __name__ == "__main__":'
        )
    own = rank(env)
    if own > 0:
        raise ConfigError(
            f"init(project=...) would create another run for rank {own}; create one run for all processes with "
            "POST /api/runs and set SERVICE_JOB_ENABLED, SERVICE_JOB_ENDPOINT, SERVICE_JOB_RUN_ID and SERVICE_JOB_TOKEN"
        )
    server = Server(request.server or env.get("SERVICE_SERVER", ""), env.get("SERVICE_TOKEN", ""))
    kept = Kept(env, server.place)
    kept.sweep()
    found = _continued(request, kept, server) if request.resume else None
    resumed = found is not None
    if found is None:
        with kept.prepare() as new:
            saved = server.create(_body(request))
            found = saved, new.keep(saved)
    saved, folder = found
    notice(f"{'continuing' if resumed else 'reporting to'} run {saved.run_id} of project {request.project} at {server.url}/runs/{saved.run_id}")
    return _config(saved, folder), folder


def _imported_by_worker() -> bool:
    """Return whether multiprocessing is starting this process and imports the main module for it."""
    if "multiprocessing" not in sys.modules:
        return False
    from multiprocessing import current_process

    return bool(getattr(current_process(), "_inheriting", False))


def saved_config(spool: str) -> Optional[Config]:
    """Return the configuration of the run whose spool folder is given, or None if it is not that of a saved run."""
    folder = Folder(os.path.dirname(os.path.abspath(spool)))
    saved = folder.load()
    return None if saved is None or os.path.abspath(spool) != folder.spool else _config(saved, folder)


def tidy(spool: str) -> None:
    """Delete the folder of a run without a job, given its spool folder, if the run has ended and nothing is left."""
    folder = Folder(os.path.dirname(os.path.abspath(spool)))
    if os.path.abspath(spool) == folder.spool:
        folder.tidy()


def _config(saved: Saved, folder: Folder) -> Config:
    return Config(
        enabled=True,
        endpoint=saved.endpoint,
        run_id=saved.run_id,
        token=saved.token,
        spool_dir=folder.spool,
        workdir=os.getcwd(),
        local_dir=None,
    )


def _continued(request: Request, kept: Kept, server: Server) -> "Optional[tuple[Saved, Folder]]":
    """Return the run to continue and its claimed folder. With resume=True, return None if no run can be continued."""
    if isinstance(request.resume, str):
        return _named(request, request.resume, kept, server)
    found = [s for s in kept.all() if s.project == request.project and request.name in (None, s.name)]
    for saved in sorted(found, key=lambda s: s.created, reverse=True)[:MOST_TRIED]:
        folder = kept.folder(saved.run_id)
        why = _hindrance(saved, folder, server, sweep=True)
        if why is None:
            return saved, folder
        notice(f"run {saved.run_id} is not continued: {why}")
    return None


def _named(request: Request, run_id: str, kept: Kept, server: Server) -> "tuple[Saved, Folder]":
    folder = kept.folder(run_id)
    saved = folder.load()
    why: Optional[str]
    if saved is None:
        state = server.state(run_id)
        why = f"this machine has no token for it in {kept.root}" if state == "running" else _ended(state)
    elif saved.project != request.project:
        why = f"it is in project {saved.project}, not {request.project}"
    else:
        why = _hindrance(saved, folder, server, sweep=False)
        if why is None:
            return saved, folder
    raise ConfigError(f"run {run_id} of {server.url} cannot be continued: {why}")


def _hindrance(saved: Saved, folder: Folder, server: Server, sweep: bool) -> Optional[str]:
    """Return why a run cannot be continued, or None. In that case its folder is claimed, so that no other process continues it.

    With `sweep`, delete the folder of a run that has ended.
    """
    try:
        if not folder.claim():
            return "another process reports to it"
    except OSError as err:
        return f"its folder cannot be locked: {words(err)}"
    why: Optional[str] = ""
    try:
        if folder.in_use():
            why = "another process reports to it"
        elif folder.has_ended():
            why = f"its end was reported; {_deliver(folder)}"
        else:
            state = server.state(saved.run_id)
            why = None if state == "running" else _ended(state)
            if sweep and state not in (None, "running"):
                folder.delete()
        return why
    finally:
        if why is not None:
            folder.release()


def _ended(state: Optional[str]) -> str:
    return "it does not exist, or you may not see it" if state is None else f"it has ended ({state})"


def _deliver(folder: Folder) -> str:
    return f"deliver its last reports with python -m signalbox flush {folder.spool}"


def _body(request: Request) -> Dict[str, Any]:
    """Return the body of POST /api/runs."""
    body: Dict[str, Any] = {"name": request.name or _program(), "project": request.project}
    if request.tags:
        body["tags"] = list(request.tags)
    if request.labels:
        body["labels"] = dict(request.labels)
    if request.silence is not None:
        body["silence_s"] = request.silence
    return body


def _program() -> str:
    """Return the name of the script; "notebook" in an interactive interpreter."""
    name = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    return name if name not in ("", "-", "-c", "-m", "ipykernel_launcher", "ipython", "__main__") else "notebook"
