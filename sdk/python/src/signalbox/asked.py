"""What the control plane asks of a run while it trains: to save a checkpoint, to leave, to stop.

A thread of its own waits for it, from the first time that the training looks. A run that never looks
never asks: the control plane then knows that it cannot be paused in the middle of its work.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional

from .config import Config
from .errors import IngestError, Unreachable
from .policy import Policy, backoff, draw
from .transport import Reply, Transport
from .wire import detail, encode

NONE, CHECKPOINT, PAUSE, STOP = "none", "checkpoint", "pause", "stop"


class Paused(SystemExit):
    """The checkpoint is stored and the run is paused: the process ends here, with status 0."""

    def __init__(self) -> None:
        super().__init__(0)


class Signal(NamedTuple):
    """What is asked now; `id` names the asking, `deadline` is when it is done without the training."""

    signal: str = NONE
    id: str = ""
    deadline: Optional[str] = None


Callback = Callable[[Signal], None]


class Asked:
    """Knows what is asked, from a thread that waits for it. Safe to use from several threads."""

    def __init__(self, config: Config, policy: Policy) -> None:
        self._config = config
        self._policy = policy
        self._lock = threading.Lock()
        self._now = Signal()
        self._answered = ""
        self._pid = 0  # of the process whose thread waits
        self._ended = False
        self._callbacks: List[Callback] = []

    def now(self) -> Signal:
        """What is asked and not answered yet; the first call begins to wait for it."""
        self._start()
        with self._lock:
            return Signal() if self._now.id == self._answered else self._now

    def call(self, callback: Callback) -> None:
        """Call with every new signal, on the thread that waits."""
        with self._lock:
            self._callbacks.append(callback)
        self._start()

    def leaving(self) -> bool:
        """The run is being paused: its end is no end of the training."""
        return self._now.signal == PAUSE

    def answer(self, asked: Signal) -> Signal:
        """Say that it is done; what is asked next. Loud where the control plane refuses it."""
        body = encode({"run_id": self._config.run_id, "id": asked.id})
        transport = Transport(self._config, self._policy.request_timeout)
        deadline = time.monotonic() + self._policy.settle_timeout
        failures = 0
        try:
            while True:
                fault = ""
                try:
                    reply = transport.send("signals/ack", body)
                    if reply.ok:
                        return self._took(asked, _read(reply))
                    fault = detail(reply.body)
                    if not reply.transient or time.monotonic() > deadline:
                        raise IngestError("signals/ack", reply.status, fault)
                except Unreachable as err:
                    if time.monotonic() > deadline:
                        raise IngestError("signals/ack", 503, str(err)) from err
                failures += 1
                time.sleep(backoff(self._policy, failures, draw()))
        finally:
            transport.close()

    def end(self) -> None:
        """Wait no more."""
        self._ended = True

    def _took(self, answered: Signal, then: Signal) -> Signal:
        with self._lock:
            self._answered = answered.id
            if then.signal != NONE:
                self._now = then
        return then

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid() or self._ended:
                return
            self._pid = os.getpid()  # a forked child has no thread of its parent's
            threading.Thread(target=self._wait, name="signalbox-signals", daemon=True).start()

    def _wait(self) -> None:
        wait = self._policy.signal_wait
        transport = Transport(self._config, wait + self._policy.request_timeout)
        failures = 0
        while not self._ended:
            query: Dict[str, object] = {"run_id": self._config.run_id, "wait": int(wait)}
            if self._now.id:
                query["after"] = self._now.id
            try:
                reply = transport.get("signals", query)
            except Exception:  # whatever it is, this thread lives on and tries again
                reply = Reply(503, b"")
            if reply.ok:
                failures = 0
                self._hear(_read(reply))
                continue
            if not reply.transient:
                break  # the run is over, or this control plane asks nothing
            failures += 1
            time.sleep(max(backoff(self._policy, failures, draw()), reply.retry_after or 0.0))
        transport.close()

    def _hear(self, heard: Signal) -> None:
        with self._lock:
            news = heard.id != self._now.id
            self._now = heard
            callbacks = list(self._callbacks) if news and heard.id else []
        for callback in callbacks:
            callback(heard)


class Unasked:
    """Offline nobody asks for anything."""

    def now(self) -> Signal:
        """Nothing."""
        return Signal()

    def call(self, callback: Callback) -> None:
        """Never called."""

    def leaving(self) -> bool:
        """Never."""
        return False

    def answer(self, asked: Signal) -> Signal:
        """Nothing follows."""
        return Signal()

    def end(self) -> None:
        """Nothing waits."""


def _read(reply: Reply) -> Signal:
    """An answer's signal; nothing is asked where it cannot be read."""
    try:
        found = json.loads(reply.body)
    except ValueError:
        return Signal()
    if not isinstance(found, dict) or not isinstance(found.get("signal"), str):
        return Signal()
    return Signal(found["signal"], found.get("id") or "", found.get("deadline"))
