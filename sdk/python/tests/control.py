"""A control plane for tests: real HTTP, real sockets, and faults on demand.

It keeps what it stores apart from what it answers, as the real one does: a request may be stored
and its answer lost. The same (stream, writer, seq) again is answered and not stored; the same key
with another body is a conflict that the tests look for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import socket
import threading
import time
from collections import defaultdict, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Deque, Dict, List, Optional, Tuple
from urllib.parse import parse_qs, urlsplit

Key = Tuple[str, str, int]  # stream, writer, seq
TOKEN = "ing_test"


class Control:
    """State that outlives the server, so that a test can kill and restart the server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stored: Dict[Key, bytes] = {}
        self.order: List[Key] = []
        self.requests = 0
        self.repeats = 0
        self.conflicts: List[Key] = []
        self.connections = 0
        self.blobs: Dict[str, bytes] = {}
        self.tickets: List[Dict[str, List[str]]] = []
        self.headers: List[Dict[str, str]] = []
        self.paths: List[str] = []  # of the POSTs
        self.script: Deque[str] = deque()  # faults for the next ingest requests, in order
        self.script_for: Dict[str, Deque[str]] = defaultdict(deque)  # the same for one route
        self.chaos: Optional[random.Random] = None
        self.refuse: Dict[str, Tuple[int, Any]] = {}  # route: status, detail
        self.watermarks = False
        self.asked = 0  # how often the watermark was read
        self.retry_after = "0"  # of a 503
        self.waits: List[Dict[str, List[str]]] = []  # requests for a signal
        self.acks: List[Any] = []
        self.acked_after = 0  # artifacts stored before the first acknowledged signal
        self._signal = {"signal": "none", "id": None, "deadline": None}
        self._then = self._signal
        self._asked = threading.Condition()
        self.port = 0
        self._server: Optional[_Server] = None

    def start(self) -> str:
        """Listen, on the same port after a restart; return the endpoint."""
        server = _Server(("127.0.0.1", self.port), _Handler)
        server.control = self
        self.port = server.server_address[1]
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{self.port}/api/ingest"

    def stop(self) -> None:
        """Close the listener and all connections at once, as if killed."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.cut()

    def ask(self, signal: str, id: str, then: Tuple[str, str] = ("none", "")) -> None:
        """Set a signal; `then` is the response to its acknowledgement."""
        with self._asked:
            self._signal = {"signal": signal, "id": id, "deadline": None}
            self._then = {"signal": then[0], "id": then[1] or None, "deadline": None}
            self._asked.notify_all()

    def signal(self, query: Dict[str, List[str]]) -> Any:
        """Return the signal, at once if it is new, else after a moment."""
        with self._asked:
            self.waits.append(query)
            after = query.get("after", [None])[0]
            if self._signal["id"] in (None, after):
                self._asked.wait(0.2)
            return self._signal

    def ack(self, body: Any) -> Any:
        """Accept an acknowledgement."""
        with self._asked:
            if not self.acks:
                self.acked_after = len(self.bodies("artifact"))
            self.acks.append(body)
            self._signal = self._then
            return {"ok": True, **self._then}

    def bodies(self, stream: str) -> List[Any]:
        """What is stored of a stream, in the order of arrival."""
        with self.lock:
            return [json.loads(self.stored[k]) for k in self.order if k[0] == stream]

    def points(self) -> List[Tuple[str, int, Any]]:
        """All stored metric points."""
        found = self.bodies("metrics")
        return [(p["key"], p["step"], p["value"]) for body in found for p in body["points"]]

    def lines(self) -> str:
        """The stored log."""
        return "".join("".join(body["chunks"]) for body in self.bodies("logs"))

    def events(self) -> List[str]:
        """Stored lifecycle events."""
        return [body["event"] for body in self.bodies("lifecycle")]

    def gaps(self) -> List[Tuple[str, str]]:
        """(stream, writer) pairs whose sequence is not 1..n."""
        with self.lock:
            seqs: Dict[Tuple[str, str], List[int]] = {}
            for stream, writer, seq in self.stored:
                seqs.setdefault((stream, writer), []).append(seq)
        return [k for k, v in seqs.items() if sorted(v) != list(range(1, len(v) + 1))]

    def fault(self, route: str) -> str:
        """Return the fault for this request, "" for none."""
        with self.lock:
            self.requests += 1
            own = self.script_for.get(route)
            if own:
                return own.popleft()
            if self.script:
                return self.script.popleft()
            if self.chaos is None:
                return ""
            return self.chaos.choice(FAULTS) if self.chaos.random() < 0.5 else ""

    def store(self, stream: str, key: str, body: bytes) -> Tuple[int, Any]:
        """Store once; return the response."""
        writer, _, seq = key.partition(":")
        name = (stream, writer, int(seq))
        with self.lock:
            if stream in self.refuse:
                status, detail = self.refuse[stream]
                return status, {"detail": detail}
            if name in self.stored:
                self.repeats += 1
                if self.stored[name] != body:
                    self.conflicts.append(name)
                    return 409, {"detail": "another body under this key"}
            else:
                self.stored[name] = body
                self.order.append(name)
        return 200, {"ok": True, "inserted": len(json.loads(body).get("points", []))}


FAULTS = ["drop", "lose", "500", "502", "503", "double", "slow", "html"]


# Routes whose last segment is not the stream name.
ROUTES = {"/api/ingest/environment/nodes": "environment_nodes", "/api/ingest/signals/ack": "signals_ack"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    control: Control

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.socks: List[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self.socks.append(request)
        self.control.connections += 1
        super().process_request(request, client_address)

    def cut(self) -> None:
        for sock in self.socks:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        control, path = self.server.control, urlsplit(self.path).path
        route = ROUTES.get(path, path.rpartition("/")[2])
        control.paths.append(path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) < int(self.headers["Content-Length"]):
            return self._drop()  # the client was killed while it sent
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self._answer(401, {"detail": "no such token"})
        control.headers.append(dict(self.headers.items()))
        fault = control.fault(route)
        if fault == "drop":
            return self._drop()
        if fault.isdigit():
            return self._answer(int(fault), {"detail": "fault on demand"}, retry=fault == "503")
        if route == "signals_ack":
            if fault == "html":
                return self._answer(200, "<html>", kind="text/html")
            return self._answer(200, control.ack(json.loads(body)))
        status, answer = control.store(route, self.headers["Idempotency-Key"], body)
        if fault == "double":
            control.store(route, self.headers["Idempotency-Key"], body)
        if fault == "lose":
            return self._drop()
        if fault == "slow":
            time.sleep(0.02)
        if fault == "html":
            return self._answer(200, "<html>", kind="text/html")
        self._answer(status, answer)

    def do_GET(self) -> None:
        control, parts = self.server.control, urlsplit(self.path)
        if parts.path.endswith("/watermark"):
            return self._watermark(control)
        if parts.path.endswith("/signals"):
            return self._signals(control, parse_qs(parts.query))
        fault = control.fault("upload-url")
        if fault.isdigit():
            return self._answer(int(fault), {"detail": "fault on demand"})
        if fault:
            return self._drop()
        query = parse_qs(parts.query)
        with control.lock:
            control.tickets.append(query)
            name = f"{len(control.tickets)}-{query['sha256'][0]}"
        url = f"/api/blobs/{name}?signature=x"
        uri = f"blob://{name}"
        headers = {"X-Sha": query["sha256"][0]}
        self._answer(200, {"url": url, "method": "PUT", "headers": headers, "object_uri": uri})

    def do_PUT(self) -> None:
        control, name = self.server.control, urlsplit(self.path).path.rpartition("/")[2]
        fault = control.fault("put")
        if fault in ("drop", "413"):  # with or without a response, before the body was read
            self.close_connection = True
            return self._drop() if fault == "drop" else self._answer(413, {"detail": "too large"})
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if fault.isdigit():
            return self._answer(int(fault), {"detail": "fault on demand"})
        if hashlib.sha256(body).hexdigest() != self.headers["X-Sha"]:
            return self._answer(400, {"detail": "digest"})
        control.blobs[f"blob://{name}"] = body
        if fault == "lose":
            return self._drop()
        self._answer(200, {})

    def _signals(self, control: Control, query: Dict[str, List[str]]) -> None:
        fault = control.fault("signals")
        if fault == "drop":
            return self._drop()
        if fault.isdigit():
            return self._answer(int(fault), {"detail": "fault on demand"}, retry=fault == "503")
        if fault == "html":
            return self._answer(200, "<html>", kind="text/html")
        self._answer(200, control.signal(query))

    def _watermark(self, control: Control) -> None:
        if not control.watermarks:
            return self._answer(404, {"detail": "not here"})
        control.asked += 1
        marks: Dict[str, Dict[str, int]] = {}
        with control.lock:
            for stream, writer, seq in sorted(control.stored):
                if marks.setdefault(stream, {}).get(writer, 0) == seq - 1:
                    marks[stream][writer] = seq
        self._answer(200, marks)

    def _drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _answer(
        self, status: int, answer: Any, kind: str = "application/json", retry: bool = False
    ) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if retry:
            self.send_header("Retry-After", self.server.control.retry_after)
        self.end_headers()
        self.wfile.write(content)
