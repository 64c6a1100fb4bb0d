"""Runs without a job: on a laptop, in a notebook, on another cluster.

The user's token creates the run. The run's own token, with which it reports, is kept on this machine until the run
ends, so that a process can continue the run of a killed one:

    $XDG_STATE_HOME/signalbox/HOST/RUN_ID/run.json   the ingest address and token of the run
    $XDG_STATE_HOME/signalbox/HOST/RUN_ID/spool/     the reports that are not delivered yet

Only the user can read these files. Without XDG_STATE_HOME they are in ~/.local/state.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union
from urllib.parse import urlsplit

from .config import Config, rank, usable
from .errors import ConfigError, IngestError, Unreachable
from .notices import notice
from .transport import AGENT, Reply, connection, exchange, words

LOOPBACK = ("localhost", "127.0.0.1", "::1")
MOST_KEPT = 1000  # runs of a server that a user can have at once, as on the server
TIMEOUT = 30.0  # seconds for each request


class Request(NamedTuple):
    """The arguments of init. A value of None leaves the choice to the control plane."""

    project: str
    name: Optional[str] = None
    tags: Sequence[str] = ()
    labels: Optional[Mapping[str, str]] = None
    silence: Optional[int] = None  # seconds without a report after which the run counts as failed
    resume: Union[bool, str] = False
    server: Optional[str] = None


class Saved(NamedTuple):
    """A run that has not ended, as saved on this machine."""

    run_id: str
    endpoint: str
    token: str
    expires: str  # RFC 3339
    created: str  # RFC 3339
    project: str
    name: str

    def __repr__(self) -> str:
        return f"Saved(run_id={self.run_id!r}, endpoint={self.endpoint!r})"

    def valid(self) -> bool:
        """Return whether the values can be those of a control plane."""
        texts = all(isinstance(value, str) for value in self)
        return texts and usable(self.endpoint) and _is_run_id(self.run_id) and _is_token(self.token)


def begin(request: Request, env: Mapping[str, str]) -> "tuple[Config, Folder]":
    """Create or continue a run. Return its configuration and its folder.

    Raises ConfigError if the server or the token of the user is missing or if a run cannot be continued, IngestError if
    the server refuses the request, and Unreachable if it does not respond.
    """
    own = rank(env)
    if own > 0:
        raise ConfigError(
            f"init(project=...) would create another run for rank {own}; create one run for all processes with "
            "POST /api/runs and set SERVICE_JOB_ENABLED, SERVICE_JOB_ENDPOINT, SERVICE_JOB_RUN_ID and SERVICE_JOB_TOKEN"
        )
    server = _Server(request.server or env.get("SERVICE_SERVER", ""), env.get("SERVICE_TOKEN", ""))
    kept = Kept(env, server.host)
    kept.sweep()
    saved = _continued(request, kept, server) if request.resume else None
    resumed = saved is not None
    if saved is None:
        saved = server.create(request)
    folder = kept.folder(saved.run_id)
    if not resumed:
        folder.save(saved)
    config = _config(saved, folder)
    notice(f"{'continuing' if resumed else 'reporting to'} run {saved.run_id} of project {request.project} at {server.url}")
    return config, folder


def saved_config(spool: str) -> Optional[Config]:
    """Return the configuration of the run whose spool folder is given, or None if it is not that of a saved run."""
    folder = Folder(os.path.dirname(os.path.abspath(spool)))
    saved = folder.load()
    return None if saved is None or os.path.abspath(spool) != folder.spool else _config(saved, folder)


def _config(saved: Saved, folder: "Folder") -> Config:
    return Config(
        enabled=True,
        endpoint=saved.endpoint,
        run_id=saved.run_id,
        token=saved.token,
        spool_dir=folder.spool,
        workdir=os.getcwd(),
        local_dir=None,
    )


def _continued(request: Request, kept: "Kept", server: "_Server") -> Optional[Saved]:
    """Return the run to continue. With resume=True, return None if there is none that has not ended."""
    if isinstance(request.resume, str):
        saved = kept.folder(request.resume).load()
        if saved is None:
            raise ConfigError(
                f"run {request.resume} of {server.url} cannot be continued: this machine has no token for it in {kept.root}"
            )
        state = server.state(saved)
        if state != "running":
            raise ConfigError(f"run {saved.run_id} cannot be continued: it has ended ({state})")
        return saved
    found = [s for s in kept.all() if s.project == request.project and request.name in (None, s.name)]
    if not found:
        return None
    saved = max(found, key=lambda s: s.created)
    state = server.state(saved)
    if state == "running":
        return saved
    notice(f"run {saved.run_id} has ended ({state}); a new run begins")
    kept.folder(saved.run_id).delete()
    return None


class Folder:
    """The folder of one run."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.spool = os.path.join(path, "spool")
        self._file = os.path.join(path, "run.json")

    def save(self, saved: Saved) -> None:
        """Write the run's token, readable by this user only."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(saved._asdict(), file)

    def load(self) -> Optional[Saved]:
        """Return the saved run, or None if there is none that this version can read."""
        try:
            with open(self._file, encoding="utf-8") as file:
                found = json.load(file)
            saved = Saved(**found)
        except (OSError, ValueError, TypeError):
            return None
        return saved if saved.valid() else None

    def ended(self) -> None:
        """Delete the token once the run has ended and all its reports are delivered. Spools in use stay."""
        for remove, path in ((os.unlink, self._file), (os.rmdir, self.spool), (os.rmdir, self.path)):
            with contextlib.suppress(OSError):
                remove(path)

    def delete(self) -> None:
        """Delete the token and all reports, which the control plane would refuse."""
        shutil.rmtree(self.path, ignore_errors=True)


class Kept:
    """The folders of the runs of one server."""

    def __init__(self, env: Mapping[str, str], host: str) -> None:
        state = env.get("XDG_STATE_HOME") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".local", "state")
        self.root = os.path.join(state, "signalbox", host.replace(":", "_"))

    def folder(self, run_id: str) -> Folder:
        """Return the folder of a run."""
        if not _is_run_id(run_id):
            raise ConfigError(f"{run_id!r} is not the id of a run, such as run_01k3f8c0...")
        return Folder(os.path.join(self.root, run_id))

    def all(self) -> List[Saved]:
        """Return the saved runs."""
        try:
            names = sorted(os.listdir(self.root), reverse=True)[:MOST_KEPT]  # ids begin with their time
        except OSError:
            return []
        found = (Folder(os.path.join(self.root, name)).load() for name in names)
        return [saved for saved in found if saved is not None]

    def sweep(self) -> None:
        """Delete the runs whose token has expired: neither they nor their reports can be continued."""
        for saved in self.all():
            if _expired(saved.expires):
                self.folder(saved.run_id).delete()


class _Server:
    """The control plane, called as the user."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        if not self.url:
            raise ConfigError("init(project=...) needs the address of the control plane: set SERVICE_SERVER or pass server=")
        if not usable(self.url):
            raise ConfigError(f"the address of the control plane is not an http(s) URL: {self.url!r}")
        if not token:
            raise ConfigError("init(project=...) needs an access token of the user: set SERVICE_TOKEN (POST /api/auth/login returns one)")
        if not _is_token(token):
            raise ConfigError("SERVICE_TOKEN contains a character that is not allowed in an HTTP header")
        self._token = token
        parts = urlsplit(self.url)
        self.host = parts.netloc.rpartition("@")[2]
        self._path = parts.path
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            notice(f"warning: SERVICE_TOKEN is sent to {self.url} without encryption; use https")

    def create(self, request: Request) -> Saved:
        """Create a run."""
        body: Dict[str, Any] = {"name": request.name or _program(), "project": request.project}
        if request.tags:
            body["tags"] = list(request.tags)
        if request.labels:
            body["labels"] = dict(request.labels)
        if request.silence is not None:
            body["silence_s"] = request.silence
        made = self._call("POST", "/api/runs", body)
        try:
            run = made["run"]
            saved = Saved(
                run_id=str(run["id"]),
                endpoint=str(made["endpoint"]).rstrip("/"),
                token=str(made["token"]),
                expires=str(made["token_expires_at"]),
                created=str(run["created_at"]),
                project=request.project,
                name=body["name"],
            )
        except (KeyError, TypeError) as err:
            raise self._other(201) from err
        if not saved.valid():
            raise self._other(201)
        return saved

    def state(self, saved: Saved) -> str:
        """Return the state of a run."""
        return str(self._call("GET", f"/api/runs/{saved.run_id}").get("state"))

    def _call(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        import http.client

        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", "User-Agent": AGENT}
        if content is not None:
            headers["Content-Type"] = "application/json"
        conn = connection(self.url, TIMEOUT)
        try:
            reply = exchange(conn, method, self._path + path, content, headers)
        except (http.client.HTTPException, OSError) as err:
            raise Unreachable(f"{self.url}: {words(err)}") from err
        finally:
            conn.close()
        if reply.transient:
            raise Unreachable(f"{self.url}: HTTP {reply.status}: {_detail(reply)}")
        if not reply.ok:
            remedy = "; check SERVICE_TOKEN" if reply.status == 401 else ""
            raise IngestError("runs", reply.status, _detail(reply) + remedy)
        found = _object(reply)
        if not found:
            raise self._other(reply.status)
        return found

    def _other(self, status: int) -> IngestError:
        return IngestError("runs", status, f"{self.url} is not a Signalbox control plane: check SERVICE_SERVER")


def _object(reply: Reply) -> Dict[str, Any]:
    try:
        found = json.loads(reply.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _detail(reply: Reply) -> str:
    return str(_object(reply).get("detail") or reply.body[:200].decode("utf-8", "replace"))


def _program() -> str:
    """Return the name of the script; "notebook" in an interactive interpreter."""
    name = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    return name if name not in ("", "-", "-c", "-m", "ipykernel_launcher", "ipython", "__main__") else "notebook"


def _is_run_id(text: str) -> bool:
    return text.startswith("run_") and text.isascii() and text[4:].isalnum()


def _is_token(text: str) -> bool:
    """Return whether a text can be sent in an HTTP header."""
    return bool(text) and all(33 <= ord(c) < 127 for c in text)


def _expired(text: str) -> bool:
    """Return whether a time of the control plane has passed. Python 3.9 reads no Z and no fraction of every length."""
    try:
        at = datetime.fromisoformat(re.sub(r"\.[0-9]+", "", text).replace("Z", "+00:00"))
    except ValueError:
        return False
    return at.tzinfo is not None and at < datetime.now(timezone.utc)
