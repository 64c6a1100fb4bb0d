"""The control plane, called as a user to create and to read runs without a job."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Mapping, Optional
from urllib.parse import urlsplit

from .config import usable
from .errors import ConfigError, IngestError, Unreachable
from .kept import Saved, is_token
from .notices import notice
from .transport import AGENT, Reply, connection, exchange, words

LOOPBACK = ("localhost", "127.0.0.1", "::1")
STATES = ("running", "succeeded", "failed")  # of a run without a job
TIMEOUT = 30.0  # seconds for each request


class Server:
    """The control plane, called as the user."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        if not self.url:
            raise ConfigError("init(project=...) needs the address of the control plane: set SERVICE_SERVER or pass server=")
        if not usable(self.url):
            raise ConfigError(f"the address of the control plane is not an http(s) URL: {self.url!r}")
        if not token:
            raise ConfigError("init(project=...) needs an access token of the user: set SERVICE_TOKEN (POST /api/auth/login returns one)")
        if not is_token(token):
            raise ConfigError("SERVICE_TOKEN contains a character that is not allowed in an HTTP header")
        self._token = token
        parts = urlsplit(self.url)
        if "@" in parts.netloc:
            raise ConfigError("the address of the control plane must have no user name or password: set SERVICE_TOKEN instead")
        self.place = re.sub(r"[^A-Za-z0-9.-]", "_", parts.netloc + parts.path)  # the name of the server's folder
        self._path = parts.path
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            notice(f"warning: SERVICE_TOKEN is sent to {self.url} without encryption; use https")

    def create(self, body: Mapping[str, Any]) -> Saved:
        """Create a run with the body of POST /api/runs."""
        made = self._call("POST", "/api/runs", body)
        try:
            run = made["run"]
            saved = Saved(
                run_id=str(run["id"]),
                endpoint=str(made["endpoint"]).rstrip("/"),
                token=str(made["token"]),
                expires=str(made["token_expires_at"]),
                created=str(run["created_at"]),
                project=str(body["project"]),
                name=str(body["name"]),
            )
        except (KeyError, TypeError) as err:
            raise self._other(201) from err
        if not saved.valid():
            raise self._other(201)
        return saved

    def state(self, run_id: str) -> Optional[str]:
        """Return the state of a run, or None if it does not exist for this user."""
        try:
            found = self._call("GET", f"/api/runs/{run_id}")
        except IngestError as err:
            if err.status == 404:
                return None
            raise
        if found.get("id") != run_id or found.get("state") not in STATES:
            raise self._other(200)
        return str(found["state"])

    def _call(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        import http.client

        content = None if body is None else json.dumps(dict(body)).encode()
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
