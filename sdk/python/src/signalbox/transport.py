"""One keep-alive HTTP connection to the ingest routes. Owned by one thread at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import urlencode, urlsplit

from .errors import Unreachable

if TYPE_CHECKING:
    import http.client

    from .config import Config

AGENT = "signalbox-python/0.1.0"
MAX_RETRY_AFTER = 300.0  # seconds; longer values are reduced to this, because callers would time out first


class Reply(NamedTuple):
    """A response: the status, the body, and Retry-After in seconds if present."""

    status: int
    body: bytes
    retry_after: Optional[float] = None

    @property
    def ok(self) -> bool:
        """Return whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def transient(self) -> bool:
        """Return whether to repeat the request. A 501 is not repeated, because only a new configuration can help."""
        return self.status in (408, 429) or (self.status >= 500 and self.status != 501)


class Transport:
    """Sends requests to the current base URL, with the run's token."""

    def __init__(self, config: Config, timeout: float) -> None:
        self._config = config
        self.endpoint = ""
        self._token = config.token
        self._timeout = timeout
        self._conn: Optional[http.client.HTTPConnection] = None

    def post(self, route: str, key: str, content: bytes) -> Reply:
        """POST a JSON body. Raises Unreachable if there is no usable response."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return self._send("POST", route, content, headers)

    def send(self, route: str, content: bytes) -> Reply:
        """POST a JSON body that is safe to repeat. Raises Unreachable if there is no usable response."""
        return self._send("POST", route, content, {"Content-Type": "application/json"})

    def get(self, route: str, query: Mapping[str, object]) -> Reply:
        """GET with a query. Raises Unreachable if there is no usable response."""
        return self._send("GET", f"{route}?{urlencode(query)}", None, {})

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _send(
        self, method: str, route: str, content: Optional[bytes], extra: Dict[str, str]
    ) -> Reply:
        import http.client

        self._follow()
        target = f"{urlsplit(self.endpoint).path}/{route}"
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Accept": "application/json",
            "User-Agent": AGENT,
            **extra,
        }
        fresh = self._conn is None
        try:
            return self._exchange(method, target, content, headers)
        except (http.client.HTTPException, OSError) as err:
            self.close()
            if fresh or not isinstance(err, (ConnectionError, http.client.HTTPException)):
                raise Unreachable(words(err)) from err
        # If the server closed an idle connection, retry at once.
        try:
            return self._exchange(method, target, content, headers)
        except (http.client.HTTPException, OSError) as err:
            self.close()
            raise Unreachable(words(err)) from err

    def _follow(self) -> None:
        """Close the connection if the address of the control plane has changed."""
        now = self._config.current()
        if now != self.endpoint:
            self.close()
            self.endpoint = now

    def _exchange(
        self, method: str, target: str, content: Optional[bytes], headers: Dict[str, str]
    ) -> Reply:
        if self._conn is None:
            self._conn = connection(self.endpoint, self._timeout)
        self._conn.request(method, target, body=content, headers=headers)
        return _reply(self._conn.getresponse())


def warm() -> None:
    """Import the modules that the first request needs.

    Otherwise the sender's thread would import them, and a fork during that import would leave the child with
    an incomplete module.
    """
    import encodings.idna
    import http.client

    del encodings, http


def connection(address: str, timeout: float) -> http.client.HTTPConnection:
    """Return an unopened connection to the host of an http(s) URL."""
    import http.client

    parts = urlsplit(address)
    if parts.scheme == "https":
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)


def put(
    url: str, headers: Mapping[str, str], content: Any, size: int, timeout: float
) -> Tuple[int, bytes]:
    """PUT `size` bytes from a file to a signed URL, on a separate connection."""
    import http.client

    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    conn = connection(url, timeout)
    conn.blocksize = 1 << 20
    sent = {k: v for k, v in headers.items() if k.lower() not in ("content-length", "host")}
    sent["Content-Length"] = str(size)
    sent.setdefault("User-Agent", AGENT)
    try:
        try:
            conn.request("PUT", target, body=content, headers=sent)
        except (BrokenPipeError, ConnectionResetError):
            # The server may have responded (413, 403) before it read the whole body: use that response.
            if conn.sock is None:
                raise
        response = conn.getresponse()
        return response.status, response.read(65536)
    except (http.client.HTTPException, OSError) as err:
        raise Unreachable(words(err)) from err
    finally:
        conn.close()


def _reply(response: http.client.HTTPResponse) -> Reply:
    content = response.read()
    wait = _wait(response.getheader("Retry-After", ""))
    status = response.status
    kind = response.getheader("Content-Type", "")
    if 200 <= status < 300 and content and "json" not in kind:
        # A page of a proxy is not a response of the control plane.
        status = 502
    return Reply(status, content, wait)


def _wait(after: str) -> Optional[float]:
    """Parse Retry-After, which contains seconds or a date. Return seconds from now, or None if missing or invalid."""
    if not after:
        return None
    if after.isdigit():
        return min(float(after), MAX_RETRY_AFTER)
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(after).timestamp()
    except (TypeError, ValueError):
        return None
    return min(max(0.0, at - time.time()), MAX_RETRY_AFTER)


def words(err: BaseException) -> str:
    """Return the type and message of an error."""
    return f"{type(err).__name__}: {err}" if str(err) else type(err).__name__
