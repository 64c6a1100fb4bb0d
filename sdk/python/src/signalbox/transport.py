"""One keep-alive HTTP connection to the ingest routes. Owned by one thread at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import urlencode, urlsplit

from .errors import Unreachable
from .wire import code

if TYPE_CHECKING:
    import http.client

    from .config import Config

AGENT = "signalbox-python/0.1.0"
MAX_RETRY_AFTER = 300.0  # seconds; longer values are reduced to this, because callers would time out first
# Seconds to wait for the response of a server that has ended the connection before it read the whole request. The
# response was sent before the connection ended.
EARLY = 2.0
# Codes of a 400 for a body that did not arrive whole, for example because a connection on the way was slow.
INCOMPLETE = ("body_cut", "body_incomplete", "body_timeout", "body_unreadable")
MAX_REPLY = 16 * 1024 * 1024  # bytes of a response; further bytes are not read


class Reply(NamedTuple):
    """A response: the status, the body, Retry-After in seconds if present, and the Content-Type."""

    status: int
    body: bytes
    retry_after: Optional[float] = None
    kind: str = ""

    @property
    def ok(self) -> bool:
        """Return whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def transient(self) -> bool:
        """Return whether to repeat the request. A 501 is not repeated, because only a new configuration can help."""
        if self.status == 400:
            return code(self.body) in INCOMPLETE
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
        fresh = self._conn is None or self._conn.sock is None
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
        return _plausible(exchange(self._conn, method, target, content, headers))


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
) -> Reply:
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
        return exchange(conn, "PUT", target, content, sent)
    except (http.client.HTTPException, OSError) as err:
        raise Unreachable(words(err)) from err
    finally:
        conn.close()


def exchange(
    conn: http.client.HTTPConnection, method: str, target: str, content: Any, headers: Dict[str, str]
) -> Reply:
    """Send a request and return the response. Close the connection if it cannot carry another request.

    A server may refuse a request before it has read the whole body (413, 401), and close the connection. Sending the
    rest of the body then fails, but the response has arrived and is returned. Raises OSError or HTTPException if there
    is no usable response.
    """
    try:
        conn.request(method, target, body=content, headers=headers)
    except OSError as err:
        try:
            return _early(conn, err)
        finally:
            conn.close()
    reply, whole = _reply(conn.getresponse())
    if not whole:
        conn.close()
    return reply


def _early(conn: http.client.HTTPConnection, fault: OSError) -> Reply:
    """Return the refusal of a server that ended the connection before it read the whole request.

    Raise `fault`, the error of sending, if there is none. A success does not count, because the server cannot have read
    the request.
    """
    import http.client

    if conn.sock is None:  # the connection could not be opened
        raise fault
    conn.sock.settimeout(EARLY)
    try:
        reply, _ = _reply(conn.getresponse())
    except (http.client.HTTPException, OSError):
        raise fault from None
    if reply.ok:
        raise fault
    return reply


def _reply(response: http.client.HTTPResponse) -> Tuple[Reply, bool]:
    """Read the body of a response. Return the response, and whether the body is complete.

    The status and the headers of a refusal say enough, so a part of its body suffices. A success must be complete.
    """
    import http.client

    most = MAX_REPLY if response.length is None else min(response.length, MAX_REPLY)
    try:
        content = response.read(most)
        whole = not response.length and len(content) < MAX_REPLY
    except http.client.IncompleteRead as err:
        content, whole = err.partial, False
    except OSError:
        if response.status < 300:
            raise
        content, whole = b"", False
    if response.status < 300 and not whole:
        raise http.client.IncompleteRead(content)
    kind = response.getheader("Content-Type") or ""
    return Reply(response.status, content, _wait(response.getheader("Retry-After") or ""), kind), whole


def _plausible(reply: Reply) -> Reply:
    """Return the response, or a 502 if it is a page of a proxy and not a response of the control plane."""
    if reply.ok and reply.body and "json" not in reply.kind:
        return reply._replace(status=502)
    return reply


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
