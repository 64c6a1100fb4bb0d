"""Upload a file through a signed URL: request the URL, PUT the bytes, return the object URI."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, Optional
from urllib.parse import urljoin

from .config import Config
from .errors import IngestError, SignalboxError, UndeliveredError, Unreachable
from .pack import digest
from .policy import Policy, backoff, draw
from .transport import Reply, Transport, put
from .wire import detail

# A signed URL may expire or become invalid when its issuer restarts. After this many refusals the upload fails.
REFUSALS = 3
# The store verifies an upload before it responds. The timeout assumes at least this speed, in bytes per second.
SLOWEST = 20e6


class Upload:
    """Uploads one file to the object store, even if the control plane restarts meanwhile."""

    def __init__(self, config: Config, policy: Policy) -> None:
        self._config = config
        self._policy = policy
        self._transport = Transport(config, policy.request_timeout)

    def send(self, file: str, kind: str, name: str) -> Dict[str, Any]:
        """Upload `file` as the output `name`, a path; return {"path": object URI, "size_bytes": int}."""
        size, sha256 = digest(file)
        query = {
            "run_id": self._config.run_id,
            "kind": kind,
            "path": self._name(name),
            "size_bytes": size,
            "sha256": sha256,
        }
        try:
            return {"path": self._until_stored(file, size, query), "size_bytes": size}
        finally:
            self._transport.close()

    def _name(self, path: str) -> str:
        """Return the path as the artifact keeps it: relative to the working folder if it is inside, in UTF-8."""
        full = os.path.abspath(path)
        root = os.path.abspath(self._config.workdir) if self._config.workdir else ""
        inside = bool(root) and full.startswith(root + os.sep)
        name = os.path.relpath(full, root).replace(os.sep, "/") if inside else os.path.basename(full)
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def _until_stored(self, file: str, size: int, query: Dict[str, object]) -> str:
        deadline = time.monotonic() + self._policy.settle_timeout
        failures, refusals = 0, 0
        while True:
            fault, pause = "", 0.0
            try:
                reply = self._transport.get("artifact/upload-url", query)
                if reply.ok:
                    ticket = _ticket(reply)
                    reply = self._put(ticket, file, size)
                    if reply.ok:
                        return str(ticket["object_uri"])
                    refusals += not reply.transient
                elif not reply.transient:
                    refusals = REFUSALS
                if refusals >= REFUSALS:
                    raise IngestError("artifact upload", reply.status, detail(reply.body))
                fault, pause = f"HTTP {reply.status}: {detail(reply.body)}", reply.retry_after or 0
            except Unreachable as err:
                fault = str(err)
            failures += 1
            pause = max(pause, backoff(self._policy, failures, draw()))
            if time.monotonic() + pause > deadline:
                raise UndeliveredError(0, None, fault, file)
            time.sleep(pause)

    def _put(self, ticket: Dict[str, Any], file: str, size: int) -> Reply:
        url = urljoin(self._config.current(), str(ticket["url"]))
        headers = {str(k): str(v) for k, v in (ticket.get("headers") or {}).items()}
        with open(file, "rb") as content:
            patience = self._policy.request_timeout + size / SLOWEST
            return put(url, headers, content, size, patience)


def _ticket(reply: Reply) -> Dict[str, Any]:
    try:
        ticket: Optional[Any] = json.loads(reply.body)
    except ValueError:
        ticket = None
    if not isinstance(ticket, dict) or not ticket.get("url") or not ticket.get("object_uri"):
        raise SignalboxError("the response of artifact/upload-url has no url or no object_uri")
    return ticket
