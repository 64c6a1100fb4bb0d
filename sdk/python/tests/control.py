"""A control plane for tests, with a real HTTP server and faults on demand.

As with the real control plane, a request may be stored although its response is lost. A request with the
(stream, writer, seq) of an earlier one gets a response but is not stored again. If its body differs, it is
recorded as a conflict, which no test expects unless it provokes one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple
from urllib.parse import parse_qs, urlsplit

from runs import Runs
from signalbox.capture import fold

Key = Tuple[str, str, int]  # stream, writer, seq
TOKEN = "ing_test"
USER = "svc_user"  # the token of the user, which creates runs


class Control(Runs):
    """The state of the control plane. It is kept when a test stops and restarts the server."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: Dict[Key, bytes] = {}
        self.order: List[Key] = []
        self.requests = 0
        self.repeats = 0
        self.conflicts: List[Key] = []
        self.connections = 0
        self.blobs: Dict[str, bytes] = {}
        self.tickets: List[Dict[str, List[str]]] = []
        self.headers: List[Dict[str, str]] = []
        self.paths: List[str] = []  # the paths of the POST requests
        self.script: Deque[str] = deque()  # faults for the next ingest requests, in order
        self.script_for: Dict[str, Deque[str]] = defaultdict(deque)  # faults for the next requests of each route
        self.early: Dict[str, str] = {}  # how the requests of each route are cut: see _Handler._cut
        self.early_once: Dict[str, str] = {}  # the same for one request of each route
        self.cuts = 0  # the number of requests that were cut
        self.narrow = False  # use small buffers, so that a client is still sending when its request is cut
        self.over = threading.Event()
        self.chaos: Optional[random.Random] = None
        self.refuse: Dict[str, Tuple[int, Any]] = {}  # the status and detail with which each stream is refused
        self.refusal_code = "invalid"  # the code of these responses
        # Returns the status and code with which a request of a stream is refused, depending on its body; None if it is not.
        self.judge: Callable[[str, Any], Optional[Tuple[int, str]]] = lambda stream, body: None
        self.refusals: List[str] = []  # the streams of the requests that were refused because of `refuse` or `judge`
        self.watermarks = False
        self.asked = 0  # the number of requests for the watermark
        self.retry_after = "0"  # the Retry-After of responses with status 503
        self.waits: List[Dict[str, List[str]]] = []  # requests for a signal
        self.acks: List[Any] = []
        self.acked_after = 0  # the number of artifacts stored before the first signal was acknowledged
        self._signal = {"signal": "none", "id": None, "deadline": None}
        self._then = self._signal
        self._asked = threading.Condition()
        self.port = 0
        self._server: Optional[_Server] = None

    def start(self) -> str:
        """Start the server and return the endpoint. After a restart, the port is the same."""
        server = _Server(("127.0.0.1", self.port), _Handler)
        server.control = self
        if self.narrow:
            server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.over.clear()
        self.port = server.server_address[1]
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{self.port}/api/ingest"

    def stop(self) -> None:
        """Close the listener and all connections abruptly, as if the process was killed."""
        server, self._server = self._server, None
        self.over.set()
        if server is not None:
            server.shutdown()
            server.server_close()
            server.cut()

    def ask(self, signal: str, id: str, then: Tuple[str, str] = ("none", "")) -> None:
        """Set the current signal. `then` is the next signal, which the response to its acknowledgement contains."""
        with self._asked:
            self._signal = {"signal": signal, "id": id, "deadline": None}
            self._then = {"signal": then[0], "id": then[1] or None, "deadline": None}
            self._asked.notify_all()

    def signal(self, query: Dict[str, List[str]]) -> Any:
        """Return the current signal, at once if it is new, otherwise after a short time."""
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
        """Return the stored bodies of a stream, in the order of arrival."""
        with self.lock:
            return [json.loads(self.stored[k]) for k in self.order if k[0] == stream]

    def points(self) -> List[Tuple[str, int, Any]]:
        """Return all stored metric points as (key, step, value)."""
        found = self.bodies("metrics")
        return [(p["key"], p["step"], p["value"]) for body in found for p in body["points"]]

    def lines(self) -> str:
        """Return the stored log."""
        return "".join("".join(body["chunks"]) for body in self.bodies("logs"))

    def screen(self) -> List[str]:
        """Return the lines of the log as a terminal shows them."""
        return [fold(line) for line in self.lines().rstrip("\n").split("\n")]

    def events(self) -> List[str]:
        """Return the stored lifecycle events."""
        return [body["event"] for body in self.bodies("lifecycle")]

    def gaps(self) -> List[Tuple[str, str]]:
        """Return the (stream, writer) pairs whose sequence numbers are not 1..n."""
        with self.lock:
            seqs: Dict[Tuple[str, str], List[int]] = {}
            for stream, writer, seq in self.stored:
                seqs.setdefault((stream, writer), []).append(seq)
        return [k for k, v in seqs.items() if sorted(v) != list(range(1, len(v) + 1))]

    def fault(self, route: str) -> str:
        """Return the fault for the next request of the route, or "" for no fault."""
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

    def cut(self, route: str) -> str:
        """Return how the next request of the route is cut, or "" if it is not."""
        with self.lock:
            how = self.early_once.pop(route, "") or self.early.get(route, "")
            self.cuts += bool(how)
            return how

    def store(self, stream: str, key: str, body: bytes) -> Tuple[int, Any]:
        """Store a request unless it is a repetition. Return the status and body of the response."""
        writer, _, seq = key.partition(":")
        name = (stream, writer, int(seq))
        with self.lock:
            if stream in self.refuse:
                self.refusals.append(stream)
                status, detail = self.refuse[stream]
                return status, {"detail": detail, "code": self.refusal_code}
            judged = self.judge(stream, json.loads(body))
            if judged is not None:
                self.refusals.append(stream)
                return judged[0], {"detail": "refused on purpose", "code": judged[1]}
            if name in self.stored:
                self.repeats += 1
                if self.stored[name] != body:
                    self.conflicts.append(name)
                    return 409, {"detail": "another body with this key"}
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
    disable_nagle_algorithm = True  # headers and body are written separately
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        control, path = self.server.control, urlsplit(self.path).path
        route = ROUTES.get(path, path.rpartition("/")[2])
        control.paths.append(path)
        if how := control.cut(route):
            return self._cut(how)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) < int(self.headers["Content-Length"]):
            return self._drop()  # the client was killed while it was sending
        if path == "/api/runs":
            return self._create(body)
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self._answer(401, {"detail": "no such token"})
        control.headers.append(dict(self.headers.items()))
        fault = control.fault(route)
        if fault == "drop":
            return self._drop()
        if fault[:3].isdigit():
            return self._fault(fault)
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
        how = control.cut("upload-url" if parts.path.endswith("/upload-url") else parts.path.rpartition("/")[2])
        if how:
            return self._cut(how)
        if parts.path.startswith("/api/runs/"):
            return self._state(parts.path.rpartition("/")[2])
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self._answer(401, {"detail": "no such token"})
        if parts.path.endswith("/watermark"):
            return self._watermark(control)
        if parts.path.endswith("/signals"):
            return self._signals(control, parse_qs(parts.query))
        fault = control.fault("upload-url")
        if fault[:3].isdigit():
            return self._fault(fault)
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
        if how := control.cut("put"):
            return self._cut(how)
        fault = control.fault("put")
        if fault in ("drop", "413"):  # both close the connection before the body is read
            self.close_connection = True
            return self._drop() if fault == "drop" else self._answer(413, {"detail": "too large"})
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if fault[:3].isdigit():
            return self._fault(fault)
        if hashlib.sha256(body).hexdigest() != self.headers["X-Sha"]:
            return self._answer(400, {"detail": "digest"})
        control.blobs[f"blob://{name}"] = body
        if fault == "lose":
            return self._drop()
        self._answer(200, {})

    def _create(self, body: bytes) -> None:
        fault = self.server.control.fault("runs")
        if fault == "drop":
            return self._drop()
        if fault == "html":
            return self._answer(201, "<html>", kind="text/html")
        if fault.isdigit():
            return self._answer(int(fault), {"detail": "fault on demand"})
        if self.headers["Authorization"] != f"Bearer {USER}":
            return self._answer(401, {"detail": "no such token"})
        endpoint = f"http://127.0.0.1:{self.server.control.port}/api/ingest"
        self._answer(201, self.server.control.create(json.loads(body), endpoint, TOKEN))

    def _state(self, run_id: str) -> None:
        if self.server.control.state_answer is not None:
            return self._answer(200, self.server.control.state_answer)
        state = self.server.control.states.get(run_id)
        if state is None or self.headers["Authorization"] != f"Bearer {USER}":
            return self._answer(404, {"detail": "no such run"})
        self._answer(200, {"id": run_id, "state": state})

    def _signals(self, control: Control, query: Dict[str, List[str]]) -> None:
        fault = control.fault("signals")
        if fault == "drop":
            return self._drop()
        if fault[:3].isdigit():
            return self._fault(fault)
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

    def _fault(self, fault: str) -> None:
        """Send a status and, if it follows after a space, the code of an error."""
        status, _, code = fault.partition(" ")
        self._answer(int(status), {"detail": "fault on demand", "code": code}, retry=status == "503")

    def _drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _cut(self, how: str) -> None:
        """Read a part of the body, and then reset the connection as a real server does that does not read the rest.

        `how` is the status of a response that is sent first, "half STATUS" for half of this response, or "silent" for
        none. The connection stays open after "hang", which sends none, and "stall STATUS", which sends half.
        """
        self.close_connection = True
        self.rfile.read(min(int(self.headers["Content-Length"] or 0) // 2, 2048))
        mode, _, status = how.rpartition(" ")
        if status.isdigit():
            self._answer(int(status), {"detail": "refused early"}, half=bool(mode))
        if how == "hang" or mode == "stall":
            self.server.control.over.wait(30)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _answer(
        self, status: int, answer: Any, kind: str = "application/json", retry: bool = False, half: bool = False
    ) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if retry:
            self.send_header("Retry-After", self.server.control.retry_after)
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if half else content)
